// The backends that a person can name: `sim`, `cuda`, or the path of a plug-in.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "tools/backends/plugin_alltoall.h"

namespace a2asim {

struct CudaDeviceOptions {
  std::int64_t ranks_per_gpu = 0;  // of one launch; 0: the ranks are shared out to all GPUs, a launch each
  int gpus = 0;                    // the first so many; 0: all
  std::string peer_memory = "auto";
  std::chrono::milliseconds short_timeout{300};
  std::chrono::seconds join_timeout{30};         // for the other processes, where this is one of several
  std::function<void(const std::string&)> note;  // how the GPUs reach each other, told once
};

struct CudaDevices {
  MakeDevice make;
  bool reports = true;  // of several processes the first one does
};

// Launches go round the devices; where there are more launches than devices, several share one and meet by flags.
// Started by torchrun, mpirun or srun this is one of several processes: all make the same calls with the same inputs,
// and each drives the ranks on its GPUs. Errors are bad_input: built without CUDA, no device, a process is missing.
Result<CudaDevices> cuda_devices(const CudaDeviceOptions& options);

inline constexpr std::int64_t kUsualTimeout_ms = 10'000;  // of a wait that should not be in vain

struct BackendOptions {
  CudaDeviceOptions cuda;
  PluginLimits limits;
};

struct Backend {
  std::string name;
  Capabilities capabilities;
  bool reports = true;  // of several processes the first one does
  std::shared_ptr<PluginSession> session;
  std::int64_t short_timeout_ms = 0;

  Result<std::unique_ptr<PluginAllToAll>> create(const DeviceRequest& request) const;
  MakeDevice make_device() const;
};

// Errors are bad_input: there is no such backend here, or its plug-in cannot be used.
Result<Backend> find_backend(const std::string& name, const BackendOptions& options);

}  // namespace a2asim
