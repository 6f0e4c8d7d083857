#include "gpu/group/placement.h"

#include <cstring>

#include "gpu/group/process_group.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

bool same_host(const Place& a, const Place& b) { return a.host == b.host; }
bool same_device(const Place& a, const Place& b) { return same_host(a, b) && a.bus == b.bus; }

std::string of(const Place& place) {
  return "device " + std::to_string(place.device) + " of process " + std::to_string(place.process);
}

// Why this way is not possible; empty: it is.
std::string obstacle(const Placement& placement, PeerMemory way, bool has_nccl) {
  A2ASIM_INVARIANT(!placement.places.empty(), "there are places to reach");
  const std::vector<Place>& places = placement.places;
  if (way == PeerMemory::peer && placement.num_processes > 1) return "peer access works inside one process only";
  if (way == PeerMemory::ipc && placement.num_processes == 1) return "IPC works between processes only";
  if (way == PeerMemory::nccl && !has_nccl) return "this program was built without NCCL";
  for (std::size_t a = 0; a < places.size(); ++a) {
    if (way == PeerMemory::ipc && !same_host(places[0], places[a])) {
      return "IPC works inside one host only, and process " + std::to_string(places[a].process) + " runs on another";
    }
    for (std::size_t b = 0; way == PeerMemory::nccl && b < a; ++b) {
      if (!same_device(places[b], places[a])) continue;
      return "NCCL takes a GPU once, and " + of(places[b]) + " is " + of(places[a]);
    }
  }
  return "";
}

}  // namespace

std::string_view name(PeerMemory kind) {
  constexpr std::string_view names[] = {"auto", "nccl", "peer", "ipc"};
  A2ASIM_INVARIANT(static_cast<std::size_t>(kind) < std::size(names), "every way has a name");
  return names[static_cast<std::size_t>(kind)];
}

Result<PeerMemory> parse_peer_memory(const std::string& text) {
  for (const PeerMemory kind : {PeerMemory::automatic, PeerMemory::nccl, PeerMemory::peer, PeerMemory::ipc}) {
    if (text == name(kind)) return kind;
  }
  return fail(ErrorKind::bad_input, "peer memory '" + text + "' is unknown; give auto, nccl, peer or ipc");
}

bool Placement::shares_device(std::size_t place) const {
  A2ASIM_INVARIANT(place < places.size(), "the place is there");
  for (std::size_t other = 0; other < places.size(); ++other) {
    if (other != place && same_device(places[other], places[place])) return true;
  }
  return false;
}

Result<Placement> exchange_places(std::span<const Place> own, ProcessGroup* group) {
  Placement placement;
  placement.num_local = own.size();
  if (group == nullptr) {
    placement.places.assign(own.begin(), own.end());
    return placement;
  }
  placement.process = group->rank();
  placement.num_processes = group->size();
  const auto all = group->all_gather(std::string(reinterpret_cast<const char*>(own.data()), own.size_bytes()));
  if (!all) return tl::unexpected(all.error());
  for (std::size_t process = 0; process < all->size(); ++process) {
    const std::string& bytes = (*all)[process];
    if (bytes.size() % sizeof(Place) != 0) {
      return fail(ErrorKind::runtime_error,
                  "process " + std::to_string(process) + " runs another build of this program");
    }
    if (static_cast<int>(process) == group->rank()) placement.first_local = placement.places.size();
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(Place)) {
      Place place;
      std::memcpy(&place, bytes.data() + at, sizeof place);
      place.host.back() = place.bus.back() = '\0';
      place.process = static_cast<int>(process);
      placement.places.push_back(place);
    }
  }
  A2ASIM_INVARIANT(placement.first_local + placement.num_local <= placement.places.size(), "own places are among all");
  return placement;
}

Result<std::vector<PeerMemory>> possible_ways(const Placement& placement, PeerMemory wanted, bool has_nccl) {
  A2ASIM_INVARIANT(placement.num_processes >= 1, "there is a process");
  if (wanted != PeerMemory::automatic) {
    const std::string why_not = obstacle(placement, wanted, has_nccl);
    if (why_not.empty()) return std::vector<PeerMemory>{wanted};
    return fail(ErrorKind::bad_input, "peer memory " + std::string(name(wanted)) + " is not possible here: " + why_not);
  }
  // One device, in one process: nothing has to be reached.
  if (placement.num_processes == 1 && placement.places.size() == 1) return std::vector<PeerMemory>{PeerMemory::peer};
  std::vector<PeerMemory> ways;
  std::string why_not;
  for (const PeerMemory way : {PeerMemory::nccl, PeerMemory::peer, PeerMemory::ipc}) {
    const std::string obstacle_here = obstacle(placement, way, has_nccl);
    if (obstacle_here.empty())
      ways.push_back(way);
    else
      why_not += (why_not.empty() ? "" : "; ") + obstacle_here;
  }
  if (ways.empty()) return fail(ErrorKind::bad_input, "no way to reach the other places' memory: " + why_not);
  return ways;
}

}  // namespace a2asim::gpu
