// AllToAll of model/alltoall/alltoall.h on CUDA devices: the open-this-first file of gpu/.
//
// All ranks of one process are driven together: one launch a device serves the ranks that live there, on one stream a
// device. Ranks are spread over options.devices, with options.group over the devices of all processes, in equal
// consecutive blocks; with one device all share it. Results are the simulator's, byte for byte: slots in token order,
// the same reduction order.
//
// With a group every process makes the same calls; dispatch, combine, capture and replay fail in all of them if they
// fail in one, with what each of them found.
//
// Differences from FlashInfer: input that cannot be right is refused before anything is written (rank_plan.h); every
// wait ends after options.timeout with an error that says who waits for whom; and with options.guard each rank's R,
// max_num_tokens and payload bytes travel with its completion flag, so that ranks that disagree get an error naming
// both of them. Without the guard they get what FlashInfer gives them: misplaced, stale or garbage rows.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "gpu/rank_plan.h"
#include "gpu/symmetric_slices.h"
#include "model/alltoall/alltoall.h"

namespace a2asim::gpu {

struct CudaOptions {
  // Of this process. A device named twice counts as two: separate launches that meet by flags.
  std::vector<int> devices = {0};
  // Ranks that anybody drives; empty: all. This process drives those of them that live on its devices. Others are peers
  // that nobody drives (a missing rank).
  std::vector<int> local_ranks;
  ProcessGroup* group = nullptr;  // the other processes; must outlive the all-to-all
  PeerMemory peer_memory = PeerMemory::automatic;
  bool guard = true;
  std::chrono::milliseconds timeout{10'000};
};

// Number of usable devices (compute capability 8.0 and up), or why there is none: no driver, no device.
Result<int> usable_devices();

class CudaAllToAll final : public AllToAll {
 public:
  // configs: one for all ranks, or one a rank of the world.
  static Result<std::unique_ptr<CudaAllToAll>> create(std::span<const AllToAllConfig> configs,
                                                      const CudaOptions& options = {});
  ~CudaAllToAll() override;

