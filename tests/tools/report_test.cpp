// The documents of --report: nothing of theirs is markup that should not be, they are bounded, and the drawings mark
// the rows that the findings name.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "model/engines/sglang/generation.h"
#include "sim/cluster/replay.h"
#include "sim/scenario/scenario_reader.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/report/check_page.h"
#include "tools/report/explore_page.h"
#include "tools/report/page.h"
#include "tools/report/replay_page.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

ReplayForPage replayed(Scenario scenario, std::int64_t drawing_bytes = kDrawingLimit_bytes,
                       ReplayOptions options = {}) {
  auto run = replay_for_page(std::move(scenario), "test.yaml", options, drawing_bytes);
  REQUIRE(run);
  return std::move(*run);
}

Scenario shipped(const std::string& name) {
  auto scenario = load_scenario(A2ASIM_SOURCE_DIR "/sim/scenarios/" + name + ".yaml");
  REQUIRE(scenario);
  return std::move(*scenario);
}

// step, layer, reader, part, source or slice, slot, token, kind
using Place = std::tuple<std::int64_t, int, int, std::string, int, std::int64_t, std::int64_t, std::string>;

std::set<Place> places_of_findings(const ReplayReport& report) {
  std::set<Place> places;
  for (const ReplayedStep& step : report.steps) {
    for (const Finding& found : step.findings) {
      if (!found.row || found.row->token < 0) continue;  // rows that nobody reads are not judged in a drawing
      const RowEvidence& row = *found.row;
      constexpr const char* kParts[][5] = {{"combine", "hidden", "ids", "weights", ""},
                                           {"combine", "hidden", "scales", "ids", "weights"}};
      const char* part = kParts[report.dispatch_type == DispatchType::bf16 ? 0 : 1][row.payload + 1];
      places.insert({step.outcome.step, found.layer, found.rank, part, row.payload < 0 ? row.slice : row.source,
                     row.slot, row.token, std::string(name(found.kind))});
    }
  }
  return places;
}

std::set<Place> places_of_buffers(const Json& buffers) {
  std::set<Place> places;
  for (const Json& buffer : buffers)
    for (std::size_t i = 0; i < buffer["sources"].size(); ++i)
      for (std::size_t j = 0; j < buffer["slots"].size(); ++j) {
        const Json& cell = buffer["cells"][i][j];
        if (!cell.is_object() || !cell.contains("wrong")) continue;
        places.insert(Place(buffer["step"].get<std::int64_t>(), buffer["layer"].get<int>(), buffer["rank"].get<int>(),
                            buffer["part"].get<std::string>(), buffer["sources"][i].get<int>(),
                            buffer["slots"][j].get<std::int64_t>(), cell["token"].get<std::int64_t>(),
                            cell["wrong"].get<std::string>()));
      }
  return places;
}

std::string page_of(const ReplayForPage& replay) { return replay_page(std::span(&replay, 1)); }

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("report: text never becomes markup") {
  CHECK(html_text("<b> & \"x\" 'y'") == "&lt;b&gt; &amp; &quot;x&quot; &#39;y&#39;");
  CHECK(html_text(std::string_view("a\0b\x1b", 4)) == "a\\x00b\\x1b");
  const std::string json = json_for_script({{"name", "</script><!-- <script>"}, {"bad", "\xff"}});
  CHECK(json.find('<') == std::string::npos);
  CHECK(Json::parse(json)["name"] == "</script><!-- <script>");

  Scenario scenario = shipped("collapse");
  scenario.name = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>{{{page.script}}}";
  const std::string page = page_of(replayed(scenario));
  CHECK(count(page, "<script") == 2);  // the data and our own
  CHECK(count(page, "</script>") == 2);
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find("&lt;img src=x") != std::string::npos);
}

TEST_CASE("report: every template can be read, and names only templates that there are") {
  CHECK(embedded_templates().size() > 10);
  for (const EmbeddedTemplate& one : embedded_templates()) {
    CAPTURE(one.name);
    CHECK_NOTHROW(rendered(one.name, Json::object()));
    const std::string_view text = one.text;
    for (std::size_t at = text.find("{{> "); at != std::string_view::npos; at = text.find("{{> ", at + 1)) {
      const std::string_view name = text.substr(at + 4, text.find("}}", at) - at - 4);
      const auto named = [&](const EmbeddedTemplate& other) { return other.name == name; };
      CHECK_MESSAGE((name == "body" || std::ranges::any_of(embedded_templates(), named)), std::string(name));
    }
  }
}

