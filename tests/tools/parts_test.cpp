// Values of the pages' parts, key by key, and the head of check's page for each verdict.
#include "tools/report/parts.h"

#include <doctest/doctest.h>

#include "model/check/finding_info.h"
#include "model/engines/sglang/generation.h"
#include "tools/program/template.h"
#include "tools/report/check_page.h"
#include "tools/report/heat_map.h"
#include "tools/report/page.h"
#include "tools/report/strip.h"

namespace a2asim {
namespace {

using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

json plain(const OrderedJson& values) { return json::parse(values.dump()); }

std::string head_of_page(const CheckForPage& check) {
  const std::string page = check_page(check);
  const std::size_t begin = page.find("<p class=\"kicker\">"), end = page.find("</header>");
  REQUIRE(begin < end);
  std::string out = page.substr(begin, end - begin);
  const std::size_t picture = out.find("<svg"), behind = out.find("</svg>");
  return out.erase(picture, behind + 6 - picture);
}

CheckFinding part_finding(FindingKind kind, Severity severity, Phase phase) {
  CheckFinding finding;
  finding.kind = kind;
  finding.severity = severity;
  finding.phase = phase;
  finding.message = "what is wrong";
  return finding;
}

}  // namespace

TEST_CASE("parts: six marks, then letters as columns of a spreadsheet have them, the same for the same size") {
  std::vector<std::string> seen;
  const std::vector<std::string> marks = {"●", "▲", "■", "◆", "★", "✚", "A", "B"};
  for (std::size_t at = 0; at < marks.size(); ++at) CHECK(mark_of(std::to_string(at), seen) == marks[at]);
  for (std::size_t at = marks.size(); at < 6 + 26 * 27; ++at) static_cast<void>(mark_of(std::to_string(at), seen));
  for (const auto& [letters, index] : std::vector<std::pair<std::string, int>>{
           {"Y", 24}, {"Z", 25}, {"AA", 26}, {"AB", 27}, {"AZ", 51}, {"BA", 52}, {"ZZ", 26 * 27 - 1}})
    CHECK(mark_of(std::to_string(6 + index), seen) == letters);
  CHECK(mark_of("a new one", seen) == "AAA");
  CHECK(mark_of("0", seen) == "●");
}

TEST_CASE("parts: bars share a scale, which is the largest value or the whole, and never leave it") {
  const auto shares = [](const std::vector<double>& values, double whole) {
    std::vector<Bar> list;
    for (const double value : values) list.push_back({"n", value, "w"});
    std::vector<std::string> out;
    const OrderedJson drawn = bars("c", list, whole);
    for (const auto& bar : drawn["bars"]) out.push_back(bar["share"]);
    return out;
  };
  using Shares = std::vector<std::string>;
  CHECK(shares({1, 4}, 0) == Shares{"25.00", "100.00"});
  CHECK(shares({1, 4}, 8) == Shares{"12.50", "50.00"});
  CHECK(shares({1, 4}, 2) == Shares{"25.00", "100.00"});
  CHECK(shares({0, 0}, 0) == Shares{"0.00", "0.00"});
  CHECK(shares({-1, 3}, 0) == Shares{"0.00", "100.00"});
  CHECK(plain(bars("c", {{"a", 1, "one", true}})) ==
        json::parse(
            R"({"caption": "c", "bars": [{"name": "a", "words": "one", "emphasised": true, "share": "100.00"}]})"));
  const Bar bytes = bar_of_bytes("b", 2048);
  CHECK(bytes.name == "b");
  CHECK(bytes.value == 2048);
  CHECK(bytes.words == "2.0 KiB");
  CHECK_FALSE(bytes.is_emphasised);
  CHECK(bar_of_bytes("b", 1, true).is_emphasised);
}

TEST_CASE("parts: a workspace is dispatch, combine and the rest, which is never below nothing") {
  CHECK(plain(workspace_bars(8192, 4096, 2048, 64)) == json::parse(R"_({
    "caption": "Workspace of one rank, for max_num_tokens 64: 8.0 KiB", "bars": [
      {"name": "counters, flags, top-k tables", "words": "2.0 KiB", "emphasised": false, "share": "25.00"},
      {"name": "receive buffers (dispatch)", "words": "4.0 KiB", "emphasised": false, "share": "50.00"},
      {"name": "expert outputs (combine)", "words": "2.0 KiB", "emphasised": false, "share": "25.00"}]
})_"));
  const OrderedJson more = workspace_bars(100, 80, 80, 1);
  CHECK(more["bars"][0]["words"] == "0 B");
  CHECK(more["bars"][1]["share"] == "80.00");
}

TEST_CASE("parts: who is which rank, up to 128 of them") {
  Topology topology;
  topology.tp_size = 4;
  topology.dp_size = topology.attn_dp_size = 2;
  topology.attn_tp_size = 2;
  topology.ep_size = 4;
  topology.enable_dp_attention = true;
  OrderedJson values = topology_values(topology);
  CHECK(values["tp"] == 4);
  CHECK(values["dp"] == 2);
  CHECK(values["ep"] == 4);
  CHECK(values["attn_tp"] == 2);
  CHECK(values["attn_cp"] == 1);
  CHECK(values["dense_tp"].is_null());
  CHECK(values["dp_attention"] == true);
  CHECK(values["more_ranks"].is_null());
  CHECK(values["caption"].get<std::string>().ends_with("Ranks of one DP rank share a batch."));
  REQUIRE(values["ranks"].size() == 4);
  // DP, TP and CP of attention, and EP; a place of one only is left out.
  CHECK(plain(values["ranks"][3]) == json::parse(R"({"rank": 3, "places": [
    {"some": true, "at": 1}, {"some": true, "at": 1}, {"some": false, "at": 0}, {"some": true, "at": 3}]})"));
  CHECK(plain(values["ranks"][2]["places"][1]) == json::parse(R"({"some": true, "at": 0})"));
  topology.moe_dense_tp_size = 1;
  topology.enable_dp_attention = false;
  for (const auto& [ranks, more] : {std::pair(128, 0), {129, 1}, {256, 128}}) {
    topology.tp_size = topology.ep_size = ranks;
    values = topology_values(topology);
    CHECK(values["ranks"].size() == 128);
    CHECK(values["more_ranks"] == (more == 0 ? OrderedJson() : OrderedJson(more)));
  }
  CHECK(values["dense_tp"] == 1);
  CHECK(values["dp_attention"] == false);
  CHECK(values["caption"].get<std::string>().ends_with("Without DP attention all ranks share one batch."));
}

