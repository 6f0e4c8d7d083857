// What vLLM refuses, when, and what to change, word for word; and what the reader of a command says about it.
#include "tests/said.h"

using namespace a2asim;

namespace {

void check_refused(const std::vector<test::SaidLaunch>& launches) {
  test::check_said(test::refusals, "vllm", "vllm serve M ", launches);
}

}  // namespace

TEST_CASE("vllm: options of replicas that do not go together are refused in vLLM's words") {
  check_refused({
      {"v0.12.0", "-dp 8 --data-parallel-hybrid-lb --data-parallel-external-lb --data-parallel-rank 1",
       "start, EngineArgs: ValueError: Invalid data-parallel launch options: `--data-parallel-hybrid-lb` and "
       "`--data-parallel-external-lb` cannot be enabled together. -> remove --data-parallel-hybrid-lb, or remove "
       "--data-parallel-external-lb\n"},
      {"v0.12.0", "-dp 8 --nnodes 3",
       "start, EngineArgs: ValueError: Invalid data-parallel launch options: `--nnodes 3` must evenly divide the total "
       "world size (8). -> change what the message names\n"},
      {"v0.12.0", "-dp 8 --nnodes 2 --node-rank 1", ""},
      {"v0.12.0", "-dp 8 --nnodes 2 --node-rank 2",
       "start, EngineArgs: ValueError: Invalid data-parallel launch options: `--node-rank` must be between 0 and 1; "
       "got 2. -> change what the message names\n"},
      {"v0.12.0", "-dp 8 --nnodes 2 --node-rank -1",
       "start, EngineArgs: ValueError: Invalid data-parallel launch options: `--node-rank` must be between 0 and 1; "
       "got -1. -> change what the message names\n"},
      {"v0.12.0", "-dp 8 --data-parallel-external-lb",
       "start, EngineArgs: ValueError: Invalid data-parallel launch options: `--data-parallel-external-lb` requires a "
       "data-parallel rank. -> add --data-parallel-rank with the rank of this server, or remove "
       "--data-parallel-external-lb\n"},
      {"v0.12.0", "-dp 8 --data-parallel-external-lb --nnodes 2", ""},
      {"v0.12.0", "-dp 8 --data-parallel-rank 3 --data-parallel-size-local 2",
       "start, EngineArgs: ValueError: Invalid data-parallel launch options: an external data-parallel rank requires "
       "`--data-parallel-size-local 1`; got 2. -> remove --data-parallel-size-local 2\n"},
      {"v0.12.0", "-dp 8 --data-parallel-rank 3 --data-parallel-size-local 1", ""},
      {"v0.12.0", "-dp 8 --data-parallel-rank 8",
       "start, ParallelConfig: ValueError: data_parallel_rank (8) must be in the range [0, 8) -> change what the "
       "message names\n"},
      {"v0.12.0", "-dp 8 --data-parallel-rank 7", ""},
      {"v0.12.0", "-dp 8 --data-parallel-size-local 9",
       "start, ParallelConfig: ValueError: data_parallel_size_local (9) must be <= data_parallel_size (8) -> set "
       "--data-parallel-size-local 8 (now 9)\n"},
      {"v0.12.0", "-dp 8 --data-parallel-size-local 8", ""},
      {"v0.12.0", "-dp 1 --data-parallel-external-lb --data-parallel-rank 0",
       "start, ParallelConfig: ValueError: data_parallel_external_lb can only be set when data_parallel_size > 1 -> "
       "change what the message names\n"},
  });
}

