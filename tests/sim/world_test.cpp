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
  w.observe = [&](const any_msg& m, const actor_stats& receiver) {
    heard.push_back(fmt::format("{} ms: {}, {}", (w.now_ns() - begun) / ms, receiver.path(),
                                find_message(m.type())->name));
  };
  w.blocks_ns = [](const any_msg& m) {
    return m.type() == message_traits<fbs::BatchRequest>::id ? 5 * ms : 0;
  };
  const auto busy = w.spawn(0, train::loader, train::spawn_record{1, 0, "busy"}, std::stop_token());
  const auto idle = w.spawn(0, train::loader, train::spawn_record{1, 0, "idle"}, std::stop_token());
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

namespace {

constexpr int64_t millisecond = 1'000'000;

/// What an actor that calls what blocks says, and when it is heard.
struct blocking_world {
  world w{[] {
    world_options o;
    o.nodes = 2;
    return o;
  }()};
  int64_t begun = 0;
  std::vector<std::string> heard;
  loader_actor busy, other;

  blocking_world() {
    other = w.spawn(1, train::loader, train::spawn_record{1, 0, "other"}, std::stop_token());
    busy = w.spawn(0, train::loader, train::spawn_record{1, 0, "busy"}, std::stop_token());
    while (!w.idle()) w.turn();
    begun = w.now_ns();
    w.observe = [this](const any_msg& m, const actor_stats& receiver) {
      heard.push_back(fmt::format("{} ms: {}, {}", (w.now_ns() - begun) / millisecond,
                                  receiver.path(), find_message(m.type())->name));
    };
  }
  /// As if the busy one called what takes so long, said something and went on.
  void call(int64_t takes_ns, const std::function<void()>& then) {
    const auto stats = w.actors_of(0).front();
    const stats_scope scope(stats.get());
    w.block_until(w.own_time_ns() + takes_ns);
    then();
  }
  std::string so_far(int64_t until_ms) {
    w.run(begun + until_ms * millisecond, [] { return false; });
    return fmt::format("{}", fmt::join(heard, "; "));
  }
};

}  // namespace

TEST_CASE("world: who calls what blocks speaks and hears once it is over") {
  blocking_world b;
  b.call(4 * millisecond, [&] {
    CHECK(b.w.own_time_ns() == b.begun + 4 * millisecond);
    caf::anon_send(b.busy, make_msg<fbs::StatusRequest>());  // to itself
  });
  CHECK(b.w.now_ns() == b.begun);  // time goes on for the others
  caf::anon_send(b.busy, make_msg<fbs::StatusRequest>());
  CHECK(b.w.blocked_until(0) == b.begun + 4 * millisecond);
  CHECK(b.w.blocked_until(1) <= b.begun);
  CHECK(b.so_far(3).empty());
  CHECK(b.so_far(10) == "4 ms: loader/busy, StatusRequest; 4 ms: loader/busy, StatusRequest");
}

TEST_CASE("world: a message that is detained between nodes leaves later, or never") {
  blocking_world b;
  int said = 0;
  b.w.detains = [&](int from, int to, const any_msg& m) {
    CHECK(from == 0);
    CHECK(to == 1);
    CHECK(m.type() == message_traits<fbs::StatusRequest>::id);
    ++said;
    return said == 1 ? 5 * millisecond : said == 2 ? -1 : 0;
  };
  const auto lost = b.w.counts().lost;
  b.call(0, [&] {
    for (int i = 0; i < 3; ++i) caf::anon_send(b.other, make_msg<fbs::StatusRequest>());
  });
  CHECK(b.so_far(20) == "0 ms: loader/other, StatusRequest; 5 ms: loader/other, StatusRequest");
  CHECK(b.w.counts().lost == lost + 1);
}

TEST_CASE("world: a process that goes while it calls has not said it") {
  for (const bool goes : {false, true}) {
    blocking_world b;
    b.call(4 * millisecond, [&] { caf::anon_send(b.other, make_msg<fbs::StatusRequest>()); });
    if (goes) b.w.crash(0, true);
    CHECK(b.so_far(60).empty() == goes);
  }
}

TEST_CASE("world: what a frozen process says after a call waits until it thaws") {
  blocking_world b;
  b.call(4 * millisecond, [&] { caf::anon_send(b.other, make_msg<fbs::StatusRequest>()); });
  b.w.freeze(0);
  CHECK(b.so_far(60).empty());
  b.w.thaw(0);
  CHECK_FALSE(b.so_far(120).empty());
}
