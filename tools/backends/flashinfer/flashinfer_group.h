// FlashInfer's mixture-of-experts all-to-all (moeAlltoAllKernels.cu of the user's checkout, v0.6.1 and newer) as a
// plug-in. What its host side does in csrc/trtllm_moe_alltoall.cu, without torch: where the regions lie, its checks,
// its launches, a stream for each rank.
//
// Ranks are shared out to the visible GPUs in equal blocks; the slices of a GPU lie side by side, as in one tensor.
// With several ranks on a GPU two things differ from servers, where each rank has its own: every block of combine waits
// for its peers' flags, and only the first block of a rank sends them, so that ranks whose blocks do not fit the GPU
// together would wait forever. Then this writes the flags first: every rank's results are complete by then.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gpu/backend_plugin.h"
#include "model/alltoall/workspace.h"
// Before the kernels' header, which needs it and does not include it.
#include "tensorrt_llm/common/dataType.h"
#include "tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.h"

namespace a2asim::flashinfer {

namespace fi = tensorrt_llm::kernels::moe_alltoall;
constexpr int kMostRanksOfGpu = 32;  // streams that a GPU runs side by side

struct Failure : std::exception {
  explicit Failure(std::string text) : words(std::move(text)) {}
  const char* what() const noexcept override { return words.c_str(); }
  std::string words;
};

inline void check(bool holds, const std::string& otherwise) {
  if (!holds) throw Failure(otherwise);
}
inline void check(cudaError_t code, const char* doing) {
  if (code != cudaSuccess) throw Failure(std::string(doing) + ": " + cudaGetErrorString(code));
}

// Fields that only some releases have.
template <class Params>
void set_if_there(Params& params, const a2asim_rank_v1& rank, int ep_size, std::uint64_t mask) {
  if constexpr (requires { params.num_experts; }) params.num_experts = static_cast<int>(rank.num_experts);
  if constexpr (requires { params.num_experts_per_rank; })
    params.num_experts_per_rank = static_cast<int>(rank.num_experts / ep_size);
  if constexpr (requires { params.one_block_per_token; }) params.one_block_per_token = true;
  if constexpr (requires { params.enable_rank_mask; }) {
    params.enable_rank_mask = mask != ~std::uint64_t{0};
    params.active_rank_mask[0] = mask;
  }
}
template <class Params>
constexpr bool has_rank_mask = requires(Params& params) {
  params.enable_rank_mask;
};
template <class Params>
constexpr bool splits_unevenly = requires(Params& params) {
  params.num_experts;
};

// Newer releases ask whether to launch it as a dependent.
template <class Launch, class... Arguments>
void launch_sanitize(const Launch& launch, const Arguments&... arguments) {
  if constexpr (std::is_invocable_v<Launch, Arguments..., bool>)
    launch(arguments..., false);
  else
    launch(arguments...);
}

struct Rank {
  a2asim_rank_v1 config;
  WorkspaceLayout at;
  int device = 0;
  std::byte* slice = nullptr;
  cudaStream_t stream = nullptr;
  std::byte* staging = nullptr;
  std::int64_t staging_bytes = 0, tokens = 0, runtime_max = 0;
  RegionView regions;
  std::byte* output = nullptr;