TEST_CASE("parts: a finding has its message, batch, consequence, chain, conditions and fix") {
  CheckFinding finding = part_finding(FindingKind::geometry_disagreement, Severity::error, Phase::prefill);
  CHECK(plain(finding_values(finding)) ==
        json::parse(R"({"message": "What is wrong", "witness": null, "consequence": "", "chain": null,
                        "conditions": null, "fix": ""})"));
  finding.consequence = "NaN";
  finding.chain = {"--a is set", "b"};
  finding.any_of = {{"--a", "not set", "1"}};
  finding.fix = "remove --a";
  finding.witness =
      CheckWitness{{2, 1, 1, 7}, {"DECODE", "IDLE", "IDLE"}, {2, 1, 1, std::nullopt}, {"graph", "eager", "eager"}};
  CHECK(plain(finding_values(finding)) == json::parse(R"({"message": "What is wrong", "consequence": "NaN",
    "chain": {"lines": ["<code>--a</code> is set", "b"]},
    "conditions": {"list": [{"what": "<code>--a</code>", "needed": "not set", "yours": "1"}]},
    "fix": "Remove <code>--a</code>", "witness": {"groups": [
      {"ranks": "0", "mark": "●", "r": "2", "has": "2", "mode": "DECODE", "runs": "graph"},
      {"ranks": "1..2", "mark": "▲", "r": "1", "has": "1", "mode": "IDLE", "runs": "eager"},
      {"ranks": "3", "mark": "■", "r": "raises", "has": "7", "mode": "-", "runs": "-"}]}})"));
  finding.witness = CheckWitness{{2, 1}, {"DECODE", "IDLE"}, {2, 2}, {"graph", "graph"}};
  const OrderedJson equal = finding_values(finding);
  for (const auto& group : equal["witness"]["groups"]) CHECK(group["mark"] == "");
}

