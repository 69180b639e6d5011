// How one epoch follows another: who is suspended, who is started again, and what the run hears.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/cluster/node.hpp"
#include "tests/actors/scripted_cluster.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t next_epoch = cluster_epoch + 1;

/// Its run trains, and has just heard that b is lost.
struct cluster_without_b : scripted_cluster {
  explicit cluster_without_b(bool with_launcher = true)
      : scripted_cluster({.launcher = with_launcher}) {
    begin();
    run.take_all<fbs::ClusterReady>();
    leave("b", "was killed");
    nodes[1].die();
    REQUIRE(lost().node == "b");
  }
  void recover(uint32_t epoch = next_epoch) {
    run.tell(target, make_msg<fbs::Recover>(context_of(epoch)));
  }
  size_t ordered(const char* node) {
    const auto all = launcher.take_all<fbs::Launch>();
    for (const auto& m : all) CHECK(m->node()->str() == node);
    return all.size();
  }
  /// Another process of the same name.
  void join_again() {
    nodes[1] = make_partner("b again");
    instances[1] = "i1 again";
    REQUIRE(join(1));
    pass(0ns);
  }
  /// The run has its crew of this epoch.
  void begin_again(uint32_t epoch) {
    for (const size_t node : {0, 1}) {
      const auto order = nodes[node].take<fbs::Assign>();
      CHECK(order.m.epoch() == epoch);
      order.answer<fbs::Assigned>([&](auto& a) { a.ranks = {static_cast<uint32_t>(node)}; },
                                  std::vector{loaders[node].self(), stages[node].self()});
    }
    const auto ready = run.take_all<fbs::ClusterReady>();
    REQUIRE(ready.size() == 1);
    CHECK(ready[0].m.epoch() == epoch);
  }
};

}  // namespace

TEST_CASE(
    "CRD-10: a new epoch: who lives is suspended, who is lost comes again, all are assigned") {
  cluster_without_b f;
  CHECK(f.ordered("b") == 0);  // the run decides
  f.recover();
  CHECK(f.ordered("b") == 1);
  const auto suspend = f.nodes[0].take<fbs::Suspend>();
  CHECK(suspend.m.epoch() == next_epoch);
  f.join_again();
  CHECK(f.nodes[1].take_all<fbs::Assign>().empty());  // a is not quiet yet
  suspend.answer<fbs::Suspended>();
  f.begin_again(next_epoch);
  CHECK(f.status().state == "running");
  CHECK(f.status().values->coordinator->nodes.size() == 2);
  // The launcher's late word of the old process would be of a node that is there.
  f.recover(cluster_epoch);
  f.recover(next_epoch);
  CHECK(f.nodes[0].take_all<fbs::Suspend>().empty());
}

TEST_CASE("CRD-10: the loss of a node is told once, however many see it") {
  cluster_without_b f;
  f.pass_with(2s, {0});
  f.leave("b", "is still dead");
  CHECK(f.run.take_all<fbs::NodeLost>().empty());
}

TEST_CASE("CRD-10: a late word of a process that ended orders no second one, nor ends the next") {
  constexpr uint32_t pid_of_b = 1001;
  cluster_without_b f;
  f.recover();
  CHECK(f.ordered("b") == 1);
  f.leave("b", "was killed", 0, pid_of_b);
  CHECK(f.ordered("b") == 0);
  f.leave("b", "exited with 70", 0, pid_of_b + 1);  // the next one, before it has joined
  CHECK(f.ordered("b") == 1);
  f.nodes[0].take<fbs::Suspend>().answer<fbs::Suspended>();
  f.pid_of_b = pid_of_b + 2;
  f.join_again();
  f.begin_again(next_epoch);
  f.leave("b", "exited with 70", next_epoch, pid_of_b + 1);
  CHECK(f.run.take_all<fbs::NodeLost>().empty());
  f.leave("b", "exited with 70", next_epoch, pid_of_b + 2);
  CHECK(f.run.take_all<fbs::NodeLost>().size() == 1);
}

namespace {

/// a and b die together: the word of a is there, that of b is not, and the run begins anew.
struct cluster_without_both : scripted_cluster {
  explicit cluster_without_both() : scripted_cluster({.launcher = true, .recovers = true}) {
    begin();
    run.take_all<fbs::ClusterReady>();
    leave("a", "was killed", cluster_epoch, 1000);
    for (auto& n : {0, 1}) nodes[n].die();
    REQUIRE(lost().node == "a");
    run.tell(target, make_msg<fbs::Recover>(context_of(next_epoch)));
    CHECK(ordered() == std::vector<std::string>{"a", "b"});
  }
  std::vector<std::string> ordered() {
    std::vector<std::string> out;
    for (const auto& m : launcher.take_all<fbs::Launch>()) out.push_back(m->node()->str());
    return out;
  }
  void join_again(size_t node) {
    nodes[node] = make_partner("again");
    instances[node] += " again";
    REQUIRE(join(node));
    pass(0ns);
  }
};

}  // namespace

