// What the processes' meeting needs of TCP.
#include "gpu/group/socket.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>

#include "tests/group/free_port.h"

namespace a2asim::gpu {
namespace {

Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(100); }

TEST_CASE("socket: a job that starts right after another one gets the same port") {
  const int port = test::free_port();
  for (int job = 0; job < 3; ++job) {
    const auto listener = listen_on("127.0.0.1", port, soon());
    REQUIRE_MESSAGE(listener, (listener ? "" : listener.error().message));
    const auto client = connect_to("127.0.0.1", port, soon());
    REQUIRE(client.has_value());
    auto served = accept_from(*listener, soon());
    REQUIRE((served && *served));
    *served = Socket();  // the side that closes first keeps the port in TIME_WAIT
    char byte = 0;
    CHECK(client->receive_all(&byte, 1, soon()) == Socket::End::left);
  }
}

TEST_CASE("socket: a small message is sent at once, and comes as it was") {
  const int port = test::free_port();
  const auto listener = listen_on("127.0.0.1", port, soon());
  REQUIRE(listener.has_value());
  const auto client = connect_to("127.0.0.1", port, soon());
  REQUIRE(client.has_value());
  int no_delay = 0;
  socklen_t size = sizeof no_delay;
  REQUIRE(getsockopt(client->descriptor(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &size) == 0);
  CHECK(no_delay != 0);
  const auto served = accept_from(*listener, soon());
  REQUIRE((served && *served));
  char early = 0;
  CHECK(served->receive_now(&early, 1) == 0);
  const std::string sent = "a message";
  REQUIRE(client->send_all(sent.data(), sent.size(), soon()) == Socket::End::done);
  std::string got(sent.size(), ' ');
  REQUIRE(served->receive_all(got.data(), got.size(), soon()) == Socket::End::done);
  CHECK(got == sent);
  const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
  CHECK(served->receive_all(got.data(), 1, late) == Socket::End::late);
  const auto nobody = accept_from(*listener, std::chrono::steady_clock::now() + std::chrono::milliseconds(10));
  REQUIRE(nobody.has_value());
  CHECK_FALSE(bool(*nobody));
}

}  // namespace
}  // namespace a2asim::gpu