TEST_CASE("parts: the setting, with experts where the model is known") {
  CHECK(plain(setting_values(3, 8, ModelShape{256, 8, 7168})) ==
        json::parse(R"({"h": 3, "ranks": 8, "top_k": 8, "experts": 256, "each": 32})"));
  CHECK(plain(setting_values(2, 0, std::nullopt)) == json::parse(R"({"h": 2, "ranks": null})"));
}

TEST_CASE("parts: the strip is drawn where two sizes differ, and says where the row is and where it is sought") {
  CHECK(strip_values(0, 2, 1, 2).is_null());
  CHECK(strip_values(0, 0, 1, 2).is_null());
  CHECK(strip_values(0, 2, 1, 0).is_null());
  const OrderedJson one = strip_values(0, 2, 1, 1);
  CHECK(one["reader"] == 0);
  CHECK(one["reader_size"] == 2);
  CHECK(one["writer"] == 1);
  CHECK(one["writer_size"] == 1);
  CHECK(one["words"] == "Rank 1 writes its first row at 1 × 1 = 1. Rank 0 looks for it at 1 × 2 = 2.");
  // Two sources of at most two rows on 600 pixels: 150 a row.
  CHECK(one["read_x"] == "308.0");
  CHECK(one["write_x"] == "158.0");
  CHECK(plain(one["reads"]) == json::parse(R"([
    {"x": "0.0", "width": "298.0", "middle": "150.0", "colour": 0, "label": "from rank 0", "meant": false},
    {"x": "300.0", "width": "298.0", "middle": "450.0", "colour": 1, "label": "from rank 1", "meant": true}])"));
  CHECK(plain(one["writes"]) == json::parse(R"([
    {"x": "0.0", "width": "148.0", "middle": "75.0", "colour": 0, "label": "from rank 0", "meant": false},
    {"x": "150.0", "width": "148.0", "middle": "225.0", "colour": 1, "label": "from rank 1", "meant": true}])"));
  // Of many sources the last seven; eight colours.
  const OrderedJson far = strip_values(0, 1000, 5, 2000, 2);
  REQUIRE(far["writes"].size() == 7);
  CHECK(far["writes"][0]["label"] == "from rank 4");
  CHECK(far["writes"][4]["colour"] == 0);
  CHECK(far["writes"][6]["meant"] == true);
  CHECK(far["words"] ==
        "Rank 5 writes its first row at 10 × 2,000 = 20,000. Rank 0 looks for it at 10 × 1,000 = 10,000.");
  const OrderedJson narrow = strip_values(0, 1, 6, 100);
  CHECK(narrow["reads"][0]["label"] == "");
  CHECK(narrow["reads"][0]["width"] == "1.0");
}

TEST_CASE("parts: the strip is of the first error whose sizes differ") {
  CheckReport report;
  CHECK(strip_of(report).is_null());
  CheckFinding finding = part_finding(FindingKind::geometry_disagreement, Severity::error, Phase::prefill);
  report.findings = {finding};
  CHECK(strip_of(report).is_null());
  finding.witness = CheckWitness{{1, 1, 1}, {}, {3, 3, 5}, {}};
  report.topology.attn_tp_size = 2;
  report.findings.push_back(finding);
  OrderedJson strip = strip_of(report);
  CHECK(strip["writer"] == 2);
  CHECK(strip["reader_size"] == 3);
  CHECK(strip["writer_size"] == 5);
  CHECK(strip["words"] == "Rank 2 writes its first row at 4 × 5 = 20. Rank 0 looks for it at 4 × 3 = 12.");
  report.findings[1].severity = Severity::note;
  CHECK(strip_of(report).is_null());
  report.findings[1].severity = Severity::error;
  report.findings[1].kind = FindingKind::over_capacity;
  CHECK(strip_of(report).is_null());
  report.findings[1].kind = FindingKind::geometry_disagreement;
  report.findings[1].witness->runtime_max_tokens_per_rank = {std::nullopt, 1, 2};
  CHECK(strip_of(report).is_null());
  report.findings[1].witness->runtime_max_tokens_per_rank = {3, std::nullopt, 4};
  CHECK(strip_of(report)["writer"] == 2);
}