  template <class T>
  T* field(std::int64_t at_bytes) const {
    return reinterpret_cast<T*>(slice + at_bytes);
  }
};

struct Payloads {
  int hidden = 0, weights = 0;
};

// What one rank's calls of a layer are captured as. `rank` has the inputs' place, which the kernels know.
struct RankGraph {
  cudaGraphExec_t exec = nullptr;
  Rank rank;
};
struct Graph {
  std::vector<RankGraph> ranks;
  std::int32_t invalid_expert_id = -1;
  Payloads payloads;
};

class Group {
 public:
  explicit Group(const a2asim_group_v1& group) : ranks_(static_cast<std::size_t>(group.ep_size)) {
    check(group.num_local == group.ep_size, "FlashInfer here drives all ranks of a group");
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "looking for GPUs");
    const int ep_size = group.ep_size, per_gpu = (ep_size + devices - 1) / devices;
    check(per_gpu <= kMostRanksOfGpu, "SKIPPED: at most 32 ranks of a GPU run side by side");
    for (int r = 0; r < ep_size; ++r) {
      Rank& rank = ranks_[static_cast<std::size_t>(r)];
      rank.config = group.ranks[r];
      check(rank.config.num_payloads <= fi::kMaxPayloads,
            "SKIPPED: this release takes at most " + std::to_string(fi::kMaxPayloads) + " payloads");
      check(splits_unevenly<fi::MoeA2ADispatchParams> || rank.config.num_experts % ep_size == 0,
            "SKIPPED: this release wants num_experts to be a multiple of ep_size");
      check(rank.config.num_experts >= ep_size, "num_experts must be at least ep_size");
      check(rank.config.payload_alignment == 1, "SKIPPED: FlashInfer does not align its payloads");
      check(rank.config.top_k > 0 && rank.config.top_k <= fi::kMaxTopK,
            "SKIPPED: this release takes top_k up to " + std::to_string(fi::kMaxTopK));
      rank.at = a2asim::make_workspace_layout(ep_size, rank.config.max_num_tokens, rank.config.max_top_k);
      rank.device = r / per_gpu;
      bytes_ = std::max(bytes_, workspace_bytes(rank));
    }
    mask_ = ranks_[0].config.active_rank_mask | ~((std::uint64_t{1} << (ep_size - 1) << 1) - 1);
    check(mask_ == ~std::uint64_t{0} || has_rank_mask<fi::MoeA2ADispatchParams>,
          "SKIPPED: this release has no rank mask");
    allocate(per_gpu);
  }
  ~Group() {
    for (Rank& rank : ranks_) {
      cudaSetDevice(rank.device);
      if (rank.stream != nullptr) cudaStreamDestroy(rank.stream);
      cudaFree(rank.staging);
    }
    for (Graph& graph : graphs_)
      for (RankGraph& one : graph.ranks) cudaGraphExecDestroy(one.exec), cudaFree(one.rank.staging);
    for (const auto& [device, memory] : memory_) cudaSetDevice(device), cudaFree(memory);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void dispatch(const a2asim_input_v1* inputs);
  void sanitize(std::int32_t invalid_expert_id);
  void experts(const Payloads& payloads);
  void combine(const std::int64_t* runtime_max, void* const* outputs);
  std::int32_t capture(const a2asim_input_v1* inputs, std::int32_t invalid_expert_id, const Payloads& payloads);
  void replay(const std::int32_t* graphs, const a2asim_input_v1* inputs, void* const* outputs);
  void view(std::size_t r, a2asim_view_v1& view);
  void slots(std::size_t r, std::int32_t* to) {
    copy(to, own(r).field<std::byte>(own(r).at.topk_send_indices), 4 * own(r).tokens * own(r).config.top_k);
  }
  void read(std::size_t r, void* to, std::int64_t bytes) { copy(to, own(r).slice, bytes); }
  void poison(int byte) {
    for (Rank& rank : ranks_) {
      use(rank);
      const auto bytes = static_cast<std::size_t>(workspace_bytes(rank) - rank.at.payload_data);
      check(cudaMemset(rank.slice + rank.at.payload_data, byte, bytes), "poisoning");
    }
    wait();
  }
  // The pieces of dispatch and combine, for benchmarks: stage copies the inputs, enqueue_* launch alone.
  void stage(const a2asim_input_v1* inputs);
  void enqueue_dispatch();
  void enqueue_combine();
  cudaStream_t stream(std::size_t r) { return own(r).stream; }
  void wait() {
    for (Rank& rank : ranks_) {
      use(rank);
      check(cudaDeviceSynchronize(), "waiting");
    }
  }
  void set_mask(std::uint64_t mask) {
    mask_ = mask | ~((std::uint64_t{1} << (ranks_.size() - 1) << 1) - 1);
    check(mask_ == ~std::uint64_t{0} || has_rank_mask<fi::MoeA2ADispatchParams>,
          "SKIPPED: this release has no rank mask");
  }
  static void copy(void* to, const void* from, std::int64_t bytes) {
    check(cudaMemcpy(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault), "copying");
  }

  std::string error;

 private:
  Rank& own(std::size_t r) { return ranks_[r]; }
  int ep_size() const { return static_cast<int>(ranks_.size()); }
  bool is_active(std::size_t r) const { return (mask_ >> r & 1) != 0; }
  static void use(const Rank& rank) { check(cudaSetDevice(rank.device), "cudaSetDevice"); }
  std::int64_t workspace_bytes(const Rank& rank) const {
    const a2asim_rank_v1& config = rank.config;
    const std::int64_t dispatch_bytes = std::accumulate(
        config.payload_bytes_per_token, config.payload_bytes_per_token + config.num_payloads, std::int64_t{0});
    return a2asim::workspace_bytes_per_rank(rank.at, ep_size(), config.max_num_tokens, dispatch_bytes,
                                            combine_bytes(config));
  }
  static std::int64_t combine_bytes(const a2asim_rank_v1& config) {
    const std::int64_t element = config.combine_type == A2ASIM_FLOAT32       ? 4
                                 : config.combine_type == A2ASIM_FLOAT8_E4M3 ? 1
                                                                             : 2;
    return config.hidden_size * element;
  }
  void allocate(int per_gpu);
  void stage(Rank& rank, const a2asim_input_v1& input, fi::MoeA2ADispatchParams& params);
  void check_sizes(const Rank& rank, const a2asim_input_v1& input) const;
  fi::MoeA2ADispatchParams describe_dispatch(std::size_t r, const a2asim_input_v1& input);
  void set_sizes(Rank& rank, const a2asim_input_v1& input);
  static void launch_dispatch(const fi::MoeA2ADispatchParams& params);
  void launch_sanitize(std::size_t r, std::int32_t invalid_expert_id);
  void launch_experts(std::size_t r, const Payloads& payloads);
  void launch_combine(std::size_t r, std::int64_t runtime_max);
  void give_outputs(void* const* outputs);
  bool fits() const;  // the blocks of all ranks of a GPU run at once
  void raise_flags();

  std::vector<Rank> ranks_;
  std::vector<Graph> graphs_;
  std::vector<fi::MoeA2ADispatchParams> staged_;
  std::vector<std::pair<int, void*>> memory_;  // by device
  std::int64_t bytes_ = 0;                     // of a slice
  std::uint64_t mask_ = ~std::uint64_t{0};
};

}  // namespace a2asim::flashinfer
