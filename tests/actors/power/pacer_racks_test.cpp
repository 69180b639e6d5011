// The pacer of a job whose machines hang on two power budgets: whose pace it has, what each is
// told, and what it does where one of them is late, holds its work or dies.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/budget.hpp"
#include "actors/power/budget_finder.hpp"
#include "actors/power/fed_part.hpp"
#include "tests/actors/power/leased_pacer.hpp"
#include "tests/actors/power/scripted_pacer.hpp"
#include "tests/actors/scripted_node.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::cluster::test::scripted_connector;
using troupe::cluster::test::wiring;
using troupe::power::test::leased_pacer;
using troupe::power::test::pacer_epoch;
using troupe::power::test::scripted_pacer;
using troupe::test::partner;

namespace {

/// A machine in each of two racks, which draws 20 W without steps and 100 at most, so that a cap of
/// w watts is a pace of (0.985 w - 20) / 80.
struct racked_pacer : scripted_pacer {
  static constexpr uint16_t first_port = 4250;
  std::array<partner, 2> budgets{make_partner("row0"), make_partner("row1")};
  std::shared_ptr<wiring> wires = std::make_shared<wiring>();

  racked_pacer() {
    pacer_options options;
    options.epoch = pacer_epoch;
    for (const size_t rack : {0, 1}) {
      serve(rack, budgets.at(rack));
      options.racks.push_back({of_rack(rack), {"node" + std::to_string(rack)}});
    }
    start(std::move(options));
    for (const int rack : {0, 1}) draws(rack, 20);
  }

  static uint16_t port_of(size_t rack) { return static_cast<uint16_t>(first_port + rack); }
  void serve(size_t rack, const partner& who) {
    wires->there[{"127.0.0.1", port_of(rack)}] = who.self();
  }
  parent_options of_rack(size_t rack) {
    const auto name = "row" + std::to_string(rack);
    finder_options finder{"gpt-a", {}, {}, {}};
    finder.find = [name, rack]() -> result<budget_parent> {
      return budget_parent{name, "127.0.0.1", port_of(rack), {}};
    };
    finder.connector = [made = spawn(scripted_connector, wires)](caf::actor_system&) {
      return made;
    };
    parent_options out;
    out.named = "auto:" + name;
    out.child = "gpt-a";
    out.incarnation = 9;
    out.finder = [made = spawn(budget_finder, std::move(finder))](caf::actor_system&) {
      return made;
    };
    return out;
  }
  /// What the machine of a rack draws now.
  void draws(int rack, double power_w) {
    coordinator.tell(target, make_msg<fbs::Heartbeat>(context(), [&](fbs::HeartbeatT& h) {
                       h.vitals = std::make_unique<fbs::VitalsT>();
                       h.vitals->node = "node" + std::to_string(rack);
                       h.vitals->power = std::make_unique<fbs::PowerVitalsT>();
                       auto& p = *h.vitals->power;
                       p.machine = "boot" + std::to_string(rack);
                       p.power_w = power_w;
                       p.limit_w = 100;
                       p.source = fbs::PowerSource::modelled;
                       p.interval_ms = 1000;
                     }));
  }
  fbs::PowerReportT answered(size_t rack, uint64_t sequence, int64_t cap_mw, bool brake = false) {
    const auto asked = budgets.at(rack).take<fbs::PowerReport>();
    leased_pacer::grant(asked, 1, sequence, cap_mw, false, brake);
    return asked.m.unpack();
  }
  /// The first lease of a budget raises nothing: a second later the next one does.
  void join(int64_t first_mw, int64_t second_mw) {
    answered(0, 1, first_mw);
    answered(1, 1, second_mw);
    pass(1s);
    answered(0, 2, first_mw);
    answered(1, 2, second_mw);
  }
  fbs::JobPowerT told() {
    const auto all = run.take_all<fbs::JobPower>();
    REQUIRE(!all.empty());
    return all.back().m.unpack();
  }
};

}  // namespace

