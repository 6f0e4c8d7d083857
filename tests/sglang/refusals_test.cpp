// What SGLang's start refuses, and what to change; what it sets by itself; and what is said of nodes that differ.
#include "tests/said.h"

using namespace a2asim;

namespace {

const std::string kGroups =
    "; nothing compares it: ranks build other groups, and wait for each other while the server starts; ";

}  // namespace

TEST_CASE("sglang: what the start refuses is said in SGLang's words, with a change that helps") {
  test::check_said(
      test::refusals, "sglang", "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 ",
      {
          {"v0.5.15", "--tp 8 --dp 3 --enable-dp-attention",
           "start, _handle_data_parallelism: AssertionError:  -> set --tp-size 9 (now 8), or set --dp-size 2 (now "
           "3)\n"},
          {"v0.5.15", "--tp 8 --dp 0 --enable-dp-attention", "--dp-size 0: give a number from 1 to 65536\n"},
          {"v0.5.15", "--tp 8 --enable-dp-lm-head --dp 2",
           "start, _handle_data_parallelism: AssertionError: Please enable dp attention when setting "
           "enable_dp_lm_head.  -> remove --enable-dp-lm-head, or add --enable-dp-attention, and set --dp-size 8 (now "
           "2)\n"},
          {"v0.5.15", "--tp 8 --attn-cp-size 3",
           "start, _handle_context_parallelism: AssertionError: tp_size 8 must be a multiple of attn_cp_size 3 -> set "
           "--attn-cp-size 1 (now 3)\n"},
          {"v0.5.15", "--tp 8 --attn-cp-size 2 --dp 8 --enable-dp-attention",
           "start, _handle_context_parallelism: AssertionError: tp_size 8 must be a multiple of dp_size 8 x "
           "attn_cp_size 2 -> set --attn-cp-size 1 (now 2)\n"},
          {"v0.5.15", "--tp 8 --moe-dp-size 3",
           "start, _handle_context_parallelism: AssertionError: tp_size 8 must be a multiple of moe_dp_size 3 -> set "
           "--moe-dp-size 1 (now 3)\n"},
          {"v0.5.15", "--tp 8 --moe-dp-size 2 --ep-size 8",
           "start, _handle_context_parallelism: AssertionError: ep_size 8 x moe_dp_size 2 must be tp_size 8 -> set "
           "--moe-dp-size 1 (now 2)\n"},
          {"v0.5.15", "--tp 8 --moe-dp-size 2 --pp-size 2",
           "start, _handle_context_parallelism: AssertionError: moe_dp_size 2 needs pp_size 1, not 2 -> set "
           "--moe-dp-size 1 (now 2)\n"},
          {"v0.5.15", "--tp 8 --moe-dp-size 2 --attn-cp-size 4",
           "start, _handle_context_parallelism: AssertionError: attn_cp_size 4 must be moe_dp_size 2, unless that is 1 "
           "-> set --attn-cp-size 2 (now 4), or set --moe-dp-size 1 (now 2)\n"},
          {"v0.5.15", "--tp 8 --moe-a2a-backend flashinfer",
           "start, _handle_a2a_moe: AssertionError: Flashinfer MoE A2A is only supported with dp_size == tp_size and "
           "--enable-dp-attention -> add --enable-dp-attention, and set --dp-size 8 (now 1), and set "
           "--moe-runner-backend flashinfer_cutlass (now auto)\n"},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend flashinfer --ep-size 4",
           "start, _handle_a2a_moe: AssertionError: Flashinfer MoE A2A is only supported with flashinfer_cutlass, "
           "flashinfer_cutedsl or flashinfer_trtllm_routed moe runner backend -> set --moe-runner-backend "
           "flashinfer_trtllm_routed (now auto)\n"},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend triton",
           "start, _handle_a2a_moe: AssertionError: Flashinfer MoE A2A is only supported with flashinfer_cutlass, "
           "flashinfer_cutedsl or flashinfer_trtllm_routed moe runner backend -> set --moe-runner-backend "
           "flashinfer_cutlass (now triton), or set --moe-runner-backend flashinfer_trtllm_routed (now triton)\n"},
          {"v0.5.15",
           "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep --moe-runner-backend flashinfer_cutlass", ""},
          {"v0.5.15",
           "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep --deepep-mode normal "
           "--enable-two-batch-overlap",
           ""},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend mooncake --deepep-mode normal", ""},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend mori --chunked-prefill-size 65536",
           "start, _handle_a2a_moe: AssertionError: SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK (default 4096) must "
           "be >= the per-rank MoRI dispatch tokens (chunked_prefill_size by default) -> set "
           "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK=8192 (now 4096), or set --chunked-prefill-size 32768 (now "
           "65536)\n"},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend nixl --chunked-prefill-size 65536", ""},
          {"v0.5.15",
           "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend ascend_fuseep --chunked-prefill-size 65536", ""},
          {"v0.5.15", "--tp 8 --moe-a2a-backend none --enable-single-batch-overlap --enable-two-batch-overlap", ""},
          {"v0.5.15", "--tp 8 --enable-prefill-cp",
           "start, prefill context parallelism: ValueError: --cp-strategy must be set when --enable-prefill-cp is "
           "enabled. -> add --cp-strategy interleave, or remove --enable-prefill-cp\n"},
          {"v0.5.15", "--tp 16 --enable-prefill-cp --cp-strategy zigzag",
           "start, prefill context parallelism: AssertionError: context parallelism only supports a single machine: "
           "tp_size <= 8, not 16 -> remove --enable-prefill-cp\n"},
          {"v0.5.15", "--tp 8 --enable-prefill-cp --cp-strategy zigzag", ""},
          {"v0.5.12", "--tp 4 --enable-prefill-context-parallel", ""},
          {"v0.5.12", "--tp 8 --enable-prefill-context-parallel --enable-nsa-prefill-context-parallel",
           "start, prefill context parallelism: ValueError: --enable-prefill-context-parallel and "
           "--enable-nsa-prefill-context-parallel are mutually exclusive -> remove "
           "--enable-nsa-prefill-context-parallel\n"},
          {"v0.5.15", "--tp 8 --moe-dense-tp-size 16 --dp 8 --enable-dp-attention", ""},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --cuda-graph-bs 2000000",
           "--cuda-graph-bs 2000000: give a number from 1 to 1048576\n"},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --no-such-thing 3",
           "launch_server: error: unrecognized arguments: --no-such-thing -> leave out --no-such-thing\n"},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention=1",
           "argument --enable-dp-attention: ignored explicit argument '1'; the option takes no value: write it "
           "alone\n"},
          {"v0.5.15", "--tp 8 --dp 8 --moe-a2a-backend no_such",
           "SGLang of v0.5.15 (July 2026) refuses to start: argument --moe-a2a-backend: invalid choice: 'no_such' "
           "(choose from 'none', 'deepep', 'mooncake', 'nixl', 'mori', 'ascend_fuseep', 'flashinfer', 'megamoe') -> "
           "give --moe-a2a-backend one of none, deepep, mooncake, nixl, mori, ascend_fuseep, flashinfer, megamoe (now "
           "no_such); no version that is known here takes no_such\n"},
          {"v0.5.15", "--tp 8 --speculative-algorithm STANDALONE --dp 8 --enable-dp-attention",
           "start, _handle_speculative_decoding: ValueError: Currently standalone speculative decoding does not "
           "support dp attention. -> leave out --enable-dp-attention, or choose another --speculative-algorithm\n"},
          {"v0.5.15", "--tp 100000", "--tp-size 100000: give a number from 1 to 65536\n"},
      });
  test::check_said(test::refusals, "sglang", "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3.2 ",
                   {
                       {"v0.5.15", "--tp 8 --dp 2 --enable-dp-attention --enable-prefill-cp --cp-strategy interleave",
                        "start, prefill context parallelism: AssertionError: For round-robin split mode, dp attention "
                        "is not supported. -> set --dp-size 1 (now 2), or remove --enable-prefill-cp\n"},
                       {"v0.5.15", "--tp 8 --enable-prefill-cp --cp-strategy interleave --disaggregation-mode decode",
                        "start, prefill context parallelism: AssertionError: CP is only supported for prefill when PD "
                        "disaggregation -> remove --enable-prefill-cp\n"},
                       {"v0.5.15", "--tp 16 --enable-prefill-cp --cp-strategy interleave",
                        "start, prefill context parallelism: AssertionError: context parallelism only supports a "
                        "single machine: tp_size <= 8, not 16 -> remove --enable-prefill-cp\n"},
                       {"v0.5.15", "--tp 8 --enable-prefill-cp --cp-strategy interleave", ""},
                   });
  test::check_said(test::refusals, "sglang", "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V4 ",
                   {
                       {"v0.5.15", "--tp 8 --enable-prefill-cp --cp-strategy zigzag",
                        "start, prefill context parallelism: ValueError: DeepSeekV4 only supports interleave CP "
                        "strategy, got zigzag -> remove --enable-prefill-cp\n"},
                       {"v0.5.15", "--tp 8 --enable-prefill-cp --cp-strategy interleave", ""},
                   });
}

