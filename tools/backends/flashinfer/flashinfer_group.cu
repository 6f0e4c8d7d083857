#include "tools/backends/flashinfer/flashinfer_group.h"

namespace a2asim::flashinfer {

void Group::allocate(int per_gpu) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = own(r);
    use(rank);
    if (memory_.empty() || memory_.back().first != rank.device) {
      const auto bytes = static_cast<std::size_t>(bytes_ * per_gpu);
      void* memory = nullptr;
      check(cudaMalloc(&memory, bytes), "allocating the workspace");
      memory_.emplace_back(rank.device, memory);
      check(cudaMemset(memory, 0, bytes), "zeroing the workspace");
    }
    rank.slice = static_cast<std::byte*>(memory_.back().second) + static_cast<std::int64_t>(r) % per_gpu * bytes_;
    check(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking), "making a stream");
  }
  for (const auto& [from, unused] : memory_) {
    for (const auto& [to, unused_too] : memory_) {
      if (from == to) continue;
      check(cudaSetDevice(from), "cudaSetDevice");
      const cudaError_t code = cudaDeviceEnablePeerAccess(to, 0);
      check(code == cudaSuccess || code == cudaErrorPeerAccessAlreadyEnabled, "SKIPPED: GPUs do not reach each other");
      static_cast<void>(cudaGetLastError());
    }
  }
  wait();
}

// FlashInfer's own checks before its launches; R <= max_num_tokens is one of its Python class. Nobody compares rows
// with R.
void Group::check_sizes(const Rank& rank, const a2asim_input_v1& input) const {
  const std::int64_t runtime_max = input.runtime_max_tokens_per_rank;
  check(runtime_max > 0, "runtime_max_tokens_per_rank must be above 0");
  check(runtime_max <= rank.config.max_num_tokens, "runtime_max_tokens_per_rank is above max_num_tokens");
  check(rank.regions.receive_end() <= bytes_, "workspace size per rank insufficient");
  for (int p = 0; p < rank.config.num_payloads; ++p) {
    std::int64_t width = 16;
    while (rank.config.payload_bytes_per_token[p] % width != 0) width /= 2;
    check(rank.regions.region(p) % width == 0, "payload " + std::to_string(p) + " would not be aligned to its vectors");
  }
  check(input.num_tokens * rank.config.top_k <= rank.config.max_num_tokens * rank.config.max_top_k,
        "more rows than the top-k tables hold");
}

// Ids and payloads on the rank's GPU.
void Group::stage(Rank& rank, const a2asim_input_v1& input, fi::MoeA2ADispatchParams& params) {
  const auto padded = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  const std::int64_t id_bytes = 4 * input.num_tokens * rank.config.top_k;
  std::int64_t bytes = padded(id_bytes) + padded(input.num_tokens * combine_bytes(rank.config)) + 256;
  for (int p = 0; p < rank.config.num_payloads; ++p)
    bytes += padded(input.num_tokens * rank.config.payload_bytes_per_token[p]);
  if (bytes > rank.staging_bytes) {
    cudaFree(rank.staging);
    rank.staging = nullptr;
    check(cudaMalloc(&rank.staging, static_cast<std::size_t>(bytes)), "allocating for inputs");
    rank.staging_bytes = bytes;
  }
  std::byte* to = rank.staging;
  copy(to, input.expert_ids, id_bytes);
  params.token_selected_experts = reinterpret_cast<const std::int32_t*>(to);
  to += padded(id_bytes);
  for (int p = 0; p < rank.config.num_payloads; ++p) {
    const std::int64_t row = rank.config.payload_bytes_per_token[p];
    const int element = rank.config.payload_element_bytes[p];
    copy(to, input.payloads[p], input.num_tokens * row);
    params.payloads[p].src_data = to;
    params.payloads[p].element_size = element;
    params.payloads[p].elements_per_token = static_cast<int>(row / element);
    to += padded(input.num_tokens * row);
  }
  rank.output = to;
}

