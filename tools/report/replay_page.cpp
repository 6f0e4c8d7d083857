#include "tools/report/replay_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/alltoall/workspace.h"
#include "model/step/engine.h"
#include "model/step/version_words.h"
#include "tools/program/text.h"
#include "tools/report/parts.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kChains = 8;        // wrong outputs that are followed, of a step
constexpr std::size_t kGroups = 64;       // of ranks, in a step's table
constexpr std::size_t kStepFindings = 8;  // that are not about rows

std::string step_title(const ReplayedStep& step) {
  const std::string_view verdict = step.outcome.group.empty() && !step.is_bad() ? "no work" : name(step.verdict());
  return fmt::format("step {}, {}: {}", step.outcome.step, phase_title(step.outcome.phase), verdict);
}

void add_rank_table(const ReplayedStep& step, Json& values) {
  const std::vector<RankGroup> groups = rank_groups(step);
  std::vector<std::string> seen;
  const bool differ = !step.outcome.geometry.same_r && std::ranges::any_of(groups, [&](const RankGroup& group) {
    return group.cells[kColumnOfR] != groups[0].cells[kColumnOfR];
  });
  values["caption"] = differ
                          ? "What each rank knew, which way it went, and the R it chose: different marks, different R"
                          : "What each rank knew, which way it went, and the R it chose";
  for (std::size_t i = 0; i < std::min(groups.size(), kGroups); ++i) {
    const std::vector<std::string>& cells = groups[i].cells;
    Json row = {{"ranks", ranges(groups[i].ranks)}, {"mark", differ ? mark_of(cells[kColumnOfR], seen) : ""}};
    for (std::size_t column = 0; column < kRankColumns.size(); ++column)
      row[column == kColumnOfR ? "r" : std::string(kRankColumns[column])] = cells[column];
    values["groups"].push_back(std::move(row));
  }
}

Json findings_of_step(const ReplayedStep& step) {
  Json list = Json::array();
  std::size_t all = 0;
  for (const Finding& found : step.findings) {
    if (found.row || is_output(found) || found.kind == FindingKind::expert_id_out_of_range) continue;
    if (++all <= kStepFindings) list.push_back({{"severity", name(found.severity)}, {"words", describe(found)}});
  }
  std::string counts;
  for (int kind = 0; kind < kFindingKinds; ++kind) {
    const std::int64_t count = step.counts[static_cast<std::size_t>(kind)];
    const auto which = static_cast<FindingKind>(kind);
    if (count > 0 && which != FindingKind::geometry_disagreement && which != FindingKind::wasted)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, name(which));
  }
  if (list.empty() && counts.empty()) return {};
  const std::size_t more = all - list.size();
  return {{"list", std::move(list)}, {"more", more > 0 ? Json(more) : Json()}, {"counts", counts}};
}

// Of the report's findings, or else of those that the recorder followed.
const Finding* row_of(const ReplayForPage& replay, const ReplayedStep& step, const Finding& output) {
  if (const Finding* kept = row_behind(step, output)) return kept;
  const auto followed = std::ranges::find_if(replay.rows_behind, [&](const Finding& row) {
    return row.step == step.outcome.step && row.layer == output.layer && row.row->source == output.rank &&
           row.row->token == output.token;
  });
  return followed == replay.rows_behind.end() ? nullptr : &*followed;
}

// From the wrong output back to the row that made it.
Json chains(const ReplayForPage& replay, const ReplayedStep& step) {
  Json list = Json::array();
  for (const Finding& found : step.findings) {
    if (!is_output(found) || list.size() == kChains) continue;
    const Finding* row = row_of(replay, step, found);
    list.push_back({{"rank", found.rank},
                    {"token", found.token},
                    {"layer", found.layer > 0 ? Json(found.layer) : Json()},
                    {"nan", found.kind == FindingKind::nan_output},
                    {"row", row == nullptr ? "" : row_words(step, *row)}});
  }
  if (list.empty()) return {};
  const auto all = static_cast<std::size_t>(step.outcome.bad_tokens), shown = list.size();
  return {{"list", std::move(list)}, {"more", shown < all ? Json(all - shown) : Json()}};
}

