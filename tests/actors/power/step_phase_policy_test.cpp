// A job's side of being shifted: which steps beat, and which orders hold one back.
#include "actors/power/step_phase_policy.hpp"

#include <limits>

#include <doctest/doctest.h>

using namespace troupe::power;

namespace {

constexpr int64_t beat_ms = 1'000'000, beat_s = 1'000 * beat_ms;

/// Steps of a second from 0 on, the first of which is 1.
struct stepping_job {
  step_phase_policy own;
  uint64_t step = 0;
  int64_t now_ns = 0;

  explicit stepping_job(int steps = 9) {
    for (int i = 0; i < steps; ++i) begin();
  }
  /// The next one begins, `takes_ns` after the last one.
  void begin(int64_t takes_ns = beat_s, int64_t late_ns = 0) {
    if (step > 0) now_ns += takes_ns;
    own.steps(++step, 1, late_ns, now_ns);
  }
  bool hear(uint64_t life, uint64_t number, int64_t offset_ns = 400 * beat_ms) {
    return own.hear(life, {number, offset_ns}, now_ns, now_ns);
  }
};

}  // namespace

TEST_CASE("SPH-1: steps beat once eight of them are known, most of which are as long") {
  stepping_job j(8);
  CHECK(!j.own.beat(j.now_ns));
  j.begin();
  CHECK(j.own.beat(j.now_ns) == step_beat{beat_s, j.now_ns});
  CHECK(j.own.beat(j.now_ns + 2 * beat_s));
  CHECK(!j.own.beat(j.now_ns + 2 * beat_s + 1));  // it stands
  j.begin(3 * beat_s);                            // as one that saved
  j.begin(3 * beat_s);
  CHECK(j.own.beat(j.now_ns)->period_ns == beat_s);
  j.begin(3 * beat_s);
  CHECK(!j.own.beat(j.now_ns));
  stepping_job uneven(1);
  for (int i = 0; i < 20; ++i) uneven.begin(beat_s + (i % 3) * 100 * beat_ms);
  CHECK(!uneven.own.beat(uneven.now_ns));
}

TEST_CASE("SPH-1: a step that was held back says nothing of how long steps take") {
  stepping_job j;
  j.begin(beat_s, 400 * beat_ms);
  CHECK(j.own.beat(j.now_ns) == step_beat{beat_s, j.now_ns + 400 * beat_ms});
  j.begin(1400 * beat_ms);
  CHECK(j.own.beat(j.now_ns) == step_beat{beat_s, j.now_ns});
}

TEST_CASE("SPH-1, SPH-4: where no step is made, or ranks are new, nothing beats or is pending") {
  stepping_job j;
  CHECK(j.hear(1, 1));
  j.own.steps(0, 1, 0, j.now_ns);
  CHECK(!j.own.beat(j.now_ns));
  CHECK(j.own.take() == 0);
  stepping_job k;
  CHECK(k.hear(1, 1));
  k.own.steps(k.step, 2, 0, k.now_ns);  // the same step, by other ranks
  CHECK(!k.own.beat(k.now_ns));
  CHECK(k.own.take() == 0);
}

TEST_CASE("SPH-2: an order is followed once, and none that is older") {
  stepping_job j;
  CHECK(j.hear(2, 3));
  CHECK(j.own.take() == 400 * beat_ms);
  CHECK(j.own.take() == 0);
  j.begin(beat_s, 400 * beat_ms);
  for (int i = 0; i < 20; ++i) j.begin();
  CHECK(!j.hear(2, 3));
  CHECK(!j.hear(2, 2));
  CHECK(!j.hear(1, 9));
  CHECK(!j.hear(2, 0));
  CHECK(j.hear(2, 4));
  for (int i = 0; i < 20; ++i) j.begin();
  CHECK(j.hear(3, 1));  // of a later life
}

TEST_CASE("SPH-3: no order holds a step back by as much as it takes, nor one that does not beat") {
  stepping_job j;
  CHECK(!j.hear(1, 1, beat_s));
  CHECK(!j.hear(1, 2, 0));
  CHECK(!j.hear(1, 3, -1));
  CHECK(!j.own.hear(1, {4, beat_s / 2}, j.now_ns - 5 * beat_s - 1, j.now_ns));
  for (const auto sent_ns :
       {std::numeric_limits<int64_t>::min(), j.now_ns + 1, std::numeric_limits<int64_t>::max()})
    CHECK(!step_phase_policy(j.own).hear(1, {5, beat_s / 2}, sent_ns, j.now_ns));
  CHECK(!j.hear(1, 4));  // what was refused is not followed later
  CHECK(j.hear(1, 5, beat_s - 1));
  stepping_job young(4);
  CHECK(!young.hear(1, 1));
}

TEST_CASE("SPH-3: whatever is ordered, of sixteen steps one is held back at most") {
  stepping_job j;
  uint64_t number = 0;
  int held = 0;
  for (int i = 0; i < 160; ++i) {
    j.hear(1, ++number);
    const auto late = j.own.take();
    held += late > 0;
    j.begin(beat_s, late);
  }
  CHECK(held <= 10);
  CHECK(held >= 9);
}
