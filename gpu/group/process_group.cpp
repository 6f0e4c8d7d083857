#include "gpu/group/process_group.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "gpu/group/messages.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMostGuests = 64;  // who have connected and not said who they are
constexpr std::chrono::seconds kGuestTime{2};

std::string seconds(std::chrono::milliseconds limit) {
  const auto tenths = (limit.count() + 50) / 100;
  return std::to_string(tenths / 10) + (tenths % 10 != 0 ? "." + std::to_string(tenths % 10) : "") + " s";
}

std::string process(int rank) { return "process " + std::to_string(rank); }

}  // namespace

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
  body.clear();
  while (body.size() < frame.bytes) {  // memory is taken as bytes arrive, whatever was announced
    const std::size_t before = body.size();
    body.resize(before + std::min<std::uint64_t>(frame.bytes - before, kChunkBytes));
    const auto part = from.receive_all(body.data() + before, body.size() - before, deadline);
    if (part != Socket::End::done) return part;
  }
  return Socket::End::done;
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
  made->place_.token.resize(std::min(place.token.size(), kMostTokenBytes));
  made->limit_ = limit;
  auto ok = place.size == 1 ? Result<void>() : place.rank == 0 ? made->meet_at_process_0() : made->go_to_process_0();
  if (!ok) return tl::unexpected(ok.error());
  return made;
}

// Somebody who has connected, and what it has said so far.
struct ProcessGroup::Guest {
  Socket socket;
  Deadline until;
  std::string said = {};
  Hello hello = {};
};

// A greeting is one message: number, number of processes, token. Nothing is kept ready for more.
Greeting ProcessGroup::hear(Guest& guest) const {
  A2ASIM_INVARIANT(place_.rank == 0, "process 0 greets");
  char buffer[kMostGreetingBytes];
  const auto received = guest.socket.receive_now(buffer, greeting_bytes(place_.token) - guest.said.size());
  if (!received) return Greeting::foreign;
  guest.said.append(buffer, *received);
  return read_greeting(guest.said, place_.token, guest.hello);
}

// Of one who knows the token. The error: why the run cannot begin.
Result<void> ProcessGroup::let_in(Guest guest) {
  const auto [rank, size] = guest.hello;
  A2ASIM_INVARIANT(std::ssize(peers_) == place_.size, "every process has a place");
  std::string refused;
  if (size != place_.size || rank <= 0 || rank >= place_.size) {
    refused = "process 0 was started as 0 of " + std::to_string(place_.size) + ", another as " + std::to_string(rank) +
              " of " + std::to_string(size) + "; start all of them with the same number of processes";
  } else if (peers_[static_cast<std::size_t>(rank)]) {
    refused = "two processes say that they are number " + std::to_string(rank) +
              "; is another run using this port? set MASTER_PORT, or A2ASIM_GROUP_TOKEN to a word of each run's own";
  }
  if (refused.empty()) {
    peers_[static_cast<std::size_t>(rank)] = std::move(guest.socket);
    return {};
  }
  send(guest.socket, kFailure, refused, Clock::now() + std::chrono::seconds(1));
  return fail(ErrorKind::runtime_error, refused);
}

// Until somebody knocks, says something, or has had its time.
void ProcessGroup::wait_for_guests(const Socket& listener, const std::vector<Guest>& guests, Deadline deadline) const {
  std::vector<pollfd> polled = {{listener.descriptor(), POLLIN, 0}};
  A2ASIM_INVARIANT(guests.size() <= kMostGuests, "guests are few");
  Deadline until = deadline;
  for (const Guest& guest : guests) {
    polled.push_back({guest.socket.descriptor(), POLLIN, 0});
    until = std::min(until, guest.until);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  static_cast<void>(poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000))));
}

// Greets all who come side by side, so that who says nothing holds nobody up.
Result<void> ProcessGroup::meet(const Socket& listener, const std::string& where, Deadline deadline) {
  std::vector<Guest> guests;
  A2ASIM_INVARIANT(place_.rank == 0, "processes meet at process 0");
  for (;;) {
    std::vector<int> absent;
    for (int r = 1; r < place_.size; ++r)
      if (!peers_[static_cast<std::size_t>(r)]) absent.push_back(r);
    if (absent.empty()) return {};
    if (Clock::now() >= deadline)
      return tl::unexpected(broken("after " + seconds(limit_) + " at " + where + " these have not come: " +
                                   missing(absent) + "; are they started, with the same MASTER_ADDR and MASTER_PORT?"));
    wait_for_guests(listener, guests, deadline);
    auto socket = accept_from(listener, Clock::now());
    if (!socket) return tl::unexpected(broken("process 0 at " + where + ": " + socket.error().message));
    if (*socket && guests.size() == kMostGuests) guests.erase(guests.begin());
    if (*socket) guests.push_back({std::move(*socket), Clock::now() + kGuestTime});
    std::vector<Guest> still;
    for (Guest& guest : guests) {
      const Greeting greeting = hear(guest);
      if (greeting == Greeting::introduced) {
        if (auto ok = let_in(std::move(guest)); !ok) return tl::unexpected(broken(ok.error().message));
      } else if (greeting == Greeting::incomplete && Clock::now() < guest.until) {
        still.push_back(std::move(guest));
      }
    }
    guests = std::move(still);
  }
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
  if (auto met = meet(*listener, where, deadline); !met) return met;
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
  const std::string greeting = greeting_of({place_.rank, place_.size}, place_.token);
  peers_[0].send_all(greeting.data(), greeting.size(), deadline);
  std::uint64_t kind = 0, call = 0;
  std::string body;
  // Process 0 knows who is missing: it is given the time to say so.
  const auto end = receive(peers_[0], kind, call, body, deadline + std::chrono::seconds(2), kMostReplyBytes);
  if (end == Socket::End::done && kind == kWelcome) return {};
  if (end == Socket::End::done && kind == kFailure) return fail(ErrorKind::runtime_error, body);
  return fail(ErrorKind::runtime_error,
              "process 0 at " + where +
                  (end == Socket::End::late
                       ? " did not answer within " + seconds(limit_)
                       : std::string(" left before the run began, or is of another run (A2ASIM_GROUP_TOKEN)")));
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
