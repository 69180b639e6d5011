// Spares: who stands in for whom, who is started beside it, who is taken out and let in again.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/actors/scripted_cluster.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t later_epoch = cluster_epoch + 1;

scripted_cluster_options with_spare(bool launcher = true) {
  scripted_cluster_options o;
  o.spare = o.recovers = true;
  o.launcher = launcher;
  return o;
}

/// It trains on a and b; c is a spare that has joined.
struct cluster_with_spare : scripted_cluster {
  explicit cluster_with_spare(const scripted_cluster_options& o = with_spare())
      : scripted_cluster(o) {
    begin();
    REQUIRE(join(2));
    pass(0ns);
    run.take_all<fbs::ClusterReady>();
  }
  void recover(uint32_t epoch = later_epoch) {
    run.tell(target, make_msg<fbs::Recover>(context_of(epoch)));
  }
  /// A node dies, and the run begins another epoch.
  void lose(size_t node, uint32_t epoch = later_epoch) {
    const char name[] = {static_cast<char>('a' + node), 0};
    leave(name, "was killed", epoch - 1);
    nodes[node].die();
    REQUIRE(run.take_all<fbs::NodeLost>().size() == 1);
    recover(epoch);
  }
  void quiet(size_t node) { nodes[node].take<fbs::Suspend>().answer<fbs::Suspended>(); }
  /// Takes the ranks of a place; what it is told.
  void take_place(size_t node, uint32_t place) {
    nodes[node].take<fbs::Assign>().answer<fbs::Assigned>(
        [&](auto& a) { a.ranks = {place}; },
        std::vector{loaders[place].self(), stages[place].self()});
  }
  fbs::ClusterReadyT crew() {
    const auto all = run.take_all<fbs::ClusterReady>();
    REQUIRE(all.size() == 1);
    return all[0].m.unpack();
  }
  std::vector<std::string> ordered() {
    std::vector<std::string> out;
    for (const auto& m : launcher.take_all<fbs::Launch>()) out.push_back(m->node()->str());
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
  std::string state_of(const char* node) {
    const auto all = person.answer_of<fbs::Spares>(
        person.ask(target, make_msg<fbs::SparesRequest>(context_of(0), [](auto&) {})));
    REQUIRE(all);
    for (const auto& s : *(*all)->spares())
      if (s->node()->str() == node) return s->state()->str();
    return "";
  }
};

using names = std::vector<std::string>;

/// Its monitor finds links of nodes to be sick.
struct cluster_with_sick_link : cluster_with_spare {
  explicit cluster_with_sick_link(bool second_spare = false)
      : cluster_with_spare(options(second_spare)) {
    if (second_spare) REQUIRE(join(3));
  }
  static scripted_cluster_options options(bool second_spare) {
    auto o = with_spare();
    o.monitor = true;
    o.second_spare = second_spare;
    return o;
  }
  void find_sick(const char* node) {
    monitor.tell(target, make_msg<fbs::FindingTold>(context_of(0), [&](auto& t) {
                   t.finding = std::make_unique<fbs::FindingT>();
                   t.finding->name = "half_open_link";
                   t.finding->node = node;
                   t.finding->text = "no test comes to an end";
                 }));
  }
  names evicted() { return status().values->coordinator->evicted; }
};

}  // namespace

TEST_CASE("CRD-1: the run begins without its spares, and gives them no ranks") {
  scripted_cluster f(with_spare());
  f.begin();
  CHECK(f.run.take_all<fbs::AdmissionFailed>().empty());
  REQUIRE(f.join(2));
  f.pass(0ns);
  CHECK(f.nodes[2].take_all<fbs::Assign>().empty());
  CHECK(f.run.take_all<fbs::ClusterReady>().empty());
  const auto s = f.status();
  CHECK(s.values->coordinator->members == 3);
  CHECK(s.values->coordinator->spares == 1);
  CHECK(s.values->coordinator->nodes.back()->spare);
}

