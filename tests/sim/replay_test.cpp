// Every shipped scenario, as its file expects it and as its digest was: for its own version, the others that it names,
// and every fidelity.
#include "sim/cluster/replay.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/cluster/trace.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim {
namespace {

constexpr Fidelity kFidelities[] = {Fidelity::geometry, Fidelity::provenance, Fidelity::numeric};

std::string path_of(const std::string& name) { return A2ASIM_SOURCE_DIR "/sim/scenarios/" + name + ".yaml"; }

std::vector<std::string> shipped() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(A2ASIM_SOURCE_DIR "/sim/scenarios"))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

Scenario load(const std::string& name) {
  const auto scenario = load_scenario(path_of(name));
  REQUIRE_MESSAGE(scenario.has_value(), scenario.error().message);
  return *scenario;
}

ReplayReport run(const Scenario& scenario, const ReplayOptions& options) {
  const auto report = replay(scenario, "test", options);
  REQUIRE_MESSAGE(report.has_value(), report.error().message);
  return *report;
}

ReplayReport run(const std::string& name, const std::string& sglang = "", Fidelity fidelity = Fidelity::numeric) {
  ReplayOptions options;
  if (!sglang.empty()) options.version = {"sglang", sglang};
  options.fidelity = fidelity;
  return run(load(name), options);
}

Scenario parsed_text(const std::string& text) {
  const auto scenario = parse_scenario(text, "test");
  REQUIRE_MESSAGE(scenario.has_value(), scenario.error().message);
  return *scenario;
}

std::int64_t count(const ReplayReport& report, FindingKind kind) {
  return report.counts[static_cast<std::size_t>(kind)];
}

std::vector<std::int64_t> sizes(const ReplayReport& report, std::size_t step) {
  std::vector<std::int64_t> out;
  for (const ReplayedRank& rank : report.steps.at(step).ranks) out.push_back(rank.runtime_max().value_or(-1));
  return out;
}

// "NAME GENERATION FIDELITY DIGEST" a line.
std::map<std::string, std::string> stored_digests() {
  std::map<std::string, std::string> digests;
  std::ifstream file(A2ASIM_SOURCE_DIR "/tests/data/scenario_digests.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    digests[line.substr(0, line.rfind(' '))] = line.substr(line.rfind(' ') + 1);
  }
  return digests;
}

// Each run of a shipped scenario that its file expects something of: the scenario, that, and the run.
void for_each_run(const std::function<void(const Scenario&, const Expect&, const ReplayReport&, Fidelity)>& see) {
  for (const std::string& name : shipped()) {
    CAPTURE(name);
    const Scenario scenario = load(name);
    REQUIRE(scenario.expect.has_value());
    for (const Fidelity fidelity : kFidelities) {
      ReplayOptions options;
      options.fidelity = fidelity;
      see(scenario, *scenario.expect, run(scenario, options), fidelity);
    }
    for (const auto& [generation, expected] : scenario.expect_by_generation) {
      CAPTURE(generation);
      ReplayOptions options;
      options.version = {std::string(engine_of(scenario).name), std::string(generation)};
      const ReplayReport report = run(scenario, options);
      see(scenario, expected, report, report.fidelity);
    }
  }
}

}  // namespace

TEST_CASE("replay: every shipped scenario is as it expects, at every fidelity, and the same when it runs again") {
  for_each_run([](const Scenario& scenario, const Expect& expected, const ReplayReport& report, Fidelity fidelity) {
    CHECK(differs_from(expected, report) == "");
    ReplayOptions options;
    options.fidelity = fidelity;
    if (&expected == &*scenario.expect) CHECK(run(scenario, options).digest == report.digest);
  });
}

// By itself, so that tools/mutate.py can tell what nothing else notices.
TEST_CASE("replay: the digest of every shipped scenario is as it was") {
  const std::map<std::string, std::string> stored = stored_digests();
  std::size_t compared = 0;
  std::string differing;
  for_each_run([&](const Scenario& scenario, const Expect&, const ReplayReport& report, Fidelity fidelity) {
    if (report.fidelity != fidelity) return;
    const std::string key =
        fmt::format("{} {} {}", scenario.name, report.generation->name, a2asim::name(report.fidelity));
    const std::string digest = fmt::format("{:016x}", report.digest);
    const auto found = stored.find(key);
    ++compared;
    if (found == stored.end() || found->second != digest) differing += key + " " + digest + "\n";
  });
  CHECK(compared == stored.size());
  CHECK_MESSAGE(differing.empty(), "tests/data/scenario_digests.txt would have to say:\n", differing);
}