TEST_CASE("vllm: EPLB, elastic EP and context parallelism are refused in vLLM's words") {
  check_refused({
      {"v0.12.0", "-dp 8 --enable-expert-parallel --eplb-config '{\"num_redundant_experts\": 2}'",
       "start, ParallelConfig: ValueError: num_redundant_experts is set to 2 but EPLB is not enabled. Either enable "
       "EPLB or unset num_redundant_experts. -> add --enable-eplb, or take num_redundant_experts (now 2) out of "
       "--eplb-config\n"},
      {"v0.12.0", "-dp 8 --enable-eplb",
       "start, ParallelConfig: ValueError: enable_expert_parallel must be True to use EPLB. -> add "
       "--enable-expert-parallel, or remove --enable-eplb\n"},
      {"v0.12.0", "--enable-expert-parallel --enable-eplb",
       "start, ParallelConfig: ValueError: EPLB requires tensor_parallel_size or data_parallel_size to be greater than "
       "1, but got TP=1,DP=1. -> remove --enable-eplb, or raise --tensor-parallel-size or --data-parallel-size\n"},
      {"v0.28.0", "--enable-expert-parallel --enable-eplb",
       "start, ParallelConfig: ValueError: EPLB requires tensor, prefill-context, or data parallelism, but got TP=1, "
       "PCP=1, DP=1. -> remove --enable-eplb, or raise --tensor-parallel-size or --data-parallel-size\n"},
      {"v0.28.0", "--enable-expert-parallel --enable-eplb -pcp 2", ""},
      {"v0.12.0", "-tp 8 --enable-expert-parallel --enable-eplb --eplb-config '{\"num_redundant_experts\": 2}'",
       "start, FusedMoE: AssertionError: EPLB currently only supports even distribution of experts across ranks. -> "
       "set num_redundant_experts in --eplb-config to 8 (now 2): 256 and 2 experts are 258 on 8 ranks\n"},
      {"v0.9.1", "-tp 8 --enable-expert-parallel --enable-eplb --num-redundant-experts 9",
       "vllm serve: error: unrecognized arguments: --enable-eplb -> leave out --enable-eplb, which vLLM has from "
       "2025-06-26 on; or name the version that runs\n"},
      {"v0.9.2", "-tp 8 --enable-expert-parallel --enable-eplb --num-redundant-experts 9",
       "start, FusedMoE: AssertionError: EPLB currently only supports even distribution of experts across ranks. -> "
       "set num_redundant_experts in --eplb-config to 16 (now 9): 256 and 9 experts are 265 on 8 ranks\n"},
      {"v0.20.0", "-dp 8 --enable-elastic-ep",
       "start, ParallelConfig: ValueError: Elastic EP is only supported with enable_eplb=True. -> change what the "
       "message names\n"},
      {"v0.20.0", "-dp 8 -pp 2 --enable-elastic-ep --enable-eplb --enable-expert-parallel",
       "start, ParallelConfig: ValueError: Elastic EP is not supported with pipeline parallelism "
       "(pipeline_parallel_size=2). -> change what the message names\n"},
      {"v0.20.0", "-dp 8 --data-parallel-hybrid-lb --enable-elastic-ep --enable-eplb --enable-expert-parallel",
       "start, ParallelConfig: RuntimeError: Elastic EP is not compatible with data_parallel_external_lb or "
       "data_parallel_hybrid_lb. Elastic EP relies on a single API server and core client to coordinate scale up/down. "
       "-> change what the message names\n"},
      {"v0.20.0", "-dp 8 --data-parallel-rank 1 --enable-elastic-ep --enable-eplb --enable-expert-parallel",
       "start, ParallelConfig: RuntimeError: Elastic EP is not compatible with data_parallel_external_lb or "
       "data_parallel_hybrid_lb. Elastic EP relies on a single API server and core client to coordinate scale up/down. "
       "-> change what the message names\n"},
      {"v0.20.0", "-dp 8 --enable-elastic-ep --enable-eplb --enable-expert-parallel", ""},
      {"v0.20.0", "-tp 4 -pcp 2", ""},
      {"v0.28.0", "-tp 4 -pcp 2 -dp 2",
       "start, ParallelConfig: ValueError: PCP does not support data parallelism yet. -> change what the message "
       "names\n"},
      {"v0.28.0", "-tp 4 -pcp 2 -dcp 4",
       "start, ParallelConfig: ValueError: When PCP is enabled, DCP must be disabled, span the PCP axis, or span the "
       "full TP x PCP axis. Got TP=4, PCP=2, DCP=4; valid DCP sizes are [1, 2, 8]. -> change what the message names\n"},
      {"v0.28.0", "-tp 1 -pcp 2 -dcp 4",
       "start, ParallelConfig: ValueError: When PCP is enabled, DCP must be disabled, span the PCP axis, or span the "
       "full TP x PCP axis. Got TP=1, PCP=2, DCP=4; valid DCP sizes are [1, 2]. -> change what the message names\n"},
      {"v0.28.0", "-tp 4 -pcp 2 -dcp 8", ""},
      {"v0.28.0", "-tp 4 -dcp 3",
       "start, ParallelConfig: ValueError: tp_size=4 must be divisible by dcp_size=3. -> change what the message "
       "names\n"},
      {"v0.20.0", "-tp 4 -dcp 3",
       "start, ParallelConfig: ValueError: tp_size=4 must be divisible bydcp_size=3. -> change what the message "
       "names\n"},
      {"v0.20.0", "-tp 4 -dcp 2", ""},
  });
}