TEST_CASE("PCR-8: under two power budgets a job has the pace that the tighter one leaves") {
  racked_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000, 40'000);
  CHECK(f.told().pace_of_1024 == 248);
  const auto shown = f.status();
  CHECK(shown.parent == "row1");
  CHECK(shown.cap_w == 40);
  CHECK(shown.budget_w == 100);
  CHECK(shown.power_w == 40);
  REQUIRE(shown.racks.size() == 2);
  CHECK(shown.racks[0]->parent == "row0");
  CHECK(shown.racks[0]->nodes == std::vector<std::string>{"node0"});
  CHECK(shown.racks[0]->cap_w == 60);
  CHECK(shown.racks[0]->power_w == 20);
  CHECK(shown.racks[0]->pace_percent == doctest::Approx(100.0 * 500 / 1024));
  CHECK(shown.racks[1]->pace_percent == doctest::Approx(100.0 * 248 / 1024));
  f.pass(1s);
  f.answered(0, 3, 60'000);
  f.answered(1, 3, 80'000);
  CHECK(f.told().pace_of_1024 == 500);  // now row0 is
  CHECK(f.status().parent == "row0");
}

TEST_CASE("PCR-8: no step begins before each of the power budgets has granted watts") {
  racked_pacer f;
  f.take_pace(0, 1024, 0);
  f.answered(0, 1, 60'000);
  f.pass(1s);
  f.answered(0, 2, 60'000);
  auto told = f.told();
  CHECK(told.pace_of_1024 == 0);
  CHECK(told.reason == "no lease yet from the power budget row1 at 127.0.0.1:4251");
  f.answered(1, 1, 60'000);
  f.pass(1s);
  f.answered(0, 3, 60'000);
  f.answered(1, 2, 60'000);
  CHECK(f.told().pace_of_1024 == 500);
}

TEST_CASE("PCR-8: a power budget hears of its own machines, and of no more than they can use") {
  racked_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000, 40'000);
  f.draws(1, 30);
  f.pass(1s);
  const auto first = f.answered(0, 3, 60'000), second = f.answered(1, 3, 40'000);
  CHECK(first.machines == std::vector<std::string>{"boot0"});
  CHECK(second.machines == std::vector<std::string>{"boot1"});
  CHECK(first.drawn_mw == 20'000);
  CHECK(second.drawn_mw == 30'000);
  CHECK(first.in_force_mw == 0);  // no step is made yet
  // row1 leaves 248 of 1024: that and a quarter more, 20 + 80 * 0.3027 W.
  CHECK(first.wish_mw == 44'219);
  // row0 leaves 500: 20 + 80 * 0.6104, of which 20 were less without steps.
  CHECK(second.wish_mw == 68'828);
  CHECK(first.step_us == 0);
}

TEST_CASE("PCR-8: parts that wait for each other come up together") {
  CHECK(wished_speed(train::work_pace{0}) == 0.25);
  CHECK(wished_speed(train::work_pace{100}) == 0.25);
  CHECK(wished_speed(train::work_pace{512}) == 0.625);
  CHECK(wished_speed(train::work_pace{}) == 1);
  job_pace_policy::totals all;
  CHECK(drawn_at_w(all, 0.5) == -1);
  all.limit_w = 100;
  all.idle_w = 20;
  CHECK(drawn_at_w(all, 0.5) == 60);
  all.full_w = 80;  // as it was measured
  CHECK(drawn_at_w(all, 0.5) == 50);
  all.idle_w = -1;
  CHECK(drawn_at_w(all, 0.5) == 40);
}

TEST_CASE("PCR-8: the brake of one power budget holds all ranks") {
  racked_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000, 60'000);
  f.told();
  f.pass(1s);
  f.answered(0, 3, 60'000);
  f.answered(1, 3, 60'000, true);
  const auto held = f.told();
  CHECK(held.brake);
  CHECK(held.pace_of_1024 == 0);
  CHECK(held.reason == "the power budget row1 holds all work by its brake");
  f.pass(1s);
  f.answered(0, 4, 60'000);
  f.answered(1, 4, 60'000);
  CHECK_FALSE(f.told().brake);
}

TEST_CASE("PCR-8: a power budget that dies is found anew, and the other one is heard on") {
  racked_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000, 60'000);
  f.budgets[1].die();
  const auto next = f.make_partner("next row1");
  f.serve(1, next);
  f.pass(1s);
  f.answered(0, 3, 60'000);
  CHECK(next.take<fbs::PowerReport>()->lease_sequence() == 2);
  const auto shown = f.status();
  CHECK(shown.racks.at(0)->problem.empty());
  CHECK(shown.racks.at(1)->problem.starts_with("the link to it has ended"));
  CHECK(shown.racks.at(1)->cap_w == 60);  // its lease holds
}

TEST_CASE("PCR-8: the less of a person's budget and what racks have leaves the pace") {
  racked_pacer f;
  f.take_pace(0, 1024, 0);
  f.join(60'000, 60'000);
  CHECK(f.told().pace_of_1024 == 500);
  f.take_pace(0, 1024, 80);  // of both machines: 0.985 * 80 - 40, of 160
  CHECK(f.told().pace_of_1024 == 248);
  CHECK(f.status().budget_w == 80);
}
