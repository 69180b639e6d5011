// The pacer under a scripted power budget: before the first cap, what it acknowledges, and what it
// does where the budget is not found, refuses, falls silent or dies.
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/capture/recorder.hpp"
#include "actors/power/budget.hpp"
#include "tests/actors/power/leased_pacer.hpp"
#include "tests/actors/scripted_node.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::cluster::test::scripted_connector;
using troupe::cluster::test::wiring;
using troupe::power::test::budget_port;
using troupe::power::test::leased_pacer;
using troupe::power::test::pacer_epoch;
using troupe::test::partner;

TEST_CASE("PCR-3: under a power budget no step begins before it has granted watts") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  auto told = f.last_told();
  CHECK(told.pace_of_1024 == 0);
  CHECK(told.reason == "no lease yet from the power budget row0 at 127.0.0.1:4242");
  CHECK(f.status().budget_w == -1);
  CHECK(f.status().cap_w == -1);
  const auto first = f.answered(1, 1, 60'000);
  CHECK(first.incarnation == 9);
  CHECK(first.lease_epoch == 0);
  CHECK(first.in_force_mw == 0);
  CHECK(first.drawn_mw == -1);  // by then nothing had said it
  CHECK(first.wish_mw == -1);
  told = f.last_told();  // LSE-2: the first lease raises nothing
  CHECK(told.pace_of_1024 == 0);
  CHECK(told.reason == "the power budget row0 grants no watts now");
  f.pass(1s);
  const auto second = f.answered(1, 2, 60'000);
  CHECK(second.lease_epoch == 1);
  CHECK(second.lease_sequence == 1);
  CHECK(second.in_force_mw == 0);
  CHECK(second.drawn_mw == 20'000);
  CHECK(second.source == fbs::PowerSource::modelled);
  CHECK(second.wish_mw == 100'000);  // nothing was judged: its limit
  told = f.last_told();
  CHECK(told.pace_of_1024 == 500);
  CHECK(told.reason.empty());
  const auto shown = f.status();
  CHECK(shown.parent == "row0");
  CHECK(shown.budget_w == 60);
  CHECK(shown.cap_w == 60);
  CHECK(shown.lease_left_ms == 10'000);
  CHECK(shown.parent_problem.empty());
  CHECK(f.warnings().empty());
}

TEST_CASE("pacer: what is granted, kept to and drawn are counters, by the name of the budget") {
  leased_pacer f;
  record_reader records(f.runtime().records, false);
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  std::map<std::string, double> last;
  const auto names = work_names();
  for (const auto& r : records.read(100'000))
    if (r.kind == record_kind::counter)
      last[names.at(r.type - 1)] = std::bit_cast<double>(r.sender);
  CHECK(last == std::map<std::string, double>{{"budget W", 60},
                                              {"cap W of row0", 60},
                                              {"drawn W", 20},
                                              {"pace %", 100.0 * 500 / 1024}});
}

TEST_CASE("JLP-2: a pacer acknowledges a lesser cap once its run has begun a step under it") {
  leased_pacer f;
  f.work();
  const auto working = f.answered(1, 3, 40'000);
  CHECK(working.in_force_mw == 60'000);
  CHECK(working.pace_of_1024 == 500);
  CHECK(f.last_told().pace_of_1024 == 248);
  f.pass(1s);
  const auto still = f.answered(1, 3, 40'000);
  CHECK(still.lease_sequence == 3);
  CHECK(still.in_force_mw == 60'000);  // the step goes on
  f.take_pace(2, 248, 0, f.word);
  f.pass(1s);
  const auto acked = f.answered(1, 3, 40'000);
  CHECK(acked.in_force_mw == 40'000);
  CHECK(acked.pace_of_1024 == 248);
  f.pass(1s);
  CHECK(f.answered(1, 4, 35'000).in_force_mw == 40'000);
  f.take_pace(0, 1024, 0, f.word);
  f.pass(1s);
  CHECK(f.answered(1, 4, 35'000).in_force_mw == 40'000);  // a step may begin by what it had heard
  CHECK(f.last_told().pace_of_1024 == 185);
  f.take_pace(0, 1024, 0, f.word);
  f.pass(1s);
  const auto idle = f.answered(1, 4, 35'000);
  CHECK(idle.in_force_mw == 35'000);  // no step is made
  CHECK(idle.pace_of_1024 == 0);
}

TEST_CASE("pacer: what a meter said long ago is not reported as what is drawn now") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  f.pass(1s);
  CHECK(f.answered(1, 2, 60'000).drawn_mw == 20'000);
  f.pass(3s);
  f.answered(1, 2, 60'000);  // sent before that was too old
  f.pass(1s);
  f.beat(20, 0, 0, 100);
  const auto late = f.answered(1, 2, 60'000);
  CHECK(late.drawn_mw == -1);
  CHECK(late.source == fbs::PowerSource::unknown);
  CHECK(late.wish_mw == 100'000);
  f.pass(1s);
  CHECK(f.answered(1, 2, 60'000).drawn_mw == 20'000);
}

TEST_CASE("JPP-8: a pacer says where its job works, and reports its part of what others use, too") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  f.beat(50, 100, 0, 100, 0.5, 2);
  f.pass(1s);
  const auto asked = f.budget.take<fbs::PowerReport>();
  const auto said = asked.m.unpack();
  CHECK(said.drawn_mw == 50'000);
  CHECK(said.machines == std::vector<std::string>{"boot"});
  leased_pacer::tell_shared(asked);
  // Half of the 20 W that it draws without work, and a quarter of what work draws.
  f.beat(50, 150, 0, 100, 0.5, 2);
  f.pass(1s);
  CHECK(f.answered(0, 0, 0).drawn_mw == 17'500);
  CHECK(f.status().power_w == 17.5);
}

TEST_CASE("JPP-8: a pacer counts what its own process computes, which is in no node's heartbeat") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  f.head = {1, 10};
  f.beat(50, 100, 0, 100, 0.5, 2);
  f.pass(1s);
  leased_pacer::tell_shared(f.budget.take<fbs::PowerReport>());
  f.head = {1.25, 12};
  f.beat(50, 150, 0, 100, 0.5, 2);
  f.pass(1s);
  CHECK(f.answered(0, 0, 0).drawn_mw == 17'500);
  f.beat(50, 200, 0, 100, 0.5, 2);
  f.pass(1s);
  CHECK(f.answered(0, 0, 0).drawn_mw == 21'250);  // an eighth more of the 30 W that work draws
}

TEST_CASE("JLP-4: pacer: a job that its budget does not know makes no step, and says so") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  f.pass(1s);
  f.budget.take<fbs::PowerReport>().refuse({errc::not_found, "row0 has no child \"job\""});
  const auto told = f.last_told();
  CHECK(told.pace_of_1024 == 0);
  CHECK(told.reason ==
        "the power budget row0 knows no job of this name: row0 has no child \"job\"");
  f.pass(2s);
  f.answered(1, 3, 60'000);
  CHECK(f.last_told().pace_of_1024 == 500);
}

TEST_CASE("PPL-6: how long a lesser cap takes until the run follows it is measured, and told") {
  leased_pacer f;
  f.work();
  CHECK(f.answered(1, 3, 40'000).actuation_ms == -1);
  CHECK(f.last_told().pace_of_1024 == 248);
  CHECK(f.status().actuation_p99_ms == -1);
  f.pass(700ms);  // the step goes on at its pace
  f.take_pace(2, 248, 0, f.word);
  CHECK(f.status().actuation_p50_ms == 700);
  CHECK(f.status().actuation_p99_ms == 700);
  f.pass(1s);
  CHECK(f.answered(1, 3, 40'000).actuation_ms == 700);
}

TEST_CASE("PPL-6: a lesser cap that rises again before the run follows it measures nothing") {
  leased_pacer f;
  f.work();
  f.answered(1, 3, 40'000);
  CHECK(f.last_told().pace_of_1024 == 248);
  f.pass(1s);  // the step goes on at its pace
  CHECK(f.answered(1, 4, 60'000).in_force_mw == 60'000);
  CHECK(f.last_told().pace_of_1024 == 500);
  CHECK(f.status().actuation_p99_ms == -1);
  f.take_pace(2, 500, 0, f.word);
  CHECK(f.status().actuation_p99_ms == -1);
  f.pass(1s);
  CHECK(f.answered(1, 5, 40'000).actuation_ms == -1);
  CHECK(f.last_told().pace_of_1024 == 248);
  f.pass(300ms);
  f.take_pace(3, 248, 0, f.word);
  CHECK(f.status().actuation_p99_ms == 300);
}

TEST_CASE("PWR-2: a lease that lapses leaves the static share, and a person is told once") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);  // until 10 s from here
  f.pass(9500ms);
  CHECK(f.run.take_all<fbs::JobPower>().empty());
  CHECK(f.status().lease_left_ms == 500);
  f.pass(1s);
  CHECK(f.last_told().pace_of_1024 == 122);
  CHECK(f.status().cap_w == 30);
  CHECK(f.status().lease_left_ms == 0);
  auto said = f.warnings();
  REQUIRE(said.size() == 2);
  CHECK(said[0].starts_with("the power budget row0 at 127.0.0.1:4242 is not heard: "));
  CHECK(
      said[1] ==
      "the lease of the power budget row0 has lapsed: from its next step on the job keeps to 30 W, "
      "until it is granted another");
  f.pass(1s);
  const auto asked = f.budget.take_all<fbs::PowerReport>();  // 1 s, and 7 s after it had its lease
  REQUIRE(asked.size() == 2);
  CHECK(asked.back()->in_force_mw() == 60'000);
  leased_pacer::grant(asked.back(), 1, 3, 60'000);
  CHECK(f.last_told().pace_of_1024 == 500);
  said = f.warnings();
  REQUIRE(said.size() == 1);
  CHECK(said[0] == "the power budget row0 grants again: 60 W");
  CHECK(f.status().parent_problem.empty());
}

TEST_CASE("PPL-5: over certificates a job reports to a power budget alone, as the child it is") {
  leased_pacer f(0, error{errc::not_found, "none yet"});
  f.certified = true;
  f.not_found.reset();
  const auto process = *caf::make_node_id(1, std::string(40, 'd'));
  REQUIRE(f.runtime().peers.bind(process, {"node7", tls::role::node}, 0));
  const auto node = f.make_partner("node7", process);
  f.serve(node);
  f.pass(1s);
  CHECK(f.status().parent_problem.starts_with("node7 answers there, whose certificate is of role"));
  CHECK(node.idle());
  f.serve(f.budget);
  f.pass(2s);
  CHECK(f.budget.take<fbs::PowerReport>()->child()->str() == "gpt-a");
  CHECK(f.proved.empty());
}

TEST_CASE("PPL-2: a budget that dies is found, proved to and connected anew") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  CHECK(f.proved == std::vector<size_t>{0});
  CHECK_FALSE(f.proof.expired());
  f.budget.die();
  CHECK(f.status().parent_problem.starts_with("the link to it has ended"));
  CHECK(f.proof.expired());
  CHECK(f.warnings().size() == 1);
  CHECK(f.run.take_all<fbs::JobPower>().empty());  // its lease holds
  const auto next = f.make_partner("next budget");
  f.serve(next);
  f.pass(1s);
  CHECK(f.proved == std::vector<size_t>{0, 1});
  CHECK_FALSE(f.proof.expired());
  CHECK(f.wires->tried.size() == 2);
  const auto asked = next.take<fbs::PowerReport>();
  CHECK(asked->lease_epoch() == 1);
  CHECK(asked->lease_sequence() == 2);
  leased_pacer::grant(asked, 2, 1, 80'000);
  CHECK(f.status().cap_w == 60);  // LSE-2
  CHECK(f.status().parent_problem.empty());
  f.pass(1s);
  const auto later = next.take<fbs::PowerReport>();
  CHECK(later->lease_epoch() == 2);
  leased_pacer::grant(later, 2, 2, 80'000);
  CHECK(f.status().cap_w == 80);
}

TEST_CASE("PPL-3: a refusal is told once, asked about ever more rarely, and stands in the reason") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  const error refusal{errc::not_found, "job is no child of row0"};
  f.budget.take<fbs::PowerReport>().refuse(refusal);
  CHECK(f.last_told().reason ==
        "no lease yet from the power budget row0 at 127.0.0.1:4242: job is no child of row0");
  CHECK(f.status().parent_problem == "job is no child of row0");
  CHECK(f.warnings() ==
        std::vector<std::string>{
            "the power budget row0 at 127.0.0.1:4242 is not heard: job is no child of row0"});
  for (const auto pause : {1s, 2s, 4s, 8s, 16s, 30s, 30s}) {
    f.beat(20, 0, 0, 100);
    f.pass(pause - 500ms);
    CHECK(f.budget.idle());
    f.pass(500ms);
    f.budget.take<fbs::PowerReport>().refuse(refusal);
  }
  CHECK(f.warnings().empty());
  CHECK(f.run.take_all<fbs::JobPower>().empty());
  f.beat(20, 0, 0, 100);
  f.pass(30s);
  f.answered(1, 1, 60'000);
  f.pass(1s);
  f.answered(1, 2, 60'000);  // each second again
  CHECK(f.last_told().pace_of_1024 == 500);
}

TEST_CASE("pacer: what a budget says that helps against its refusal is told with it") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.budget.take<fbs::PowerReport>().refuse(
      {errc::not_found, "row0 has no child \"job\"", "its children are gpt-a, gpt-b"});
  const std::string problem = "row0 has no child \"job\" (its children are gpt-a, gpt-b)";
  CHECK(f.status().parent_problem == problem);
  CHECK(f.last_told().reason ==
        "no lease yet from the power budget row0 at 127.0.0.1:4242: " + problem);
  CHECK(f.warnings() == std::vector<std::string>{
                            "the power budget row0 at 127.0.0.1:4242 is not heard: " + problem});
}

TEST_CASE("pacer: without a power budget to be found a job waits, says why, and finds it later") {
  leased_pacer f(0, error{errc::not_found, "no power budget is served on this machine"});
  f.take_pace(0, 1024, 0);
  CHECK(f.last_told().reason ==
        "no power budget is found: no power budget is served on this machine");
  CHECK(f.status().parent == "auto");
  CHECK(f.warnings().empty());  // the run says it
  CHECK(f.wires->tried.empty());
  f.not_found.reset();
  f.pass(1s);
  f.join(60'000);
  CHECK(f.status().cap_w == 60);
}

TEST_CASE("pacer: of a person's budget and what is granted the less holds") {
  leased_pacer f(44);
  f.take_pace(0, 1024, 44);
  f.answered(1, 1, 60'000);
  f.pass(1s);
  f.answered(1, 2, 60'000);
  CHECK(f.last_told().pace_of_1024 == 298);
  CHECK(f.status().budget_w == 44);
  CHECK(f.status().cap_w == 60);
  f.take_pace(0, 1024, 80);
  CHECK(f.last_told().pace_of_1024 == 500);
  CHECK(f.status().budget_w == 60);
}

TEST_CASE(
    "pacer: a job asks for what it can draw, by its own budget, and for no more while a person has "
    "it paused") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  f.take_pace(1, 500, 44, f.word);
  f.pass(1s);
  CHECK(f.answered(1, 2, 60'000).wish_mw == 44'000);
  f.take_pace(1, 500, 120, f.word);
  f.pass(1s);
  CHECK(f.answered(1, 2, 60'000).wish_mw == 100'000);  // no more than its limit
  f.beat(31, 0, 0, 100);
  f.take_pace(1, 500, 44, f.word, true);
  f.pass(1s);
  CHECK(f.answered(1, 2, 60'000).wish_mw == 31'000);  // what it draws, not what it would
  f.take_pace(0, 1024, 0, f.word, true);
  f.pass(3s);
  f.answered(1, 2, 60'000);  // sent before what was read was too old
  f.pass(1s);
  f.beat(22, 0, 0, 100);
  CHECK(f.answered(1, 2, 60'000).wish_mw == 100'000);  // nothing said what it drew
  f.pass(1s);
  f.take_pace(0, 1024, 0, f.word);
  CHECK(f.answered(1, 2, 60'000).wish_mw == 22'000);
  f.pass(1s);
  CHECK(f.answered(1, 2, 60'000).wish_mw == 100'000);
}

TEST_CASE("pacer: a job whose meters are not known yet asks for its own budget") {
  leased_pacer f(44);
  CHECK(f.answered(1, 1, 60'000).wish_mw == 44'000);
}

TEST_CASE("pacer: a budget that wants the work paused lets no step begin") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  f.pass(1s);
  f.answered(1, 3, 60'000, true);
  CHECK(f.run.take_all<fbs::CheckpointNow>().empty());  // no step was made
  const auto told = f.last_told();
  CHECK(told.pace_of_1024 == 0);
  CHECK(told.reason == "the power budget row0 wants the work paused");
  f.pass(1s);
  f.answered(1, 4, 60'000);
  CHECK(f.last_told().pace_of_1024 == 500);
}

TEST_CASE("PPL-4: a run that is to pause is asked for a checkpoint before it is told so, once") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  f.take_pace(1, 500, 0);
  f.pass(1s);
  f.run.take_all<fbs::JobPower>();
  f.answered(1, 3, 60'000, true);
  const auto saves = f.run.take<fbs::CheckpointNow>();  // first of all
  CHECK(saves.is_request());
  CHECK(saves->reason()->str() == "the power budget row0 wants the work paused");
  CHECK(f.last_told().pace_of_1024 == 0);
  saves.answer<fbs::Ack>();
  f.take_pace(0, 0, 0);  // it has paused
  f.pass(1s);
  f.answered(1, 3, 60'000, true);
  CHECK(f.run.take_all<fbs::CheckpointNow>().empty());
  f.pass(1s);
  f.answered(1, 4, 60'000);
  f.pass(1s);
  f.answered(1, 5, 60'000, true);
  const auto again = f.run.take_all<fbs::CheckpointNow>();
  REQUIRE(again.size() == 1);
  CHECK(f.warnings().empty());
  again[0].refuse({errc::unavailable, "the run ends"});
  const auto said = f.warnings();
  REQUIRE(said.size() == 1);
  CHECK(said[0].ends_with("the run ends"));
  f.pass(1s);
  f.tell_shared(f.budget.take<fbs::PowerReport>(), 90'000, 40'000);
  CHECK(f.last_told().reason.ends_with(" wants the work paused: needs 90 W, 40 W free in row0"));
}

TEST_CASE(
    "JLP-4: pacer: of two processes of a job the one that is refused makes no step, and says so") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  f.pass(1s);
  f.budget.take<fbs::PowerReport>().refuse(process_superseded("job", 10, 9, "row0"));
  const auto told = f.last_told();
  CHECK(told.pace_of_1024 == 0);
  CHECK(told.reason == "another process works as this job under the power budget row0");
  CHECK(f.status().parent_problem.find("of incarnation 10; this one is 9") != std::string::npos);
  CHECK(f.warnings().size() == 1);
  f.pass(1s);
  f.budget.take<fbs::PowerReport>().refuse({errc::unavailable, "it ends"});
  CHECK(f.status().pace_percent == 0);  // whatever fails then
  f.pass(9s);
  CHECK(f.status().lease_left_ms == 0);
  CHECK(f.warnings().empty());  // it keeps to nothing: it makes no step
  f.pass(3s);
  const auto asked = f.budget.take_all<fbs::PowerReport>();
  REQUIRE(!asked.empty());
  leased_pacer::grant(asked.back(), 1, 3, 60'000);
  CHECK(f.last_told().pace_of_1024 == 500);
  CHECK(f.warnings() == std::vector<std::string>{"the power budget row0 grants again: 60 W"});
}

TEST_CASE("PPL-1: one report is under way at most, and an answer to another life is a failure") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.pass(4s);
  const auto asked = f.budget.take<fbs::PowerReport>();
  CHECK(f.budget.idle());
  asked.answer<fbs::PowerGrant>([&](auto& g) {
    g.lease_epoch = g.lease_sequence = 1;
    g.answers_incarnation = 8;
    g.answers_sent_ns = asked->sent_ns();
    g.cap_mw = 60'000;
    g.ttl_ms = 10'000;
  });
  CHECK(f.status().parent_problem == "its answer fits no report of this job");
  CHECK(f.status().cap_w == -1);
}

TEST_CASE("PPL-1: what comes of a report to a budget that has died is not heard") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  f.pass(1s);
  CHECK(!f.budget.idle());  // it has not answered the last one
  f.budget.die();           // whose end is told, and then that nobody answers
  CHECK(f.status().parent_problem.starts_with("the link to it has ended"));
  const auto next = f.make_partner("next budget");
  f.serve(next);
  f.pass(1s);  // one failure, one pause
  CHECK(next.take<fbs::PowerReport>()->lease_sequence() == 2);
}

TEST_CASE("PCR-4: the brake of a budget goes to the run as it comes, with a lease or without") {
  leased_pacer f;
  f.work();
  CHECK(!f.answered(1, 2, 60'000, false, true).brake_armed);
  auto told = f.last_told();
  CHECK(told.brake);
  CHECK(told.pace_of_1024 == 0);
  CHECK(told.reason == "the power budget row0 holds all work by its brake");
  f.pass(1s);
  const auto held = f.answered(0, 0, 0, false, true);
  CHECK(held.pace_of_1024 == 0);  // what it draws now is no work
  CHECK(held.in_force_mw == 60'000);
  f.pass(1s);
  f.answered(1, 2, 60'000);
  told = f.last_told();
  CHECK(!told.brake);
  CHECK(told.pace_of_1024 == 500);
  CHECK(told.reason.empty());
  f.run.tell(f.target, make_msg<fbs::PaceTaken>(f.context(), [&](auto& t) {
               t.step = 1;
               t.pace_of_1024 = 500;
               t.follows = f.word;
               t.brake_armed = true;
             }));
  f.pass(1s);
  const auto armed = f.answered(1, 2, 60'000);
  CHECK(armed.pace_of_1024 == 500);
  CHECK(armed.brake_armed);
}

TEST_CASE("PCR-4: a job that is held says whose brake it is, however far above") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  const auto held_by = [&](const std::string& whose) {
    f.pass(1s);
    f.budget.take<fbs::PowerReport>().answer<fbs::PowerGrant>([&](auto& g) {
      g.budget = "row0";
      g.answers_incarnation = 9;
      g.static_share_mw = 30'000;
      g.brake = true;
      g.brake_of = whose;
    });
    return f.last_told().reason;
  };
  CHECK(held_by("site0") == "the power budget site0, above row0, holds all work by its brake");
  CHECK(held_by("row0") == "the power budget row0 holds all work by its brake");
}

TEST_CASE("PCR-4: the brake of a budget that is not heard any more is off with the lease") {
  leased_pacer f;
  f.work();
  f.answered(1, 2, 60'000, false, true);
  CHECK(f.last_told().brake);
  f.pass(8s);
  CHECK(f.run.take_all<fbs::JobPower>().empty());
  f.pass(2s);
  const auto told = f.last_told();
  CHECK(!told.brake);
  CHECK(told.pace_of_1024 == 122);  // of its static share
}

TEST_CASE("PCR-4: what a job draws under the brake raises no pace") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  double energy_j = 0;
  const auto second = [&](double w, bool brake) {
    energy_j += w;
    f.beat(w, energy_j, 0, 100);
    f.pass(1s);
    f.answered(1, 2, 60'000, false, brake);
  };
  for (uint64_t step = 1; step <= 2; ++step) {
    f.take_pace(step, 500, 0, f.word);
    for (int i = 0; i < 5; ++i) second(60, false);
  }
  const auto before = f.status().pace_percent;
  CHECK(before > 40);
  CHECK(before < 55);
  second(60, true);
  for (int i = 0; i < 60; ++i) second(20, true);
  CHECK(f.status().pace_percent == 0);
  second(60, false);
  CHECK(f.status().pace_percent == before);
  for (uint64_t step = 3; step <= 4; ++step) {
    f.take_pace(step, 500, 0, f.word);
    for (int i = 0; i < 5; ++i) second(60, false);
  }
  CHECK(f.status().pace_percent > 40);
  CHECK(f.status().pace_percent < 55);
}

TEST_CASE("PCR-4: a step that goes on after a brake is told above by means, not by instants") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000);
  double energy_j = 0;
  const auto second = [&](double w, bool brake) {
    energy_j += w;
    f.beat(w, energy_j, 0, 100);
    f.pass(1s);
    return f.answered(1, 2, 60'000, false, brake);
  };
  for (uint64_t step = 1; step <= 2; ++step) {
    f.take_pace(step, 500, 0, f.word);
    for (int i = 0; i < 5; ++i) second(60, false);
  }
  CHECK(second(60, true).drawn_mw == 60'000);
  for (int i = 0; i < 4; ++i) CHECK(second(20, true).drawn_mw == 20'000);
  second(20, false);
  for (int i = 0; i < 3; ++i) {
    const auto told = second(100, false);  // an operation at full speed, before what stretches it
    CHECK(told.pace_of_1024 == 500);
    CHECK(told.drawn_mw == 60'000);
  }
  f.take_pace(3, 500, 0, f.word);
  CHECK(f.status().pace_percent > 40);  // and no pace is judged by a part of a step
  CHECK(f.status().pace_percent < 55);
}