TEST_CASE("parts: a heat map has a cell of 92 x 34 for each pair, names outside, and five shades") {
  HeatMap map{"c", "ep", "tokens", {"8", "16"}, {"1", "2", "4"}, {}};
  map.cells = {{{1.0, "a"}, {2.0, "b"}, {3.0, "c"}}, {{4.0, "d"}, {5.0, "e"}, {std::nullopt, "f"}}};
  const OrderedJson values = heat_map_values(map);
  CHECK(values["width"] == 84 + 3 * 92 + 2);
  CHECK(values["height"] == 46 + 2 * 34 + 2);
  CHECK(plain(values["names"]) == json::parse(R"([
    {"x": 74, "y": 36, "anchor": "end", "class": "axis", "words": "ep"},
    {"x": 84, "y": 16, "anchor": "start", "class": "axis", "words": "tokens"},
    {"x": 130, "y": 36, "anchor": "middle", "class": "main", "words": "1"},
    {"x": 222, "y": 36, "anchor": "middle", "class": "main", "words": "2"},
    {"x": 314, "y": 36, "anchor": "middle", "class": "main", "words": "4"}])"));
  CHECK(plain(values["lines"][1]) == json::parse(R"({"x": 74, "y": 102, "row": "16", "cells": [
    {"x": 84, "middle": 130, "top": 80, "shade": "0.36", "column": "1", "words": "d"},
    {"x": 176, "middle": 222, "top": 80, "shade": "0.46", "column": "2", "words": "e"},
    {"x": 268, "middle": 314, "top": 80, "shade": "", "column": "4", "words": "f"}]})"));
  for (const auto& [column, shade] : {std::pair(0, "0.06"), {1, "0.16"}, {2, "0.26"}})
    CHECK(values["lines"][0]["cells"][column]["shade"] == shade);
  map = {"c", "r", "k", {"1"}, {"1"}, {{{7.0, "alone"}}}};
  CHECK(heat_map_values(map)["lines"][0]["cells"][0]["shade"] == "0.16");
}

TEST_CASE("parts: the head of check's page follows the verdict and its first finding") {
  struct Row {
    Verdict verdict;
    std::vector<CheckFinding> findings;
    std::string tone, title, lead;
  };
  CheckFinding late = part_finding(FindingKind::geometry_disagreement, Severity::error, Phase::graph_decode);
  late.consequence = "garbage";
  const CheckFinding start = part_finding(FindingKind::rejected, Severity::error, Phase::start);
  const CheckFinding note = part_finding(FindingKind::note, Severity::note, Phase::start);
  const std::string agrees = "No batch found for which buffer sizes differ or exceed the cap.";
  const std::string what = html_text(finding_info(FindingKind::geometry_disagreement).what);
  const std::vector<Row> table = {
      {Verdict::agrees, {}, "good", "Agrees", agrees},
      {Verdict::agrees, {note}, "good", "Agrees", agrees},
      {Verdict::agrees,
       {late},
       "bad",
       "Agrees on sizes, but bytes go wrong",
       "In graph decode: " + what + ". Garbage."},
      {Verdict::disagrees, {late}, "bad", "Disagrees: expect wrong output", "In graph decode: " + what + ". Garbage."},
      {Verdict::over_capacity,
       {},
       "bad",
       "Over capacity: some batch does not fit",
       "The flags allow a batch above the cap."},
      {Verdict::rejected,
       {start},
       "bad",
       "Rejected: the server does not start or run",
       "At start: " + std::string(finding_info(FindingKind::rejected).what) + "."},
      {Verdict::out_of_scope,
       {},
       "neutral",
       "Out of scope: no fixed buffers",
       "No all-to-all with fixed buffers is in use, so there is no size to agree on."}};
  for (const Row& row : table) {
    CheckForPage page{};
    page.report.verdict = row.verdict;
    page.report.findings = row.findings;
    page.place = "a.sh";
    CAPTURE(row.title);
    CHECK(head_of_page(page) == "<p class=\"kicker\">a2asim check · a.sh</p>\n<h1 class=\"verdict " + row.tone +
                                    "\"><span>" + row.title + "</span></h1>\n<p class=\"lead\">" + row.lead + "</p>\n");
  }
}

}  // namespace a2asim