TEST_CASE("replay: what only the deployment can judge is refused with its place") {
  const auto with = [](std::string_view deployment, std::string_view model = "hidden_size: 16") {
    return fmt::format("name: x\n{}\nmodel: {{num_experts: 8, top_k: 2, {}}}\nsteps: [{{mode: decode, tokens: [1]}}]\n",
                       deployment, model);
  };
  constexpr std::string_view layout = "parallel: {tp_size: 1, moe_a2a_backend: flashinfer}";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {with(fmt::format("sglang: pr1\n{}", layout)), "f:2:9: sglang: 'pr1' is no generation"},
      {with(fmt::format("sglang: v0.5.99\n{}", layout)), "f:2:9: sglang: v0.5.99: the generation of this release"},
      {with(fmt::format("version: pr1\n{}", layout)), "f:2:10: version: 'pr1' is no generation"},
      {with("launch: ls -l"), "f:2:9: launch: 'ls -l' starts no"},
      {with("launch: \"\""), "f:2:9: launch: no command"},
      {with("launch: python3 -m sglang.launch_server 'abc"), "f:2:9: launch: line 1 of the command: the quote"},
      {with("launch: python3 -m sglang.launch_server --model-path M --tp-size four"),
       "f:2:9: launch: argument --tp-size"},
      {with(fmt::format("{}\nenv: {{SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK: 99999999999}}", layout)),
       "f:3:6: max_num_tokens is 99999999999"},
      {with("parallel: {tp_size: 1, moe_a2a_backend: flashinfer, max_num_tokens: 100000}", "hidden_size: 131072"),
       "f:3:8: the workspaces of 1 ranks take"},
  };
  for (const auto& [text, message] : cases) {
    CAPTURE(text);
    const auto scenario = parse_scenario(text, "f");
    REQUIRE_MESSAGE(scenario.has_value(), scenario.error().message);
    const auto report = replay(*scenario, "f", {});
    REQUIRE_FALSE(report.has_value());
    CHECK_MESSAGE(report.error().message.starts_with(message), report.error().message);
  }
}

TEST_CASE("replay: the collapse names bad tokens before #27945, and equals the oracle after") {
  const ReplayReport before = run("collapse", "pr26643");
  CHECK(before.verdict == Verdict::disagrees);
  CHECK(before.bad_tokens > 0);
  CHECK(count(before, FindingKind::nan_output) > 0);
  CHECK(count(before, FindingKind::wrong_output) > 0);
  const auto& findings = before.steps[0].findings;
  const auto bad = std::ranges::find(findings, FindingKind::nan_output, &Finding::kind);
  REQUIRE(bad != findings.end());
  CHECK(bad->token >= 0);
  // Its chain: a row of that token which was not read back as it was sent.
  CHECK(std::ranges::any_of(findings, [&](const Finding& found) {
    return found.row && found.row->source == bad->rank && found.row->token == bad->token;
  }));
  const ReplayReport after = run("collapse", "pr27945");
  CHECK(after.verdict == Verdict::agrees);
  CHECK(after.bad_tokens == 0);
  CHECK(sizes(after, 0) == std::vector<std::int64_t>(4, 256));
  const ReplayReport cured = run("collapse", "pr30450");
  CHECK(cured.bad_tokens == 0);
  CHECK(cured.bytes_wasted() * 4 < after.bytes_wasted());
}

TEST_CASE("replay: local graph buckets are right, wrong, right") {
  CHECK(run("graph_buckets", "pr27945").verdict == Verdict::agrees);
  const ReplayReport wrong = run("graph_buckets", "pr29461");
  CHECK(wrong.verdict == Verdict::disagrees);
  CHECK(wrong.first_bad_step == 1);
  CHECK(sizes(wrong, 1) == std::vector<std::int64_t>{16, 1, 4, 8});
  CHECK(wrong.bad_tokens > 0);
  const ReplayReport right = run("graph_buckets", "pr30450");
  CHECK_FALSE(right.has_error());
  CHECK(sizes(right, 1) == std::vector<std::int64_t>(4, 16));
}

