// a2asim upgrade: what another version changes for each server.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "model/base/one_line.h"
#include "model/check/checked_engine.h"
#include "model/step/engine.h"
#include "model/step/version_words.h"
#include "tools/check/server_check.h"
#include "tools/conform/conform.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/json_document.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/report/page.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostListed = 8;  // options and defaults, without --verbose

struct UpgradeArguments : ServerOptions {
  std::optional<std::string> from, to, source, report;
  std::vector<std::string> paths;
  std::string format = "text";
  bool verbose = false;
};

// What is upgraded to instead of a version.
struct Checkout {
  std::unique_ptr<EngineProcess> code;
  VersionChoice beside;  // whose rules hold where the code does not answer
};

struct Fact {
  std::string what, before, after;
};

// One server under both versions.
struct Upgrade {
  std::string place, from, to;
  std::string rules;            // of `to`, where a checkout answers: which kinds come from where
  std::string machine;          // where the command leaves it open: "if 72 GPUs share NVLink .."
  bool is_alternative = false;  // of a server that has its entry already
  std::optional<Verdict> before, after;
  bool ends_with_error = false, undecided = false;
  std::vector<Fact> facts;                             // both values, whether or not they differ
  std::vector<std::string> appeared, gone;             // findings
  std::vector<std::string> vanished, added, defaults;  // options; "--x: 1 -> 2"
};

using Judged = Result<JudgedServer>;

const CheckReport* report_of(const Judged& judged) { return judged ? &judged->report : nullptr; }
const Deployment* deployment_of(const Judged& judged) { return judged ? judged->deployed.deployment.get() : nullptr; }

template <class T, class F>
std::string fact_of(const T* from, F value) {
  return from == nullptr ? "-" : value(*from);
}

std::string limit_words(const Limit& limit) {
  return limit.value == 0 ? "none" : fmt::format("{}{}", grouped(limit.value), limit.is_explicit ? "" : " (assumed)");
}

std::vector<Fact> facts_of(const Judged& before, const Judged& after) {
  std::vector<Fact> out;
  const auto add_report = [&](std::string what, auto value) {
    out.push_back({std::move(what), fact_of(report_of(before), value), fact_of(report_of(after), value)});
  };
  const auto add_deployment = [&](std::string what, auto value) {
    out.push_back({std::move(what), fact_of(deployment_of(before), value), fact_of(deployment_of(after), value)});
  };
  add_report("verdict", [](const CheckReport& report) { return std::string(name(report.verdict)); });
  add_report("all-to-all", [](const CheckReport& report) { return report.backend.empty() ? "-" : report.backend; });
  add_deployment("why this one", [](const Deployment& one) {
    const std::string why = checked_engine(one).choice();
    return why.empty() ? std::string("-") : why;
  });
  add_report("cap (tokens per rank)", [](const CheckReport& report) {
    return report.static_cap ? grouped(*report.static_cap)
           : report.capacity ? grouped(report.capacity->max_num_tokens)
                             : std::string("-");
  });
  add_report("workspace per rank", [](const CheckReport& report) {
    return report.capacity && report.workspace_known ? bytes_in_words(report.capacity->workspace_bytes_per_rank)
                                                     : std::string("-");
  });
  add_deployment("requests per DP rank", [](const Deployment& one) { return limit_words(one.requests_per_dp_rank); });
  add_deployment("prefill tokens per DP rank", [](const Deployment& one) { return limit_words(one.prefill_tokens); });
  add_deployment("largest decode graph", [](const Deployment& one) {
    return one.capture_bs.empty() ? std::string("none") : grouped(one.capture_bs.back());
  });
  add_deployment("largest prefill graph", [](const Deployment& one) { return limit_words(one.prefill_graph_tokens); });
  add_deployment("cap comes from", [](const Deployment& one) {
    return one.max_num_tokens_source.empty() ? std::string("-") : one.max_num_tokens_source;
  });
  return out;
}

