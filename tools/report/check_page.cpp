#include "tools/report/check_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/alltoall/workspace.h"
#include "model/check/finding_info.h"
#include "model/step/engine.h"
#include "sim/scenario/witness_steps.h"
#include "tools/check/check_formats.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/report/page.h"
#include "tools/report/parts.h"
#include "tools/report/replay_page.h"
#include "tools/report/strip.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kWitnessHidden = 64;

bool is_note(const CheckFinding& finding) { return finding.severity == Severity::note; }

void add_findings(const CheckReport& report, Json& values) {
  Json found = Json::array(), notes = Json::array();
  for (const CheckFinding& finding : report.findings) {
    if (is_note(finding)) {
      notes.push_back({{"phase", finding.phase == Phase::start ? "" : phase_title(finding.phase)},
                       {"message", html_flags(finding.message)},
                       {"fix", html_flags(capitalised(finding.fix))}});
      continue;
    }
    found.push_back({{"severity", capitalised(name(finding.severity))},
                     {"title", spaced(name(finding.kind))},
                     {"about", finding_info(finding.kind).what},
                     {"phase", phase_title(finding.phase)}});
    found.back().update(finding_values(finding));
  }
  values["found"] = std::move(found);
  if (!notes.empty()) values["notes"] = {{"list", std::move(notes)}};
}

void add_deployment(const CheckForPage& check, Json& values) {
  const CheckReport& report = check.report;
  if (!report.backend.empty()) values["topology"] = topology_values(report.topology);
  values["backend"] = report.backend;
  if (report.generation != nullptr) values["version"] = version_words(*report.generation);
  if (check.model)
    values["model"] = fmt::format("{} experts, top_k {}, hidden_size {}", check.model->num_experts, check.model->top_k,
                                  check.model->hidden_size);
  values["launch"] = cut(check.launch, 8000);
}

Json sizes_values(const CheckReport& report) {
  Json out;
  if (report.capacity && report.workspace_known) {
    const Capacity& capacity = *report.capacity;
    const std::int64_t rows = report.topology.ep_size * capacity.max_num_tokens;
    out["workspace"] =
        workspace_bars(capacity.workspace_bytes_per_rank, pad128(rows * capacity.dispatch_bytes_per_token),
                       pad128(rows * capacity.combine_bytes_per_token), capacity.max_num_tokens);
  } else if (report.capacity) {
    out["cap"] = report.capacity->max_num_tokens;
  }
  if (!report.capacity_source.empty()) out["cap_source"] = report.capacity_source;
  for (const CheckFinding& finding : report.findings) {
    if (!finding.waste) continue;
    const auto bar = [](const char* name, std::int64_t slots, bool wasted) {
      return Bar{name, static_cast<double>(slots), fmt::format("{} slots", slots), wasted};
    };
    out["waste"].push_back(
        bars(fmt::format("Waste in {}: row slots of one rank with the smallest batch", phase_title(finding.phase)),
             {bar("needed", finding.waste->needed, false), bar("computed in all", finding.waste->computed, true)}));
  }
  return out;
}

// Shows what the bytes do; without it the page still says everything.
Json witness_article(const CheckForPage& check, Json& data) {
  if (!check.witness) return {};
  ReplayOptions options;
  options.rule = check.rule;
  const auto run = replay_for_page(*check.witness, "the witness", options, kDrawingLimit_bytes);
  if (!run || run->report.steps.empty()) return {};
  Json article = replay_article(*run, "w", {kStepsOnPage, 3, true}, data);
  article["witness_hidden"] = kWitnessHidden;
  return article;
}

// One sentence: what happens, and when.
std::string cause_of(const CheckReport& report) {
  if (report.findings.empty() || report.findings.front().severity == Severity::note)
    return capitalised(verdict_in_words(report.verdict)) + ".";
  const CheckFinding& first = report.findings.front();
  const std::string when = first.phase == Phase::start ? "At start" : "In " + phase_title(first.phase);
  return fmt::format("{}: {}.{}", when, finding_info(first.kind).what,
                     first.consequence.empty() ? "" : fmt::format(" {}.", capitalised(first.consequence)));
}

