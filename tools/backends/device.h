// A backend under test: what `a2asim validate` and `a2asim conformance` make and drive.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/base/rank_mask.h"

namespace a2asim {

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual AllToAll& all_to_all() = 0;
  virtual void set_active_rank_mask(RankMask mask) = 0;
  virtual Result<void> check_red_zones() = 0;

 protected:
  Device() = default;
};

struct DeviceRequest {
  std::vector<AllToAllConfig> configs;  // one a rank
  bool guard = true;
  std::vector<int> local_ranks;  // empty: all; the others never call
  bool short_timeout = false;    // a wait is expected to end in vain
};
using MakeDevice = std::function<Result<std::unique_ptr<Device>>(const DeviceRequest& request)>;

}  // namespace a2asim