TEST_CASE("CRD-11: a spare comes into the place at once, the lost process is the next spare") {
  cluster_with_spare f;
  f.lose(1);
  CHECK(f.ordered() == names{"b"});
  f.quiet(0);
  f.quiet(2);
  f.take_place(0, 0);
  f.take_place(2, 1);
  const auto crew = f.crew();
  CHECK(crew.nodes[0]->node == "a");
  CHECK(crew.nodes[1]->node == "c");
  CHECK(crew.nodes[1]->threads == 9);  // PLA-2: as b had it, though c has ten cores
  CHECK(f.state_of("b") == "absent");
  REQUIRE(f.join_again(1));
  f.pass(0ns);
  CHECK(f.nodes[1].take_all<fbs::Assign>().empty());
  CHECK(f.state_of("b") == "ready");
  f.lose(2, later_epoch + 1);
  CHECK(f.ordered() == names{"c"});
  f.quiet(0);
  f.quiet(1);
  f.take_place(0, 0);
  f.take_place(1, 1);
  CHECK(f.crew().nodes[1]->node == "b");
}

TEST_CASE("EVC-3: who was lost comes into a place after those who never were") {
  auto o = with_spare();
  o.second_spare = true;
  cluster_with_spare f(o);
  REQUIRE(f.join(3));
  f.lose(1);
  for (const size_t node : {0, 2, 3}) f.quiet(node);
  f.take_place(0, 0);
  f.take_place(2, 1);
  CHECK(f.crew().nodes[1]->node == "c");
  REQUIRE(f.join_again(1));  // a spare that has what each place needs, before d by its index
  f.lose(0, later_epoch + 1);
  for (const size_t node : {1, 2, 3}) f.quiet(node);
  f.take_place(3, 0);
  f.take_place(2, 1);
  CHECK(f.crew().nodes[0]->node == "d");
}

TEST_CASE("CRD-11: a spare that is lost is no event of the run, and is started again") {
  cluster_with_spare f;
  f.leave("c", "was killed");
  f.nodes[2].die();
  f.pass(2s);
  CHECK(f.run.take_all<fbs::NodeLost>().empty());
  CHECK(f.ordered() == names{"c"});
  f.leave("c", "exited with 70");  // before it joined
  CHECK(f.ordered() == names{"c"});
  f.leave("c", "exited with 70");
  CHECK(f.ordered() == names{"c"});
  f.leave("c", "exited with 70");
  CHECK(f.ordered().empty());
  CHECK(f.run.take_all<fbs::AdmissionFailed>().empty());
  CHECK(f.state_of("c") == "absent");
}

TEST_CASE("CRD-21: a spare whose link is sick is evicted, and nobody else") {
  cluster_with_sick_link f;
  f.find_sick("c");
  CHECK(f.evicted() == names{"c"});
  CHECK(f.said("c is evicted (no test comes to an end)"));
  CHECK(f.was_shut_down(2));
  CHECK(f.ordered().empty());
  CHECK(f.run.idle());
  for (const size_t node : {0, 1}) {
    CHECK_FALSE(f.was_shut_down(node));
    CHECK(f.beat(node));
  }
  CHECK(f.join_again(2).error().is(node_evicted));
}

TEST_CASE("CRD-21: a node with ranks whose link is sick is lost where a spare can have its place") {
  cluster_with_sick_link f;
  f.find_sick("b");
  f.find_sick("b");
  const auto lost = f.lost();  // once
  CHECK(lost.node == "b");
  CHECK(lost.finding == "half_open_link");
  CHECK(lost.how == "has a sick link (no test comes to an end)");
  CHECK_FALSE(lost.ordered);
  CHECK(f.evicted().empty());
  CHECK(f.beat(1).error().is(left_the_cluster));
  CHECK(f.beat(0));
  CHECK(f.beat(2));
  f.recover();
  CHECK(f.ordered() == names{"b"});  // and is tested once more when it comes back (MON-9)
  f.quiet(0);
  f.quiet(2);
  f.take_place(0, 0);
  f.take_place(2, 1);
  CHECK(f.crew().nodes[1]->node == "c");
}

