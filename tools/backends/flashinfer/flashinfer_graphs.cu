// Experts on the GPU, and a layer's calls of a rank as a CUDA graph, each rank's replayed on its own stream as servers
// do.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "model/alltoall/experts.h"
#include "model/alltoall/routing.h"
#include "tools/backends/flashinfer/flashinfer_group.h"

namespace a2asim::flashinfer {
namespace {

__device__ float load(const __nv_bfloat16* x) { return __bfloat162float(*x); }
__device__ float load(const __half* x) { return __half2float(*x); }
__device__ float load(const float* x) { return *x; }
__device__ void store(__nv_bfloat16* to, float x) { *to = __float2bfloat16_rn(x); }
__device__ void store(__half* to, float x) { *to = __float2half_rn(x); }
__device__ void store(float* to, float x) { *to = isnan(x) ? __uint_as_float(0x7fffffffu) : x; }

struct ExpertRows {
  RegionView regions;
  std::byte* slice;
  const std::int32_t* counters;
  std::int64_t runtime_max, num_experts, first_expert, num_own, hidden_size;
  int top_k, hidden_payload, id_payload, weight_payload;
};

// A block a row: the closed-form experts of model/alltoall/experts.h.
template <class Element>
__global__ void experts_kernel(ExpertRows rows) {
  const int source = static_cast<int>(blockIdx.x / rows.runtime_max);
  const std::int64_t slot = blockIdx.x % rows.runtime_max;
  if (slot >= rows.counters[source]) return;
  __shared__ float factors[kMaxTopK];
  __shared__ int count;
  if (threadIdx.x == 0) {
    count = 0;
    const std::byte* ids = rows.slice + rows.regions.row(rows.id_payload, source, slot);
    const std::byte* weights = rows.slice + rows.regions.row(rows.weight_payload, source, slot);
    for (int j = 0; j < rows.top_k; ++j) {
      std::int32_t id;
      float weight;
      memcpy(&id, ids + 4 * j, 4);
      memcpy(&weight, weights + 4 * j, 4);
      if (classify_expert_id(id, rows.first_expert, rows.num_own, rows.num_experts, -1) == ExpertIdClass::own)
        factors[count++] = closed_form_factor(weight, id);
    }
  }
  __syncthreads();
  const auto* x = reinterpret_cast<const Element*>(rows.slice + rows.regions.row(rows.hidden_payload, source, slot));
  auto* out = reinterpret_cast<Element*>(rows.slice + rows.regions.combine_row(source, slot));
  for (std::int64_t i = threadIdx.x; i < rows.hidden_size; i += blockDim.x) {
    float sum = 0.0F;
    for (int e = 0; e < count; ++e) sum = closed_form_accumulate(sum, factors[e], load(x + i));
    store(out + i, sum);
  }
}

}  // namespace

void Group::launch_experts(std::size_t r, const Payloads& payloads) {
  const Rank& rank = own(r);
  const int number = static_cast<int>(r);
  const ExpertRows rows{rank.regions,
                        rank.slice,
                        rank.field<const std::int32_t>(rank.at.recv_counters),
                        rank.runtime_max,
                        rank.config.num_experts,
                        first_expert(number, rank.config.num_experts, ep_size()),
                        num_local_experts(number, rank.config.num_experts, ep_size()),
                        rank.config.hidden_size,
                        rank.config.top_k,
                        payloads.hidden,
                        rank.config.expert_id_payload,
                        payloads.weights};
  const auto blocks = static_cast<unsigned>(ep_size() * rank.runtime_max);
  switch (rank.config.combine_type) {
    case A2ASIM_BFLOAT16:
      experts_kernel<__nv_bfloat16><<<blocks, 128, 0, rank.stream>>>(rows);
      break;
    case A2ASIM_FLOAT16:
      experts_kernel<__half><<<blocks, 128, 0, rank.stream>>>(rows);
      break;
    case A2ASIM_FLOAT32:
      experts_kernel<float><<<blocks, 128, 0, rank.stream>>>(rows);
      break;
    default:
      throw Failure("SKIPPED: experts of bfloat16, float16 and float32 only");
  }
  check(cudaGetLastError(), "launching experts");
}

void Group::experts(const Payloads& payloads) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    use(own(r));
    if (is_active(r)) launch_experts(r, payloads);
  }
  wait();
}

// Each rank with a place of its own for the inputs of its graph, so that eager calls do not move it.
std::int32_t Group::capture(const a2asim_input_v1* inputs, std::int32_t invalid_expert_id, const Payloads& payloads) {
  Graph graph{{}, invalid_expert_id, payloads};
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const Rank usual = own(r);
    use(usual);
    own(r).staging = nullptr;
    own(r).staging_bytes = 0;
    set_sizes(own(r), inputs[r]);
    check_sizes(own(r), inputs[r]);
    const fi::MoeA2ADispatchParams params = describe_dispatch(r, inputs[r]);
    wait();
    check(cudaStreamBeginCapture(usual.stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
    launch_dispatch(params);
    launch_sanitize(r, invalid_expert_id);
    launch_experts(r, payloads);
    launch_combine(r, own(r).runtime_max);
    cudaGraph_t recorded = nullptr;
    check(cudaStreamEndCapture(usual.stream, &recorded), "ending a capture");
    RankGraph one;
    check(cudaGraphInstantiate(&one.exec, recorded, 0), "making a graph");
    cudaGraphDestroy(recorded);
    one.rank = own(r);
    graph.ranks.push_back(one);
    own(r) = usual;
  }
  graphs_.push_back(std::move(graph));
  return static_cast<std::int32_t>(graphs_.size()) - 1;
}

// Ranks that replay and ranks that run the same calls eagerly (graph -1), side by side.
void Group::replay(const std::int32_t* graphs, const a2asim_input_v1* inputs, void* const* outputs) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) own(r).tokens = inputs[r].num_tokens;
  check(fits(), "SKIPPED: the ranks' blocks do not fit the GPU together");
  std::vector<Rank> usual = ranks_;
  std::vector<fi::MoeA2ADispatchParams> calls(ranks_.size());
  const Graph* any = nullptr;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (graphs[r] < 0) {
      set_sizes(own(r), inputs[r]);
      check_sizes(own(r), inputs[r]);
      calls[r] = describe_dispatch(r, inputs[r]);
      usual[r] = own(r);
      continue;
    }
    check(graphs[r] < static_cast<std::int32_t>(graphs_.size()), "there is no such graph");
    any = &graphs_[static_cast<std::size_t>(graphs[r])];
    own(r) = any->ranks[r].rank;
    check(inputs[r].num_tokens == own(r).tokens, "a graph takes as many rows as were captured");
    use(own(r));
    fi::MoeA2ADispatchParams unused{};
    stage(own(r), inputs[r], unused);
  }
  check(any != nullptr, "no rank replays");
  wait();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!is_active(r)) continue;
    use(own(r));
    if (graphs[r] >= 0) {
      const Graph& graph = graphs_[static_cast<std::size_t>(graphs[r])];
      check(cudaGraphLaunch(graph.ranks[r].exec, own(r).stream), "launching a graph");
      continue;
    }
    launch_dispatch(calls[r]);
    launch_sanitize(r, any->invalid_expert_id);
    launch_experts(r, any->payloads);
    launch_combine(r, own(r).runtime_max);
  }
  wait();
  give_outputs(outputs);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    own(r).staging = usual[r].staging;
    own(r).staging_bytes = usual[r].staging_bytes;
    own(r).output = nullptr;
  }
}

}  // namespace a2asim::flashinfer
