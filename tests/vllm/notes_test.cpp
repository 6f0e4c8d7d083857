// What is said about settings that play no role, or another one than they say; and about nodes that differ.
#include "tests/said.h"

using namespace a2asim;

namespace {

const std::string kCompared =
    "vLLM compares the nodes' parallel configuration at the start, and stops: \"Configuration mismatch detected for "
    "engine\"; ";
const std::string kNotCompared =
    "nothing compares it before #26218 (2025-10-07): ranks meet in collectives that do not match, and hang; ";
const std::string kBothOpen =
    "note nodes_differ: max_num_batched_tokens and max_num_seqs are not given: a node with GPUs of another class takes "
    "another default, which no version compares; ; give every node --max-num-batched-tokens and --max-num-seqs\n";
const std::string kSeqsOpen =
    "note nodes_differ: max_num_seqs is not given: a node with GPUs of another class takes another default, which no "
    "version compares; ; give every node --max-num-seqs\n";

}  // namespace

TEST_CASE("vllm: a setting that plays no role, or another one, is said") {
  const test::Env pplx = {{"VLLM_ALL2ALL_BACKEND", "pplx"}};
  test::check_said(
      test::notes, "vllm", "vllm serve M --max-num-batched-tokens 512 --max-num-seqs 64 ",
      {
          {"v0.10.1", "-dp 4 --enable-expert-parallel", "", pplx},
          {"v0.12.0", "-dp 4 --enable-expert-parallel", "", pplx},
          {"v0.12.0", "-dp 4 --enable-expert-parallel --all2all-backend deepep_low_latency",
           "! VLLM_ALL2ALL_BACKEND=pplx is set, but --all2all-backend deepep_low_latency wins\n", pplx},
          {"v0.20.0", "-dp 4 --enable-expert-parallel",
           "! VLLM_ALL2ALL_BACKEND=pplx is not read since #33535 (2026-02-03, about v0.16.0): this runs "
           "allgather_reducescatter, the default\n",
           pplx},
          {"v0.20.0", "-dp 4 --enable-expert-parallel --all2all-backend deepep_low_latency",
           "! VLLM_ALL2ALL_BACKEND=pplx is not read since #33535 (2026-02-03, about v0.16.0): this runs "
           "deepep_low_latency, from the flag\n",
           pplx},
          {"v0.20.0", "-dp 4 --enable-expert-parallel --all2all-backend pplx",
           "! pplx has been removed: this runs allgather_reducescatter\n"},
          {"v0.20.0", "-dp 4 --all2all-backend deepep_low_latency",
           "! --all2all-backend deepep_low_latency plays no role: without --enable-expert-parallel experts are "
           "sharded, "
           "not exchanged\n"},
          {"v0.20.0", "-tp 4 --enable-expert-parallel --all2all-backend deepep_low_latency",
           "! --all2all-backend deepep_low_latency plays no role: expert parallelism over one replica needs no "
           "all-to-all\n"},
          {"v0.20.0",
           "-dp 4 --all2all-backend deepep_low_latency",
           "! --all2all-backend deepep_low_latency plays no role: without --enable-expert-parallel experts are "
           "sharded, "
           "not exchanged\n! VLLM_MOE_DP_CHUNK_SIZE=128 is not read since #39107 (2026-04-14): the buffers hold "
           "max_num_batched_tokens\n",
           {{"VLLM_MOE_DP_CHUNK_SIZE", "128"}}},
          {"v0.12.0",
           "-dp 4 --enable-expert-parallel --all2all-backend deepep_low_latency",
           "",
           {{"VLLM_MOE_DP_CHUNK_SIZE", "128"}}},
          {"v0.12.0",
           "-dp 4 --enable-expert-parallel",
           "VLLM_MOE_DP_CHUNK_SIZE=128 plays no role for allgather_reducescatter, which has no "
           "rounds\nVLLM_ENABLE_MOE_DP_CHUNK=0 plays no role for allgather_reducescatter, which has no rounds\n",
           {{"VLLM_MOE_DP_CHUNK_SIZE", "128"}, {"VLLM_ENABLE_MOE_DP_CHUNK", "0"}}},
          {"v0.12.0", "-dp 4", "", {{"VLLM_MOE_DP_CHUNK_SIZE", "128"}}},
          {"v0.12.0", "-dp 4 -tp 2 --enable-expert-parallel --all2all-backend flashinfer_all2allv",
           "! before #40893 (2026-04-26) the two-sided workspace is made for the 4 replicas, while 8 ranks use it\n"},
          {"v0.12.0", "-dp 4 --enable-expert-parallel --all2all-backend flashinfer_all2allv", ""},
          {"v0.20.1", "-dp 4 -tp 2 --enable-expert-parallel --all2all-backend flashinfer_nvlink_two_sided", ""},
          {"v0.20.0", "-dp 32 --enable-expert-parallel --all2all-backend nixl_ep", ""},
          {"v0.20.0", "-dp 33 --enable-expert-parallel --all2all-backend nixl_ep",
           "! nixl_ep is made for VLLM_NIXL_EP_MAX_NUM_RANKS = 32 ranks; 33 cannot connect\n"},
          {"v0.20.0",
           "-dp 33 --enable-expert-parallel --all2all-backend nixl_ep",
           "",
           {{"VLLM_NIXL_EP_MAX_NUM_RANKS", "33"}}},
          {"v0.20.1", "-dp 4 --enable-expert-parallel --all2all-backend flashinfer_nvlink_one_sided",
           "which type the experts ask for is not settled by the command; bf16, the largest, is assumed for the "
           "workspace\n"},
          {"v0.20.0", "-dp 4 --enable-expert-parallel --all2all-backend flashinfer_nvlink_one_sided",
           "which type the experts ask for is not settled by the command; nvfp4 is assumed for the workspace\n"},
          {"v0.28.0",
           "-dp 4 --enable-expert-parallel",
           "runs on model runner V2\n",
           {{"VLLM_USE_V2_MODEL_RUNNER", "1"}}},
          {"v0.28.0", "-dp 4 --enable-expert-parallel", "", {{"VLLM_USE_V2_MODEL_RUNNER", "0"}}},
          {"v0.28.0", "-dp 4 --enable-expert-parallel --cudagraph-capture-sizes $SIZES",
           "--cudagraph-capture-sizes $SIZES: the command does not set this value; the option is left out\n"},
      });
}

