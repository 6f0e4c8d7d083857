// What a plug-in may do to the program: nothing but end its own process, with one line, soon, and leave nobody behind.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

Outcome conformance(const std::string& library, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"conformance", "--backend", library, "--call-timeout-s", "2"};
  args.insert(args.end(), more.begin(), more.end());
  return run(args);
}

bool runs(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream comm(entry.path() / "comm");
    std::string line;
    if (std::getline(comm, line) && line == name) return true;
  }
  return false;
}

void ends_with_one_line(const char* fault, const char* part) {
  CAPTURE(fault);
  const Outcome outcome = conformance(std::string(A2ASIM_BAD_PLUGINS) + "/libbad_" + fault + ".so");
  INFO(outcome.err);
  CHECK(outcome.exit_code == kUnusableInput);
  CHECK(outcome.out.empty());
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
  CHECK(contains(outcome.err, part));
  CHECK(contains(outcome.err, std::string("libbad_") + fault + ".so"));
}

TEST_CASE("plug-ins: the example passes, and what it lacks is counted by name") {
  const Outcome outcome = conformance(A2ASIM_OWN_BACKEND, {"--small"});
  INFO(outcome.out);
  INFO(outcome.err);
  CHECK(outcome.exit_code == kNothingWrong);
  CHECK(contains(outcome.out, "conformance of own_backend"));
  CHECK(contains(outcome.out, " 0 failed, "));
  CHECK(contains(outcome.out, "law: every token arrives once"));
  CHECK(contains(outcome.out, "needs 'captured graphs'"));
  CHECK(contains(outcome.out, "1 rank mask"));
  const auto json = nlohmann::json::parse(conformance(A2ASIM_OWN_BACKEND, {"--small", "--format", "json"}).out);
  CHECK(json["backend"] == "own_backend");
  CHECK(json["summary"]["failed"] == 0);
  CHECK(json["summary"]["passed"].get<int>() > 8);
  CHECK(std::ranges::any_of(json["cases"], [](const auto& one) { return one["lacks"] == "rank mask"; }));
}

TEST_CASE("plug-ins: crashes, hangs and ends of the process") {
  ends_with_one_line("crash", "crashed with signal 11 (Segmentation fault) in dispatch; its last line: about to touch");
  ends_with_one_line("hang", "no answer to combine within 2000 ms");
  ends_with_one_line("exit", "exited with code 7 in dispatch");
  ends_with_one_line("crash_at_load", "crashed with signal 11 (Segmentation fault) in load");
  ends_with_one_line("crash_at_destroy", "crashed with signal 6 (Aborted) in destroy");
}

TEST_CASE("plug-ins: sizes that cannot be") {
  ends_with_one_line("counts", "gives what cannot be: rank 0 reads 1152921504606846976 rows");
  ends_with_one_line("workspace", "gives what cannot be: a workspace of 4611686018427387904 bytes for rank 0");
  ends_with_one_line("no_address", "has no address for results of rank 0");
}

TEST_CASE("plug-ins: tables that cannot be used") {
  ends_with_one_line("newer", "it is of version 7 of the plug-in interface; this program knows version 1");
  ends_with_one_line("wrong_version", "its table says version 3");
  ends_with_one_line("no_function", "its table has no copy");
  ends_with_one_line("capabilities", "it claims capabilities");
  for (const char* path : {"/nowhere/libx.so", A2ASIM_SOURCE_DIR "/README.md", A2ASIM_SOURCE_DIR}) {
    const Outcome outcome = conformance(path);
    INFO(outcome.err);
    CHECK(outcome.exit_code == kUnusableInput);
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
  }
  CHECK(contains(run({"conformance", "--backend", "what"}).err, "give sim, cuda, or the path of a plug-in"));
  CHECK(contains(run({"conformance", "--only", "no such case"}).err, "no case has this in its name"));
}

