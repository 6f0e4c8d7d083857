// Every key of the JSON of check, replay and plan: reports made by hand, in which no two numbers are equal, so that
// each key must hold its own.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "model/check/finding_info.h"
#include "model/engines/sglang/generation.h"
#include "tools/check/check_formats.h"
#include "tools/plan/plan_formats.h"
#include "tools/replay/replay_formats.h"

namespace a2asim {
namespace {

using nlohmann::json;

// One line a key that differs.
std::string difference(const json& got, const json& wanted) { return json::diff(wanted, got).dump(); }
void check_equal(const json& got, const std::string& wanted) {
  const json all = json::parse(wanted);
  CHECK_MESSAGE(got == all, difference(got, all));
}

const Generation& version() { return *find_generation("pr30450")->generation; }

ReplayedRank ranks_part(bool replays, std::int64_t rows, std::int64_t size, SizingBranch branch) {
  ReplayedRank rank;
  rank.decision.participates = true;
  rank.decision.replay = replays;
  rank.decision.rows = rows;
  rank.decision.sizing.runtime_max_tokens_per_rank = size;
  rank.decision.sizing.branch = branch;
  return rank;
}

// A finding whose every number is 0: each is said. Of the others only what is known.
Finding finding_of_zeros() {
  Finding found;
  found.severity = Severity::warning;
  found.operation = Operation::dispatch;
  found.layer = found.rank = found.peer = 0;
  found.token = found.value = found.limit = 0;
  found.message = "all zero";
  found.fix = "do this";
  found.witness = Witness{{31, 32}, {33, 34}};
  return found;
}

Finding finding_of_a_row() {
  Finding found;
  found.kind = FindingKind::torn;
  found.phase = Phase::verify;
  found.operation = Operation::combine;
  found.root = FindingKind::receive_overflow;
  found.message = "a row";
  found.rank = 41;
  found.row = RowEvidence{.slice = 42,
                          .source = 43,
                          .payload = 1,
                          .token = 44,
                          .slot = 45,
                          .expected_offset = 46,
                          .written_offset = 47,
                          .expected_round = 48,
                          .found_writer = 49,
                          .found_source = 50,
                          .found_payload = 51,
                          .found_token = 52,
                          .found_slot = 53,
                          .found_round = 54,
                          .found_step = 55,
                          .race = true,
                          .lost_writer = 56,
                          .lost_token = 57,
                          .lost_slot = 58,
                          .lost_payload = 59,
                          .dispatch_type = DispatchType::nvfp4};
  return found;
}

// Two replicas of two ranks; a fault made the second rank see another list.
ReplayedStep replayed_step() {
  ReplayedStep step;
  step.outcome.step = 61;
  step.outcome.phase = Phase::graph_decode;
  step.outcome.verdict = Verdict::over_capacity;
  step.outcome.stopped = true;
  step.outcome.bad_tokens = 62;
  step.outcome.in_doubt = {{0, 2}, {}, {1}, {}};
  step.outcome.traffic = {63, 70, 64, 65};
  step.batches = {{ForwardMode::decode, 66}, {ForwardMode::idle, 0}};
  step.lists = {{{67, 0}}, {{68, 0}}, std::nullopt, std::nullopt};
  step.ranks = {ranks_part(true, 71, 72, SizingBranch::max_of_list_scatter),
                ranks_part(false, 73, 74, SizingBranch::static_cap),
                {},
                ranks_part(false, 75, 76, SizingBranch::local_rows)};
  step.ranks[1].decision.exceeds_cap = true;
  step.ranks[1].decision.raised = Error{ErrorKind::assertion_error, "above the cap"};
  step.ranks[3].decision.raised = Error{ErrorKind::value_error, "no list"};
  step.counts[static_cast<std::size_t>(FindingKind::torn)] = 77;
  step.findings = {finding_of_zeros(), finding_of_a_row()};
  return step;
}

ReplayReport replayed() {
  ReplayReport report;
  report.name = "by hand";
  report.file = "f.yaml";
  report.generation = &version();
  report.fidelity = Fidelity::provenance;
  report.seed = 11;
  report.ep_size = 4;
  report.max_num_tokens = 12;
  report.payload_bytes_per_token = {61, 62};
  report.dispatch_bytes_per_token = 13;
  report.combine_bytes_per_token = 14;
  report.workspace_bytes_per_rank = 15;
  report.verdict = Verdict::disagrees;
  report.first_bad_step = 0;
  report.num_steps = 16;
  report.steps_run = 17;
  report.counts[static_cast<std::size_t>(FindingKind::stale)] = 18;
  report.bad_tokens = 19;
  report.traffic = {20, 25, 21, 22};
  report.digest = 0xab;
  report.notes = {"assumed"};
  report.start_findings = {finding_of_zeros()};
  report.steps = {replayed_step()};
  return report;
}

const std::string kFindingOfZeros = R"({
  "id": "geometry_disagreement", "severity": "warning", "phase": "eager_decode", "operation": "dispatch",
  "message": "all zero", "layer": 0, "rank": 0, "peer": 0, "token": 0, "value": 0, "limit": 0,
  "witness": {"tokens_per_dp_rank": [31, 32], "runtime_max_tokens_per_rank": [33, 34]}, "fix": "do this"})";

}  // namespace

