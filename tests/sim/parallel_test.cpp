// Threads at one list of work: what they throw arrives, and memory is shared.
#include "sim/alltoall/parallel.h"

#include <doctest/doctest.h>

#include <new>

#include "sim/cluster/memory_share.h"

namespace a2asim {
namespace {

TEST_CASE("workers: what any of them throws is thrown where they were started, after all have ended") {
  for (const int threads : {1, 4}) {
    WorkList list(100);
    std::atomic<int> done = 0;
    const auto work = [&] {
      while (const auto taken = list.take()) {
        if (*taken == 7) throw std::bad_alloc();
        ++done;
      }
    };
    CHECK_THROWS_AS(run_workers(threads, 100, work), std::bad_alloc);
    CHECK(done == (threads == 1 ? 7 : 99));
  }
}

TEST_CASE("memory: shares together stay within the limit, and one alone is always given") {
  std::atomic<std::int64_t> taken = 0, most = 0;
  WorkList list(64);
  run_workers(8, 64, [&] {
    while (const auto index = list.take()) {
      const std::int64_t bytes = kMaxMemory_bytes / 3;
      const MemoryShare share(bytes);
      const std::int64_t now = taken += bytes;
      for (std::int64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      taken -= bytes;
    }
  });
  CHECK(most <= kMaxMemory_bytes);
  CHECK(most > kMaxMemory_bytes / 2);
  const MemoryShare large(kMaxMemory_bytes * 2);
}

}  // namespace
}  // namespace a2asim