TEST_CASE("report: a page is one file and lets nothing else run or load") {
  const std::string page = page_of(replayed(shipped("collapse")));
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(page.find("unsafe") == std::string::npos);
  for (const char* part : {" src=", "<link", "@import", "url(http", "style=\"", "onclick"})
    CHECK_MESSAGE(page.find(part) == std::string::npos, std::string(part));
  CHECK(page.find("{{") == std::string::npos);
}

TEST_CASE("report: the same run gives the same bytes") {
  CHECK(page_of(replayed(shipped("graph_buckets"))) == page_of(replayed(shipped("graph_buckets"))));
}

TEST_CASE("report: drawings mark exactly the rows that the findings name") {
  for (const char* name :
       {"collapse", "nvfp4_collapse", "graph_buckets", "fault_max_num_tokens", "fault_mixed_replay", "skip_all_gather",
        "fault_corrupt_count", "fault_payload_bytes", "capture", "attn_tp_scatter"}) {
    CAPTURE(name);
    Scenario scenario = shipped(name);
    // Small enough that every slot is drawn.
    for (Step& step : scenario.steps)
      for (std::int64_t& tokens : step.tokens) tokens = std::min<std::int64_t>(tokens, 20);
    ReplayOptions options;
    options.findings_per_kind = 1'000'000;  // all of them
    const ReplayForPage page = replayed(std::move(scenario), std::int64_t{1} << 30, options);
    CHECK(page.buffers_left_out == 0);
    const std::set<Place> wanted = places_of_findings(page.report);
    const std::set<Place> drawn = places_of_buffers(page.buffers);
    // A row beyond what is drawn of a large R may be wrong without a picture, never the other way round.
    for (const Place& place : drawn) CHECK(wanted.contains(place));
    for (const Json& buffer : page.buffers) {
      const auto step = buffer["step"].get<std::int64_t>(), r = buffer["r"].get<std::int64_t>();
      const int layer = buffer["layer"].get<int>(), rank = buffer["rank"].get<int>();
      const auto part = buffer["part"].get<std::string>();
      const auto here = std::ranges::count_if(wanted, [&](const Place& place) {
        return std::get<0>(place) == step && std::get<1>(place) == layer && std::get<2>(place) == rank &&
               std::get<3>(place) == part && std::get<5>(place) < r;
      });
      CHECK(buffer["wrong"] == here);
    }
  }
}

TEST_CASE("report: an arrow ends in the slot that really holds the row") {
  const ReplayForPage page = replayed(shipped("collapse"));
  std::int64_t followed = 0;
  for (const Json& buffer : page.buffers) {
    if (buffer["part"] != "hidden") continue;
    const auto index = [](const Json& list, const Json& value) {
      return static_cast<std::size_t>(std::ranges::find(list, value) - list.begin());
    };
    for (std::size_t i = 0; i < buffer["sources"].size(); ++i)
      for (std::size_t j = 0; j < buffer["slots"].size(); ++j) {
        const Json& cell = buffer["cells"][i][j];
        if (!cell.is_object() || !cell.contains("went") || !cell["went"].is_array()) continue;
        const std::size_t line = index(buffer["sources"], cell["went"][0]),
                          column = index(buffer["slots"], cell["went"][1]);
        if (line == buffer["sources"].size() || column == buffer["slots"].size()) continue;
        const Json& landed = buffer["cells"][line][column];
        // Unless a later rank wrote over it, the row is there; a short cell is a right row of its own source.
        if (!landed.is_object() || landed["writer"] != buffer["sources"][i]) continue;
        CHECK(landed["source"] == buffer["sources"][i]);
        CHECK(landed["found"] == cell["token"]);
        ++followed;
      }
  }
  CHECK(followed > 10);
}

TEST_CASE("report: without a script the page says the verdict, the chain and the fix") {
  const std::string page = page_of(replayed(shipped("collapse")));
  for (const char* part : {"Disagrees", "knows only its own number of rows, 4", "<var>R</var> = <strong>4</strong>",
                           "Where one row went", "require_mlp_tp_gather is false", "remove --enable-dp-lm-head",
                           "any one of", "<td data-label=\"needed\">not set</td><td data-label=\"yours\">1</td>",
                           "Of the 18 outputs of this step (9 tokens in 2 layers)",
                           "From wrong outputs back to the rows behind them", "<noscript>"})
    CHECK_MESSAGE(page.find(part) != std::string::npos, std::string(part));
}

