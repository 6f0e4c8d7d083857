// Ranks on places, the ways to reach a place's memory, and the exchange of what stands for it.
#include "gpu/group/placement.h"

#include <doctest/doctest.h>

#include <cstring>
#include <thread>

#include "gpu/group/process_group.h"
#include "tests/group/free_port.h"

namespace a2asim::gpu {
namespace {

Place at(int process, int device, const char* host, const char* bus) {
  Place place{process, device, {}, {}};
  std::strncpy(place.host.data(), host, place.host.size() - 1);
  std::strncpy(place.bus.data(), bus, place.bus.size() - 1);
  return place;
}

Placement placement(std::vector<Place> places, int processes) {
  Placement made;
  made.places = std::move(places);
  made.num_processes = processes;
  return made;
}

std::vector<PeerMemory> ways(const Placement& of, PeerMemory wanted = PeerMemory::automatic, bool has_nccl = true) {
  const auto found = possible_ways(of, wanted, has_nccl);
  return found.value_or(std::vector<PeerMemory>{});
}

std::string obstacle(const Placement& of, PeerMemory wanted, bool has_nccl = true) {
  const auto found = possible_ways(of, wanted, has_nccl);
  return found ? "" : found.error().message;
}

TEST_CASE("group: ranks lie in equal consecutive blocks on the places of all processes") {
  const Placement three = placement(std::vector<Place>(3), 2);
  std::vector<std::size_t> found;
  for (std::size_t rank = 0; rank < 8; ++rank) found.push_back(three.place_of_rank(rank, 8));
  CHECK(found == std::vector<std::size_t>{0, 0, 0, 1, 1, 1, 2, 2});
  CHECK(three.place_of_rank(0, 1) == 0);  // more places than ranks
}

TEST_CASE("group: places that share a device are on one host and one bus") {
  const Placement all = placement({at(0, 0, "a", "1"), at(0, 1, "a", "2"), at(1, 0, "a", "1"), at(2, 0, "b", "2")}, 3);
  std::vector<bool> shared;
  for (std::size_t place = 0; place < 4; ++place) shared.push_back(all.shares_device(place));
  CHECK(shared == std::vector<bool>{true, false, true, false});
}

TEST_CASE("group: the way to a place's memory") {
  using enum PeerMemory;
  const Placement one = placement({at(0, 0, "a", "1")}, 1);
  const Placement two = placement({at(0, 0, "a", "1"), at(0, 1, "a", "2")}, 1);
  const Placement twice = placement({at(0, 0, "a", "1"), at(0, 0, "a", "1")}, 1);
  const Placement apart = placement({at(0, 0, "a", "1"), at(1, 0, "a", "2")}, 2);
  const Placement shared = placement({at(0, 0, "a", "1"), at(1, 0, "a", "1")}, 2);
  const Placement hosts = placement({at(0, 0, "a", "1"), at(1, 0, "b", "1")}, 2);
  CHECK(ways(one) == std::vector<PeerMemory>{peer});
  CHECK(ways(two) == std::vector<PeerMemory>{nccl, peer});
  CHECK(ways(two, automatic, false) == std::vector<PeerMemory>{peer});
  CHECK(ways(twice) == std::vector<PeerMemory>{peer});
  CHECK(ways(apart) == std::vector<PeerMemory>{nccl, ipc});
  CHECK(ways(shared) == std::vector<PeerMemory>{ipc});
  CHECK(ways(hosts) == std::vector<PeerMemory>{nccl});
  for (const PeerMemory way : {nccl, peer}) CHECK(ways(two, way) == std::vector<PeerMemory>{way});
  CHECK(ways(one, nccl) == std::vector<PeerMemory>{nccl});

  CHECK(obstacle(apart, peer).find("inside one process only") != std::string::npos);
  CHECK(obstacle(two, ipc).find("between processes only") != std::string::npos);
  CHECK(obstacle(hosts, ipc).find("process 1 runs on another") != std::string::npos);
  CHECK(obstacle(two, nccl, false).find("built without NCCL") != std::string::npos);
  CHECK(obstacle(shared, nccl).find("device 0 of process 0 is device 0 of process 1") != std::string::npos);
  CHECK(obstacle(hosts, automatic, false).find("no way") != std::string::npos);

  for (const PeerMemory way : {automatic, nccl, peer, ipc}) CHECK(*parse_peer_memory(std::string(name(way))) == way);
  CHECK_FALSE(parse_peer_memory("nvlink").has_value());
}

// What each of three processes with 2, 0 and 1 devices sees, and handles in the order of places.
TEST_CASE("group: places and handles go round") {
  const int port = test::free_port();
  const std::vector<std::vector<Place>> own = {{at(0, 4, "a", "1"), at(0, 5, "a", "2")}, {}, {at(0, 0, "a", "3")}};
  std::vector<Placement> seen(3);
  std::vector<std::string> handles(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      const auto group =
          ProcessGroup::join({rank, 3, rank, 3, "127.0.0.1", port, "test"}, std::chrono::milliseconds(100'000));
      if (!group) return;
      const auto placed = exchange_places(own[r], group->get());
      if (!placed) return;
      seen[r] = *placed;
      std::string mine;
      for (const Place& place : own[r]) mine += "handle of " + std::string(place.bus.data()) + ";";
      const auto all = (*group)->all_gather(mine);
      for (std::size_t i = 0; all && i < all->size(); ++i) handles[r] += (*all)[i];
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::size_t first[] = {0, 2, 2}, count[] = {2, 0, 1};
  for (std::size_t r = 0; r < 3; ++r) {
    CAPTURE(r);
    REQUIRE(seen[r].places.size() == 3);
    CHECK(seen[r].num_processes == 3);
    CHECK(seen[r].process == static_cast<int>(r));
    CHECK(seen[r].first_local == first[r]);
    CHECK(seen[r].num_local == count[r]);
    CHECK(seen[r].places[1].device == 5);
    CHECK(seen[r].places[2].process == 2);
    CHECK(std::string(seen[r].places[2].bus.data()) == "3");
    CHECK(handles[r] == "handle of 1;handle of 2;handle of 3;");
  }
}

}  // namespace
}  // namespace a2asim::gpu
