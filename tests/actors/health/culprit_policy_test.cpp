// From a wait graph to the one who holds up the others.
#include "actors/health/culprit_policy.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/actors/health/seconds.hpp"

using namespace troupe::health;
using namespace troupe::trace;

namespace {

using troupe::health::test::s;

waiting_actor who(std::string path, std::string state, std::vector<waiting_for> waits = {}) {
  waiting_actor a;
  a.path = std::move(path);
  a.state = std::move(state);
  a.waits = std::move(waits);
  return a;
}

waiting_process node(std::string name, std::vector<waiting_actor> actors, int64_t silent_ns = 0) {
  waiting_process p;
  p.node = std::move(name);
  p.silent_ns = silent_ns;
  p.actors = std::move(actors);
  return p;
}

using cluster = std::vector<waiting_process>;

/// The head, whose run waits for both stages, and two nodes.
cluster with(std::vector<waiting_actor> first, std::vector<waiting_actor> second,
             int64_t second_silent_ns = 0) {
  return {node("head", {who("run", "training",
                            {{"stage/0", "StepDone of step 9", 4 * s},
                             {"stage/1", "StepDone of step 9", 4 * s}})}),
          node("a", std::move(first)), node("b", std::move(second), second_silent_ns)};
}

std::vector<finding> named_in(const cluster& c) {
  return culprits_of(c, find_culprits(c, {}), 4, 3);
}

/// A stage that waits for its worker, and that for another one's.
std::vector<waiting_actor> waiting_rank(int rank, int other) {
  return {who(fmt::format("stage/{}", rank), "training",
              {{fmt::format("worker/{}", rank), "forward of micro-batch 0", 4 * s}}),
          who(fmt::format("worker/{}", rank), "ready",
              {{fmt::format("worker/{}", other), "receive_activation 0", 4 * s}})};
}

}  // namespace

TEST_CASE("CUL-1: the process that does not answer is named, not the one that waits for it") {
  const auto f = named_in(with(waiting_rank(0, 1), waiting_rank(1, 0), 4 * s));
  REQUIRE(f.size() == 1);
  CHECK(f[0].who == subject{finding_name::frozen_process, "b"});
  CHECK(f[0].shown.seen == 4);
}

TEST_CASE("CUL-1: a device that computes for ever is named by its rank, not its victim's") {
  const auto f =
      named_in(with(waiting_rank(0, 1),
                    {who("stage/1", "training", {{"worker/1", "forward of micro-batch 0", 4 * s}}),
                     who("worker/1", "forward")}));
  REQUIRE(f.size() == 1);
  CHECK(f[0].who == subject{finding_name::stuck_device, "b", 1});
  CHECK(f[0].shown.seen == 4);
  CHECK(f[0].shown.wanted == 3);
  CHECK(f[0].shown.text.find("forward") != std::string::npos);
}

TEST_CASE("CUL-1: a rank that never came to the transfer holds up the others: stuck_collective") {
  const auto f =
      named_in(with(waiting_rank(0, 1), {who("stage/1", "idle"), who("worker/1", "ready")}));
  REQUIRE(f.size() == 1);
  CHECK(f[0].who.name == finding_name::stuck_collective);
  CHECK(f[0].who.node == "b");
  CHECK(f[0].who.rank == 1);
}

TEST_CASE("a worker that handles one message for long hangs in its device's driver") {
  auto busy = who("worker/1", "ready");
  busy.handling = "RunOp";
  busy.handling_for_ns = 4 * s;
  const auto f = named_in(with(waiting_rank(0, 1), {who("stage/1", "training"), busy}));
  REQUIRE(f.size() == 1);
  CHECK(f[0].who == subject{finding_name::stuck_device, "b", 1});
}

TEST_CASE("a drive that does not answer is its rank's device") {
  const auto f = named_in(with(
      waiting_rank(0, 1),
      {who("stage/1", "training", {{"worker/1", "forward", 4 * s}}),
       who("worker/1", "forward", {{"swapper/1", "chunk 3", 4 * s}}), who("swapper/1", "read")}));
  REQUIRE(f.size() == 1);
  CHECK(f[0].who == subject{finding_name::stuck_device, "b", 1});
  CHECK(f[0].shown.text.find("read of swapper/1") != std::string::npos);
}

TEST_CASE("who waits for an actor that is not there is no culprit, the missing one is") {
  const auto f =
      named_in({node("a", {who("worker/0", "ready", {{"worker/7", "all_reduce 0", 4 * s}})})});
  REQUIRE(f.size() == 1);
  CHECK(f[0].who.name == finding_name::dead_process);
  CHECK(f[0].who.rank == 7);
}

TEST_CASE("a deadlock is a pair") {
  const auto f = named_in({node("a", {who("worker/0", "ready", {{"worker/1", "send", 4 * s}})}),
                           node("b", {who("worker/1", "ready", {{"worker/0", "send", 3 * s}})})});
  REQUIRE(f.size() == 1);
  CHECK(f[0].who == subject{finding_name::stuck_collective, "a", 0, 1});
}

TEST_CASE("nobody waits: nobody is named") {
  CHECK(named_in({}).empty());
  CHECK(named_in({node("a", {who("worker/0", "forward")})}).empty());
}

TEST_CASE("CUL-2: links are tested to whoever waits for nobody, from ranks elsewhere that wait") {
  const auto links = [](const cluster& c) { return nodes_of_links(c, find_culprits(c, {})); };
  const auto waits_for_batch = [](int rank) {
    return who(fmt::format("stage/{}", rank), "training", {{"loader/a", "batch 3", 4 * s}});
  };
  const auto loader = who("loader/a", "open");
  CHECK(links(with({waits_for_batch(0), loader}, {waits_for_batch(1)})) ==
        std::vector<std::string>{"b", "a"});
  CHECK(links(with({waits_for_batch(0), loader}, {who("stage/1", "idle")})).empty());
  // The silent one is it.
  CHECK(links(with({waits_for_batch(0), loader}, {waits_for_batch(1)}, 4 * s)).empty());
}