Json step_values(const ReplayForPage& replay, const ReplayedStep& step) {
  Json raised = Json::array();
  std::size_t bytes = 0;
  for (std::size_t r = 0; r < step.ranks.size() && bytes < 4000; ++r) {
    const auto& error = step.ranks[r].decision.raised;
    if (!error || (r > 0 && step.ranks[r - 1].decision.raised == error)) continue;
    raised.push_back(fmt::format("Rank {} raises {}: {}", r, name(error->kind), error->message));
    bytes += error->message.size() + 30;
  }
  Json out = {{"step", step.outcome.step},      {"title", capitalised(step_title(step))},
              {"raised", std::move(raised)},    {"findings", findings_of_step(step)},
              {"chains", chains(replay, step)}, {"doubts", tokens_in_doubt(step)}};
  add_rank_table(step, out);
  return out;
}

// All steps where they fit; else three bad ones for every good one, as long as there are both.
std::vector<const ReplayedStep*> steps_shown(const ReplayReport& report, std::size_t most) {
  const auto bad = static_cast<std::size_t>(std::ranges::count_if(report.steps, &ReplayedStep::is_bad));
  const std::size_t good = report.steps.size() - bad;
  std::size_t bad_left = std::min(bad, std::max(most * 3 / 4, most - std::min(good, most)));
  std::size_t good_left = std::min(good, most - std::min(bad_left, most));
  std::vector<const ReplayedStep*> out;
  for (const ReplayedStep& step : report.steps) {
    std::size_t& left = step.is_bad() ? bad_left : good_left;
    if (left == 0) continue;
    --left;
    out.push_back(&step);
  }
  return out;
}

std::string part_of(const RowEvidence& row) {
  return part_name(row.dispatch_type.value_or(DispatchType::bf16), row.payload);
}
int line_of(const RowEvidence& row) { return row.payload < 0 ? row.slice : row.source; }

bool is_drawn(const ReplayForPage& replay, const Finding& found) {
  const auto has = [](const Json& list, std::int64_t value) {
    return std::ranges::find(list, Json(value)) != list.end();
  };
  return std::ranges::any_of(replay.buffers, [&](const Json& buffer) {
    return buffer["step"] == found.step && buffer["layer"] == found.layer && buffer["rank"] == found.rank &&
           buffer["part"] == part_of(*found.row) && has(buffer["sources"], line_of(*found.row)) &&
           has(buffer["slots"], found.row->slot);
  });
}

// The row that the story follows.
const Finding* told_row(const ReplayForPage& replay) {
  const auto bad = std::ranges::find_if(replay.report.steps, &ReplayedStep::is_bad);
  if (bad == replay.report.steps.end()) return nullptr;
  return telling_row(*bad, [&](const Finding& found) { return is_drawn(replay, found); });
}

// What is drawn first: the row of the story, or else the buffer that shows the first wrong row best.
Json first_buffer(const ReplayForPage& replay, const Finding* told) {
  if (told != nullptr && is_drawn(replay, *told))
    return {{"step", told->step},
            {"layer", told->layer},
            {"rank", told->rank},
            {"part", part_of(*told->row)},
            {"source", line_of(*told->row)},
            {"slot", told->row->slot}};
  const Json* best = nullptr;
  for (const Json& buffer : replay.buffers) {
    if (buffer["wrong"] == 0) continue;
    if (best == nullptr) best = &buffer;
    if (buffer["step"] != (*best)["step"]) break;
    if (buffer["part"] == "hidden" && buffer.dump().find("misplaced") != std::string::npos)
      return {{"step", buffer["step"]}, {"layer", buffer["layer"]}, {"rank", buffer["rank"]}, {"part", "hidden"}};
    if ((*best)["part"] != "hidden" && buffer["part"] == "hidden") best = &buffer;
  }
  if (best == nullptr) return nullptr;
  return {{"step", (*best)["step"]}, {"layer", (*best)["layer"]}, {"rank", (*best)["rank"]}, {"part", (*best)["part"]}};
}

// Why a step has no buffers to draw; empty: it has some.
std::string why_empty(const ReplayedStep& step) {
  if (step.outcome.group.empty()) return "No rank has work in this step.";
  if (step.outcome.stopped) return "The run stops in this step: some ranks refuse, or wait for others forever.";
  return step.outcome.taking_part.empty() ? "No rank enters the all-to-all in this step." : "";
}

Json elided_words(const ReplayForPage& replay, std::size_t steps) {
  Json out = Json::array();
  const auto run = static_cast<std::size_t>(replay.report.steps_run);
  if (steps < run)
    out.push_back(fmt::format("Of {} steps this page shows {}; all count in the verdict and the sums.", run, steps));
  if (replay.buffers_left_out > 0)
    out.push_back(
        fmt::format("{} buffers are not drawn. A page draws the first {} ranks with wrong rows of a layer, the first "
                    "{} layers, of a "
                    "buffer {} sources by {} slots, and in all {}; wrong rows come first.",
                    replay.buffers_left_out, kRanksDrawn, kLayersDrawn, kSourcesDrawn, kSlotsDrawn,
                    bytes_in_words(kDrawingLimit_bytes)));
  return out;
}