TEST_CASE("plug-ins: what one started and let go of is ended with it") {
  ends_with_one_line("daemon", "crashed with signal 11");
  CHECK_FALSE(runs("a2asim_daemon"));
}

TEST_CASE("plug-ins: an error's text is one line, and fails the cases, not the session") {
  const Outcome outcome = conformance(std::string(A2ASIM_BAD_PLUGINS) + "/libbad_text.so", {"--only", "law"});
  INFO(outcome.out);
  CHECK(outcome.exit_code == kErrorFound);
  CHECK(outcome.err.empty());
  CHECK(contains(outcome.out, "first line\\nsecond \\x1b[31mline"));
}

TEST_CASE("plug-ins: scenarios: what agrees is compared, what needs more is skipped by name") {
  const std::string scenarios = A2ASIM_SOURCE_DIR "/sim/scenarios/";
  const Outcome agrees =
      run({"validate", "--backend", A2ASIM_OWN_BACKEND, "--guard", "off", scenarios + "idle_rank.yaml"});
  INFO(agrees.out);
  INFO(agrees.err);
  CHECK(agrees.exit_code == kNothingWrong);
  CHECK(contains(agrees.out, "validate: 1 passed, 0 failed, 0 skipped"));
  const Outcome not_all = run({"validate", "--backend", A2ASIM_OWN_BACKEND, scenarios + "collapse.yaml"});
  INFO(not_all.out);
  CHECK(contains(not_all.out, "needs 'unequal R'"));
  CHECK(contains(not_all.out, "needs 'guard'"));
  const Outcome bad = run(
      {"validate", "--backend", std::string(A2ASIM_BAD_PLUGINS) + "/libbad_crash.so", scenarios + "idle_rank.yaml"});
  CHECK(bad.exit_code == kUnusableInput);
  CHECK(std::ranges::count(bad.err, '\n') == 1);
  CHECK(contains(bad.err, "crashed with signal 11"));
  const Outcome sim = run({"validate", "--backend", "sim", "--guard", "off", scenarios + "collapse.yaml"});
  INFO(sim.out);
  CHECK(sim.exit_code == kNothingWrong);
  CHECK(contains(sim.out, "validate: 1 passed, 0 failed, 0 skipped"));
}

TEST_CASE("plug-ins: experts of quantised rows run on the host, whatever a table has, steps of graphs eagerly") {
  const std::string scenarios = A2ASIM_SOURCE_DIR "/sim/scenarios/";
  const TemporaryFile graphs("graphs.yaml", R"(name: graphs
sglang: pr29461
launch: >-
  python3 -m sglang.launch_server --model-path M --quantization modelopt_fp4 --tp-size 4 --dp-size 4 --cuda-graph-bs 4 8
  --enable-dp-attention --enable-dp-lm-head --moe-dense-tp-size 1 --moe-a2a-backend flashinfer
  --moe-runner-backend flashinfer_cutlass
env: {SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK: "64"}
model: {num_experts: 8, top_k: 2, hidden_size: 64}
seed: 11
steps: [{mode: decode, tokens: [4, 4, 4, 4]}, {mode: decode, tokens: [7, 1, 3, 5]}]
)");
  const Outcome sim = run({"validate", "--backend", "sim", "--guard", "off", scenarios + "nvfp4_collapse.yaml",
                           scenarios + "vllm_mxfp8.yaml", graphs.path});
  INFO(sim.out);
  INFO(sim.err);
  CHECK(sim.exit_code == kNothingWrong);
  CHECK(contains(sim.out, "validate: 3 passed, 0 failed, 0 skipped"));
  CHECK(contains(sim.out, "run eagerly, with the sizes of the graph: experts of quantised rows run on the host"));
  const Outcome own =
      run({"validate", "--backend", A2ASIM_OWN_BACKEND, "--guard", "off", scenarios + "vllm_mxfp8.yaml"});
  INFO(own.out);
  CHECK(contains(own.out, "validate: 1 passed, 0 failed, 0 skipped"));
}

}  // namespace
}  // namespace a2asim
