#include "gpu/group/process_group.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMagic = 0x6132617369'6d3031;  // "a2asim01"
enum Kind : std::uint64_t { kHello, kWelcome, kData, kFailure };

std::string seconds(std::chrono::milliseconds limit) {
  const auto tenths = (limit.count() + 50) / 100;
  return std::to_string(tenths / 10) + (tenths % 10 != 0 ? "." + std::to_string(tenths % 10) : "") + " s";
}

std::string process(int rank) { return "process " + std::to_string(rank); }

// Length-prefixed pieces in one body.
std::string pack(const std::vector<std::string>& pieces) {
  std::string body;
  for (const std::string& piece : pieces) {
    const std::uint64_t size = piece.size();
    body.append(reinterpret_cast<const char*>(&size), sizeof size);
    body += piece;
  }
  return body;
}

std::vector<std::string> unpack(const std::string& body) {
  std::vector<std::string> pieces;
  std::size_t at = 0;
  std::uint64_t size = 0;
  while (at + sizeof size <= body.size()) {
    std::memcpy(&size, body.data() + at, sizeof size);
    at += sizeof size;
    if (size > body.size() - at) return {};
    pieces.push_back(body.substr(at, size));
    at += size;
  }
  return pieces;
}

struct Hello {
  std::int32_t rank = 0, size = 0;
};

// The kind, the number of facts, the facts, the message.
std::string pack_error(const Error& error) {
  const std::uint64_t head[] = {static_cast<std::uint64_t>(error.kind), error.facts.size()};
  return std::string(reinterpret_cast<const char*>(head), sizeof head) +
         std::string(reinterpret_cast<const char*>(error.facts.data()), error.facts.size() * sizeof(ErrorFact)) +
         error.message;
}

Error unpack_error(const std::string& text) {
  std::uint64_t head[2] = {};
  if (text.size() < sizeof head) return {ErrorKind::runtime_error, "a process sent an error that cannot be read"};
  std::memcpy(head, text.data(), sizeof head);
  const std::uint64_t most = (text.size() - sizeof head) / sizeof(ErrorFact);
  Error error{static_cast<ErrorKind>(head[0]), "", std::vector<ErrorFact>(std::min(head[1], most))};
  const std::size_t bytes = error.facts.size() * sizeof(ErrorFact);
  std::memcpy(error.facts.data(), text.data() + sizeof head, bytes);
  error.message = text.substr(sizeof head + bytes);
  return error;
}

}  // namespace

struct ProcessGroup::Frame {
  std::uint64_t magic = kMagic;
  std::uint64_t kind = 0;
  std::uint64_t call = 0;
  std::uint64_t bytes = 0;
};

Socket::End ProcessGroup::send(const Socket& to, std::uint64_t kind, const std::string& body, Deadline deadline) const {
  const Frame frame{kMagic, kind, call_, body.size()};
  A2ASIM_INVARIANT(static_cast<bool>(to), "a message goes to somebody");
  const auto end = to.send_all(&frame, sizeof frame, deadline);
  return end == Socket::End::done ? to.send_all(body.data(), body.size(), deadline) : end;
}

// Somebody who speaks otherwise, or announces more than most_bytes, counts as having left.
Socket::End ProcessGroup::receive(const Socket& from, std::uint64_t& kind, std::uint64_t& call, std::string& body,
                                  Deadline deadline, std::uint64_t most_bytes) const {
  A2ASIM_INVARIANT(static_cast<bool>(from), "a message comes from somebody");
  Frame frame;
  const auto end = from.receive_all(&frame, sizeof frame, deadline);
  if (end != Socket::End::done) return end;
  if (frame.magic != kMagic || frame.bytes > most_bytes) return Socket::End::left;
  kind = frame.kind;
  call = frame.call;
  body.resize(frame.bytes);
  return from.receive_all(body.data(), body.size(), deadline);
}