// Verdict and cause stand in the header; here the fixes, the ranks, the strip, other versions.
void add_first_screen(const CheckForPage& check, Json& values) {
  const CheckReport& report = check.report;
  Json fixes = Json::array(), releases = Json::array();
  for (const PageFix& fix : check.fixes)
    fixes.push_back({{"words", html_flags(capitalised(in_words(fix.tried.fix)))},
                     {"then", fix.tried.verdict ? Json(name(*fix.tried.verdict)) : Json()},
                     {"copied", fix.copied.empty() ? Json() : Json(fix.copied)}});
  const auto has_witness = [](const CheckFinding& finding) {
    return finding.severity == Severity::error && finding.witness.has_value();
  };
  const auto found = std::ranges::find_if(report.findings, has_witness);
  if (fixes.empty() && !report.findings.empty() && !is_note(report.findings.front()) &&
      !report.findings.front().fix.empty())
    fixes.push_back({{"words", html_flags(capitalised(report.findings.front().fix))}});
  if (!fixes.empty())
    values["fixes"] = {{"heading", fixes.size() > 1 ? "Fix: any one of" : "Fix"}, {"list", std::move(fixes)}};
  if (found != report.findings.end()) {
    values["ranks"] = finding_values(*found)["witness"];
    const std::string_view unit = found->phase == Phase::prefill ? "token" : "request";
    for (Json& group : values["ranks"]["groups"]) {
      const std::string ranks = group["ranks"], has = group["has"];
      group["label"] = (ranks.find_first_not_of("0123456789") == std::string::npos ? "rank " : "ranks ") + ranks;
      group["amount"] = fmt::format("{} {}{}", has, unit, has == "1" ? "" : "s");
    }
    values["ranks"]["strip"] = strip_of(report);
  }
  for (const ReleaseRow& row : check.releases)
    releases.push_back({{"release", label(row)}, {"good", row.verdict && !row.has_error}});
  if (releases.size() > 1) values["releases"] = {{"list", std::move(releases)}};
}

std::string heading_of(const CheckReport& report) {
  if (report.verdict == Verdict::agrees && report.has_error()) return "Agrees on sizes, but bytes go wrong";
  switch (report.verdict) {
    case Verdict::disagrees:
      return "Disagrees: expect wrong output";
    case Verdict::over_capacity:
      return "Over capacity: some batch does not fit";
    case Verdict::rejected:
      return "Rejected: the server does not start or run";
    case Verdict::out_of_scope:
      return "Out of scope: no fixed buffers";
    default:
      return verdict_title(report.verdict);
  }
}

Tone tone_of(Verdict verdict) {
  return verdict == Verdict::agrees ? Tone::good : verdict == Verdict::out_of_scope ? Tone::neutral : Tone::bad;
}

}  // namespace

std::string shell_command(const Engine& engine, const std::vector<std::string>& argv) {
  std::string out(engine.syntax->front_ends.front().command);
  for (const std::string& word : argv) {
    const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("-_./:=,+@%").find(c) != std::string_view::npos;
    });
    out += ' ';
    if (plain) {
      out += word;
      continue;
    }
    out += '\'';
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += '\'';
  }
  return out;
}

std::optional<Scenario> witness_scenario(const CheckReport& report, const std::vector<std::string>& argv,
                                         const std::map<std::string, std::string, std::less<>>& env,
                                         const std::optional<ModelShape>& model) {
  const auto found = std::ranges::find_if(report.findings, [](const CheckFinding& finding) {
    return finding.severity == Severity::error && finding.witness.has_value();
  });
  if (found == report.findings.end() || !model || report.generation == nullptr) return std::nullopt;
  Scenario scenario;
  scenario.steps = witness_steps(*found);
  if (scenario.steps.empty()) return std::nullopt;
  scenario.name = "witness";
  scenario.engine = engine_of(*report.generation).name;
  scenario.version = name_of_state(*report.generation);
  scenario.launch = shell_command(engine_of(*report.generation), argv);
  scenario.env.insert(env.begin(), env.end());
  scenario.model = {model->num_experts, model->top_k, kWitnessHidden, 1, DataType::bfloat16};
  return scenario;
}

std::string check_page(const CheckForPage& check) {
  const CheckReport& report = check.report;
  Json data = Json::object();
  Page page;
  page.title = fmt::format("a2asim check: {}", name(report.verdict));
  page.header = verdict_header(
      check.place.empty() && report.generation != nullptr ? "a2asim check · " + version_words(*report.generation)
                                                          : fmt::format("a2asim check · {}", check.place),
      report.has_error() ? Tone::bad : tone_of(report.verdict), heading_of(report), cause_of(report));
  page.body = "check.mustache";
  const bool disagrees = report.verdict == Verdict::disagrees || report.verdict == Verdict::over_capacity;
  if (disagrees && report.topology.tp_size > 1)
    page.values["setting"] = setting_values(3, report.topology.tp_size, check.model);
  page.values["verdict_words"] = capitalised(verdict_in_words(report.verdict));
  add_first_screen(check, page.values);
  add_findings(report, page.values);
  page.values["article"] = witness_article(check, data);
  add_deployment(check, page.values);
  page.values["sizes"] = sizes_values(report);
  page.data = {{"replays", std::move(data)}};
  return page_html(page);
}

}  // namespace a2asim
