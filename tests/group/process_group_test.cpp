// Processes meet over TCP: threads stand for processes, and real ones where one of them is to be killed.
#include "gpu/group/process_group.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <latch>
#include <thread>

#include "gpu/group/messages.h"
#include "tests/group/free_port.h"

namespace a2asim::gpu {
namespace {

using std::chrono::milliseconds;

using test::free_port;

constexpr milliseconds kLong{100'000};  // no test waits for it: a busy machine may let a process come late

ProcessPlace place(int rank, int size, int port) { return {rank, size, rank, size, "127.0.0.1", port, "test"}; }

// The error of each of these processes, or what it did.
std::vector<std::string> run(const std::vector<int>& ranks, int size, milliseconds limit,
                             const std::function<std::string(ProcessGroup&)>& body, int port = free_port()) {
  std::vector<std::string> said(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto group = ProcessGroup::join(place(ranks[i], size, port), limit);
      said[i] = group ? body(**group) : "join: " + group.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("group: every process sees what all gave, in their order") {
  const auto said = run({0, 1, 2}, 3, kLong, [](ProcessGroup& group) {
    std::string seen;
    for (int round = 0; round < 20; ++round) {
      // Sizes differ, nothing at all among them, and one piece is larger than a socket's buffers.
      const auto bytes = static_cast<std::size_t>(group.rank() == 1 ? 3'000'000 * (round % 2) : round * group.rank());
      const std::string own(bytes, static_cast<char>('a' + group.rank()));
      const auto all = group.all_gather(own);
      if (!all) return all.error().message;
      seen.clear();
      for (const std::string& one : *all)
        seen += std::to_string(one.size()) + (one.empty() ? "" : one.substr(0, 1)) + " ";
    }
    const auto values = group.all_gather_value(100 + group.rank());
    if (!values || *values != std::vector<int>{100, 101, 102}) return std::string("other values");
    const auto ok = group.barrier();
    return ok ? seen : ok.error().message;
  });
  for (const std::string& one : said) CHECK(one == "0 3000000b 38c ");
}

TEST_CASE("group: a failure of one is everybody's, and they stay in step") {
  const auto said = run({0, 1, 2}, 3, kLong, [](ProcessGroup& group) {
    const Result<void> own = group.rank() == 0   ? Result<void>()
                             : group.rank() == 1 ? Result<void>(fail(ErrorKind::assertion_error, "one"))
                                                 : Result<void>(fail(ErrorKind::bad_input, "two"));
    const auto all = group.agree(own);
    const auto same = group.agree(fail(ErrorKind::bad_input, "alike"));
    const auto none = group.agree({});
    return (all ? "none" : all.error().message) + "|" + std::string(all ? "" : name(all.error().kind)) + "|" +
           (same ? "none" : same.error().message) + "|" + (none ? "fine" : none.error().message);
  });
  for (const std::string& one : said) CHECK(one == "one; two|AssertionError|alike|fine");
}

TEST_CASE("group: what a failure says in numbers reaches everybody") {
  const auto said = run({0, 1}, 2, kLong, [](ProcessGroup& group) {
    const Error own{ErrorKind::runtime_error, "late", {ErrorFact{group.rank(), 7}, ErrorFact{group.rank(), -1}}};
    const auto all = group.agree(tl::unexpected(own));
    std::string seen = all ? "" : all.error().message;
    for (const ErrorFact& fact : all.error().facts) seen += fmt::format("|{} {}", fact[0], fact[1]);
    return seen;
  });
  for (const std::string& one : said) CHECK(one == "late; late|0 7|0 -1|1 7|1 -1");
}

TEST_CASE("group: who does not come is named by all who did, within the limit") {
  const auto start = std::chrono::steady_clock::now();
  const auto said = run({0, 2}, 4, milliseconds(2'000), [](ProcessGroup&) { return std::string("joined"); });
  const auto taken = std::chrono::steady_clock::now() - start;
  for (const std::string& one : said) {
    CHECK(has(one, "join: after 2 s at 127.0.0.1:"));
    CHECK(has(one, "these have not come: processes 1, 3 of 4"));
  }
  CHECK(taken >= milliseconds(1'990));  // poll rounds down
  CHECK(taken < milliseconds(30'000));
}

TEST_CASE("group: nobody listens at process 0's place") {
  const auto said = run({1}, 2, milliseconds(200), [](ProcessGroup&) { return std::string("joined"); });
  CHECK(has(said[0], "join: process 1 cannot reach process 0 at 127.0.0.1:"));
  CHECK(has(said[0], "within 0.2 s: Connection refused"));
}

TEST_CASE("group: a port that is taken, and an address that is none") {
  const int port = free_port();
  const auto soon = std::chrono::steady_clock::now() + kLong;
  const auto taken = listen_on("127.0.0.1", port, soon);
  REQUIRE(taken.has_value());
  const auto group = ProcessGroup::join(place(0, 2, port), milliseconds(200));
  REQUIRE_FALSE(group.has_value());
  CHECK(has(group.error().message, "cannot listen on 127.0.0.1:"));
  CHECK(has(group.error().message, "MASTER_PORT"));
  ProcessPlace nowhere = place(1, 2, port);
  nowhere.master_address = std::string(300, 'x');  // no name server is asked for so long a name
  CHECK_FALSE(ProcessGroup::join(nowhere, milliseconds(100)).has_value());
}

TEST_CASE("group: a name is looked up until the deadline, a number without any wait") {
  const auto now = std::chrono::steady_clock::now();
  CHECK(listen_on("localhost", free_port(), now + milliseconds(60'000)).has_value());
  CHECK(listen_on("127.0.0.1", free_port(), now).has_value());
  const auto late = listen_on("localhost", free_port(), now);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().message == "no time to look up the name");
}

TEST_CASE("group: other sizes and numbers that exist twice are told apart") {
  const int port = free_port();
  std::string other;
  std::thread stranger([&] {
    const auto group = ProcessGroup::join(place(1, 3, port), kLong);
    other = group ? "joined" : group.error().message;
  });
  const auto said = run(
      {0}, 2, kLong, [](ProcessGroup&) { return std::string("joined"); }, port);
  stranger.join();
  CHECK(has(said[0], "process 0 was started as 0 of 2, another as 1 of 3"));
  CHECK(other == said[0].substr(6));

  const auto twice = run({0, 1, 1}, 3, kLong, [](ProcessGroup&) { return std::string("joined"); });
  for (const std::string& one : twice) CHECK(has(one, "two processes say that they are number 1"));
}

TEST_CASE("group: a connection that does not introduce itself is dropped") {
  const int port = free_port();
  std::vector<std::string> said(2);
  const auto join = [&](int rank) {
    const auto group = ProcessGroup::join(place(rank, 2, port), kLong);
    said[static_cast<std::size_t>(rank)] = group ? "joined" : group.error().message;
  };
  std::thread listening([&] { join(0); });
  {  // ahead of process 1, with whom the meeting ends
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    const auto stray = connect_to("127.0.0.1", port, deadline);
    CHECK(stray.has_value());
    if (stray) stray->send_all("GET / HTTP/1.0\r\n\r\nand so on, as long as a greeting", 50, deadline);
    join(1);
  }
  listening.join();
  CHECK(said == std::vector<std::string>{"joined", "joined"});
}

TEST_CASE("group: a greeting with another token is of another run, and ends nothing") {
  const int port = free_port();
  const auto with_token = [port](int rank, int size, const std::string& token) {
    ProcessPlace own = place(rank, size, port);
    own.token = token;
    return own;
  };
  std::string foreign;
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    // Other tokens and other lengths of them, in every form that could disturb: a number that is taken, another size.
    for (const auto& own : {with_token(1, 2, "b"), with_token(1, 9, ""), with_token(1, 2, "aa")}) {
      const auto group = ProcessGroup::join(own, kLong);
      foreign += group ? "joined" : has(group.error().message, "another run") ? "sent away;" : group.error().message;
    }
    const auto group = ProcessGroup::join(with_token(1, 2, "a"), kLong);
    said[1] = group ? "joined" : group.error().message;
  });
  const auto group = ProcessGroup::join(with_token(0, 2, "a"), kLong);
  said[0] = group ? "joined" : group.error().message;
  for (std::thread& thread : threads) thread.join();
  CHECK(foreign == "sent away;sent away;sent away;");
  CHECK(said == std::vector<std::string>{"joined", "joined"});
}

TEST_CASE("group: who connects and says nothing, or half of it, holds nobody up") {
  const int port = free_port();
  const auto start = std::chrono::steady_clock::now();
  std::vector<Socket> silent;
  std::thread crowd([&] {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    for (int i = 0; i < 200; ++i) {
      auto one = connect_to("127.0.0.1", port, deadline);
      if (!one) continue;
      const std::string half = greeting_of({1, 2}, "").substr(0, 20);
      if (i % 2 == 0) one->send_all(half.data(), half.size(), deadline);
      silent.push_back(std::move(*one));
    }
    const auto group = ProcessGroup::join(place(1, 2, port), kLong);
  });
  const auto said = run(
      {0}, 2, kLong, [](ProcessGroup&) { return std::string("joined"); }, port);
  crowd.join();
  CHECK(said[0] == "joined");
  CHECK(std::chrono::steady_clock::now() - start < kLong);  // one after the other would take 400 s
}

TEST_CASE("group: what is read of a greeting, byte by byte") {
  const std::string right = greeting_of({3, 8}, "token");
  Hello hello;
  for (std::size_t size = 0; size < right.size(); ++size)
    CHECK(read_greeting(right.substr(0, size), "token", hello) == Greeting::incomplete);
  CHECK(read_greeting(right, "token", hello) == Greeting::introduced);
  CHECK(hello.rank == 3);
  CHECK(hello.size == 8);
  CHECK(read_greeting(right, "tokem", hello) == Greeting::foreign);
  std::string long_one = right;
  long_one[24] = '\xff';  // the length that it announces
  CHECK(read_greeting(long_one, "token", hello) == Greeting::foreign);
  CHECK(unpack(std::string(8, '\xff')).empty());
  CHECK(unpack(pack({"a", "", "bc"})) == std::vector<std::string>{"a", "", "bc"});
  const Error error = unpack_error(std::string(24, '\xff'));
  CHECK(error.facts.empty());
}

// Whoever announces a long greeting is no process of this run: nothing is kept ready for it.
TEST_CASE("group: a stranger does not decide how much memory a greeting takes") {
  constexpr std::uint64_t announced = 256U << 20;
  const auto largest_so_far = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  };
  const std::uint64_t before = largest_so_far();
  const int port = free_port();
  auto dropped = Socket::End::done;
  std::thread stranger([&] {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    const auto stray = connect_to("127.0.0.1", port, deadline);
    const std::array<std::uint64_t, 4> frame = {kMagic, 0, 0, announced};
    if (!stray) return;
    stray->send_all(frame.data(), sizeof frame, deadline);
    char byte = 0;
    dropped = stray->receive_all(&byte, 1, deadline);
    const auto group = ProcessGroup::join(place(1, 2, port), kLong);
  });
  const auto said = run(
      {0}, 2, kLong, [](ProcessGroup&) { return std::string("joined"); }, port);
  stranger.join();
  CHECK(dropped == Socket::End::left);
  CHECK(said[0] == "joined");
  CHECK(largest_so_far() - before < announced / 2);
}

TEST_CASE("group: one that does not come to a common step is named after the limit") {
  std::latch others_are_done(2);
  const auto said = run({0, 1, 2}, 3, milliseconds(2'000), [&](ProcessGroup& group) {
    if (group.rank() == 1) {
      others_are_done.wait();
      return std::string("waited");
    }
    const auto first = group.barrier();
    const auto later = group.barrier();
    others_are_done.count_down();
    return first || later ? std::string("met") : first.error().message + "|" + later.error().message;
  });
  const std::string late = "process 1 of 3 did not come to a common step within 2 s";
  CHECK(said[0] == late + "|" + late);  // it stays so
  CHECK(said[2] == late + "|" + late);
}

TEST_CASE("group: one that leaves early is named") {
  const auto said = run({0, 1}, 2, kLong, [](ProcessGroup& group) {
    if (group.rank() == 1) return std::string("left early");
    const auto met = group.barrier();
    return met ? std::string("met") : met.error().message;
  });
  CHECK(said[0] == "process 1 has left: it ended or was killed");
}

// A process of its own that joins, meets once and then waits to be killed.
pid_t start_victim(int rank, int size, int port) {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(120);  // nobody waits forever, even if the test itself is killed
  const auto group = ProcessGroup::join(place(rank, size, port), kLong);
  if (group && (*group)->barrier()) pause();
  _exit(1);
}

TEST_CASE("group: a process that is killed is named to all others at once") {
  for (const int victim : {0, 1}) {
    CAPTURE(victim);
    const int port = free_port();
    const pid_t child = start_victim(victim, 3, port);
    REQUIRE(child > 0);
    std::vector<int> others;
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != victim) others.push_back(rank);
    }
    const auto start = std::chrono::steady_clock::now();
    const auto said = run(
        others, 3, kLong,
        [&](ProcessGroup& group) {
          if (const auto met = group.barrier(); !met) return "too early: " + met.error().message;
          if (group.rank() == others[1]) kill(child, SIGKILL);
          const auto met = group.barrier();
          return met ? std::string("met") : met.error().message;
        },
        port);
    CHECK(std::chrono::steady_clock::now() - start < kLong);  // not the limit
    const std::string wanted = "process " + std::to_string(victim) + " has left: it ended or was killed";
    for (const std::string& one : said) CHECK(one == wanted);
    int status = 0;
    kill(child, SIGKILL);  // where the others never came so far
    CHECK(waitpid(child, &status, 0) == child);
  }
}

}  // namespace
}  // namespace a2asim::gpu
