#include "sim/alltoall/sim_communicator.h"

#include <fmt/format.h>

#include <numeric>

namespace a2asim {

SimCommunicator::SimCommunicator(int world_size) : local_ranks_(static_cast<std::size_t>(world_size)) {
  std::iota(local_ranks_.begin(), local_ranks_.end(), 0);
}

Result<std::vector<std::int64_t>> SimCommunicator::all_gather(std::span<const std::int64_t> rows, int width) {
  const std::size_t world = local_ranks_.size();
  if (width < 1 || rows.size() != world * static_cast<std::size_t>(width)) {
    return fail(ErrorKind::bad_input,
                fmt::format("all_gather: {} numbers for {} ranks of width {}; give width >= 1 and one row a rank",
                            rows.size(), world, width));
  }
  for (std::size_t r = 0; r < world; ++r) {
    if ((absent_ >> r & 1) != 0) {
      return fail(ErrorKind::runtime_error,
                  fmt::format("all_gather: the other {} ranks wait for rank {}", world - 1, r));
    }
  }
  return std::vector<std::int64_t>(rows.begin(), rows.end());
}

}  // namespace a2asim