TEST_CASE("CRD-10: the late word of one that died with another is none of its next process") {
  cluster_without_both f;
  f.leave("b", "was killed", 0, 1001);
  CHECK(f.ordered().empty());
  f.leave("b", "exited with 70", 0, 2001);  // the next one
  CHECK(f.ordered() == std::vector<std::string>{"b"});
  CHECK(f.run.take_all<fbs::NodeLost>().empty());
}

TEST_CASE("LAU-3: a late word without a process is waited out, and is of the next if none joins") {
  for (const bool joins : {true, false}) {
    CAPTURE(joins);
    cluster_without_both f;
    f.leave("b", "ended", 0);
    CHECK(f.ordered().empty());
    if (joins) f.join_again(1);
    const std::vector<size_t> beating(joins ? 1 : 0, 1);
    for (int s = 0; s < 11; ++s) {
      for (const auto node : beating) REQUIRE(f.beat(node, next_epoch));
      f.pass(1s);
    }
    CHECK(f.ordered() == std::vector<std::string>(joins ? 0 : 1, "b"));
    CHECK(f.run.take_all<fbs::NodeLost>().empty());
  }
}

TEST_CASE("CRD-10: a node that does not end its ranks in time is lost, too, and started again") {
  cluster_without_b f;
  f.recover();
  CHECK(f.ordered("b") == 1);
  f.nodes[0].take<fbs::Suspend>();
  for (int i = 0; i < 9; ++i) {
    REQUIRE(f.beat(0, next_epoch));
    f.pass(1s);
  }
  CHECK(f.launcher.idle());
  f.pass(1s);
  CHECK(f.ordered("a") == 1);
  CHECK(f.run.take_all<fbs::NodeLost>().empty());  // no ranks are given out yet
}

TEST_CASE("CRD-10: where a node refused to go on, the end of its next process is heard as well") {
  cluster_without_b f;
  f.recover();
  CHECK(f.ordered("b") == 1);
  f.nodes[0].take<fbs::Suspend>().refuse(device_lost("cudaErrorECCUncorrectable"));
  CHECK(f.ordered("a") == 1);
  f.leave("a", "exited with 69", 0, 1000);  // the word of the one that refused
  CHECK(f.ordered("a") == 0);
  f.leave("a", "exited with 70", 0, 2000);
  CHECK(f.ordered("a") == 1);
  f.leave("x", "is none of ours", 0);
  CHECK(f.launcher.idle());
  CHECK(f.run.take_all<fbs::NodeLost>().empty());
}

TEST_CASE("CRD-10: a process that ends again and again before it joins ends the recovery") {
  cluster_without_b f;
  f.recover();
  f.nodes[0].take<fbs::Suspend>().answer<fbs::Suspended>();
  CHECK(f.ordered("b") == 1);
  f.leave("b", "exited with 70", 0);
  CHECK(f.ordered("b") == 1);
  f.leave("b", "exited with 70", 0);
  CHECK(f.ordered("b") == 1);
  f.leave("b", "exited with 70", 0);
  CHECK(f.ordered("b") == 0);
  CHECK(error_of(f.given_up()) == does_not_join("b", 3, "exited with 70"));
}

TEST_CASE("CRD-10: once ranks are given out the run hears of a loss, and may begin anew") {
  cluster_without_b f;
  f.recover();
  f.nodes[0].take<fbs::Suspend>().answer<fbs::Suspended>();
  f.join_again();
  f.nodes[0].take<fbs::Assign>();
  f.nodes[1].take<fbs::Assign>().refuse({errc::no_memory, "no memory"});
  const auto lost = f.run.take_all<fbs::NodeLost>();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0]->node()->str() == "b");
  CHECK(lost[0].m.epoch() == next_epoch);
  f.launcher.take_all<fbs::Launch>();
  f.recover(next_epoch + 1);
  CHECK(f.ordered("b") == 1);
  CHECK(f.nodes[0].take<fbs::Suspend>().m.epoch() == next_epoch + 1);
}

TEST_CASE("CRD-10: where nobody starts processes it waits for them, as long as recovery.wait_s") {
  cluster_without_b f(false);
  f.recover();
  CHECK(f.said("waiting for node b to join again"));
  f.nodes[0].take<fbs::Suspend>().answer<fbs::Suspended>();
  for (int s = 0; s < 599; ++s) {
    REQUIRE(f.beat(0, next_epoch));
    f.pass(1s);
  }
  CHECK(f.run.take_all<fbs::AdmissionFailed>().empty());
  REQUIRE(f.beat(0, next_epoch));
  f.pass(2s);
  CHECK(error_of(f.given_up()) == nodes_missing(600, "b", "recovery.wait_s"));
}
