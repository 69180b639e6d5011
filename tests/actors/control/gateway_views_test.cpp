// Views of traces by the gateway: whom they belong to, how they begin, and how they end (GTW-3).
#include "actors/control/gateway.hpp"

#include <fmt/format.h>

#include "tests/actors/control/scripted_gateway.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using namespace troupe::test;

namespace {

void begun(const told<fbs::TraceStart>& start, const std::string& node) {
  start.answer<fbs::TraceStarted>([&](auto& s) {
    s.subscription = start->subscription();
    s.nodes = {node};
  });
}

bool told_to_stop(const partner& observer) {
  const auto all = observer.take_all<fbs::TraceStop>();
  for (const auto& s : all) CHECK(s->subscription() == view_id);
  return all.size() == 1;
}

}  // namespace

TEST_CASE("gateway: a view begins at all nodes that fit, and says which") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.start("?"), f.viewer.self());
  CHECK(f.head.idle());
  const auto there = only<fbs::TraceStart>(f.a);
  CHECK(there.handle(1) == caf::actor_cast<caf::strong_actor_ptr>(f.target));
  CHECK(there->max_records() == 10);
  begun(only<fbs::TraceStart>(f.b), "b");
  CHECK(f.refused<fbs::TraceStarted>(asked) == errc::timeout);
  begun(there, "a");
  const auto answer = f.person.answer_of<fbs::TraceStarted>(asked);
  REQUIRE(answer);
  CHECK((*answer)->subscription() == view_id);
  CHECK(answer->unpack().nodes == std::vector<std::string>{"a", "b"});
  CHECK(f.values().views == 1);
}

TEST_CASE("gateway: a view without a viewer, of a number that there is, or of no node is refused") {
  scripted_gateway f;
  f.meet_all();
  CHECK(f.refused<fbs::TraceStarted>(f.person.ask(f.target, f.start(), caf::strong_actor_ptr())) ==
        errc::usage);
  CHECK(f.refused<fbs::TraceStarted>(f.person.ask(f.target, f.start("c"), f.viewer.self())) ==
        errc::not_found);
  CHECK(f.values().views == 0);
  f.look_at_head();
  CHECK(f.refused<fbs::TraceStarted>(f.person.ask(f.target, f.start("a"), f.viewer.self())) ==
        errc::usage);
  CHECK((f.head.idle() && f.a.idle()));
  f.person.tell(f.target, f.batch(1));
  CHECK(f.viewer.take_all<fbs::TraceBatch>().size() == 1);
}

TEST_CASE(
    "gateway: a view that begins at some nodes goes on there, and is stopped at silent ones") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.start(), f.viewer.self());
  begun(only<fbs::TraceStart>(f.head), "head");
  only<fbs::TraceStart>(f.a).refuse({errc::unavailable, "8 views are open already"});
  const auto late = only<fbs::TraceStart>(f.b);
  f.pass(1'500ms - 1ns);
  CHECK(f.refused<fbs::TraceStarted>(asked) == errc::timeout);
  f.pass(1ns);
  const auto answer = f.person.answer_of<fbs::TraceStarted>(asked);
  REQUIRE(answer);
  CHECK(answer->unpack().nodes == std::vector<std::string>{"head"});
  CHECK(told_to_stop(f.b));  // its records would come from a node that the viewer does not know of
  begun(late, "b");
  CHECK(f.values().views == 1);
}

TEST_CASE("gateway: a view that begins nowhere is none, and who begins late is told to stop") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.start("?"), f.viewer.self());
  only<fbs::TraceStart>(f.a).refuse({errc::unavailable, "8 views are open already"});
  f.pass(1'500ms);
  CHECK(f.refused<fbs::TraceStarted>(asked) == errc::timeout);
  CHECK(f.values().views == 0);
  CHECK(told_to_stop(f.b));
  const auto again = f.person.ask(f.target, f.start("a"), f.viewer.self());
  only<fbs::TraceStart>(f.a).refuse({errc::unavailable, "8 views are open already"});
  CHECK(f.refused<fbs::TraceStarted>(again) == errc::unavailable);
}

TEST_CASE("gateway: a viewer is watched while he has a view, and once") {
  scripted_gateway f;
  f.meet_all();
  f.look_at_head(1);
  f.person.tell(f.target, f.stop(1));
  f.look_at_head(1);
  f.look_at_head(2);
  f.person.tell(f.target, f.stop(1));
  const auto stats = f.runtime().registry.find("gateway");
  const auto came = stats->view().received;
  f.viewer.die();
  CHECK(stats->view().received == came + 1);
  CHECK(f.values().views == 0);
}

TEST_CASE("gateway: records go to the viewer of their view, and of no view to nobody") {
  scripted_gateway f;
  f.meet_all();
  f.look_at_head();
  const auto other = f.make_partner("other");
  const auto asked = f.person.ask(f.target, f.start("a", 78), other.self());
  begun(only<fbs::TraceStart>(f.a), "a");
  REQUIRE(f.person.answer_of<fbs::TraceStarted>(asked));
  f.head.tell(f.target, f.batch(1));
  f.a.tell(f.target, f.batch(2, "", 78));
  f.a.tell(f.target, f.batch(2, "", 79));
  CHECK(only<fbs::TraceBatch>(f.viewer)->process() == 1);
  CHECK(only<fbs::TraceBatch>(other)->process() == 2);
}