TEST_CASE("vllm: nodes that were given different options are told what comes of each") {
  const std::string base = "vllm serve M -dp 8 --data-parallel-size-local 4 --data-parallel-start-rank ";
  test::check_differences(
      "vllm", base + "0 ", base + "4 ",
      {
          {"v0.20.0", "--enable-expert-parallel|--enable-expert-parallel", kBothOpen},
          {"v0.20.0", "-tp 2|-tp 4",
           "error rejected: --tensor-parallel-size is 4 here and 2 on the first node; " + kCompared +
               "give every node --tensor-parallel-size 2\n"},
          {"v0.10.1", "-tp 2|-tp 4",
           "error nodes_differ: --tensor-parallel-size is 4 here and 2 on the first node; " + kNotCompared +
               "give every node --tensor-parallel-size 2\n"},
          {"v0.20.0", "-pp 2|-pp 1",
           "error rejected: --pipeline-parallel-size is 1 here and 2 on the first node; " + kCompared +
               "give every node --pipeline-parallel-size 2\n"},
          {"v0.20.0", "-pcp 2|-pcp 1",
           "error rejected: --prefill-context-parallel-size is 1 here and 2 on the first node; " + kCompared +
               "give every node --prefill-context-parallel-size 2\n"},
          {"v0.20.0", "-tp 4 -dcp 2|-tp 4 -dcp 4",
           "error rejected: --decode-context-parallel-size is 4 here and 2 on the first node; " + kCompared +
               "give every node --decode-context-parallel-size 2\n"},
          {"v0.20.0", "--enable-expert-parallel|",
           "error rejected: --enable-expert-parallel is false here and true on the first node; " + kCompared +
               "give --enable-expert-parallel to every node\n"},
          {"v0.20.0", "--enable-expert-parallel --enable-eplb|--enable-expert-parallel",
           "error rejected: --enable-eplb is false here and true on the first node; " + kCompared +
               "give --enable-eplb to every node\n"},
          {"v0.20.0",
           "--enable-expert-parallel --all2all-backend deepep_low_latency --enable-dbo|--enable-expert-parallel "
           "--all2all-backend deepep_low_latency",
           "error rejected: --enable-dbo is false here and true on the first node; " + kCompared +
               "give --enable-dbo to every node\n"},
          {"v0.20.0",
           "--enable-expert-parallel --all2all-backend deepep_low_latency --ubatch-size 2|--enable-expert-parallel "
           "--all2all-backend deepep_low_latency --ubatch-size 4",
           "error rejected: --ubatch-size is 4 here and 2 on the first node; " + kCompared +
               "give every node --ubatch-size 2\n"},
          {"v0.20.0",
           "--enable-expert-parallel --enable-eplb --eplb-config '{\"num_redundant_experts\": "
           "8}'|--enable-expert-parallel "
           "--enable-eplb --eplb-config '{\"num_redundant_experts\": 16}'",
           "error rejected: num_redundant_experts is 16 here and 8 on the first node; " + kCompared +
               "give every node num_redundant_experts 8\n"},
          {"v0.20.0", "--enable-expert-parallel --all2all-backend deepep_low_latency|--enable-expert-parallel",
           "error rejected: --all2all-backend is allgather_reducescatter here and deepep_low_latency on the first "
           "node; " +
               kCompared + "give every node --all2all-backend deepep_low_latency\n"},
          {"v0.10.1",
           "--enable-expert-parallel|--enable-expert-parallel",
           "error nodes_differ: VLLM_ALL2ALL_BACKEND is naive here and pplx on the first node; " + kNotCompared +
               "give every node VLLM_ALL2ALL_BACKEND pplx\n",
           {{"VLLM_ALL2ALL_BACKEND", "pplx"}},
           {}},
          {"v0.20.0", "--enable-expert-parallel --model A|--enable-expert-parallel --model B",
           "warning nodes_differ: the model is B here and A on the first node; ranks hold shards of other weights, "
           "unless "
           "both names mean one model; give every node the same model\n" +
               kBothOpen},
          {"v0.12.0",
           "--enable-expert-parallel --all2all-backend deepep_low_latency|--enable-expert-parallel --all2all-backend "
           "deepep_low_latency",
           kBothOpen,
           {},
           {{"VLLM_ENABLE_MOE_DP_CHUNK", "0"}}},
          {"v0.13.0",
           "--enable-expert-parallel --all2all-backend deepep_low_latency|--enable-expert-parallel --all2all-backend "
           "deepep_low_latency",
           "error nodes_differ: VLLM_ENABLE_MOE_DP_CHUNK=0 on one of the first node and this one: it sends a step of "
           "more "
           "than one round at once; ranks of the other node wait in rounds that the first never enters: hang; give "
           "every "
           "node the same VLLM_ENABLE_MOE_DP_CHUNK\n" +
               kBothOpen,
           {},
           {{"VLLM_ENABLE_MOE_DP_CHUNK", "0"}}},
          {"v0.12.0",
           "--enable-expert-parallel --all2all-backend deepep_low_latency|--enable-expert-parallel --all2all-backend "
           "deepep_low_latency",
           "error nodes_differ: the buffer of deepep_low_latency, in tokens per rank (VLLM_MOE_DP_CHUNK_SIZE), is 128 "
           "here "
           "and 256 on the first node; a step takes another number of rounds on each node: ranks wait for each other "
           "forever; give every node VLLM_MOE_DP_CHUNK_SIZE 256\n" +
               kBothOpen,
           {},
           {{"VLLM_MOE_DP_CHUNK_SIZE", "128"}}},
          {"v0.20.0",
           "--enable-expert-parallel --all2all-backend deepep_low_latency --max-num-batched-tokens "
           "512|--enable-expert-parallel --all2all-backend deepep_low_latency --max-num-batched-tokens 256",
           "error nodes_differ: the buffer of deepep_low_latency, in tokens per rank (max_num_batched_tokens), is 256 "
           "here "
           "and 512 on the first node; no version compares it: ranks lay their buffers out for other sizes, and read "
           "wrong "
           "rows or hang; give every node --max-num-batched-tokens 512\n" +
               kSeqsOpen},
          {"v0.20.0",
           "--enable-expert-parallel --max-num-batched-tokens 512|--enable-expert-parallel --max-num-batched-tokens "
           "256",
           "note nodes_differ: max_num_batched_tokens is 256 here and 512 on the first node; no size of this "
           "all-to-all "
           "follows it; give every node --max-num-batched-tokens 512\n" +
               kSeqsOpen},
          {"v0.12.0",
           "--enable-expert-parallel --all2all-backend deepep_low_latency --max-num-batched-tokens "
           "512|--enable-expert-parallel --all2all-backend deepep_low_latency --max-num-batched-tokens 256",
           "warning nodes_differ: ranks of the first node and of this one part: ranks use different buffer sizes R = "
           "[AssertionError x4, 511 x4] for tokens [0 x4, 511 x4]; hang: some ranks raise, the others wait in the "
           "all-to-all until its time-out; give every node the same options: graph modes, capture sizes and "
           "limits\nnote "
           "nodes_differ: max_num_batched_tokens is 256 here and 512 on the first node; no size of this all-to-all "
           "follows "
           "it; give every node --max-num-batched-tokens 512\n" +
               kSeqsOpen},
          {"v0.28.0",
           "--enable-expert-parallel --max-num-batched-tokens 512|--enable-expert-parallel --max-num-batched-tokens "
           "512",
           "error nodes_differ: the model runner is 1 here and 2 on the first node; the two exchange tables of another "
           "form: hang at the first step; give every node the same VLLM_USE_V2_MODEL_RUNNER\n" +
               kSeqsOpen,
           {{"VLLM_USE_V2_MODEL_RUNNER", "1"}},
           {{"VLLM_USE_V2_MODEL_RUNNER", "0"}}},
          {"v0.20.0",
           "--enable-expert-parallel --max-num-batched-tokens 512 --speculative-config '{\"method\": \"mtp\", "
           "\"num_speculative_tokens\": 1}'|--enable-expert-parallel --max-num-batched-tokens 512 --speculative-config "
           "'{\"method\": \"mtp\", \"num_speculative_tokens\": 2}'",
           "error nodes_differ: num_speculative_tokens is 2 here and 1 on the first node; every draft forward is an "
           "exchange of its own: a node makes more of them, and waits for the other; give every node "
           "num_speculative_tokens 1\n" +
               kSeqsOpen},
          {"v0.12.0",
           "--enable-expert-parallel --max-num-batched-tokens 512 --compilation-config '{\"cudagraph_mode\": "
           "\"NONE\"}'|--enable-expert-parallel --max-num-batched-tokens 512",
           "error rejected: cudagraph_mode is FULL_AND_PIECEWISE here and NONE on the first node; ranks assert "
           "should_attempt_dp_padding == should_dp_pad at the first step, and stop; give every node cudagraph_mode "
           "NONE\n" +
               kSeqsOpen},
          {"v0.13.0",
           "--enable-expert-parallel --max-num-batched-tokens 512 --compilation-config '{\"cudagraph_mode\": "
           "\"NONE\"}'|--enable-expert-parallel --max-num-batched-tokens 512",
           "error rejected: cudagraph_mode is FULL_AND_PIECEWISE here and NONE on the first node; ranks assert "
           "should_attempt_dp_padding == should_dp_pad at the first step, and stop; give every node cudagraph_mode "
           "NONE\n" +
               kSeqsOpen},
          {"v0.11.0",
           "--enable-expert-parallel --max-num-batched-tokens 512 --compilation-config '{\"cudagraph_mode\": "
           "\"NONE\"}'|--enable-expert-parallel --max-num-batched-tokens 512",
           kSeqsOpen},
          {"v0.20.0",
           "--enable-expert-parallel --data-parallel-start-rank 0|--enable-expert-parallel --data-parallel-start-rank "
           "3",
           "warning nodes_differ: replicas 3 to 6 are started here and on another node; each command starts a server "
           "of "
           "its own, or the second waits for a rank number that is taken; give every node its own part of them\n" +
               kBothOpen},
          {"v0.20.0", "--enable-expert-parallel|--enable-expert-parallel --data-parallel-size-local 2",
           "warning nodes_differ: these commands start 6 of 8 replicas; the ranks that are started wait for the "
           "others; "
           "check the commands of the other nodes, too\n" +
               kBothOpen},
      });
}
