#include "gpu/rank_plan.h"

#include <string>

#include "model/alltoall/error.h"
#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }
std::string of_rank(int rank) { return "rank " + number(rank) + ": "; }

Result<void> check_runtime_max(const AllToAllConfig& config, int rank, std::int64_t runtime_max) {
  if (runtime_max >= 1 && runtime_max <= config.max_num_tokens) return {};
  const bool small = runtime_max < 1;
  return fail({.kind = small ? AllToAllErrorKind::below_one : AllToAllErrorKind::over_cap,
               .rank = rank,
               .own = runtime_max,
               .other = small ? 1 : config.max_num_tokens});
}

Result<void> check_sizes(const AllToAllConfig& config, int rank, const DispatchInput& input) {
  const std::int64_t tokens = input.local_num_tokens;
  if (tokens < 0 || tokens > input.runtime_max_tokens_per_rank) {
    return fail({.kind = AllToAllErrorKind::rows_over_r,
                 .rank = rank,
                 .own = tokens,
                 .other = input.runtime_max_tokens_per_rank});
  }
  if (tokens * config.top_k > config.max_num_tokens * config.max_top_k) {
    return fail({.kind = AllToAllErrorKind::tables_full,
                 .rank = rank,
                 .own = tokens * config.top_k,
                 .other = config.max_num_tokens * config.max_top_k});
  }
  return check_spans(config, rank, input, true);
}

// The kernels, like FlashInfer's, move a payload in the widest vectors that divide its row; FlashInfer faults where the
// region in front ends off such a boundary.
Result<void> check_alignment(const AllToAllConfig& config, int rank, std::int64_t runtime_max) {
  A2ASIM_INVARIANT(runtime_max >= 1 && runtime_max <= config.max_num_tokens, "R was checked");
  const RegionView regions = config.regions(runtime_max);
  for (int p = 0; p < regions.num_payloads(); ++p) {
    const std::int32_t width = vector_width_bytes(regions.bytes_per_token(p));
    if (regions.region(p) % width == 0) continue;
    return fail({.kind = AllToAllErrorKind::misaligned,
                 .rank = rank,
                 .payload = p,
                 .own = regions.region(p),
                 .other = width});
  }
  return {};
}

Result<void> check_experts(const AllToAllConfig& config, int rank, std::span<const std::int32_t> experts) {
  A2ASIM_INVARIANT(config.top_k >= 1 && experts.size() % static_cast<std::size_t>(config.top_k) == 0,
                   "sizes were checked");
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] >= 0 && experts[i] < config.num_experts) continue;
    const auto top_k = static_cast<std::size_t>(config.top_k);
    return fail({.kind = AllToAllErrorKind::bad_expert,
                 .rank = rank,
                 .token = static_cast<std::int64_t>(i / top_k),
                 .position = static_cast<std::int64_t>(i % top_k),
                 .own = experts[i],
                 .other = config.num_experts - 1});
  }
  return {};
}

}  // namespace

Result<RankPlan> check_dispatch(const AllToAllConfig& config, int rank, const DispatchInput& input) {
  A2ASIM_INVARIANT(rank >= 0 && rank < config.ep_size, "an input is of a rank");
  const std::int64_t runtime_max = input.runtime_max_tokens_per_rank;
  auto ok = check_runtime_max(config, rank, runtime_max);
  if (ok) ok = check_sizes(config, rank, input);
  if (ok) ok = check_alignment(config, rank, runtime_max);
  if (ok) ok = check_experts(config, rank, input.token_selected_experts);
  if (!ok) return tl::unexpected(ok.error());
  return RankPlan{input.local_num_tokens, runtime_max, runtime_max};
}

Result<void> check_combine(const AllToAllConfig& config, int rank, std::int64_t runtime_max_tokens_per_rank) {
  A2ASIM_INVARIANT(rank >= 0 && rank < config.ep_size, "combine is of a rank");
  return check_runtime_max(config, rank, runtime_max_tokens_per_rank);
}