std::string ProcessGroup::missing(const std::vector<int>& processes) const {
  A2ASIM_INVARIANT(!processes.empty(), "somebody is missing");
  std::string text = processes.size() == 1 ? "process " : "processes ";
  for (std::size_t i = 0; i < processes.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(processes[i]);
  return text + " of " + std::to_string(place_.size);
}

// Process 0 tells the others, so that they need not wait for the limit.
Error ProcessGroup::broken(std::string message) {
  state_ = fail(ErrorKind::runtime_error, std::move(message));
  const auto soon = Clock::now() + std::chrono::seconds(1);
  for (const Socket& peer : peers_) {
    if (peer && place_.rank == 0) send(peer, kFailure, state_.error().message, soon);
  }
  return state_.error();
}

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::join(const ProcessPlace& place, std::chrono::milliseconds limit) {
  std::unique_ptr<ProcessGroup> made(new ProcessGroup);
  A2ASIM_INVARIANT(place.size >= 1 && place.rank >= 0 && place.rank < place.size, "a process is one of several");
  made->place_ = place;
  made->limit_ = limit;
  auto ok = place.size == 1 ? Result<void>() : place.rank == 0 ? made->meet_at_process_0() : made->go_to_process_0();
  if (!ok) return tl::unexpected(ok.error());
  return made;
}

// A connection that does not introduce itself is dropped: a port may be looked at by anybody. `refused`: why the run
// cannot begin.
Result<void> ProcessGroup::greet(Socket socket, std::string& refused) {
  A2ASIM_INVARIANT(place_.rank == 0 && refused.empty(), "process 0 greets");
  std::uint64_t kind = 0, call = 0;
  std::string body;
  Hello hello;
  const auto end = receive(socket, kind, call, body, Clock::now() + std::chrono::seconds(2), sizeof hello);
  if (end != Socket::End::done || kind != kHello || body.size() != sizeof hello) return {};
  std::memcpy(&hello, body.data(), sizeof hello);
  const bool in_range = hello.rank > 0 && hello.rank < place_.size;
  if (hello.size != place_.size || !in_range) {
    refused = "process 0 was started as 0 of " + std::to_string(place_.size) + ", another as " +
              std::to_string(hello.rank) + " of " + std::to_string(hello.size) +
              "; start all of them with the same number of processes";
  } else if (peers_[static_cast<std::size_t>(hello.rank)]) {
    refused = "two processes say that they are number " + std::to_string(hello.rank) +
              "; is another run using this port? set MASTER_PORT";
  }
  if (!refused.empty()) {
    send(socket, kFailure, refused, Clock::now() + std::chrono::seconds(1));
    return fail(ErrorKind::runtime_error, refused);
  }
  peers_[static_cast<std::size_t>(hello.rank)] = std::move(socket);
  return {};
}

Result<void> ProcessGroup::meet_at_process_0() {
  A2ASIM_INVARIANT(place_.rank == 0 && peers_.empty(), "processes meet once");
  const auto deadline = Clock::now() + limit_;
  const std::string where = place_.master_address + ":" + std::to_string(place_.master_port);
  const auto listener = listen_on(place_.master_address, place_.master_port, deadline);
  if (!listener) {
    return fail(ErrorKind::runtime_error, "process 0 cannot listen on " + where + ": " + listener.error().message +
                                              "; set MASTER_ADDR to its own host and MASTER_PORT to a free port");
  }
  peers_.resize(static_cast<std::size_t>(place_.size));
  const auto absent = [&] {
    std::vector<int> ranks;
    for (int r = 1; r < place_.size; ++r) {
      if (!peers_[static_cast<std::size_t>(r)]) ranks.push_back(r);
    }
    return ranks;
  };
  while (!absent().empty()) {
    auto socket = accept_from(*listener, deadline);
    if (!socket) return tl::unexpected(broken("process 0 at " + where + ": " + socket.error().message));
    if (!*socket) {
      return tl::unexpected(broken("after " + seconds(limit_) + " at " + where +
                                   " these have not come: " + missing(absent()) +
                                   "; are they started, with the same MASTER_ADDR and MASTER_PORT?"));
    }
    std::string refused;
    if (auto ok = greet(std::move(*socket), refused); !ok) return tl::unexpected(broken(refused));
  }
  for (int r = 1; r < place_.size; ++r) {
    if (send(peers_[static_cast<std::size_t>(r)], kWelcome, "", deadline) != Socket::End::done)
      return tl::unexpected(broken(process(r) + " left before the run began"));
  }
  return {};
}

Result<void> ProcessGroup::go_to_process_0() {
  A2ASIM_INVARIANT(place_.rank > 0 && peers_.empty(), "processes meet once");
  const auto deadline = Clock::now() + limit_;
  const std::string where = place_.master_address + ":" + std::to_string(place_.master_port);
  auto socket = connect_to(place_.master_address, place_.master_port, deadline);
  if (!socket) {
    return fail(ErrorKind::runtime_error, process(place_.rank) + " cannot reach process 0 at " + where + " within " +
                                              seconds(limit_) + ": " + socket.error().message +
                                              "; is it started, and are MASTER_ADDR and MASTER_PORT right?");
  }
  peers_.push_back(std::move(*socket));
  const Hello hello{place_.rank, place_.size};
  send(peers_[0], kHello, std::string(reinterpret_cast<const char*>(&hello), sizeof hello), deadline);
  std::uint64_t kind = 0, call = 0;
  std::string body;
  // Process 0 knows who is missing: it is given the time to say so.
  const auto end = receive(peers_[0], kind, call, body, deadline + std::chrono::seconds(2));
  if (end == Socket::End::done && kind == kWelcome) return {};
  if (end == Socket::End::done && kind == kFailure) return fail(ErrorKind::runtime_error, body);
  return fail(ErrorKind::runtime_error, "process 0 at " + where +
                                            (end == Socket::End::late ? " did not answer within " + seconds(limit_)
                                                                      : std::string(" left before the run began")));
}

Result<std::vector<std::string>> ProcessGroup::gather_here(const std::string& own) {
  A2ASIM_INVARIANT(place_.rank == 0 && std::ssize(peers_) == place_.size, "process 0 knows all others");
  const auto deadline = Clock::now() + limit_;
  std::vector<std::string> all(peers_.size());
  all[0] = own;
  std::vector<int> waiting;
  for (int r = 1; r < place_.size; ++r) waiting.push_back(r);
  while (!waiting.empty()) {
    std::vector<pollfd> polled;
    for (const int r : waiting) polled.push_back({peers_[static_cast<std::size_t>(r)].descriptor(), POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000)));
    if (ready <= 0 && left > 0) continue;
    if (ready <= 0) {
      return tl::unexpected(broken(missing(waiting) + " did not come to a common step within " + seconds(limit_)));
    }
    std::vector<int> still;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      const auto r = static_cast<std::size_t>(waiting[i]);
      if (polled[i].revents == 0) {
        still.push_back(waiting[i]);
        continue;
      }
      std::uint64_t kind = 0, call = 0;
      const auto end = receive(peers_[r], kind, call, all[r], deadline);
      if (end != Socket::End::done) {
        peers_[r] = Socket();
        return tl::unexpected(broken(process(waiting[i]) + " has left: it ended or was killed"));
      }
      if (kind != kData || call != call_) {
        return tl::unexpected(broken("the processes are out of step: " + process(waiting[i]) + " is at exchange " +
                                     std::to_string(call) + ", process 0 at " + std::to_string(call_)));
      }
    }
    waiting = std::move(still);
  }
  const std::string body = pack(all);
  for (int r = 1; r < place_.size; ++r) {
    if (send(peers_[static_cast<std::size_t>(r)], kData, body, deadline) == Socket::End::done) continue;
    peers_[static_cast<std::size_t>(r)] = Socket();
    return tl::unexpected(broken(process(r) + " has left: it ended or was killed"));
  }
  return all;
}

