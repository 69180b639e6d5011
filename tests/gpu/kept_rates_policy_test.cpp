// What is concluded of a drive from steps: little from one, nothing from those that something else
// bounds, and never a limit that steps go below.
#include "gpu/swap/kept_rates_policy.hpp"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

namespace troupe::gpu {
namespace {

struct slowed_drive {
  /// 2 GB/s read, 1 GB/s written, half of the shorter for nothing at once; products of no account.
  static constexpr machine_rates rates{1e15, 0, 2e9, 1e9, 0.5, 1e15};
  /// 4 GB read, 1 GB written: 2 s, and half of 1 s.
  static constexpr phase_work work{1e9, 0, 4e9, 1e9, 1e6};
  static constexpr double alone_s = 2.5;
};

/// A step whose reads and writes took so many times as long as the drive needs for all of it.
step_moves slowed_step(double reads, double writes) {
  constexpr auto s = slowed_drive::alone_s;
  return {4e9, 1e9, reads * s, writes * s, std::max({reads, writes, 1.0}) * s};
}

bool slowed_told(kept_rates_policy& policy, size_t steps, const step_moves& moved) {
  bool told = false;
  for (size_t i = 0; i < steps; ++i) {
    CHECK_FALSE(told);
    told = policy.stepped(slowed_drive::work, moved);
  }
  return told;
}

TEST_CASE("KRT-3: a drive that keeps half is told by three steps in a row, and no sooner") {
  kept_rates_policy policy(slowed_drive::rates);
  CHECK_FALSE(slowed_told(policy, 2, slowed_step(2, 2)));
  CHECK_FALSE(
      policy.stepped(slowed_drive::work, slowed_step(1, 1)));  // one that is as it should be
  CHECK_FALSE(slowed_told(policy, 2, slowed_step(2, 2)));
  CHECK(policy.keeps_all());
  CHECK(policy.stepped(slowed_drive::work, slowed_step(2.5, 2)));
  CHECK_FALSE(policy.keeps_all());
  CHECK(policy.rates().read_bytes_s == doctest::Approx(1e9));  // the best of the three
  CHECK(policy.rates().write_bytes_s == doctest::Approx(0.5e9));
  CHECK(policy.rates().duplex == slowed_drive::rates.duplex);
  CHECK(policy.rates().flops_s == slowed_drive::rates.flops_s);
  CHECK(limit_of(slowed_drive::work, policy.rates()).seconds == doctest::Approx(5));
}

TEST_CASE("KRT-3: reads and writes are judged each by themselves") {
  kept_rates_policy policy(slowed_drive::rates);
  CHECK(slowed_told(policy, 3, slowed_step(1, 4)));
  CHECK(policy.rates().read_bytes_s == slowed_drive::rates.read_bytes_s);
  CHECK(policy.rates().write_bytes_s == doctest::Approx(0.25e9));
}

TEST_CASE("KRT-3: what differs by less than a third changes nothing, and a drive recovers") {
  kept_rates_policy policy(slowed_drive::rates);
  CHECK_FALSE(slowed_told(policy, 9, slowed_step(1.45, 1.45)));
  CHECK(slowed_told(policy, 3, slowed_step(4, 4)));
  CHECK_FALSE(slowed_told(policy, 9, slowed_step(3.2, 3.2)));  // 0.31 of the rates, and 0.25 in use
  CHECK_FALSE(policy.stepped(slowed_drive::work, slowed_step(2, 2)));
  CHECK_FALSE(policy.stepped(slowed_drive::work, slowed_step(1, 1)));
  CHECK(policy.stepped(slowed_drive::work,
                       slowed_step(1.2, 1.2)));  // the third above; the nearest of them counts
  CHECK(policy.rates().read_bytes_s == doctest::Approx(1e9));
  CHECK(slowed_told(policy, 3, slowed_step(0.5, 0.2)));
  CHECK(policy.keeps_all());  // KRT-1
}

TEST_CASE("KRT-3: a drive that has nearly all of its rates back is in use with all of them") {
  kept_rates_policy policy(slowed_drive::rates);
  CHECK(slowed_told(policy, 3, slowed_step(2, 2)));
  CHECK_FALSE(policy.stepped(slowed_drive::work, slowed_step(1 / 0.76, 1 / 0.76)));
  CHECK_FALSE(policy.stepped(slowed_drive::work, slowed_step(1.1, 1.1)));
  CHECK(policy.stepped(slowed_drive::work, slowed_step(1.01, 1.01)));  // 0.76 could rise no more
  CHECK(policy.keeps_all());
  CHECK_FALSE(slowed_told(policy, 9, slowed_step(1.01, 1.01)));
  CHECK(slowed_told(policy, 3, slowed_step(4, 4)));
  CHECK(slowed_told(policy, 3, slowed_step(1.5, 1.5)));  // from here it still can
  CHECK_FALSE(policy.keeps_all());
  CHECK(slowed_told(policy, 3, slowed_step(1.01, 1.01)));
  CHECK(policy.keeps_all());
}

TEST_CASE("KRT-4: steps that the drive does not bound, and what was not measured, tell nothing") {
  auto slow = slowed_drive::rates;
  slow.flops_s = 1e8;
  kept_rates_policy products(slow);
  CHECK_FALSE(slowed_told(products, 9, slowed_step(4, 4)));
  // 1 s of products, 1 s of updates and 1 s of sums, of which none alone takes the drive's 2.5 s.
  auto shared = slowed_drive::rates;
  shared.processors = {1e9, 1e6, 5e9};
  auto work = slowed_drive::work;
  work.summed_bytes = 5e9;
  kept_rates_policy processors(shared);
  for (int i = 0; i < 9; ++i) CHECK_FALSE(processors.stepped(work, slowed_step(4, 4)));
  work.updates = 0;
  kept_rates_policy fewer(shared);
  for (int i = 0; i < 2; ++i) CHECK_FALSE(fewer.stepped(work, slowed_step(4, 4)));
  CHECK(fewer.stepped(work, slowed_step(4, 4)));
  kept_rates_policy unknown({});
  CHECK_FALSE(slowed_told(unknown, 9, slowed_step(4, 4)));
  kept_rates_policy policy(slowed_drive::rates);
  CHECK_FALSE(slowed_told(policy, 9, step_moves{4e9, 1e9, 0, 0, 10}));
  CHECK(policy.keeps_all());
}

TEST_CASE("KRT-4: a drive that was busy all the while bounds a step, whatever rates say") {
  auto slow = slowed_drive::rates;
  slow.flops_s = 2e8;
  for (const double busy : {0.8, 0.95}) {
    kept_rates_policy policy(slow);
    auto moved = slowed_step(4, 4);
    moved.busy_s = busy * moved.step_s;
    CHECK(slowed_told(policy, 3, moved) == (busy > kept_rates_policy::all_the_while));
  }
}

TEST_CASE("KRT-2: whatever steps show, no limit by the rates kept is much above one of them") {
  constexpr int steps_as_fast = 2 * static_cast<int>(kept_rates_policy::steps_in_a_row);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> any(0.05, 4);
  for (int i = 0; i < 2000; ++i) {
    auto drive = slowed_drive::rates;
    drive.duplex = any(random) / 4;
    drive.write_bytes_s = any(random) * 1e9;
    kept_rates_policy policy(drive);
    const double read = any(random) * 1e9, written = any(random) * 1e9;
    const phase_work bytes{0, 0, read, written, 0};
    const double alone = disk_seconds(read, written, drive);
    double longest_of_all = alone;
    for (int turn = 0; turn < 8; ++turn) {  // each with a speed of its own
      const double reads = any(random) * alone, writes = any(random) * alone;
      double longest = alone;
      for (int step = 0; step < steps_as_fast; ++step) {
        const auto about = [&](double s) { return s * (0.9 + any(random) / 40); };
        const step_moves moved{read, written, about(reads), about(writes),
                               (5 + any(random)) * alone};
        longest = std::max({longest, moved.read_s, moved.write_s});
        policy.stepped(bytes, moved);
      }
      longest_of_all = std::max(longest_of_all, longest);
      const double limit_s = limit_of(bytes, policy.rates()).seconds;
      CHECK(limit_s <= longest_of_all * (1 + 1e-9));
      CHECK(limit_s <= longest * (1 + kept_rates_policy::worth_it) * (1 + 1e-9));
      CHECK(policy.rates().read_bytes_s <= drive.read_bytes_s);
      CHECK(policy.rates().write_bytes_s <= drive.write_bytes_s);
    }
  }
}

}  // namespace
}  // namespace troupe::gpu
