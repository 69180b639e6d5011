// An agent of a machine that answers what it is told to, or nothing, for tests of who asks one.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/controls/agent_message.hpp"
#include "io/file.hpp"
#include "io/local_socket.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::gpu::controls::made {

/// Each of its waits ends within a minute.
struct scripted_agent {
  scratch folder;
  std::filesystem::path name = folder / "s";
  std::optional<io::local_listener> listener;
  io::unique_fd peer;

  scripted_agent() {
    auto made = io::local_listener::make(name, "");
    REQUIRE(made);
    listener.emplace(std::move(*made));
  }
  void welcome() {
    pollfd at{listener->fd(), POLLIN, 0};
    CHECK(::poll(&at, 1, 60'000) == 1);
    peer = listener->accept();
  }
  /// None: it was hung up on, or said nothing that is a request.
  std::optional<agent_request> hear() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    std::vector<std::byte> in(4);
    if (!io::receive_local(peer.get(), in, until)) return std::nullopt;
    const auto bytes = agent_message_bytes(in);
    if (!bytes) return std::nullopt;
    in.resize(bytes->value_or(4));
    if (!io::receive_local(peer.get(), std::span(in).subspan(4), until)) return std::nullopt;
    auto read = parse_agent_request(in);
    return read ? std::optional(*read) : std::nullopt;
  }
  void answer(const agent_answer& a) const {
    CHECK(io::send_local(peer.get(), to_bytes(a),
                         std::chrono::steady_clock::now() + std::chrono::minutes(1)));
  }
};

}  // namespace troupe::gpu::controls::made