TEST_CASE("replay: what the other fixes changed") {
  CHECK(sizes(run("capture", "pr27945"), 0) == std::vector<std::int64_t>(4, 64));
  CHECK(sizes(run("capture", "pr29461"), 0) == std::vector<std::int64_t>(4, 8));
  CHECK(sizes(run("sequence_parallel", "pr24850"), 0) == std::vector<std::int64_t>(4, 12));
  CHECK(sizes(run("sequence_parallel", "pr25685"), 0) == std::vector<std::int64_t>(4, 3));
  CHECK(sizes(run("attn_tp_scatter", "pr30450"), 1) == std::vector<std::int64_t>(4, 8));
  CHECK(sizes(run("attn_tp_scatter", "pr35758"), 1) == std::vector<std::int64_t>(4, 4));
  CHECK(run("double_count", "pr25685").max_num_tokens == 64);
  CHECK(run("double_count", "pr25907").max_num_tokens == 16);
  const ReplayReport dummy = run("idle_rank", "pr26643");
  const ReplayReport none = run("idle_rank", "pr22394");
  CHECK(dummy.traffic.rows_sent > none.traffic.rows_sent);
  CHECK(run("verify_over_cap", "pr29461").steps_run == 0);  // capture refuses
}

// One rank sends, and FlashInfer refuses its call: nobody is left in the all-to-all, and the peer that is named must be
// one.
TEST_CASE("replay: a disagreement names a rank also where nobody is left") {
  const Scenario scenario = parsed_text(
      "name: t\nsglang: pr24850\nparallel: {tp_size: 6, dp_size: 6, moe_dense_tp_size: 1, enable_dp_attention: true, "
      "enable_dp_lm_head: true, moe_a2a_backend: flashinfer, moe_runner_backend: flashinfer_cutlass, "
      "chunked_prefill_size: 192, max_running_requests: 78, disable_cuda_graph: true, max_num_tokens: 4}\n"
      "model: {num_experts: 24, top_k: 2, hidden_size: 1, layers: 2, dtype: bfloat16}\n"
      "steps: [{mode: decode, tokens: [0, 5, 0, 0, 0, 0], graph: false}]\n"
      "faults: [{step: 0, dead_rank: 1}, {step: 0, skip_rank: 2}, {max_num_tokens: {rank: 0, value: 512}}]\n");
  for (const Fidelity fidelity : kFidelities) {
    ReplayOptions options;
    options.fidelity = fidelity;
    const ReplayReport report = run(scenario, options);
    for (const Finding& found : report.steps.at(0).findings) {
      CHECK(found.rank < 6);
      CHECK(found.peer < 6);
    }
  }
}

TEST_CASE("replay: a file's seed, or another one") {
  ReplayOptions options;
  options.fidelity = Fidelity::numeric;
  const Scenario scenario = load("idle_rank");
  const std::uint64_t first = run(scenario, options).digest;
  options.seed = 4;  // the file's
  CHECK(run(scenario, options).digest == first);
  options.seed = 5;
  CHECK(run(scenario, options).digest != first);
}

TEST_CASE("replay: a launch that SGLang refuses is rejected: as fields it runs, and says so") {
  const std::string rest =
      "\nmodel: {num_experts: 8, top_k: 2, hidden_size: 16}\nsteps: [{mode: decode, tokens: [3, 5]}]\n";
  const ReplayReport refused = run(
      parsed_text(
          "name: t\nsglang: pr30450\nlaunch: python3 -m sglang.launch_server --model-path M --tp-size 4 --dp-size 2 "
          "--enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass" +
          rest),
      {});
  CHECK(refused.verdict == Verdict::rejected);
  CHECK(refused.why.find("dp_size == tp_size") != std::string::npos);
  CHECK(refused.steps_run == 0);
  const ReplayReport fields =
      run(parsed_text("name: t\nsglang: pr30450\nparallel: {tp_size: 4, dp_size: 2, enable_dp_attention: true, "
                      "moe_a2a_backend: flashinfer, moe_runner_backend: flashinfer_cutlass, disable_cuda_graph: true}" +
                      rest),
          {});
  CHECK(fields.verdict == Verdict::agrees);
  REQUIRE_FALSE(fields.notes.empty());
  CHECK(std::ranges::any_of(
      fields.notes, [](const std::string& note) { return note.find("dp_size == tp_size") != std::string::npos; }));
  const ReplayReport other = run(parsed_text("name: t\nsglang: pr30450\nparallel: {tp_size: 2, dp_size: 2, "
                                             "enable_dp_attention: true, moe_a2a_backend: deepep}" +
                                             rest),
                                 {});
  CHECK(other.verdict == Verdict::out_of_scope);
  CHECK_FALSE(other.has_error());
}

