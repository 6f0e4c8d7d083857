// GPUs by name: what engines take from the device when a command does not say it.
#pragma once

#include <string_view>

#include "model/base/result.h"

namespace a2asim {

struct Gpu {
  std::string_view name;
  double memory_gib;  // as the driver reports it
};

// Either case, "NVIDIA H200" too. Errors: bad_input, with the names there are.
Result<Gpu> find_gpu(std::string_view name);

}  // namespace a2asim
