// The three formats of a check, over reports made by hand.
#include "tools/check/check_formats.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/engines/sglang/generation.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;

CheckWitness one_busy_rank(std::size_t ranks) {
  CheckWitness witness;
  witness.tokens_per_dp_rank.assign(ranks, 1);
  witness.tokens_per_dp_rank[0] = 2;
  witness.modes.assign(ranks, "DECODE");
  witness.runtime_max_tokens_per_rank.assign(ranks, 1);
  witness.runtime_max_tokens_per_rank[0] = 2;
  witness.paths.assign(ranks, "graph");
  return witness;
}

CheckFinding disagreement() {
  CheckFinding finding;
  finding.kind = FindingKind::geometry_disagreement;
  finding.severity = Severity::error;
  finding.phase = Phase::graph_decode;
  finding.message = "DP rank 0 derives runtime_max_tokens_per_rank 2, DP rank 1 derives 1";
  finding.consequence = "payloads land in wrong slots: garbage, NaN or an illegal memory access";
  finding.chain = {"--moe-dense-tp-size 1 with --enable-dp-lm-head", "require_mlp_tp_gather is false",
                   "each rank replays the bucket of its own batch"};
  finding.fix = "drop --enable-dp-lm-head, or use pr30450";
  finding.witness = one_busy_rank(16);
  return finding;
}

CheckReport disagreeing() {
  CheckReport report;
  report.verdict = Verdict::disagrees;
  report.generation = &newest_generation();
  report.backend = "flashinfer";
  report.topology.tp_size = 16;
  report.topology.dp_size = 16;
  report.topology.ep_size = 16;
  report.topology.moe_dense_tp_size = 1;
  report.topology.enable_dp_attention = true;
  report.capacity = Capacity{1024, 14400, 14336, 0, 471859200};
  report.capacity_source = "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=1024";
  report.workspace_known = true;
  report.findings = {disagreement()};
  return report;
}

