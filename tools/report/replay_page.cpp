#include "tools/report/replay_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/step/engine.h"
#include "model/alltoall/workspace.h"
#include "tools/report/html.h"
#include "tools/report/parts.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kChains = 8;        // wrong outputs that are followed, of a step
constexpr std::size_t kGroups = 64;       // of ranks, in a step's table
constexpr std::size_t kStepFindings = 8;  // that are not about rows

std::string step_title(const ReplayedStep& step) {
  const std::string_view verdict = step.outcome.group == 0 ? "no work" : name(step.outcome.verdict);
  return fmt::format("step {}, {}: {}{}", step.outcome.step, phase_title(step.outcome.phase), verdict,
                     step.is_bad() && step.outcome.verdict == Verdict::agrees ? ", and yet something is wrong" : "");
}

std::string rank_table(const ReplayedStep& step) {
  const std::vector<RankGroup> groups = rank_groups(step);
  std::vector<std::string> sizes;
  for (const RankGroup& group : groups)
    if (std::ranges::find(sizes, group.cells[kColumnOfR]) == sizes.end()) sizes.push_back(group.cells[kColumnOfR]);
  const bool differ = !step.outcome.geometry.same_r && sizes.size() > 1;
  HtmlTable table;
  table.caption = differ ? "What each rank knew, which way it went, and the R it chose: different marks, different R"
                         : "What each rank knew, which way it went, and the R it chose";
  // What matters first; columns are those of kRankColumns.
  struct Shown {
    std::size_t column;
    const char* head;
  };
  constexpr std::array kShown = {Shown{kColumnOfR, "R"}, Shown{6, "because R is"}, Shown{1, "has"}, Shown{2, "knows"},
                                 Shown{0, "mode"},       Shown{3, "runs"},         Shown{4, "rows"}};
  table.head = {"rank"};
  for (const Shown& shown : kShown) table.head.emplace_back(shown.head);
  table.numbers = {3};
  table.less = {5, 6, 7};
  std::vector<std::string> seen;
  for (std::size_t i = 0; i < std::min(groups.size(), kGroups); ++i) {
    table.rows.push_back({html_text(ranges(groups[i].ranks))});
    for (const Shown& shown : kShown) {
      const std::string& cell = groups[i].cells[shown.column];
      table.rows.back().push_back(shown.column == kColumnOfR && differ ? marked_size(cell, seen) : html_text(cell));
    }
  }
  return html_table(table);
}

std::string findings_of_step(const ReplayedStep& step) {
  std::string list;
  std::size_t shown = 0, all = 0;
  for (const Finding& found : step.findings) {
    if (found.row || is_output(found) || found.kind == FindingKind::expert_id_out_of_range) continue;
    if (++all > kStepFindings) continue;
    ++shown;
    list += fmt::format("<li class=\"{0}\"><strong>{0}</strong>: {1}</li>\n", name(found.severity),
                        html_text(describe(found)));
  }
  if (all > shown) list += fmt::format("<li>{} more are not listed</li>\n", all - shown);
  std::string counts;
  for (int kind = 0; kind < kFindingKinds; ++kind) {
    const std::int64_t count = step.counts[static_cast<std::size_t>(kind)];
    const auto which = static_cast<FindingKind>(kind);
    if (count > 0 && which != FindingKind::geometry_disagreement && which != FindingKind::wasted)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, name(which));
  }
  if (!counts.empty()) list += fmt::format("<li>Counted: {}</li>\n", html_text(counts));
  return list.empty() ? list : "<ul class=\"findings\">\n" + list + "</ul>\n";
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
std::string chains(const ReplayForPage& replay, const ReplayedStep& step) {
  std::string list;
  std::size_t shown = 0;
  for (const Finding& found : step.findings) {
    if (!is_output(found) || shown == kChains) continue;
    const Finding* row = row_of(replay, step, found);
    ++shown;
    list += fmt::format("<li>Rank {}, token {}{}: {}. {}</li>\n", found.rank, found.token,
                        found.layer > 0 ? fmt::format(", layer {}", found.layer) : "",
                        found.kind == FindingKind::nan_output ? "NaN" : "finite and wrong",
                        row == nullptr ? "The row behind it was not kept: of a long run only the first ones are."
                                       : html_text(row_words(step, *row)));
  }
  if (list.empty()) return list;
  const auto all = static_cast<std::size_t>(step.outcome.bad_tokens);
  if (shown < all) list += fmt::format("<li>{} more wrong outputs are not listed.</li>\n", all - shown);
  return fmt::format(
      "<details class=\"chains\"><summary>From wrong outputs back to the rows behind them</summary>\n<ol>\n{}"
      "</ol></details>\n",
      list);
}

