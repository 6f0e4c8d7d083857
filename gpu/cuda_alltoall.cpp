#include "gpu/cuda_alltoall.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "gpu/group/process_group.h"
#include "gpu/launch.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

bool takes_part(const AllToAllConfig& config, int rank) { return (config.active_rank_mask >> rank & 1) != 0; }

Result<void> check_alike(std::span<const AllToAllConfig> configs) {
  A2ASIM_INVARIANT(!configs.empty(), "there is a configuration");
  for (std::size_t rank = 0; rank < configs.size(); ++rank) {
    if (auto ok = validate(configs[rank]); !ok) return ok;
    if (configs[rank].ep_size != static_cast<int>(configs.size())) {
      return fail(ErrorKind::bad_input, "rank " + number(static_cast<std::int64_t>(rank)) + " has ep_size " +
                                            number(configs[rank].ep_size) +
                                            "; give one configuration, or ep_size of them");
    }
    if (configs[rank].top_k != configs[0].top_k || configs[rank].combine_type != configs[0].combine_type) {
      return fail(ErrorKind::bad_input,
                  "rank " + number(static_cast<std::int64_t>(rank)) +
                      " differs from rank 0 in top_k or combine_type; the ranks of one launch share them");
    }
  }
  return {};
}

}  // namespace

Result<int> usable_devices() {
  int count = 0;
  if (auto ok = cuda_result(cudaGetDeviceCount(&count), "looking for a device"); !ok) return tl::unexpected(ok.error());
  int usable = 0;
  for (int device = 0; device < count; ++device) {
    int major = 0;
    const int code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (auto ok = cuda_result(code, "reading a device's compute capability"); !ok) return tl::unexpected(ok.error());
    if (major >= 8) ++usable;
  }
  if (usable > 0) return usable;
  return fail(ErrorKind::runtime_error, "CUDA: no device of compute capability 8.0 or up");
}

CudaAllToAll::~CudaAllToAll() {
  for (const Device& device : devices_) {
    cudaSetDevice(device.id);
    cudaStreamSynchronize(device.stream.get());
  }
}

Result<std::unique_ptr<CudaAllToAll>> CudaAllToAll::create(std::span<const AllToAllConfig> configs,
                                                           const CudaOptions& options) {
  std::unique_ptr<CudaAllToAll> made(new CudaAllToAll);
  made->guard_ = options.guard;
  made->timeout_ = options.timeout;
  made->group_ = options.group;
  std::vector<Place> places;
  auto ok = made->check_options(configs, options, places);
  if (ok = made->agreed(ok); !ok) return tl::unexpected(ok.error());
  ok = made->set_up_places(options, places);
  if (ok) ok = made->set_up_devices(options);
  if (ok = made->agreed(ok); !ok) return tl::unexpected(ok.error());
  return made;
}

Result<void> CudaAllToAll::check_options(std::span<const AllToAllConfig> configs, const CudaOptions& options,
                                         std::vector<Place>& places) {
  A2ASIM_INVARIANT(configs_.empty() && places.empty(), "options are checked once");
  if (configs.empty() || options.devices.empty()) {
    return fail(ErrorKind::bad_input, "an all-to-all needs a configuration and a device");
  }
  if (auto ok = usable_devices(); !ok) return tl::unexpected(ok.error());
  configs_.assign(configs.begin(), configs.end());
  if (auto ok = validate(configs[0]); !ok) return ok;
  if (configs.size() == 1) configs_.assign(static_cast<std::size_t>(configs[0].ep_size), configs[0]);
  if (auto ok = check_alike(configs_); !ok) return ok;
  const int world = static_cast<int>(configs_.size());
  for (const int rank : options.local_ranks) {
    if (rank >= 0 && rank < world) continue;
    return fail(ErrorKind::bad_input, "local rank " + number(rank) + " is not in 0.." + number(world - 1));
  }
  auto described = describe_places(options.devices);
  if (!described) return tl::unexpected(described.error());
  places = std::move(*described);
  return {};
}

