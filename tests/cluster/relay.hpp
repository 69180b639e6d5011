// A link between two processes of this machine that a test can cut without telling either: what is
// sent waits, as where packets are lost, and arrives late once the link is there again.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/file.hpp"
#include "tests/loopback.hpp"

namespace troupe::cluster_test {

/// Listens on loopback, and carries each connection to a port there.
class relay {
 public:
  explicit relay(uint16_t to)
      : to_(to),
        listener_(loopback_listener()),
        thread_([this](const std::stop_token& over) { carry(over); }) {}

  std::string address() const { return fmt::format("127.0.0.1:{}", port_of(listener_)); }
  /// From now on nothing is carried, and nobody accepted.
  void cut() { is_cut_ = true; }
  void mend() { is_cut_ = false; }
  /// Connections that it has had.
  int accepted() const { return accepted_; }

 private:
  struct pair {
    std::array<io::unique_fd, 2> ends;
    bool over = false;
  };

  static constexpr int look_ms = 20;  // for a cut, and for the end

  void carry(const std::stop_token& over) {
    std::list<pair> pairs;
    while (!over.stop_requested()) {
      std::vector<pollfd> on;
      if (!is_cut_) {
        on.push_back({listener_.get(), POLLIN, 0});
        for (const auto& p : pairs)
          for (const auto& end : p.ends) on.push_back({end.get(), POLLIN, 0});
      }
      if (::poll(on.data(), on.size(), look_ms) <= 0 || is_cut_) continue;
      size_t at = 1;
      for (auto& p : pairs)
        for (size_t i = 0; i < p.ends.size(); ++i)
          if (on[at++].revents != 0 && !p.over) p.over = !carry(p.ends[i], p.ends[1 - i]);
      pairs.remove_if([](const pair& p) { return p.over; });
      if ((on[0].revents & POLLIN) != 0) take_one(pairs);
    }
  }
  void take_one(std::list<pair>& pairs) {
    io::unique_fd one(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    io::unique_fd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto there = loopback_address(to_);
    if (!one || !other ||
        ::connect(other.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0)
      return;
    // Who does not read for long loses its connection, and does not hold up the end of the test.
    const timeval longest{1, 0};
    for (const auto* end : {&one, &other})
      ::setsockopt(end->get(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
    pairs.push_back({{std::move(one), std::move(other)}, false});
    ++accepted_;
  }
  /// False once there will be no more.
  static bool carry(const io::unique_fd& from, const io::unique_fd& to) {
    std::array<char, 65536> bytes;
    const auto n = ::recv(from.get(), bytes.data(), bytes.size(), 0);
    for (ssize_t sent = 0; sent < n;) {
      const auto some =
          ::send(to.get(), bytes.data() + sent, static_cast<size_t>(n - sent), MSG_NOSIGNAL);
      if (some <= 0) return false;
      sent += some;
    }
    return n > 0;
  }

  uint16_t to_;
  io::unique_fd listener_;
  std::atomic<bool> is_cut_ = false;
  std::atomic<int> accepted_ = 0;
  std::jthread thread_;
};

}  // namespace troupe::cluster_test
