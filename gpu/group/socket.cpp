#include "gpu/group/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// Waits for one of these events; false: the deadline came first.
bool wait_for(int descriptor, short events, Deadline deadline) {
  A2ASIM_INVARIANT(descriptor >= 0 && events != 0, "an open socket is waited for");
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd one{descriptor, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000)));
    if (ready > 0) return true;
    if (ready == 0 && left <= 0) return false;
    if (ready < 0 && errno != EINTR) return true;  // the call that follows says what is wrong
  }
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> look_up(const std::string& address, int port, int flags) {
  A2ASIM_INVARIANT(port >= 0 && port <= 65535, "a port was checked");
  addrinfo hints = {};
  hints.ai_flags = flags;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0) return fail(ErrorKind::runtime_error, gai_strerror(code));
  return Addresses(list);
}

// getaddrinfo waits for name servers as long as resolv.conf says. So a name, unlike a number, is looked up by a thread
// of its own, which is left behind when it comes too late.
Result<Addresses> resolve(const std::string& address, int port, Deadline deadline) {
  if (auto numeric = look_up(address, port, AI_NUMERICHOST)) return numeric;
  if (Clock::now() >= deadline) return fail(ErrorKind::runtime_error, "no time to look up the name");
  std::promise<Result<Addresses>> promise;
  auto found = promise.get_future();
  try {
    std::thread([address, port, promise = std::move(promise)]() mutable {
      promise.set_value(look_up(address, port, 0));
    }).detach();
  } catch (const std::system_error&) {
    return fail(ErrorKind::runtime_error, "the system gives no thread to look up the name; give a number");
  }
  if (found.wait_until(deadline) == std::future_status::ready) return found.get();
  return fail(ErrorKind::runtime_error, "no name server answered");
}

Result<Socket> system_error() { return fail(ErrorKind::runtime_error, std::strerror(errno)); }

Socket open_socket(const addrinfo& at) {
  Socket made(socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at.ai_protocol));
  const int on = 1;  // small messages, each of which somebody waits for
  if (made) setsockopt(made.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

Result<Socket> connect_once(const addrinfo& at, Deadline deadline) {
  A2ASIM_INVARIANT(at.ai_addr != nullptr, "an address was found");
  Socket made = open_socket(at);
  if (!made) return system_error();
  if (connect(made.descriptor(), at.ai_addr, at.ai_addrlen) == 0) return made;
  if (errno != EINPROGRESS) return system_error();
  if (!wait_for(made.descriptor(), POLLOUT, deadline)) return fail(ErrorKind::runtime_error, "no answer");
  int code = 0;
  socklen_t size = sizeof code;
  getsockopt(made.descriptor(), SOL_SOCKET, SO_ERROR, &code, &size);
  if (code != 0) return fail(ErrorKind::runtime_error, std::strerror(code));
  return made;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = other.release();
  }
  return *this;
}

int Socket::release() { return std::exchange(descriptor_, -1); }

Socket::End Socket::send_all(const void* from, std::size_t bytes, Deadline deadline) const {
  A2ASIM_INVARIANT(descriptor_ >= 0 && (from != nullptr || bytes == 0), "an open socket sends bytes");
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t sent = send(descriptor_, at, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      bytes -= static_cast<std::size_t>(sent);
    } else if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!wait_for(descriptor_, POLLOUT, deadline)) return End::late;
    } else {
      return End::left;
    }
  }
  return End::done;
}

std::optional<std::size_t> Socket::receive_now(void* to, std::size_t bytes) const {
  A2ASIM_INVARIANT(descriptor_ >= 0 && to != nullptr && bytes > 0, "an open socket takes bytes");
  const ssize_t received = recv(descriptor_, to, bytes, MSG_DONTWAIT);
  if (received > 0) return static_cast<std::size_t>(received);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return std::nullopt;
}

Socket::End Socket::receive_all(void* to, std::size_t bytes, Deadline deadline) const {
  A2ASIM_INVARIANT(descriptor_ >= 0 && (to != nullptr || bytes == 0), "an open socket takes bytes");
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t received = recv(descriptor_, at, bytes, 0);
    if (received > 0) {
      at += received;
      bytes -= static_cast<std::size_t>(received);
    } else if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!wait_for(descriptor_, POLLIN, deadline)) return End::late;
    } else {
      return End::left;
    }
  }
  return End::done;
}

Result<Socket> listen_on(const std::string& address, int port, Deadline deadline) {
  const auto addresses = resolve(address, port, deadline);
  if (!addresses) return tl::unexpected(addresses.error());
  Result<Socket> made = fail(ErrorKind::runtime_error, "no address");
  for (const addrinfo* at = addresses->get(); at != nullptr; at = at->ai_next) {
    Socket one = open_socket(*at);
    if (!one) continue;
    const int on = 1;  // a job that starts right after another one
    setsockopt(one.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(one.descriptor(), at->ai_addr, at->ai_addrlen) == 0 && listen(one.descriptor(), SOMAXCONN) == 0) {
      return one;
    }
    made = system_error();
  }
  return made;
}

Result<Socket> connect_to(const std::string& address, int port, Deadline deadline) {
  constexpr std::chrono::milliseconds between_tries{20};
  for (;;) {
    const auto addresses = resolve(address, port, deadline);
    Result<Socket> made = fail(ErrorKind::runtime_error, addresses ? "no address" : addresses.error().message);
    for (const addrinfo* at = addresses ? addresses->get() : nullptr; at != nullptr; at = at->ai_next) {
      made = connect_once(*at, deadline);
      if (made) return made;
    }
    if (Clock::now() + between_tries > deadline) return made;
    std::this_thread::sleep_for(between_tries);
  }
}

Result<Socket> accept_from(const Socket& listener, Deadline deadline) {
  A2ASIM_INVARIANT(listener.descriptor() >= 0, "an open socket listens");
  while (wait_for(listener.descriptor(), POLLIN, deadline)) {
    const int descriptor = accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor >= 0) {
      const int on = 1;
      setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return Socket(descriptor);
    }
    const bool gone_again = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (!gone_again) return system_error();
  }
  return Socket();
}

}  // namespace a2asim::gpu