// Who lives where, and the slices. With a group all processes take the same steps here.
Result<void> CudaAllToAll::set_up_places(const CudaOptions& options, std::span<const Place> own) {
  A2ASIM_INVARIANT(own.size() == options.devices.size(), "every device is a place");
  auto placement = exchange_places(own, group_);
  if (!placement) return tl::unexpected(placement.error());
  placement_ = std::move(*placement);
  std::vector<int> driven = options.local_ranks;
  if (driven.empty()) {
    driven.resize(configs_.size());
    std::iota(driven.begin(), driven.end(), 0);
  }
  for (const int rank : driven) {
    const std::size_t place = placement_.place_of_rank(static_cast<std::size_t>(rank), configs_.size());
    if (placement_.is_local(place)) local_ranks_.push_back(rank);
  }
  std::vector<SymmetricSlices::Slice> wanted;
  for (const AllToAllConfig& config : configs_)
    wanted.push_back({config.workspace_bytes(), config.layout().payload_data});
  auto slices = SymmetricSlices::create(wanted, placement_, options.peer_memory, group_);
  if (!slices) return tl::unexpected(slices.error());
  slices_ = std::move(*slices);
  return {};
}

Result<void> CudaAllToAll::set_up_devices(const CudaOptions& options) {
  A2ASIM_INVARIANT(devices_.empty() && placement_.num_local == options.devices.size(), "every device is a place");
  staging_.resize(local_ranks_.size());
  plans_.resize(local_ranks_.size());
  for (std::size_t place = 0; place < options.devices.size(); ++place) {
    const int id = options.devices[place];
    Device device;
    device.id = id;
    device.local_place = place;
    for (std::size_t local = 0; local < local_ranks_.size(); ++local) {
      if (local_place_of(local_ranks_[local]) == place && is_active(local)) device.local.push_back(local);
    }
    if (auto ok = cuda_result(cudaSetDevice(id), "cudaSetDevice"); !ok) return ok;
    cudaStream_t stream = nullptr;
    if (auto ok = cuda_result(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream"); !ok)
      return ok;
    device.stream.reset(stream);
    auto state = allocate_device(sizeof(DeviceState));
    if (!state) return tl::unexpected(state.error());
    device.state = std::move(*state);
    const DeviceState clean;
    const int code = cudaMemcpy(device.state.get(), &clean, sizeof(clean), cudaMemcpyHostToDevice);
    if (auto ok = cuda_result(code, "clearing the device state"); !ok) return ok;
    devices_.push_back(std::move(device));
  }
  return {};
}

std::size_t CudaAllToAll::local_place_of(int rank) const {
  A2ASIM_INVARIANT(slices_.is_local(rank), "the rank lives here");
  return placement_.place_of_rank(static_cast<std::size_t>(rank), configs_.size()) - placement_.first_local;
}

// What any process met is everybody's: they stay in step, and nobody waits for one that has given up.
Result<void> CudaAllToAll::agreed(const Result<void>& own) { return group_ == nullptr ? own : group_->agree(own); }

const AllToAllConfig& CudaAllToAll::config_of(std::size_t local) const {
  A2ASIM_INVARIANT(local < local_ranks_.size(), "the rank is driven here");
  return configs_[static_cast<std::size_t>(local_ranks_[local])];
}

bool CudaAllToAll::is_active(std::size_t local) const { return takes_part(config_of(local), local_ranks_[local]); }

Result<void> CudaAllToAll::expect(Phase phase, const char* call) const {
  if (phase_ == phase) return {};
  if (phase_ == Phase::broken) {
    return fail(ErrorKind::runtime_error,
                std::string(call) + " after a failure that left the ranks out of step; construct a new all-to-all");
  }
  return fail(
      ErrorKind::assertion_error,
      std::string(call) + (phase_ == Phase::idle ? " before dispatch" : " before combine of the dispatch in progress"));
}

Result<std::vector<RankPlan>> CudaAllToAll::check_inputs(std::span<const DispatchInput> inputs) const {
  A2ASIM_INVARIANT(!configs_.empty(), "there is a configuration");
  if (inputs.size() != local_ranks_.size()) {
    return fail(ErrorKind::bad_input, number(static_cast<std::int64_t>(inputs.size())) + " inputs for " +
                                          number(static_cast<std::int64_t>(local_ranks_.size())) + " local ranks");
  }
  std::vector<RankPlan> plans(inputs.size());
  std::int64_t tokens = 0;
  for (std::size_t local = 0; local < inputs.size(); ++local) {
    if (!is_active(local)) continue;
    auto plan = check_dispatch(config_of(local), local_ranks_[local], inputs[local]);
    if (!plan) return tl::unexpected(plan.error());
    plans[local] = *plan;
    tokens += plan->num_tokens;
  }
  constexpr std::int64_t most_tokens = std::int64_t{1} << 30;  // kernels number the tokens of all local ranks through
  if (tokens > most_tokens) {
    return fail(ErrorKind::bad_input,
                number(tokens) + " tokens in one call; at most " + number(most_tokens) + " are possible");
  }
  return plans;
}

LaunchArgs CudaAllToAll::launch_args(const Device& device, bool for_combine) const {
  A2ASIM_INVARIANT(device.state != nullptr && device.local.size() <= static_cast<std::size_t>(kMaxRanks),
                   "a device has its state and ranks");
  LaunchArgs args;
  args.ep_size = static_cast<std::int32_t>(configs_.size());
  args.guard = guard_ ? 1 : 0;
  args.timeout_ns = std::chrono::nanoseconds(timeout_).count();
  args.state = reinterpret_cast<DeviceState*>(device.state.get());
  std::uint64_t here = 0, awaited = 0;
  std::fill(std::begin(args.local_index), std::end(args.local_index), static_cast<std::int8_t>(-1));
  for (std::size_t rank = 0; rank < configs_.size(); ++rank) {
    args.slices[rank] = slices_.slice(static_cast<int>(rank), device.local_place);
  }
  for (const std::size_t local : device.local) {
    RankArgs& rank = args.ranks[args.num_local_ranks++];
    A2ASIM_INVARIANT(plans_[local].runtime_max_tokens_per_rank <= config_of(local).max_num_tokens,
                     "R stays below the cap");
    rank = rank_args(config_of(local), local_ranks_[local], plans_[local], staging_[local].at);
    if (for_combine) {
      rank.runtime_max_tokens_per_rank = static_cast<std::int32_t>(plans_[local].combine_runtime_max_tokens_per_rank);
    }
    args.first_token[args.num_local_ranks] = args.first_token[args.num_local_ranks - 1] + rank.num_tokens;
    args.local_index[rank.rank] = static_cast<std::int8_t>(args.num_local_ranks - 1);
    here |= std::uint64_t{1} << rank.rank;
    awaited |= rank.active_rank_mask;
  }
  const std::uint64_t world = args.ep_size == kMaxRanks ? ~std::uint64_t{0} : (std::uint64_t{1} << args.ep_size) - 1;
  A2ASIM_INVARIANT((here & ~world) == 0, "local ranks are ranks of the world");
  args.has_remote_ranks = (awaited & world & ~here) != 0 ? 1 : 0;
  args.shares_device = placement_.shares_device(placement_.first_local + device.local_place) ? 1 : 0;
  return args;
}

template <class Launch>
Result<void> CudaAllToAll::on_each_device(const char* what, const Launch& launch) {
  A2ASIM_INVARIANT(!devices_.empty(), "there is a device");
  for (const Device& device : devices_) {
    if (device.local.empty()) continue;
    if (auto ok = cuda_result(cudaSetDevice(device.id), "cudaSetDevice"); !ok) return ok;
    Result<int> code = launch(device);
    if (!code) return tl::unexpected(code.error());
    if (auto ok = cuda_result(*code, what); !ok) return ok;
  }
  return {};
}

// A kernel is loaded at its first use, which may wait for all that run on any device. Where launches wait for each
// other, every device therefore has its kernels before the first one starts.
template <class Load>
Result<void> CudaAllToAll::load_on_each_device(const Load& load) {
  if (devices_.size() < 2 && group_ == nullptr) return {};
  return on_each_device("loading kernels", load);
}

Result<void> CudaAllToAll::enqueue_dispatch() {
  A2ASIM_INVARIANT(plans_.size() == local_ranks_.size(), "every local rank has a plan");
  if (auto ok = load_on_each_device([](const Device&) -> Result<int> { return load_dispatch(); }); !ok) return ok;
  return on_each_device("launching dispatch", [&](const Device& device) -> Result<int> {
    return launch_dispatch(launch_args(device, false), device.stream.get());
  });
}

Result<void> CudaAllToAll::enqueue_sanitize(std::int32_t invalid_expert_id) {
  A2ASIM_INVARIANT(plans_.size() == local_ranks_.size(), "every local rank has a plan");
  return on_each_device("launching sanitize", [&](const Device& device) -> Result<int> {
    const LaunchArgs args = launch_args(device, false);
    SanitizeArgs sanitize;
    sanitize.invalid_expert_id = invalid_expert_id;
    for (std::size_t i = 0; i < device.local.size(); ++i) {
      const AllToAllConfig& config = config_of(device.local[i]);
      const int payload = config.expert_id_payload;
      if (payload < 0 || config.payload_bytes_per_token[static_cast<std::size_t>(payload)] % 4 != 0) {
        return fail(ErrorKind::bad_input, "sanitize needs an expert-id payload of int32 columns");
      }
      sanitize.expert_id_payload[i] = payload;
    }
    return launch_sanitize(args, sanitize, device.stream.get());
  });
}

Result<void> CudaAllToAll::enqueue_experts(const ExpertPayloads& payloads) {
  A2ASIM_INVARIANT(plans_.size() == local_ranks_.size(), "every local rank has a plan");
  return on_each_device("launching experts", [&](const Device& device) -> Result<int> {
    ExpertArgs by_local_rank[kMaxRanks];
    for (std::size_t i = 0; i < device.local.size(); ++i) {
      auto args = expert_args(config_of(device.local[i]), local_ranks_[device.local[i]], payloads);
      if (!args) return tl::unexpected(args.error());
      by_local_rank[i] = *args;
    }
    return launch_experts(launch_args(device, false), by_local_rank, device.stream.get());
  });
}

Result<void> CudaAllToAll::enqueue_combine() {
  A2ASIM_INVARIANT(plans_.size() == local_ranks_.size(), "every local rank has a plan");
  if (configs_[0].combine_type == DataType::opaque) {
    return fail(ErrorKind::bad_input, "opaque rows have no numbers for experts or combine");
  }
  const auto type = static_cast<NumberType>(configs_[0].combine_type);
  const int top_k = configs_[0].top_k;
  auto loaded = load_on_each_device(
      [&](const Device& device) -> Result<int> { return load_combine(launch_args(device, true), type, top_k); });
  if (!loaded) return loaded;
  return on_each_device("launching combine", [&](const Device& device) -> Result<int> {
    return launch_combine(launch_args(device, true), type, top_k, device.stream.get());
  });
}

Result<void> CudaAllToAll::finish() {
  A2ASIM_INVARIANT(!devices_.empty(), "there is something to wait for");
  Result<void> found;
  for (Device& device : devices_) {
    if (auto ok = cuda_result(cudaSetDevice(device.id), "cudaSetDevice"); !ok) return ok;
    if (auto ok = cuda_result(cudaStreamSynchronize(device.stream.get()), "running the all-to-all"); !ok) {
      phase_ = Phase::broken;
      return ok;
    }
    const bool was_broken = phase_ == Phase::broken;
    auto ok = report(device);
    if (ok) continue;
    if (found) {
      found = ok;
    } else if (was_broken && phase_ == Phase::broken) {
      append(found.error(), ok.error());  // who else waits for whom
    }
  }
  return found;
}

Result<void> CudaAllToAll::dispatch(std::span<const DispatchInput> inputs) {
  auto ok = expect(Phase::idle, "dispatch");
  if (ok) ok = stage(inputs);
  if (ok = agreed(ok); !ok) return ok;
  ok = enqueue_dispatch();
  if (ok) ok = finish();
  if (ok = agreed(ok); ok) phase_ = Phase::dispatched;
  return ok;
}

Result<void> CudaAllToAll::sanitize(std::int32_t invalid_expert_id) {
  auto ok = expect(Phase::dispatched, "sanitize");
  if (ok) ok = enqueue_sanitize(invalid_expert_id);
  return ok ? finish() : ok;
}

Result<void> CudaAllToAll::experts(const ExpertPayloads& payloads) {
  auto ok = expect(Phase::dispatched, "experts");
  if (ok) ok = enqueue_experts(payloads);
  return ok ? finish() : ok;
}

Result<void> CudaAllToAll::combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                                   std::vector<std::vector<std::byte>>& outputs) {
  auto ok = expect(Phase::dispatched, "combine");
  if (ok) ok = plan_combine(runtime_max_tokens_per_rank);
  if (ok = agreed(ok); !ok) return ok;
  ok = enqueue_combine();
  if (ok) ok = finish();
  ok = agreed(ok);
  if (phase_ != Phase::broken) phase_ = Phase::idle;
  return ok ? read_outputs(outputs) : ok;
}

Result<void> CudaAllToAll::plan_combine(std::span<const std::int64_t> runtime_max_tokens_per_rank) {
  A2ASIM_INVARIANT(phase_ == Phase::dispatched, "combine follows dispatch");
  if (runtime_max_tokens_per_rank.size() != local_ranks_.size()) {
    return fail(ErrorKind::bad_input, "combine needs one runtime_max_tokens_per_rank for each local rank");
  }
  for (std::size_t local = 0; local < local_ranks_.size(); ++local) {
    if (!is_active(local)) continue;
    const std::int64_t runtime_max = runtime_max_tokens_per_rank[local];
    if (auto ok = check_combine(config_of(local), local_ranks_[local], runtime_max); !ok) return ok;
    plans_[local].combine_runtime_max_tokens_per_rank = runtime_max;
  }
  return {};
}

}  // namespace a2asim::gpu
