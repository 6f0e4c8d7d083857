// The scheduler's all-gather of counts, simulated: rows of absent ranks are missed by everybody, by name.
#pragma once

#include <cstdint>
#include <vector>

#include "model/alltoall/alltoall.h"

namespace a2asim {

class SimCommunicator final : public Communicator {
 public:
  explicit SimCommunicator(int world_size);

  std::span<const int> local_ranks() const override { return local_ranks_; }
  // Error where a rank is absent: all others wait for it.
  Result<std::vector<std::int64_t>> all_gather(std::span<const std::int64_t> rows, int width) override;
  // Bit r: rank r does not call.
  void set_absent(std::uint64_t ranks) { absent_ = ranks; }

 private:
  std::vector<int> local_ranks_;
  std::uint64_t absent_ = 0;
};

}  // namespace a2asim