void add_deployment(const ReplayForPage& replay, Json& values) {
  const ReplayReport& report = replay.report;
  const ScenarioModel& model = replay.scenario.model;
  std::string env;
  for (const auto& [key, value] : launch_env(replay.scenario)) env += (env.empty() ? "" : " ") + key + "=" + value;
  if (report.topology) values["topology"] = topology_values(*report.topology);
  values["generation"] = version_in_words(*report.generation);
  values["model"] =
      fmt::format("{} experts, top_k {}, hidden_size {}, {}, {}", model.num_experts, model.top_k, model.hidden_size,
                  counted(static_cast<std::size_t>(model.layers), "layer"), name_in(model_dtypes(), model.dtype));
  values["launch"] = cut(launch_text(replay.scenario), 4000);
  values["environment"] = cut(env, 2000);
}

Json sizes_values(const ReplayReport& report) {
  if (report.ep_size == 0) return {};
  Json pictures = Json::array();
  if (report.max_num_tokens > 0) {
    const std::int64_t dispatch = pad128(report.ep_size * report.max_num_tokens * report.dispatch_bytes_per_token);
    const std::int64_t combine = pad128(report.ep_size * report.max_num_tokens * report.combine_bytes_per_token);
    pictures.push_back(workspace_bars(report.workspace_bytes_per_rank, dispatch, combine, report.max_num_tokens));
  }
  if (report.knows_traffic() && report.traffic.rows_reserved > 0) {
    const Traffic& traffic = report.traffic;
    const auto all = static_cast<double>(traffic.rows_reserved), wasted = static_cast<double>(traffic.wasted_rows());
    pictures.push_back(
        bars("Row slots that the experts ran over, all steps and layers",
             {{"filled with a token", static_cast<double>(traffic.rows_sent), std::to_string(traffic.rows_sent), false},
              {"never filled: waste", wasted, fmt::format("{} ({:.1f} %)", traffic.wasted_rows(), 100.0 * wasted / all),
               true}},
             all));
    pictures.push_back(bars("Bytes", {bar_of_bytes("moved", report.bytes_moved()),
                                      bar_of_bytes("reserved and not used", report.bytes_wasted(), true)}));
  }
  return pictures.empty() ? Json() : Json{{"pictures", std::move(pictures)}};
}

void add_about(const ReplayForPage& replay, Json& values) {
  const ReplayReport& report = replay.report;
  values["scenario"] = report.name;
  values["file"] = report.file;
  values["fidelity"] = name(report.fidelity);
  values["seed"] = report.seed;
  values["digest"] = fmt::format("{:016x}", report.digest);
  if (replay.expectation) values["expected"] = {{"differs", replay.expectation->differs}};
  values["notes"] = report.notes;
}

Tone tone_of(const ReplayReport& report) {
  if (report.has_error()) return Tone::bad;
  return report.verdict == Verdict::out_of_scope ? Tone::neutral : Tone::good;
}

std::string verdict_sentence(const ReplayReport& report) {
  std::string out = capitalised(verdict_in_words(report));
  if (report.first_bad_step) out += fmt::format(", first at step {}", *report.first_bad_step);
  return out + ".";
}

bool as_expected(const ReplayForPage& one) { return one.expectation && one.expectation->differs.empty(); }

// What a file expects, and what comes, is no bad news.
Json header(const ReplayForPage& one, int level) {
  const ReplayReport& report = one.report;
  const bool expected = as_expected(one);
  return verdict_header(fmt::format("a2asim replay · {} · {} {}", report.name, engine_of(*report.generation).title,
                                    report.generation->name),
                        expected ? Tone::good : tone_of(report),
                        verdict_title(report.verdict) + (expected ? ", as expected" : ""), verdict_sentence(report),
                        level);
}

}  // namespace

