// TCP sockets that never wait longer than they may.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "model/base/result.h"

namespace a2asim::gpu {

using Deadline = std::chrono::steady_clock::time_point;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

  enum class End { done, left, late };  // left: the other side closed; late: the deadline came first
  End send_all(const void* from, std::size_t bytes, Deadline deadline) const;
  // What is there now, at most `bytes`: how much it is, 0 for nothing yet. Nothing: the other side has left.
  std::optional<std::size_t> receive_now(void* to, std::size_t bytes) const;
  End receive_all(void* to, std::size_t bytes, Deadline deadline) const;

 private:
  int release();
  int descriptor_ = -1;
};

// Errors are one line, without who asked. A name that is not looked up by the deadline is an error.
Result<Socket> listen_on(const std::string& address, int port, Deadline deadline);
// Tries again until the deadline: the other side may not listen yet.
Result<Socket> connect_to(const std::string& address, int port, Deadline deadline);
// Empty socket: nobody came until the deadline.
Result<Socket> accept_from(const Socket& listener, Deadline deadline);

}  // namespace a2asim::gpu
