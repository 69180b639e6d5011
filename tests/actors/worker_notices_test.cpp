// What the worker's engine has to say to the person goes on, whichever thread it is said on.
#include <thread>

#include <doctest/doctest.h>

#include "tests/actors/scripted_worker.hpp"

using namespace troupe;
using troupe::train::test::scripted_worker;

TEST_CASE("worker: what its engine has to say to the person goes to its stage") {
  scripted_worker f;
  f.script->facts.warnings = {"no O_DIRECT in /swap"};
  f.build();
  f.settle();
  CHECK(f.stage.take<fbs::Notice>()->text()->str() == "rank 3: no O_DIRECT in /swap");
  std::thread([&] { f.script->made[0].on_notice("the drive is full"); }).join();
  f.settle();
  const auto said = f.stage.take<fbs::Notice>();
  CHECK(said->text()->str() == "rank 3: the drive is full");
  CHECK(said->level() == fbs::NoticeLevel::warning);
}
