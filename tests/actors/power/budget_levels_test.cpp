// A budget below another one: what it has, says and grants, alone with a scripted budget above it,
// and in two levels of real ones, whatever of them dies.
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/sim/rng.hpp"
#include "tests/actors/power/scripted_levels.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::test::leased_child;
using troupe::test::partner;
using troupe::test::scripted_levels;

namespace {

using level_caps = std::vector<int64_t>;
using held_below = std::vector<bool>;
using asked_above = troupe::test::told<fbs::PowerReport>;

const level_caps all_in_use = {50'000, 70'000, 30'000};

/// The rack alone; what is above it says what the test says.
struct rack_below : scripted_levels {
  partner row = make_partner("row");
  machine_counts shared = {};  ///< by what is above
  bool brakes = false;
  std::string brake_of = {};  ///< as what is above says

  rack_below() { serve(row.self()); }

  void grant(const asked_above& asked, uint64_t sequence, int64_t cap_mw,
             const std::string& name = "row0", int64_t static_share_mw = 60'000) const {
    asked.answer<fbs::PowerGrant>([&](fbs::PowerGrantT& g) {
      g.budget = name;
      g.lease_epoch = 1;
      g.lease_sequence = sequence;
      g.answers_incarnation = asked->incarnation();
      g.answers_sent_ns = asked->sent_ns();
      g.cap_mw = cap_mw;
      g.ttl_ms = 10'000;
      g.static_share_mw = static_share_mw;
      g.brake = brakes;
      g.brake_of = brake_of;
      for (const auto& [machine, count] : shared) {
        g.shared_machines.push_back(std::make_unique<fbs::SharedMachineT>());
        g.shared_machines.back()->machine = machine;
        g.shared_machines.back()->children = count;
      }
    });
  }
  /// The first report, once the rack knows what its children have.
  asked_above first_asked() {
    level_second();
    CHECK(row.idle());  // NLP-1
    level_second();
    return row.take<fbs::PowerReport>();
  }
  std::string why_not_heard() const {
    const auto said = rack_events("parent_not_heard");
    REQUIRE(said.size() == 1);
    return said[0].at("why");
  }
};

}  // namespace

TEST_CASE("PWR-3: budget levels: a rack that was never granted anything has nothing to grant") {
  scripted_levels f;
  for (auto& c : f.children) c.lease = lease_policy(30'000, 1, 0);
  f.is_cut = true;
  f.level_seconds(20);
  CHECK(f.caps() == level_caps{0, 0, 70'000});
  CHECK(f.rack_tree().knows);
  CHECK(f.rack_tree().cap_mw == 0);
  CHECK(f.rack_events("parent_not_heard").size() == 1);
  f.is_cut = false;
  f.level_seconds(45);
  CHECK(f.caps() == all_in_use);
  const auto row = f.tree();
  CHECK(row.counted_mw == 150'000);
  CHECK(row.children[0]->name == "rack0");
  CHECK(row.children[0]->granted_mw == 120'000);
  CHECK(row.children[0]->lease_left_ms > 0);
  CHECK(row.children[0]->pace_of_1024 == 512);
  CHECK(f.rack_tree().cap_mw == 120'000);
  CHECK(f.rack_events("lease").size() >= 1);
}

TEST_CASE("budget levels: what one level does not use moves on to the other") {
  scripted_levels f;
  f.level_seconds(20);
  REQUIRE(f.caps() == all_in_use);
  REQUIRE(f.set_rack(80'000));  // a person's
  f.level_seconds(15);
  CHECK(f.caps() == level_caps{10'000, 70'000, 70'000});
  CHECK(f.rack_tree().cap_mw == 80'000);
  CHECK(f.set_rack(59'999).error().code == errc::bad_config);
  REQUIRE(f.set_rack(120'000));
  REQUIRE(f.set(100'000));
  f.level_seconds(15);
  CHECK(f.caps() == level_caps{20'000, 70'000, 10'000});
  CHECK(f.rack_tree().cap_mw == 90'000);
}

TEST_CASE("budget levels: no lease of a rack's child outlasts the rack's own") {
  scripted_levels f;
  f.level_seconds(20);
  for (int i = 0; i < 30; ++i) {
    f.level_second();
    const auto left_ms = static_cast<int64_t>(f.tree().children[0]->lease_left_ms);
    for (size_t c = 0; c < 2; ++c)
      CHECK(f.children[c].lease.left_ns(f.now_ns()) <= left_ms * 1'000'000);
  }
  CHECK(f.caps() == all_in_use);
}

TEST_CASE("PWR-2: budget levels: a row that dies leaves its rack and all below static shares") {
  scripted_levels f;
  f.level_seconds(20);
  REQUIRE(f.caps() == all_in_use);
  f.kill_row();
  const auto until_ns = f.now_ns() + 9 * scripted_levels::second_ns;
  for (int i = 0; i < 25; ++i) {
    f.level_second();
    CAPTURE(i);
    CHECK(f.in_force_mw() <= 150'000);
    // Once its own has lapsed it grants what it has fallen to, which ends never.
    const bool is_leased = f.rack_events("lease_lapsed").empty();
    for (size_t c = 0; c < 2; ++c)
      if (is_leased) CHECK(f.children[c].lease.left_ns(f.now_ns()) <= until_ns - f.now_ns());
    CHECK((is_leased || f.children[0].lease.cap_mw() + f.children[1].lease.cap_mw() <=
                            scripted_levels::rack_static_mw));
    if (i >= 10) CHECK(f.caps()[0] + f.caps()[1] <= scripted_levels::rack_static_mw);
  }
  CHECK(f.caps()[0] + f.caps()[1] == scripted_levels::rack_static_mw);
  CHECK(f.caps()[2] == 30'000);
  CHECK(f.rack_tree().cap_mw == scripted_levels::rack_static_mw);
  REQUIRE(f.rack_events("lease_lapsed").size() == 1);
  CHECK(f.rack_events("lease_lapsed")[0].at("cap_w") == 60);
  CHECK(f.rack_events("lease_lapsed")[0].at("who") == "row0");
}

TEST_CASE(
    "PWR-1: budget levels: a row, or a rack, that starts again has all in use after a while") {
  for (const bool is_row : {true, false}) {
    CAPTURE(is_row);
    scripted_levels f;
    f.level_seconds(20);
    REQUIRE(f.caps() == all_in_use);
    is_row ? f.kill_row() : f.kill_rack();
    f.level_seconds(3);
    is_row ? f.begin_row(2) : f.begin_rack(2);
    for (int i = 0; i < 60; ++i) {
      f.level_second();
      CHECK(f.in_force_mw() <= 150'000);
    }
    CHECK(f.caps() == all_in_use);
    CHECK(f.rack_events("parent_not_heard").size() == (is_row ? 1 : 0));
  }
}

TEST_CASE("NLP-1: budget levels: a rack reports what its children have, draw and wish together") {
  rack_below f;
  f.children[0].drawn_mw = 20'000;
  f.children[1].drawn_mw = 30'000;
  f.children[1].source = fbs::PowerSource::modelled;
  f.children[0].machines = {"boot0"};
  f.children[1].machines = {"boot0", "boot1"};
  auto asked = f.first_asked();
  auto said = asked.m.unpack();
  CHECK(said.incarnation == 1);
  CHECK(said.lease_epoch == 0);
  CHECK(said.in_force_mw == 60'000);
  CHECK(said.drawn_mw == 50'000);
  CHECK(said.source == fbs::PowerSource::modelled);
  CHECK(said.wish_mw == 120'000);  // no more than it may have
  CHECK(said.pace_of_1024 == 512);
  CHECK(said.machines == std::vector<std::string>{"boot0", "boot1"});

  f.grant(asked, 1, 60'000);
  f.level_second();
  asked = f.row.take<fbs::PowerReport>();
  CHECK(asked->lease_sequence() == 1);
  f.grant(asked, 2, 100'000);
  f.level_seconds(3);
  CHECK(f.rack_tree().cap_mw == 100'000);
  CHECK(f.caps() == level_caps{30'000, 70'000, 30'000});
}

TEST_CASE("NDP-3: budget levels: who shares a machine above is told below") {
  rack_below f;
  f.children[0].machines = {"boot0"};
  f.children[1].machines = {"boot0", "boot1", "boot3"};
  f.shared = {{"boot0", 3}, {"boot1", 2}, {"boot2", 7}, {"boot3", 0}};
  f.grant(f.first_asked(), 1, 60'000);
  for (auto& c : f.children) f.reports(c);
  f.pass(1s);
  std::vector<machine_counts> told(2);
  for (size_t i = 0; i < told.size(); ++i)
    for (const auto& m : f.answer_to(f.children[i]).shared_machines)
      told[i][m->machine] = m->children;
  CHECK(told[0] == machine_counts{{"boot0", 4}});  // the two, and two others above
  CHECK(told[1] == machine_counts{{"boot0", 4}, {"boot1", 2}});
}

TEST_CASE("NLP-5: budget levels: a brake above is one for all below, as long as the lease lasts") {
  rack_below f;
  f.brakes = true;
  f.grant(f.first_asked(), 1, 60'000);
  CHECK(f.braked() == held_below{true, true, false});  // the last one is no child of the rack
  CHECK(f.rack_tree().brake);
  REQUIRE(f.rack_events("brake_on").size() == 1);
  CHECK(f.rack_events("brake_on")[0].at("by") == "row0");
  f.brakes = false;
  f.grant(f.row.take<fbs::PowerReport>(), 1, 60'000);
  CHECK(f.braked() == held_below{false, false, false});
  CHECK(!f.rack_tree().brake);
  f.brakes = true;
  f.grant(f.row.take<fbs::PowerReport>(), 1, 60'000);
  CHECK(f.braked() == held_below{true, true, false});
  f.level_seconds(12);  // nobody answers from above
  CHECK(f.braked() == held_below{false, false, false});
  CHECK(f.rack_events("brake_off").size() == 2);
}

TEST_CASE("BGA-5: budget levels: who lets a rack's work go on is told whose brake holds it still") {
  rack_below f;
  f.brakes = true;
  f.grant(f.first_asked(), 1, 60'000);
  CHECK(f.braked() == held_below{true, true, false});
  CHECK(f.rack_tree().brake_above == "row0");
  CHECK(!f.rack_tree().brake_here);
  const auto let_go = f.make<fbs::SetPowerBrake>([](auto& s) { s.on = false; });
  const auto answer = f.person.answer_of<fbs::Ack>(f.person.ask(f.rack, let_go));
  REQUIRE(answer);
  CHECK((*answer)->text()->str() ==
        "rack0 lets work go on, as before, but row0 above it holds all work within its step, until "
        "somebody lets it go on (troupe power brake row0 off): 2 of 2 children were heard");
}

TEST_CASE("BGA-5: budget levels: all below are told whose brake it is, however far above") {
  rack_below f;
  f.brakes = true;
  f.brake_of = "site0";
  f.grant(f.first_asked(), 1, 60'000);
  for (auto& c : f.children) f.reports(c);
  f.pass(1s);
  const auto told = f.answer_to(f.children[0]);
  CHECK(told.brake);
  CHECK(told.brake_of == "site0");
  CHECK(f.answer_to(f.children[2]).brake_of.empty());  // no child of the rack
  const auto tree = f.rack_tree();
  CHECK(tree.brake_above == "site0");
  CHECK(tree.parent == "row0");
  CHECK(tree.lease_left_ms > 0);
  CHECK(tree.lease_left_ms < 10'000);
}

TEST_CASE("budget levels: who sets a rack's budget above its lease is told what that grants") {
  rack_below f;
  f.grant(f.first_asked(), 1, 60'000);
  f.level_second();
  const auto answer = f.set_rack(100'000);
  REQUIRE(answer);
  CHECK((*answer)->text()->str() ==
        "rack0 has 100 W from now on, of which row0 grants it 60 W now; it was 120 W");
}

TEST_CASE("NDP-4: budget levels: a rack can be held where all who work below it can") {
  rack_below f;
  for (auto& c : f.children) c.armed = true;
  auto asked = f.first_asked();
  CHECK(asked->brake_armed());
  f.children[1].armed = false;
  for (int i = 0; i < 2; ++i) {
    f.grant(asked, 1, 60'000);
    f.level_second();
    asked = f.row.take<fbs::PowerReport>();
  }
  CHECK(!asked->brake_armed());
}

TEST_CASE("NDP-4: budget levels: who is silent below a rack may work, and cannot be held") {
  rack_below f;
  for (auto& c : f.children) c.armed = true;
  auto asked = f.first_asked();
  f.children[1].speaks = false;
  for (int i = 0; i < 12; ++i) {  // longer than its lease
    f.grant(asked, 1, 60'000);
    f.level_second();
    asked = f.row.take<fbs::PowerReport>();
  }
  CHECK(!asked->brake_armed());
  f.children[1].speaks = true;
  for (int i = 0; i < 2; ++i) {
    f.grant(asked, 1, 60'000);
    f.level_second();
    asked = f.row.take<fbs::PowerReport>();
  }
  CHECK(asked->brake_armed());
}

TEST_CASE("BGA-5: budget levels: a person's brake at the row holds all below its rack, too") {
  scripted_levels f;
  f.level_seconds(20);
  REQUIRE(f.brake(true));
  f.level_seconds(3);
  CHECK(f.braked() == held_below{true, true, true});
  REQUIRE(f.brake(false));
  f.level_seconds(3);
  CHECK(f.braked() == held_below{false, false, false});
  CHECK(f.caps() == all_in_use);  // leases went on beside it
}

TEST_CASE("NDP-1: budget levels: a budget is no child of itself") {
  rack_below f;
  f.grant(f.first_asked(), 1, 60'000, "rack0");
  CHECK(f.why_not_heard().starts_with(own_parent("rack0").message));
  f.level_second();
  CHECK(f.rack_tree().cap_mw == 60'000);  // what its children told
  CHECK(f.rack_events("lease").empty());
}

TEST_CASE("NDP-1: budget levels: a budget that reaches itself by another name does not report") {
  rack_below f;
  f.serve(caf::actor_cast<caf::strong_actor_ptr>(f.rack));  // as 0.0.0.0 is all addresses
  f.level_seconds(5);
  CHECK(f.why_not_heard().starts_with(own_parent("rack0").message));
  CHECK(f.rack_events("refused").empty());  // it has no child of its own name
  CHECK(f.rack_events("lease").empty());
  CHECK(f.row.idle());
}

TEST_CASE("NDP-1: budget levels: where a connection has led to itself a budget says so") {
  rack_below f;
  f.wires->refusal = caf::make_error(caf::sec::redundant_connection);  // as the gate has it
  f.level_seconds(5);
  CHECK(f.why_not_heard().starts_with(own_parent("rack0").message));
}

TEST_CASE("NDP-2: budget levels: what does not cover the static shares below it is not taken") {
  rack_below f;
  f.grant(f.first_asked(), 1, 100'000, "row0", 50'000);
  CHECK(
      f.why_not_heard().starts_with(uncovered_static_shares("row0", "rack0", 50.0, 60.0).message));
  f.level_second();
  CHECK(f.rack_tree().cap_mw == 50'000);
  CHECK(f.rack_events("lease").empty());
}

TEST_CASE("NLP-3: budget levels: a rack that is refused as its row's child grants nothing") {
  for (const error& why : {error(process_superseded("rack0", 9, 1, "row0")),
                           error{errc::not_found, "row0 has no child \"rack0\""}}) {
    CAPTURE(why.message);
    rack_below f;
    f.grant(f.first_asked(), 1, 60'000);
    f.level_second();
    CHECK(f.rack_tree().cap_mw == 60'000);
    f.row.take<fbs::PowerReport>().refuse(why);
    f.level_second();
    CHECK(f.rack_tree().cap_mw == 0);
    f.level_seconds(4);
    CHECK(f.caps()[0] <= 1000);  // what is drawn while work is paused
    CHECK(f.caps()[1] <= 1000);
  }
}

namespace {

/// Both levels: demand, silence, answers that are lost, restarts of jobs and budgets, budgets that
/// change, a rack that does not find its row.
struct level_walk : scripted_levels {
  troupe::sim::rng chance;
  int64_t bound_mw = 150'000;  ///< what was in force of a budget that was cut
  uint64_t row_life = 1, rack_life = 1;

  explicit level_walk(uint64_t seed) : chance(troupe::sim::mix(seed)) {}

  void disturb(leased_child& c) {
    c.wish_mw = chance.chance(0.3) ? chance.between(0, 70'000) : c.wish_mw;
    if (chance.chance(0.1)) c.speaks = !c.speaks;
    if (chance.chance(0.2)) c.hears = !c.hears;
    if (!chance.chance(0.03)) return;
    c.lease = lease_policy(30'000, ++c.incarnation, c.lease.in_force_mw());
  }
  void live_and_die() {
    if (row_is_up ? chance.chance(0.04) : chance.chance(0.2))
      row_is_up ? kill_row() : begin_row(++row_life);
    if (rack_is_up ? chance.chance(0.04) : chance.chance(0.2))
      rack_is_up ? kill_rack() : begin_rack(++rack_life);
    if (chance.chance(0.1)) is_cut = !is_cut;
  }
  void set_budgets() {
    const auto row_mw = chance.between(80'000, 200'000);
    if (row_is_up && chance.chance(0.1))
      CHECK(static_cast<bool>(set(row_mw)) == (row_mw >= 90'000));
    const auto rack_mw = chance.between(50'000, 120'000);
    if (rack_is_up && chance.chance(0.1))
      CHECK(static_cast<bool>(set_rack(rack_mw)) == (rack_mw >= 60'000));
  }
  void step() {
    for (auto& c : children) disturb(c);
    live_and_die();
    set_budgets();
    level_second();
    judge();
  }
  void judge() {
    if (row_is_up) {
      const auto t = tree();
      if (t.knows) bound_mw = std::min(bound_mw, t.counted_mw);
      bound_mw = std::max(bound_mw, t.cap_mw);
    }
    CHECK(in_force_mw() <= bound_mw);
  }
  /// From now on nothing fails and everybody wishes for all there is.
  void calm() {
    is_cut = false;
    if (!row_is_up) begin_row(++row_life);
    if (!rack_is_up) begin_rack(++rack_life);
    for (auto& c : children) {
      c.wish_mw = 70'000;
      c.speaks = c.hears = true;
    }
    REQUIRE(set(190'000));
    REQUIRE(set_rack(120'000));
  }
};

}  // namespace

TEST_CASE("PWR-1 and PWR-2: budget levels: random walks keep the budget of the row") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    level_walk walk(seed);
    for (int i = 0; i < 80; ++i) walk.step();
    walk.calm();
    for (int i = 0; i < 90; ++i) {
      walk.level_second();
      walk.judge();
    }
    CHECK(walk.in_force_mw() > 189'000);  // what is there is used
  }
}