TEST_CASE("sglang: what the start sets by itself is said") {
  test::check_said(
      test::notes, "sglang", "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 ",
      {
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend flashinfer", ""},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep", ""},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep --deepep-mode normal", ""},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend mooncake", ""},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend mori", ""},
          {"v0.5.20", "--tp 8 --dwdp-size 8 --moe-a2a-backend deepep",
           "--dwdp-size 8: SGLang sets --moe-a2a-backend none (was deepep), dp_size = ep_size = 8 with DP attention "
           "and a DP head, moe_dense_tp_size 1, no CUDA graphs and SGLANG_SCHEDULER_SKIP_ALL_GATHER\n"},
          {"v0.5.20", "--tp 8 --dwdp-size 4",
           "--dwdp-size 4: SGLang sets --moe-a2a-backend none (was none), dp_size = ep_size = 4 with DP attention and "
           "a DP head, moe_dense_tp_size 1, no CUDA graphs and SGLANG_SCHEDULER_SKIP_ALL_GATHER\n--dwdp-size 4 is "
           "meant to equal --tp-size 8: SGLang may refuse this\n"},
          {"v0.5.20", "--tp 8 --dwdp-size 1", ""},
          {"v0.5.20", "--tp 8 --dwdp-size 0", "--dwdp-size 0 means off, as 1 does\n"},
          {"v0.5.15", "--tp 8 --enable-prefill-cp --cp-strategy zigzag",
           "prefill context parallelism sets --enable-dp-attention, --moe-dense-tp-size 1, --attn-cp-size 8 and "
           "--moe-a2a-backend deepep (was none)\n"},
          {"v0.5.15",
           "--tp 8 --dp 2 --enable-dp-attention --speculative-algorithm EAGLE --speculative-moe-a2a-backend deepep",
           "--max-running-requests is not given: with speculation SGLang runs 48 requests in all\nthe speculative "
           "width depends on the model and is not settled by the command: give --speculative-num-draft-tokens; 1 is "
           "assumed\nthe draft model uses --speculative-moe-a2a-backend deepep, the target none\n"},
          {"v0.5.15", "--tp 8 --dp 1 --enable-dp-attention", ""},
      });
}