// What a finding is about, beside its kind: the setting that is not read.
std::string_view subject_of(const CheckFinding& finding) {
  const std::string_view words = finding.message;
  return finding.kind == FindingKind::not_read ? words.substr(0, words.find_first_of(" =")) : std::string_view();
}

// with_fix: of those that are still to be cured.
std::vector<std::string> findings_only_in(const CheckReport* report, const CheckReport* other, bool with_fix) {
  std::vector<std::string> out;
  if (report == nullptr) return out;
  for (const CheckFinding& finding : report->findings) {
    if (finding.severity == Severity::note) continue;
    const auto same = [&](const CheckFinding& one) {
      return one.kind == finding.kind && one.phase == finding.phase && one.severity == finding.severity &&
             subject_of(one) == subject_of(finding);
    };
    if (other != nullptr && std::ranges::any_of(other->findings, same)) continue;
    std::string words = fmt::format("{}: {}", name(finding.severity), name(finding.kind));
    if (finding.phase != Phase::start) words += fmt::format(" in {}", spaced(name(finding.phase)));
    out.push_back(fmt::format("{}: {}{}", words, finding.message,
                              finding.fix.empty() || !with_fix ? "" : fmt::format("; fix: {}", finding.fix)));
  }
  return out;
}

// The options of both versions: which are gone, which are new, and whose default moved without the command giving it.
void compare_options(const PreparedServer& prepared, const Version& from, const Version& to, Upgrade& out) {
  const Engine& engine = *prepared.engine;
  if (engine.options == nullptr || engine.spellings == nullptr) return;
  std::map<std::string, std::string> old, now;
  for (auto& [option, value] : engine.options(from)) old.emplace(option, value);
  for (auto& [option, value] : engine.options(to)) now.emplace(option, value);
  for (const std::string& word : prepared.server.command.argv) {
    const std::string option = word.substr(0, word.find('='));
    if (option.starts_with("--") && old.contains(option) && !now.contains(option)) out.vanished.push_back(option);
  }
  for (const auto& [option, value] : now) {
    const auto before = old.find(option);
    const bool is_given = !find_flag(prepared.server.command.argv, engine.spellings(to, option)).empty();
    if (before == old.end())
      out.added.push_back(option);
    else if (before->second != value && !is_given)
      out.defaults.push_back(fmt::format("{}: {} -> {}", option, before->second, value));
  }
}

struct VersionPair {
  VersionMatch from, to;
  bool asks = false;  // the checkout stands for `to`
};

Result<VersionPair> versions_of(const UpgradeArguments& options, const Checkout& checkout,
                                const PreparedServer& prepared) {
  const bool asks = checkout.code && checkout.beside.engine == prepared.engine->name;
  const std::optional<std::string> named = asks ? checkout.beside.text : options.to;
  if (!named) return VersionPair{prepared.how.version, {prepared.engine->versions().back(), false, ""}, asks};
  const Result<VersionMatch> to = find_version(*prepared.engine, *named);
  if (!to) return unusable(fmt::format("--to: {}", to.error().message));
  return VersionPair{prepared.how.version, *to, asks};
}

// Machines on which either version comes to something else than on another; one plain entry where there are none.
std::vector<OpenMachine> machines_of(const PreparedServer& prepared, const VersionPair& versions) {
  for (const VersionMatch& version : {versions.from, versions.to}) {
    PreparedServer own = prepared;
    own.how.version = version;
    const Judged judged = judge_server(own);
    if (const Deployment* deployment = deployment_of(judged))
      if (auto open = checked_engine(*deployment).open_machines(); !open.empty()) return open;
  }
  return {OpenMachine{}};
}

