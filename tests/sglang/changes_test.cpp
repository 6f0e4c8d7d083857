// What each change of SGLang set, by its number; what a release has besides; which laws a version breaks.
#include "tests/changes.h"

#include <algorithm>
#include <vector>

#include "model/engines/sglang/generation.h"

namespace a2asim {
namespace {

using test::changed;
using test::Changes;
using test::Fields;
using test::lines;

std::string laws_broken_by(const Generation& v) {
  std::string out;
  for (const auto& [law, why] : v.known_failures) out += (out.empty() ? "" : ", ") + std::string(law);
  return out;
}

#define A2ASIM_FIELD(member) \
  { #member, test::written(v.member) }
Fields fields_of(const Generation& v) {
  return {A2ASIM_FIELD(options.name),
          A2ASIM_FIELD(options.until),
          A2ASIM_FIELD(options_are_complete),
          A2ASIM_FIELD(start.ep_size_is_tp_size),
          A2ASIM_FIELD(start.ep_size_comes_first),
          A2ASIM_FIELD(start.flashinfer_needs_dp_attention),
          A2ASIM_FIELD(start.flashinfer_runners),
          A2ASIM_FIELD(start.deepep_cutedsl_is_low_latency),
          A2ASIM_FIELD(start.has_deepep_v2),
          A2ASIM_FIELD(start.variable_chooses_megamoe),
          A2ASIM_FIELD(start.megamoe_cap),
          A2ASIM_FIELD(start.waterfill_backends),
          A2ASIM_FIELD(start.mxfp8_runner),
          A2ASIM_FIELD(start.runner_follows_checkpoint),
          A2ASIM_FIELD(start.prefill_cp_needs_8_ranks),
          A2ASIM_FIELD(start.prefill_cp_covers_mla),
          A2ASIM_FIELD(start.graphs_per_phase),
          {"mori", v.start.mori_message.empty()                                      ? "none"
                   : v.start.mori_message.find("per-rank MoRI") != std::string::npos ? "rank"
                                                                                     : "chunk"},
          {"nvfp4", v.start.nvfp4_dispatch == Nvfp4Dispatch::always ? "always" : "fp4"},
          {"cutedsl", v.start.cutedsl_budget == CutedslBudget::none                 ? "none"
                      : v.start.cutedsl_budget == CutedslBudget::max_prefill_tokens ? "prefill"
                                                                                    : "forward"},
          {"flashinfer", std::string(limits(v.capacity.flashinfer).tag)},
          A2ASIM_FIELD(capacity.sized_for_larger_type),
          {"sanitize", std::vector<std::string>{"no", "-1", "E", "-1 routed, E", "-1 native, E"}.at(
                           static_cast<std::size_t>(v.sanitize))},
          A2ASIM_FIELD(requests.clamps_explicit_limit),
          A2ASIM_FIELD(requests.pool_is_not_divided),
          A2ASIM_FIELD(deepep.max_top_k),
          A2ASIM_FIELD(deepep.most_tokens),
          A2ASIM_FIELD(cap_default),
          A2ASIM_FIELD(cap_is_times_ep_size),
          A2ASIM_FIELD(always_gathers),
          A2ASIM_FIELD(only_graphs_disagree),
          A2ASIM_FIELD(extend_leaves_alltoall),
          A2ASIM_FIELD(prefill_graphs_with_flashinfer),
          A2ASIM_FIELD(list_unassigned_before_capture),
          A2ASIM_FIELD(autotuned_runners),
          A2ASIM_FIELD(not_modelled.date),
          {"breaks", laws_broken_by(v)}};
}
#undef A2ASIM_FIELD

const std::map<std::string_view, Changes> kSet = {
    {"pr14668",  // the first dispatcher
     {"options.name=pr14668", "start.ep_size_is_tp_size=deepep mooncake ascend_fuseep flashinfer",
      "start.ep_size_comes_first=yes", "start.flashinfer_runners=flashinfer_cutlass", "cap_default=1024",
      "cap_is_times_ep_size=yes", "requests.pool_is_not_divided=yes", "list_unassigned_before_capture=yes",
      "flashinfer=v0.6.1", "breaks=agreement, exact fit, no stale read, no waste, oracle"}},
    {"pr24850",  // #24850: unused rows are -1; backends of four months
     {"options.name=v0.5.11", "options.until=v0.5.12", "sanitize=-1", "start.graphs_per_phase=yes",
      "start.ep_size_is_tp_size=deepep mooncake nixl mori ascend_fuseep flashinfer megamoe", "mori=chunk",
      "start.mxfp8_runner=flashinfer_trtllm", "start.prefill_cp_needs_8_ranks=no", "flashinfer=v0.6.8.post1",
      "requests.clamps_explicit_limit=yes", "requests.pool_is_not_divided=no"}},
    {"pr25685",  // #25406 chooses megamoe by a variable
     {"options.name=v0.5.12", "options.until=v0.5.13", "start.variable_chooses_megamoe=yes", "flashinfer=v0.6.11.post1",
      "breaks=agreement, no stale read, no waste, oracle"}},
    {"pr25907",  // a cap of 4096, and with #22669 cutedsl under DP attention
     {"cap_default=4096", "cap_is_times_ep_size=no", "sanitize=E", "start.ep_size_comes_first=no",
      "start.flashinfer_needs_dp_attention=yes", "start.flashinfer_runners=flashinfer_cutlass flashinfer_cutedsl",
      "cutedsl=prefill", "breaks=agreement, no stale read, oracle"}},
    {"pr26643",  // a cap that covers a chunk
     {"cap_default=max(chunked_prefill_size per DP rank, 4096)", "cutedsl=forward", "start.prefill_cp_covers_mla=yes",
      "autotuned_runners=flashinfer_cutedsl"}},
    {"pr27945",  // the cap where counts collapse: ranks agree, and waste
     {"options.name=pr27945", "options.until=", "flashinfer=v0.6.12", "requests.clamps_explicit_limit=no",
      "autotuned_runners=flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm_routed",
      "breaks=exact fit, no stale read, no waste, oracle"}},
    {"pr29461",  // graphs take the local bucket
     {"options.name=pr29461", "only_graphs_disagree=yes", "mori=rank",
      "breaks=agreement, exact fit, no stale read, no waste, oracle"}},
    {"pr22394",  // no dummy token; routed kernels
     {"options.until=v0.5.15", "sanitize=-1 routed, E", "nvfp4=fp4",
      "start.flashinfer_runners=flashinfer_cutlass flashinfer_cutedsl flashinfer_trtllm_routed"}},
    {"pr30450",  // all counts everywhere
     {"options.name=pr30450", "options.until=", "start.ep_size_comes_first=yes", "always_gathers=yes",
      "breaks=no waste"}},
    {"main20260823",
     {"options.name=main20260823", "start.waterfill_backends=deepep megamoe", "start.megamoe_cap=8192",
      "start.ep_size_is_tp_size=deepep mooncake nixl mori ascend_fuseep flashinfer megamoe pplx",
      "start.deepep_cutedsl_is_low_latency=yes", "flashinfer=v0.6.17", "prefill_graphs_with_flashinfer=yes",
      "list_unassigned_before_capture=no"}},
    {"pr35758",  // R by the scatter's shares, prefill by an all-gatherv
     {"options.name=pr35758", "options_are_complete=no", "start.has_deepep_v2=yes",
      "start.ep_size_is_tp_size=deepep deepep_v2 mooncake nixl mori ascend_fuseep flashinfer megamoe pplx",
      "start.flashinfer_runners=flashinfer_cutlass flashinfer_cutedsl flashinfer_trtllm flashinfer_trtllm_routed "
      "deep_gemm",
      "extend_leaves_alltoall=yes", "capacity.sized_for_larger_type=yes", "sanitize=-1 native, E",
      "not_modelled.date=2026-10-04", "breaks="}},
    {"v0.5.20",  // #39613
     {"options.name=v0.5.20", "start.runner_follows_checkpoint=yes", "flashinfer=v0.6.18"}},
};

}  // namespace

TEST_CASE("sglang: each change set what its number says") {
  Fields before = fields_of(Generation{});
  std::size_t named = 0;
  for (const Generation& v : generations()) {
    const auto wanted = kSet.find(v.name);
    CAPTURE(v.name);
    CHECK(changed(before, fields_of(v)) == (wanted == kSet.end() ? "" : lines(wanted->second)));
    named += wanted == kSet.end() ? 0 : 1;
    before = fields_of(v);
  }
  CHECK(named == kSet.size());
}

// A release is cut later than the change that its version stands for; a day may lie before one.
TEST_CASE("sglang: what releases and days have besides their version") {
  const auto release = [](std::string_view list, std::string_view flashinfer, const Changes& more = {}) {
    Changes out = more;
    if (!list.empty()) out.insert("options.name=" + std::string(list));
    if (!flashinfer.empty()) out.insert("flashinfer=" + std::string(flashinfer));
    return out;
  };
  const Changes february = {"start.ep_size_is_tp_size=deepep mooncake mori ascend_fuseep flashinfer", "mori=chunk"};
  const Changes april = {"start.ep_size_is_tp_size=deepep mooncake nixl mori ascend_fuseep flashinfer", "mori=chunk",
                         "start.mxfp8_runner=flashinfer_trtllm", "requests.clamps_explicit_limit=yes",
                         "requests.pool_is_not_divided=no"};
  const Changes megamoe = {"options.until=", "start.variable_chooses_megamoe=yes"};  // #25406
  const std::vector<std::pair<std::string_view, Changes>> rows = {
      {"v0.5.9", release("v0.5.9", "v0.6.3", february)},
      {"v0.5.10rc0", release("v0.5.10rc0", "v0.6.6", april)},
      {"v0.5.10", release("v0.5.10", "v0.6.7", april)},
      {"v0.5.10.post1", release("v0.5.10", "v0.6.7", april)},
      {"v0.5.11", release("v0.5.11", "v0.6.8.post1", april)},
      {"v0.5.12", release("v0.5.12", "v0.6.11.post1", megamoe)},
      {"v0.5.12.post1", release("v0.5.12", "v0.6.11.post1", megamoe)},
      {"v0.5.13", release("v0.5.13", "v0.6.12", {"options.until="})},
      {"v0.5.13.post1", release("v0.5.13", "v0.6.12", {"options.until="})},
      {"v0.5.14", release("v0.5.14", "")},
      {"v0.5.15", release("v0.5.15", "", {"options.until="})},
      {"v0.5.15.post1", release("v0.5.15", "", {"options.until="})},
      {"v0.5.16", release("v0.5.16", "v0.6.14", {"start.waterfill_backends=deepep megamoe"})},  // #27350
      {"v0.5.17", release("v0.5.17", "v0.6.15.post1", {"start.megamoe_cap=1024"})},
      {"v0.5.18", release("v0.5.18", "")},
      {"v0.5.19", release("v0.5.19", "v0.6.18")},
      {"v0.5.20", {}},
      {"2025-09-04", {"deepep.most_tokens=0"}},  // #9567 is of the next day
      {"2025-09-05", {}}};
  for (const auto& [text, besides] : rows) {
    CAPTURE(text);
    const auto match = find_generation(text);
    REQUIRE(match.has_value());
    const auto all = generations();
    const auto own = std::ranges::find(all, match->generation->name, &Generation::name);
    REQUIRE(own != all.end());
    CHECK(changed(fields_of(*own), fields_of(*match->generation)) == lines(besides));
  }
}

}  // namespace a2asim
