// a2asim check --together: the commands of several nodes, and what they say differently.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;

// One script a node.
Outcome together(const std::vector<std::string>& commands, std::vector<std::string> options) {
  std::vector<std::unique_ptr<TemporaryFile>> files;
  options.insert(options.begin(), {"check", "--together"});
  for (const std::string& command : commands) {
    files.push_back(std::make_unique<TemporaryFile>("node" + std::to_string(files.size()) + ".sh", command + '\n'));
    options.push_back(files.back()->path);
  }
  return run(options);
}

struct Row {
  std::string version, first, second;
  int exit_code;
  std::string words;  // of a finding of the second node
};

const std::string kVllm = "vllm serve M -dp 16 -dpl 8 --enable-expert-parallel --max-num-seqs 64 ";
const std::string kSecond = " --data-parallel-start-rank 8 --headless";

void check_rows(const std::string& option, const std::string& base, const std::string& second,
                const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.version);
    CAPTURE(row.first);
    CAPTURE(row.second);
    const auto with = [&](const std::string& words, const std::string& end) {
      const bool is_variable = words.find('=') < words.find(' ') && !words.starts_with('-');
      return is_variable ? words + ' ' + base + end : base + words + end;
    };
    const std::vector<std::string> options = {option, row.version,     "--num-experts", "256",      "--top-k",
                                              "8",    "--hidden-size", "7168",          "--format", "json"};
    const Outcome outcome = together({with(row.first, ""), with(row.second, second)}, options);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == row.exit_code);
    REQUIRE(json::accept(outcome.out));
    const json document = json::parse(outcome.out);
    CHECK((document.at("differences") == 0) == row.words.empty());
    CHECK(contains(document.at("servers").at(1).at("findings").dump(), row.words));
  }
}

}  // namespace

TEST_CASE("together: nodes of vLLM, as each version takes them") {
  const std::string deepep = "--all2all-backend deepep_low_latency --max-num-batched-tokens ";
  check_rows("--vllm", kVllm, kSecond,
             {{"v0.20.1", deepep + "256", deepep + "256", 0, ""},
              {"v0.20.1", deepep + "512", deepep + "256", 1, "is 256 here and 512 on the first node"},
              {"v0.20.1", "--max-num-batched-tokens 4096", "--max-num-batched-tokens 2048", 0, ""},
              {"v0.20.1", "--all2all-backend deepep_high_throughput", "--all2all-backend allgather_reducescatter", 1,
               "Configuration mismatch detected for engine"},
              {"v0.10.0", "VLLM_ALL2ALL_BACKEND=deepep_low_latency", "VLLM_ALL2ALL_BACKEND=pplx", 1,
               "nothing compares it before #26218"},
              {"v0.12.0", "-tp 2", "-tp 1", 1, "--tensor-parallel-size is 1 here and 2 on the first node"},
              {"v0.12.0", "VLLM_MOE_DP_CHUNK_SIZE=128", "VLLM_MOE_DP_CHUNK_SIZE=256", 0, ""},
              {"v0.12.0", "VLLM_ALL2ALL_BACKEND=pplx VLLM_MOE_DP_CHUNK_SIZE=128",
               "VLLM_ALL2ALL_BACKEND=pplx VLLM_MOE_DP_CHUNK_SIZE=256", 1, "another number of rounds"},
              {"v0.12.0", "--enforce-eager", "--no-enforce-eager", 1, "should_attempt_dp_padding"},
              {"v0.21.0", "--enforce-eager", "--no-enforce-eager", 0, ""}});
}

// Both nodes capture graphs, of other sizes: each replays its own. A batch shows it.
TEST_CASE("together: graphs of other sizes are found by a batch") {
  const auto sizes = [](const std::string& list) {
    return "--max-num-batched-tokens 256 --compilation-config '{\"cudagraph_mode\": \"FULL_DECODE_ONLY\", "
           "\"cudagraph_capture_sizes\": [" +
           list + "]}'";
  };
  const Outcome outcome =
      together({kVllm + sizes("1,2,4,8"), kVllm + sizes("1,2,6") + kSecond}, {"--vllm", "v0.21.0", "--format", "json"});
  CHECK(outcome.exit_code == 1);
  const json finding = json::parse(outcome.out).at("servers").at(1).at("findings").at(0);
  CHECK(finding.at("id") == "nodes_differ");
  CHECK(finding.at("witness").at("tokens_per_dp_rank").size() == 16);
}

TEST_CASE("together: SGLang and TensorRT-LLM") {
  check_rows("--sglang",
             "python3 -m sglang.launch_server --model-path M --tp 16 --dp 16 --enable-dp-attention --nnodes 2 "
             "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass ",
             " --node-rank 1",
             {{"v0.5.16", "", "", 0, ""},
              {"v0.5.16", "--ep-size 16", "--ep-size 8", 1, "--ep-size is"},
              {"v0.5.16", "--chunked-prefill-size 262144", "--chunked-prefill-size 65536", 1,
               "max_num_tokens per rank"},
              {"v0.5.16", "--cuda-graph-bs 8 16", "--cuda-graph-bs 12 16", 1, "ranks of the first node and of this"}});
  check_rows("--trtllm", "trtllm-serve M --tp_size 8 --ep_size 8 --enable_attention_dp --max_num_tokens 8192 ", "",
             {{"1.3.0rc21", "", "", 0, ""},
              {"1.3.0rc21", "", "TRTLLM_MOE_A2A_WORKSPACE_MB=4096", 1, "Not all rank allocating same size."},
              {"1.3.0rc21", "", "TRTLLM_FORCE_COMM_METHOD=NVLINK_TWO_SIDED", 1, "the method is"}});
}

TEST_CASE("together: parts that are started twice or by nobody are warned of") {
  const std::string alone = "vllm serve M -dp 16 --enable-expert-parallel --max-num-batched-tokens 256";
  const Outcome twice = together({alone, alone}, {"--vllm", "v0.20.1"});
  CHECK(twice.exit_code == 0);
  CHECK(contains(twice.out, "replicas 0 to 15 are started here and on another node"));
  const std::string half = "vllm serve M -dp 24 -dpl 8 --enable-expert-parallel --max-num-batched-tokens 256";
  const Outcome few = together({half, half + kSecond}, {"--vllm", "v0.20.1", "--strict"});
  CHECK(few.exit_code == 1);
  CHECK(contains(few.out, "these commands start 16 of 24 replicas"));
}

TEST_CASE("together: what cannot be compared is refused in one line") {
  const auto refused = [](const Outcome& outcome, std::string_view words) {
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
    CHECK(contains(outcome.err, std::string(words)));
  };
  refused(together({"vllm serve M"}, {}), "give two commands or more");
  refused(together({"vllm serve M", "trtllm-serve M"}, {}), "nodes of one deployment run one version");
  refused(together({"vllm serve M", "vllm serve M"}, {"--vllm", "all"}), "one version");
}

}  // namespace a2asim