Upgrade compare(const UpgradeArguments& options, const Checkout& checkout, PreparedServer prepared,
                const VersionPair& versions, const LaunchText& text, const OpenMachine& machine) {
  if (machine.nvlink_domain) prepared.how.nvlink_domain = machine.nvlink_domain;
  if (machine.gpu_memory_gib) prepared.how.gpu_memory_gib = machine.gpu_memory_gib;
  const LaunchedServer& server = prepared.server;
  Upgrade out;
  out.place = place_words({{}, server.name, server.line, server.condition, text.source});
  out.machine = machine.words;
  const Version &from = *versions.from.version, &to = *versions.to.version;
  out.from = fmt::format("{} {}", prepared.engine->name, options.from.value_or(std::string(release_or_name(from))));
  out.to = fmt::format("{} {}", prepared.engine->name, options.to.value_or(std::string(release_or_name(to))));
  if (versions.asks) {
    out.to = fmt::format("{} of {}", prepared.engine->name, checkout.code->shown());
    out.rules = answered_by(*checkout.code, to.name);
  }
  prepared.how.version = versions.from;
  const Judged before = judge_server(prepared);
  prepared.how.version = versions.to;
  if (versions.asks) prepared.how.rule = checkout.code->rule();
  const Judged after = judge_server(prepared);
  if (before) out.before = before->report.verdict;
  if (after) out.after = after->report.verdict;
  out.undecided = !before || !after;
  out.ends_with_error = after && after->report.has_error();
  out.facts = facts_of(before, after);
  out.appeared = findings_only_in(report_of(after), report_of(before), true);
  out.gone = findings_only_in(report_of(before), report_of(after), false);
  for (const auto& [judged, side] : {std::pair(&before, &out.gone), std::pair(&after, &out.appeared)})
    if (!*judged) side->push_back("not decided: " + judged->error().message);
  compare_options(prepared, from, to, out);
  return out;
}

struct ListOf {
  std::string title;
  const std::vector<std::string>* items;
};

std::vector<ListOf> lists_of(const Upgrade& one) {
  return {{"findings that appear", &one.appeared},
          {"findings that are gone", &one.gone},
          {"options of this command that the new version does not have", &one.vanished},
          {"defaults that changed", &one.defaults},
          {"options that are new", &one.added}};
}

std::string as_text(const std::vector<Upgrade>& all, bool verbose) {
  std::string out;
  for (const Upgrade& one : all) {
    out += fmt::format("{}== {}: {} -> {}{}\n", out.empty() ? "" : "\n", one.place, one.from, one.to,
                       one.machine.empty() ? "" : ", " + one.machine);
    if (!one.rules.empty())
      for (const std::string& part : wrap(one.rules, kTextWidth - 2, 2)) out += "  " + part + '\n';
    std::vector<std::vector<std::string>> cells;
    for (const Fact& fact : one.facts) {
      const bool moved = fact.before != fact.after;
      if (!moved && fact.what != "verdict" && !verbose) continue;
      cells.push_back({"  " + fact.what, moved ? fmt::format("{} -> {}", fact.before, fact.after)
                                               : fmt::format("{} (as before)", fact.after)});
    }
    for (const std::string& line : table(cells, {}))
      for (const std::string& part : wrap(line.substr(2), kTextWidth - 2, 4)) out += "  " + part + '\n';
    for (const ListOf& list : lists_of(one)) {
      if (list.items->empty()) continue;
      const bool short_words = list.items == &one.added || list.items == &one.vanished || list.items == &one.defaults;
      if (!short_words) {
        out += fmt::format("  {}:\n", list.title);
        for (const std::string& item : *list.items)
          for (const std::string& line : wrap(item, kTextWidth - 4, 2)) out += "    " + line + '\n';
        continue;
      }
      const std::size_t shown = verbose ? list.items->size() : std::min(list.items->size(), kMostListed);
      std::string words =
          fmt::format("{} ({}): {}", list.title, list.items->size(),
                      fmt::join(list.items->begin(), list.items->begin() + static_cast<std::ptrdiff_t>(shown), ", "));
      if (shown < list.items->size()) words += ", .. (--verbose shows all)";
      for (const std::string& line : wrap(words, kTextWidth - 2, 4)) out += "  " + line + '\n';
    }
  }
  return out;
}