namespace {

// As the collapse, with so many ranks and these requests.
Scenario wide_collapse(const std::vector<std::int64_t>& requests) {
  Scenario scenario = shipped("collapse");
  scenario.launch = fmt::format(
      "python3 -m sglang.launch_server --model-path M --tp-size {0} --dp-size {0} --enable-dp-attention "
      "--enable-dp-lm-head --moe-dense-tp-size 1 --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass "
      "--disable-cuda-graph",
      requests.size());
  scenario.engine = "sglang";
  scenario.version = "pr25907";  // rounds no counts
  scenario.model = {static_cast<std::int64_t>(requests.size()) * 2, 4, 64, 1, DataType::bfloat16};
  scenario.expect.reset();
  scenario.expect_by_generation.clear();
  Step step;
  step.mode = {ForwardMode::decode};
  step.tokens = requests;
  scenario.steps = {step};
  return scenario;
}

}  // namespace

TEST_CASE("report: different sizes have different marks, however many there are") {
  std::vector<std::int64_t> requests;
  for (std::int64_t rank = 0; rank < 40; ++rank) requests.push_back(rank % 36 + 1);
  const std::string page = page_of(replayed(wide_collapse(requests)));
  const std::string_view before = "<span class=\"mark\" aria-hidden=\"true\">", between = "</span> <strong>";
  std::map<std::string, std::string> mark_of;
  std::set<std::string> marks;
  for (std::size_t at = page.find(before); at != std::string::npos; at = page.find(before, at + 1)) {
    const std::size_t begin = at + before.size(), middle = page.find(between, begin);
    const std::string mark = page.substr(begin, middle - begin);
    const std::size_t size = middle + between.size();
    const auto [known, is_new] = mark_of.emplace(page.substr(size, page.find('<', size) - size), mark);
    CHECK(known->second == mark);
    marks.insert(mark);
  }
  CHECK(mark_of.size() == 36);
  CHECK(marks.size() == mark_of.size());
  CHECK(page.find("36 groups of ranks, with R from 1 to 36. The first 8:") != std::string::npos);
}

TEST_CASE("report: in a large run too the row behind a wrong output is found") {
  std::vector<std::int64_t> requests;
  for (std::int64_t rank = 0; rank < 32; ++rank) requests.push_back(rank * 7 % 30 + 1);
  const ReplayForPage run = replayed(wide_collapse(requests));
  const ReplayedStep& step = run.report.steps.at(0);
  const auto lost = std::ranges::find_if(
      step.findings, [&](const Finding& found) { return is_output(found) && row_behind(step, found) == nullptr; });
  REQUIRE(lost != step.findings.end());  // what the run keeps does not suffice
  const std::string page = page_of(run);
  const std::string all = page.substr(page.find("From wrong outputs back"));
  const std::string chains = all.substr(0, all.find("</details>"));
  CHECK(count(chains, "<li>Rank ") == 8);
  CHECK(count(chains, "It finds ") == 8);
}

TEST_CASE("report: a row that was written over is told so, with who did it") {
  const ReplayForPage run = replayed(shipped("skip_all_gather"));
  const auto bad = std::ranges::find_if(run.report.steps, &ReplayedStep::is_bad);
  REQUIRE(bad != run.report.steps.end());
  std::size_t told = 0;
  for (const Finding& found : bad->findings) {
    if (!found.row || found.row->payload != 0 || found.row->written_offset != found.row->expected_offset) continue;
    const RowEvidence& row = *found.row;
    if (found.kind != FindingKind::misplaced) continue;
    REQUIRE(row.race);
    ++told;
    ToldReplay story{&run.scenario, &run.report, run.deployment.get(), true, &found};
    const std::string words = rendered("story.mustache", story_values(story, 2));
    const auto r = static_cast<std::size_t>(row.found_writer);
    const std::int64_t size = bad->ranks[r].decision.sizing.runtime_max_tokens_per_rank;
    const std::string other = fmt::format(
        "But rank {0}, whose R is {1}, put its own token {2} into the same bytes (row {0} × {1} + {3} = {4})",
        row.found_writer, size, row.found_token, row.found_slot, row.found_writer * size + row.found_slot);
    CHECK_MESSAGE(words.find(other) != std::string::npos, words);
  }
  CHECK(told > 0);
  // Where there is one, a row that moved is told instead: it shows more.
  const Finding* row = telling_row(*bad, [](const Finding&) { return true; });
  REQUIRE(row != nullptr);
  CHECK(row->row->written_offset != row->row->expected_offset);
  // Of a row that moved, the one that was found in its place is told too.
  CHECK(page_of(replayed(shipped("collapse")))
            .find("That row was filled by rank 0: with its R = 4, its token 1 belongs in row "
                  "0 × 4 + 1 = 1.") != std::string::npos);
}

