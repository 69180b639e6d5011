// The gateway and the processes: who is asked, who waits for how long, what a person sees.
// Commands are in gateway_orders_test.cpp, views in gateway_views_test.cpp.
#include "actors/control/gateway.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/actors/control/scripted_gateway.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using namespace troupe::test;

// -- processes ------------------------------------------------------------------------------------

TEST_CASE("gateway: all processes are looked at once a second, from the first one on") {
  scripted_gateway f;
  f.pass(5s);
  f.meet(1, "head", f.head);
  scripted_gateway::answer_list(only<fbs::ListActors>(f.head));
  f.meet(3, "b", f.b);
  CHECK(f.b.idle());
  f.pass(999ms);
  CHECK(f.head.idle());
  f.pass(1ms);
  f.answer_looks({f.head});
  only<fbs::ListActors>(f.b);  // and says nothing
  f.pass(1'499ms + 1s);
  CHECK(f.head.idle());
  f.pass(1ms);
  only<fbs::ListActors>(f.head);
  only<fbs::ListActors>(f.b);
}

TEST_CASE("GTW-9: gateway: who wants to be shown the cluster is, each 5 s, by the look before") {
  std::vector<fbs::ClusterViewT> shown;
  scripted_gateway f;
  const auto target = f.spawn(
      trace::gateway, trace::gateway_options{"job", gateway_epoch, "", {}, {}, [&](auto view) {
                                               shown.push_back(std::move(view));
                                             }});
  const auto look = [&] {
    f.pass(1s);
    f.answer_looks({f.b, f.head});
  };
  f.target = target;
  f.meet(3, "b", f.b, "0, 1");
  CHECK(shown.empty());  // it has not answered
  f.answer_looks({f.b});
  REQUIRE(shown.size() == 1);
  f.meet(1, "head", f.head);
  for (int s = 0; s < 4; ++s) look();
  CHECK(shown.size() == 1);
  look();
  REQUIRE(shown.size() == 2);
  CHECK(shown[1].job == "job");
  REQUIRE(shown[1].nodes.size() == 2);
  CHECK(shown[1].nodes[0]->node == "head");
  CHECK(shown[1].nodes[1]->ranks == "0, 1");
  CHECK(shown[1].nodes[1]->actors.size() == 2);
}

TEST_CASE("gateway: a process told of again has its ranks, keeps its observer, is asked at once") {
  scripted_gateway f;
  f.meet_all();
  f.meet(3, "b", f.a, "0, 1");
  only<fbs::ListActors>(f.b).refuse({errc::bug, "no"});
  CHECK(f.a.idle());
  const auto asked = f.person.ask(f.target, f.view_of("b"));
  f.answer_looks({f.b});
  const auto seen = f.person.answer_of<fbs::ClusterView>(asked)->unpack();
  REQUIRE(seen.nodes.size() == 1);
  CHECK(seen.nodes[0]->ranks == "0, 1");
}

TEST_CASE("gateway: without an observer a process is none") {
  scripted_gateway f;
  f.coordinator.tell(f.target, f.make<fbs::Observe>([](auto& o) { o.node = "a"; }),
                     caf::strong_actor_ptr());
  f.pass(3s);
  CHECK(f.values().processes == 0);
}

TEST_CASE("gateway: a process that has gone is forgotten, and asked no more") {
  scripted_gateway f;
  f.meet_all();
  f.b.die();
  CHECK(f.values().processes == 2);
  const auto asked = f.person.ask(f.target, f.view_of());
  f.answer_looks({f.head, f.a});
  const auto seen = f.person.answer_of<fbs::ClusterView>(asked);
  REQUIRE(seen);
  CHECK(seen->unpack().nodes.size() == 2);
  f.meet(3, "b", f.b);  // the coordinator had not heard yet
  CHECK(f.values().processes == 2);
  f.person.tell(f.target, f.more(3));
  f.pass(1s);
  f.answer_looks({f.head, f.a});
  f.pass(1s);
  only<fbs::ListActors>(f.head);
}

// -- lists ----------------------------------------------------------------------------------------

TEST_CASE("GTW-1: a view waits 1.5 s for who is silent, and tells what he said last, and when") {
  scripted_gateway f;
  f.meet_all();
  f.pass(1s - 1ms);
  const auto asked = f.person.ask(f.target, f.view_of("", "", true));
  for (const auto& p : {f.head, f.a, f.b}) {
    const auto look = only<fbs::ListActors>(p);
    CHECK(look->dead());
    scripted_gateway::answer_list(look);
  }
  CHECK(f.person.answer_of<fbs::ClusterView>(asked)->unpack().nodes[2]->silent_ns == 0);
  const auto again = f.person.ask(f.target, f.view_of("", "", true));
  scripted_gateway::answer_list(only<fbs::ListActors>(f.head));
  scripted_gateway::answer_list(only<fbs::ListActors>(f.a));
  f.pass(1'500ms - 1ns);
  CHECK(f.refused<fbs::ClusterView>(again) == errc::timeout);
  f.pass(1ns);
  const auto seen = f.person.answer_of<fbs::ClusterView>(again);
  REQUIRE(seen);
  const auto all = seen->unpack();
  CHECK(all.job == "job");
  CHECK(all.epoch == gateway_epoch);
  REQUIRE(all.nodes.size() == 3);
  CHECK(all.nodes[1]->silent_ns == 0);
  const auto& silent = *all.nodes[2];
  CHECK(silent.node == "b");
  CHECK(silent.host == "host of b");
  CHECK(silent.pid == 1003);
  CHECK(silent.process == 3);
  constexpr int64_t age_ns = 1'500'000'000;
  CHECK(silent.silent_ns == age_ns);
  REQUIRE(silent.actors.size() == 3);
  CHECK(silent.actors[0]->uptime_ns == 5 + age_ns);
  CHECK(silent.actors[0]->state_for_ns == 5 + age_ns);
  CHECK(silent.actors[0]->handling_for_ns == 0);
  CHECK(silent.actors[0]->waits[0]->for_ns == 3 + age_ns);
  CHECK(silent.actors[1]->handling_for_ns == 2 + age_ns);
  CHECK(silent.actors[2]->uptime_ns == 5);  // it has ended
  CHECK(silent.actors[2]->state_for_ns == 5);
  const auto living = f.person.ask(f.target, f.view_of("b"));
  f.pass(1'500ms);
  CHECK(f.person.answer_of<fbs::ClusterView>(living)->unpack().nodes[0]->actors.size() == 2);
}

TEST_CASE("GTW-1: one that has never been heard of is there all the same, silent") {
  scripted_gateway f;
  f.meet(2, "a", f.a);
  const auto asked = f.person.ask(f.target, f.view_of());
  for (const auto& look : f.a.take_all<fbs::ListActors>()) look.refuse({errc::io, "no"});
  const auto seen = f.person.answer_of<fbs::ClusterView>(asked);
  REQUIRE(seen);
  const auto all = seen->unpack();
  REQUIRE(all.nodes.size() == 1);
  CHECK(all.nodes[0]->node == "a");
  CHECK(all.nodes[0]->silent_ns == 1);
}

TEST_CASE("gateway: a view has the head first, then the nodes by name, and what fits of each") {
  scripted_gateway f;
  f.meet_all();
  const auto ask = [&](const std::string& node, const std::string& actor, bool dead) {
    const auto asked = f.person.ask(f.target, f.view_of(node, actor, dead));
    f.answer_looks({f.head, f.a, f.b});
    std::vector<std::string> out;
    for (const auto& n : f.person.answer_of<fbs::ClusterView>(asked)->unpack().nodes) {
      out.push_back(fmt::format("{}", n->node.empty() ? "?" : n->node));
      for (const auto& one : n->actors) out.back() += " " + one->path;
    }
    return out.size();
  };
  CHECK(ask("", "", false) == 3);
  CHECK(ask("?", "", false) == 2);
  CHECK(ask("c", "", false) == 0);
  const auto asked = f.person.ask(f.target, f.view_of("", "worker/*", true));
  for (const auto& p : {f.b, f.head, f.a}) {
    const auto look = only<fbs::ListActors>(p);
    CHECK_FALSE(look->actor());  // the whole list is kept, and cut here
    look.answer<fbs::ActorList>([&](fbs::ActorListT& l) {
      l.node = p.self() == f.b.self() ? "head" : p.self() == f.a.self() ? "a" : "b";
      for (const auto* path : {"stage/0", "worker/0"}) {
        l.actors.push_back(std::make_unique<fbs::ActorInfoT>());
        l.actors.back()->path = path;
      }
    });
  }
  const auto seen = f.person.answer_of<fbs::ClusterView>(asked)->unpack();
  REQUIRE(seen.nodes.size() == 3);
  CHECK(seen.nodes[0]->node == "head");
  CHECK(seen.nodes[1]->node == "a");
  CHECK(seen.nodes[2]->node == "b");
  for (const auto& n : seen.nodes) {
    REQUIRE(n->actors.size() == 1);
    CHECK(n->actors[0]->path == "worker/0");
  }
}

TEST_CASE("gateway: who answers too late or twice changes nothing") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.view_of("a"));
  const auto look = only<fbs::ListActors>(f.a);
  scripted_gateway::answer_list(look);
  const auto before = f.person.answer_of<fbs::ClusterView>(asked);
  REQUIRE(before);
  scripted_gateway::answer_list(look);
  const auto late = f.person.ask(f.target, f.view_of("b"));
  const auto missed = only<fbs::ListActors>(f.b);
  f.pass(1'500ms);
  const auto silent = f.person.answer_of<fbs::ClusterView>(late);
  REQUIRE(silent);
  CHECK(silent->unpack().nodes[0]->silent_ns > 0);
  scripted_gateway::answer_list(missed);
  CHECK(f.lives(f.target));
}

TEST_CASE("gateway: one that goes while it is asked is not waited for") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.view_of());
  f.answer_looks({f.head, f.a});
  f.b.die();
  const auto seen = f.person.answer_of<fbs::ClusterView>(asked);
  REQUIRE(seen);
  CHECK(seen->unpack().nodes.size() == 2);
}