TEST_CASE("json of replay: every key of a step holds its own value") {
  const json got = replay_as_json(replayed(), std::nullopt).at("steps").at(0);
  check_equal(got, R"({
    "step": 61, "phase": "graph_decode", "verdict": "over_capacity", "stopped": true,
    "modes": ["DECODE", "IDLE"], "tokens": [66, 0], "views": [[67, 0], null],
    "rank_views": [[67, 0], [68, 0], null, null],
    "runtime_max_tokens_per_rank": [72, 74, null, null], "rows": [71, 73, 0, 75],
    "branches": ["max_of_list_scatter", "static_cap", null, null], "paths": ["graph", "eager", "none", "eager"],
    "raised": [null, "AssertionError: above the cap", null, "ValueError: no list"],
    "counts": {"torn": 77}, "bad_tokens": 62, "tokens_in_doubt": [[0, 2], [], [1], []],
    "bytes_moved": 129, "bytes_wasted": 189,
    "findings": [)" + kFindingOfZeros +
                       R"(,
      {"id": "torn", "severity": "error", "phase": "verify", "operation": "combine", "message": "a row", "rank": 41,
       "root": "receive_overflow",
       "row": {"slice": 42, "source": 43, "payload": 1, "payload_name": "scales",
               "token": 44, "slot": 45, "expected_offset": 46,
               "written_offset": 47, "expected_round": 48, "found_writer": 49, "found_source": 50,
               "found_payload": 51, "found_payload_name": "payload",
               "found_token": 52, "found_slot": 53, "found_round": 54, "found_step": 55,
               "race": true, "lost_writer": 56, "lost_token": 57, "lost_payload": 59}}]})");
}

TEST_CASE("json of replay: every key of a scenario holds its own value") {
  json got = replay_as_json(replayed(), Expectation{{Verdict::agrees, 3, {}}, "it is not so"});
  got.erase("steps");
  check_equal(got, R"({
    "name": "by hand", "file": "f.yaml", "generation": "pr30450", "fidelity": "provenance", "seed": 11,
    "verdict": "disagrees", "why": null, "first_bad_step": 0, "ep_size": 4,
    "expected": {"as_expected": false, "verdict": "agrees", "step": 3, "differs": "it is not so"},
    "dispatch_dtype": "bf16",
    "payloads": [{"name": "hidden states", "bytes_per_token": 61}, {"name": "expert ids", "bytes_per_token": 62}],
    "capacity": {"max_num_tokens": 12, "workspace_bytes_per_rank": 15}, "num_steps": 16, "steps_run": 17,
    "counts": {"stale": 18}, "bad_tokens": 19, "bytes_moved": 43, "bytes_wasted": 135,
    "digest": "00000000000000ab", "notes": ["assumed"], "start_findings": [)" +
                       kFindingOfZeros + "]}");
}

