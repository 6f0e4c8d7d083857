// The two-sided baseline: the same all-to-all by NCCL's own communication, to see what one-sided buys on a machine.
//
// send_recv: every GPU routes its tokens into boxes, one a destination, with the kernels of CudaAllToAll; the ranks
// tell each other the counts; grouped ncclSend and ncclRecv carry the rows, and the partial sums back. Slices and
// outputs are CudaAllToAll's, byte for byte, and ranks may disagree on R: each places what it receives by its own.
//
// all_gather: every rank gets the rows of all (its receive counters say so), and a reduce-scatter adds the partial
// sums in NCCL's order and precision, so outputs differ in the last bits. One rank a GPU, all active, one R.
//
// Both need the counts on the host, so every call waits for the devices, and a capture is a note of the sizes.
#pragma once

#if defined(A2ASIM_HAS_NCCL)
#include <memory>
#include <span>
#include <vector>

#include "gpu/cuda_alltoall.h"
#include "gpu/nccl_communicator.h"

namespace a2asim::gpu {

enum class TwoSided { send_recv, all_gather };

class NcclAllToAll final : public AllToAll {
 public:
  // configs: one for all ranks, or one a rank. devices: of this process, each once.
  static Result<std::unique_ptr<NcclAllToAll>> create(std::span<const AllToAllConfig> configs, TwoSided way,
                                                      std::span<const int> devices, ProcessGroup* group = nullptr);

  std::string_view backend() const override {
    return way_ == TwoSided::send_recv ? "nccl send/recv" : "nccl all-gather";
  }
  std::span<const int> local_ranks() const override { return communicator_->local_ranks(); }
  Result<void> dispatch(std::span<const DispatchInput> inputs) override;
  Result<void> sanitize(std::int32_t invalid_expert_id) override;
  Result<void> experts(const ExpertPayloads& payloads) override;
  Result<void> combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                       std::vector<std::vector<std::byte>>& outputs) override;
  Result<GraphId> capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                          const ExpertPayloads& payloads) override;
  Result<void> replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                      std::vector<std::vector<std::byte>>& outputs) override;
  Result<std::vector<std::byte>> read_slice(int rank) override;
  Result<void> poison(std::byte value) override;

  // The pieces of dispatch and combine, for benchmarks: stage copies the inputs to the devices, run_* do the rest.
  Result<void> stage(std::span<const DispatchInput> inputs);
  Result<void> run_dispatch();
  Result<void> run_combine();

 private:
  // One a local place: the kernels of that device, with a box for every rank.
  struct Engine {
    std::unique_ptr<CudaAllToAll> kernels;
    std::vector<std::size_t> local;  // indices into local_ranks()
  };
  struct Transfer {
    bool sends = false;
    std::byte* at = nullptr;
    std::int64_t bytes = 0;
    int peer = 0;
  };
  struct Sizes {
    std::int64_t runtime_max_tokens_per_rank = 0;
    std::int64_t num_tokens = 0;
  };
  struct Baked {
    std::vector<std::int64_t> runtime_max_tokens_per_rank;  // by local rank
    std::int32_t invalid_expert_id = -1;
    ExpertPayloads payloads;
  };
  NcclAllToAll() = default;
  Result<void> set_up(std::span<const int> devices);
  Result<void> check_way() const;
  template <class Call>
  Result<void> on_each_engine(const Call& call);
  Result<void> agreed(const Result<void>& own) const;
  Result<void> exchange_sizes();
  Result<void> check_sizes(std::span<const std::int64_t> rows, std::size_t width) const;
  Result<void> send_rows();
  Result<void> send_sums();
  Result<void> gather_rows();
  Result<void> reduce_sums();
  Result<void> carry(const std::vector<std::vector<Transfer>>& transfers, const char* what);
  Result<void> wait(const char* what);
  Result<void> check_combine(std::span<const std::int64_t> runtime_max_tokens_per_rank) const;
  Result<void> note_arrival(bool in_combine);
  Result<void> read_outputs(std::vector<std::vector<std::byte>>& outputs) const;
  const AllToAllConfig& config(int rank) const { return configs_[static_cast<std::size_t>(rank)]; }
  std::size_t place_of(int rank) const;
  bool takes_part(int rank) const { return (config(rank).active_rank_mask >> rank & 1) != 0; }
  CudaAllToAll& kernels_of(int rank) const;
  std::int64_t combine_rows_bytes(int rank, int source) const;

  std::vector<AllToAllConfig> configs_;  // by rank
  TwoSided way_ = TwoSided::send_recv;
  ProcessGroup* group_ = nullptr;
  std::unique_ptr<NcclCommunicator> communicator_;
  std::vector<Engine> engines_;                    // by local place
  std::vector<Sizes> sizes_;                       // by rank, of the round in progress
  std::vector<std::vector<std::int64_t>> counts_;  // [source][destination] rows of the round in progress
  std::vector<DispatchInput> inputs_;              // sizes only, by local rank
  std::vector<Baked> captures_;
  bool dispatched_ = false;
};

}  // namespace a2asim::gpu
#endif