TEST_CASE("gateway: a cluster that is too large for one answer is refused with what to ask for") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.view_of());
  for (const auto& p : {f.head, f.a, f.b})
    scripted_gateway::answer_list(only<fbs::ListActors>(p), 200'000);
  const auto seen = f.person.answer_of<fbs::ClusterView>(asked);
  REQUIRE(!seen);
  CHECK(seen.error().code == errc::bad_data);
  CHECK(seen.error().hint.find("pattern") != std::string::npos);
  const auto one = f.person.ask(f.target, f.view_of("b"));
  f.answer_looks({f.b});
  CHECK(f.person.answer_of<fbs::ClusterView>(one));
}

TEST_CASE(
    "gateway: the epoch of who asks is that of his answer, and nobody's is too old or too new") {
  scripted_gateway f;
  f.meet_all();
  for (const uint32_t epoch : {0u, 1u, gateway_epoch, gateway_epoch + 9}) {
    const auto asked = f.person.ask(
        f.target, make_msg<fbs::ListActors>(troupe::test::actor_fixture::context_of(epoch),
                                            [](auto& l) { l.node = "a"; }));
    const auto look = only<fbs::ListActors>(f.a);
    CHECK(look.m.epoch() == epoch);
    scripted_gateway::answer_list(look);
    const auto seen = f.person.answer_of<fbs::ClusterView>(asked);
    REQUIRE(seen);
    CHECK(seen->epoch() == epoch);
  }
}

TEST_CASE("gateway: what it has no handler for is refused, and it lives on") {
  scripted_gateway f;
  const auto asked = f.person.ask(f.target, f.make<fbs::Pause>([](auto&) {}));
  CHECK(f.refused<fbs::Ack>(asked) == errc::bad_data);
  CHECK(f.status().state == "open");
}

TEST_CASE("GTH-1: while an answer is missing the gateway's waits name the observer that owes it") {
  scripted_gateway f;
  f.meet_all();
  const auto stats = f.runtime().registry.find("gateway");
  REQUIRE(stats->view().waits.empty());
  const auto asked = f.person.ask(f.target, f.view_of());
  CHECK(stats->view().waits.size() == 3);
  f.answer_looks({f.head, f.a});
  const auto waits = stats->view().waits;
  REQUIRE(waits.size() == 1);
  CHECK(waits.front().whom == "observer/b");
  CHECK(waits.front().what == "the answer to ListActors");
  CHECK(f.refused<fbs::ClusterView>(asked) == errc::timeout);
  f.answer_looks({f.b});
  CHECK(stats->view().waits.empty());
  CHECK(f.person.answer_of<fbs::ClusterView>(asked));
}