Result<std::string> ProcessGroup::ask_process_0(const std::string& own) {
  A2ASIM_INVARIANT(place_.rank > 0 && peers_.size() == 1, "others know process 0");
  const auto deadline = Clock::now() + limit_ + std::chrono::seconds(2);  // process 0 knows more: it speaks first
  std::uint64_t kind = 0, call = 0;
  std::string body;
  send(peers_[0], kData, own, deadline);  // where process 0 has failed it has said why before it left
  const auto end = receive(peers_[0], kind, call, body, deadline);
  if (end == Socket::End::done && kind == kFailure) return tl::unexpected(broken(body));
  if (end == Socket::End::left) return tl::unexpected(broken("process 0 has left: it ended or was killed"));
  if (end == Socket::End::late)
    return tl::unexpected(broken("process 0 did not come to a common step within " + seconds(limit_)));
  return body;
}

Result<std::vector<std::string>> ProcessGroup::all_gather(const std::string& own) {
  if (!state_) return tl::unexpected(state_.error());
  ++call_;
  if (place_.size == 1) return std::vector<std::string>{own};
  A2ASIM_INVARIANT(!peers_.empty(), "processes have met");
  if (place_.rank == 0) return gather_here(own);
  const auto body = ask_process_0(own);
  if (!body) return tl::unexpected(body.error());
  auto all = unpack(*body);
  if (all.size() == static_cast<std::size_t>(place_.size)) return all;
  return tl::unexpected(broken("process 0 sent something else than the contributions of all processes"));
}

Result<void> ProcessGroup::barrier() {
  const auto all = all_gather("");
  if (!all) return tl::unexpected(all.error());
  return {};
}

Result<void> ProcessGroup::agree(const Result<void>& own) {
  const auto all = all_gather(own ? "" : pack_error(own.error()));
  if (!all) return tl::unexpected(own ? all.error() : own.error());
  std::vector<std::string> distinct;
  for (const std::string& one : *all) {
    if (!one.empty() && std::find(distinct.begin(), distinct.end(), one) == distinct.end()) distinct.push_back(one);
  }
  if (distinct.empty()) return {};
  Error joined = unpack_error(distinct[0]);
  for (std::size_t i = 1; i < distinct.size(); ++i) append(joined, unpack_error(distinct[i]));
  return tl::unexpected(std::move(joined));
}

}  // namespace a2asim::gpu