CheckFinding note(std::string message) {
  CheckFinding finding;
  finding.message = std::move(message);
  return finding;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    REQUIRE(end != std::string::npos);  // every line is ended
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST_CASE("text: the verdict comes first, then what, fix, batch, hardware and why") {
  const std::string text = check_as_text(disagreeing(), {});
  CHECK(text.starts_with("DISAGREES: "));
  std::size_t last = 0;
  for (const std::string_view part :
       {"tp 16, dp 16, ep 16", "max_num_tokens 1024", "450.0 MiB", "error: geometry_disagreement in graph_decode",
        "  what ", "derives 1", "  fix", "drop --enable-dp-lm-head", "  batch", "DP rank  mode", "  hardware",
        "illegal memory access", "  why", "require_mlp_tp_gather"}) {
    CAPTURE(part);
    const std::size_t at = text.find(part);
    CHECK(at != std::string::npos);
    CHECK(at >= last);
    last = at;
  }
  CHECK_FALSE(contains(text, "\x1b"));
}

TEST_CASE("text: ranks that saw and chose the same are one row") {
  const std::vector<std::string> lines = lines_of(check_as_text(disagreeing(), {}));
  const auto row = std::ranges::find_if(lines, [](const std::string& line) { return contains(line, "1..15"); });
  REQUIRE(row != lines.end());
  CHECK(contains(*row, "DECODE"));
  CHECK(contains(*row, "graph"));
  CHECK(row->ends_with("1"));
  CHECK((row - 1)->ends_with("2"));
}

TEST_CASE("text: a rank that raised has no R") {
  CheckReport report = disagreeing();
  report.findings[0].witness->runtime_max_tokens_per_rank[0] = std::nullopt;
  CHECK(contains(check_as_text(report, {}), "raised"));
}

TEST_CASE("text: one screen whatever the findings are, everything with --verbose") {
  CheckReport report = disagreeing();
  report.capacity_source = std::string(300, 's') + " and " + std::string(300, 't');
  CheckFinding& first = report.findings[0];
  for (std::size_t rank = 0; rank < 16; ++rank) first.witness->tokens_per_dp_rank[rank] = static_cast<int>(rank * 7);
  for (int i = 0; i < 30; ++i) first.chain.push_back("link " + std::to_string(i));
  for (std::string* part : {&first.message, &first.consequence, &first.fix}) {
    for (int i = 0; i < 100; ++i) *part += " word";
  }
  for (int i = 0; i < 40; ++i) report.findings.push_back(note("note number " + std::to_string(i)));

  const std::vector<std::string> screen = lines_of(check_as_text(report, {}));
  CHECK(screen.size() <= 24);
  for (const std::string& line : screen) CHECK(line.size() <= 100);
  CHECK(contains(screen.back(), "--verbose"));

  const std::string all = check_as_text(report, {.verbose = true});
  CHECK(contains(all, "link 29"));
  CHECK(contains(all, "note number 39"));
  for (const std::string& line : lines_of(all)) CHECK(line.size() <= 100);
}

TEST_CASE("text: notes are one line each and never the headline") {
  CheckReport report = disagreeing();
  report.verdict = Verdict::agrees;
  report.findings = {note("--foo is no flag of this version"), note("safe up to 512 running requests a rank")};
  const std::string text = check_as_text(report, {});
  CHECK(text.starts_with("AGREES: "));
  CHECK(contains(text, "\nnote: --foo is no flag"));
  CHECK(contains(text, "\nnote: safe up to 512"));
}

TEST_CASE("text: colours only where asked for, and they change nothing else") {
  const CheckReport report = disagreeing();
  std::string coloured = check_as_text(report, {.colour = true});
  CHECK(contains(coloured, "\x1b[1;31mDISAGREES\x1b[0m"));
  for (std::size_t at = coloured.find('\x1b'); at != std::string::npos; at = coloured.find('\x1b')) {
    coloured.erase(at, coloured.find('m', at) - at + 1);
  }
  CHECK(coloured == check_as_text(report, {}));
}

TEST_CASE("json: the promised keys, numbers as numbers") {
  const json document = json::parse(check_as_json(disagreeing()));
  CHECK(document["tool"]["name"] == "a2asim");
  CHECK(document["tool"]["version"].is_string());
  CHECK(document["engine"] == "sglang");
  CHECK(document["generation"] == newest_generation().name);
  CHECK(document["topology"]["tp_size"] == 16);
  CHECK(document["topology"]["attn_tp_size"] == 1);
  CHECK(document["topology"]["attn_cp_size"] == 1);
  CHECK(document["topology"]["moe_dense_tp_size"] == 1);
  CHECK(document["capacity"]["max_num_tokens"] == 1024);
  CHECK(document["capacity"]["workspace_bytes_per_rank"] == 471859200);
  CHECK(document["capacity"]["source"].is_string());
  CHECK(document["verdict"] == "disagrees");
  const json& finding = document["findings"][0];
  CHECK(finding["id"] == "geometry_disagreement");
  CHECK(finding["severity"] == "error");
  CHECK(finding["phase"] == "graph_decode");
  CHECK(finding["fix"] == "drop --enable-dp-lm-head, or use pr30450");
  CHECK(finding["witness"]["tokens_per_dp_rank"][0] == 2);
  CHECK(finding["witness"]["runtime_max_tokens_per_rank"].size() == 16);
}

TEST_CASE("json: null where nothing is known") {
  CheckReport report = disagreeing();
  report.workspace_known = false;
  report.topology.moe_dense_tp_size = std::nullopt;
  report.findings[0].witness->runtime_max_tokens_per_rank[3] = std::nullopt;
  report.findings.push_back(note("no witness"));
  json document = json::parse(check_as_json(report));
  CHECK(document["capacity"]["workspace_bytes_per_rank"].is_null());
  CHECK(document["topology"]["moe_dense_tp_size"].is_null());
  CHECK(document["findings"][0]["witness"]["runtime_max_tokens_per_rank"][3].is_null());
  CHECK(document["findings"][1]["witness"].is_null());
  report.capacity.reset();
  document = json::parse(check_as_json(report));
  CHECK(document["capacity"]["max_num_tokens"].is_null());
}

TEST_CASE("json: a command line that argparse refuses has a topology of the same keys, without values") {
  CheckReport report;
  report.verdict = Verdict::rejected;
  const json document = json::parse(check_as_json(report));
  REQUIRE(document["topology"].is_object());
  for (const char* key : {"tp_size", "dp_size", "ep_size", "attn_tp_size", "attn_cp_size", "moe_dense_tp_size"}) {
    REQUIRE(document["topology"].contains(key));
    CHECK(document["topology"][key].is_null());
  }
}

TEST_CASE("json and sarif: bytes that are no UTF-8 do not stop the output") {
  CheckReport report = disagreeing();
  report.findings.push_back(note("--model-path \xFF\xFE"));
  CHECK(json::accept(check_as_json(report)));
  CHECK(json::accept(check_as_sarif(report, {})));
}

TEST_CASE("sarif: rules, levels and locations") {
  CheckReport report = disagreeing();
  report.findings.push_back(disagreement());
  report.findings.push_back(note("--foo"));
  const json document =
      json::parse(check_as_sarif(report, {.kind = CommandSource::Kind::file, .path = "scripts/my server.sh"}));
  CHECK(document["version"] == "2.1.0");
  const json& run = document["runs"][0];
  const json& rules = run["tool"]["driver"]["rules"];
  REQUIRE(rules.size() == 2);
  REQUIRE(run["results"].size() == 3);
  for (const json& result : run["results"]) {
    CHECK(rules[result["ruleIndex"].get<std::size_t>()]["id"] == result["ruleId"]);
    CHECK(result["message"]["text"].is_string());
    const json& physical = result["locations"][0]["physicalLocation"];
    CHECK(physical["artifactLocation"]["uri"] == "scripts/my%20server.sh");
    CHECK(physical["region"]["startLine"] == 1);
  }
  CHECK(run["results"][0]["level"] == "error");
  CHECK(run["results"][2]["level"] == "note");
}

TEST_CASE("sarif: a typed command has a logical location: nothing found gives empty lists") {
  CheckReport report = disagreeing();
  json document = json::parse(check_as_sarif(report, {}));
  CHECK(document["runs"][0]["results"][0]["locations"][0]["logicalLocations"][0]["name"] == "command line");
  report.findings.clear();
  document = json::parse(check_as_sarif(report, {}));
  CHECK(document["runs"][0]["results"] == json::array());
  CHECK(document["runs"][0]["tool"]["driver"]["rules"] == json::array());
}

}  // namespace
}  // namespace a2asim
