// The brake of a budget: a person's word to all of its children, and what is left of it.
#include <chrono>

#include <doctest/doctest.h>

#include "tests/actors/power/scripted_budget.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::test::scripted_budget;

namespace {

using held_children = std::vector<bool>;

std::string said_of(const result<msg<fbs::Ack>>& answer) {
  return answer ? (*answer)->text()->str() : "refused: " + answer.error().message;
}

}  // namespace

TEST_CASE("BGA-5: budget: a person's brake is in each answer to a child until it is off") {
  scripted_budget f;
  f.seconds(3);
  CHECK(f.braked() == held_children{false, false});
  CHECK(said_of(f.brake(true)) ==
        "row0 holds all work within its step from now on: 2 of 2 children were heard");
  // With a lease or without: leases are renewed each third of their time alone.
  for (int i = 0; i < 4; ++i) CHECK(f.braked() == held_children{true, true});
  auto tree = f.tree();
  CHECK(tree.brake);
  CHECK(tree.children[0]->brake);
  CHECK(tree.children[1]->brake);
  CHECK(said_of(f.brake(true)) ==
        "row0 holds all work within its step, as before: 2 of 2 children were heard");
  CHECK(f.events("brake_on").size() == 1);
  CHECK(f.events("brake_off").empty());
  CHECK(f.caps() == std::vector<int64_t>{10'000, 60'000});  // leases go on beside it
  CHECK(said_of(f.brake(false)) == "row0 lets work go on from now on: 2 of 2 children were heard");
  CHECK(f.braked() == held_children{false, false});
  CHECK(!f.tree().brake);
  CHECK(f.events("brake_off").size() == 1);
}

TEST_CASE("BGA-5: budget: the brake of another budget is none of its") {
  scripted_budget f;
  CHECK(f.brake(true, "row1").error().code == errc::not_found);
  CHECK(f.braked() == held_children{false, false});
  CHECK(f.brake(true, ""));
  CHECK(f.braked() == held_children{true, true});
}

TEST_CASE("BGA-5: budget: a brake is on in the next life, too, until a person lets work go on") {
  scripted_budget f;
  f.begin_with(2, "");
  f.seconds(2);
  REQUIRE(f.brake(true));
  f.seconds(1);
  CHECK(f.keeper->last().brake);
  f.begin_with(3, f.keeper->left());
  CHECK(f.events("brake_on").size() == 2);
  CHECK(f.braked() == held_children{true, true});
  REQUIRE(f.brake(false));
  f.seconds(1);
  CHECK(!f.keeper->last().brake);
  f.begin_with(4, f.keeper->left());
  CHECK(f.braked() == held_children{false, false});
}

TEST_CASE("BGA-8: budget: who sets the brake is answered once that is on the disk") {
  scripted_budget f;
  f.begin_with(2, "");
  f.seconds(3);
  const auto said = [&](uint64_t asked) { return said_of(f.person.answer_of<fbs::Ack>(asked)); };
  f.keeper->answers = false;
  const auto first = f.ask_brake(true), again = f.ask_brake(true);
  f.pass(200ms);
  CHECK(said(first) == "refused: no answer");
  CHECK(said(again) == "refused: no answer");  // it promises the same
  CHECK(f.tree().brake);                       // and work is held all the same
  f.keeper->answers = true;
  f.pass(100ms);
  CHECK(said(first) ==
        "row0 holds all work within its step from now on: 2 of 2 children were heard");
  CHECK(said(again) ==
        "row0 holds all work within its step, as before: 2 of 2 children were heard");
  CHECK(f.keeper->text == f.keeper->writes.back());
  CHECK(f.keeper->last().brake);
  CHECK(f.brake(true));  // nothing is to be written
}

TEST_CASE(
    "BGA-8: budget: who sets it while the disk fails, or hangs, is told that it is not there") {
  scripted_budget f;
  f.begin_with(2, "");
  f.seconds(3);
  f.keeper->fails = error{errc::io, "no space"};
  const std::string braked =
      "row0 holds all work within its step from now on: 2 of 2 children were heard";
  const auto refused = f.brake(true);
  REQUIRE(!refused);
  CHECK(refused.error() == set_not_recorded(braked, "no space"));
  CHECK(refused.error().code == errc::io);  // `power brake` ends with 74
  CHECK(f.tree().brake);
  f.keeper->fails.reset();
  CHECK(said_of(f.brake(true)) ==  // it is tried again
        "row0 holds all work within its step, as before: 2 of 2 children were heard");
  f.keeper->answers = false;
  const auto asked = f.ask_brake(false);
  CHECK(!f.tree().brake);
  f.pass(1400ms);
  CHECK(said_of(f.person.answer_of<fbs::Ack>(asked)) == "refused: no answer");
  f.pass(200ms);
  const auto late = f.person.answer_of<fbs::Ack>(asked);
  REQUIRE(!late);
  CHECK(late.error() ==
        set_not_recorded("row0 lets work go on from now on: 2 of 2 children were heard",
                         "a write takes long"));
  f.keeper->answers = true;
  f.seconds(2);  // decisions go on, one a second
  CHECK(!f.keeper->last().brake);
}

