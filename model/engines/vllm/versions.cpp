// The versions of vLLM, oldest first: each is the one before it, and what its change changed. Dates are those of the
// merge; a release stands with the last change that it is known to hold.
#include <algorithm>
#include <charconv>
#include <functional>

#include "model/base/check_invariant.h"
#include "model/engines/vllm/generation.h"

namespace a2asim::vllm {
namespace {

constexpr std::string_view kNotProven = "which of the changes around it this release holds is known from dates only";

class Rows {
 public:
  // name: "pr" and the number of the change, or what a version is called that no change begins.
  void add(std::string_view name, std::string_view date, std::string_view commit, std::string_view changed,
           std::vector<Release> releases, const std::function<void(Generation&)>& change) {
    Generation next = rows_.empty() ? Generation{} : rows_.back();
    int pr = 0;
    if (name.starts_with("pr")) std::from_chars(name.data() + 2, name.data() + name.size(), pr);
    static_cast<Version&>(next) = {
        .name = name, .pr = pr, .date = date, .commit = commit, .changed = changed, .releases = std::move(releases)};
    change(next);
    rows_.push_back(std::move(next));
  }
  std::vector<Generation> take() && { return std::move(rows_); }

 private:
  std::vector<Generation> rows_;
};

void add_2025_before_microbatches(Rows& rows) {
  rows.add("v0.9.0", "2025-05-15", "5873877241",
           "every forward all-reduces the token counts of the replicas; no padding, no graphs with an "
           "all-to-all; pplx in rounds of 256 tokens",
           {{"v0.9.0"}, {"v0.9.0.1"}}, [](Generation& v) {
             v.coordination = {.padding = Padding::never,
                               .exchanges_mode = false,
                               .dispatches_again = false,
                               .again_in_agreed_mode_only = false,
                               .dispatch = dispatch_pr28579};
             v.parallel.backends = "naive pplx";
             v.defaults.steps_of_16 = false;
             v.capacity.one_sided = {OneSidedTypes::any_as_nvfp4, false, false, false};
           });
  rows.add("pr18724", "2025-05-28", "7951d78738",
           "graphs with data parallelism: everybody is padded to the largest count, two all-reduces a step", {},
           [](Generation& v) {
             v.coordination.padding = Padding::always;
             v.graphs_with_all2all = true;
           });
  rows.add("pr18935", "2025-06-01", "d6fd3a33b8", "one all-reduce a step; no padding with --enforce-eager", {},
           [](Generation& v) { v.coordination.padding = Padding::unless_eager; });
  rows.add("pr18434", "2025-06-03", "fa98d77773", "deepep_high_throughput and deepep_low_latency", {{"v0.9.1"}},
           [](Generation& v) { v.parallel.backends = "naive pplx deepep_high_throughput deepep_low_latency"; });
  rows.add("pr19506", "2025-06-12", "9d880f594d", "the tokens of a round are a variable, VLLM_MOE_DP_CHUNK_SIZE", {},
           [](Generation& v) { v.capacity.chunk_is_a_variable = true; });
  rows.add("pr18343", "2025-06-26", "e9fd658a73",
           "the expert-parallel load balancer (EPLB): physical experts must be a multiple of the ranks",
           {{"v0.9.2"}, {"v0.10.0"}}, [](Generation& v) { v.has_eplb_flag = true; });
  rows.add("pr21963", "2025-08-07", "b2c8ce57c6", "the sizes of every round are handed to the layers",
           {{"v0.10.1", kNotProven}}, [](Generation&) {});
  rows.add("pr23619", "2025-09-10", "4032949630",
           "DeepEP counts its dispatchers over the expert-parallel group, so that tensor parallelism works",
           {{"v0.10.2", kNotProven}}, [](Generation& v) { v.capacity.deepep_knows_ep = true; });
}

constexpr std::string_view kMicrobatchesTwo = "deepep_low_latency deepep_high_throughput";

void add_2025_with_microbatches(Rows& rows) {
  rows.add("pr23693", "2025-09-16", "567939953b",
           "dual-batch overlap: the ranks vote whether all of them run two microbatches", {},
           [](Generation& v) { v.defaults.microbatching_backends = "deepep_low_latency"; });
  rows.add("pr23964", "2025-09-18", "2ea50e977a", "allgather_reducescatter, with exact sizes, is the default", {},
           [](Generation& v) {
             v.parallel.backends = "naive pplx deepep_high_throughput deepep_low_latency allgather_reducescatter";
             v.parallel.default_backend = "allgather_reducescatter";
           });
  rows.add("pr24845", "2025-09-23", "cc1dc7ed6d",
           "microbatches with deepep_high_throughput; an idle rank replays the graph of its one dummy token "
           "while the others replay the agreed one",
           {}, [](Generation& v) {
             v.defaults.microbatching_backends = kMicrobatchesTwo;
             v.coordination.idle_replays_its_own = true;
             v.capacity.deepep_buffer_variable = true;
             v.default_graphs = "FULL_AND_PIECEWISE";  // #25444, the same day
             v.known_failure = KnownFailure::idle_graph;
           });
  rows.add("pr21003", "2025-09-24", "54e42b72db", "flashinfer_all2allv, the two-sided one", {}, [](Generation& v) {
    v.parallel.backends =
        "naive pplx deepep_high_throughput deepep_low_latency allgather_reducescatter flashinfer_all2allv";
  });
  rows.add("pr24982", "2025-09-27", "a5354b3ed2",
           "sequence-parallel experts: with tensor parallelism each rank sends its share of the tokens", {},
           [](Generation& v) {
             v.parallel.kernels.sequence_parallel_backends =
                 "allgather_reducescatter naive deepep_high_throughput deepep_low_latency";
             v.nvfp4_gathers_over_dp = true;
           });
  rows.add("pr25906", "2025-09-30", "23194d83e8", "an idle rank replays the agreed graph again",
           {{"v0.11.0", kNotProven}}, [](Generation& v) {
             v.coordination.idle_replays_its_own = false;
             v.known_failure = KnownFailure::none;
           });
  rows.add("pr25768", "2025-10-07", "2111b4643c",
           "coordinate_batch_across_dp: counts, padded counts and the vote in one table, always padded; the "
           "nodes' parallel configurations are compared at the start (#26218)",
           {}, [](Generation& v) {
             v.coordination.padding = Padding::always;
             v.compares_nodes = true;
           });
  rows.add("pr26375", "2025-10-10", "ae9d0e7da5",
           "padded unless the cudagraph_mode is NONE, which all ranks must say alike", {},
           [](Generation& v) { v.coordination.padding = Padding::unless_setting_none; });
  rows.add("pr26732", "2025-10-13", "3e051bda82", "--all2all-backend; the variable counts where the flag is not given",
           {{"v0.11.1", kNotProven}, {"v0.11.2", kNotProven}},
           [](Generation& v) { v.parallel.source = BackendSource::flag_then_variable; });
  rows.add("pr27328", "2025-10-24", "d95d0f4b98",
           "VLLM_DEEPEP_HIGH_THROUGHPUT_FORCE_INTRA_NODE; sizes are validated behind the rank", {}, [](Generation& v) {
             v.capacity.may_force_intra_node = true;
             v.parallel.checks_sizes_first = false;
             v.defaults.steps_of_16 = true;
           });
  rows.add("pr28718", "2025-11-19", "2fd893b4ce", "--prefill-context-parallel-size, refused above 1", {},
           [](Generation& v) { v.parallel.pcp = PcpRule::refused; });
}

void add_winter(Rows& rows) {
  rows.add("pr28579", "2025-11-26", "56539cddac",
           "the graph is chosen before the exchange and again after it; a rank asserts that the agreed count "
           "is the size of a graph, which an eager prefill beside it need not be",
           {{"v0.12.0", kNotProven}}, [](Generation& v) {
             v.coordination.dispatches_again = true;
             v.coordination.counts_padding_as_tokens = true;
             v.known_failure = KnownFailure::agreed_size;
             v.defaults.tokens_capped_by_length = true;  // #26623, the day after
           });
  rows.add("pr29936", "2025-12-09", "9d6235ca9a",
           "VLLM_ENABLE_MOE_DP_CHUNK=0 sends a step in one round, whatever the buffer", {},
           [](Generation& v) { v.capacity.may_disable_chunks = true; });
  rows.add("pr30173", "2025-12-09", "56037dfa2f",
           "the graph mode is exchanged: no FULL graph unless all ranks chose one", {{"v0.13.0", kNotProven}},
           [](Generation& v) {
             v.coordination.exchanges_mode = true;
             v.coordination.counts_padding_as_tokens = false;
             v.known_failure = KnownFailure::none;
           });
  rows.add("pr30330", "2025-12-10", "4c2e10ea19",
           "capture sizes count the speculative tokens; context parallelism is checked elsewhere (#30050)", {},
           [](Generation& v) {
             v.defaults.width_counts = true;
             v.parallel.pcp = PcpRule::not_checked;
             v.parallel.checks_dcp = true;
           });
  rows.add("pr30120", "2025-12-16", "b9ff4f2a8d", "--ubatch-size: more than two microbatches", {},
           [](Generation& v) { v.parallel.has_ubatch_size = true; });
  rows.add("pr30363", "2025-12-18", "41b6f9200f", "VLLM_ALL2ALL_BACKEND, if set, overrides --all2all-backend",
           {{"v0.14.0", kNotProven}}, [](Generation& v) { v.parallel.source = BackendSource::variable_then_flag; });
  rows.add("pr28664", "2026-01-22", "49a1262267", "mori, on ROCm", {}, [](Generation& v) {
    v.parallel.backends =
        "naive pplx deepep_high_throughput deepep_low_latency mori allgather_reducescatter flashinfer_all2allv";
    v.parallel.kernels.sequence_parallel_backends =
        "allgather_reducescatter naive deepep_high_throughput deepep_low_latency mori";
  });
  rows.add("pr32567", "2026-01-27", "5a93b9162b",
           "FlashInfer's NVFP4 experts gather over the expert-parallel group, so that tensor parallelism works",
           {{"v0.15.0", kNotProven}}, [](Generation& v) { v.nvfp4_gathers_over_dp = false; });
  rows.add("pr33535", "2026-02-03", "b95cc5014d",
           "VLLM_ALL2ALL_BACKEND is not read any more: without the flag it is allgather_reducescatter",
           {{"v0.16.0", kNotProven}}, [](Generation& v) { v.parallel.source = BackendSource::flag; });
  rows.add("pr33724", "2026-02-26", "eb19955c37",
           "pplx is gone: its name means allgather_reducescatter; --performance-mode (#34936)", {}, [](Generation& v) {
             v.parallel.removed = "pplx";
             v.defaults.has_performance_mode = true;
           });
  rows.add("pr34102", "2026-02-27", "1d532f9d8f",
           "padded only where a graph mode was agreed; then a graph of exactly that mode must be there, and "
           "in mode FULL none is for a decode batch above max_num_seqs",
           {}, [](Generation& v) {
             v.coordination.padding = Padding::by_agreed_mode;
             v.coordination.again_in_agreed_mode_only = true;
             v.coordination.dispatch = dispatch_pr34102;
             v.known_failure = KnownFailure::request_keys;
           });
}

void add_spring(Rows& rows) {
  rows.add("pr36165", "2026-03-06", "39f9ea0da4",
           "mode FULL: decode batches take the graph of their size; elastic EP (#34861)",
           {{"v0.17.0", kNotProven}, {"v0.17.1", kNotProven}}, [](Generation& v) {
             v.coordination.dispatch = dispatch_pr36165;
             v.parallel.has_elastic_ep = true;
             v.known_failure = KnownFailure::none;
           });
  rows.add("pr36022", "2026-03-15", "2754231ba3",
           "flashinfer_nvlink_one_sided, over the data-parallel group and sized for nvfp4; the two-sided one "
           "is called flashinfer_nvlink_two_sided; nixl_ep (#35627)",
           {{"v0.18.0", kNotProven}}, [](Generation& v) {
             v.parallel.backends =
                 "naive pplx deepep_high_throughput deepep_low_latency mori nixl_ep allgather_reducescatter "
                 "flashinfer_all2allv flashinfer_nvlink_two_sided flashinfer_nvlink_one_sided";
             v.parallel.kernels.sequence_parallel_backends =
                 "allgather_reducescatter naive deepep_high_throughput deepep_low_latency mori nixl_ep";
             v.flashinfer = FlashInferVersion::v0_6_6;
           });
  rows.add("pr32936", "2026-04-10", "8f121f7879",
           "model runner V2 (VLLM_USE_V2_MODEL_RUNNER=1) coordinates the ranks, too", {}, [](Generation& v) {
             v.has_runner_v2 = true;
             v.flashinfer = FlashInferVersion::v0_6_7;
           });
  rows.add("pr39717", "2026-04-13", "f72b20976c", "flashinfer_nvlink_one_sided refuses all but nvfp4",
           {{"v0.19.0", kNotProven}, {"v0.19.1", kNotProven}},
           [](Generation& v) { v.capacity.one_sided.types = OneSidedTypes::nvfp4; });
  rows.add("pr39107", "2026-04-14", "e1e318af01",
           "no rounds any more: the buffers hold max_num_batched_tokens, which is 256 by default with "
           "deepep_low_latency and nixl_ep; naive is gone (#33728)",
           {}, [](Generation& v) {
             v.capacity.chunks = v.capacity.may_disable_chunks = false;
             v.cutedsl_wants_batches = false;
             v.defaults.small_for_batched_dp = true;
             v.parallel.removed = "pplx naive";
             v.parallel.kernels.sequence_parallel_backends =
                 "allgather_reducescatter deepep_high_throughput deepep_low_latency mori nixl_ep";
           });
  rows.add("pr39959", "2026-04-20", "191e3fdaa1", "FlashInfer 0.6.8", {{"v0.20.0", kNotProven}},
           [](Generation& v) { v.flashinfer = FlashInferVersion::v0_6_8_post1; });
  rows.add("pr40893", "2026-04-26", "9558f43903",
           "FlashInfer's workspaces span the expert-parallel group, so that tensor parallelism works", {},
           [](Generation& v) { v.capacity.one_sided.spans_ep_group = v.capacity.two_sided_spans_ep_group = true; });
  rows.add("pr40960", "2026-04-30", "b4806c8ee1",
           "flashinfer_nvlink_one_sided takes bf16 and mxfp8, too, and marks unused rows; the largest batch "
           "is captured where it is within the limit (#40734)",
           {{"v0.20.1", kNotProven}, {"v0.20.2", kNotProven}, {"v0.21.0", kNotProven}}, [](Generation& v) {
             v.capacity.one_sided.types = OneSidedTypes::nvfp4_bf16_mxfp8;
             v.capacity.one_sided.marks_unused_rows = true;
             v.defaults.captures_largest_batch = true;
           });
  rows.add("pr42976", "2026-05-19", "f54721bcc3",
           "the one-sided workspace grows to the union over the layers, which must have one top_k and one "
           "number of experts",
           {{"v0.22.0", kNotProven}, {"v0.22.1", kNotProven}}, [](Generation& v) {
             v.capacity.one_sided.grows = true;
             v.uneven_experts = ErrorKind::value_error;
             v.flashinfer = FlashInferVersion::v0_6_11_post2;
           });
}

void add_summer(Rows& rows) {
  rows.add("pr41183", "2026-06-08", "e2f993dc41",
           "deepep_v2; mori is mori_high_throughput and mori_low_latency (#41751)", {}, [](Generation& v) {
             v.parallel.backends =
                 "naive pplx deepep_high_throughput deepep_low_latency deepep_v2 mori_high_throughput mori_low_latency "
                 "nixl_ep allgather_reducescatter flashinfer_all2allv flashinfer_nvlink_two_sided "
                 "flashinfer_nvlink_one_sided";
             v.parallel.kernels.sequence_parallel_backends =
                 "allgather_reducescatter deepep_high_throughput deepep_low_latency mori_high_throughput "
                 "mori_low_latency nixl_ep";
             v.flashinfer = FlashInferVersion::v0_6_12;
           });
  rows.add("pr42667", "2026-06-12", "78739c1946", "DeepSeek, Qwen and Granite models run on model runner V2 by default",
           {}, [](Generation& v) { v.moe_models_on_v2 = true; });
  rows.add("pr45275", "2026-06-15", "3afe659b6b", "microbatches with nixl_ep",
           {{"v0.23.0", kNotProven}, {"v0.24.0", kNotProven}}, [](Generation& v) {
             v.defaults.microbatching_backends = "deepep_low_latency deepep_high_throughput nixl_ep";
           });
  rows.add("pr47070", "2026-07-05", "b6cc46ec3b",
           "sequence-parallel experts, and with them the all-to-all, also without data parallelism; decode "
           "graphs of runner V2 hold whole requests (#45953)",
           {{"v0.25.0", kNotProven}}, [](Generation& v) {
             v.parallel.kernels.by_sequence_parallel = true;
             v.parallel.kernels.sequence_parallel_needs_dp = false;
             v.runner_v2.rounds_up_decode_graphs = true;
             v.flashinfer = FlashInferVersion::v0_6_13;
           });
  rows.add("pr48849", "2026-07-17", "c4dd6d78fd", "sequence-parallel experts need data parallelism again", {},
           [](Generation& v) {
             v.parallel.kernels.sequence_parallel_needs_dp = true;
             v.flashinfer = FlashInferVersion::v0_6_14;
           });
  rows.add("pr46570", "2026-07-19", "b6ff8a2f50",
           "prefill context parallelism without data parallelism, on model runner V2",
           {{"v0.26.0", kNotProven}, {"v0.27.0", kNotProven}, {"v0.27.1", kNotProven}}, [](Generation& v) {
             v.parallel.kernels.by_pcp = true;
             v.parallel.pcp = PcpRule::only_without_dp;
             v.parallel.eplb_counts_pcp = true;
           });
  rows.add("pr49390", "2026-08-07", "021b7d985b", "graphs of up to 1024 tokens on data-center Blackwell", {},
           [](Generation& v) {
             v.defaults.up_to_1024_on_sm100 = true;
             v.flashinfer = FlashInferVersion::v0_6_15_post1;
           });
  rows.add("pr51726", "2026-08-11", "4988df2eb8",
           "max_num_batched_tokens is 16384 by default on GPUs of 160 GiB and more", {{"v0.28.0", kNotProven}},
           [](Generation& v) {
             v.defaults.largest_for_160_gib = true;
             v.flashinfer = FlashInferVersion::v0_6_16_post3;
           });
  rows.add("pr47808", "2026-08-12", "7f7a32cfec", "model runner V2 exchanges the longest query, too", {},
           [](Generation& v) { v.runner_v2.first_width_counts = true; });
  rows.add("main20260817", "2026-08-17", "017e9f4448", "the newest state of the main branch that was read", {},
           [](Generation&) {});
}

std::vector<Generation> make_generations() {
  Rows rows;
  add_2025_before_microbatches(rows);
  add_2025_with_microbatches(rows);
  add_winter(rows);
  add_spring(rows);
  add_summer(rows);
  std::vector<Generation> all = std::move(rows).take();
  A2ASIM_INVARIANT(std::ranges::is_sorted(all, {}, &Generation::date), "versions stand in the order of their dates");
  return all;
}

}  // namespace

std::span<const Generation> generations() {
  static const std::vector<Generation> all = make_generations();
  return all;
}

}  // namespace a2asim::vllm
