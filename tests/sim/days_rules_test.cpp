// What becomes of single faults in simulated days: who is named, who leaves, what comes back, what
// ends the job.
#include <doctest/doctest.h>

#include "actors/sim/days/day_nodes.hpp"
#include "actors/sim/days/day_rules.hpp"

using namespace troupe;
using namespace troupe::sim;
using health::time_use;

namespace {

constexpr int64_t second_ns = 1'000'000'000;

/// Two replicas of 64 ranks on 16 nodes, and steps of ten seconds.
struct small_days {
  day_options o;
  day_times t;

  small_days() {
    o.days = 0.25;
    o.nodes = 16;
    o.workers = 8;
    o.copies = 1;
    o.spares = 2;
    o.heads = 3;
    o.health.checkup_at_join = false;
    o.mix.person_share = 0.1;
    t.step_ns = 10 * second_ns;
    t.process_start_ns = 20 * second_ns;
    t.reschedule_ns = 400 * second_ns;
    t.requeue_ns = 800 * second_ns;
    t.person_ns = 3000 * second_ns;
    t.group_limit_ns = 120 * second_ns;
    t.stuck_ns = 4 * second_ns;
    t.stuck_acts_ns = 30 * second_ns;
    t.head_ns = t.rejoin_ns = 10 * second_ns;
    t.protocol.notice_silent_ns = 9 * second_ns;
    t.protocol.notice_error_ns = 2 * second_ns;
    t.slow_ns = 60 * second_ns;
    t.slow_out_ns = 150 * second_ns;
    t.warned_ns = 7200 * second_ns;
    t.repair_ns = 86'400 * second_ns;
    t.link_tests_ns = 10 * second_ns;
    t.wrong_bits_person_ns = 4000 * second_ns;
    t.digest_ns = 100 * second_ns;
    t.recheck_ns = 600 * second_ns;
  }

