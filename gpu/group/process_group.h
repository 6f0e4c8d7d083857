// The processes of one run: they meet over TCP at process 0, and exchange small messages through it.
//
// Who comes to the meeting says its number and the run's token (launch_environment.h). Others, be they port scanners or
// processes of another run, are sent away, and neither end the meeting nor hold it up.
//
// Every call is made by all processes in the same order. Every wait ends: at the limit, or as soon as a process is seen
// to have ended. Then all of them get an error that names the processes that are missing, at this and every later call.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "gpu/group/launch_environment.h"
#include "gpu/group/socket.h"
#include "model/base/result.h"

namespace a2asim::gpu {

enum class Greeting : std::uint8_t;

class ProcessGroup {
 public:
  // Returns when all are there. limit: for this and for every later exchange.
  static Result<std::unique_ptr<ProcessGroup>> join(const ProcessPlace& place, std::chrono::milliseconds limit);

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  const ProcessPlace& place() const { return place_; }

  // What every process gave, by process.
  Result<std::vector<std::string>> all_gather(const std::string& own);
  template <class T>
  Result<std::vector<T>> all_gather_value(const T& own);
  Result<void> barrier();
  // A failure of any process is a failure of all: the distinct messages, in the order of processes.
  Result<void> agree(const Result<void>& own);

 private:
  static constexpr std::uint64_t kMostReplyBytes = std::uint64_t{1} << 16;  // to a greeting
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 34;  // of one message
  ProcessGroup() = default;
  Result<void> meet_at_process_0();
  struct Guest;
  Greeting hear(Guest& guest) const;
  Result<void> let_in(Guest guest);
  void wait_for_guests(const Socket& listener, const std::vector<Guest>& guests, Deadline deadline) const;
  Result<void> meet(const Socket& listener, const std::string& where, Deadline deadline);
  Result<void> go_to_process_0();
  Result<std::vector<std::string>> gather_here(const std::string& own);
  Result<std::string> ask_process_0(const std::string& own);
  Error broken(std::string message);
  Socket::End send(const Socket& to, std::uint64_t kind, const std::string& body, Deadline deadline) const;
  Socket::End receive(const Socket& from, std::uint64_t& kind, std::uint64_t& call, std::string& body,
                      Deadline deadline, std::uint64_t most_bytes = kMostBytes) const;
  std::string missing(const std::vector<int>& processes) const;

  ProcessPlace place_;
  std::chrono::milliseconds limit_{0};
  std::vector<Socket> peers_;  // process 0: by process, its own empty; others: process 0's
  std::uint64_t call_ = 0;     // number of the exchange, the same everywhere
  Result<void> state_;         // the first failure stays
};

template <class T>
Result<std::vector<T>> ProcessGroup::all_gather_value(const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto all = all_gather(std::string(reinterpret_cast<const char*>(&own), sizeof own));
  if (!all) return tl::unexpected(all.error());
  std::vector<T> values(all->size());
  for (std::size_t i = 0; i < all->size(); ++i) {
    if ((*all)[i].size() != sizeof(T)) {
      return fail(ErrorKind::runtime_error, "process " + std::to_string(i) + " runs another build of this program");
    }
    std::memcpy(&values[i], (*all)[i].data(), sizeof(T));
  }
  return values;
}

}  // namespace a2asim::gpu