TEST_CASE("replay: input that fits no deployment is one line") {
  const std::string head =
      "name: t\nlaunch: python3 -m sglang.launch_server --model-path M --tp-size 2 --dp-size 2 "
      "--enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass\n"
      "model: {num_experts: 8, top_k: 2, hidden_size: 16}\n";
  const auto error_of = [](const std::string& text, const ReplayOptions& options = {}) {
    const auto report = replay(parsed_text(text), "file.yaml", options);
    REQUIRE_FALSE(report.has_value());
    CHECK(report.error().kind == ErrorKind::bad_input);
    CHECK(report.error().message.find('\n') == std::string::npos);
    return report.error().message;
  };
  CHECK(error_of(head + "steps: [{mode: decode, tokens: [3, 5, 7]}]\n").find("file.yaml:4:") == 0);
  CHECK(error_of(head + "steps: [{mode: decode, tokens: [3, 5]}]\nfaults: [{step: 0, skip_rank: 2}]\n")
            .find("no rank 2") != std::string::npos);
  CHECK(error_of("sglang: never\n" + head + "steps: [{mode: decode, tokens: [3, 5]}]\n").find("never") !=
        std::string::npos);
}

TEST_CASE("replay: more steps than a report keeps are counted all the same") {
  Scenario scenario = load("capture");
  scenario.steps[0].repeat = 500;
  ReplayOptions options;
  options.fidelity = Fidelity::geometry;
  options.kept_rank_steps = 40;
  std::int64_t seen = 0;
  options.progress = [&](const ReplayProgress& progress) {
    CHECK(progress.steps == 500);
    seen = progress.steps_done;
    return true;
  };
  const ReplayReport report = run(scenario, options);
  CHECK(report.steps_run == 500);
  CHECK(report.steps.size() == 10);
  CHECK(count(report, FindingKind::wasted) == 500);
  CHECK(seen == 500);
}

TEST_CASE("replay: whoever watches the progress can end the run after a step") {
  Scenario scenario = load("capture");
  scenario.steps[0].repeat = 500;
  ReplayOptions options;
  options.fidelity = Fidelity::geometry;
  options.progress = [](const ReplayProgress& progress) { return progress.steps_done < 3; };
  CHECK(run(scenario, options).steps_run == 3);
}

TEST_CASE("replay: a long step says how far it is") {
  Scenario scenario = load("fault_in_replica");
  scenario.faults.clear();
  scenario.steps.resize(1);
  scenario.model.layers = 2;
  std::vector<std::int64_t> parts;
  ReplayOptions options;
  options.progress = [&](const ReplayProgress& progress) {
    if (progress.parts == 0) return true;
    CHECK(progress.parts == 18);  // of each layer the rows, then the outputs of eight ranks
    CHECK(progress.steps_done == 0);
    parts.push_back(progress.part);
    return true;
  };
  run(scenario, options);
  CHECK(std::ranges::is_sorted(parts));
  CHECK(parts.size() > 10);
  CHECK(parts.back() <= 18);
}

TEST_CASE("trace: one named track a rank, complete events that do not overlap") {
  for (const char* name : {"collapse", "fault_missing_rank", "prefill_all_gatherv"}) {
    CAPTURE(name);
    const ReplayReport report = run(name);
    const nlohmann::json trace = nlohmann::json::parse(chrome_trace(report));
    CHECK(chrome_trace(report) == chrome_trace(run(name)));
    std::map<int, std::int64_t> end;
    std::map<int, std::string> tracks;
    bool waits = false;
    for (const nlohmann::json& event : trace.at("traceEvents")) {
      const int rank = event.at("tid");
      if (event.at("ph") == "M") {
        if (event.at("name") == "thread_name") tracks[rank] = event.at("args").at("name");
        continue;
      }
      CHECK(event.at("ph") == "X");
      CHECK(event.at("pid") == 0);
      CHECK(event.at("dur") > 0);
      CHECK(event.at("ts") >= end[rank]);
      end[rank] = event.at("ts").get<std::int64_t>() + event.at("dur").get<std::int64_t>();
      waits = waits || event.at("name") == "waits";
    }
    CHECK(tracks.size() == 4);
    CHECK(tracks.at(2) == "rank 2");
    CHECK(waits == (std::string(name) == "fault_missing_rank"));
  }
}

}  // namespace a2asim