Result<ExpertArgs> expert_args(const AllToAllConfig& config, int rank, const ExpertPayloads& payloads) {
  A2ASIM_INVARIANT(rank >= 0 && rank < config.ep_size, "experts are of a rank");
  if (config.combine_type == DataType::opaque) {
    return fail(ErrorKind::bad_input, of_rank(rank) + "opaque rows have no numbers for experts or combine");
  }
  const struct {
    const char* what;
    int payload;
    std::int64_t bytes;
  } roles[] = {{"hidden", payloads.hidden_payload, config.combine_bytes_per_token()},
               {"expert id", config.expert_id_payload, std::int64_t{4} * config.top_k},
               {"weight", payloads.weight_payload, std::int64_t{4} * config.top_k}};
  for (const auto& role : roles) {
    const auto count = static_cast<int>(config.payload_bytes_per_token.size());
    if (role.payload >= 0 && role.payload < count &&
        config.payload_bytes_per_token[static_cast<std::size_t>(role.payload)] == role.bytes) {
      continue;
    }
    return fail(ErrorKind::bad_input, of_rank(rank) + "payload " + number(role.payload) + " cannot be the " +
                                          role.what + " payload, which has " + number(role.bytes) + " bytes per token");
  }
  return ExpertArgs{payloads.hidden_payload, config.expert_id_payload, payloads.weight_payload,
                    static_cast<NumberType>(config.combine_type), static_cast<std::int32_t>(config.hidden_size)};
}

RankArgs rank_args(const AllToAllConfig& config, int rank, const RankPlan& plan, const StagedRank& staged) {
  A2ASIM_INVARIANT(rank >= 0 && rank < config.ep_size, "arguments are of a rank");
  A2ASIM_INVARIANT(plan.num_tokens <= plan.runtime_max_tokens_per_rank || plan.num_tokens == 0,
                   "rows fit R: R >= rows");
  A2ASIM_INVARIANT(config.payload_bytes_per_token.size() <= static_cast<std::size_t>(kMaxPayloads),
                   "a configuration was validated");
  RankArgs args;
  args.rank = rank;
  args.num_tokens = static_cast<std::int32_t>(plan.num_tokens);
  args.runtime_max_tokens_per_rank = static_cast<std::int32_t>(plan.runtime_max_tokens_per_rank);
  args.top_k = config.top_k;
  args.max_num_tokens = static_cast<std::int32_t>(config.max_num_tokens);
  args.max_top_k = config.max_top_k;
  args.num_experts = static_cast<std::int32_t>(config.num_experts);
  args.num_payloads = static_cast<std::int32_t>(config.payload_bytes_per_token.size());
  args.combine_bytes_per_token = static_cast<std::int32_t>(config.combine_bytes_per_token());
  const RegionView regions = config.regions(plan.runtime_max_tokens_per_rank);
  args.combine_region_bytes = regions.combine_region();
  args.active_rank_mask = config.active_rank_mask;
  args.token_selected_experts = staged.token_selected_experts;
  args.routes = staged.routes;
  args.output = staged.output;
  for (std::int32_t p = 0; p < args.num_payloads; ++p) {
    const std::int64_t bytes = regions.bytes_per_token(p);
    PayloadArgs& payload = args.payloads[p];
    payload.source = staged.payloads[p];
    payload.region_bytes = regions.region(p);
    payload.bytes_per_token = static_cast<std::int32_t>(bytes);
    payload.first_vector = args.num_vectors;
    payload.width_bytes = vector_width_bytes(bytes);
    A2ASIM_INVARIANT(bytes % payload.width_bytes == 0, "rows are whole vectors");
    payload.num_vectors = payload.bytes_per_token / payload.width_bytes;
    args.num_vectors += payload.num_vectors;
  }
  return args;
}

}  // namespace a2asim::gpu
