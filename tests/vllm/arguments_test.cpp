// What the reader of a command hands on, field by field, and what follows from names of models and all-to-alls.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/engines/vllm/deployment.h"
#include "tests/vllm/vllm.h"

namespace a2asim {
namespace {

vllm::EngineArgs vllm_args_of(const std::vector<std::string>& words) {
  LaunchCommand command;
  command.argv = words;
  const auto read = vllm::read_engine_args(vllm::generations().back(), command);
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
  REQUIRE_FALSE(read->refused);
  return read->args;
}

vllm::EngineArgs vllm_args_with(std::string_view option, const std::string& json) {
  return vllm_args_of({"--" + std::string(option), json});
}

std::string vllm_number(const std::optional<std::int64_t>& number) { return number ? std::to_string(*number) : "-"; }

}  // namespace

TEST_CASE("vllm: the graph mode is a name or a number, and -O, the level and full_cuda_graph stand behind it") {
  struct Row {
    std::vector<std::string> words;
    std::string_view mode;  // "-": not given
    bool compiles = true;
  };
  const std::string config = "--compilation-config";
  for (const Row& row : {Row{{}, "-"},
                         {{config, R"({"cudagraph_mode": 0})"}, "NONE"},
                         {{config, R"({"cudagraph_mode": 1})"}, "PIECEWISE"},
                         {{config, R"({"cudagraph_mode": 2})"}, "FULL"},
                         {{config, R"({"cudagraph_mode": "full_decode_only"})"}, "FULL_DECODE_ONLY"},
                         {{config, R"({"cudagraph_mode": "FULL_AND_PIECEWISE"})"}, "FULL_AND_PIECEWISE"},
                         {{config, R"({"full_cuda_graph": true})"}, "FULL"},
                         {{config, R"({"full_cuda_graph": false})"}, "-"},
                         {{config, R"({"full_cuda_graph": 1})"}, "-"},
                         {{config, R"({"full_cuda_graph": true, "cudagraph_mode": "NONE"})"}, "NONE"},
                         {{config, R"({"level": 0})"}, "-", false},
                         {{config, R"({"level": "0"})"}, "-", false},
                         {{config, R"({"level": 1})"}, "PIECEWISE"},
                         {{config, R"({"level": 3})"}, "-"},
                         {{config, R"({"mode": 0})"}, "-", false},
                         {{config, R"({"mode": 1})"}, "-"},
                         {{config, "0"}, "-", false},
                         {{config, "3"}, "-"},
                         {{"-O0"}, "-", false},
                         {{"-O=0"}, "-", false},
                         {{"-O", "0"}, "-", false},
                         {{"-O1"}, "PIECEWISE"},
                         {{"-O2"}, "-"},
                         {{"-O3", config, R"({"level": 0})"}, "-"}}) {
    CAPTURE(fmt::format("{}", fmt::join(row.words, " ")));
    const vllm::EngineArgs args = vllm_args_of(row.words);
    CHECK(args.cudagraph_mode.value_or("-") == row.mode);
    CHECK(args.compiles == row.compiles);
  }
}

TEST_CASE("vllm: capture sizes come from the configuration, then from options") {
  struct Row {
    std::vector<std::string> words;
    std::string_view sizes, most;
  };
  const std::string config = "--compilation-config";
  for (const Row& row :
       {Row{{}, "-", "-"},
        {{"--cudagraph-capture-sizes", "1", "2", "4"}, "1 2 4", "-"},
        {{"--max-cudagraph-capture-size", "64"}, "-", "64"},
        {{config, R"({"cudagraph_capture_sizes": [8, 16]})"}, "8 16", "-"},
        {{config, R"({"cudagraph_capture_sizes": []})"}, "", "-"},
        {{config, R"({"cudagraph_capture_sizes": 8})"}, "-", "-"},
        {{config, R"({"max_cudagraph_capture_size": 32})"}, "-", "32"},
        {{config, R"({"max_cudagraph_capture_size": "32"})"}, "-", "32"},
        {{config, R"({"max_cudagraph_capture_size": 0})"}, "-", "0"},
        {{config, R"({"max_cudagraph_capture_size": 32})", "--max-cudagraph-capture-size", "64"}, "-", "32"},
        {{config, R"({"cudagraph_capture_sizes": [8]})", "--cudagraph-capture-sizes", "2"}, "8", "-"}}) {
    CAPTURE(fmt::format("{}", fmt::join(row.words, " ")));
    const vllm::EngineArgs args = vllm_args_of(row.words);
    CHECK((args.capture_sizes ? fmt::format("{}", fmt::join(*args.capture_sizes, " ")) : "-") == row.sizes);
    CHECK(vllm_number(args.max_capture_size) == row.most);
  }
}

TEST_CASE("vllm: every option that sets a number reaches its field, and what is not given has vLLM's default") {
  const vllm::EngineArgs none = vllm_args_of({});
  CHECK(none.parallel == vllm::ParallelArgs{});
  CHECK(none.batch.max_model_len == 0);
  CHECK(none.batch.performance_mode == "balanced");
  CHECK(vllm_number(none.batch.max_num_batched_tokens) + vllm_number(none.batch.max_num_seqs) == "--");
  CHECK(vllm_number(none.dp_size_local) + vllm_number(none.dp_start_rank) + vllm_number(none.dp_rank) == "---");
  CHECK(std::pair(none.nnodes, none.node_rank) == std::pair<std::int64_t, std::int64_t>(1, 0));
  CHECK(std::pair(none.dbo_decode_threshold, none.dbo_prefill_threshold) ==
        std::pair<std::int64_t, std::int64_t>(32, 512));
  CHECK_FALSE((none.headless || none.enforce_eager || none.quantization || none.moe_backend));
  CHECK(none.num_speculative_tokens == 0);
  CHECK(none.speculative_method.empty());

  const vllm::EngineArgs all = vllm_args_of({"--tensor-parallel-size",
                                             "2",
                                             "--pipeline-parallel-size",
                                             "3",
                                             "--data-parallel-size",
                                             "5",
                                             "--prefill-context-parallel-size",
                                             "7",
                                             "--decode-context-parallel-size",
                                             "11",
                                             "--nnodes",
                                             "13",
                                             "--node-rank",
                                             "12",
                                             "--data-parallel-size-local",
                                             "4",
                                             "--data-parallel-start-rank",
                                             "1",
                                             "--data-parallel-rank",
                                             "2",
                                             "--max-num-batched-tokens",
                                             "1000",
                                             "--max-num-seqs",
                                             "100",
                                             "--max-model-len",
                                             "10",
                                             "--dbo-decode-token-threshold",
                                             "33",
                                             "--dbo-prefill-token-threshold",
                                             "513",
                                             "--ubatch-size",
                                             "6",
                                             "--enable-expert-parallel",
                                             "--headless",
                                             "--enforce-eager",
                                             "--quantization",
                                             "fp8"});
  const vllm::ParallelSizes& s = all.parallel.sizes;
  CHECK(fmt::format("{} {} {} {} {}", s.tp, s.pp, s.dp, s.pcp, s.dcp) == "2 3 5 7 11");
  CHECK(fmt::format("{} {} {}", all.nnodes, all.node_rank, all.parallel.ubatch_size) == "13 12 6");
  CHECK(vllm_number(all.dp_size_local) + vllm_number(all.dp_start_rank) + vllm_number(all.dp_rank) == "412");
  CHECK(vllm_number(all.batch.max_num_batched_tokens) == "1000");
  CHECK(vllm_number(all.batch.max_num_seqs) == "100");
  CHECK(all.batch.max_model_len == 10);
  CHECK(vllm_args_of({"--max-model-len", "-1"}).batch.max_model_len == 0);
  CHECK(fmt::format("{} {}", all.dbo_decode_threshold, all.dbo_prefill_threshold) == "33 513");
  CHECK((all.parallel.enable_expert_parallel && all.headless && all.enforce_eager));
  CHECK(all.quantization == "fp8");

  CHECK(vllm_args_with("eplb-config", R"({"num_redundant_experts": "32"})").parallel.num_redundant_experts == 32);
  CHECK(vllm_args_with("eplb-config", R"({"num_redundant_experts": 0})").parallel.num_redundant_experts == 0);
  const auto draft = vllm_args_with("speculative-config", R"({"method": "mtp", "num_speculative_tokens": 1024})");
  CHECK(draft.num_speculative_tokens == 1024);
  CHECK(draft.speculative_method == "mtp");
}

TEST_CASE("vllm: the type of dispatched rows is in the words of the quantization, else of the model's name") {
  struct Row {
    std::optional<std::string> config, option;
    std::string_view model, type;  // "?": not known
  };
  for (const Row& row : {Row{{}, {}, "org/M-NVFP4", "nvfp4"},
                         {{}, {}, "org/M-FP4", "nvfp4"},
                         {{}, {}, "org/M-MXFP4", "mxfp8"},
                         {{}, {}, "org/M-mxfp8", "mxfp8"},
                         {{}, {}, "org/M-FP8", "fp8"},
                         {{}, {}, "org/M-BF16", ""},
                         {{}, {}, "org/M", "?"},
                         {{}, {}, "none", "?"},
                         {{}, {}, "", "?"},
                         {{}, "none", "org/M-FP8", ""},
                         {{}, "awq", "org/M-FP8", "?"},
                         {{}, "modelopt_fp4", "org/M", "nvfp4"},
                         {{}, "fp8", "org/M-NVFP4", "fp8"},
                         {"mxfp4", "fp8", "org/M-NVFP4", "mxfp8"},
                         {"bf16", {}, "org/M-NVFP4", ""},
                         {"", "fp8", "org/M-NVFP4", "nvfp4"}}) {
    CAPTURE(fmt::format("{}, {}, {}", row.config.value_or("-"), row.option.value_or("-"), row.model));
    vllm::DeploymentInputs inputs;
    inputs.model_quantization = row.config;
    inputs.args.quantization = row.option;
    inputs.args.model = row.model;
    CHECK(vllm::dispatch_type_of(inputs).value_or("?") == row.type);
  }
}

TEST_CASE("vllm: four all-to-alls have a fixed buffer and send more in rounds") {
  using enum vllm::Kernels;
  for (const auto kernels : {pplx, deepep_low_latency, mori, nixl_ep}) CHECK(vllm::is_chunked(kernels));
  for (const auto kernels :
       {none, naive, allgather_reducescatter, deepep_high_throughput, deepep_v2, flashinfer_one_sided})
    CHECK_FALSE(vllm::is_chunked(kernels));
}

}  // namespace a2asim
