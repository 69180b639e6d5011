// Those who have no business with a cluster, and say so to its ports.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/loopback.hpp"

namespace troupe::cluster_test {

/// A TCP connection that says something no peer would; true if the other side then hung up.
inline bool send_garbage(uint16_t port, const std::string& bytes) {
  const auto fd = loopback_connection(port);
  timeval limit{60, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  shutdown(fd.get(), SHUT_WR);
  char reply[4096];
  ssize_t n = 0;
  while ((n = recv(fd.get(), reply, sizeof(reply), 0)) > 0) {
  }
  return n == 0 || errno == ECONNRESET;
}

inline const std::vector<std::string> garbage{
    "GET / HTTP/1.1\r\nHost: x\r\n\r\n", std::string(100'000, '\xff'), std::string(64, '\0'),
    std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)};

/// A number as CAF's wire has it: big-endian.
inline std::string big_endian(uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
  return out;
}

/// A frame's header and payload as CAF's wire has them; `promised`: the payload's size, if another.
inline std::string frame(int operation, const std::string& payload, uint64_t source = 0,
                         uint64_t receiver = 0, std::optional<uint32_t> promised = {}) {
  return big_endian(static_cast<uint64_t>(operation) << 24, 4) +
         big_endian(promised.value_or(static_cast<uint32_t>(payload.size())), 4) +
         big_endian(0, 8) + big_endian(source, 8) + big_endian(receiver, 8) + payload;
}

/// The name of a process that nobody is, as CAF's wire has it (its kind, a number, a host).
inline std::string process_name(uint32_t number) {
  return big_endian(0x3e9aab9bac79, 8) + big_endian(number, 4) + std::string(20, 'h');
}

/// The content of a message by the names of its types: "@exit" and so on.
inline std::string content(const std::string& types) {
  const std::string name = "@<>+" + types;
  return std::string(3, '\0') + static_cast<char>(name.size()) + name + std::string(64, '\0');
}

/// A TLS connection by OpenSSL's own tool, which says the bytes of a file and waits for the other
/// side to hang up; whether it got as far as reading a byte of ours.
inline bool openssl_client(uint16_t port, const std::vector<std::string>& options,
                           const std::string& says = "/dev/null") {
  std::string command = "timeout 30 openssl s_client -quiet -connect 127.0.0.1:";
  command += std::to_string(port);
  for (const auto& o : options) command += " " + o;
  command += " 2>/dev/null <" + says + (says == "/dev/null" ? " | head -c 1" : "") + " | wc -c";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  int bytes = 0;
  const int read = fscanf(pipe, "%d", &bytes);
  pclose(pipe);
  return read == 1 && bytes > 0;
}

}  // namespace troupe::cluster_test
