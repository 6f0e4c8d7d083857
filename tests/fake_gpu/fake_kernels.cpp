// What the kernels of gpu/ do, as loops over ranks and tokens: the same protocol, slots and sums.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "gpu/launch.h"
#include "model/alltoall/experts.h"
#include "model/alltoall/number_types.h"
#include "model/alltoall/reduction.h"
#include "tests/fake_gpu/fake_gpu.h"

namespace a2asim::gpu {
namespace {

using Clock = std::chrono::steady_clock;

std::int32_t& word(std::byte* slice, std::int64_t offset_bytes, int index = 0) {
  return *(reinterpret_cast<std::int32_t*>(slice + offset_bytes) + index);
}

WorkspaceLayout control(const LaunchArgs& args) { return make_workspace_layout(args.ep_size, 0, 0); }
bool is_active(std::uint64_t mask, int rank) { return (mask >> rank & 1) != 0; }
SliceHeader& header_of(std::byte* slice) { return *reinterpret_cast<SliceHeader*>(slice - sizeof(SliceHeader)); }

GuardRecord record_of(const RankArgs& rank, bool refused) {
  GuardRecord record;
  record.runtime_max_tokens_per_rank = rank.runtime_max_tokens_per_rank;
  record.max_num_tokens = rank.max_num_tokens;
  for (int p = 0; p < rank.num_payloads; ++p) record.payload_bytes_per_token[p] = rank.payloads[p].bytes_per_token;
  record.combine_bytes_per_token = rank.combine_bytes_per_token;
  record.refused = refused ? 1 : 0;
  return record;
}

bool agrees(GuardRecord a, GuardRecord b) {
  a.refused = b.refused = 0;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

void signal_peers(const LaunchArgs& args, bool in_combine, bool refused) {
  const WorkspaceLayout at = control(args);
  const std::int64_t flags = in_combine ? at.combine_completion_flags : at.dispatch_completion_flags;
  args.state->in_combine = in_combine ? 1 : 0;
  for (int i = 0; i < args.num_local_ranks; ++i) {
    const RankArgs& rank = args.ranks[i];
    std::byte* own = args.slices[rank.rank];
    for (int peer = 0; peer < args.ep_size; ++peer) {
      if (!is_active(rank.active_rank_mask, peer)) continue;
      std::byte* theirs = args.slices[peer];
      const GuardRecord record = record_of(rank, refused);
      (in_combine ? header_of(theirs).combine : header_of(theirs).dispatch)[rank.rank] = record;
      if (!in_combine) word(theirs, at.recv_counters, rank.rank) = word(own, at.send_counters, peer);
      const int local_peer = args.local_index[peer];
      if (local_peer >= 0 && args.guard != 0 && !agrees(record, record_of(args.ranks[local_peer], refused)))
        args.state->guard_mismatch = 1;
      std::atomic_ref(word(theirs, flags, rank.rank)).store(word(own, at.flag_val), std::memory_order_release);
    }
  }
}

void wait_for_peers(const LaunchArgs& args, bool in_combine) {
  const WorkspaceLayout at = control(args);
  const std::int64_t flags = in_combine ? at.combine_completion_flags : at.dispatch_completion_flags;
  const auto deadline = Clock::now() + std::chrono::nanoseconds(args.timeout_ns);
  for (int i = 0; i < args.num_local_ranks; ++i) {
    const RankArgs& rank = args.ranks[i];
    std::byte* own = args.slices[rank.rank];
    for (int peer = 0; peer < args.ep_size; ++peer) {
      if (!is_active(rank.active_rank_mask, peer) || args.local_index[peer] >= 0) continue;
      const std::atomic_ref flag(word(own, flags, peer));
      while (flag.load(std::memory_order_acquire) != word(own, at.flag_val) && Clock::now() < deadline)
        std::this_thread::yield();
      if (flag.load(std::memory_order_acquire) != word(own, at.flag_val)) {
        args.state->missing[rank.rank] |= std::uint64_t{1} << peer;
        continue;
      }
      const GuardRecord& theirs = (in_combine ? header_of(own).combine : header_of(own).dispatch)[peer];
      if (theirs.refused != 0) args.state->peer_refused = 1;
      if (args.guard != 0 && !agrees(theirs, record_of(rank, false))) args.state->guard_mismatch = 1;
    }
  }
}

void send_token(const LaunchArgs& args, const RankArgs& rank, int token, std::vector<std::int32_t>& slots) {
  const WorkspaceLayout at = make_workspace_layout(args.ep_size, rank.max_num_tokens, rank.max_top_k);
  std::byte* own = args.slices[rank.rank];
  std::vector<std::int32_t> targets(static_cast<std::size_t>(rank.top_k));
  const std::int64_t first = static_cast<std::int64_t>(token) * rank.top_k;
  distinct_targets(rank.token_selected_experts + first, rank.top_k, rank.num_experts, args.ep_size, targets.data());
  for (int j = 0; j < rank.top_k; ++j) {
    const std::int32_t target = targets[static_cast<std::size_t>(j)];
    const std::int32_t to = target >= 0 && is_active(rank.active_rank_mask, target) ? target : -1;
    const std::int32_t slot = to < 0 ? -1 : slots[static_cast<std::size_t>(to)]++;
    word(own, at.topk_target_ranks + 4 * (first + j)) = to;
    word(own, at.topk_send_indices + 4 * (first + j)) = slot;
    for (int p = 0; to >= 0 && p < rank.num_payloads; ++p) {
      const PayloadArgs& payload = rank.payloads[p];
      std::memcpy(args.slices[to] + rank.row(p, rank.row_number(rank.rank, slot)),
                  payload.source + static_cast<std::int64_t>(token) * payload.bytes_per_token,
                  static_cast<std::size_t>(payload.bytes_per_token));
    }
  }
}

void dispatch(const LaunchArgs& args) {
  const WorkspaceLayout at = control(args);
  for (int i = 0; i < args.num_local_ranks; ++i) {
    const RankArgs& rank = args.ranks[i];
    std::byte* own = args.slices[rank.rank];
    std::vector<std::int32_t> slots(static_cast<std::size_t>(args.ep_size), 0);
    for (int token = 0; token < rank.num_tokens; ++token) send_token(args, rank, token, slots);
    for (int to = 0; to < args.ep_size; ++to) word(own, at.send_counters, to) = slots[static_cast<std::size_t>(to)];
    word(own, at.flag_val) += 1;
    word(own, at.local_token_counter) = rank.num_tokens;
  }
  signal_peers(args, false, false);
  if (args.has_remote_ranks != 0) wait_for_peers(args, false);
}

template <class Number>
void apply_experts(const LaunchArgs& args, const RankArgs& rank, const ExpertArgs& experts, std::int64_t row) {
  using Storage = typename Number::Storage;
  std::byte* slice = args.slices[rank.rank];
  const auto at = [&](int p) { return slice + rank.row(p, row); };
  const auto* ids = reinterpret_cast<const std::int32_t*>(at(experts.expert_id_payload));
  const std::int64_t first = first_expert(rank.rank, rank.num_experts, args.ep_size);
  const std::int64_t count = num_local_experts(rank.rank, rank.num_experts, args.ep_size);
  std::byte* output = slice + rank.combine_row(row);
  for (int i = 0; i < experts.hidden_size; ++i) {
    Storage bits;
    std::memcpy(&bits, at(experts.hidden_payload) + static_cast<std::size_t>(i) * sizeof bits, sizeof bits);
    const float x = Number::load(bits);
    float sum = 0.0F;
    for (int j = 0; j < rank.top_k; ++j) {
      if (ids[j] < first || ids[j] >= first + count) continue;
      float weight;
      std::memcpy(&weight, at(experts.weight_payload) + 4 * j, 4);
      sum = closed_form_accumulate(sum, closed_form_factor(weight, ids[j]), x);
    }
    bits = Number::store(sum);
    std::memcpy(output + static_cast<std::size_t>(i) * sizeof bits, &bits, sizeof bits);
  }
}

// The published shapes: folded in pairs, but left to right for the other counts.
float sum_of(std::vector<float> values, int top_k) {
  while (has_tree_shape(top_k) && values.size() > 1) {
    std::vector<float> folded;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) folded.push_back(add_flushed(values[i], values[i + 1]));
    if (values.size() % 2 == 1) folded.push_back(values.back());
    values = std::move(folded);
  }
  float sum = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) sum = add_flushed(sum, values[i]);
  return sum;
}

template <class Number>
void sum_token(const LaunchArgs& args, const RankArgs& rank, std::int64_t token) {
  using Storage = typename Number::Storage;
  const WorkspaceLayout at = make_workspace_layout(args.ep_size, rank.max_num_tokens, rank.max_top_k);
  std::byte* own = args.slices[rank.rank];
  const auto elements = static_cast<std::size_t>(rank.combine_bytes_per_token) / sizeof(Storage);
  for (std::size_t i = 0; i < elements; ++i) {
    std::vector<float> parts;
    for (int j = 0; j < rank.top_k; ++j) {
      const std::int64_t entry = 4 * (token * rank.top_k + j);
      const std::int32_t to = word(own, at.topk_target_ranks + entry);
      const std::int64_t row = rank.row_number(rank.rank, word(own, at.topk_send_indices + entry));
      Storage bits = {};
      if (to >= 0) {
        std::memcpy(&bits, args.slices[to] + rank.combine_row(row) + i * sizeof bits, sizeof bits);
      }
      parts.push_back(to >= 0 ? Number::load(bits) : 0.0F);
    }
    Storage sum = Number::store(sum_of(parts, rank.top_k));
    if constexpr (Number::type == DataType::float32)
      if (rank.top_k == 1) sum = std::bit_cast<Storage>(parts[0]);
    std::memcpy(rank.output + token * rank.combine_bytes_per_token + static_cast<std::int64_t>(i * sizeof sum), &sum,
                sizeof sum);
  }
}

void combine(const LaunchArgs& args, NumberType type) {
  for (int i = 0; i < args.num_local_ranks; ++i) word(args.slices[args.ranks[i].rank], control(args).flag_val) += 1;
  signal_peers(args, true, false);
  wait_for_peers(args, true);
  for (int i = 0; i < args.num_local_ranks; ++i) {
    const RankArgs& rank = args.ranks[i];
    for (int token = 0; token < rank.num_tokens; ++token)
      with_number_type(static_cast<DataType>(type), [&](auto of) { sum_token<decltype(of)>(args, rank, token); });
  }
}

}  // namespace