TEST_CASE(
    "CRD-21: without a spare, or once the run stops, a node with a sick link keeps its ranks") {
  for (const bool stops : {false, true}) {
    cluster_with_sick_link f;
    if (stops)
      f.person.tell(f.target, make_msg<fbs::StopTraining>(f.context_of(0)));
    else
      f.leave("c", "was killed");
    f.run.take_all<fbs::StopTraining>();
    f.find_sick("b");
    CHECK(f.said("node b has a sick link (no test comes to an end), and keeps its ranks"));
    CHECK(f.run.idle());
    CHECK(f.evicted().empty());
    CHECK(f.beat(1));
  }
}

TEST_CASE("CRD-21: who has got a place again before its link is found to be sick loses it again") {
  cluster_with_sick_link f(true);
  f.lose(1);
  for (const size_t node : {0, 2, 3}) f.quiet(node);
  f.take_place(0, 0);
  f.take_place(2, 1);
  f.crew();
  REQUIRE(f.join_again(1));
  f.leave("d", "was killed", later_epoch);
  f.lose(2, later_epoch + 1);  // b has the place, and no ranks yet
  f.quiet(1);
  f.nodes[3].die();
  REQUIRE(f.join_again(3));
  f.find_sick("b");
  CHECK(f.run.idle());               // an event of this recovery
  CHECK(f.evicted() == names{"b"});  // lost twice within an hour (EVC-2)
  CHECK(f.join_again(1).error().is(node_evicted));
  f.quiet(0);
  f.take_place(0, 0);
  f.take_place(3, 1);
  CHECK(f.crew().nodes[1]->node == "d");
}

TEST_CASE("CRD-11: a spare that has too few cores is passed over, and the place waits") {
  scripted_cluster_options o = with_spare();
  scripted_cluster small(o);
  small.cores[2] = 4;
  small.begin();
  REQUIRE(small.join(2));
  small.leave("b", "was killed");
  small.nodes[1].die();
  CHECK(small.run.take_all<fbs::NodeLost>().size() == 1);
  small.run.tell(small.target, make_msg<fbs::Recover>(small.context_of(later_epoch)));
  CHECK(small.said("spare c cannot come into the place of b"));
  CHECK(small.launcher.take_all<fbs::Launch>().size() == 1);
  small.nodes[0].take<fbs::Suspend>().answer<fbs::Suspended>();
  small.nodes[2].take<fbs::Suspend>().answer<fbs::Suspended>();
  CHECK(small.nodes[0].take_all<fbs::Assign>().empty());
}

TEST_CASE("CRD-11: a spare that dies while it comes into a place is followed by the lost node") {
  cluster_with_spare f;
  f.lose(1);
  f.ordered();
  f.quiet(0);
  f.leave("c", "was killed", 0);
  f.nodes[2].die();
  CHECK(f.ordered() == names{"c"});
  CHECK(f.nodes[0].take_all<fbs::Assign>().empty());
  REQUIRE(f.join_again(1));
  f.pass(0ns);
  f.take_place(0, 0);
  f.take_place(1, 1);
  CHECK(f.crew().nodes[1]->node == "b");
}

TEST_CASE("CRD-11: the status has the spares that are left before ranks are given out, too") {
  cluster_with_spare f;
  f.lose(1);
  REQUIRE(f.join_again(1));
  CHECK(f.status().values->coordinator->spares == 1);
  f.leave("c", "was killed", 0);
  f.nodes[2].die();
  CHECK(f.status().values->coordinator->spares == 0);
}

