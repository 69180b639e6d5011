// Steps into windows: what counts, when a window is whole, and how much is kept.
#include "actors/health/step_windows_policy.hpp"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "messages/msg.hpp"
#include "tests/actors/health/seconds.hpp"

using namespace troupe;
using namespace troupe::health;
using troupe::health::test::s;

namespace {

constexpr int64_t short_step_ns = s / 1000;

/// Two ranks that take so long for each step, one after the other.
struct told_steps {
  step_windows_policy policy{10 * s, 2};
  int64_t now_ns = 0;
  uint64_t step = 0, windows = 0;
  double pace = 1;
  uint32_t epoch = 1;
  step_window last;

  void tell(uint64_t rank, double own_ms, double whole_ms, uint64_t tokens = 64) {
    if (auto w = policy.hear({epoch, step, rank, own_ms, whole_ms, tokens, pace}, now_ns)) {
      last = std::move(*w);
      ++windows;
    }
  }
  void make(int steps, int64_t took_ns, double own = 1, double other = 2, uint64_t tokens = 64) {
    for (int i = 0; i < steps; ++i) {
      ++step;
      now_ns += took_ns;
      const auto whole = static_cast<double>(took_ns) / 1e6;
      tell(0, own, whole, tokens);
      tell(1, other, whole / 2, tokens);
    }
  }
};

msg<fbs::StepDone> done_of(const std::vector<std::tuple<const char*, double, double>>& parts) {
  return make_msg<fbs::StepDone>({}, [&](fbs::StepDoneT& d) {
    d.step = 7;
    d.rank = 3;
    for (const auto& [kind, busy, waited] : parts) {
      auto& p = *d.parts.emplace_back(std::make_unique<fbs::StepPartT>());
      p.kind = kind;
      p.busy_ms = busy;
      p.waited_ms = waited;
      p.work = 32;
    }
  });
}

}  // namespace

