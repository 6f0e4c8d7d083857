// What each change of vLLM set, by the number of the change.
#include "tests/changes.h"

#include <algorithm>
#include <vector>

#include "model/base/words.h"
#include "model/engines/vllm/generation.h"
#include "tests/vllm/vllm.h"

namespace a2asim {
namespace {

using test::changed;
using test::Changes;
using test::Fields;

std::string one_word_of(const std::vector<std::string>& words, auto value) {
  return words.at(static_cast<std::size_t>(value));
}

// "takes mori": "yes".
void add_vllm_backends(Fields& fields, const std::string& what, std::string_view backends) {
  const auto words = split_words(backends);
  for (const std::string_view one :
       {"naive", "pplx", "deepep_high_throughput", "deepep_low_latency", "deepep_v2", "mori", "mori_high_throughput",
        "mori_low_latency", "nixl_ep", "allgather_reducescatter", "flashinfer_all2allv", "flashinfer_nvlink_two_sided",
        "flashinfer_nvlink_one_sided"})
    fields[what + ' ' + std::string(one)] = test::written(std::ranges::count(words, one) > 0);
}

#define A2ASIM_FIELD(member) \
  { #member, test::written(v.member) }
Fields fields_of_vllm(const vllm::Generation& v) {
  const vllm::Dispatch dispatch = v.coordination.dispatch;
  Fields out = {
      {"padding", one_word_of({"never", "always", "unless_eager", "unless_setting_none", "by_agreed_mode"},
                              v.coordination.padding)},
      {"dispatch", dispatch == vllm::dispatch_pr28579   ? "pr28579"
                   : dispatch == vllm::dispatch_pr34102 ? "pr34102"
                   : dispatch == vllm::dispatch_pr36165 ? "pr36165"
                                                        : "?"},
      {"source", one_word_of({"variable", "flag, variable", "variable, flag", "flag"}, v.parallel.source)},
      {"pcp", one_word_of({"unknown", "refused", "not_checked", "only_without_dp"}, v.parallel.pcp)},
      {"types", one_word_of({"any_as_nvfp4", "nvfp4", "nvfp4_bf16_mxfp8"}, v.capacity.one_sided.types)},
      {"uneven_experts", std::string(name(v.uneven_experts))},
      {"flashinfer", std::string(limits(v.flashinfer).tag)},
      A2ASIM_FIELD(default_graphs),
      A2ASIM_FIELD(parallel.default_backend),
      A2ASIM_FIELD(coordination.exchanges_mode),
      A2ASIM_FIELD(coordination.dispatches_again),
      A2ASIM_FIELD(coordination.counts_padding_as_tokens),
      A2ASIM_FIELD(coordination.again_in_agreed_mode_only),
      A2ASIM_FIELD(coordination.idle_replays_its_own),
      A2ASIM_FIELD(has_runner_v2),
      A2ASIM_FIELD(moe_models_on_v2),
      A2ASIM_FIELD(runner_v2.rounds_up_decode_graphs),
      A2ASIM_FIELD(runner_v2.first_width_counts),
      A2ASIM_FIELD(graphs_with_all2all),
      A2ASIM_FIELD(parallel.checks_dcp),
      A2ASIM_FIELD(parallel.checks_sizes_first),
      A2ASIM_FIELD(parallel.eplb_counts_pcp),
      A2ASIM_FIELD(parallel.has_ubatch_size),
      A2ASIM_FIELD(parallel.has_elastic_ep),
      A2ASIM_FIELD(parallel.kernels.by_sequence_parallel),
      A2ASIM_FIELD(parallel.kernels.by_pcp),
      A2ASIM_FIELD(parallel.kernels.sequence_parallel_needs_dp),
      A2ASIM_FIELD(defaults.largest_for_160_gib),
      A2ASIM_FIELD(defaults.has_performance_mode),
      A2ASIM_FIELD(defaults.small_for_batched_dp),
      A2ASIM_FIELD(defaults.tokens_capped_by_length),
      A2ASIM_FIELD(defaults.steps_of_16),
      A2ASIM_FIELD(defaults.width_counts),
      A2ASIM_FIELD(defaults.captures_largest_batch),
      A2ASIM_FIELD(defaults.up_to_1024_on_sm100),
      A2ASIM_FIELD(capacity.chunks),
      A2ASIM_FIELD(capacity.chunk_is_a_variable),
      A2ASIM_FIELD(capacity.may_disable_chunks),
      A2ASIM_FIELD(capacity.deepep_buffer_variable),
      A2ASIM_FIELD(capacity.may_force_intra_node),
      A2ASIM_FIELD(capacity.deepep_knows_ep),
      A2ASIM_FIELD(capacity.two_sided_spans_ep_group),
      A2ASIM_FIELD(capacity.one_sided.spans_ep_group),
      A2ASIM_FIELD(capacity.one_sided.grows),
      A2ASIM_FIELD(capacity.one_sided.marks_unused_rows),
      A2ASIM_FIELD(has_eplb_flag),
      A2ASIM_FIELD(nvfp4_gathers_over_dp),
      A2ASIM_FIELD(cutedsl_wants_batches),
      A2ASIM_FIELD(compares_nodes),
  };
  add_vllm_backends(out, "takes", v.parallel.backends);
  add_vllm_backends(out, "replaces", v.parallel.removed);
  add_vllm_backends(out, "shares tokens over", v.parallel.kernels.sequence_parallel_backends);
  add_vllm_backends(out, "halves batches of", v.defaults.microbatching_backends);
  return out;
}
#undef A2ASIM_FIELD

// A change that is not named set nothing.
const std::map<std::string_view, Changes> kVllmSet = {
    {"pr18724", {"graphs_with_all2all=yes", "padding=always"}},
    {"pr18935", {"padding=unless_eager"}},
    {"pr18434", {"takes deepep_high_throughput=yes", "takes deepep_low_latency=yes"}},
    {"pr19506", {"capacity.chunk_is_a_variable=yes"}},
    {"pr18343", {"has_eplb_flag=yes"}},
    {"pr23619", {"capacity.deepep_knows_ep=yes"}},
    {"pr23693", {"halves batches of deepep_low_latency=yes"}},
    {"pr23964", {"takes allgather_reducescatter=yes", "parallel.default_backend=allgather_reducescatter"}},
    {"pr24845",
     {"coordination.idle_replays_its_own=yes", "capacity.deepep_buffer_variable=yes",
      "halves batches of deepep_high_throughput=yes", "default_graphs=FULL_AND_PIECEWISE"}},
    {"pr21003", {"takes flashinfer_all2allv=yes"}},
    {"pr24982",
     {"nvfp4_gathers_over_dp=yes", "shares tokens over allgather_reducescatter=yes", "shares tokens over naive=yes",
      "shares tokens over deepep_high_throughput=yes", "shares tokens over deepep_low_latency=yes"}},
    {"pr25906", {"coordination.idle_replays_its_own=no"}},
    {"pr25768", {"compares_nodes=yes", "padding=always"}},
    {"pr26375", {"padding=unless_setting_none"}},
    {"pr26732", {"source=flag, variable"}},
    {"pr27328", {"capacity.may_force_intra_node=yes", "parallel.checks_sizes_first=no", "defaults.steps_of_16=yes"}},
    {"pr28718", {"pcp=refused"}},
    {"pr28579",
     {"coordination.dispatches_again=yes", "coordination.counts_padding_as_tokens=yes",
      "defaults.tokens_capped_by_length=yes"}},
    {"pr29936", {"capacity.may_disable_chunks=yes"}},
    {"pr30173", {"coordination.exchanges_mode=yes", "coordination.counts_padding_as_tokens=no"}},
    {"pr30330", {"defaults.width_counts=yes", "parallel.checks_dcp=yes", "pcp=not_checked"}},
    {"pr30120", {"parallel.has_ubatch_size=yes"}},
    {"pr30363", {"source=variable, flag"}},
    {"pr28664", {"takes mori=yes", "shares tokens over mori=yes"}},
    {"pr32567", {"nvfp4_gathers_over_dp=no"}},
    {"pr33535", {"source=flag"}},
    {"pr33724", {"defaults.has_performance_mode=yes", "replaces pplx=yes"}},
    {"pr34102", {"coordination.again_in_agreed_mode_only=yes", "padding=by_agreed_mode", "dispatch=pr34102"}},
    {"pr36165", {"parallel.has_elastic_ep=yes", "dispatch=pr36165"}},
    {"pr36022",
     {"takes nixl_ep=yes", "takes flashinfer_nvlink_two_sided=yes", "takes flashinfer_nvlink_one_sided=yes",
      "shares tokens over nixl_ep=yes", "flashinfer=v0.6.6"}},
    {"pr32936", {"has_runner_v2=yes", "flashinfer=v0.6.7"}},
    {"pr39717", {"types=nvfp4"}},
    {"pr39107",
     {"capacity.chunks=no", "capacity.may_disable_chunks=no", "cutedsl_wants_batches=no",
      "defaults.small_for_batched_dp=yes", "replaces naive=yes", "shares tokens over naive=no"}},
    {"pr39959", {"flashinfer=v0.6.8.post1"}},
    {"pr40893", {"capacity.one_sided.spans_ep_group=yes", "capacity.two_sided_spans_ep_group=yes"}},
    {"pr40960",
     {"capacity.one_sided.marks_unused_rows=yes", "defaults.captures_largest_batch=yes", "types=nvfp4_bf16_mxfp8"}},
    {"pr42976", {"capacity.one_sided.grows=yes", "uneven_experts=ValueError", "flashinfer=v0.6.11.post2"}},
    {"pr41183",
     {"takes deepep_v2=yes", "takes mori_high_throughput=yes", "takes mori_low_latency=yes", "takes mori=no",
      "shares tokens over mori=no", "shares tokens over mori_high_throughput=yes",
      "shares tokens over mori_low_latency=yes", "flashinfer=v0.6.12"}},
    {"pr42667", {"moe_models_on_v2=yes"}},
    {"pr45275", {"halves batches of nixl_ep=yes"}},
    {"pr47070",
     {"parallel.kernels.by_sequence_parallel=yes", "parallel.kernels.sequence_parallel_needs_dp=no",
      "runner_v2.rounds_up_decode_graphs=yes", "flashinfer=v0.6.13"}},
    {"pr48849", {"parallel.kernels.sequence_parallel_needs_dp=yes", "flashinfer=v0.6.14"}},
    {"pr46570", {"parallel.kernels.by_pcp=yes", "parallel.eplb_counts_pcp=yes", "pcp=only_without_dp"}},
    {"pr49390", {"defaults.up_to_1024_on_sm100=yes", "flashinfer=v0.6.15.post1"}},
    {"pr51726", {"defaults.largest_for_160_gib=yes", "flashinfer=v0.6.16.post3"}},
    {"pr47808", {"runner_v2.first_width_counts=yes"}},
};

}  // namespace

TEST_CASE("vllm: each change set what its number says") {
  const auto all = vllm::generations();
  REQUIRE(all.front().name == "v0.9.0");
  Fields before = fields_of_vllm(all.front());
  Fields nothing;
  for (const auto& [name, value] : before) nothing[name] = "no";
  CHECK(changed(nothing, before) ==
        test::lines({"capacity.chunks=yes", "cutedsl_wants_batches=yes", "default_graphs=PIECEWISE", "dispatch=pr28579",
                     "flashinfer=v0.6.1", "padding=never", "parallel.checks_sizes_first=yes",
                     "parallel.default_backend=naive", "parallel.kernels.sequence_parallel_needs_dp=yes", "pcp=unknown",
                     "source=variable", "takes naive=yes", "takes pplx=yes", "types=any_as_nvfp4",
                     "uneven_experts=AssertionError"}));
  std::size_t named = 0;
  for (const vllm::Generation& version : all.subspan(1)) {
    const auto wanted = kVllmSet.find(version.name);
    const Fields after = fields_of_vllm(version);
    CAPTURE(version.name);
    CHECK(changed(before, after) == test::lines(wanted == kVllmSet.end() ? Changes() : wanted->second));
    named += wanted == kVllmSet.end() ? 0 : 1;
    before = after;
  }
  CHECK(named == kVllmSet.size());
}

TEST_CASE("vllm: a failure is known from the change that brought it to the one that cured it") {
  std::map<vllm::KnownFailure, std::pair<std::string_view, std::string_view>> known;
  for (const vllm::Generation& v : vllm::generations()) {
    if (v.known_failure == vllm::KnownFailure::none) continue;
    const auto [at, is_new] = known.try_emplace(v.known_failure, v.name, vllm::first_without(v.known_failure).name);
    CHECK(at->second.second != v.name);
  }
  CHECK(known[vllm::KnownFailure::idle_graph] == std::pair<std::string_view, std::string_view>("pr24845", "pr25906"));
  CHECK(known[vllm::KnownFailure::agreed_size] == std::pair<std::string_view, std::string_view>("pr28579", "pr30173"));
  CHECK(known[vllm::KnownFailure::request_keys] == std::pair<std::string_view, std::string_view>("pr34102", "pr36165"));
  CHECK(known.size() == 3);
}

}  // namespace a2asim
