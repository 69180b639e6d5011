// Listeners and connections on this machine, at ports that were free.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

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