Result<ReplayForPage> replay_for_page(Scenario scenario, const std::string& file, ReplayOptions options,
                                      std::int64_t drawing_bytes) {
  BufferRecorder recorder(drawing_bytes);
  if (drawing_bytes > 0) options.mirror = &recorder;
  Result<ReplayReport> report = replay(scenario, file, options);
  if (!report) return tl::unexpected(report.error());
  ReplayForPage run;
  run.report = std::move(*report);
  if (drawing_bytes > 0) {
    Result<ScenarioDeployment> deployed = deploy(scenario, file, options.version, options.rule);
    if (!deployed) return tl::unexpected(deployed.error());
    run.deployment = std::move(deployed->deployment);
    run.buffers = recorder.buffers();
    run.buffers_left_out = recorder.left_out();
    run.rows_behind = recorder.rows_behind();
  }
  run.scenario = std::move(scenario);
  return run;
}

Json replay_article(const ReplayForPage& replay, const std::string& id, const ArticleStyle& style, Json& data) {
  const ReplayReport& report = replay.report;
  const Finding* row = told_row(replay);
  const ToldReplay told{&replay.scenario, &report, replay.deployment.get(), !style.is_part, row};
  Json out = {{"id", id}, {"h", style.level}, {"sub", style.level + 1}, {"story", story_values(told, style.level + 1)}};
  const std::vector<const ReplayedStep*> shown = steps_shown(report, style.steps);
  if (!shown.empty()) {
    Json titles = Json::array(), steps = Json::array();
    for (const ReplayedStep* step : shown) {
      steps.push_back(step_values(replay, *step));
      Json sizes = Json::array();
      for (const ReplayedRank& rank : step->ranks)
        sizes.push_back(rank.runtime_max() ? Json(*rank.runtime_max()) : Json());
      titles.push_back({{"step", step->outcome.step},
                        {"title", step_title(*step)},
                        {"bad", step->is_bad()},
                        {"why_empty", why_empty(*step)},
                        {"r", std::move(sizes)}});
    }
    out["viewer"] = {{"geometry", report.fidelity == Fidelity::geometry},
                     {"steps", std::move(steps)},
                     {"elided", elided_words(replay, shown.size())}};
    data[id] = {{"ranks", report.ep_size},
                {"steps", std::move(titles)},
                {"first", first_buffer(replay, row)},
                {"first_bad_step", report.first_bad_step ? Json(*report.first_bad_step) : Json()},
                {"buffers", replay.buffers}};
  }
  if (style.is_part) return out;
  Json& whole = out["whole"];
  add_deployment(replay, whole);
  add_about(replay, whole);
  whole["sizes"] = sizes_values(report);
  return out;
}

std::vector<Verdict> verdicts_of(std::span<const ReplayForPage> replays) {
  std::vector<Verdict> all;
  for (const ReplayForPage& one : replays) all.push_back(one.report.verdict);
  return all;
}

std::string replay_page(std::span<const ReplayForPage> replays) {
  Json data = Json::object();
  Page page;
  page.body = "replay.mustache";
  if (replays.size() == 1) {
    page.title = fmt::format("{}: {}", replays[0].report.name, name(replays[0].report.verdict));
    page.header = header(replays[0], 1);
    page.values["one"] = replay_article(replays[0], "s0", {}, data);
  } else {
    const auto count = [&](auto what) { return static_cast<std::size_t>(std::ranges::count_if(replays, what)); };
    const std::size_t bad = count([](const ReplayForPage& one) { return one.report.has_error(); });
    const std::size_t told = count([](const ReplayForPage& one) { return one.expectation.has_value(); });
    const std::size_t met = count(as_expected);
    const std::string scenarios = counted(replays.size(), "scenario");
    std::string words =
        fmt::format("Something is wrong in {} of them ({}).", bad, verdict_counts(verdicts_of(replays)));
    if (told > 0) words += fmt::format(" {} of {} end as their files expect.", met, told);
    page.title = "a2asim replay: " + scenarios;
    page.header = verdict_header("a2asim replay", bad > 0 && met < replays.size() ? Tone::bad : Tone::good,
                                 scenarios + (met == replays.size() ? ": all as expected" : ""), words);
    const std::size_t steps = std::max<std::size_t>(kStepsOnPage / replays.size(), 4);
    for (std::size_t i = 0; i < replays.size(); ++i) {
      const ReplayReport& report = replays[i].report;
      const std::string id = fmt::format("s{}", i);
      page.values["several"]["chapters"].push_back(
          {{"id", id},
           {"name", report.name},
           {"sentence", fmt::format("{}: {}", verdict_title(report.verdict), verdict_sentence(report))},
           {"head", header(replays[i], 2)},
           {"article", replay_article(replays[i], id, {steps, 3, false}, data)}});
    }
  }
  page.data = {{"replays", std::move(data)}};
  return page_html(page);
}

}  // namespace a2asim