TEST_CASE("gateway: credit goes to the process it is for, and to none that there is not") {
  scripted_gateway f;
  f.meet_all();
  f.look_at_head();
  f.person.tell(f.target, f.more(1));
  f.person.tell(f.target, f.more(9));
  CHECK(only<fbs::TraceMore>(f.head)->credits() == 1);
  CHECK((f.a.idle() && f.b.idle()));
}

TEST_CASE("GTW-3: a view that is stopped is stopped everywhere, once") {
  scripted_gateway f;
  f.meet_all();
  f.look_at_head();
  f.person.tell(f.target, f.stop(78));
  CHECK(f.head.idle());
  f.person.tell(f.target, f.stop());
  f.person.tell(f.target, f.stop());
  for (const auto& p : {f.head, f.a, f.b}) CHECK(told_to_stop(p));
  f.head.tell(f.target, f.batch(1));
  CHECK(f.viewer.idle());
  CHECK(f.values().views == 0);
}

TEST_CASE("GTW-3: when a viewer goes, every observer is told to stop all of his views") {
  scripted_gateway f;
  f.meet_all();
  f.look_at_head();
  f.look_at_head(78);
  f.viewer.die();
  CHECK(f.head.take_all<fbs::TraceStop>().size() == 2);
  CHECK(f.b.take_all<fbs::TraceStop>().size() == 2);
  CHECK(f.values().views == 0);
}

TEST_CASE(
    "GTW-3: a viewer is told of a process that goes where his view has begun, and there alone") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.start(), f.viewer.self());
  begun(only<fbs::TraceStart>(f.head), "head");
  begun(only<fbs::TraceStart>(f.a), "a");
  f.b.die();  // before it has answered: the viewer never knows of it
  CHECK(f.viewer.idle());
  f.pass(1'500ms);
  REQUIRE(f.person.answer_of<fbs::TraceStarted>(asked));
  f.a.die();
  const auto told = only<fbs::TraceBatch>(f.viewer);
  CHECK(told->subscription() == view_id);
  CHECK(told->process() == 2);
  CHECK(told->node()->str() == "a");
  CHECK(told->over()->str() == "a has left the cluster");
  CHECK(told->sequence() == 0);
  CHECK(told->bound_ns() == -1);  // of its clock nothing is known
  CHECK(f.values().views == 1);
  f.head.tell(f.target, f.batch(1, "the limit of 10 records is reached"));
  CHECK(f.viewer.take_all<fbs::TraceBatch>().size() == 1);
  CHECK(f.values().views == 0);
  f.head.die();
  CHECK(f.viewer.idle());
}

TEST_CASE("GTW-3: a viewer that goes before the view has begun") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.start("a"), f.viewer.self());
  const auto there = only<fbs::TraceStart>(f.a);
  f.viewer.die();
  CHECK(told_to_stop(f.a));
  begun(there, "a");
  CHECK(f.person.answer_of<fbs::TraceStarted>(asked));
  CHECK(f.values().views == 0);
}

TEST_CASE("GTW-3: another's certificate neither begins, stops nor feeds a view, nor has it done") {
  scripted_gateway f;
  f.meet_all();
  const far_person alice(f, 11, "alice", tls::role::reader),
      bob(f, 12, "bob", tls::role::operator_);
  const auto she = f.make_partner("alice", alice.process),
             her_viewer = f.make_partner("her viewer", alice.process),
             he = f.make_partner("bob", bob.process);
  const auto asked = he.ask(f.target, f.start("head"), her_viewer.self());
  CHECK(he.answer_of<fbs::TraceStarted>(asked).error().code == errc::permission);
  const auto hers = she.ask(f.target, f.start("head"), her_viewer.self());
  begun(only<fbs::TraceStart>(f.head), "head");
  REQUIRE(she.answer_of<fbs::TraceStarted>(hers));
  he.tell(f.target, f.more(1));
  he.tell(f.target, f.stop());
  he.tell(f.target, f.batch(1));
  f.head.tell(f.target, f.more(1));  // what he has an observer hand over
  f.head.tell(f.target, f.stop());
  CHECK((f.head.idle() && her_viewer.idle()));
  CHECK(f.values().views == 1);
  she.tell(f.target, f.more(1));
  she.tell(f.target, f.stop());
  CHECK(only<fbs::TraceMore>(f.head)->credits() == 1);
  CHECK(told_to_stop(f.head));
}

TEST_CASE(
    "gateway: a view that is over at all its processes is forgotten, and its number is free") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.start(), f.viewer.self());
  begun(only<fbs::TraceStart>(f.head), "head");
  begun(only<fbs::TraceStart>(f.a), "a");
  begun(only<fbs::TraceStart>(f.b), "b");
  REQUIRE(f.person.answer_of<fbs::TraceStarted>(asked));
  f.head.tell(f.target, f.batch(1, "the limit of 10 records is reached"));
  f.head.tell(f.target, f.batch(1, "the limit of 10 records is reached"));
  f.a.tell(f.target, f.batch(2));
  f.b.die();
  CHECK(f.values().views == 1);
  f.a.tell(f.target, f.batch(2, "the viewer has not asked for more"));
  CHECK(f.values().views == 0);
  CHECK(f.viewer.take_all<fbs::TraceBatch>().size() == 5);  // b's end by the gateway
  f.look_at_head();
  CHECK(f.values().views == 1);
  f.head.die();
  CHECK(f.values().views == 0);
}