TEST_CASE("report: what a rank knows is said in the unit that it is counted in, with its padding") {
  Scenario scenario = wide_collapse({3, 1, 0, 2});
  std::string& launch = *scenario.launch;
  launch +=
      " --speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1 "
      "--speculative-num-draft-tokens 4";
  const std::string off = "--disable-cuda-graph";
  launch.replace(launch.find(off), off.size(), "--cuda-graph-max-bs 8");
  scenario.steps[0].mode = {ForwardMode::target_verify};
  const std::string replayed_graph = page_of(replayed(scenario));
  CHECK(replayed_graph.find("has 3 requests (12 rows), knows only its own number of requests, 3,") !=
        std::string::npos);
  launch.replace(launch.find("--cuda-graph-max-bs 8"), 21, off);
  CHECK(page_of(replayed(scenario)).find("has 3 requests (12 rows), knows only its own number of rows, 12,") !=
        std::string::npos);
  // The list of all has padding in it where ranks run padding, and a number that no rank runs is none.
  CHECK(page_of(replayed(shipped("fault_max_num_tokens")))
            .find("knows the numbers of rows of all with padding: 6, 6, 6, 6") != std::string::npos);
  CHECK(page_of(replayed(shipped("fault_corrupt_count"))).find("knows the numbers of rows of all: 30, 2, 4, 4") !=
        std::string::npos);
}

TEST_CASE("report: one full stop at the end of a sentence") {
  CHECK(sentence("it waits") == "it waits.");
  CHECK(sentence("it waits.") == "it waits.");
}

TEST_CASE("report: a large run makes a page of bounded size that says what it leaves out") {
  Scenario scenario = shipped("collapse");
  scenario.launch =
      "python3 -m sglang.launch_server --model-path M --tp-size 64 --dp-size 64 --enable-dp-attention "
      "--enable-dp-lm-head "
      "--moe-dense-tp-size 1 --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass --disable-cuda-graph";
  scenario.env["SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK"] = "4096";
  scenario.model = {128, 8, 128, 6, DataType::bfloat16};
  scenario.expect.reset();
  Step step;
  step.mode = {ForwardMode::extend};
  for (std::int64_t rank = 0; rank < 64; ++rank) step.tokens.push_back(rank % 7 * 61 + 5);
  step.tokens.back() = 4000;
  step.repeat = 3;
  scenario.steps = {step};
  ReplayOptions options;
  options.fidelity = Fidelity::provenance;
  ReplayForPage page = replayed(std::move(scenario), kDrawingLimit_bytes, options);
  for (int i = 0; i < 200; ++i) page.report.steps.push_back(page.report.steps[0]);  // as a long run would have
  page.report.steps_run += 200;
  const std::string html = page_of(page);
  REQUIRE(page.report.steps_run == 203);
  CHECK(html.size() < std::size_t{6} << 20);
  CHECK(page.buffers.size() > 10);
  CHECK(page.buffers_left_out > 0);
  CHECK(html.find("buffers are not drawn") != std::string::npos);
  CHECK(html.find("Of 203 steps this page shows 96") != std::string::npos);
}

TEST_CASE("report: several scenarios are chapters of one page") {
  std::vector<ReplayForPage> pages;
  pages.push_back(replayed(shipped("collapse")));
  pages.push_back(replayed(shipped("capture")));
  const std::string page = replay_page(pages);
  CHECK(count(page, "class=\"chapter\"") == 2);
  CHECK(page.find("href=\"#s1\"") != std::string::npos);
  CHECK(page.find("2 scenarios") != std::string::npos);
}

TEST_CASE("report: a path that cannot be written is one line that names the option") {
  const auto failed = write_page("/nonexistent/page.html", "x");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message ==
        "--report: cannot write '/nonexistent/page.html': No such file or directory; give a path that can be written");
}

