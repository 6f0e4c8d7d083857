// Processes of a group that speak otherwise than this program: out of step, of another build, cut off, with numbers
// that are not true. A bare socket stands for one.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "gpu/group/messages.h"
#include "gpu/group/placement.h"
#include "gpu/group/process_group.h"
#include "tests/group/free_port.h"

namespace a2asim::gpu {
namespace {

constexpr std::chrono::milliseconds kPatience{100'000};  // no test waits for it

ProcessPlace place_at(int rank, int size, int port) {
  ProcessPlace place{rank, size, rank, size, "127.0.0.1", port, "torchrun"};
  place.token = "test";
  return place;
}

Deadline patient() { return std::chrono::steady_clock::now() + kPatience; }

std::string framed(const Frame& frame, const std::string& body) {
  return std::string(reinterpret_cast<const char*>(&frame), sizeof frame) + body;
}

void put(const Socket& to, const std::string& bytes) { to.send_all(bytes.data(), bytes.size(), patient()); }

// The header and the body of what comes next.
std::pair<Frame, std::string> next(const Socket& from) {
  Frame frame{};
  if (from.receive_all(&frame, sizeof frame, patient()) != Socket::End::done) return {Frame{0, 0, 0, 0}, ""};
  std::string body(frame.bytes, ' ');
  from.receive_all(body.data(), body.size(), patient());
  return {frame, body};
}

// What process 0 of two says of a stranger that greets as process 1 and then sends this; and what the stranger is told.
std::pair<std::string, std::string> heard_at_0(const std::string& sent, const Hello& hello = {1, 2}) {
  const int port = test::free_port();
  std::string told;
  std::thread stranger([&] {
    const auto socket = connect_to("127.0.0.1", port, patient());
    if (!socket) return;
    put(*socket, greeting_of(hello, "test"));
    const auto [welcome, refused] = next(*socket);
    told = welcome.kind == kWelcome ? "" : refused;
    if (welcome.kind != kWelcome) return;
    put(*socket, sent);
    const auto [answer, body] = next(*socket);
    told = answer.kind == kFailure ? body : answer.kind == kData ? "data" : "nothing";
  });
  const auto group = ProcessGroup::join(place_at(0, 2, port), kPatience);
  std::string said = group ? "" : group.error().message;
  if (group) {
    const auto all = (*group)->all_gather("own");
    said = all ? (*all)[0] + "|" + (*all)[1] : all.error().message;
  }
  stranger.join();
  return {said, told};
}

TEST_CASE("group: process 0 hears of each message its kind, its exchange and its length") {
  const std::string left = "process 1 has left: it ended or was killed";
  const auto out_of_step = [](int call) {
    return "the processes are out of step: process 1 is at exchange " + std::to_string(call) + ", process 0 at 1";
  };
  using Heard = std::pair<std::string, std::string>;
  CHECK(heard_at_0(framed({kMagic, kData, 1, 5}, "other")) == Heard{"own|other", "data"});
  CHECK(heard_at_0(framed({kMagic, kData, 1, 0}, "")) == Heard{"own|", "data"});
  CHECK(heard_at_0(framed({kMagic, kData, 2, 0}, "")) == Heard{out_of_step(2), out_of_step(2)});
  CHECK(heard_at_0(framed({kMagic, kWelcome, 1, 0}, "")) == Heard{out_of_step(1), out_of_step(1)});
  CHECK(heard_at_0(framed({kMagic + 1, kData, 1, 0}, "")).first == left);
  CHECK(heard_at_0(framed({kMagic, kData, 1, (std::uint64_t{1} << 34) + 1}, "")).first == left);
}

TEST_CASE("group: who greets with a number that is not its own to have is told why, and so is process 0") {
  const auto as = [](int rank, int size) {
    return "process 0 was started as 0 of 2, another as " + std::to_string(rank) + " of " + std::to_string(size) +
           "; start all of them with the same number of processes";
  };
  for (const Hello hello : {Hello{0, 2}, Hello{2, 2}, Hello{-1, 2}, Hello{1, 3}, Hello{1, 1}}) {
    CAPTURE(hello.rank);
    const auto [said, told] = heard_at_0("", hello);
    CHECK(said == as(hello.rank, hello.size));
    CHECK(told == said);
  }
}

// What process 1 of two says of a stranger in process 0's place that answers the greeting, and then its exchange.
std::string heard_at_1(const std::string& welcome, const std::string& answer,
                       const std::function<std::string(ProcessGroup&)>& asks) {
  const int port = test::free_port();
  const auto listener = listen_on("127.0.0.1", port, patient());
  REQUIRE(listener.has_value());
  std::thread stranger([&] {
    const auto socket = accept_from(*listener, patient());
    if (!socket || !*socket) return;
    std::string greeting(greeting_bytes("test"), ' ');
    socket->receive_all(greeting.data(), greeting.size(), patient());
    put(*socket, welcome);
    if (!answer.empty() && next(*socket).first.kind == kData) put(*socket, answer);
  });
  const auto group = ProcessGroup::join(place_at(1, 2, port), kPatience);
  const std::string said = group ? asks(**group) : group.error().message;
  stranger.join();
  const std::string where = "127.0.0.1:" + std::to_string(port);
  const auto at = said.find(where);
  return at == std::string::npos ? said : said.substr(0, at) + "HERE" + said.substr(at + where.size());
}

TEST_CASE("group: what another process makes of process 0's words") {
  const auto gathers = [](ProcessGroup& group) {
    const auto all = group.all_gather("own");
    if (all) return (*all)[0] + "|" + (*all)[1];
    const auto again = group.all_gather("own");
    return all.error().message + (again || again.error().message != all.error().message ? " once" : "");
  };
  const std::string welcome = framed({kMagic, kWelcome, 0, 0}, "");
  const auto data = [](const std::vector<std::string>& pieces) {
    const std::string body = pack(pieces);
    return framed({kMagic, kData, 1, body.size()}, body);
  };
  CHECK(heard_at_1(welcome, data({"a", "b"}), gathers) == "a|b");
  const std::string other = "process 0 sent something else than the contributions of all processes";
  CHECK(heard_at_1(welcome, data({"a"}), gathers) == other);
  CHECK(heard_at_1(welcome, data({"a", "b", "c"}), gathers) == other);
  CHECK(heard_at_1(welcome, framed({kMagic, kData, 1, 3}, "abc"), gathers) == other);
  CHECK(heard_at_1(welcome, framed({kMagic, kFailure, 1, 7}, "no room"), gathers) == "no room");
  CHECK(heard_at_1(welcome, framed({kMagic, kData, 1, 9}, "cut"), gathers) ==
        "process 0 has left: it ended or was killed");
  const std::string other_run =
      "process 0 at HERE left before the run began, or is of another run (A2ASIM_GROUP_TOKEN)";
  CHECK(heard_at_1("", "", gathers) == other_run);
  CHECK(heard_at_1(framed({kMagic, kFailure, 0, 4}, "full"), "", gathers) == "full");
  CHECK(heard_at_1(framed({kMagic, kData, 0, 0}, ""), "", gathers) == other_run);
  CHECK(heard_at_1(framed({kMagic, kFailure, 0, (1U << 16) + 1}, ""), "", gathers) == other_run);
  const std::string long_words(1U << 16, 'x');
  CHECK(heard_at_1(framed({kMagic, kFailure, 0, long_words.size()}, long_words), "", gathers) == long_words);
}

TEST_CASE("group: values of another size are of another build of the program") {
  const std::string welcome = framed({kMagic, kWelcome, 0, 0}, "");
  const auto with = [](std::size_t first, std::size_t second) {
    const std::string body = pack({std::string(first, '\0'), std::string(second, '\0')});
    return framed({kMagic, kData, 1, body.size()}, body);
  };
  const auto values = [](ProcessGroup& group) {
    const auto all = group.all_gather_value(std::int32_t{7});
    return all ? std::to_string(all->size()) : all.error().message;
  };
  CHECK(heard_at_1(welcome, with(4, 4), values) == "2");
  CHECK(heard_at_1(welcome, with(8, 4), values) == "process 0 runs another build of this program");
  CHECK(heard_at_1(welcome, with(4, 3), values) == "process 1 runs another build of this program");
  const auto places = [](ProcessGroup& group) {
    const Place own{1, 3, {}, {}};
    const auto all = exchange_places(std::span(&own, 1), &group);
    return all ? std::to_string(all->places.size()) + " at " + std::to_string(all->first_local) : all.error().message;
  };
  CHECK(heard_at_1(welcome, with(2 * sizeof(Place), sizeof(Place)), places) == "3 at 2");
  CHECK(heard_at_1(welcome, with(0, sizeof(Place)), places) == "1 at 0");
  CHECK(heard_at_1(welcome, with(sizeof(Place) + 1, sizeof(Place)), places) ==
        "process 0 runs another build of this program");
}

TEST_CASE("group: a limit is told in seconds, to the nearest tenth") {
  for (const auto& [limit, wanted] : {std::pair<int, const char*>{249, "0.2 s"}, {250, "0.3 s"}, {960, "1 s"}}) {
    const auto group = ProcessGroup::join(place_at(1, 2, test::free_port()), std::chrono::milliseconds(limit));
    REQUIRE_FALSE(group.has_value());
    CHECK(group.error().message.find(" within " + std::string(wanted) + ": Connection refused; ") != std::string::npos);
  }
}

TEST_CASE("group: one process alone exchanges with itself") {
  const auto group = ProcessGroup::join(place_at(0, 1, 1), std::chrono::milliseconds(0));
  REQUIRE(group.has_value());
  CHECK((*group)->rank() == 0);
  CHECK((*group)->size() == 1);
  CHECK((*group)->place().token == "test");
  CHECK((*group)->all_gather("own").value_or(std::vector<std::string>{}) == std::vector<std::string>{"own"});
  CHECK((*group)->barrier().has_value());
  CHECK((*group)->agree({}).has_value());
  const auto failed = (*group)->agree(fail(ErrorKind::assertion_error, "no"));
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().message == "no");
  CHECK(failed.error().kind == ErrorKind::assertion_error);
  const Place own[] = {{0, 2, {}, {}}, {0, 5, {}, {}}};
  const auto places = exchange_places(own, nullptr);
  REQUIRE(places.has_value());
  CHECK(places->num_processes == 1);
  CHECK(places->process == 0);
  CHECK(places->first_local == 0);
  CHECK(places->num_local == 2);
  REQUIRE(places->places.size() == 2);
  CHECK(places->places[1].device == 5);
}

TEST_CASE("group: messages: pieces, greetings and errors, whole and cut") {
  const std::string body = pack({"ab", "", "c"});
  CHECK(body.size() == 3 * 8 + 3);
  CHECK(unpack("").empty());
  CHECK(unpack(body.substr(0, 10)) == std::vector<std::string>{"ab"});
  CHECK(unpack(body.substr(0, 9)).empty());  // its length says two
  CHECK(unpack(body + "1234567") == std::vector<std::string>{"ab", "", "c"});
  const Error error{ErrorKind::assertion_error, "words", {ErrorFact{1, 2}, ErrorFact{3}}};
  const std::string packed = pack_error(error);
  const Error whole = unpack_error(packed);
  CHECK(whole.kind == error.kind);
  CHECK(whole.message == "words");
  CHECK(whole.facts == error.facts);
  CHECK(unpack_error(packed.substr(0, 15)).message == "a process sent an error that cannot be read");
  CHECK(unpack_error(packed.substr(0, 15)).kind == ErrorKind::runtime_error);
  CHECK(unpack_error(packed.substr(0, 16)).message.empty());
  const Error cut = unpack_error(packed.substr(0, 16 + sizeof(ErrorFact) + 3));  // of two facts one
  CHECK(cut.facts == std::vector<ErrorFact>{ErrorFact{1, 2}});
  CHECK(cut.message.size() == 3);
  const std::string right = greeting_of({1, 2}, "t");
  CHECK(right.size() == greeting_bytes("t"));
  Hello hello;
  for (const auto& [field, value] : {std::pair<std::size_t, char>{8, kData}, {16, 1}, {24, 8}}) {
    std::string wrong = right;
    wrong[field] = value;
    CAPTURE(field);
    CHECK(read_greeting(wrong, "t", hello) == Greeting::foreign);
    CHECK(read_greeting(wrong.substr(0, 32), "t", hello) == Greeting::foreign);  // as soon as its head is there
    CHECK(read_greeting(wrong.substr(0, 31), "t", hello) == Greeting::incomplete);
  }
}

TEST_CASE("group: the process's own environment") {
  const Lookup look_up = process_environment();
  ::setenv("A2ASIM_TEST_OF_GROUP", "a value", 1);
  CHECK(look_up("A2ASIM_TEST_OF_GROUP") == "a value");
  ::setenv("A2ASIM_TEST_OF_GROUP", "", 1);
  CHECK(look_up("A2ASIM_TEST_OF_GROUP") == "");
  ::unsetenv("A2ASIM_TEST_OF_GROUP");
  CHECK_FALSE(look_up("A2ASIM_TEST_OF_GROUP").has_value());
}

// More than the buffers of a connection hold: who sends waits for who reads.
TEST_CASE("socket: a message larger than the buffers is sent as it is read, or ends at the deadline") {
  const int port = test::free_port();
  const auto listener = listen_on("127.0.0.1", port, patient());
  REQUIRE(listener.has_value());
  const auto client = connect_to("127.0.0.1", port, patient());
  auto served = accept_from(*listener, patient());
  REQUIRE((client && served && *served));
  std::string sent(std::size_t{24} << 20, 'x');
  for (std::size_t i = 0; i < sent.size(); i += 4096) sent[i] = static_cast<char>('a' + i / 4096 % 26);
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  const Socket& from = *client;
  CHECK(from.send_all(sent.data(), sent.size(), soon) == Socket::End::late);
  *served = Socket();  // gone with what it had not read
  CHECK(from.send_all(sent.data(), sent.size(), patient()) == Socket::End::left);
  const auto second = connect_to("127.0.0.1", port, patient());
  served = accept_from(*listener, patient());
  REQUIRE((second && served && *served));
  std::string got(sent.size(), ' ');
  std::thread reader([&] { served->receive_all(got.data(), got.size(), patient()); });
  CHECK(second->send_all(sent.data(), sent.size(), patient()) == Socket::End::done);
  reader.join();
  CHECK(got == sent);
  CHECK_FALSE(served->receive_now(got.data(), 1).value_or(1) != 0);
}

}  // namespace
}  // namespace a2asim::gpu
