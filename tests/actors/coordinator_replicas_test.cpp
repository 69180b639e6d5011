// Fewer replicas and more: when ranks are given to how many nodes (CRD-17).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "messages/text.hpp"
#include "tests/actors/scripted_cluster.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t recovered_epoch = cluster_epoch + 1;

scripted_cluster_options two_replica_options() {
  scripted_cluster_options o;
  o.recovers = o.launcher = o.two_replicas = true;
  return o;
}

/// A replica on each of a and b.
struct cluster_of_replicas : scripted_cluster {
  explicit cluster_of_replicas(const scripted_cluster_options& o = two_replica_options())
      : scripted_cluster(o) {
    begin();
    if (o.spare) REQUIRE(join(2));
    pass(0ns);
  }
  uint32_t epoch = cluster_epoch;

  void recover(uint32_t next = recovered_epoch) {
    epoch = next;
    run.tell(target, make_msg<fbs::Recover>(context_of(next)));
  }
  /// Time in which these nodes beat.
  void pass_on(std::chrono::seconds time, const std::vector<size_t>& beating) {
    for (auto left = time; left > 0s; left -= 1s) {
      for (const auto node : beating) REQUIRE(beat(node, epoch));
      pass(1s);
    }
  }
  /// A node dies, and the run begins another epoch.
  void lose(size_t node, uint32_t next = recovered_epoch) {
    const char name[] = {static_cast<char>('a' + node), 0};
    leave(name, "was killed", epoch);
    nodes[node].die();
    REQUIRE(run.take_all<fbs::NodeLost>().size() == 1);
    recover(next);
  }
  void quiet(size_t node) { nodes[node].take<fbs::Suspend>().answer<fbs::Suspended>(); }
  void take_rank(size_t node, uint32_t rank) {
    nodes[node].take<fbs::Assign>().answer<fbs::Assigned>(
        [&](auto& a) { a.ranks = {rank}; },
        std::vector{loaders[rank].self(), stages[rank].self()});
  }
  /// How many replicas the run is told of, and by whom they are.
  std::string crew() {
    const auto all = run.take_all<fbs::ClusterReady>();
    if (all.size() != 1) return fmt::format("{} crews", all.size());
    auto out = fmt::format("{}:", all[0]->replicas());
    for (const auto* n : *all[0]->nodes()) out += " " + n->node()->str();
    return out;
  }
  result<msg<fbs::Welcome>> join_again(size_t node) {
    nodes[node] = make_partner("again");
    instances[node] += " again";
    return join(node);
  }
  template <class Order>
  result<msg<fbs::Ack>> say(const char* node) {
    return person.answer_of<fbs::Ack>(
        person.ask(target, make_msg<Order>(context_of(0), [&](auto& o) { o.node = node; })));
  }
  /// b is gone, its process does not come, and a has both replicas' rows.
  void shrink() {
    lose(1);
    quiet(0);
    pass_on(59s, {0});
    CHECK(crew() == "0 crews");
    pass_on(2s, {0});
    take_rank(0, 0);
    REQUIRE(crew() == "1: a");
  }
};

}  // namespace

TEST_CASE("CRD-17: a node that does not come back is done without, by those that are there") {
  cluster_of_replicas f;
  f.shrink();
  CHECK(f.said("b did not come back within 60 s: going on with 1 of 2 replicas"));
  CHECK(f.run.take_all<fbs::AdmissionFailed>().empty());
}

TEST_CASE("CRD-17: who has no replica any more leaves its place to the first that has one") {
  cluster_of_replicas f;
  f.lose(0);
  f.quiet(1);
  f.pass_on(61s, {1});
  f.take_rank(1, 0);
  CHECK(f.crew() == "1: b");
}

TEST_CASE("CRD-17: a node that comes back in time has its place, and nothing changes") {
  cluster_of_replicas f;
  f.lose(1);
  f.quiet(0);
  f.pass_on(30s, {0});
  REQUIRE(f.join_again(1));
  f.pass(0ns);
  f.take_rank(0, 0);
  f.take_rank(1, 1);
  CHECK(f.crew() == "2: a b");
}

TEST_CASE("CRD-17: a job that wants no fewer replicas waits, and ends") {
  for (const bool wants : {true, false}) {
    CAPTURE(wants);
    auto o = two_replica_options();
    o.fewer_replicas = wants;
    cluster_of_replicas f(o);
    f.lose(1);
    f.quiet(0);
    f.pass_on(61s, {0});
    CHECK(f.nodes[0].take_all<fbs::Assign>().size() == (wants ? 1 : 0));
    if (wants) continue;
    f.pass_on(540s, {0});
    REQUIRE(f.run.take_all<fbs::AdmissionFailed>().size() >= 1);
  }
}

TEST_CASE("CRD-17: fewer replicas get no ranks whose slices do not fit what [swap] gives them") {
  for (const bool fits : {true, false}) {
    CAPTURE(fits);
    auto o = two_replica_options();
    o.swap_bytes = fits ? int64_t{1} << 30 : int64_t{1} << 20;
    cluster_of_replicas f(o);
    f.lose(1);
    f.quiet(0);
    f.pass_on(61s, {0});
    CHECK(f.nodes[0].take_all<fbs::Assign>().size() == (fits ? 1 : 0));
  }
}

TEST_CASE("CRD-17: a node whose starts are used up is not waited for") {
  cluster_of_replicas f;
  f.lose(1);
  f.quiet(0);
  for (int i = 0; i < 3; ++i) f.leave("b", "exited with 1", recovered_epoch);
  f.pass(0ns);
  f.take_rank(0, 0);
  CHECK(f.crew() == "1: a");
  CHECK(f.run.take_all<fbs::AdmissionFailed>().empty());
}

