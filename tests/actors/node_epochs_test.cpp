// How a node goes from one epoch to the next.
#include <array>

#include "tests/actors/scripted_node.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;

TEST_CASE("NOD-2: node: suspended, it ends all of its ranks and takes others in the next epoch") {
  scripted_node f;
  f.join();
  REQUIRE(f.assigned(scripted_node::ranks_of({0, 1})));
  const auto suspend = [&](uint32_t epoch) {
    return f.coordinator.ask(f.target, make_msg<fbs::Suspend>(f.context_of(epoch)));
  };
  const auto old = f.coordinator.answer_of<fbs::Suspended>(suspend(node_epoch - 1));
  CHECK_FALSE(old);
  CHECK(f.living("stage/0"));
  REQUIRE(f.coordinator.answer_of<fbs::Suspended>(suspend(node_epoch + 1)));
  for (const char* gone : {"stage/0", "stage/1", "worker/0", "worker/1", "loader/m"})
    CHECK_FALSE(f.living(gone));
  CHECK(f.ends->empty());
  CHECK_FALSE(f.assigned(scripted_node::ranks_of({0})));  // of the epoch before
  REQUIRE(f.assigned(scripted_node::ranks_of({1}), node_epoch + 1));
  CHECK(f.living("stage/1"));
  CHECK(f.living("loader/m"));
  // Twice in a row, before anybody has ranks.
  REQUIRE(f.coordinator.answer_of<fbs::Suspended>(suspend(node_epoch + 2)));
  REQUIRE(f.coordinator.answer_of<fbs::Suspended>(suspend(node_epoch + 3)));
  CHECK(f.ends->empty());
}

TEST_CASE("NOD-2: node: suspended in the epoch that it lives in, it takes other ranks in that") {
  scripted_node f;
  f.join();
  REQUIRE(f.assigned(scripted_node::ranks_of({0})));
  REQUIRE_FALSE(f.assigned(scripted_node::ranks_of({1})));
  REQUIRE(f.coordinator.answer_of<fbs::Suspended>(
      f.coordinator.ask(f.target, make_msg<fbs::Suspend>(f.context_of(node_epoch)))));
  for (const char* gone : {"stage/0", "worker/0", "loader/m"}) CHECK_FALSE(f.living(gone));
  REQUIRE(f.assigned(scripted_node::ranks_of({1})));
  CHECK(f.living("stage/1"));
  CHECK_FALSE(f.living("stage/0"));
  CHECK(f.living("loader/m"));
  CHECK(f.ends->empty());
}

TEST_CASE(
    "NOD-10: node: beside the worker of a rank that swaps is a swapper, which ends behind it") {
  scripted_node f;
  auto w = scripted_node::welcome();
  auto job = config::parse(w.config_toml, "the job of the test");
  REQUIRE(job);
  job->swap.dir = {"nowhere"};
  w.config_toml = config::to_toml(*job);
  f.join(w);
  REQUIRE(f.assigned(scripted_node::ranks_of({0, 1})));
  // Held, as their workers do: nobody ends for want of handles.
  const std::array held{f.living("swapper/0"), f.living("swapper/1")};
  for (const auto& there : held) CHECK(there);
  REQUIRE(f.coordinator.answer_of<fbs::Suspended>(
      f.coordinator.ask(f.target, make_msg<fbs::Suspend>(f.context_of(node_epoch + 1)))));
  for (const char* gone : {"worker/0", "worker/1", "swapper/0", "swapper/1"})
    CHECK_FALSE(f.living(gone));
  CHECK(f.ends->empty());
  REQUIRE(f.assigned(scripted_node::ranks_of({1}), node_epoch + 1));
  f.end(f.living("swapper/1"), {errc::io, "no drive"});
  CHECK(f.ended().code == errc::io);
}

TEST_CASE("node: where all is in memory there is no swapper") {
  scripted_node f;
  f.join();
  REQUIRE(f.assigned(scripted_node::ranks_of({0})));
  CHECK(f.living("worker/0"));
  CHECK_FALSE(f.living("swapper/0"));
}

TEST_CASE("NOD-4: node: a process that has lost its device ends instead of beginning an epoch") {
  scripted_node f;
  f.join();
  REQUIRE(f.assigned(scripted_node::ranks_of({0})));
  f.machine->lost = error{errc::unavailable, "cudaErrorECCUncorrectable"};
  const auto asked =
      f.coordinator.ask(f.target, make_msg<fbs::Suspend>(f.context_of(node_epoch + 1)));
  const auto answer = f.coordinator.answer_of<fbs::Suspended>(asked);
  CHECK(is_error(answer, cluster::device_lost, "cudaErrorECCUncorrectable"));
  CHECK(is_error(f.ended(), cluster::device_lost));
  CHECK_FALSE(f.living("stage/0"));
}
