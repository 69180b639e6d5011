// When layers that spill compute again instead: by a drive that is as quick as a test says, step by
// step. A step takes what its phases take on that machine.
#include "gpu/swap/replan_policy.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace troupe::gpu {
namespace {

using replan_cause = replan_policy::cause;

constexpr int spilling_layers = 6;
/// Reads and writes at once for nothing; products are what half a step waits for.
constexpr machine_rates replan_rates{2e12, 0, 4e9, 4e9, 1, 1e15};

/// 10 GB of weights and state are read and 8 written; a layer writes 1 GB and reads it again, or
/// makes a tenth of all products again.
std::vector<step_work> replan_work() {
  std::vector<step_work> out;
  for (int again = 0; again <= spilling_layers; ++again) {
    const double moved = 1e9 * (spilling_layers - again);
    step_work w;
    w.forward = {3e12, 0, 2e9, moved, 0};
    w.backward = {7e12 + 1e12 * again, 0, 8e9 + moved, 8e9, 1e6};
    out.push_back(w);
  }
  return out;
}

machine_rates slowed(double share) {
  auto out = replan_rates;
  out.read_bytes_s *= share;
  out.write_bytes_s *= share;
  return out;
}

/// What a step is told as that is made on that machine, whose products may be slower, too.
step_moves made_on(const step_work& work, const machine_rates& machine) {
  step_moves out;
  for (const auto& phase : {work.forward, work.backward}) {
    const double reads = phase.read_bytes / machine.read_bytes_s,
                 writes = phase.written_bytes / machine.write_bytes_s;
    out.read_bytes += phase.read_bytes;
    out.written_bytes += phase.written_bytes;
    out.read_s += reads;
    out.write_s += writes;
    out.busy_s += std::max(reads, writes);
    out.step_s += limit_of(phase, machine).seconds;
  }
  return out;
}

struct replanned_run {
  replan_policy policy{replan_rates, replan_work()};
  std::vector<replan_policy::decision> all;
  std::vector<int> at;  ///< behind which steps
  int made = 0;
  double step_s = 0;  ///< of the last one