TEST_CASE("sglang: nodes that were given different options are told what comes of each") {
  const std::string base = "python3 -m sglang.launch_server --model-path M --nnodes 2 --node-rank ";
  test::check_differences(
      "sglang", base + "0 ", base + "1 ",
      {
          {"v0.5.15", "--tp 8|--tp 8", ""},
          {"v0.5.15", "--tp 8|--tp 16",
           "error nodes_differ: --tp-size is 16 here and 8 on the first node" + kGroups +
               "give every node --tp-size 8\n"},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention|--tp 8 --dp 4 --enable-dp-attention",
           "error nodes_differ: --dp-size is 4 here and 8 on the first node" + kGroups +
               "give every node --dp-size 8\n"},
          {"v0.5.15", "--tp 8 --pp-size 2|--tp 8",
           "error nodes_differ: --pp-size is 1 here and 2 on the first node" + kGroups +
               "give every node --pp-size 2\n"},
          {"v0.5.15", "--tp 8 --ep-size 8|--tp 8 --ep-size 4",
           "error nodes_differ: --ep-size is 4 here and 8 on the first node" + kGroups +
               "give every node --ep-size 8\n"},
          {"v0.5.15", "--tp 8 --attn-cp-size 2|--tp 8",
           "error nodes_differ: --attn-cp-size is 1 here and 2 on the first node" + kGroups +
               "give every node --attn-cp-size 2\n"},
          {"v0.5.15", "--tp 8 --dp 2 --enable-dp-attention --enable-dp-lm-head|--tp 8 --dp 2 --enable-dp-attention",
           "error nodes_differ: --enable-dp-lm-head is false here and true on the first node" + kGroups +
               "give --enable-dp-lm-head to every node\n"},
          {"v0.5.15", "--tp 8 --dp 2 --enable-dp-attention|--tp 8 --dp 2",
           "error nodes_differ: --enable-dp-attention is false here and true on the first node" + kGroups +
               "give --enable-dp-attention to every node\n"},
          {"v0.5.15", "--tp 8 --enable-eplb|--tp 8",
           "error nodes_differ: --enable-eplb is false here and true on the first node" + kGroups +
               "give --enable-eplb to every node\n"},
          {"v0.5.15", "--tp 8 --enable-two-batch-overlap|--tp 8",
           "error nodes_differ: --enable-two-batch-overlap is false here and true on the first node" + kGroups +
               "give --enable-two-batch-overlap to every node\n"},
          {"v0.5.15", "--tp 8 --dp 8 --enable-dp-attention --moe-dense-tp-size 1|--tp 8 --dp 8 --enable-dp-attention",
           "error nodes_differ: --moe-dense-tp-size is not given here and 1 on the first node" + kGroups +
               "give every node --moe-dense-tp-size 1\n"},
          {"v0.5.15",
           "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep|--tp 8 --dp 8 --enable-dp-attention "
           "--moe-a2a-backend mori",
           "error nodes_differ: --moe-a2a-backend is mori here and deepep on the first node; ranks meet in collectives "
           "that do not match, and hang; give every node --moe-a2a-backend deepep\n"},
          {"v0.5.15", "--tp 8 --model-path A|--tp 8 --model-path B",
           "warning nodes_differ: the model is B here and A on the first node; ranks hold shards of other weights, "
           "unless both names mean one model; give every node the same model\n"},
          {"v0.5.15",
           "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend flashinfer --chunked-prefill-size 8192 "
           "--max-running-requests 64|--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend flashinfer "
           "--chunked-prefill-size 65536 --max-running-requests 64",
           "error nodes_differ: the cap, max_num_tokens per rank, is 8192 here and 4096 on the first node; no version "
           "compares it: workspaces have other sizes on each node, and the smaller one refuses a step that the other "
           "takes: its ranks raise, and the rest hang; give every node the same --chunked-prefill-size and "
           "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK\n"},
          {"v0.5.15",
           "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend flashinfer --chunked-prefill-size 8192 "
           "--max-running-requests 64|--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend flashinfer "
           "--chunked-prefill-size 8192 --max-running-requests 128",
           "warning nodes_differ: the request limit of a replica is 16 here and 8 on the first node; nodes capture "
           "other graphs where the limit decides; balance is lost; give every node the same --max-running-requests\n"},
          {"v0.5.15",
           "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep --chunked-prefill-size 1024 "
           "--max-running-requests 64|--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep "
           "--chunked-prefill-size 1024 --max-running-requests 64",
           "error nodes_differ: the buffer, in tokens per rank, is 256 here and 128 on the first node; no version "
           "compares it: ranks lay their buffers out for other sizes; give every node a buffer of 128\n",
           {},
           {{"SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK", "256"}}},
          {"v0.5.15", "--tp 8 --nnodes 3|--tp 8 --nnodes 3",
           "warning nodes_differ: these commands start 2 of 3 nodes; the ranks that are started wait for the others; "
           "check the commands of the other nodes, too\n"},
      });
  test::check_differences("sglang", base + "1 ", base + "0 ", {{"v0.5.15", "--tp 8|--tp 8", ""}});
  test::check_differences(
      "sglang", base + "1 ", base + "1 ",
      {{"v0.5.15", "--tp 8|--tp 8",
        "warning nodes_differ: node 1 is started here and on another node; each command starts a server of its own, or "
        "the second waits for a rank number that is taken; give every node its own part of them\n"}});
}

TEST_CASE("sglang: distributed weights make every rank a replica of its own, and leave out graphs and the all-to-all") {
  const auto deployed = test::deploy_named(
      "sglang", "v0.5.20",
      "python3 -m sglang.launch_server --model-path M --tp 8 --dwdp-size 8 --moe-a2a-backend deepep", {});
  REQUIRE(deployed.has_value());
  const Deployment& deployment = *deployed->deployment;
  CHECK(deployment.topology.dp_size == 8);
  CHECK(deployment.topology.attn_dp_size == 8);
  CHECK(deployment.topology.attn_tp_size == 1);
  CHECK(deployment.topology.ep_size == 8);
  CHECK(deployment.backend == "none");
  CHECK(deployment.graphs_are_disabled);
  CHECK(deployment.rejections.empty());
}