TEST_CASE("a drained node leaves with the next epoch: a spare has its place, it is not let in") {
  cluster_with_spare f;
  REQUIRE(f.say<fbs::DrainNode>("b"));
  CHECK(f.run.take_all<fbs::StopTraining>().empty());
  const auto asked = f.run.take_all<fbs::ReleaseNode>();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0]->node()->str() == "b");
  CHECK_FALSE(f.was_shut_down(1));
  CHECK(f.say<fbs::DrainNode>("a").error().is(one_at_a_time));
  f.recover();
  CHECK(f.was_shut_down(1));
  f.nodes[1].die();
  f.leave("b", "exited with 0", later_epoch);
  CHECK(f.ordered().empty());
  f.quiet(0);
  f.quiet(2);
  f.take_place(0, 0);
  f.take_place(2, 1);
  CHECK(f.crew().nodes[1]->node == "c");
  CHECK(f.state_of("b") == "evicted");
  CHECK(is_error(f.join_again(1), node_evicted, "b", "was drained"));
  CHECK(f.status().values->coordinator->refused == 1);
  CHECK(f.run.take_all<fbs::NodeLost>().empty());
  REQUIRE(f.say<fbs::AdmitNode>("b"));
  CHECK(f.ordered() == names{"b"});
  CHECK(f.say<fbs::AdmitNode>("b").error().is(not_evicted));
  REQUIRE(f.join_again(1));
  CHECK(f.state_of("b") == "ready");
}

TEST_CASE("CRD-14: a drained node stays in an epoch that began for a lost one, and goes later") {
  auto o = with_spare();
  o.second_spare = true;
  cluster_with_spare f(o);
  REQUIRE(f.join(3));
  REQUIRE(f.say<fbs::DrainNode>("b"));
  CHECK(f.run.take_all<fbs::ReleaseNode>().size() == 1);
  f.lose(0);
  CHECK_FALSE(f.was_shut_down(1));
  CHECK(f.state_of("b").empty());
  for (const size_t node : {1, 2, 3}) f.quiet(node);
  CHECK(f.run.take_all<fbs::ReleaseNode>().empty());
  f.take_place(2, 0);
  f.take_place(1, 1);
  CHECK(f.crew().nodes[1]->node == "b");
  const auto again = f.run.take_all<fbs::ReleaseNode>();
  REQUIRE(again.size() == 1);
  CHECK(again[0]->node()->str() == "b");
  CHECK(again[0].m.epoch() == later_epoch);
  f.recover(later_epoch + 1);  // it is saved
  CHECK(f.was_shut_down(1));
  CHECK(f.state_of("b") == "evicted");
  for (const size_t node : {2, 3}) f.quiet(node);
  f.take_place(2, 0);
  f.take_place(3, 1);
  CHECK(f.crew().nodes[1]->node == "d");
  CHECK(f.run.take_all<fbs::ReleaseNode>().empty());
}

TEST_CASE("CRD-14: where the drained node is the lost one it is taken out, and others can be") {
  auto o = with_spare();
  o.second_spare = true;
  cluster_with_spare f(o);
  REQUIRE(f.join(3));
  REQUIRE(f.say<fbs::DrainNode>("b"));
  f.run.take_all<fbs::ReleaseNode>();
  f.lose(1);
  for (const size_t node : {0, 2, 3}) f.quiet(node);
  f.take_place(0, 0);
  f.take_place(2, 1);
  CHECK(f.crew().nodes[1]->node == "c");
  CHECK(f.run.take_all<fbs::ReleaseNode>().empty());
  CHECK(f.state_of("b") == "evicted");
  CHECK(f.say<fbs::DrainNode>("a"));
  CHECK(f.run.take_all<fbs::ReleaseNode>().size() == 1);
}

TEST_CASE("CRD-14: a drain is over where the spare that was meant has another place") {
  cluster_with_spare f;
  REQUIRE(f.say<fbs::DrainNode>("b"));
  f.run.take_all<fbs::ReleaseNode>();
  f.lose(0);
  for (const size_t node : {1, 2}) f.quiet(node);
  f.take_place(2, 0);
  f.take_place(1, 1);
  CHECK(f.crew().nodes[1]->node == "b");
  CHECK(f.run.take_all<fbs::ReleaseNode>().empty());
  CHECK_FALSE(f.was_shut_down(1));
  CHECK(f.state_of("b").empty());
}

