// Reading /proc/net/tcp, tcp6 and /etc/passwd. Not getpwuid(): it may ask a directory server, and
// the thread that asks here serves all connections.
#include "actors/cluster/loopback_user.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include <fmt/format.h>

namespace troupe::cluster {

namespace {

constexpr std::string_view established = "01";

/// The next word of a line.
std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const auto word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

/// An address as 16 bytes, IPv4 in IPv6's way; nothing where it is none of loopback.
struct loopback_end {
  in6_addr address;
  uint16_t port;
};

std::optional<loopback_end> loopback_end_of(const sockaddr_storage& at) {
  loopback_end out{};
  if (at.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(at);
    out.address.s6_addr[10] = out.address.s6_addr[11] = 0xff;
    std::memcpy(&out.address.s6_addr[12], &four.sin_addr, 4);
    out.port = ntohs(four.sin_port);
  } else if (at.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(at);
    out.address = six.sin6_addr;
    out.port = ntohs(six.sin6_port);
  } else {
    return std::nullopt;
  }
  const bool four = IN6_IS_ADDR_V4MAPPED(&out.address);
  if (four ? out.address.s6_addr[12] != 127 : !IN6_IS_ADDR_LOOPBACK(&out.address))
    return std::nullopt;
  return out;
}

/// As the kernel's tables write it: words of 32 bits in the machine's order.
std::string in_table(const loopback_end& end, bool as_four) {
  std::string out;
  for (size_t i = as_four ? 12 : 0; i < 16; i += 4) {
    uint32_t word;
    std::memcpy(&word, &end.address.s6_addr[i], 4);
    out += fmt::format("{:08X}", word);
  }
  return fmt::format("{}:{:04X}", out, end.port);
}

std::string name_of_user(uint32_t uid) {
  const std::unique_ptr<FILE, int (*)(FILE*)> users(std::fopen("/etc/passwd", "re"), std::fclose);
  std::vector<char> text(16 * 1024);
  passwd entry{}, *found = nullptr;
  while (users && fgetpwent_r(users.get(), &entry, text.data(), text.size(), &found) == 0)
    if (found->pw_uid == uid) return found->pw_name;
  return fmt::format("uid {}", uid);
}

}  // namespace

std::optional<uint32_t> user_in_table(std::string_view table, std::string_view local,
                                      std::string_view remote) {
  while (!table.empty()) {
    auto line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(line.size() + 1, table.size()));
    next_word(line);  // its number
    if (next_word(line) != local || next_word(line) != remote) continue;
    if (next_word(line) != established) return std::nullopt;  // USR-1
    for (int skipped = 0; skipped < 3; ++skipped) next_word(line);
    const auto user = next_word(line);
    next_word(line);
    if (const auto inode = next_word(line); inode.empty() || inode == "0") return std::nullopt;
    uint32_t uid = 0;
    const auto read = std::from_chars(user.data(), user.data() + user.size(), uid);
    return read.ec == std::errc() ? std::optional(uid) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> loopback_user(int socket) {
  sockaddr_storage ours{}, theirs{};
  socklen_t ours_bytes = sizeof(ours), theirs_bytes = sizeof(theirs);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&ours), &ours_bytes) != 0 ||
      getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &theirs_bytes) != 0)
    return std::nullopt;
  const auto here = loopback_end_of(ours), there = loopback_end_of(theirs);
  if (!here || !there) return std::nullopt;
  for (const bool as_four : {true, false}) {
    if (as_four && !IN6_IS_ADDR_V4MAPPED(&there->address)) continue;
    std::ifstream file(as_four ? "/proc/net/tcp" : "/proc/net/tcp6");
    const std::string table{std::istreambuf_iterator<char>(file), {}};
    if (const auto uid =
            user_in_table(table, in_table(*there, as_four), in_table(*here, as_four)))
      return name_of_user(*uid);
  }
  return std::nullopt;
}

}  // namespace troupe::cluster