fi::MoeA2ADispatchParams Group::describe_dispatch(std::size_t r, const a2asim_input_v1& input) {
  Rank& rank = own(r);
  use(rank);
  fi::MoeA2ADispatchParams params{};
  stage(rank, input, params);
  params.ep_size = ep_size();
  params.ep_rank = static_cast<int>(r);
  params.local_num_tokens = static_cast<int>(rank.tokens);
  params.max_tokens_per_rank = static_cast<int>(rank.runtime_max);
  params.top_k = rank.config.top_k;
  params.num_payloads = rank.config.num_payloads;
  set_if_there(params, rank.config, ep_size(), mask_);
  params.flag_val = rank.field<std::uint32_t>(rank.at.flag_val);
  params.local_token_counter = rank.field<int>(rank.at.local_token_counter);
  params.send_counters = rank.field<int>(rank.at.send_counters);
  params.topk_target_ranks = rank.field<int>(rank.at.topk_target_ranks);
  params.topk_send_indices = rank.field<int>(rank.at.topk_send_indices);
  for (std::size_t to = 0; to < ranks_.size(); ++to) {
    std::byte* slice = own(to).slice;
    params.recv_counters[to] = reinterpret_cast<int*>(slice + rank.at.recv_counters);
    params.completion_flags[to] = reinterpret_cast<std::uint32_t*>(slice + rank.at.dispatch_completion_flags);
    for (int p = 0; p < params.num_payloads; ++p) params.recv_buffers[to][p] = slice + rank.regions.region(p);
  }
  params.stream = rank.stream;
  return params;
}

void Group::set_sizes(Rank& rank, const a2asim_input_v1& input) {
  rank.tokens = input.num_tokens;
  rank.runtime_max = input.runtime_max_tokens_per_rank;
  rank.regions = RegionView(rank.at, ep_size(), rank.runtime_max, rank.config.payload_bytes_per_token,
                            rank.config.num_payloads, combine_bytes(rank.config));
}

void Group::launch_dispatch(const fi::MoeA2ADispatchParams& params) {
  fi::moe_a2a_prepare_dispatch_launch(params);
  fi::moe_a2a_dispatch_launch(params);
  check(cudaGetLastError(), "launching dispatch");
}

void Group::dispatch(const a2asim_input_v1* inputs) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    set_sizes(own(r), inputs[r]);
    if (is_active(r)) check_sizes(own(r), inputs[r]);
  }
  stage(inputs);
  enqueue_dispatch();
  wait();
}

void Group::stage(const a2asim_input_v1* inputs) {
  staged_.clear();
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (is_active(r)) staged_.push_back(describe_dispatch(r, inputs[r]));
  wait();
}

// Nothing is allocated or freed between the launches: that would wait for the ranks that wait for those to come.
void Group::enqueue_dispatch() {
  for (const fi::MoeA2ADispatchParams& params : staged_) {
    use(own(static_cast<std::size_t>(params.ep_rank)));
    launch_dispatch(params);
  }
}

void Group::enqueue_combine() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    use(own(r));
    if (is_active(r)) launch_combine(r, own(r).runtime_max);
  }
}

void Group::launch_sanitize(std::size_t r, std::int32_t invalid_expert_id) {
  Rank& rank = own(r);
  const int p = rank.config.expert_id_payload;
  if (p < 0) return;
  auto* const ids = rank.field<std::int32_t>(rank.regions.region(p));
  const int columns = static_cast<int>(rank.config.payload_bytes_per_token[p] / 4);
  flashinfer::launch_sanitize(fi::moe_a2a_sanitize_expert_ids_launch, ids,
                              rank.field<std::int32_t>(rank.at.recv_counters), invalid_expert_id, ep_size(),
                              static_cast<int>(rank.runtime_max), columns, rank.stream);
  check(cudaGetLastError(), "launching sanitize");
}

void Group::sanitize(std::int32_t invalid_expert_id) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    use(own(r));
    if (is_active(r)) launch_sanitize(r, invalid_expert_id);
  }
  wait();
}

