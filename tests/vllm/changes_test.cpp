// What each change of vLLM turned on and off, by the number of the change: a value that is set elsewhere, not set, or
// set the wrong way round is found by its name.
#include <map>

#include "model/engines/vllm/generation.h"
#include "tests/vllm/vllm.h"

namespace a2asim {
namespace {

using vllm::Generation;

struct Switch {
  std::string_view name;
  bool (*is_on)(const Generation&);
};

#define A2ASIM_SWITCH(member)                                     \
  {                                                               \
#member, [](const Generation& v) -> bool { return v.member; } \
  }
constexpr Switch kSwitches[] = {
    A2ASIM_SWITCH(coordination.exchanges_mode),
    A2ASIM_SWITCH(coordination.dispatches_again),
    A2ASIM_SWITCH(coordination.counts_padding_as_tokens),
    A2ASIM_SWITCH(coordination.again_in_agreed_mode_only),
    A2ASIM_SWITCH(coordination.idle_replays_its_own),
    A2ASIM_SWITCH(has_runner_v2),
    A2ASIM_SWITCH(moe_models_on_v2),
    A2ASIM_SWITCH(runner_v2.rounds_up_decode_graphs),
    A2ASIM_SWITCH(runner_v2.first_width_counts),
    A2ASIM_SWITCH(graphs_with_all2all),
    A2ASIM_SWITCH(parallel.checks_dcp),
    A2ASIM_SWITCH(parallel.checks_sizes_first),
    A2ASIM_SWITCH(parallel.eplb_counts_pcp),
    A2ASIM_SWITCH(parallel.has_ubatch_size),
    A2ASIM_SWITCH(parallel.has_elastic_ep),
    A2ASIM_SWITCH(parallel.kernels.by_sequence_parallel),
    A2ASIM_SWITCH(parallel.kernels.by_pcp),
    A2ASIM_SWITCH(parallel.kernels.sequence_parallel_needs_dp),
    A2ASIM_SWITCH(defaults.largest_for_160_gib),
    A2ASIM_SWITCH(defaults.has_performance_mode),
    A2ASIM_SWITCH(defaults.small_for_batched_dp),
    A2ASIM_SWITCH(defaults.tokens_capped_by_length),
    A2ASIM_SWITCH(defaults.steps_of_16),
    A2ASIM_SWITCH(defaults.width_counts),
    A2ASIM_SWITCH(defaults.captures_largest_batch),
    A2ASIM_SWITCH(defaults.up_to_1024_on_sm100),
    A2ASIM_SWITCH(capacity.chunks),
    A2ASIM_SWITCH(capacity.chunk_is_a_variable),
    A2ASIM_SWITCH(capacity.may_disable_chunks),
    A2ASIM_SWITCH(capacity.deepep_buffer_variable),
    A2ASIM_SWITCH(capacity.may_force_intra_node),
    A2ASIM_SWITCH(capacity.deepep_knows_ep),
    A2ASIM_SWITCH(capacity.two_sided_spans_ep_group),
    A2ASIM_SWITCH(capacity.one_sided.spans_ep_group),
    A2ASIM_SWITCH(capacity.one_sided.grows),
    A2ASIM_SWITCH(capacity.one_sided.marks_unused_rows),
    A2ASIM_SWITCH(has_eplb_flag),
    A2ASIM_SWITCH(nvfp4_gathers_over_dp),
    A2ASIM_SWITCH(cutedsl_wants_batches),
    A2ASIM_SWITCH(compares_nodes),
};
#undef A2ASIM_SWITCH

// "+" turned on, "-" turned off; a change that is not named turned nothing.
const std::map<std::string_view, std::set<std::string>> kTurned = {
    {"pr18724", {"+graphs_with_all2all"}},
    {"pr19506", {"+capacity.chunk_is_a_variable"}},
    {"pr18343", {"+has_eplb_flag"}},
    {"pr23619", {"+capacity.deepep_knows_ep"}},
    {"pr24845", {"+coordination.idle_replays_its_own", "+capacity.deepep_buffer_variable"}},
    {"pr24982", {"+nvfp4_gathers_over_dp"}},
    {"pr25906", {"-coordination.idle_replays_its_own"}},
    {"pr25768", {"+compares_nodes"}},
    {"pr27328", {"+capacity.may_force_intra_node", "-parallel.checks_sizes_first", "+defaults.steps_of_16"}},
    {"pr28579",
     {"+coordination.dispatches_again", "+coordination.counts_padding_as_tokens", "+defaults.tokens_capped_by_length"}},
    {"pr29936", {"+capacity.may_disable_chunks"}},
    {"pr30173", {"+coordination.exchanges_mode", "-coordination.counts_padding_as_tokens"}},
    {"pr30330", {"+defaults.width_counts", "+parallel.checks_dcp"}},
    {"pr30120", {"+parallel.has_ubatch_size"}},
    {"pr32567", {"-nvfp4_gathers_over_dp"}},
    {"pr33724", {"+defaults.has_performance_mode"}},
    {"pr34102", {"+coordination.again_in_agreed_mode_only"}},
    {"pr36165", {"+parallel.has_elastic_ep"}},
    {"pr32936", {"+has_runner_v2"}},
    {"pr39107",
     {"-capacity.chunks", "-capacity.may_disable_chunks", "-cutedsl_wants_batches", "+defaults.small_for_batched_dp"}},
    {"pr40893", {"+capacity.one_sided.spans_ep_group", "+capacity.two_sided_spans_ep_group"}},
    {"pr40960", {"+capacity.one_sided.marks_unused_rows", "+defaults.captures_largest_batch"}},
    {"pr42976", {"+capacity.one_sided.grows"}},
    {"pr42667", {"+moe_models_on_v2"}},
    {"pr47070",
     {"+parallel.kernels.by_sequence_parallel", "-parallel.kernels.sequence_parallel_needs_dp",
      "+runner_v2.rounds_up_decode_graphs"}},
    {"pr48849", {"+parallel.kernels.sequence_parallel_needs_dp"}},
    {"pr46570", {"+parallel.kernels.by_pcp", "+parallel.eplb_counts_pcp"}},
    {"pr49390", {"+defaults.up_to_1024_on_sm100"}},
    {"pr51726", {"+defaults.largest_for_160_gib"}},
    {"pr47808", {"+runner_v2.first_width_counts"}},
};

}  // namespace

TEST_CASE("vllm: each change turned on and off what its number says") {
  const auto all = vllm::generations();
  REQUIRE(all.front().name == "v0.9.0");
  std::set<std::string> first;
  for (const Switch& at : kSwitches)
    if (at.is_on(all.front())) first.insert(std::string(at.name));
  CHECK(first == std::set<std::string>{"capacity.chunks", "cutedsl_wants_batches", "parallel.checks_sizes_first",
                                       "parallel.kernels.sequence_parallel_needs_dp"});
  std::size_t named = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    std::set<std::string> turned;
    for (const Switch& at : kSwitches) {
      if (at.is_on(all[i - 1]) != at.is_on(all[i]))
        turned.insert((at.is_on(all[i]) ? "+" : "-") + std::string(at.name));
    }
    const auto wanted = kTurned.find(all[i].name);
    CAPTURE(all[i].name);
    CHECK(turned == (wanted == kTurned.end() ? std::set<std::string>() : wanted->second));
    named += wanted == kTurned.end() ? 0 : 1;
  }
  CHECK(named == kTurned.size());
}

TEST_CASE("vllm: a failure is known from the change that brought it to the one that cured it") {
  std::map<vllm::KnownFailure, std::pair<std::string_view, std::string_view>> known;
  for (const Generation& v : vllm::generations()) {
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