namespace {

/// A budget of thresholds, whose children draw 20 W each and can be held.
struct row_of_thresholds : scripted_budget {
  row_of_thresholds() {
    auto terms_of_row = options(2, 70'000);
    terms_of_row.rules.mode = budget_mode::thresholds;
    target = spawn(power::budget, terms_of_row);
    draw(20'000);
    for (auto& c : children) c.armed = true;
  }
  void draw(int64_t each_mw) {
    for (auto& c : children) c.drawn_mw = each_mw;
  }
};

}  // namespace

TEST_CASE("BGT-2: budget: thresholds stand while all that work can be held within a step") {
  row_of_thresholds f;
  f.seconds(6);
  CHECK(f.caps() == std::vector<int64_t>{70'000, 70'000});
  f.children[0].armed = false;
  f.seconds(4);
  CHECK(f.caps() == std::vector<int64_t>{30'000, 30'000});
}

TEST_CASE("BGT-10: budget: where more is drawn than it has, all are held with that very tick") {
  row_of_thresholds f;
  f.seconds(6);
  CHECK(f.braked() == held_children{false, false});
  f.draw(40'000);
  CHECK(f.braked() == held_children{true, true});
  CHECK(f.events("brake_pulled").size() == 1);
  CHECK(f.tree().children[1]->brake);
  CHECK(!f.tree().brake);  // that is a person's
  f.draw(5000);
  int seconds = 1;
  while (seconds < 99 && f.braked() == held_children{true, true}) ++seconds;
  CHECK(seconds == 36);  // five until it is on, and more than thirty
  CHECK(f.events("brake_released").size() == 1);
  CHECK(f.braked() == held_children{false, false});
}

TEST_CASE("BGT-10: budget: in shares a brake is wanted, and holds nobody where persons pull it") {
  scripted_budget f;
  f.seconds(4);
  f.children[0].drawn_mw = 60'000;
  f.children[1].drawn_mw = 60'000;
  f.seconds(4);
  CHECK(f.braked() == held_children{false, false});
  CHECK(f.events("brake_wanted").size() == 1);
  CHECK(f.events("brake_pulled").empty());
  CHECK(!f.tree().brake_pulled);
}

namespace {

/// A budget of 70 W in shares that pulls its brake by itself.
struct row_of_shares : scripted_budget {
  row_of_shares() {
    pulls = true;
    begin_with(2, "");
    draw(20'000);
    seconds(4);
  }
  void draw(int64_t each_mw) {
    for (auto& c : children) c.drawn_mw = each_mw;
  }
  /// Far more than there is, until it is pulled.
  void overload() {
    draw(60'000);
    for (int i = 0; i < 3; ++i) CHECK(braked() == held_children{false, false});
    CHECK(braked() == held_children{true, true});
  }
};

}  // namespace

TEST_CASE("BGT-10: budget: in shares an overload is held, and children come back by turns") {
  row_of_shares f;
  f.overload();
  REQUIRE(f.events("brake_pulled").size() == 1);
  CHECK(f.events("brake_pulled")[0].at("drawn_w") == 120);
  CHECK(f.tree().brake_pulled);
  CHECK(!f.tree().brake);  // that is a person's
  f.draw(5000);
  int both = 0;
  auto held = f.braked();
  for (; both < 99 && held == held_children{true, true}; ++both) held = f.braked();
  CHECK(both == 29);
  CHECK(held[0] != held[1]);
  for (int i = 0; i < 9; ++i) CHECK(f.braked() == held);
  CHECK(f.braked() == held_children{false, false});
  CHECK(!f.tree().brake_pulled);
  CHECK(f.events("brake_released").size() == 1);
}

TEST_CASE("OVL-1: budget: a reading that has grown old pulls no brake") {
  row_of_shares f;
  f.draw(60'000);
  f.second();
  for (auto& c : f.children) c.speaks = false;
  f.seconds(30);
  CHECK(f.events("brake_pulled").empty());
}

TEST_CASE("BGA-7: budget: a brake that it has pulled is on in its next life, too") {
  row_of_shares f;
  f.overload();
  f.seconds(2);
  CHECK(f.keeper->last().pulled);
  f.begin_with(3, f.keeper->left());
  f.draw(5000);
  CHECK(f.events("brake_pulled").size() == 2);
  CHECK(f.braked() == held_children{true, true});
  int both = 1;
  while (both < 99 && f.braked() == held_children{true, true}) ++both;
  CHECK(both >= 29);
  f.seconds(20);
  CHECK(!f.tree().brake_pulled);
  CHECK(!f.keeper->last().pulled);
}

TEST_CASE("BGA-7: budget: a brake that a person has let go is off in the next life, too") {
  row_of_shares f;
  f.overload();
  f.draw(5000);
  f.seconds(15);
  for (int i = 0; i < 9 && f.keeper->under_way; ++i) f.second();  // nothing waits for the disk
  REQUIRE(f.keeper->last().pulled);
  REQUIRE(f.brake(false));  // and no tick after it
  CHECK(!f.keeper->last().pulled);
  f.begin_with(3, f.keeper->left());
  CHECK(f.braked() == held_children{false, false});
}

TEST_CASE("OVL-5: budget: in shares who has gone holds the others no longer than some minutes") {
  row_of_shares f;
  f.overload();
  f.children[1].speaks = false;
  f.draw(9000);
  f.seconds(150);
  CHECK(f.tree().children[0]->brake);  // for what the other may draw there is no room
  f.seconds(60);
  CHECK(!f.tree().brake_pulled);
  CHECK(f.events("brake_pulled").size() == 1);
  CHECK(f.events("brake_released").size() == 1);
}

TEST_CASE("BGT-11: budget: who lets work go on is obeyed at once, and for a while") {
  row_of_shares f;
  f.overload();
  CHECK(said_of(f.brake(false)) == "row0 lets work go on from now on: 2 of 2 children were heard");
  CHECK(f.events("brake_off").size() == 1);
  for (int i = 0; i < 20; ++i) CHECK(f.braked() == held_children{false, false});
  f.draw(5000);
  f.seconds(50);
  f.overload();
  CHECK(f.events("brake_pulled").size() == 2);
}

TEST_CASE("BGT-11: budget: a person's brake stays on where the budget's own is released") {
  row_of_shares f;
  f.overload();
  REQUIRE(f.brake(true));
  f.draw(5000);
  for (int i = 0; i < 60; ++i) CHECK(f.braked() == held_children{true, true});
  CHECK(f.tree().brake);
  CHECK(!f.tree().brake_pulled);
  REQUIRE(f.brake(false));
  CHECK(f.braked() == held_children{false, false});
}

TEST_CASE("BGT-11: budget: no thresholds stand where a person has let work go on") {
  row_of_thresholds f;
  f.seconds(6);
  f.draw(40'000);
  REQUIRE(f.braked() == held_children{true, true});
  REQUIRE(f.brake(false));
  CHECK(f.braked() == held_children{false, false});  // though as much is drawn
  f.seconds(4);
  CHECK(f.caps() == std::vector<int64_t>{30'000, 30'000});
}

TEST_CASE("budget: its tree says whose work can be held within a step") {
  scripted_budget f;
  f.children[1].armed = true;
  f.second();
  const auto tree = f.tree();
  CHECK(!tree.children[0]->brake_armed);
  CHECK(tree.children[1]->brake_armed);
}

TEST_CASE("budget record: a brake is written and read back, and is on or off") {
  const budget_record r{3, {}, {}, true};
  CHECK(record_text(r) == "{\"epoch\":3,\"children\":{},\"brake\":true}\n");
  const auto back = parse_budget_record(record_text(r));
  REQUIRE(back);
  CHECK(*back == r);
  CHECK(!parse_budget_record(R"({"epoch":1,"children":{},"brake":1})"));
  const budget_record own{3, {}, {}, false, true};
  CHECK(record_text(own) == "{\"epoch\":3,\"children\":{},\"pulled\":true}\n");
  const auto own_back = parse_budget_record(record_text(own));
  REQUIRE(own_back);
  CHECK(*own_back == own);
}
