// Who the suite of sim/conformance/ runs over here: the simulator always, the CUDA backend where it was built.
#pragma once

#include <array>
#include <string_view>

#include "sim/conformance/suite.h"

namespace a2asim::conformance {

// Several GPUs only where there could be some, so that a build without CUDA does not list them.
#ifdef A2ASIM_HAS_CUDA
inline constexpr std::array<std::string_view, 5> kSubjects = {"sim", "cuda", "cuda 2 GPUs", "cuda 4 GPUs",
                                                              "cuda 8 GPUs"};
#else
inline constexpr std::array<std::string_view, 2> kSubjects = {"sim", "cuda"};
#endif

// gpus: 0 for one launch of all ranks on one GPU, or on each process's GPUs where there are several processes.
Result<std::unique_ptr<Dispatcher>> make_cuda(const std::vector<AllToAllConfig>& configs, bool guard, int gpus);

}  // namespace a2asim::conformance