TEST_CASE("CRD-12: without a spare an eviction is refused, a drain saves and ends") {
  scripted_cluster f({.launcher = true, .recovers = true});
  f.begin();
  const auto evict = [&] {
    return f.person.answer_of<fbs::Ack>(f.person.ask(
        f.target, make_msg<fbs::EvictNode>(f.context_of(0), [](auto& o) { o.node = "b"; })));
  };
  CHECK(is_error(evict(), no_spare, "b"));
  const auto drained = f.drain("b");
  REQUIRE(drained);
  const auto stops = f.run.take_all<fbs::StopTraining>();
  REQUIRE(stops.size() == 1);
  CHECK(stops[0]->save());
  CHECK(evict().error().is(run_is_ending));
}

TEST_CASE("evict: at once, and once, a second one waits until there is a spare again") {
  cluster_with_spare f;
  CHECK(f.say<fbs::EvictNode>("x").error().is(no_such_node));
  REQUIRE(f.say<fbs::EvictNode>("b"));
  const auto lost = f.run.take_all<fbs::NodeLost>();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0]->ordered());
  CHECK(f.say<fbs::EvictNode>("a").error().is(not_training));
  f.recover();
  f.quiet(0);
  f.quiet(2);
  f.take_place(0, 0);
  f.take_place(2, 1);
  CHECK(f.crew().nodes[1]->node == "c");
  CHECK(f.ordered().empty());
  CHECK(f.say<fbs::EvictNode>("a").error().is(no_spare));
}

TEST_CASE("CRD-13: whom a person takes out lives until the run begins the next epoch") {
  for (const bool replaced : {false, true}) {
    CAPTURE(replaced);
    cluster_with_spare f;
    if (replaced)
      REQUIRE(f.say<fbs::ReplaceNode>("b"));
    else
      REQUIRE(f.say<fbs::EvictNode>("b"));
    CHECK(f.run.take_all<fbs::NodeLost>().size() == 1);
    CHECK_FALSE(f.nodes[1].was_told_to_exit());
    CHECK(f.say<fbs::EvictNode>("a").error().is(not_training));
    CHECK(f.say<fbs::AdmitNode>("b").error().is(not_evicted));
    CHECK(f.state_of("b").empty());
    f.recover();
    CHECK(f.nodes[1].was_told_to_exit());
    CHECK(f.state_of("b") == (replaced ? "absent" : "evicted"));
    CHECK(f.ordered() == (replaced ? names{"b"} : names{}));
  }
}

TEST_CASE("CRD-13: a run that ends all the same hears when such a node is lost") {
  cluster_with_spare f;
  REQUIRE(f.say<fbs::EvictNode>("b"));
  f.run.take_all<fbs::NodeLost>();
  f.leave("b", "was killed");
  const auto lost = f.run.take_all<fbs::NodeLost>();
  REQUIRE(lost.size() == 1);
  CHECK_FALSE(lost[0]->ordered());
}

TEST_CASE("CRD-13: nobody is taken out of a run that was told to stop") {
  cluster_with_spare f;
  f.person.tell(f.target, make_msg<fbs::StopTraining>(f.context_of(0), [](auto&) {}));
  CHECK(f.run.take_all<fbs::StopTraining>().size() == 1);
  CHECK(f.say<fbs::EvictNode>("b").error().is(run_is_ending));
  CHECK(f.say<fbs::ReplaceNode>("b").error().is(run_is_ending));
  CHECK(f.say<fbs::DrainNode>("b").error().is(run_is_ending));
  CHECK(f.run.take_all<fbs::NodeLost>().empty());
  CHECK(f.run.take_all<fbs::ReleaseNode>().empty());
  CHECK(f.beat(1));
  REQUIRE(f.say<fbs::EvictNode>("c"));  // no rank is its
}

TEST_CASE("CRD-12: an evicted node is let in again where its spare dies before the epoch begins") {
  cluster_with_spare f;
  REQUIRE(f.say<fbs::EvictNode>("b"));
  f.leave("c", "was killed");
  f.nodes[2].die();
  f.ordered();
  f.recover();
  const auto all = f.ordered();
  CHECK(std::find(all.begin(), all.end(), "b") != all.end());
  CHECK(f.state_of("b").empty());  // the place is its own
  CHECK(f.join_again(1));
}