std::string step_section(const ReplayForPage& replay, const ReplayedStep& step, const std::string& id, int level) {
  std::string raised;
  for (std::size_t r = 0; r < step.ranks.size() && raised.size() < 4000; ++r) {
    const auto& error = step.ranks[r].decision.raised;
    if (!error || (r > 0 && step.ranks[r - 1].decision.raised == error)) continue;
    raised += paragraph(fmt::format("Rank {} raises {}: {}", r, name(error->kind), error->message));
  }
  return fmt::format(
      "<section class=\"step\" id=\"{0}-step-{1}\" data-step=\"{1}\">\n<h{2}>{3}</h{2}>\n{4}{5}{6}{7}</section>\n", id,
      step.outcome.step, level, html_text("Step" + step_title(step).substr(4)), rank_table(step), raised,
      findings_of_step(step), chains(replay, step));
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

int line_of(const RowEvidence& row) { return row.payload < 0 ? row.slice : row.source; }

bool is_drawn(const ReplayForPage& replay, const Finding& found) {
  const auto has = [](const Json& list, std::int64_t value) {
    return std::ranges::find(list, Json(value)) != list.end();
  };
  return std::ranges::any_of(replay.buffers, [&](const Json& buffer) {
    return buffer["step"] == found.step && buffer["layer"] == found.layer && buffer["rank"] == found.rank &&
           buffer["part"] == part_name(found.row->payload) && has(buffer["sources"], line_of(*found.row)) &&
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
            {"part", part_name(told->row->payload)},
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
  if (step.outcome.group == 0) return "No rank has work in this step.";
  if (step.outcome.stopped) return "The run stops in this step: some ranks refuse, or wait for others for ever.";
  return step.outcome.taking_part == 0 ? "No rank enters the all-to-all in this step." : "";
}

std::string elided_words(const ReplayForPage& replay, std::size_t steps) {
  std::string out;
  const auto run = static_cast<std::size_t>(replay.report.steps_run);
  if (steps < run)
    out += paragraph(fmt::format("Of {} steps this page shows {}; all count in the verdict and the sums.", run, steps));
  if (replay.buffers_left_out > 0)
    out +=
        paragraph(fmt::format("{} buffers are not drawn. A page draws the first {} ranks with wrong rows of a layer, "
                              "the first {} layers, of a "
                              "buffer {} sources by {} slots, and in all {}; wrong rows come first.",
                              replay.buffers_left_out, kRanksDrawn, kLayersDrawn, kSourcesDrawn, kSlotsDrawn,
                              bytes_in_words(kDrawingLimit_bytes)));
  return out;
}

std::string viewer(const ReplayForPage& replay, const std::string& id, int level, const std::string& steps) {
  std::string out =
      "<p>Choose a step with the slider, and a rank: below is its receive buffer as it divides it, one line a source, "
      "one column a slot. Each slot is named after what lies in it.</p>\n"
      "<noscript><p>The buffers are drawn by a script; without it, the tables below say the same of the ranks, and the "
      "chains of the wrong rows.</p></noscript>\n";
  if (replay.report.fidelity == Fidelity::geometry)
    out += paragraph("This run has sizes only (geometry fidelity): there are no rows to draw.");
  out += fmt::format(
      "<div class=\"viewer\" data-replay=\"{}\" data-level=\"{}\"></div>\n<div class=\"steps\">\n{}</div>\n", id, level,
      steps);
  return out;
}

std::string deployment_section(const ReplayForPage& replay) {
  const ReplayReport& report = replay.report;
  std::string out;
  if (report.topology) out += topology_table(*report.topology);
  std::vector<Fact> list = {
      {"SGLang", html_text(fmt::format("{} ({})", report.generation->name, report.generation->date))}};
  const ScenarioModel& model = replay.scenario.model;
  list.push_back(
      {"model", html_text(fmt::format("{} experts, top_k {}, hidden_size {}, {}, {}", model.num_experts, model.top_k,
                                      model.hidden_size, counted(static_cast<std::size_t>(model.layers), "layer"),
                                      name_in(model_dtypes(), model.dtype)))});
  list.push_back({"launch", "<code>" + html_text(cut(launch_text(replay.scenario), 4000)) + "</code>"});
  std::string env;
  for (const auto& [key, value] : launch_env(replay.scenario)) env += (env.empty() ? "" : " ") + key + "=" + value;
  if (!env.empty()) list.push_back({"environment", "<code>" + html_text(cut(env, 2000)) + "</code>"});
  return out + facts(list);
}

std::string sizes_section(const ReplayReport& report) {
  if (report.ep_size == 0) return {};
  std::string out;
  if (report.max_num_tokens > 0) {
    const std::int64_t dispatch = pad128(report.ep_size * report.max_num_tokens * report.dispatch_bytes_per_token);
    const std::int64_t combine = pad128(report.ep_size * report.max_num_tokens * report.combine_bytes_per_token);
    out += workspace_bars(report.workspace_bytes_per_rank, dispatch, combine, report.max_num_tokens);
  }
  if (report.knows_traffic() && report.traffic.rows_reserved > 0) {
    const Traffic& traffic = report.traffic;
    const auto words = [](std::int64_t value) { return std::to_string(value); };
    out += bars(
        "Row slots that the experts ran over, all steps and layers",
        {{"filled with a token", static_cast<double>(traffic.rows_sent), words(traffic.rows_sent), false},
         {"never filled: waste", static_cast<double>(traffic.wasted_rows()),
          fmt::format("{} ({:.1f} %)", traffic.wasted_rows(),
                      100.0 * static_cast<double>(traffic.wasted_rows()) / static_cast<double>(traffic.rows_reserved)),
          true}},
        static_cast<double>(traffic.rows_reserved));
    out += bars("Bytes",
                {{"moved", static_cast<double>(report.bytes_moved()), bytes_in_words(report.bytes_moved()), false},
                 {"reserved in vain", static_cast<double>(report.bytes_wasted()), bytes_in_words(report.bytes_wasted()),
                  true}});
  }
  return out;
}

std::string about_section(const ReplayForPage& replay) {
  const ReplayReport& report = replay.report;
  std::vector<Fact> list = {{"scenario", html_text(report.name)},
                            {"file", html_text(report.file)},
                            {"fidelity", html_text(name(report.fidelity))},
                            {"seed", std::to_string(report.seed)},
                            {"digest of the run", fmt::format("<code>{:016x}</code>", report.digest)}};
  if (replay.expectation)
    list.push_back({"as the file expects",
                    replay.expectation->differs.empty() ? "yes" : "no: " + html_text(replay.expectation->differs)});
  for (const std::string& note : report.notes) list.push_back({"note", html_text(note)});
  return facts(list);
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

std::string header(const ReplayReport& report, int level) {
  return verdict_header(fmt::format("a2asim replay · {} · SGLang {}", report.name, report.generation->name),
                        tone_of(report), verdict_title(report.verdict), verdict_sentence(report), level);
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
    Result<ScenarioDeployment> deployed = deploy(scenario, file, options.sglang, options.rule);
    if (!deployed) return tl::unexpected(deployed.error());
    run.deployment = std::move(deployed->deployment);
    run.buffers = recorder.buffers();
    run.buffers_left_out = recorder.left_out();
    run.rows_behind = recorder.rows_behind();
  }
  run.scenario = std::move(scenario);
  return run;
}

std::string replay_article(const ReplayForPage& replay, const std::string& id, const ArticleStyle& style, Json& data) {
  const ReplayReport& report = replay.report;
  const int level = style.level;
  const Finding* row = told_row(replay);
  const ToldReplay told{&replay.scenario, &report, replay.deployment.get(), !style.is_part, row};
  const std::string setting = style.is_part ? "" : the_setting(told, level + 1);
  std::string out = section(id + "-story", "What happened", setting + what_happened(told, level + 1), level);
  const std::vector<const ReplayedStep*> shown = steps_shown(report, style.steps);
  if (!shown.empty()) {
    std::string sections;
    Json titles = Json::array();
    for (const ReplayedStep* step : shown) {
      sections += step_section(replay, *step, id, level + 1);
      Json sizes = Json::array();
      for (const ReplayedRank& rank : step->ranks)
        sizes.push_back(rank.runtime_max() ? Json(*rank.runtime_max()) : Json());
      titles.push_back({{"step", step->outcome.step},
                        {"title", step_title(*step)},
                        {"bad", step->is_bad()},
                        {"why_empty", why_empty(*step)},
                        {"r", std::move(sizes)}});
    }
    out += section(id + "-steps", "Step by step",
                   viewer(replay, id, level, sections) + elided_words(replay, shown.size()), level);
    data[id] = {{"ranks", report.ep_size},
                {"steps", std::move(titles)},
                {"first", first_buffer(replay, row)},
                {"first_bad_step", report.first_bad_step ? Json(*report.first_bad_step) : Json()},
                {"buffers", replay.buffers}};
  }
  if (style.is_part) return out;
  out += section(id + "-deployment", "Who is who", deployment_section(replay), level);
  const std::string sizes = sizes_section(report);
  if (!sizes.empty()) out += section(id + "-sizes", "Sizes and waste", sizes, level);
  return out + section(id + "-about", "About this run", about_section(replay), level);
}

std::string replay_page(std::span<const ReplayForPage> replays) {
  Page page;
  Json data = Json::object();
  if (replays.size() == 1) {
    page.title = fmt::format("{}: {}", replays[0].report.name, name(replays[0].report.verdict));
    page.header = header(replays[0].report, 1);
    page.body = replay_article(replays[0], "s0", {}, data);
  } else {
    const auto count = [&](auto what) { return static_cast<std::size_t>(std::ranges::count_if(replays, what)); };
    const std::size_t bad = count([](const ReplayForPage& one) { return one.report.has_error(); });
    const std::size_t told = count([](const ReplayForPage& one) { return one.expectation.has_value(); });
    const std::size_t met =
        count([](const ReplayForPage& one) { return one.expectation && one.expectation->differs.empty(); });
    const std::string scenarios = counted(replays.size(), "scenario");
    std::string words = fmt::format("Something is wrong in {} of them.", bad);
    if (told > 0) words += fmt::format(" {} of {} end as their files expect.", met, told);
    page.title = "a2asim replay: " + scenarios;
    page.header = verdict_header("a2asim replay", bad > 0 ? Tone::bad : Tone::good, scenarios, words);
    std::vector<Chapter> chapters;
    for (std::size_t i = 0; i < replays.size(); ++i) {
      const ReplayReport& report = replays[i].report;
      const std::string id = fmt::format("s{}", i);
      chapters.push_back(
          {id, report.name, fmt::format("{}: {}", verdict_title(report.verdict), verdict_sentence(report)),
           header(report, 2) + replay_article(replays[i], id,
                                              {std::max<std::size_t>(kStepsOnPage / replays.size(), 4), 3, false},
                                              data)});
    }
    page.body = chapters_html("Scenario", chapters);
  }
  page.data = {{"replays", std::move(data)}};
  return page_html(page);
}

}  // namespace a2asim