TEST_CASE("json of replay: null where nothing is known, and views of ranks only where a replica's differ") {
  ReplayReport report = replayed();
  report.fidelity = Fidelity::geometry;
  report.why = "it does not start";
  report.first_bad_step.reset();
  report.steps[0].lists[1] = report.steps[0].lists[0];
  report.steps[0].ranks[0] = ranks_part(false, 0, 0, SizingBranch::allgather_prefill);
  const json got = replay_as_json(report, Expectation{});
  CHECK(got.at("expected") == json{{"as_expected", true}});
  CHECK(got.at("why") == "it does not start");
  for (const char* key : {"first_bad_step", "bytes_moved", "bytes_wasted"}) CHECK(got.at(key).is_null());
  const json& step = got.at("steps").at(0);
  for (const char* key : {"rank_views", "tokens_in_doubt", "bytes_moved", "bytes_wasted"})
    CHECK_MESSAGE(step.at(key).is_null(), key);
  CHECK(step.at("runtime_max_tokens_per_rank").at(0).is_null());
  CHECK(step.at("branches").at(0) == "allgather_prefill");
  CHECK(replay_as_json(replayed(), std::nullopt).at("expected").is_null());
  // The second replica alone has two lists.
  report.steps[0].lists[3] = {{69, 0}};
  const json views = replay_as_json(report, std::nullopt).at("steps").at(0).at("rank_views");
  CHECK(views == json::parse("[[67,0],[67,0],null,[69,0]]"));
}

TEST_CASE("json of plan: every key holds its own value") {
  Plan plan;
  plan.inputs.generation = &version();
  plan.inputs.model = {101, 2, 103};
  plan.inputs.dispatch_type = DispatchType::bf16;
  plan.inputs.combine_type = CombineType::fp8;
  plan.inputs.attn_tp_size = 104;
  plan.inputs.layers = 105;
  plan.inputs.link_gbps = 8;
  PlanPoint point;
  point.ep_size = 111;
  point.tokens = 112;
  point.rows_per_rank = 113;
  point.launch = "a launch";
  point.backend = "flashinfer";
  point.capacity = {114, 115, 116, 117, 118};
  point.capacity_source = "a source";
  point.regions = {{"a region", 119, 120}};
  point.expected_copies = 1.5;
  point.expected = {{121, 122, 123}, {124, 125, 126}, 0.25, 0.5};
  point.worst = {{127, 128, 129}, {130, 131, 132}, 2.25, 2.5};
  point.rules = {{PlanPath::eager_decode, true, {"pr30450"}, "a rule", 133, 140, 135, "", false, true},
                 {PlanPath::prefill, false, {"pr35758"}, "no rule", std::nullopt, 136, 137, "refused", true, false}};
  point.headroom = {{"fits", 138, 0}, {"does not", 139, -1}};
  point.problems = {"a problem"};
  point.notes = {"a note"};
  plan.points = {point};
  json got = json::parse(plan_as_json(plan));
  CHECK(got.at("flashinfer") == engines().front()->flashinfer(version()).tag);
  for (const char* key : {"tool", "flashinfer"}) got.erase(key);
  check_equal(got, R"({
    "command": "plan", "engine": "sglang", "generation": "pr30450",
    "model": {"num_experts": 101, "top_k": 2, "hidden_size": 103}, "dispatch_dtype": "bf16", "combine_dtype": "fp8",
    "payload_bytes_per_token": [206, 8, 8], "attn_tp_size": 104, "layers": 105, "link_bytes_per_second": 1e9,
    "gpu_memory_source": "memory.total of nvidia-smi, as public logs show it",
    "points": [{
      "ep_size": 111, "tokens_per_rank": 112, "rows_per_rank": 113, "launch": "a launch", "can_run": "no",
      "backend": "flashinfer",
      "capacity": {"max_num_tokens": 114, "dispatch_bytes_per_token": 115, "combine_bytes_per_token": 116,
                   "workspace_bytes_per_rank": 118, "source": "a source"},
      "workspace": [{"name": "a region", "offset_bytes": 119, "size_bytes": 120}],
      "traffic": {
        "expected_copies_per_token": 1.5,
        "expected": {"dispatch": {"sent_remote_bytes": 121, "received_remote_bytes": 122, "local_bytes": 123},
                     "combine": {"sent_remote_bytes": 124, "received_remote_bytes": 125, "local_bytes": 126},
                     "least_time_us": {"dispatch": 0.25, "combine": 0.5, "together": 0.75}},
        "worst": {"dispatch": {"sent_remote_bytes": 127, "received_remote_bytes": 128, "local_bytes": 129},
                  "combine": {"sent_remote_bytes": 130, "received_remote_bytes": 131, "local_bytes": 132},
                  "least_time_us": {"dispatch": 2.25, "combine": 2.5, "together": 4.75}}},
      "slots": [
        {"path": "eager_decode", "own_count_only": true, "generations": ["pr30450"], "chosen": true, "rule": "a rule",
         "runtime_max_tokens_per_rank": 133, "computed_slots": 140, "needed_slots": 135, "wasted_slots": 5,
         "refused": null, "all_ranks_agree": false},
        {"path": "prefill", "own_count_only": false, "generations": ["pr35758"], "chosen": false, "rule": "no rule",
         "runtime_max_tokens_per_rank": null, "computed_slots": null, "needed_slots": null, "wasted_slots": null,
         "refused": "refused", "all_ranks_agree": true}],
      "headroom": [{"gpu": "fits", "memory_mib": 138, "left_bytes": 0, "fits": true},
                   {"gpu": "does not", "memory_mib": 139, "left_bytes": -1, "fits": false}],
      "problems": ["a problem"], "notes": ["a note"]}]})");
  plan.inputs.link_gbps.reset();
  plan.inputs.gpu_memory_gib = 80;
  plan.points[0].workspace_known = false;
  plan.points[0].regions.clear();
  plan.points[0].capacity.max_num_tokens = 0;
  got = json::parse(plan_as_json(plan));
  CHECK(got.at("link_bytes_per_second").is_null());
  CHECK(got.at("gpu_memory_source") == "--gpu-memory");
  CHECK(got.at("points").at(0).at("traffic").at("worst").at("least_time_us").is_null());
  for (const char* key : {"max_num_tokens", "workspace_bytes_per_rank"})
    CHECK(got.at("points").at(0).at("capacity").at(key).is_null());
}

