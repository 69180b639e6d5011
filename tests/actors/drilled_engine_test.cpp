// Faults of an engine that makes them itself: when each begins, what it changes and what it leaves.
#include "actors/train/drilled_engine.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "tests/actors/replicas.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::train;
using config::drill_kind;
using troupe::train::test::replicas;

namespace {

/// What the engines of a test have done to their process; and the end of hangs.
struct drill_marks {
  int ended = 0, silent = 0;
  std::promise<void> hangs, goes_on;
  std::shared_future<void> end_of_hangs = goes_on.get_future().share();
};

/// Replicas of which the last one makes a drill.
replicas drilled(int count, const config::drill_spec& drill,
                 const std::shared_ptr<drill_marks>& marks = std::make_shared<drill_marks>()) {
  const auto make = [=](const engine_options& o) -> result<std::unique_ptr<rank_engine>> {
    if (o.at.rank != count - 1) return rank_engine::make(o);
    auto options = o;
    options.drills = {drill};
    return drilled_engine::make(options, {[marks] { ++marks->ended; }, [marks] { ++marks->silent; },
                                          [marks] {
                                            marks->hangs.set_value();
                                            marks->end_of_hangs.wait();
                                          }});
  };
  return replicas(count, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32, make);
}

const config::drill_spec slow_in_2{"rank 1", drill_kind::slow, 2, 0, 3};

}  // namespace

TEST_CASE("DRE-2: drills: a slow rank computes what it would have, in more time") {
  const auto losses = replicas(2).steps(4);
  CHECK(drilled(2, slow_in_2).steps(4) == losses);
  auto two = drilled(2, {"rank 1", drill_kind::slow, 2, 0, 1000});
  two.step(1);
  two.forward(0, 2);
  two.forward(1, 2);
  auto slow = two.finish(1, 2), quick = two.finish(0, 2);
  const auto forward_ms = [](const step_outcome& o) {
    for (const auto& p : o.parts)
      if (p.kind == pipeline_op::forward) return p.busy_ms;
    return 0.0;
  };
  quick.get();
  CHECK(forward_ms(slow.get()) > 1);  // it says so, as a slow one does
}

TEST_CASE("DRE-3: drills: a slow rank that is given up does not wait on") {
  auto one = drilled(1, {"rank 0", drill_kind::slow, 1, 0, 1e9});
  auto step = one.forward(0, 1);
  CHECK_FALSE(step.within(std::chrono::milliseconds(50)));
  one.ranks[0]->abort();
  step.get();
}

TEST_CASE("DRE-1: drills: an operation of the step does not end, those before it do") {
  const auto losses = replicas(2).steps(3);
  const auto marks = std::make_shared<drill_marks>();
  auto two = drilled(2, {"rank 1", drill_kind::hang, 2, 0, 0}, marks);
  CHECK(two.step(1) == losses[0]);
  two.forward(0, 2);
  auto hung = two.forward(1, 2);
  marks->hangs.get_future().wait();
  CHECK_FALSE(hung.within(std::chrono::milliseconds(50)));
  marks->goes_on.set_value();  // which no hang of a process does
  hung.get();
}

TEST_CASE("DRE-1: drills: the process ends or falls silent in its step, once") {
  const auto marks = std::make_shared<drill_marks>();
  auto fails = drilled(1, {"rank 0", drill_kind::fail, 2, 2, 0}, marks);
  const auto ended_after = [&](int64_t step) {
    fails.step(step);
    return marks->ended;
  };
  CHECK(ended_after(1) == 0);
  CHECK(ended_after(2) == 1);
  CHECK(ended_after(2) == 1);  // made again
  CHECK(ended_after(3) == 1);
  CHECK(ended_after(4) == 2);
  CHECK(marks->silent == 0);
  auto drops = drilled(1, {"node0", drill_kind::drop, 1, 0, 0}, marks);
  drops.step(1);
  drops.step(2);
  CHECK(marks->silent == 1);
  CHECK(marks->ended == 2);
}

TEST_CASE("DRE-2: drills: a bit of the weights turns right before they are compared") {
  const auto losses = replicas(2).steps(3);
  auto two = drilled(2, {"rank 1", drill_kind::wrong_bit, 1, 0, 0});
  CHECK(two.step(1) == losses[0]);  // nobody compares
  for (size_t r = 0; r < 2; ++r) {
    two.forward(r, 2);
    two.ranks[r]->digest_weights();
  }
  std::vector<troupe::train::test::pending> updates;
  for (size_t r = 0; r < 2; ++r) updates.push_back(two.finish(r, 2));
  std::vector<step_outcome> told;
  for (auto& u : updates) told.push_back(u.get());
  CHECK((told[0].loss_sum + told[1].loss_sum) / static_cast<double>(troupe::train::test::batch *
                                                              troupe::train::test::seq) ==
        losses[1]);
  using namespace troupe::train::test;
  const auto shape =
      options_for(0, 2, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32).shape;
  const auto chunks = gpu::stage_chunks(small_model(), shape);
  REQUIRE(told[0].digests.size() == chunks.size());  // the last one's, too
  REQUIRE(told[1].digests.size() == chunks.size());
  CHECK(told[0].digests.back() != 0);
  CHECK(told[0].digests.front() != told[1].digests.front());
  for (size_t c = 1; c < told[0].digests.size(); ++c)
    CHECK(told[0].digests[c] == told[1].digests[c]);
}

TEST_CASE("drills: a slow disk has the next checkpoint late, and the one after it is not") {
  scratch dir;
  const auto save = [&](replicas& of, uint64_t step) {
    auto vote = std::make_shared<std::promise<bool>>();
    of.ranks[0]->save(step, dir.path / std::to_string(step), false,
                      [vote](const auto& v) { vote->set_value(bool(v)); });
    return vote->get_future();
  };
  auto late = drilled(1, {"rank 0", drill_kind::disk_slow, 1, 0, 1e9});
  late.step(1);
  auto vote = save(late, 1);
  CHECK(vote.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  late.ranks.clear();
  CHECK_FALSE(vote.get());
  auto one = drilled(1, {"rank 0", drill_kind::disk_slow, 1, 0, 3});
  one.step(1);
  CHECK(save(one, 2).get());
  CHECK(save(one, 3).get());
}
