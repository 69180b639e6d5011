// A job's part of a machine's watts.
#include "actors/power/machine_part_policy.hpp"

#include <vector>

#include <doctest/doctest.h>

#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr double idle_w = 20, core_w = 11;

/// That draws so without work, and so much more for each busy processor.
double draws(double busy) {
  return idle_w + core_w * busy;
}

}  // namespace

TEST_CASE("MPT-2: a job that has its machine alone has all of it") {
  machine_part_policy p;
  CHECK(!p.idle_w());
  p.look(draws(1), 1);
  CHECK(p.part_w(draws(1), 0.1) == draws(1));
  CHECK(p.idle_w() == draws(1));
  p.look(draws(0.5), -1);  // it is not known how busy it was
  CHECK(p.idle_w() == draws(0.5));
  p.shared_by(0);
  CHECK(p.jobs() == 1);
}

TEST_CASE("MPT-1: what a machine draws without work is found where somebody always works") {
  machine_part_policy p;
  p.shared_by(2);
  p.look(draws(1), 1);
  CHECK(p.idle_w() == 0);   // nothing is known of it
  p.look(draws(1.1), 1.1);  // too near to say more
  CHECK(p.idle_w() == 0);
  CHECK(p.part_w(draws(1), 0.5) == draws(1) / 2);
  p.look(draws(2), 2);
  CHECK(p.idle_w() == doctest::Approx(idle_w / 2));
  CHECK(p.part_w(draws(2), 0.25) == doctest::Approx(idle_w / 2 + 0.5 * core_w));
  p.look(5, 1);  // no line through that: less than the line says was seen
  CHECK(*p.idle_w() <= 2.5);
  CHECK(p.part_w(2, 0) <= 2);  // nor is a part of more than there is
}

TEST_CASE("MPT-1: a machine that rests draws without work what it draws then") {
  machine_part_policy p;
  p.shared_by(2);
  p.look(draws(0), 0.01);
  CHECK(p.idle_w() == idle_w / 2);
}

TEST_CASE(
    "MPT-1: parts of one machine are together no more than it draws, nor less with all of them") {
  sim::rng random(5);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const auto jobs = static_cast<uint32_t>(2 + random.below(4));
    std::vector<machine_part_policy> all(jobs);
    for (auto& p : all) p.shared_by(jobs);
    for (int look = 0; look < 20; ++look) {
      std::vector<double> busy;
      double sum = 0, strangers = random.chance(0.5) ? 0 : random.unit();
      for (uint32_t i = 0; i < jobs; ++i)
        sum += busy.emplace_back(random.chance(0.2) ? 0 : random.unit());
      const double power_w = draws(sum + strangers);
      double parts_w = 0;
      for (uint32_t i = 0; i < jobs; ++i) {
        all[i].look(power_w, sum + strangers);
        parts_w += all[i].part_w(power_w, sum + strangers > 0 ? busy[i] / (sum + strangers) : 0);
      }
      CHECK(parts_w <= power_w * (1 + 1e-9));
      if (strangers == 0 && sum > 0) CHECK(parts_w == doctest::Approx(power_w));
    }
  }
}
