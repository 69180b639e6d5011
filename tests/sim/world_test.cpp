// What passes between actors of a world.
#include "actors/sim/world.hpp"

#include <doctest/doctest.h>

#include <stop_token>

#include <fmt/format.h>
#include <caf/send.hpp>

#include "actors/train/loader.hpp"
#include "messages/registry.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

TEST_CASE("world: what blocks its receiver is heard later, and so is all that comes behind it") {
  constexpr int64_t ms = 1'000'000;
  world w({});
  std::vector<std::pair<std::string, int64_t>> heard;  // by whom and what, when
  const auto begun = w.now_ns();
  w.observe = [&](const any_msg& m, const actor_card& receiver) {
    heard.emplace_back(fmt::format("{} {}", receiver.path(), find_message(m.type())->name),
                       (w.now_ns() - begun) / ms);
  };
  w.blocks_ns = [](const any_msg& m) {
    return m.type() == message_traits<fbs::BatchRequest>::id ? 5 * ms : 0;
  };
  const auto busy = w.spawn(0, train::loader, 1u, std::string("busy"), std::stop_token());
  const auto idle = w.spawn(0, train::loader, 1u, std::string("idle"), std::stop_token());
  caf::anon_send(busy, make_msg<fbs::BatchRequest>());
  caf::anon_send(busy, make_msg<fbs::BatchRequest>());
  caf::anon_send(busy, make_msg<fbs::StatusRequest>());
  caf::anon_send(idle, make_msg<fbs::StatusRequest>());
  w.run(w.now_ns() + 20 * ms, [] { return false; });
  using told = std::pair<std::string, int64_t>;
  CHECK(heard == std::vector<told>{{"loader/idle StatusRequest", 0},
                                   {"loader/busy BatchRequest", 5},
                                   {"loader/busy BatchRequest", 10},
                                   {"loader/busy StatusRequest", 10}});
}
