// What all clusters of this process may take together, so that several threads stay within the limit of one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace a2asim {

inline constexpr std::int64_t kMaxMemory_bytes = std::int64_t{8} << 30;  // of all slices at numeric fidelity

class MemoryShare {
 public:
  // Waits until so much is free. No thread may hold one share and ask for another; one alone is given at once.
  explicit MemoryShare(std::int64_t bytes) : bytes_(bytes) {
    std::unique_lock lock(all().mutex);
    all().given_back.wait(lock, [bytes] { return all().taken == 0 || all().taken <= kMaxMemory_bytes - bytes; });
    all().taken += bytes_;
  }
  ~MemoryShare() {
    {
      const std::lock_guard lock(all().mutex);
      all().taken -= bytes_;
    }
    all().given_back.notify_all();
  }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

 private:
  struct All {
    std::mutex mutex;
    std::condition_variable given_back;
    std::int64_t taken = 0;
  };
  static All& all() {
    static All one;
    return one;
  }

  std::int64_t bytes_;
};

}  // namespace a2asim