  void steps(int count, const machine_rates& machine) {
    const auto work = replan_work();
    for (int i = 0; i < count; ++i) {
      const auto moved = made_on(work[static_cast<size_t>(policy.again())], machine);
      step_s = moved.step_s;
      ++made;
      const auto news = policy.stepped(moved);
      if (!news) continue;
      all.push_back(*news);
      at.push_back(made);
    }
  }
};

TEST_CASE("SRP-1: on a drive that keeps what was measured nothing is chosen, nor by a dip") {
  replanned_run run;
  run.steps(200, replan_rates);
  for (int dips = 0; dips < 20; ++dips) {
    run.steps(2, slowed(0.2));
    run.steps(5, replan_rates);
  }
  run.steps(50, slowed(0.75));  // less than rates differ by anyway
  CHECK(run.all.empty());
  CHECK(run.policy.again() == 0);
}

TEST_CASE("SRP-2: a lasting fall is answered once, after three steps, and makes steps shorter") {
  for (const double share : {0.6, 0.5, 0.25, 0.1}) {
    CAPTURE(share);
    replanned_run run;
    run.steps(20, replan_rates);
    run.steps(2, slowed(share));
    CHECK(run.all.empty());
    const double before_s = run.step_s;
    run.steps(1, slowed(share));
    REQUIRE(run.all.size() == 1);
    run.steps(60, slowed(share));
    REQUIRE(run.all.size() == 1);
    const auto& told = run.all.front();
    CHECK(told.why == replan_cause::rates);
    CHECK(told.before == 0);
    CHECK(told.now == run.policy.again());
    CHECK(told.now > 0);
    CHECK(told.kept.read_bytes_s == doctest::Approx(share * replan_rates.read_bytes_s));
    CHECK(run.step_s < before_s);
  }
}

TEST_CASE("SRP-2: where nothing is gained by computing again nothing is chosen") {
  auto work = replan_work();
  for (auto& w : work) w.backward.flops *= 100;
  replan_policy policy(replan_rates, work);
  for (int i = 0; i < 100; ++i)
    CHECK_FALSE(policy.stepped(made_on(work[0], slowed(0.25))).has_value());
}

TEST_CASE("SRP-2: processors that sum what moves have less time to compute it again") {
  const auto chosen_with = [](const processor_rates& processors) {
    auto rates = replan_rates;
    rates.processors = processors;
    auto work = replan_work();
    for (auto& w : work)
      for (auto* phase : {&w.forward, &w.backward})
        phase->summed_bytes = phase->read_bytes + phase->written_bytes;
    auto slow = slowed(0.6);
    slow.processors = processors;
    replan_policy policy(rates, work);
    for (int i = 0; i < 40; ++i)
      static_cast<void>(policy.stepped(made_on(work[static_cast<size_t>(policy.again())], slow)));
    return policy.again();
  };
  CHECK(chosen_with({}) > 0);
  CHECK(chosen_with({2e12, 1e15, 1e15}) == chosen_with({}));
  CHECK(chosen_with({2e12, 1e15, 11e9}) == 0);
}

TEST_CASE("SRP-1: a drive that is quick again has layers do as they were chosen to") {
  replanned_run run;
  run.steps(10, slowed(0.25));  // it bounds steps in which all compute again, too
  REQUIRE(run.all.size() == 1);
  run.steps(10, slowed(0.25));
  run.steps(2, replan_rates);
  CHECK(run.all.size() == 1);
  run.steps(1, replan_rates);
  REQUIRE(run.all.size() == 2);
  CHECK(run.all.back().why == replan_cause::rates);
  CHECK(run.all.back().now == 0);
  run.steps(300, replan_rates);
  CHECK(run.all.size() == 2);
}

TEST_CASE("SRP-3: what is not seen of a drive is tried, each time after twice as many steps") {
  replanned_run run;
  run.steps(3, slowed(0.6));  // products bound steps in which some compute again
  REQUIRE(run.all.size() == 1);
  run.steps(replan_policy::patience - 1, slowed(0.6));
  CHECK(run.all.size() == 1);
  run.steps(1, slowed(0.6));
  REQUIRE(run.all.size() == 2);
  CHECK(run.all.back().why == replan_cause::trial);
  CHECK(run.all.back().now == 0);
  run.steps(replan_policy::steps_between, slowed(0.6));  // it is as slow as it was
  REQUIRE(run.all.size() == 3);
  CHECK(run.all.back().now == run.all.front().now);
  run.steps(2 * replan_policy::patience - 1, slowed(0.6));
  CHECK(run.all.size() == 3);
  run.steps(1, replan_rates);
  REQUIRE(run.all.size() == 4);
  CHECK(run.all.back().now == 0);
  run.steps(300, replan_rates);
  CHECK(run.all.size() == 4);
}

TEST_CASE("SRP-3: a choice by which steps get no shorter is taken back, and not soon made again") {
  replanned_run run;
  auto busy = slowed(0.25);  // what computes is slower by as much as anybody thinks of
  busy.flops_s /= 10;
  auto told = slowed(0.25);
  run.steps(3, told);
  REQUIRE(run.all.size() == 1);
  run.steps(replan_policy::untold_steps + 2, busy);
  CHECK(run.all.size() == 1);
  run.steps(1, busy);
  REQUIRE(run.all.size() == 2);
  CHECK(run.all.back().why == replan_cause::slower);
  CHECK(run.all.back().now == 0);
  run.steps(replan_policy::patience - 1, told);
  CHECK(run.all.size() == 2);
  run.steps(1, told);
  CHECK(run.all.size() == 3);
}

TEST_CASE("SRP-2: a drive that changes as quickly as it is told of is not followed") {
  replanned_run run;
  for (int i = 0; i < 100; ++i) {
    run.steps(4, slowed(0.25));
    run.steps(4, replan_rates);
  }
  REQUIRE(run.at.size() > 2);
  for (size_t i = 1; i < run.at.size(); ++i)
    CHECK(run.at[i] - run.at[i - 1] >= replan_policy::steps_between);
}

TEST_CASE("SRP-4: a step that tells nothing to one of several ranks counts for none of them") {
  constexpr int ranks = 3;
  replan_policy policy(replan_rates, replan_work());
  // Each has moved its part, one of them while somebody held it.
  const auto stepped = [&](int held) {
    step_moves all;
    for (int rank = 0; rank < ranks; ++rank) {
      auto own = made_on(replan_work()[static_cast<size_t>(policy.again())], slowed(0.25));
      own.read_bytes /= ranks;
      own.written_bytes /= ranks;
      if (rank == held) own.step_s *= 10;
      own.untold = rank == held ? 1 : 0;
      all += own;
    }
    all.settle_sum(ranks);
    return policy.stepped(all);
  };
  for (int i = 0; i < 30; ++i) CHECK_FALSE(stepped(i % ranks).has_value());
  CHECK_FALSE(stepped(-1).has_value());
  CHECK_FALSE(stepped(-1).has_value());
  CHECK_FALSE(stepped(0).has_value());
  const auto told = stepped(-1);
  REQUIRE(told.has_value());
  CHECK(told->why == replan_cause::rates);
  CHECK(told->kept.read_bytes_s == doctest::Approx(0.25 * replan_rates.read_bytes_s));
  CHECK(policy.again() > 0);
  const auto chosen = policy.again();
  for (int i = 0; i < 30; ++i) CHECK_FALSE(stepped(i % ranks).has_value());  // none is longer
  CHECK(policy.again() == chosen);
}

TEST_CASE("SRP-2: noise of a third is no reason for anything, on a drive of any speed") {
  std::mt19937 random(5);
  for (const double share : {1.0, 0.5, 0.25}) {
    CAPTURE(share);
    replanned_run run;
    run.steps(10, slowed(share));
    const auto before = run.all.size();
    for (int i = 0; i < 90; ++i)
      run.steps(1, slowed(share * std::uniform_real_distribution(0.85, 1.15)(random)));
    CHECK(run.all.size() == before);
  }
}

}  // namespace
}  // namespace troupe::gpu
