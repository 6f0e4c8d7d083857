// Where the ranks live: places are the devices of all processes, process by process; ranks are spread over them in
// equal consecutive blocks. And which way a place's memory can be reached from the others.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/result.h"

namespace a2asim::gpu {

class ProcessGroup;

enum class PeerMemory { automatic, nccl, peer, ipc };
std::string_view name(PeerMemory kind);  // "auto", "nccl", "peer", "ipc"
Result<PeerMemory> parse_peer_memory(const std::string& text);

// A device of a process. Plain bytes: it travels between processes.
struct Place {
  int process = 0;
  int device = 0;                  // CUDA ordinal in that process
  std::array<char, 64> host = {};  // of the process; 0-terminated
  std::array<char, 32> bus = {};   // PCI address: the same for everybody on that host
};

struct Placement {
  std::vector<Place> places;
  std::size_t first_local = 0;  // of this process's places
  std::size_t num_local = 0;
  int process = 0;
  int num_processes = 1;

  std::size_t place_of_rank(std::size_t rank, std::size_t world) const { return rank * places.size() / world; }
  bool shares_device(std::size_t place) const;  // with another place
  bool is_local(std::size_t place) const { return place >= first_local && place < first_local + num_local; }
};

// own: this process's places; group may be null: a process of its own.
Result<Placement> exchange_places(std::span<const Place> own, ProcessGroup* group);

// The ways to be tried, best first; one where a kind is asked for. An error says why there is none.
Result<std::vector<PeerMemory>> possible_ways(const Placement& placement, PeerMemory wanted, bool has_nccl);

}  // namespace a2asim::gpu