std::string summary_of(const std::vector<Upgrade>& all) {
  std::size_t moved = 0, errors = 0, undecided = 0, alternatives = 0;
  for (const Upgrade& one : all) {
    alternatives += one.is_alternative ? 1 : 0;
    moved += one.before != one.after ? 1 : 0;
    errors += one.ends_with_error ? 1 : 0;
    undecided += one.undecided ? 1 : 0;
  }
  return fmt::format("{}{}: {} verdict, {} with an error after the upgrade{}",
                     counted(all.size() - alternatives, "server"),
                     alternatives == 0 ? "" : fmt::format(" on {} kinds of machine", 1 + alternatives),
                     fmt::format("{} {}", moved, moved == 1 ? "changes" : "change"), errors,
                     undecided > 0 ? fmt::format(", {} not decided", undecided) : "");
}

std::string as_json(const std::vector<Upgrade>& all) {
  Json servers = Json::array();
  for (const Upgrade& one : all) {
    Json facts = Json::array();
    for (const Fact& fact : one.facts)
      facts.push_back({{"what", fact.what}, {"before", fact.before}, {"after", fact.after}});
    servers.push_back({{"place", one.place},
                       {"from", one.from},
                       {"to", one.to},
                       {"rules", one.rules.empty() ? Json() : Json(one.rules)},
                       {"machine", one.machine.empty() ? Json() : Json(one.machine)},
                       {"verdict_before", one.before ? Json(name(*one.before)) : Json()},
                       {"verdict_after", one.after ? Json(name(*one.after)) : Json()},
                       {"facts", facts},
                       {"findings_appeared", one.appeared},
                       {"findings_gone", one.gone},
                       {"options_vanished", one.vanished},
                       {"options_added", one.added},
                       {"defaults_moved", one.defaults}});
  }
  return print(Json{{"tool", tool_as_json()}, {"command", "upgrade"}, {"servers", servers}});
}

std::string as_page(const std::vector<Upgrade>& all) {
  Page page;
  page.title = "a2asim upgrade";
  const bool bad = std::ranges::any_of(all, [](const Upgrade& one) { return one.ends_with_error || one.undecided; });
  page.header =
      verdict_header("a2asim upgrade", bad ? Tone::bad : Tone::good,
                     bad ? "Not every server is safe after the upgrade" : "Safe to upgrade", summary_of(all) + ".");
  page.body = "upgrade.mustache";
  Json servers = Json::array();
  for (const Upgrade& one : all) {
    Json facts = Json::array(), lists = Json::array();
    for (const Fact& fact : one.facts)
      facts.push_back(
          {{"what", fact.what}, {"before", fact.before}, {"after", fact.after}, {"moved", fact.before != fact.after}});
    for (const ListOf& list : lists_of(one))
      if (!list.items->empty()) lists.push_back({{"title", capitalised(list.title)}, {"items", *list.items}});
    servers.push_back({{"place", one.place + (one.machine.empty() ? "" : ", " + one.machine)},
                       {"from", one.from},
                       {"to", one.to},
                       {"facts", facts},
                       {"lists", lists}});
  }
  page.values["servers"] = std::move(servers);
  return page_html(page);
}

Result<Checkout> start_checkout(const UpgradeArguments& options) {
  if (!options.source) return Checkout{};
  Result<std::unique_ptr<EngineProcess>> code = EngineProcess::start_source(*options.source);
  if (!code) return tl::unexpected(code.error());
  const std::string engine(engine_questions().engine);
  Result<VersionChoice> beside =
      version_beside(**code, options.to ? VersionChoice{engine, *options.to} : VersionChoice{});
  if (!beside) return tl::unexpected(beside.error());
  return Checkout{std::move(*code), std::move(*beside)};
}

bool says_the_same(const Upgrade& a, const Upgrade& b) {
  const auto same_fact = [](const Fact& x, const Fact& y) { return x.before == y.before && x.after == y.after; };
  return a.place == b.place && a.undecided == b.undecided && a.appeared == b.appeared && a.gone == b.gone &&
         std::ranges::equal(a.facts, b.facts, same_fact);
}

