#include "tests/vllm/vllm.h"

using namespace a2asim;
using test::check_vllm;
using test::says;

namespace {

struct Row {
  std::string_view version, command;
  Verdict verdict;
  std::string_view words;  // that some finding says
};

}  // namespace

TEST_CASE("vllm: from a command to a verdict") {
  const std::string dp8 = "vllm serve M-NVFP4 -dp 8 --enable-expert-parallel ";
  const std::vector<Row> rows = {
      {"v0.20.0", "--all2all-backend deepep_low_latency --max-num-seqs 512", Verdict::rejected, "512"},
      {"v0.20.0", "--all2all-backend deepep_low_latency --max-num-seqs 256", Verdict::agrees, ""},
      {"v0.20.0", "--all2all-backend deepep_low_latency --max-num-seqs 512 --max-num-batched-tokens 512",
       Verdict::agrees, ""},
      {"v0.12.0", "--all2all-backend pplx", Verdict::agrees, ""},
      {"v0.20.0", "--all2all-backend pplx", Verdict::agrees, ""},
      {"v0.20.1", "--all2all-backend flashinfer_nvlink_one_sided", Verdict::agrees, ""},
      {"v0.18.0", "--all2all-backend flashinfer_nvlink_one_sided -tp 2", Verdict::rejected, "tensor-parallel-size"},
      {"v0.20.1", "--all2all-backend flashinfer_nvlink_one_sided -tp 2", Verdict::agrees, ""},
      {"v0.20.0", "--all2all-backend allgather_reducescatter", Verdict::agrees, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.version);
    CAPTURE(row.command);
    const CheckReport report = check_vllm(row.version, dp8 + std::string(row.command));
    CHECK(std::string(name(report.verdict)) == name(row.verdict));
    CHECK(says(report, row.words));
  }
}

// #24845 to #25906: an idle rank keeps the graph of one token. Buffers of a fixed size mind only another number of
// rounds.
TEST_CASE("vllm: in rounds, ranks disagree only where they run another number of them") {
  const std::string command =
      " vllm serve M -dp 8 --enable-expert-parallel --max-num-seqs 64 --max-num-batched-tokens 256";
  const auto verdict = [&](const std::string& env) {
    return std::string(name(check_vllm("before25906", env + command).verdict));
  };
  CHECK(verdict("VLLM_ALL2ALL_BACKEND=allgather_reducescatter") == "disagrees");
  CHECK(verdict("VLLM_ALL2ALL_BACKEND=deepep_low_latency") == "agrees");
  CHECK(verdict("VLLM_MOE_DP_CHUNK_SIZE=4 VLLM_ALL2ALL_BACKEND=deepep_low_latency") == "disagrees");
}

// The workspace is the first layer's, in nvfp4, until #42976.
TEST_CASE("vllm: a bf16 head that drafts has room for fewer tokens than the layers in nvfp4") {
  const std::string command =
      "vllm serve M-NVFP4 -dp 8 --enable-expert-parallel --all2all-backend flashinfer_nvlink_one_sided "
      "--max-num-seqs 64 --max-num-batched-tokens 1024";
  const std::string drafts = " --speculative-config '{\"method\": \"deepseek_mtp\", \"num_speculative_tokens\": 1}'";
  const CheckReport before = check_vllm("v0.20.1", command + drafts);
  CHECK(std::string(name(before.verdict)) == "over_capacity");
  CHECK(says(before, "#42976"));
  CHECK(before.capacity->max_num_tokens < 1024);
  CHECK(std::string(name(check_vllm("v0.20.1", command).verdict)) == "agrees");
  // Whether another checkpoint has such a head is not known.
  std::string unnamed = command + drafts + " --quantization modelopt_fp4";
  unnamed.replace(unnamed.find("M-NVFP4"), 7, "M");
  CHECK(std::string(name(check_vllm("v0.20.1", unnamed).verdict)) == "agrees");
  CHECK(std::string(name(check_vllm("v0.22.0", command + drafts).verdict)) == "agrees");
}

TEST_CASE("vllm: redundant experts must divide") {
  const CheckReport report = check_vllm("v0.12.0",
                                        "vllm serve M -tp 8 --enable-expert-parallel --enable-eplb --eplb-config "
                                        "'{\"num_redundant_experts\": 2}'");
  CHECK(report.verdict == Verdict::rejected);
}

// The windows in which ranks of one step do not go on together, and the versions that have them.
TEST_CASE("vllm: only known versions have batches on which ranks disagree, in every graph mode") {
  const std::map<std::string_view, std::set<std::string_view>> expected = {{"FULL_DECODE_ONLY", {"pr28579", "pr29936"}},
                                                                           {"FULL", {"pr34102"}}};
  for (const auto& [mode, versions] : expected) {
    std::set<std::string_view> with_window;
    bool begun = false;
    for (const Version* version : test::vllm_engine().versions()) {
      begun = begun || version->name == "pr25906";
      if (!begun) continue;
      const auto report = check_vllm(version->name,
                                     "vllm serve M -dp 4 --enable-expert-parallel --compilation-config "
                                     "'{\"cudagraph_mode\": \"" +
                                         std::string(mode) + "\"}'");
      if (report.verdict == Verdict::rejected || report.verdict == Verdict::disagrees)
        with_window.insert(version->name);
    }
    CAPTURE(mode);
    CHECK(with_window == versions);
  }
}
