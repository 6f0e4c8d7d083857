// Joins the CUDA backend to the conformance suite where it was built.
#ifdef A2ASIM_HAS_CUDA
#include <utility>

#include "gpu/cuda_alltoall.h"
#include "tests/conformance/backend.h"

namespace a2asim::conformance {
namespace {

Result<std::unique_ptr<AllToAll>> make_cuda(const std::vector<AllToAllConfig>& configs, bool guard) {
  if (const auto devices = gpu::usable_devices(); !devices) {
    return fail(devices.error().kind, "SKIPPED: " + devices.error().message);
  }
  gpu::CudaOptions options;
  options.guard = guard;
  auto made = gpu::CudaAllToAll::create(configs, options);
  if (!made) return tl::unexpected(made.error());
  return std::unique_ptr<AllToAll>(std::move(*made));
}

[[maybe_unused]] const bool registered = add_backend({"cuda", make_cuda});

}  // namespace
}  // namespace a2asim::conformance
#endif