Result<std::vector<Upgrade>> compare_all(const UpgradeArguments& options, const CommandLine& line, Io& io) {
  LaunchPaths paths{options.paths, line.after_dashes, {}, {}};
  if (line.after_dashes && !options.paths.empty()) return unusable("give paths or a command after `--`, not both");
  if (auto added = add_environment(options.env, paths.env); !added) return tl::unexpected(added.error());
  const auto texts = read_launches(paths, io);
  if (!texts) return tl::unexpected(texts.error());
  const Result<Checkout> checkout = start_checkout(options);
  if (!checkout) return tl::unexpected(checkout.error());
  SettingsFiles files;
  std::vector<Upgrade> out;
  for (const LaunchText& text : *texts) {
    if (text.error) return tl::unexpected(*text.error);
    for (const LaunchedServer& server : text.servers) {
      ServerOptions own = options;
      if (options.from) {  // what the launch names is not asked for
        const Engine& engine = find_engine(server.command);
        if (const auto known = find_version(engine, *options.from); !known)
          return unusable(fmt::format("--from: {}", known.error().message));
        own.versions.insert_or_assign(std::string(engine.name), options.from);
      }
      Result<PreparedServer> prepared = prepare_server(own, files, text, server);
      if (!prepared) return tl::unexpected(prepared.error());
      const Result<VersionPair> versions = versions_of(options, *checkout, *prepared);
      if (!versions) return tl::unexpected(versions.error());
      bool is_alternative = false;
      for (const OpenMachine& machine : machines_of(*prepared, *versions)) {
        Upgrade one = compare(options, *checkout, *prepared, *versions, text, machine);
        if (is_alternative && says_the_same(out.back(), one)) {
          out.back().machine += ", or " + one.machine;
          continue;
        }
        one.is_alternative = is_alternative;
        is_alternative = true;
        out.push_back(std::move(one));
      }
      if (!out.back().is_alternative && out.back().machine.find(", or ") != std::string::npos) out.back().machine = "";
    }
  }
  if (out.empty()) return unusable("no file of the paths starts a server that is known here");
  if (auto answered = finish_engine(checkout->code); !answered) return tl::unexpected(answered.error());
  return out;
}

Result<int> run_upgrade(const UpgradeArguments& options, const CommandLine& line, Io& io) {
  const auto format = parse_choice("--format", options.format, {"text", "json"});
  if (!format) return tl::unexpected(format.error());
  if (!options.from && !options.to && !options.source)
    return unusable("name the versions: --from v1 --to v2, or --to alone");
  const auto all = compare_all(options, line, io);
  if (!all) return tl::unexpected(all.error());
  if (options.report)
    if (auto written = write_page(*options.report, as_page(*all)); !written) return tl::unexpected(written.error());
  io.out << (*format == 0 ? as_text(*all, options.verbose) + summary_of(*all) + "\n" : as_json(*all));
  if (std::ranges::any_of(*all, &Upgrade::undecided)) return kUnusableInput;
  return std::ranges::any_of(*all, &Upgrade::ends_with_error) ? kErrorFound : kNothingWrong;
}

void add_options(CLI::App& command, UpgradeArguments& options) {
  add_value(command, "paths", options.paths, "PATH", "Files, folders and patterns; - is standard input");
  add_value(command, "--from", options.from, "VERSION", "The version now; default: the one that each launch names");
  add_value(command, "--to", options.to, "VERSION", "The version then; default: the newest known");
  add_value(command, source_option().c_str(), options.source, "DIR", kSourceAbout);
  add_machine_options(command, options);
  add_value(command, "--report", options.report, "OUT.html", "Write one HTML page");
  add_value(command, "--format", options.format, "FORMAT", "text or json; default text");
  command.add_flag("--verbose", options.verbose, "Text: also what stays, and every option");
  command.footer(help_text("upgrade.help"));
}

}  // namespace

void add_upgrade(CLI::App& program, CommandLine& line) {
  add_command<UpgradeArguments>(program, line, "upgrade", "What another version changes for each server", add_options,
                                run_upgrade);
}

}  // namespace a2asim