TEST_CASE("vllm: backends, layouts and experts that do not go together are refused in vLLM's words") {
  check_refused({
      {"v0.10.1",
       "-dp 4 --enable-expert-parallel",
       "start, ParallelConfig: ValueError: Unknown all2all backend: none_such -> change what the message names\n",
       {{"VLLM_ALL2ALL_BACKEND", "none_such"}}},
      {"v0.12.0",
       "-dp 4 --enable-expert-parallel",
       "start, ParallelConfig: ValueError: Unknown all2all backend: none_such -> change what the message names\n",
       {{"VLLM_ALL2ALL_BACKEND", "none_such"}}},
      {"v0.12.0", "-dp 4 --enable-expert-parallel --all2all-backend flashinfer_nvlink_one_sided",
       "start, ParallelConfig: ValueError: Input should be 'naive', 'pplx', 'deepep_high_throughput', "
       "'deepep_low_latency', 'allgather_reducescatter', 'flashinfer_all2allv' -> remove --all2all-backend "
       "flashinfer_nvlink_one_sided, or give it one of these names, or name the version that has it\n"},
      {"v0.20.0", "-dp 4 --enable-expert-parallel --all2all-backend no_such",
       "start, ParallelConfig: ValueError: Input should be 'naive', 'pplx', 'deepep_high_throughput', "
       "'deepep_low_latency', 'mori', 'nixl_ep', 'allgather_reducescatter', 'flashinfer_all2allv', "
       "'flashinfer_nvlink_two_sided', 'flashinfer_nvlink_one_sided' -> remove --all2all-backend no_such, or give it "
       "one of these names, or name the version that has it\n"},
      {"v0.10.1",
       "-dp 4 -tp 2 --enable-expert-parallel",
       "first_forward, DeepEP prepare: AssertionError: 4 dispatchers, but 8 expert-parallel ranks -> set "
       "--tensor-parallel-size 1 (now 2), or upgrade to v0.10.2 (#23619, 2025-09-10)\n",
       {{"VLLM_ALL2ALL_BACKEND", "deepep_low_latency"}}},
      {"v0.10.1",
       "-dp 4 -tp 2 --enable-expert-parallel",
       "first_forward, DeepEP prepare: AssertionError: 4 dispatchers, but 8 expert-parallel ranks -> set "
       "--tensor-parallel-size 1 (now 2), or upgrade to v0.10.2 (#23619, 2025-09-10)\n",
       {{"VLLM_ALL2ALL_BACKEND", "deepep_high_throughput"}}},
      {"v0.10.2", "-dp 4 -tp 2 --enable-expert-parallel", "", {{"VLLM_ALL2ALL_BACKEND", "deepep_low_latency"}}},
      {"v0.10.2",
       "-dp 4 -tp 2 --enable-expert-parallel --quantization modelopt_fp4",
       "",
       {{"VLLM_USE_FLASHINFER_MOE_FP4", "1"}}},
      {"v0.12.0",
       "-dp 4 -tp 2 --enable-expert-parallel --quantization modelopt_fp4",
       "first_forward, all_gatherv: AssertionError: len(sizes) == world_size: 8 sizes for 4 ranks -> unset "
       "VLLM_USE_FLASHINFER_MOE_FP4 (now 1), or set --tensor-parallel-size 1 (now 2)\n",
       {{"VLLM_USE_FLASHINFER_MOE_FP4", "1"}}},
      {"v0.20.0", "-dp 4 --enable-expert-parallel --moe-backend flashinfer_cutedsl", ""},
      {"v0.20.0",
       "-dp 4 --enable-expert-parallel --moe-backend flashinfer_cutedsl --all2all-backend deepep_low_latency", ""},
      {"v0.20.0", "-dp 4 --enable-expert-parallel --all2all-backend flashinfer_nvlink_one_sided --quantization fp8",
       "start, FusedMoE: ValueError: The 'flashinfer_nvlink_one_sided' all2all backend only supports nvfp4 activation "
       "quantization, but got quant_dtype='fp8'. Use a different all2all backend -> use another --all2all-backend, or "
       "a model in nvfp4\n"},
      {"v0.18.0",
       "-dp 4 -tp 2 --enable-expert-parallel --all2all-backend flashinfer_nvlink_one_sided --quantization modelopt_fp4",
       "first_forward, FlashInfer dispatch: RuntimeError: workspace first dim must equal ep_size -> set "
       "--tensor-parallel-size 1 (now 2: the workspace spans 4 replicas, not 8 ranks), or upgrade to pr40893 "
       "(2026-04-26)\n"},
      {"v0.20.1",
       "-tp 4 --enable-expert-parallel --all2all-backend flashinfer_nvlink_one_sided --quantization modelopt_fp4", ""},
      {"v0.12.0", "-dp 4 --enable-expert-parallel --enable-dbo",
       "start, VllmConfig: AssertionError: Microbatching currently only supports the deepep_low_latency and "
       "deepep_high_throughput all2all backend. allgather_reducescatter is not supported. -> use --all2all-backend "
       "deepep_low_latency or deepep_high_throughput, or leave out --enable-dbo\n"},
      {"v0.28.0", "-dp 4 --enable-expert-parallel --enable-dbo",
       "start, VllmConfig: AssertionError: Microbatching currently only supports the deepep_low_latency, "
       "deepep_high_throughput, and nixl_ep all2all backends. allgather_reducescatter is not supported. -> use "
       "--all2all-backend deepep_low_latency or deepep_high_throughput, or leave out --enable-dbo\n"},
      {"v0.10.2", "-dp 4 --enable-expert-parallel --enable-dbo",
       "vllm serve: error: unrecognized arguments: --enable-dbo -> leave out --enable-dbo, which vLLM has from "
       "2025-09-16 on; or name the version that runs\n"},
      {"v0.12.0", "-dp 4 --enable-expert-parallel --max-num-seqs 300 --max-num-batched-tokens 299",
       "start, SchedulerConfig: ValueError: max_num_batched_tokens (299) must be greater than or equal to max_num_seqs "
       "(300). -> set --max-num-batched-tokens 300 or more (now 299), or set --max-num-seqs 299 (now 300)\n"},
      {"v0.12.0", "-dp 4 --enable-expert-parallel --max-num-seqs 300 --max-num-batched-tokens 300", ""},
      {"v0.12.0", "-dp 4 --enable-expert-parallel --max-num-seqs 9000 --gpu-memory 80",
       "start, SchedulerConfig: ValueError: max_num_batched_tokens (2048) must be greater than or equal to "
       "max_num_seqs (9000). -> set --max-num-batched-tokens 9000 or more (not given: 2048), or set --max-num-seqs "
       "2048 (now 9000)\n"},
      {"v0.12.0", "-dp 4 --compilation-config '{\"cudagraph_capture_sizes\": []}'",
       "start, VllmConfig: AssertionError: cudagraph_capture_sizes should contain at least one element when using cuda "
       "graph. -> change the capture sizes of --compilation-config\n"},
      {"v0.12.0", "-dp 4 --compilation-config '{\"max_cudagraph_capture_size\": 0}'",
       "start, VllmConfig: AssertionError: Maximum cudagraph size should be greater than or equal to 1 when using cuda "
       "graph. -> change the capture sizes of --compilation-config\n"},
      {"v0.12.0",
       "-dp 4 --compilation-config '{\"cudagraph_capture_sizes\": [4, 8], \"max_cudagraph_capture_size\": 9}'",
       "start, VllmConfig: ValueError: customized max_cudagraph_capture_size(=9) should be consistent with the max "
       "value of cudagraph_capture_sizes(=8) -> change the capture sizes of --compilation-config\n"},
      {"v0.12.0",
       "-dp 4 --compilation-config '{\"cudagraph_capture_sizes\": [8, 4, 8], \"max_cudagraph_capture_size\": 8}'", ""},
  });
}

