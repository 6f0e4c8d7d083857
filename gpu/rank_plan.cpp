#include "gpu/rank_plan.h"

#include <string>

#include "model/alltoall/routing.h"

namespace a2asim::gpu {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }
std::string of_rank(int rank) { return "rank " + number(rank) + ": "; }

Result<void> check_runtime_max(const AllToAllConfig& config, int rank, std::int64_t runtime_max) {
  if (runtime_max < 1) {
    return fail(ErrorKind::runtime_error,
                of_rank(rank) + "runtime_max_tokens_per_rank is " + number(runtime_max) + "; it must be at least 1");
  }
  if (runtime_max > config.max_num_tokens) {
    return fail(ErrorKind::assertion_error, of_rank(rank) + "runtime_max_tokens_per_rank " + number(runtime_max) +
                                                " is above max_num_tokens " + number(config.max_num_tokens));
  }
  return {};
}

Result<void> check_sizes(const AllToAllConfig& config, int rank, const DispatchInput& input) {
  const std::int64_t tokens = input.local_num_tokens;
  if (tokens < 0 || tokens > input.runtime_max_tokens_per_rank) {
    return fail(ErrorKind::runtime_error, of_rank(rank) + "local_num_tokens " + number(tokens) + " is not in 0.." +
                                              number(input.runtime_max_tokens_per_rank) +
                                              ", the runtime_max_tokens_per_rank of this call");
  }
  if (tokens * config.top_k > config.max_num_tokens * config.max_top_k) {
    return fail(ErrorKind::runtime_error, of_rank(rank) + "the top-k tables hold " +
                                              number(config.max_num_tokens * config.max_top_k) + " entries, " +
                                              number(tokens * config.top_k) + " are needed; raise max_num_tokens");
  }
  if (static_cast<std::int64_t>(input.token_selected_experts.size()) != tokens * config.top_k) {
    return fail(ErrorKind::bad_input, of_rank(rank) + "token_selected_experts has " +
                                          number(static_cast<std::int64_t>(input.token_selected_experts.size())) +
                                          " entries, local_num_tokens x top_k is " + number(tokens * config.top_k));
  }
  if (input.payloads.size() != config.payload_bytes_per_token.size()) {
    return fail(ErrorKind::bad_input,
                of_rank(rank) + number(static_cast<std::int64_t>(input.payloads.size())) + " payloads are given, " +
                    number(static_cast<std::int64_t>(config.payload_bytes_per_token.size())) + " are configured");
  }
  for (std::size_t p = 0; p < input.payloads.size(); ++p) {
    const auto given = static_cast<std::int64_t>(input.payloads[p].size());
    if (given == tokens * config.payload_bytes_per_token[p]) continue;
    return fail(ErrorKind::bad_input, of_rank(rank) + "payload " + number(static_cast<std::int64_t>(p)) + " has " +
                                          number(given) + " bytes, local_num_tokens x bytes per token is " +
                                          number(tokens * config.payload_bytes_per_token[p]));
  }
  return {};
}

// The kernels, like FlashInfer's, move a payload in the widest vectors that divide its row; FlashInfer faults where the
// region in front ends off such a boundary.
Result<void> check_alignment(const AllToAllConfig& config, int rank, std::int64_t runtime_max) {
  std::int64_t bytes_before = 0;
  for (std::size_t p = 0; p < config.payload_bytes_per_token.size(); ++p) {
    const std::int64_t bytes = config.payload_bytes_per_token[p];
    const std::int64_t region = receive_region(config.layout(), config.ep_size, runtime_max, bytes_before);
    if (region % vector_width_bytes(bytes) != 0) {
      return fail(ErrorKind::runtime_error,
                  of_rank(rank) + "payload " + number(static_cast<std::int64_t>(p)) + " would start at byte " +
                      number(region) + ", which is not a multiple of its vector of " +
                      number(vector_width_bytes(bytes)) + " bytes; put payloads with wider rows first");
    }
    bytes_before += bytes;
  }
  return {};
}

Result<void> check_experts(const AllToAllConfig& config, int rank, std::span<const std::int32_t> experts) {
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] >= 0 && experts[i] < config.num_experts) continue;
    const auto top_k = static_cast<std::size_t>(config.top_k);
    return fail(ErrorKind::runtime_error, of_rank(rank) + "expert id " + number(experts[i]) + " of token " +
                                              number(static_cast<std::int64_t>(i / top_k)) + ", position " +
                                              number(static_cast<std::int64_t>(i % top_k)) + ", is not in 0.." +
                                              number(config.num_experts - 1));
  }
  return {};
}

}  // namespace

Result<RankPlan> check_dispatch(const AllToAllConfig& config, int rank, const DispatchInput& input) {
  const std::int64_t runtime_max = input.runtime_max_tokens_per_rank;
  auto ok = check_runtime_max(config, rank, runtime_max);
  if (ok) ok = check_sizes(config, rank, input);
  if (ok) ok = check_alignment(config, rank, runtime_max);
  if (ok) ok = check_experts(config, rank, input.token_selected_experts);
  if (!ok) return tl::unexpected(ok.error());
  return RankPlan{input.local_num_tokens, runtime_max, runtime_max};
}

Result<void> check_combine(const AllToAllConfig& config, int rank, std::int64_t runtime_max_tokens_per_rank) {
  return check_runtime_max(config, rank, runtime_max_tokens_per_rank);
}

Result<ExpertArgs> expert_args(const AllToAllConfig& config, int rank, const ExpertPayloads& payloads) {
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
  args.combine_region_bytes = combine_region(config.layout(), config.ep_size, plan.runtime_max_tokens_per_rank,
                                             config.dispatch_bytes_per_token());
  args.active_rank_mask = config.active_rank_mask;
  args.token_selected_experts = staged.token_selected_experts;
  args.routes = staged.routes;
  args.output = staged.output;
  std::int64_t bytes_before = 0;
  for (std::int32_t p = 0; p < args.num_payloads; ++p) {
    const std::int64_t bytes = config.payload_bytes_per_token[static_cast<std::size_t>(p)];
    PayloadArgs& payload = args.payloads[p];
    payload.source = staged.payloads[p];
    payload.region_bytes =
        receive_region(config.layout(), config.ep_size, plan.runtime_max_tokens_per_rank, bytes_before);
    payload.bytes_per_token = static_cast<std::int32_t>(bytes);
    payload.first_vector = args.num_vectors;
    payload.width_bytes = vector_width_bytes(bytes);
    payload.num_vectors = payload.bytes_per_token / payload.width_bytes;
    args.num_vectors += payload.num_vectors;
    bytes_before += bytes;
  }
  return args;
}

}  // namespace a2asim::gpu
