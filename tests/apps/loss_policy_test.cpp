// Which words of the console are asked about: what they would lose, by what the job says of itself.
#include "apps/control/loss_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::apps;

namespace {

/// Step 12 is done; checkpoints go up to 10, copies to 12.
loss_facts behind(uint64_t copied = 0) {
  return {.step = 12, .saved = 10, .copied = copied, .node_has_ranks = true};
}

bool asks(const console_command& c, const loss_facts& facts) {
  return loss_by(c, facts).has_value();
}

}  // namespace

TEST_CASE("LOS-1: a node that alone has the newest state is not taken out unasked") {
  const commands::evict evict{"node1"};
  const commands::replace replace{"node1"};
  for (const console_command& c : {console_command(evict), console_command(replace)}) {
    const auto loss = loss_by(c, behind());
    REQUIRE(loss);
    CHECK(loss->find("node1") != std::string::npos);
    CHECK(loss->find("steps 11 to 12") != std::string::npos);
    auto saved = behind();
    saved.saved = 12;
    CHECK_FALSE(asks(c, saved));
    auto spare = behind();
    spare.node_has_ranks = false;
    CHECK_FALSE(asks(c, spare));
    auto first = behind();
    first.saved = 0;
    CHECK(asks(c, first));
  }
  auto copied = behind(12);
  CHECK_FALSE(asks(replace, copied));
  CHECK(asks(evict, copied));  // fewer replicas have other ranks
  copied.spare_is_ready = true;
  CHECK_FALSE(asks(evict, copied));
  copied.copied = 11;
  CHECK(loss_by(evict, copied)->find("step 12") != std::string::npos);
}

TEST_CASE("LOS-1: going back gives up what is newer, on the disk or not") {
  CHECK(asks(commands::rewind{8, 0}, behind()));
  CHECK(asks(commands::rewind{12, 0}, behind()));  // to the checkpoint of 10
  CHECK(asks(commands::rewind{10, 5}, behind(12)));
  auto saved = behind();
  saved.saved = 12;
  CHECK(asks(commands::rewind{11, 0}, saved));
  CHECK_FALSE(asks(commands::rewind{12, 0}, saved));
}

TEST_CASE("LOS-1: who ends the run without a save is asked about") {
  auto run = behind();
  run.ends_run = true;
  CHECK(asks(commands::kill{"run"}, run));
  CHECK_FALSE(asks(commands::kill{"worker/0"}, behind()));  // it recovers
  run.saved = 12;
  CHECK_FALSE(asks(commands::kill{"run"}, run));
}

TEST_CASE("LOS-2: what saves, looks, or lets in is not asked about") {
  auto all = behind();
  all.ends_run = true;
  for (const console_command& c :
       {console_command(commands::drain{"node1"}), console_command(commands::stop{}),
        console_command(commands::admit{"node1"}), console_command(commands::pause{}),
        console_command(commands::status{}), console_command(commands::black_box{})}) {
    CHECK_FALSE(may_lose(c));
    CHECK_FALSE(asks(c, all));
  }
  CHECK(may_lose(commands::evict{"node1"}));
  CHECK(may_lose(commands::replace{"node1"}));
  CHECK(may_lose(commands::rewind{1, 0}));
  CHECK(may_lose(commands::kill{"run"}));
}

TEST_CASE("losses: of a view, whether a node has ranks and whether an actor's end is the run's") {
  fbs::ClusterViewT v;
  const auto add = [&](const char* node, const char* ranks, const char* path, const char* kind) {
    auto& n = *v.nodes.emplace_back(std::make_unique<fbs::ActorListT>());
    n.node = node;
    n.ranks = ranks;
    auto& actor = *n.actors.emplace_back(std::make_unique<fbs::ActorInfoT>());
    actor.path = path;
    actor.kind = kind;
  };
  add("head", "", "run", "run");
  add("node0", "data 0", "worker/0", "worker");
  add("node1", "", "node/node1", "node");
  CHECK(facts_in(v, commands::evict{"node0"}).node_has_ranks);
  CHECK(facts_in(v, commands::replace{"node0"}).node_has_ranks);
  CHECK_FALSE(facts_in(v, commands::evict{"node1"}).node_has_ranks);
  CHECK_FALSE(facts_in(v, commands::evict{"node7"}).node_has_ranks);
  CHECK(facts_in(v, commands::kill{"run"}).ends_run);
  CHECK(facts_in(v, commands::kill{"*"}).ends_run);
  CHECK_FALSE(facts_in(v, commands::kill{"worker/*"}).ends_run);
}