TEST_CASE("vllm: what the parser or the reader refuses is said with what to write") {
  check_refused({
      {"v0.12.0", "--help", "the command only asks for help: it starts no server\n"},
      {"v0.12.0", "--data-parallel-s 2",
       "ambiguous option: --data-parallel-s could match --data-parallel-size, --data-parallel-size-local, "
       "--data-parallel-start-rank, --data-parallel-supervisor-port; write the option out\n"},
      {"v0.12.0", "-dp", "argument --data-parallel-size/-dp: expected one argument; write the value behind it\n"},
      {"v0.12.0", "-dp four",
       "argument --data-parallel-size/-dp: invalid int value: 'four'; give it a value of that kind\n"},
      {"v0.12.0", "-dp 99999999999999999999",
       "argument --data-parallel-size/-dp: 99999999999999999999 is beyond what 64 bits hold; write a smaller number\n"},
      {"v0.12.0", "-dp $DP", "argument --data-parallel-size/-dp: expected one argument; write the value behind it\n"},
      {"v0.12.0", "-dp 0", "--data-parallel-size 0: give a number from 1 to 4096\n"},
      {"v0.12.0", "-dp 4096", ""},
      {"v0.12.0", "-dp 4097", "--data-parallel-size 4097: give a number from 1 to 4096\n"},
      {"v0.12.0", "-dp 64 -tp 64", ""},
      {"v0.12.0", "-dp 64 -tp 64 -pp 2", "8192 ranks: give at most 4096\n"},
      {"v0.12.0", "--max-num-seqs 0", "--max-num-seqs 0: give a number from 1 to 2147483647\n"},
      {"v0.12.0", "--max-num-batched-tokens 2147483648",
       "--max-num-batched-tokens 2147483648: give a number from 1 to 2147483647\n"},
      {"v0.12.0", "--max-model-len -1", ""},
      {"v0.12.0", "--max-model-len auto", ""},
      {"v0.12.0", "--max-model-len -2", "--max-model-len -2: give a number from 1 to 2147483647\n"},
      {"v0.12.0", "--no-such 3", "--no-such is no option of vLLM up to main20260817: leave it out\n"},
      {"v0.12.0", "--tensor-paralel-size 3",
       "--tensor-paralel-size is no option of vLLM up to main20260817: did you mean --tensor-parallel-size?\n"},
      {"v0.12.0", "word", "word is no option of vLLM up to main20260817: leave it out\n"},
      {"v0.12.0", "-dp 2 word", "word is no option of vLLM up to main20260817: leave it out\n"},
      {"v0.9.0", "--all2all-backend pplx",
       "vllm serve: error: unrecognized arguments: --all2all-backend -> leave out --all2all-backend, which vLLM has "
       "from 2025-10-13 on, and set VLLM_ALL2ALL_BACKEND; or name the version that runs\n"},
      {"v0.9.0", "--enable-eplb",
       "vllm serve: error: unrecognized arguments: --enable-eplb -> leave out --enable-eplb, which vLLM has from "
       "2025-06-26 on; or name the version that runs\n"},
      {"v0.28.0", "--cuda-graph-sizes 8",
       "vllm serve: error: unrecognized arguments: --cuda-graph-sizes -> leave out --cuda-graph-sizes, which vLLM of "
       "2026-08-11 does not have any more\n"},
      {"v0.12.0", "--eplb-config 3", "--eplb-config 3: give a JSON object, as in '{\"key\": 1}'\n"},
      {"v0.12.0", "--eplb-config '{\"num_redundant_experts\": -1}'",
       "num_redundant_experts -1: give a number from 0 to 2147483647\n"},
      {"v0.12.0", "--eplb-config '{\"num_redundant_experts\": 2147483648}'",
       "num_redundant_experts 2147483648: give a number from 0 to 2147483647\n"},
      {"v0.12.0", "--compilation-config '{\"cudagraph_mode\": \"NO_SUCH\"}'",
       "cudagraph_mode \"NO_SUCH\": give NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or FULL_AND_PIECEWISE\n"},
      {"v0.12.0", "--compilation-config '{\"cudagraph_mode\": 3}'",
       "cudagraph_mode 3: give NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or FULL_AND_PIECEWISE\n"},
      {"v0.12.0", "--compilation-config '{\"cudagraph_mode\": -1}'",
       "cudagraph_mode -1: give NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or FULL_AND_PIECEWISE\n"},
      {"v0.12.0", "--compilation-config '{\"cudagraph_mode\": 2.0}'",
       "cudagraph_mode 2.0: give NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or FULL_AND_PIECEWISE\n"},
      {"v0.12.0", "--compilation-config '{\"cudagraph_capture_sizes\": [0]}'",
       "capture sizes: give numbers from 1 to 1048576\n"},
      {"v0.12.0", "--compilation-config '{\"cudagraph_capture_sizes\": [1048576]}'", ""},
      {"v0.12.0", "--compilation-config '{\"cudagraph_capture_sizes\": [1048577]}'",
       "capture sizes: give numbers from 1 to 1048576\n"},
      {"v0.12.0", "--compilation-config '{\"max_cudagraph_capture_size\": -1}'",
       "capture sizes: give numbers from 1 to 1048576\n"},
      {"v0.12.0", "--speculative-config '{\"num_speculative_tokens\": 1025}'",
       "num_speculative_tokens 1025: give a number from 0 to 1024\n"},
      {"v0.12.0", "--speculative-config '{\"num_speculative_tokens\": 1024}'", ""},
      {"v0.12.0", "--speculative-config '{\"num_speculative_tokens\": \"-1\"}'",
       "num_speculative_tokens -1: give a number from 0 to 1024\n"},
      {"v0.12.0", "--speculative-config no", "--speculative-config no: give a JSON object, as in '{\"key\": 1}'\n"},
  });
}
