// What passes between actors of a world.
#include "actors/sim/world.hpp"

#include <doctest/doctest.h>

#include <stop_token>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <caf/send.hpp>

#include "actors/train/loader.hpp"
#include "messages/registry.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

TEST_CASE("world: what blocks its receiver is heard later, and so is all that comes behind it") {
  constexpr int64_t ms = 1'000'000;
  world w({});
  std::vector<std::string> heard;
  const auto begun = w.now_ns();
  w.observe = [&](const any_msg& m, const actor_card& receiver) {
    heard.push_back(fmt::format("{} ms: {}, {}", (w.now_ns() - begun) / ms, receiver.path(),
                                find_message(m.type())->name));
  };
  w.blocks_ns = [](const any_msg& m) {
    return m.type() == message_traits<fbs::BatchRequest>::id ? 5 * ms : 0;
  };
  const auto busy = w.spawn(0, train::loader, 1u, std::string("busy"), std::stop_token());
  const auto idle = w.spawn(0, train::loader, 1u, std::string("idle"), std::stop_token());
  while (!w.idle()) w.turn();  // they say who they are
  caf::anon_send(busy, make_msg<fbs::BatchRequest>());
  caf::anon_send(busy, make_msg<fbs::BatchRequest>());
  caf::anon_send(busy, make_msg<fbs::StatusRequest>());
  caf::anon_send(idle, make_msg<fbs::StatusRequest>());
  w.run(w.now_ns() + 20 * ms, [] { return false; });
  CHECK(fmt::format("{}", fmt::join(heard, "; ")) ==
        "0 ms: loader/idle, StatusRequest; 5 ms: loader/busy, BatchRequest; "
        "10 ms: loader/busy, BatchRequest; 10 ms: loader/busy, StatusRequest");
}