TEST_CASE("json of check: every key of a server holds its own value") {
  CheckedServer server;
  server.name = "decode";
  server.line = 7;
  server.condition = "$X is set";
  server.source = {CommandSource::Kind::file, "a.sh"};
  server.version_reason = "--sglang";
  CheckReport& report = server.report;
  report.verdict = Verdict::over_capacity;
  report.generation = &version();
  report.backend = "flashinfer";
  report.topology = {.tp_size = 201,
                     .flag_tp_size = 0,
                     .dp_size = 202,
                     .ep_size = 203,
                     .moe_dp_size = 204,
                     .attn_tp_size = 205,
                     .attn_cp_size = 206,
                     .attn_dp_size = 207,
                     .moe_dense_tp_size = 208,
                     .enable_dp_attention = true};
  report.capacity = Capacity{209, 210, 211, 212, 213};
  report.capacity_source = "a variable";
  report.workspace_known = true;
  CheckFinding finding;
  finding.kind = FindingKind::over_capacity;
  finding.severity = Severity::error;
  finding.phase = Phase::verify;
  finding.message = "too large";
  finding.consequence = "an assertion";
  finding.chain = {"because"};
  finding.any_of = {{"--a", "1", "2"}};
  finding.fix = "raise it";
  finding.fixes = {set_flag("--b", {"3"})};
  finding.witness = CheckWitness{{221, 0}, {"DECODE", "IDLE"}, {222, std::nullopt}, {"graph", "eager"}};
  finding.before = CheckWitness{{223}, {"EXTEND"}, {224}, {"eager"}};
  report.findings = {finding, finding};
  server.ignored = {"", "known"};
  server.fixes = {{{unset_variable("V", "4"), Verdict::agrees, true}, {upgrade_to("v9"), std::nullopt, false}}};
  json got = json::parse(check_as_json(std::span(&server, 1), 5));
  CHECK(got.at("differences") == 5);
  CHECK(got.at("verdict") == "over_capacity");
  json one = got.at("servers").at(0);
  for (json& each : one.at("findings")) {
    CHECK(each.at("fingerprint").get<std::string>().size() > 8);
    CHECK(each.at("about") == finding_info(FindingKind::over_capacity).what);
    for (const char* key : {"fingerprint", "about"}) each.erase(key);
  }
  const std::string shared = R"("id": "over_capacity", "severity": "error", "phase": "verify", "message": "too large",
    "consequence": "an assertion", "why": ["because"], "fix": "raise it",
    "any_of": [{"condition": "--a", "needed": "1", "yours": "2"}],
    "witness": {"tokens_per_dp_rank": [221, 0], "runtime_max_tokens_per_rank": [222, null],
                "modes": ["DECODE", "IDLE"], "paths": ["graph", "eager"]},
    "before": {"tokens_per_dp_rank": [223], "runtime_max_tokens_per_rank": [224], "modes": ["EXTEND"],
               "paths": ["eager"]},)";
  const auto words = [](const Fix& fix) { return json(in_words(fix)).dump(); };
  check_equal(one, R"({
    "file": "a.sh", "line": 7, "name": "decode", "condition": "$X is set", "engine": "sglang",
    "generation": "pr30450", "version_from": "--sglang", "backend": "flashinfer", "verdict": "over_capacity",
    "error": null,
    "topology": {"tp_size": 201, "dp_size": 202, "ep_size": 203, "moe_dp_size": 204, "attn_tp_size": 205,
                 "attn_cp_size": 206, "attn_dp_size": 207, "moe_dense_tp_size": 208, "enable_dp_attention": true},
    "capacity": {"max_num_tokens": 209, "dispatch_bytes_per_token": 210, "combine_bytes_per_token": 211,
                 "workspace_bytes_per_rank": 213, "source": "a variable"},
    "findings": [{)" + shared +
                       R"( "ignored": null,
      "fixes": [{"words": )" +
                       words(unset_variable("V", "4")) + R"(, "verdict": "agrees", "cures": true,
                 "steps": [{"do": "unset_variable", "name": "V", "values": []}]},
                {"words": )" +
                       words(upgrade_to("v9")) + R"(, "verdict": null, "cures": false,
                 "steps": [{"do": "upgrade", "name": "v9", "values": []}]}]},
    {)" + shared + R"( "ignored": "known",
      "fixes": [{"words": )" +
                       words(set_flag("--b", {"3"})) + R"(, "verdict": null, "cures": null,
                 "steps": [{"do": "set_flag", "name": "--b", "values": ["3"]}]}]}]})");
  // A single server stands at the top, too.
  for (const char* key : {"engine", "generation", "version_from", "backend", "topology", "capacity", "error"})
    CHECK_MESSAGE(got.at(key) == got.at("servers").at(0).at(key), key);
  CHECK(got.at("findings") == got.at("servers").at(0).at("findings"));
}

TEST_CASE("json of check: a server without a verdict, and several") {
  CheckedServer server;
  server.undecided = Error{ErrorKind::bad_input, "no such file"};
  const json one = json::parse(check_as_json(std::span(&server, 1)));
  for (const char* key : {"verdict", "engine", "generation", "file", "line"})
    CHECK_MESSAGE(one.at("servers").at(0).at(key).is_null(), key);
  CHECK(one.at("error") == "no such file");
  CHECK(one.at("differences").is_null());
  const std::array<CheckedServer, 2> two = {server, server};
  const json both = json::parse(check_as_json(two));
  CHECK(both.at("servers").size() == 2);
  CHECK_FALSE(both.contains("engine"));
}

}  // namespace a2asim