// What the first block of every rank will write: round numbers of combine, in the slices of all its peers.
void Group::raise_flags() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!is_active(r)) continue;
    std::uint32_t round = 0;
    copy(&round, own(r).field<std::byte>(own(r).at.flag_val), sizeof round);
    ++round;
    for (std::size_t to = 0; to < ranks_.size(); ++to)
      if (is_active(to))
        copy(own(to).slice + own(r).at.combine_completion_flags + 4 * static_cast<std::int64_t>(r), &round,
             sizeof round);
  }
}

void Group::launch_combine(std::size_t r, std::int64_t runtime_max) {
  Rank& rank = own(r);
  const std::int64_t end =
      rank.regions.combine_region() + ep_size() * runtime_max * rank.regions.combine_bytes_per_token();
  check(end <= bytes_, "workspace insufficient for combine payload region");
  constexpr nvinfer1::DataType types[] = {nvinfer1::DataType::kBF16, nvinfer1::DataType::kHALF,
                                          nvinfer1::DataType::kFLOAT, nvinfer1::DataType::kFP8};
  fi::MoeA2ACombineParams params{};
  params.ep_size = ep_size();
  params.ep_rank = static_cast<int>(r);
  params.local_num_tokens = static_cast<int>(rank.tokens);
  params.max_tokens_per_rank = static_cast<int>(runtime_max);
  params.top_k = rank.config.top_k;
  params.prepare_payload = nullptr;  // results lie in the workspace
  params.output_data = rank.output;
  params.elements_per_token = static_cast<int>(rank.config.hidden_size);
  params.dtype = types[rank.config.combine_type];
  set_if_there(params, rank.config, ep_size(), mask_);
  params.flag_val = rank.field<std::uint32_t>(rank.at.flag_val);
  params.topk_target_ranks = rank.field<int>(rank.at.topk_target_ranks);
  params.topk_send_indices = rank.field<int>(rank.at.topk_send_indices);
  params.recv_counters = rank.field<int>(rank.at.recv_counters);
  for (std::size_t to = 0; to < ranks_.size(); ++to) {
    params.completion_flags[to] = own(to).field<std::uint32_t>(rank.at.combine_completion_flags);
    params.recv_buffers[to] = own(to).slice + rank.regions.combine_region();
  }
  params.stream = rank.stream;
  fi::moe_a2a_prepare_combine_launch(params);
  fi::moe_a2a_combine_launch(params);
  check(cudaGetLastError(), "launching combine");
}

bool Group::fits() const {
  std::vector<std::int64_t> blocks(memory_.size(), 0);  // by GPU
  for (const Rank& rank : ranks_)
    blocks[static_cast<std::size_t>(rank.device)] += std::max<std::int64_t>(rank.tokens, 1);
  int processors = 0;
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "asking the GPU");
  return std::all_of(blocks.begin(), blocks.end(), [&](std::int64_t count) { return count <= processors; });
}

void Group::give_outputs(void* const* outputs) {
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (is_active(r)) copy(outputs[r], own(r).output, own(r).tokens * combine_bytes(own(r).config));
}

void Group::combine(const std::int64_t* runtime_max, void* const* outputs) {
  if (!fits()) raise_flags();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    use(own(r));
    if (is_active(r)) launch_combine(r, runtime_max[r]);
  }
  wait();
  give_outputs(outputs);
}

void Group::view(std::size_t r, a2asim_view_v1& view) {
  Rank& rank = own(r);
  std::vector<std::int32_t> counters(ranks_.size());
  copy(counters.data(), rank.field<std::byte>(rank.at.recv_counters), 4 * ep_size());
  for (int s = 0; s < ep_size(); ++s) {
    view.counters[s] = counters[static_cast<std::size_t>(s)];
    view.num_rows[s] = std::clamp<std::int64_t>(view.counters[s], 0, rank.runtime_max);
    view.results[s] = rank.slice + rank.regions.combine_row(s, 0);
    for (int p = 0; p < rank.config.num_payloads; ++p)
      view.rows[p * ep_size() + s] = rank.slice + rank.regions.row(p, s, 0);
  }
}

}  // namespace a2asim::flashinfer
