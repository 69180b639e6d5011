// Listeners and connections on this machine, at ports that were free.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "io/file.hpp"

namespace troupe {

inline io::unique_fd loopback_socket() {
  io::unique_fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(fd);
  return fd;
}

inline sockaddr_in loopback_address(uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

/// Binds to a port of the kernel's choice.
inline io::unique_fd loopback_bound() {
  auto fd = loopback_socket();
  const auto at = loopback_address(0);
  REQUIRE(bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  return fd;
}

inline uint16_t port_of(const io::unique_fd& bound) {
  sockaddr_in at{};
  socklen_t size = sizeof at;
  REQUIRE(getsockname(bound.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  return ntohs(at.sin_port);
}

inline io::unique_fd loopback_listener() {
  auto fd = loopback_bound();
  REQUIRE(listen(fd.get(), 16) == 0);
  return fd;
}

/// A port for somebody who is told it before he listens there. The kernel gives it to nobody who
/// asks for any, and no other test is told it for as long as this process lives: a name that goes
/// with it is held, in the abstract ones, of which each network has its own.
inline uint16_t reserved_port() {
  static std::vector<io::unique_fd> held;
  static uint32_t next = static_cast<uint32_t>(getpid()) * 7;  // processes begin apart
  constexpr uint32_t least = 10'000, usual_end = 32'768;
  uint32_t of_kernel = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> of_kernel;
  // Where the kernel's own begin so early that few are left, they may be any.
  const uint32_t end = of_kernel > least + 1000 ? std::min(of_kernel, 65'536u) : usual_end;
  for (uint32_t tried = least; tried < end; ++tried) {
    const auto port = static_cast<uint16_t>(least + next++ % (end - least));
    const auto name = "troupe-test-port-" + std::to_string(port);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), at.sun_path + 1);
    io::unique_fd sign(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(sign);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (bind(sign.get(), reinterpret_cast<const sockaddr*>(&at), size) != 0) continue;
    auto all = loopback_address(port);
    all.sin_addr.s_addr = htonl(INADDR_ANY);
    const auto trial = loopback_socket();  // somebody else may listen there
    if (bind(trial.get(), reinterpret_cast<const sockaddr*>(&all), sizeof all) != 0) continue;
    held.push_back(std::move(sign));
    return port;
  }
  FAIL("no port is free between ", least, " and ", end);
  return 0;
}

/// A connection to a port; whoever listens there need not have accepted it yet.
inline io::unique_fd loopback_connection(uint16_t port) {
  auto fd = loopback_socket();
  const auto at = loopback_address(port);
  REQUIRE(connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  return fd;
}
inline io::unique_fd loopback_connection(const io::unique_fd& listener) {
  return loopback_connection(port_of(listener));
}

}  // namespace troupe