TEST_CASE("admit: where nodes name themselves, one whose index another has is let in again") {
  auto o = with_spare(false);
  o.launch = config::launch_mode::external;
  cluster_with_spare f(o);
  REQUIRE(f.say<fbs::EvictNode>("c"));
  f.nodes[2] = f.make_partner("d");
  f.instances[2] = "i3";
  auto other = f.hello(2);
  other.node = "d";
  REQUIRE(f.join(2, other));
  CHECK(f.state_of("d") == "ready");
  CHECK(f.state_of("c") == "evicted");
  CHECK(f.say<fbs::ReplaceNode>("c").error().is(node_evicted));
  REQUIRE(f.say<fbs::AdmitNode>("c"));
  CHECK(f.state_of("c").empty());
  CHECK(f.say<fbs::AdmitNode>("c").error().is(no_such_node));
  CHECK(f.say<fbs::AdmitNode>("d").error().is(not_evicted));
}

TEST_CASE("replace: another process, and a spare in its place where there is one") {
  cluster_with_spare f;
  REQUIRE(f.say<fbs::ReplaceNode>("b"));
  CHECK(f.run.take_all<fbs::NodeLost>().size() == 1);
  f.nodes[1].die();
  f.recover();
  CHECK(f.ordered() == names{"b"});
  f.quiet(0);
  f.quiet(2);
  f.take_place(0, 0);
  f.take_place(2, 1);
  CHECK(f.crew().nodes[1]->node == "c");
  REQUIRE(f.say<fbs::ReplaceNode>("b"));  // without a place by now, and not there
  CHECK(f.ordered() == names{"b"});
  CHECK(f.run.take_all<fbs::NodeLost>().empty());
}

TEST_CASE("replace: a spare that is dead is started, whether that is told yet or not") {
  for (const bool told : {true, false}) {
    CAPTURE(told);
    cluster_with_spare f;
    if (told)
      for (int i = 0; i < 4; ++i) f.leave("c", "exited with 70");
    f.nodes[2].die();
    f.ordered();
    REQUIRE(f.say<fbs::ReplaceNode>("c"));
    CHECK(f.ordered() == names{"c"});
    f.pass_with(3s, {0, 1});
    CHECK(f.ordered().empty());  // once
    REQUIRE(f.join_again(2));
    CHECK(f.state_of("c") == "ready");
    CHECK(f.run.take_all<fbs::NodeLost>().empty());
  }
}

TEST_CASE("replace, evict: after the end nobody is started or taken out") {
  cluster_with_spare f;
  f.end_run();
  CHECK(f.say<fbs::ReplaceNode>("c").error().is(cluster_ends));
  CHECK(f.say<fbs::EvictNode>("c").error().is(cluster_ends));
  CHECK(f.ordered().empty());
}

TEST_CASE("LAU-1: a spare that is left alone is tried again by itself once the hour is over") {
  cluster_with_spare f;
  for (int i = 0; i < 4; ++i) f.leave("c", "exited with 70");
  f.nodes[2].die();
  CHECK(f.ordered() == names{"c", "c", "c"});
  f.pass_with(3590s, {0, 1});
  CHECK(f.ordered().empty());
  f.pass_with(11s, {0, 1});
  CHECK(f.ordered() == names{"c"});
}

TEST_CASE("EVC-2: a node that is lost twice within an hour is evicted, if a spare has its place") {
  cluster_with_spare f;
  f.lose(1);
  f.ordered();
  f.quiet(0);
  f.quiet(2);
  f.take_place(0, 0);
  f.take_place(2, 1);
  f.crew();
  REQUIRE(f.join_again(1));
  f.lose(2, later_epoch + 1);
  f.quiet(0);
  f.quiet(1);
  f.take_place(0, 0);
  f.take_place(1, 1);
  f.crew();
  CHECK(f.ordered() == names{"c"});
  REQUIRE(f.join_again(2));
  f.lose(1, later_epoch + 2);
  CHECK(f.ordered().empty());
  CHECK(f.state_of("b") == "evicted");
}
