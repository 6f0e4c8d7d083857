// A TCP port of this host that nobody uses now.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace a2asim::test {

inline int free_port() {
  const int one = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  REQUIRE(bind(one, reinterpret_cast<sockaddr*>(&at), size) == 0);
  REQUIRE(getsockname(one, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  close(one);
  return ntohs(at.sin_port);
}

}  // namespace a2asim::test