  using AllToAll::combine;
  std::string_view backend() const override { return "cuda"; }
  std::span<const int> local_ranks() const override { return local_ranks_; }
  Capabilities capabilities() const override { return capabilities_of(guard_); }
  static Capabilities capabilities_of(bool guard) {
    return guard ? Capabilities::all().without(Capability::unequal_r) : Capabilities::all().without(Capability::guard);
  }
  Result<void> dispatch(std::span<const DispatchInput> inputs) override;
  Result<void> sanitize(std::int32_t invalid_expert_id) override;
  Result<void> experts(const ExpertPayloads& payloads) override;
  Result<void> give_results(int rank, std::span<const std::byte> rows) override;
  Result<void> combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                       std::vector<std::vector<std::byte>>& outputs) override;
  Result<GraphId> capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                          const ExpertPayloads& payloads) override;
  Result<void> replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                      std::vector<std::vector<std::byte>>& outputs) override;
  Result<std::vector<std::byte>> read_slice(int rank) override;
  SliceView slice_view(int rank) const override;
  Result<void> poison(std::byte value) override;

  // FlashInfer's rank mask, the same on every rank from the next dispatch on: see AllToAllConfig::active_rank_mask.
  void set_active_rank_mask(std::uint64_t mask);

  // Nothing outside the slices was written: an error names the first rank behind whose slice something was.
  Result<void> check_red_zones() const { return slices_.check_red_zones(); }

  // The pieces of the calls above, for benchmarks: stage copies the inputs to the devices and keeps their plans;
  // enqueue_* only launch, with what was staged last; finish waits and reports what the kernels found.
  Result<void> stage(std::span<const DispatchInput> inputs);
  Result<void> enqueue_dispatch();
  Result<void> enqueue_sanitize(std::int32_t invalid_expert_id);
  Result<void> enqueue_experts(const ExpertPayloads& payloads);
  Result<void> enqueue_combine();
  Result<void> finish();
  Result<void> read_outputs(std::vector<std::vector<std::byte>>& outputs) const;
  // How the devices reach each other's memory, in words.
  const std::string& peer_memory() const { return slices_.region().words(); }
  int world_size() const { return static_cast<int>(configs_.size()); }
  bool is_home_of(int rank) const { return slices_.is_local(rank); }
  Stream stream(int device_index) const { return devices_[static_cast<std::size_t>(device_index)].stream.get(); }

 private:
  struct Device {
    int id = 0;
    std::size_t local_place = 0;
    std::vector<std::size_t> local;  // indices into local_ranks_ of the active ranks that live here
    OwnedStream stream;
    DeviceMemory state;  // DeviceState
  };
  struct Staging {
    DeviceMemory memory;
    std::int64_t capacity_tokens = 0;
    StagedRank at;
  };
  struct Capture {
    std::vector<RankPlan> plans;  // by local rank
    std::int32_t invalid_expert_id = -1;
    ExpertPayloads payloads;
  };
  enum class Phase { idle, dispatched, broken };

  CudaAllToAll() = default;
  Result<void> check_options(std::span<const AllToAllConfig> configs, const CudaOptions& options,
                             std::vector<Place>& places);
  Result<void> set_up_places(const CudaOptions& options, std::span<const Place> own);
  Result<void> set_up_devices(const CudaOptions& options);
  Result<void> agreed(const Result<void>& own);
  const AllToAllConfig& config_of(std::size_t local) const;
  bool is_active(std::size_t local) const;
  std::size_t local_place_of(int rank) const;  // of a rank that lives here: index into devices_
  int device_of(int rank) const { return devices_[local_place_of(rank)].id; }
  Result<void> expect(Phase phase, const char* call) const;
  Result<std::vector<RankPlan>> check_inputs(std::span<const DispatchInput> inputs) const;
  Result<void> reserve_staging(std::size_t local, std::int64_t tokens);
  Result<void> stage_rank(std::size_t local, const DispatchInput& input);
  Result<void> plan_combine(std::span<const std::int64_t> runtime_max_tokens_per_rank);
  Result<void> poison_own(std::byte value);
  LaunchArgs launch_args(const Device& device, bool for_combine) const;
  Result<void> enqueue_sequence(std::int32_t invalid_expert_id, const ExpertPayloads& payloads);
  Result<std::vector<OwnedGraphExec>> record_graphs(const Capture& record);
  Result<void> capture_own(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                           const ExpertPayloads& payloads);
  Result<void> prepare_graphs(const std::vector<GraphId>& ids, const Capture& record);
  Result<void> launch_graphs(const std::vector<GraphId>& ids);
  Result<void> prepare_replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs);
  Result<std::vector<RankPlan>> replay_plans(std::span<const GraphId> graphs,
                                             std::span<const DispatchInput> inputs) const;
  // What the kernels of a device left in its DeviceState, as an error; clears it.
  Result<void> report(Device& device);
  Error timeout_error(const Device& device, const DeviceState& state) const;
  Error guard_error(const Device& device, const DeviceState& state) const;
  Error bad_expert_error(const Device& device, const DeviceState& state) const;
  template <class Launch>
  Result<void> on_each_device(const char* what, const Launch& launch);
  template <class Load>
  Result<void> load_on_each_device(const Load& load);

  std::vector<AllToAllConfig> configs_;  // by rank
  std::vector<int> local_ranks_;
  Placement placement_;
  ProcessGroup* group_ = nullptr;
  bool guard_ = true;
  std::chrono::milliseconds timeout_{0};
  SymmetricSlices slices_;
  std::vector<Device> devices_;
  std::vector<Staging> staging_;  // by local rank
  std::vector<RankPlan> plans_;   // by local rank, of the inputs staged last
  Phase phase_ = Phase::idle;
  std::vector<Capture> captures_;                                       // by GraphId
  std::map<std::vector<GraphId>, std::vector<OwnedGraphExec>> graphs_;  // by what each rank replays; one a device
};

}  // namespace a2asim::gpu
