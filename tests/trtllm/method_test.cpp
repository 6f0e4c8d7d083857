// Which lane each version's selector takes, and why, condition by condition: one field of a launch that sends at a
// time.
#include "model/engines/trtllm/rules/method.h"

#include <doctest/doctest.h>

#include <functional>
#include <vector>

namespace a2asim::trtllm {
namespace {

// Eight ranks on one board; 256 experts, 4 of them a token.
MethodInputs sending() {
  MethodInputs in;
  in.world_size = in.tp_size = in.moe_ep_size = 8;
  in.attention_dp = in.one_nvlink_domain = in.has_nvlink = true;
  in.num_experts = 256;
  in.top_k = 4;
  return in;
}

struct MethodRow {
  Selector select;
  std::function<void(MethodInputs&)> change;
  std::string_view expected;
};

void check_methods(const std::vector<MethodRow>& rows) {
  for (const MethodRow& row : rows) {
    MethodInputs in = sending();
    row.change(in);
    const auto method = row.select(in);
    CHECK((method ? std::string(name(method->lane)) + ": " + method->why : method.error().text()) == row.expected);
  }
}

auto with_variable(std::string_view name, std::string_view value) {
  return [=](MethodInputs& in) { in.env.set(std::string(name), std::string(value)); };
}

constexpr std::string_view kShares = "none: attention is not data parallel, so that all ranks have the same tokens";
constexpr std::string_view kSpread = "AllGatherReduceScatter: moe_tp_size 2: each expert is spread over ranks";

}  // namespace

TEST_CASE("trtllm: the factory tries one-sided, two-sided, DeepEP and low latency, and says what each lacks") {
  const auto no_domain = [](MethodInputs& in) { in.one_nvlink_domain = false; };
  const auto far = [=](std::int64_t ranks, std::int64_t local) {
    return [=](MethodInputs& in) {
      no_domain(in);
      in.world_size = in.moe_ep_size = ranks;
      in.local_ranks = local;
    };
  };
  check_methods({
      {method_factory, [](auto&) {}, "NVLinkOneSided: one NVLink domain holds all 8 ranks"},
      {method_factory, [](auto& in) { in.attention_dp = false; }, kShares},
      {method_factory, [](auto& in) { in.tp_size = 1; }, kShares},
      {method_factory, [](auto& in) { in.moe_tp_size = 2; }, kSpread},
      {method_factory, [](auto& in) { in.max_ranks = 8; }, "NVLinkOneSided: one NVLink domain holds all 8 ranks"},
      {method_factory, [](auto& in) { in.max_ranks = 7; },
       "NVLinkTwoSided: not one-sided: ep 8 is more than its kernels' kMaxRanks 7"},
      {method_factory, [](auto& in) { in.world_size = 16; },
       "NVLinkTwoSided: not one-sided: the world of 16 ranks is not the 8 of expert parallelism"},
      {method_factory, [](auto& in) { in.world_size = 16, in.num_experts = 255; },
       "AllGatherReduceScatter: not one-sided: the world of 16 ranks is not the 8 of expert parallelism; 255 experts "
       "do not divide by ep 8"},
      {method_factory, no_domain, "DeepEP: not one-sided: no NVLink domain holds all 8 ranks"},
      {method_factory, far(16, 8), "DeepEP: not one-sided: no NVLink domain holds all 16 ranks"},
      {method_factory, far(4, 8),
       "DeepEPLowLatency: not one-sided: no NVLink domain holds all 4 ranks; not DeepEP: it takes 2, 4 or 8 ranks of "
       "one node, or 2, 4, 8 or 16 nodes of 8"},
      {method_factory,
       [=](auto& in) {
         far(4, 8)(in);
         in.top_k = 16;
       },
       "DeepEPLowLatency: not one-sided: no NVLink domain holds all 4 ranks; not DeepEP: it takes 2, 4 or 8 ranks of "
       "one node, or 2, 4, 8 or 16 nodes of 8"},
      {method_factory,
       [=](auto& in) {
         no_domain(in);
         in.has_nvlink = false;
         in.top_k = 17;
       },
       "AllGatherReduceScatter: not one-sided: the GPUs have no NVLink; top_k 17 is more than low latency's 16"},
      {method_factory,
       [=](auto& in) {
         no_domain(in);
         in.is_bf16 = false;
       },
       "AllGatherReduceScatter: not one-sided: no NVLink domain holds all 8 ranks; DeepEP takes bfloat16 only"},
      {method_factory,
       [=](auto& in) {
         no_domain(in);
         with_variable(kCanUseDeepEp, "0")(in);
       },
       "AllGatherReduceScatter: not one-sided: no NVLink domain holds all 8 ranks; TRTLLM_CAN_USE_DEEP_EP is not 1"},
      {method_factory,
       [=](auto& in) {
         no_domain(in);
         in.deepep_by_default = false;
       },
       "AllGatherReduceScatter: not one-sided: no NVLink domain holds all 8 ranks; TRTLLM_CAN_USE_DEEP_EP is not 1"},
      {method_factory,
       [=](auto& in) {
         no_domain(in);
         in.deepep_by_default = false;
         with_variable(kCanUseDeepEp, "1")(in);
       },
       "DeepEP: not one-sided: no NVLink domain holds all 8 ranks"},
  });
}

TEST_CASE("trtllm: a forced method is taken in either case, or refused in the constructor's words") {
  const auto force = [](
                         std::string_view value, std::function<void(MethodInputs&)> change = [](auto&) {}) {
    return [=](MethodInputs& in) {
      with_variable(kForceComm, value)(in);
      change(in);
    };
  };
  const auto uneven = [](MethodInputs& in) { in.num_experts = 255; };
  check_methods({
      {method_factory, force("nvlink_two_sided"), "NVLinkTwoSided: TRTLLM_FORCE_COMM_METHOD=NVLINK_TWO_SIDED"},
      {method_factory, force("NVLINK_ONE_SIDED", uneven), "NVLinkOneSided: TRTLLM_FORCE_COMM_METHOD=NVLINK_ONE_SIDED"},
      {method_factory, force("ALLGATHER", uneven), "AllGatherReduceScatter: TRTLLM_FORCE_COMM_METHOD=ALLGATHER"},
      {method_factory, force("NCCL_EP"), "NcclEP: TRTLLM_FORCE_COMM_METHOD=NCCL_EP"},
      {method_factory, force("DEEPEP"), "DeepEP: TRTLLM_FORCE_COMM_METHOD=DEEPEP"},
      {method_factory, force("DEEPEPLOWLATENCY"), "DeepEPLowLatency: TRTLLM_FORCE_COMM_METHOD=DEEPEPLOWLATENCY"},
      {method_factory, force("deepep", uneven),
       "ValueError: Communication method 'DEEPEP' requires num_experts % ep_size == 0, but got num_experts=255, "
       "ep_size=8. Allowed methods for non-divisible EP: ['ALLGATHER', 'NVLINK_ONE_SIDED']"},
      {method_factory, force("no_such"), "ValueError: Unknown communication method: NO_SUCH"},
      {method_factory, force("NVLINK_ONE_SIDED", [](auto& in) { in.world_size = 16; }),
       "RuntimeError: Currently NVLinkOneSided only supports pure EP for MoE."},
      {method_factory, force("DEEPEP", [](auto& in) { in.local_ranks = 4; }),
       "RuntimeError: DeepEP is not feasible for 8 ranks. DeepEP supports: 1) Intranode: 2, 4, or 8 ranks; 2) "
       "Internode: 2, 4, 8, or 16 nodes with 8 ranks per node."},
      {method_factory, force("DEEPEPLOWLATENCY", [](auto& in) { in.top_k = 17; }),
       "ValueError: DeepEPLowLatency supports top_k <= 16, got 17."},
      {method_factory, force("DEEPEPLOWLATENCY", [](auto& in) { in.top_k = 17, in.deepep_max_top_k = 0; }),
       "DeepEPLowLatency: TRTLLM_FORCE_COMM_METHOD=DEEPEPLOWLATENCY"},
  });
}

TEST_CASE("trtllm: older selectors send or gather, each for its own reasons") {
  const std::string_view ranks =
      "AllGatherReduceScatter: ep 8 <= top_k 8: this version sends only to more ranks than a "
      "token has experts";
  const std::string_view off = "AllGatherReduceScatter: TRTLLM_MOE_DISABLE_ALLTOALLV=1";
  const auto eight = [](auto& in) { in.top_k = 8; };
  for (const Selector one : {wideep, wideep_before_7514, trtllmgen_2025_09})
    check_methods({{one, eight, ranks},
                   {one, with_variable(kDisable, "1"), off},
                   {one, [](auto& in) { in.attention_dp = false; }, kShares},
                   {one, [](auto& in) { in.tp_size = 1; }, kShares}});
  check_methods(
      {{wideep, [](auto&) {}, "NVLinkTwoSided: one NVLink domain holds all ranks"},
       {wideep, [](auto& in) { in.top_k = 7; }, "NVLinkTwoSided: one NVLink domain holds all ranks"},
       {wideep, [](auto& in) { in.one_nvlink_domain = false; },
        "AllGatherReduceScatter: no NVLink domain holds all 8 ranks, and TRTLLM_CAN_USE_DEEP_EP is not 1"},
       {wideep, with_variable(kForceMethod, "no"), "KeyError: 'no'"},
       {wideep, with_variable(kForceMethod, "DeepEP"), "DeepEP: TRTLLM_FORCE_ALLTOALL_METHOD=DeepEP"},
       {trtllmgen_2025_09, [](auto&) {}, "NVLinkTwoSided: one NVLink domain, ep > top_k"},
       {pr8728, [](auto&) {}, "NVLinkOneSided: one NVLink domain, TRTLLM_MOE_ALLTOALL_BACKEND mnnvlthroughput"},
       {pr8728, eight, "NVLinkOneSided: one NVLink domain, TRTLLM_MOE_ALLTOALL_BACKEND mnnvlthroughput"},
       {pr8728, with_variable(kAllToAllBackend, "mnnvllatency"),
        "NVLinkTwoSided: one NVLink domain, TRTLLM_MOE_ALLTOALL_BACKEND mnnvllatency"},
       {pr8728, with_variable(kAllToAllBackend, "x"), "ValueError: Unsupported moe alltoall backend: x"},
       {pr8728, with_variable(kDisable, "1"), off},
       {pr8728, [](auto& in) { in.moe_tp_size = 2; }, kSpread},
       {pr8728, with_variable(kForceMethod, "DeepEP"),
        "NotImplementedError: DeepEP and DeepEPLowLatency are not supported for CutlassFusedMoE yet"},
       {pr9388, [](auto&) {}, "NVLinkOneSided: one NVLink domain"},
       {pr9388, with_variable(kDisable, "1"), "NVLinkOneSided: one NVLink domain"},
       {pr9388, with_variable(kForceMethod, "NVLinkTwoSided"),
        "NVLinkTwoSided: TRTLLM_FORCE_ALLTOALL_METHOD=NVLinkTwoSided"},
       {pr9388, with_variable(kForceMethod, "MNNVL"), "KeyError: 'MNNVL'"},
       {pr9388, [](auto& in) { in.moe_tp_size = 2; }, kSpread},
       {pr9388, [](auto& in) { in.one_nvlink_domain = false; },
        "AllGatherReduceScatter: no NVLink domain holds all 8 ranks"}});
  // DeepEP where it may be used: with graphs low latency, until #7514 taught it to be captured.
  const auto deepep = [](bool graphs, bool bf16 = true) {
    return [=](MethodInputs& in) {
      in.one_nvlink_domain = false;
      in.has_graphs = graphs;
      in.is_bf16 = bf16;
      with_variable(kCanUseDeepEp, "1")(in);
    };
  };
  check_methods(
      {{wideep, deepep(true), "DeepEP: no NVLink domain holds all 8 ranks"},
       {wideep_before_7514, deepep(true), "DeepEPLowLatency: no NVLink domain holds all 8 ranks, and CUDA graphs"},
       {wideep_before_7514, deepep(false), "DeepEP: no NVLink domain holds all 8 ranks, and no CUDA graphs"}});
}

TEST_CASE("trtllm: DeepEP takes 2, 4 or 8 ranks of one node, or 2, 4, 8 or 16 nodes of 8") {
  for (const std::int64_t ranks : {2, 4, 8}) CHECK(is_deepep_feasible(ranks, ranks));
  for (const std::int64_t ranks : {1, 3, 6, 16}) CHECK_FALSE(is_deepep_feasible(ranks, ranks));
  for (const std::int64_t nodes : {2, 4, 8, 16}) CHECK(is_deepep_feasible(8 * nodes, 8));
  for (const std::int64_t nodes : {3, 5, 15, 17, 32}) CHECK_FALSE(is_deepep_feasible(8 * nodes, 8));
  CHECK_FALSE(is_deepep_feasible(16, 4));
  CHECK_FALSE(is_deepep_feasible(4, 8));
}

}  // namespace a2asim::trtllm