TEST_CASE("SWN: what a rank computed of a step is neither a wait nor a transfer nor a checkpoint") {
  const auto all = rank_step_in(*done_of({{"forward", 10, 1},
                                          {"backward", 20, 2},
                                          {"norm", 1, 4},
                                          {"update", 5, 8},
                                          {"reduce_scatter", 1000, 0},
                                          {"receive_activation", 1000, 0},
                                          {"capture", 1000, 0},
                                          {"evaluate", 1000, 1000},
                                          {"await_copies", 0, 1000},
                                          {"digest", 1000, 1000},
                                          {"knitting", 1000, 1000}})
                                     .get(),
                                9);
  CHECK(all.epoch == 9);
  CHECK(all.step == 7);
  CHECK(all.rank == 3);
  CHECK(all.own_ms == 36);
  CHECK(all.whole_ms == 36 + 15);
  CHECK(all.tokens == 32);
  CHECK(rank_step_in(*make_msg<fbs::StepDone>().get(), 1).own_ms == 0);
  // A pace is no part of what a step takes: else each fall of it would be a step_regression.
  const auto paced = [](uint32_t pace_of_1024) {
    return rank_step_in(
               *make_msg<fbs::StepDone>({},
                                        [&](auto& d) {
                                          d.parts.push_back(std::make_unique<fbs::StepPartT>());
                                          d.parts[0]->kind = "forward";
                                          d.parts[0]->busy_ms = 10;
                                          d.parts[0]->waited_ms = 40;
                                          d.pace_of_1024 = pace_of_1024;
                                        })
                    .get(),
               1)
        .whole_ms;
  };
  CHECK(paced(1024) == 50);
  CHECK(paced(512) == 25);
  CHECK(paced(64) == 10);  // no less than what it computed
  CHECK(paced(0) == 50);
  CHECK(paced(4'000'000'000) == 50);
}

TEST_CASE("SWN-1: the first steps of an epoch do not count, and an epoch begins anew") {
  told_steps t;
  t.make(3, 100 * s, 1000, 1000);
  CHECK(t.windows == 0);
  t.make(10, s);
  REQUIRE(t.windows == 1);
  CHECK(t.last.steps == 10);
  CHECK(t.last.epoch == 1);
  CHECK(t.last.step_ms == 1000);
  CHECK(t.last.own_ms == std::vector<float>{1, 2});
  CHECK(t.last.tokens == 128);
  t.make(9, s);
  t.epoch = 2;
  t.make(3, 100 * s);
  t.make(9, s);
  CHECK(t.windows == 1);
  t.epoch = 1;  // late
  t.make(100, s);
  CHECK(t.windows == 1);
  CHECK(t.policy.epoch() == 2);
}

TEST_CASE("SWN-2: steps at another pace begin a window anew, and are compared with none before") {
  CHECK(!paces_differ(0.52, 0.56));
  CHECK(paces_differ(0.5, 0.56));
  CHECK(paces_differ(1, 0.05));
  told_steps t;
  t.make(3, s);
  t.pace = 0.5;
  t.make(9, s);
  t.pace = 0.53;
  t.make(1, s);
  REQUIRE(t.windows == 1);
  CHECK(t.last.pace == 0.5);
  t.make(9, s);
  t.pace = 1;
  t.make(1, s);
  CHECK(t.windows == 1);
  t.make(10, s);
  CHECK(t.windows == 2);
  CHECK(t.last.pace == 1);
}

TEST_CASE("SWN-1: a step that a rank does not tell of does not count") {
  told_steps t;
  t.make(3, s);
  for (int i = 0; i < 100; ++i) {
    ++t.step;
    t.now_ns += s;
    t.tell(0, 1, 1);
    t.tell(0, 1, 1);  // twice is not both
    t.tell(7, 1, 1);  // a rank that there is not
    t.tell(1, std::numeric_limits<double>::quiet_NaN(), 1);
    t.tell(1, 1, -1);
  }
  CHECK(t.windows == 0);
  CHECK(t.policy.kept() == 0);
}

TEST_CASE("SWN-2: a window has its time and its steps, whatever they take") {
  told_steps quick;
  quick.make(3 + 9'999, short_step_ns);
  CHECK(quick.windows == 0);
  quick.make(1, short_step_ns);
  CHECK(quick.windows == 1);
  CHECK(quick.last.steps == 10'000);
  told_steps slow;
  slow.make(3 + 2, 60 * s);
  CHECK(slow.windows == 0);
  slow.make(1, 60 * s);
  CHECK(slow.windows == 1);
}

TEST_CASE("SWN-2: steps of other work begin a window anew") {
  told_steps t;
  t.make(3 + 9, s);
  t.make(10, s, 1, 2, 128);  // from the end of the first of them on
  CHECK(t.windows == 0);
  t.make(1, s, 1, 2, 128);
  CHECK(t.windows == 1);
  CHECK(t.last.tokens == 256);
}

TEST_CASE("SWN-3: of many steps a window keeps 64 at most, of all of its time") {
  told_steps t;
  t.make(3, s);
  for (int i = 0; i < 9'999; ++i) {
    t.make(1, short_step_ns, i < 5'500 ? 1 : 100, 2);
    CHECK(t.policy.kept() <= step_windows_policy::most_steps_kept);
  }
  CHECK(t.policy.kept() > step_windows_policy::most_steps_kept / 2);
  t.make(1, short_step_ns);
  REQUIRE(t.windows == 1);
  CHECK(t.last.own_ms[0] == 1);  // of the first and larger part
}

TEST_CASE("SWN: one step that takes long is nothing of a window") {
  told_steps t;
  t.make(3 + 5, s);
  t.make(1, 3 * s, 3000, 2);
  t.make(4, s);
  REQUIRE(t.windows == 1);
  CHECK(t.last.step_ms == 1000);
  CHECK(t.last.own_ms[0] == 1);
}