TEST_CASE("CRD-17: a spare comes first, and there are fewer replicas once there is none") {
  auto o = two_replica_options();
  o.spare = true;
  cluster_of_replicas f(o);
  f.lose(1);
  f.quiet(0);
  f.quiet(2);
  f.take_rank(0, 0);
  f.take_rank(2, 1);
  CHECK(f.crew() == "2: a c");
  f.lose(2, recovered_epoch + 1);
  f.quiet(0);
  f.pass_on(61s, {0});
  f.take_rank(0, 0);
  CHECK(f.crew() == "1: a");
}

TEST_CASE("CRD-17: the run is asked for room once there are nodes for more, and gets them") {
  cluster_of_replicas f;
  f.shrink();
  CHECK(f.run.take_all<fbs::ReleaseNode>().empty());
  REQUIRE(f.join_again(1));
  f.pass_on(2s, {0, 1});
  const auto asked = f.run.take_all<fbs::ReleaseNode>();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0]->grows());
  CHECK(text_of(asked[0]->node()).empty());
  f.recover(recovered_epoch + 1);
  f.quiet(0);
  f.quiet(1);
  f.take_rank(0, 0);
  f.take_rank(1, 1);
  CHECK(f.crew() == "2: a b");
  f.pass_on(120s, {0, 1});
  CHECK(f.run.take_all<fbs::ReleaseNode>().empty());
}

TEST_CASE("CRD-17: it is asked again where the run could not, and not while it stops") {
  cluster_of_replicas f;
  f.shrink();
  REQUIRE(f.join_again(1));
  f.pass_on(50s, {0, 1});
  CHECK(f.run.take_all<fbs::ReleaseNode>().size() == 1);
  f.pass_on(60s, {0, 1});
  CHECK(f.run.take_all<fbs::ReleaseNode>().size() == 1);
  f.person.tell(f.target, make_msg<fbs::StopTraining>(f.context_of(0)));
  f.pass_on(120s, {0, 1});
  CHECK(f.run.take_all<fbs::ReleaseNode>().empty());
}

TEST_CASE("CRD-17: an epoch that begins anyway has as many replicas as there are nodes for") {
  cluster_of_replicas f;
  f.shrink();
  REQUIRE(f.join_again(1));
  f.pass(0ns);
  f.recover(recovered_epoch + 1);
  f.quiet(0);
  f.quiet(1);
  f.take_rank(0, 0);
  f.take_rank(1, 1);
  CHECK(f.crew() == "2: a b");
}

TEST_CASE("CRD-17: who is drained or evicted is done without at once, where no spare is there") {
  for (const bool drained : {true, false}) {
    CAPTURE(drained);
    cluster_of_replicas f;
    if (drained) {
      REQUIRE(f.say<fbs::DrainNode>("b"));
      const auto asked = f.run.take_all<fbs::ReleaseNode>();
      REQUIRE(asked.size() == 1);
      CHECK_FALSE(asked[0]->grows());
    } else {
      REQUIRE(f.say<fbs::EvictNode>("b"));
      REQUIRE(f.run.take_all<fbs::NodeLost>().size() == 1);
    }
    f.recover();
    f.quiet(0);
    f.pass(0ns);
    f.take_rank(0, 0);
    CHECK(f.crew() == "1: a");
    CHECK(f.launcher.take_all<fbs::Launch>().empty());
    const auto again = f.say<fbs::EvictNode>("a");  // nobody would be left
    REQUIRE_FALSE(again);
    CHECK(again.error().is(no_spare));
    REQUIRE(f.say<fbs::AdmitNode>("b"));
    REQUIRE(f.join_again(1));
    f.pass_on(2s, {0, 1});
    CHECK(f.run.take_all<fbs::ReleaseNode>().size() == 1);
  }
}

TEST_CASE("CRD-17: who was lost twice within an hour is not what a job grows by") {
  cluster_of_replicas f;
  f.lose(1);
  f.quiet(0);
  REQUIRE(f.join_again(1));
  f.pass(0ns);
  f.take_rank(0, 0);
  f.take_rank(1, 1);
  REQUIRE(f.crew() == "2: a b");
  f.lose(1, recovered_epoch + 1);
  f.quiet(0);
  f.pass_on(61s, {0});
  f.take_rank(0, 0);
  CHECK(f.crew() == "1: a");
  const auto refused = f.join_again(1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(node_evicted));
}

TEST_CASE("CRD-17: a coordinator that goes on for a lost one begins with its replicas") {
  auto o = two_replica_options();
  o.goes_on = true;
  o.memory.emplace();
  o.memory->nodes = {"a", "b"};
  for (const uint32_t node : {1, 0}) {  // b has the first place
    auto& p = *o.memory->places.emplace_back(std::make_unique<fbs::PlaceMemoryT>());
    p.node = node;
    p.workers = p.threads = p.cores = 1;
  }
  o.memory->replicas = 1;
  scripted_cluster f(o);
  REQUIRE(f.join(1));
  f.pass(0ns);
  f.nodes[1].take<fbs::Assign>().answer<fbs::Assigned>(
      [&](auto& a) { a.ranks = {0}; }, std::vector{f.loaders[0].self(), f.stages[0].self()});
  const auto all = f.run.take_all<fbs::ClusterReady>();
  REQUIRE(all.size() == 1);
  CHECK(all[0]->replicas() == 1);
  REQUIRE(all[0]->nodes()->size() == 1);
  CHECK(all[0]->nodes()->Get(0)->node()->str() == "b");
}
