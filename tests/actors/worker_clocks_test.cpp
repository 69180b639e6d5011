// The worker and the clocks of its operations: which it takes, and what it tells of them.
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "actors/train/worker.hpp"
#include "gpu/controls/actuator.hpp"
#include "tests/actors/scripted_worker.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::scripted_worker;

TEST_CASE("CKM-1: worker: a pass has the clocks that fit its operations, and else the highest") {
  scripted_worker f;
  f.prepare();
  const auto& o = f.script->made[0];
  const auto operations = static_cast<size_t>(2 * o.rows() / o.shape.micro_batch);
  const auto begin = [&](const std::function<void(fbs::StageClocksT&)>& change) {
    return f.ask<fbs::RunOp>([&](auto& op) {
      op.step = 9;
      op.kind = fbs::OpKind::begin;
      op.batch_slot = -1;
      op.clocks = std::make_unique<fbs::StageClocksT>();
      op.clocks->mhz.assign(operations, 1200);
      op.clocks->lasts_s.assign(operations, 0.5F);
      op.clocks->shortest_s.assign(operations, 0.25F);
      op.clocks->set_s = 0.01F;
      change(*op.clocks);
    });
  };
  f.answer<fbs::OpDone>(begin([](auto&) {}));
  REQUIRE(f.script->clocks);
  CHECK(f.script->clocks->size() == operations + 1);
  CHECK(f.script->clocks->first_mhz() == 1200);
  CHECK(f.script->clocks->mhz_of(operations) == gpu::controls::highest_clock_mhz);
  f.answer<fbs::OpDone>(begin([](auto& c) { c.holds = true; }));
  REQUIRE(f.script->clocks);
  CHECK(f.script->clocks->mhz_of(operations) == 1200);
  using change = std::function<void(fbs::StageClocksT&)>;
  for (const change& wrong :
       {change([](auto& c) { c.mhz.pop_back(); }), change([](auto& c) { c.lasts_s.clear(); }),
        change([](auto& c) { c.mhz[0] = 0; }), change([](auto& c) { c.mhz[0] = 2'000'000; }),
        change([](auto& c) { c.lasts_s[0] = -1; }),
        change([](auto& c) { c.shortest_s[0] = std::numeric_limits<float>::quiet_NaN(); }),
        change([](auto& c) { c.set_s = std::numeric_limits<float>::infinity(); })}) {
    f.answer<fbs::OpDone>(begin(wrong));
    CHECK_FALSE(f.script->clocks);
  }
}

TEST_CASE("worker: what of clocks came late, or cannot be set, is told with the step") {
  scripted_worker f;
  f.script->facts.sets_clocks = f.script->facts.saves_energy = true;
  f.script->facts.clocks_mhz = {1400, 700};
  const auto built = f.order(f.description());
  f.complete("build");
  const auto ready = f.answer<fbs::StageReady>(built);
  CHECK(ready.sets_clocks);
  CHECK(ready.saves_energy);
  CHECK(ready.clocks_mhz == std::vector<uint32_t>{1400, 700});
  f.script->outcome.late_clocks = 3;
  f.script->outcome.clocks_given_back_to = 2;
  f.script->outcome.clocks_failed = f.script->outcome.pauses = true;
  const auto number = f.finish(false);
  f.complete("update 9 by 0.25");
  const auto done = f.answer<fbs::StepDone>(number);
  CHECK(done.late_clocks == 3);
  CHECK(done.clocks_failed);
  CHECK(done.clocks_given_back_to == 2);
  CHECK(done.pauses);
}