  /// A fault of that finding befalls node 5, or another, 1,005 seconds after the begin.
  day_outcome run(const char* finding, timed_fault f = {.node = 5, .stays = 0.99}) {
    return run({{f, finding}});
  }
  day_outcome run(const std::vector<std::pair<timed_fault, const char*>>& faults) {
    std::vector<timed_fault> schedule;
    o.mix.causes.clear();
    for (auto [f, finding] : faults) {
      f.cause = o.mix.causes.size();
      if (f.at_ns == 0) f.at_ns = 1'005 * second_ns;
      o.mix.causes.push_back({finding, 1, finding, fault_scope::node});
      schedule.push_back(f);
    }
    auto out = simulate_days(o, t, schedule);
    CHECK(out.ledger.whole().wall_ns() == ns_of(o.days * 86'400));
    return out;
  }
};

constexpr timed_fault passing{.node = 5, .stays = 0.99}, staying{.node = 5, .stays = 0};
constexpr timed_fault right_end{.node = 5, .stays = 0, .verdict = 0};
constexpr timed_fault wrong_end{.node = 5, .stays = 0, .verdict = 0.99};

config::job four_replicas() {
  config::job job;
  job.cluster.node.assign(4, {"", "", 1});
  job.parallel.data = 4;
  job.train.micro_batch = 1;
  job.train.batch = 12;
  return job;
}

}  // namespace

// -- places ---------------------------------------------------------------------------------------

TEST_CASE("DYN-1 DYN-2: days: who was lost comes back as the last of the spares, sick as it was") {
  day_nodes n(four_replicas(), 2);
  n.fall_sick(1, sickness::device, 1'000);
  n.lose(1, 10, 10, 0);
  n.fill(100, 0);
  CHECK(n.node_in(1) == 4);
  CHECK(n.spares_used() == 1);
  CHECK(n.place_of_sick(sickness::device, 20) == -1);
  n.lose(2, 30, 30, 20);
  n.fill(100, 20);
  CHECK(n.node_in(2) == 5);
  n.lose(3, 50, 50, 40);
  n.fill(100, 40);
  CHECK(n.node_in(3) == 1);
  CHECK(n.place_of_sick(sickness::device, 40) == 3);
  CHECK(n.place_of_sick(sickness::device, 1'000) == -1);  // it is repaired
}

TEST_CASE("DYN-2: days: twice within an hour is evicted, and comes back once it was repaired") {
  day_nodes n(four_replicas(), 1);
  n.lose(1, 0, 0, 0);
  n.lose(1, 10, 10, 5);
  n.fill(100, 5);
  CHECK(n.node_in(1) == 4);
  CHECK(n.healthy_evicted() == 1);
  CHECK(n.spares(99) == 0);
  CHECK(n.spares(100) == 1);
}

TEST_CASE("DYN-1: days: fewer replicas share the batch, and are more once there are nodes") {
  day_nodes n(four_replicas(), 0);
  n.lose(0, 500, 500, 0);
  CHECK(n.whole_at_ns() == 500);
  REQUIRE(n.use_fewer(1'000, 300, 0));
  CHECK(n.replicas() == 3);
  CHECK(n.places() == 3);
  CHECK(n.whole_at_ns() == 0);
  CHECK(n.node_in(0) == 3);  // who has no replica any more
  CHECK(!n.may_grow(299));
  REQUIRE(n.may_grow(300));
  n.use_more(1'000, 300);
  CHECK(n.has_all_replicas());
  CHECK(n.whole_at_ns() == 300);
}

// -- one fault ------------------------------------------------------------------------------------

TEST_CASE("days: without a spare there are fewer replicas after recovery.return_s, and all again") {
  small_days d;
  d.o.spares = 0;
  const auto fewer = d.run("lost_host");
  CHECK(fewer.fewer_replicas == 1);
  CHECK(fewer.jobs_ended == 0);
  // From 60 s on after it was noticed until there is another host, in steps of twice the time.
  CHECK(fewer.slower_ns > 150 * second_ns);
  CHECK(fewer.slower_ns < 240 * second_ns);
  CHECK(fewer.ledger.whole()[time_use::waiting_for_nodes] == 60 * second_ns);
  CHECK(fewer.effective() < fewer.ledger.whole().effective());
  d.o.recovery.fewer_replicas = false;
  const auto waits = d.run("lost_host");
  CHECK(waits.fewer_replicas == 0);
  CHECK(waits.slower_ns == 0);
  CHECK(waits.ledger.whole()[time_use::waiting_for_nodes] == 400 * second_ns);
}

TEST_CASE("days: of several heads another one acts, a single one's host ends the job") {
  small_days d;
  const timed_fault of_head{.node = 0, .stays = 0.99};
  const auto several = d.run("lost_host", of_head);
  CHECK(several.jobs_ended == 0);
  CHECK(several.ledger.whole()[time_use::head_away] >= 15 * second_ns);
  CHECK(several.incidents.front().unaided);
  d.o.heads = 1;
  CHECK(d.run("lost_host", of_head).jobs_ended == 1);
  const auto again = d.run("head_lost", of_head);  // its launcher starts it again
  CHECK(again.jobs_ended == 0);
  CHECK(again.ledger.whole()[time_use::head_away] >= 20 * second_ns);
}

TEST_CASE("days: tests of pairs name a link's sick end, of one that passes either is taken") {
  small_days d;
  for (const auto& fault : {right_end, wrong_end}) {
    const auto stays = d.run("half_open_link", fault);
    CHECK(stays.jobs_ended == 0);
    CHECK(stays.false_evictions == 0);
    CHECK(stays.incidents.front().noticed_ns == 4 * second_ns);
    CHECK(stays.incidents.front().named_ns == 14 * second_ns);  // before it is acted on
    CHECK(stays.incidents.front().back_ns > 34 * second_ns);
  }
  auto flaps = wrong_end;
  flaps.stays = 0.99;
  const auto flapped = d.run("half_open_link", flaps);
  CHECK(flapped.jobs_ended == 0);  // a sound node leaves, and new connections do
  CHECK(flapped.false_evictions == 1);
  CHECK(flapped.incidents.front().named_ns == -1);
}

TEST_CASE("days: without the monitor's word what stands still waits for a time limit") {
  small_days d;
  d.o.recovery.stuck_after_s = 0;
  d.t.step_limit_ns = 600 * second_ns;
  CHECK(d.run("stuck_device", passing).incidents.front().noticed_ns == 600 * second_ns);
  const auto link = d.run("half_open_link", right_end);
  CHECK(link.incidents.front().noticed_ns == 120 * second_ns);
  CHECK(link.jobs_ended == 1);  // nobody is named
}

TEST_CASE("days: a host whose device stays sick ends the job where it is the only spare") {
  small_days d;
  timed_fault later = passing;
  later.node = 7;
  later.at_ns = 9'005 * second_ns;
  const auto with_spares = [&](int spares) {
    d.o.spares = spares;
    return d.run({{staying, "lost_device"}, {later, "lost_host"}});
  };
  const auto two = with_spares(2);
  CHECK(two.jobs_ended == 0);
  REQUIRE(two.incidents.size() == 2);
  CHECK(two.incidents[1].back_ns < 25 * second_ns);
  const auto one = with_spares(1);  // it comes into the place, and fails three times (RCV-4)
  CHECK(one.jobs_ended == 1);
  CHECK(!one.incidents[1].unaided);
  CHECK(one.incidents[0].unaided);
  d.o.planned = true;
  CHECK(with_spares(1).jobs_ended == 0);
}

TEST_CASE("days: who grows back with a sick link has the budget of any other fault") {
  small_days d;
  d.o.days = 1.5;
  d.o.spares = 0;
  d.o.recovery.return_s = 10;  // the process of the sick end comes later, and has a place again
  const auto done = d.run("half_open_link", right_end);
  CHECK(done.fewer_replicas == 1);
  CHECK(done.jobs_ended == 1);
  CHECK(done.ledger.whole()[time_use::re_form] < 3'600 * second_ns);
}

TEST_CASE("days: a slow node is waited for until a person comes, or a spare takes its place") {
  small_days d;
  const auto told = d.run("straggler");
  CHECK(!told.incidents.front().unaided);
  CHECK(told.incidents.front().named_ns == 60 * second_ns);
  CHECK(told.slower_ns > 600 * second_ns);  // a tenth of two hours
  d.o.recovery.evict_slow = true;
  const auto replaced = d.run("straggler");
  CHECK(replaced.incidents.front().unaided);
  CHECK(replaced.slower_ns > 10 * second_ns);
  CHECK(replaced.slower_ns < 30 * second_ns);
  CHECK(replaced.spares_used == 1);
  d.o.spares = 0;  // SEV-1
  CHECK(d.run("straggler").slower_ns > 600 * second_ns);
}

TEST_CASE("days: bits that replicas see cost a recovery, all others a person") {
  small_days d;
  auto late_held = right_end, late_computed = wrong_end;
  late_held.when = late_computed.when = 1;
  const auto held = d.run("wrong_bits", late_held), computed = d.run("wrong_bits", late_computed);
  for (const auto& seen : {held, computed}) {
    CHECK(seen.jobs_ended == 0);
    CHECK(seen.incidents.front().unaided);
  }
  CHECK(computed.ledger.whole()[time_use::repeated] > held.ledger.whole()[time_use::repeated]);
  d.o.health.digest_every = 0;
  CHECK(d.run("wrong_bits", right_end).jobs_ended == 1);
  CHECK(d.run("wrong_bits", wrong_end).jobs_ended == 0);
  d.o.health.recheck_every = 0;
  CHECK(d.run("wrong_bits", wrong_end).jobs_ended == 1);
  CHECK(d.run("bad_loss").jobs_ended == 1);
}

TEST_CASE("days: a disk that fails for good is told of, and replaced by nobody") {
  small_days d;
  CHECK(d.run("disk_failing", passing).jobs_ended == 0);
  const auto stays = d.run("disk_failing", staying);
  CHECK(stays.jobs_ended == 1);
  CHECK(stays.incidents.front().named_ns == 2 * second_ns);
}

TEST_CASE("days: an examination at join that errs keeps healthy nodes out") {
  small_days d;
  std::vector<std::pair<timed_fault, const char*>> faults;
  for (int i = 1; i <= 200; ++i)
    faults.push_back(
        {{.at_ns = i * 100 * second_ns, .node = i % 16, .stays = 0.99}, "dead_process"});
  d.o.recovery.most_per_hour = 1'000;
  uint64_t wrong = 0, without = 0;
  for (d.o.seed = 1; d.o.seed <= 20; ++d.o.seed) {
    d.o.health.checkup_at_join = false;
    const auto out = d.run(faults);
    without += out.false_evictions;
    d.o.health.checkup_at_join = true;
    wrong += d.run(faults).false_evictions;
  }
  CHECK(wrong > without);
}