int load_dispatch() { return cudaSuccess; }
int load_combine(const LaunchArgs&, NumberType, int) { return cudaSuccess; }

int launch_dispatch(const LaunchArgs& args, Stream stream) {
  fake::enqueue(stream, [args] { dispatch(args); });
  return cudaSuccess;
}

int launch_sanitize(const LaunchArgs& args, const SanitizeArgs& sanitize, Stream stream) {
  fake::enqueue(stream, [args, sanitize] {
    for (int i = 0; i < args.num_local_ranks; ++i) {
      const RankArgs& rank = args.ranks[i];
      const int ids = sanitize.expert_id_payload[i];
      std::byte* slice = args.slices[rank.rank];
      for (int source = 0; source < args.ep_size; ++source) {
        for (int slot = word(slice, control(args).recv_counters, source); slot < rank.runtime_max_tokens_per_rank;
             ++slot) {
          for (int j = 0; j < rank.payloads[ids].bytes_per_token / 4; ++j)
            word(slice, rank.row(ids, rank.row_number(source, slot)), j) = sanitize.invalid_expert_id;
        }
      }
    }
  });
  return cudaSuccess;
}

int launch_experts(const LaunchArgs& args, const ExpertArgs* experts_by_local_rank, Stream stream) {
  const std::vector<ExpertArgs> experts(experts_by_local_rank, experts_by_local_rank + args.num_local_ranks);
  fake::enqueue(stream, [args, experts] {
    for (std::size_t i = 0; i < experts.size(); ++i) {
      const RankArgs& rank = args.ranks[i];
      const std::int64_t most = rank.runtime_max_tokens_per_rank;
      for (std::int64_t row = 0; row < args.ep_size * most; ++row) {
        const int received = word(args.slices[rank.rank], control(args).recv_counters, static_cast<int>(row / most));
        if (row % most >= received) continue;
        with_number_type(static_cast<DataType>(experts[i].type),
                         [&](auto of) { apply_experts<decltype(of)>(args, rank, experts[i], row); });
      }
    }
  });
  return cudaSuccess;
}

int launch_combine(const LaunchArgs& args, NumberType type, int, Stream stream) {
  fake::enqueue(stream, [args, type] { combine(args, type); });
  return cudaSuccess;
}

int launch_nothing(Stream stream) {
  fake::enqueue(stream, [] {});
  return cudaSuccess;
}

}  // namespace a2asim::gpu
