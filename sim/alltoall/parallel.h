// Several threads at one list of work.
//
// Results must not depend on who took what: each piece of work writes to a place of its own, and places are read after
// run_workers returned, in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace a2asim {

// The indices 0 .. count - 1, in this order, each handed out once to whoever asks next.
class WorkList {
 public:
  explicit WorkList(std::size_t count) : count_(count) {}
  std::optional<std::size_t> take() {
    const std::size_t index = next_.fetch_add(1);
    return index < count_ ? std::optional(index) : std::nullopt;
  }

 private:
  std::size_t count_;
  std::atomic<std::size_t> next_ = 0;
};

// Runs worker() in this thread and up to threads - 1 more, at most one a piece of work; returns when all ended. Where
// the system gives no more threads, fewer do the work. What a worker throws is thrown here.
template <class Worker>
void run_workers(int threads, std::size_t pieces, const Worker& worker) {
  std::exception_ptr thrown;
  std::mutex mutex;
  const auto guarded = [&] {
    try {
      worker();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(threads, 1)), pieces);
    try {
      for (std::size_t i = 1; i < wanted; ++i) helpers.emplace_back(guarded);
    } catch (const std::exception&) {  // no thread, or no memory for one
    }
    guarded();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace a2asim
