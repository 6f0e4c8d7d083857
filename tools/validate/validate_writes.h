// Who wrote which bytes of whose slice in one dispatch: what decides whether two backends may differ there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster/cluster_mirror.h"

namespace a2asim {

class DispatchWrites {
 public:
  // By model/alltoall/routing.h and model/alltoall/workspace.h alone; payload spans must outlive this. slots: by rank,
  // [T, top_k]; empty: in token order.
  DispatchWrites(const MirroredLayer& layer, const std::vector<std::vector<std::int32_t>>& slots);

  // Several rows were written to this byte of the slice, and one of them has this value.
  bool may_be(int slice, std::int64_t at_bytes, std::byte value) const;
  // A rank's rows lie over entries of another's top-k tables that combine will read: a peer with another cap did that.
  // Hardware takes its addresses from there.
  bool hits_tables(const MirroredLayer& layer) const;

 private:
  struct Write {
    std::int64_t begin = 0;
    std::span<const std::byte> bytes;
  };
  std::vector<std::vector<Write>> by_slice_;  // sorted by begin
  std::int64_t longest_ = 0;
};

}  // namespace a2asim
