// The NCCL communicator with one NCCL rank a device and local ranks folded in.
#if defined(A2ASIM_HAS_NCCL)
#include "gpu/nccl_communicator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>

#include "gpu/cuda_alltoall.h"
#include "tests/main/skip.h"

namespace a2asim::test {
namespace {

TEST_CASE("all_gather gives every rank's row in rank order") {
  const auto usable = gpu::usable_devices();
  if (!usable) {
    skip(usable.error().message);
    return;
  }
  for (const int world : {1, 3, 8, 64}) {
    std::vector<int> devices;
    for (int d = 0; d < std::min(*usable, world); ++d) devices.push_back(d);
    auto made = gpu::NcclCommunicator::create(world, devices);
    REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().message));
    REQUIRE((*made)->local_ranks().size() == static_cast<std::size_t>(world));
    for (const int width : {1, 6, 40}) {
      std::vector<std::int64_t> rows;
      for (int i = 0; i < world * width; ++i) rows.push_back((std::int64_t{1} << 40) + 7 * i - 3);
      auto seen = (*made)->all_gather(rows, width);
      REQUIRE_MESSAGE(seen.has_value(), (seen ? std::string() : seen.error().message));
      CHECK(*seen == rows);
    }
    CHECK_FALSE((*made)->all_gather(std::vector<std::int64_t>(static_cast<std::size_t>(world)), 2).has_value());
  }
  CHECK_FALSE(gpu::NcclCommunicator::create(2, std::vector<int>{0, 0}).has_value());
}

}  // namespace
}  // namespace a2asim::test
#endif
