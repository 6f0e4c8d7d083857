// The CUDA backend as the device of a validation.
#include "tools/validate.h"

#ifdef A2ASIM_HAS_CUDA
#include <fmt/format.h>

#include "gpu/cuda_alltoall.h"
#endif

namespace a2asim {

#ifdef A2ASIM_HAS_CUDA

namespace {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::unique_ptr<gpu::CudaAllToAll> made) : made_(std::move(made)) {}
  AllToAll& all_to_all() override { return *made_; }
  void set_active_rank_mask(std::uint64_t mask) override { made_->set_active_rank_mask(mask); }
  Result<void> check_red_zones() override { return made_->check_red_zones(); }

 private:
  std::unique_ptr<gpu::CudaAllToAll> made_;
};

}  // namespace

Result<MakeDevice> cuda_devices(std::int64_t ranks_per_gpu, std::chrono::milliseconds short_timeout) {
  const Result<int> count = gpu::usable_devices();
  if (!count) return fail(ErrorKind::bad_input, fmt::format("no device to run on: {}", count.error().message));
  return [devices = *count, ranks_per_gpu,
          short_timeout](const DeviceRequest& request) -> Result<std::unique_ptr<Device>> {
    gpu::CudaOptions options;
    options.guard = request.guard;
    options.local_ranks = request.local_ranks;
    if (request.short_timeout) options.timeout = short_timeout;
    const auto ranks = static_cast<std::int64_t>(request.configs.size());
    const std::int64_t launches = ranks_per_gpu == 0 ? 1 : (ranks + ranks_per_gpu - 1) / ranks_per_gpu;
    options.devices.clear();
    for (std::int64_t i = 0; i < launches; ++i) options.devices.push_back(static_cast<int>(i % devices));
    auto made = gpu::CudaAllToAll::create(request.configs, options);
    if (!made) return tl::unexpected(made.error());
    return std::make_unique<CudaDevice>(std::move(*made));
  };
}

#else

Result<MakeDevice> cuda_devices(std::int64_t, std::chrono::milliseconds) {
  return fail(
      ErrorKind::bad_input,
      "this program was built without the CUDA backend: configure with -DA2ASIM_CUDA=ON where a CUDA toolkit is");
}

#endif

}  // namespace a2asim
