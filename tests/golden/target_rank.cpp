// target_rank.jsonl: compute_target_rank_id, ids outside [0, num_experts) included.
#include <cstdint>
#include <stdexcept>

#include "model/flashinfer/capacity.h"
#include "model/alltoall/routing.h"
#include "tests/golden/table.h"

namespace a2asim::golden {

json answer_target_rank(Fields& in, const json&) {
  const auto tag = in.get<std::string>("variant");
  const FlashInferLimits* const flashinfer = find_flashinfer(tag);
  if (flashinfer == nullptr) throw std::invalid_argument("unknown FlashInfer version " + tag);
  const int ep_size = in.get<int>("ep_size");
  auto num_experts = in.get<std::int64_t>("num_experts");
  // Older versions divide by numExperts / epSize and so never see a remainder.
  if (flashinfer->divisible_experts) num_experts -= num_experts % ep_size;
  return {{"out", target_rank(in.get<std::int64_t>("expert_id"), num_experts, ep_size)}};
}

}  // namespace a2asim::golden