TEST_CASE("report: check's page has the finding, its batch replayed with the same sizes, and the sizes as bars") {
  CheckReport report;
  report.verdict = Verdict::disagrees;
  report.generation = find_generation("pr29461")->generation;
  report.backend = "flashinfer";
  report.topology.tp_size = report.topology.dp_size = report.topology.ep_size = report.topology.attn_dp_size = 2;
  report.capacity = Capacity{64, 100, 200, 0, 50'000};
  report.workspace_known = true;
  CheckFinding finding;
  finding.kind = FindingKind::geometry_disagreement;
  finding.severity = Severity::error;
  finding.phase = Phase::graph_decode;
  finding.message = "sizes <differ>";
  finding.chain = {"because & so"};
  finding.fix = "leave it";
  finding.witness = CheckWitness{{2, 0}, {"DECODE", "IDLE"}, {2, 1}, {"graph", "graph"}};
  finding.waste = CheckWaste{1000, 10};
  report.findings.push_back(finding);
  const std::vector<std::string> argv = {"--model-path",
                                         "it's",
                                         "--tp",
                                         "2",
                                         "--dp",
                                         "2",
                                         "--enable-dp-attention",
                                         "--enable-dp-lm-head",
                                         "--moe-dense-tp-size",
                                         "1",
                                         "--moe-a2a-backend",
                                         "flashinfer",
                                         "--moe-runner-backend",
                                         "flashinfer_cutlass"};
  CHECK(shell_command(*engines().front(), {"a b", "it's", "x=1"}) ==
        "python3 -m sglang.launch_server 'a b' 'it'\\''s' x=1");
  CheckForPage page{report, shell_command(*engines().front(), argv), ModelShape{8, 2, 7168}, {}, {}};
  page.witness = witness_scenario(report, argv, {}, page.model);
  REQUIRE(page.witness);
  const std::string html = check_page(page);
  for (const char* part :
       {"Sizes &lt;differ&gt;.", "because &amp; so", "Leave it", "Who is who", "receive buffers (dispatch)",
        "1000 slots", "\"r\":[2,1]", "<span class=\"mark\" aria-hidden=\"true\">▲</span> <strong>1</strong>"})
    CHECK_MESSAGE(html.find(part) != std::string::npos, std::string(part));
  page.report.findings[0].severity = Severity::note;
  CHECK_FALSE(witness_scenario(page.report, argv, {}, page.model));
}

TEST_CASE("report: every bad cell of explore's matrix links to a chapter of its page") {
  ExploreReport report;
  report.generations.push_back(explore(*find_generation("pr29461")->generation, {}));
  const std::string html = explore_page(report, {});
  std::size_t bad = 0;
  for (const PlacedWitness& placed : witnesses(report)) bad += placed.worst && is_error(placed.outcome) ? 1 : 0;
  REQUIRE(bad > 0);
  const std::regex link("<span class=\"cell error\" title=\"[^\"]*\"><a href=\"#w[0-9]+\">");
  CHECK(static_cast<std::size_t>(std::distance(std::sregex_iterator(html.begin(), html.end(), link), {})) == bad);
  for (std::size_t i = 0; i < bad; ++i) {
    CHECK(count(html, fmt::format("<article class=\"chapter\" id=\"w{}\"", i)) == 1);
    CHECK(count(html, fmt::format("class=\"viewer\" data-replay=\"w{}\"", i)) == 1);
  }
  std::size_t links = 0;
  std::istringstream lines(html);
  const std::regex row("<tr><th scope=\"row\">([^<]*)<span class=\"under\">([^<]*)</span></th>");
  const std::regex target("<a href=\"#(w[0-9]+)\">");
  for (std::string line; std::getline(lines, line);) {
    std::smatch of_row;
    if (!std::regex_search(line, of_row, row)) continue;
    for (std::sregex_iterator at(line.begin(), line.end(), target), end; at != end; ++at, ++links) {
      const std::string chapter = fmt::format("id=\"{}\" aria-label=\"pr29461, {}, ", at->str(1), of_row.str(1));
      const std::size_t found = html.find(chapter);
      REQUIRE_MESSAGE(found != std::string::npos, chapter);  // of the same class ..
      const std::size_t phase = found + chapter.size();
      const std::string its = html.substr(phase, html.find('"', phase) - phase);
      CHECK_MESSAGE((", " + of_row.str(2) + ",").find(", " + its + ",") != std::string::npos, its);  // .. and phase
    }
  }
  CHECK(links >= bad);
  CHECK(html == explore_page(report, {}));
  report.rule = "python3 rule.py";  // without the rule itself, what it did cannot be replayed
  CHECK(count(explore_page(report, {}), "class=\"viewer\"") == 0);
}

}  // namespace a2asim
