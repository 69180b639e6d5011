// Resolving and binding.
#include "actors/cluster/listening.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::cluster {

namespace {

error not_ours(const std::string& address, int why, uint16_t port) {
  if (why == EADDRINUSE)
    return {errc::unavailable, fmt::format("another process listens on {}:{}", address, port),
            "`ss -ltnp` shows which; cluster.port = 0 takes a free one"};
  if (why == EACCES)
    return {errc::permission, fmt::format("port {} is not for this user", port),
            "ports from 1024 on are for everybody"};
  return {errc::bad_config,
          fmt::format("{} is not an address of this machine: {}", address, std::strerror(why)),
          "`ip address` shows those it has; 0.0.0.0 stands for all of them"};
}

}  // namespace

status can_listen(const std::string& address, uint16_t port) {
  const bool any = address.empty() || address == "0.0.0.0";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(any ? "0.0.0.0" : address.c_str(), nullptr, &hints, &found);
  if (failed != 0)
    return error{errc::bad_config,
                 fmt::format("invalid address {}: {}", address, gai_strerror(failed)),
                 "name an address of this machine, e.g. 127.0.0.1"};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  int why = EADDRNOTAVAIL;
  for (const auto* at = all.get(); at != nullptr; at = at->ai_next) {
    const io::unique_fd fd(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int reuse = 1;  // as the coordinator will: connections that are ending are no obstacle
    if (!fd || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) != 0) continue;
    if (at->ai_family == AF_INET)
      reinterpret_cast<sockaddr_in*>(at->ai_addr)->sin_port = htons(port);
    else if (at->ai_family == AF_INET6)
      reinterpret_cast<sockaddr_in6*>(at->ai_addr)->sin6_port = htons(port);
    if (bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0) return {};
    why = errno;
  }
  return not_ours(address, why, port);
}

}  // namespace troupe::cluster
