// Sanitize, the closed-form experts, and an empty kernel: what runs on a rank's own slice between dispatch and combine.
#include "gpu/launch_config.cuh"
#include "gpu/numbers.cuh"
#include "gpu/vector.cuh"
#include "model/alltoall/experts.h"

namespace a2asim::gpu {
namespace {

constexpr int kThreads = 256;

// blockIdx.y: local rank. One thread a 16-byte vector (or a word, where rows are no multiple of that).
template <int kWords>
__global__ void __launch_bounds__(kThreads)
    sanitize_kernel(const __grid_constant__ LaunchArgs args, const __grid_constant__ SanitizeArgs sanitize) {
  const RankArgs& rank = args.ranks[blockIdx.y];
  const int ids = sanitize.expert_id_payload[blockIdx.y];
  std::byte* slice = args.slices[rank.rank];
  const std::int32_t* received = words(slice, make_workspace_layout(args.ep_size, 0, 0).recv_counters);
  const auto per_row = static_cast<unsigned>(rank.payloads[ids].bytes_per_token / 4 / kWords);
  const auto max_tokens = static_cast<unsigned>(rank.runtime_max_tokens_per_rank);
  const int fill = sanitize.invalid_expert_id;
  for (int source = 0; source < args.ep_size; ++source) {
    // Rows [counter, R) of a source lie behind each other.
    const int counter = received[source];
    const unsigned used = counter < 0 ? 0 : static_cast<unsigned>(counter);
    if (used >= max_tokens) continue;
    std::byte* rows = slice + rank.row(ids, rank.row_number(source, used));
    const std::int64_t vectors = static_cast<std::int64_t>(max_tokens - used) * per_row;
    for (std::int64_t i = blockIdx.x * kThreads + threadIdx.x; i < vectors; i += gridDim.x * kThreads) {
      if constexpr (kWords == 4) {
        reinterpret_cast<int4*>(rows)[i] = make_int4(fill, fill, fill, fill);
      } else {
        reinterpret_cast<int*>(rows)[i] = fill;
      }
    }
  }
}

template <NumberType kType>
__device__ void apply_experts(const LaunchArgs& args, const RankArgs& rank, const ExpertArgs& expert_args,
                              std::int64_t row) {
  using Element = Number<kType>;
  constexpr int element_bytes = 4 / Element::per_word;
  std::byte* slice = args.slices[rank.rank];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto row_of = [&](int p) { return slice + rank.row(p, row); };
  // Lane j holds position j's factor.
  bool own = false;
  float factor = 0;
  if (lane < rank.top_k) {
    const std::int32_t id = reinterpret_cast<const std::int32_t*>(row_of(expert_args.expert_id_payload))[lane];
    const std::int64_t first = first_expert(rank.rank, rank.num_experts, args.ep_size);
    own = id >= first && id < first + num_local_experts(rank.rank, rank.num_experts, args.ep_size);
    if (own) {
      factor = closed_form_factor(reinterpret_cast<const float*>(row_of(expert_args.weight_payload))[lane], id);
    }
  }
  const unsigned owners = __ballot_sync(kFullWarp, own);
  const std::byte* hidden = row_of(expert_args.hidden_payload);
  std::byte* output = slice + rank.combine_row(row);
  const int warp_start = static_cast<int>(threadIdx.x) - lane;
  for (int start = warp_start; start < expert_args.hidden_size; start += kThreads) {
    const std::int64_t at = static_cast<std::int64_t>(start + lane) * element_bytes;
    const bool mine = start + lane < expert_args.hidden_size;
    const float x = mine ? Element::unpack(load_vector(hidden + at, element_bytes).x, 0) : 0.0f;
    float sum[Element::per_word] = {};
    for (unsigned left = owners; left != 0; left &= left - 1) {
      sum[0] = closed_form_accumulate(sum[0], __shfl_sync(kFullWarp, factor, __ffs(static_cast<int>(left)) - 1), x);
    }
    if (mine) store_vector(output + at, make_uint4(Element::pack(sum), 0, 0, 0), element_bytes);
  }
}

struct ExpertArgsTable {
  ExpertArgs by_local_rank[kMaxRanks];
};

__global__ void __launch_bounds__(kThreads)
    experts_kernel(const __grid_constant__ LaunchArgs args, const __grid_constant__ ExpertArgsTable table) {
  const RankArgs& rank = args.ranks[blockIdx.y];
  const ExpertArgs& expert_args = table.by_local_rank[blockIdx.y];
  const std::int32_t* received = words(args.slices[rank.rank], make_workspace_layout(args.ep_size, 0, 0).recv_counters);
  const std::int64_t max_tokens = rank.runtime_max_tokens_per_rank;
  for (std::int64_t row = blockIdx.x; row < args.ep_size * max_tokens; row += gridDim.x) {
    if (row % max_tokens >= received[row / max_tokens]) continue;
    switch (expert_args.type) {
      case NumberType::bfloat16:
        apply_experts<NumberType::bfloat16>(args, rank, expert_args, row);
        break;
      case NumberType::float16:
        apply_experts<NumberType::float16>(args, rank, expert_args, row);
        break;
      case NumberType::float32:
        apply_experts<NumberType::float32>(args, rank, expert_args, row);
        break;
      case NumberType::float8_e4m3:
        apply_experts<NumberType::float8_e4m3>(args, rank, expert_args, row);
        break;
    }
  }
}

__global__ void empty_kernel() {}

// Enough blocks to fill the device several times over, shared by the local ranks.
dim3 grid_for(const LaunchArgs& args) {
  const int per_rank = multiprocessors() * 8 / args.num_local_ranks;
  return dim3(static_cast<unsigned>(per_rank < 1 ? 1 : per_rank), static_cast<unsigned>(args.num_local_ranks));
}

}  // namespace

int launch_sanitize(const LaunchArgs& args, const SanitizeArgs& sanitize, Stream stream) {
  bool wide = true;
  for (int i = 0; i < args.num_local_ranks; ++i) {
    wide = wide && args.ranks[i].payloads[sanitize.expert_id_payload[i]].width_bytes == 16;
  }
  const LaunchShape shape(grid_for(args), kThreads, stream, false);
  return wide ? start(shape, sanitize_kernel<4>, args, sanitize) : start(shape, sanitize_kernel<1>, args, sanitize);
}

int launch_experts(const LaunchArgs& args, const ExpertArgs* experts_by_local_rank, Stream stream) {
  ExpertArgsTable table;
  for (int i = 0; i < args.num_local_ranks; ++i) table.by_local_rank[i] = experts_by_local_rank[i];
  return start({grid_for(args), kThreads, stream, false}, experts_kernel, args, table);
}

int launch_nothing(Stream stream) { return start({1, kWarpSize, stream, false}, empty_kernel); }

}  // namespace a2asim::gpu
