// FlashInfer's dispatch and combine beside ours in tools/bench/several_gpus_bench.cpp: its kernels, launched alone.
#include "tools/backends/flashinfer/flashinfer_group.h"
#include "tools/bench/gpu_bench.h"

namespace a2asim::bench {
namespace {

a2asim_rank_v1 rank_of(const AllToAllConfig& config) {
  a2asim_rank_v1 rank = {};
  rank.top_k = config.top_k;
  rank.num_experts = config.num_experts;
  rank.max_num_tokens = config.max_num_tokens;
  for (const std::int64_t bytes : config.payload_bytes_per_token) {
    rank.payload_bytes_per_token[rank.num_payloads] = bytes;
    rank.payload_element_bytes[rank.num_payloads] = rank.num_payloads == 0 ? 2 : 4;
    ++rank.num_payloads;
  }
  rank.expert_id_payload = config.expert_id_payload;
  rank.combine_type = static_cast<std::int32_t>(config.combine_type);
  rank.hidden_size = config.hidden_size;
  rank.max_top_k = config.max_top_k;
  rank.payload_alignment = static_cast<std::int32_t>(config.payload_alignment);
  rank.active_rank_mask = config.active_rank_mask;
  return rank;
}

template <class Body>
Result<void> as_result(const Body& body) {
  try {
    body();
  } catch (const std::exception& failure) {
    return fail(ErrorKind::runtime_error, failure.what());
  }
  return {};
}

}  // namespace

Exchange flashinfer_exchange(const AllToAllConfig& config, std::span<const DispatchInput> inputs) {
  const std::vector<a2asim_rank_v1> ranks(static_cast<std::size_t>(config.ep_size), rank_of(config));
  a2asim_group_v1 group = {};
  group.ep_size = group.num_local = config.ep_size;
  group.ranks = ranks.data();
  std::vector<a2asim_input_v1> staged;
  for (const DispatchInput& input : inputs) {
    a2asim_input_v1 one = {};
    one.runtime_max_tokens_per_rank = input.runtime_max_tokens_per_rank;
    one.num_tokens = input.local_num_tokens;
    one.expert_ids = input.token_selected_experts.data();
    for (std::size_t p = 0; p < input.payloads.size(); ++p) one.payloads[p] = input.payloads[p].data();
    staged.push_back(one);
  }
  std::shared_ptr<flashinfer::Group> all;
  must(as_result([&] {
    all = std::make_shared<flashinfer::Group>(group);
    all->dispatch(staged.data());
    all->experts({0, 2});
  }));
  Exchange exchange;
  for (std::size_t r = 0; r < ranks.size(); ++r) exchange.streams.push_back(all->stream(r));
  flashinfer::Group* const group_of_all = all.get();
  exchange.dispatch = [group_of_all] { return as_result([&] { group_of_all->enqueue_dispatch(); }); };
  exchange.combine = [group_of_all] { return as_result([&] { group_of_all->enqueue_combine(); }); };
  exchange.finish = [group_of_all] { return as_result([&] { group_of_all->wait(); }); };
  exchange.owner = all;
  return exchange;
}

}  // namespace a2asim::bench
