// A budget that follows a table of watts: at each tick, under what persons set, and over its lives.
#include <string>

#include <doctest/doctest.h>

#include "tests/actors/power/scripted_budget.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::test::scripted_budget;

namespace {

/// 70 W by its configuration, 65 from the fifth second on, 80 from the hundredth on.
struct following_budget : scripted_budget {
  following_budget() { begin_following({}); }

  void begin_following(std::optional<budget_set> set) {
    const auto table = io::parse_number_table("t_s,watts\n5,65\n100,80\n");
    REQUIRE(table);
    auto schedule = budget_schedule::of(*table, {"demand.csv", 0, 60'000});
    REQUIRE(schedule);
    lines.clear();
    auto o = options(1, set ? set->budget_mw : 70'000);
    o.set = std::move(set);
    o.schedule = std::move(*schedule);
    target = spawn(budget, o);
  }
  std::string text_of_set(int64_t mw, uint64_t for_ms = 0) {
    const auto answer = set(mw, for_ms);
    REQUIRE(answer);
    return (*answer)->text()->str();
  }
};

}  // namespace

TEST_CASE("BGA-6: budget: a schedule is followed at each tick, and divided") {
  following_budget f;
  CHECK(f.events("begins")[0].at("budget_w") == 70);
  CHECK(f.events("begins")[0].at("file") == "demand.csv");
  f.seconds(4);
  CHECK(f.tree().cap_mw == 70'000);
  CHECK(f.tree().follows.empty());  // before its first row
  CHECK(f.in_force_mw() == 70'000);
  f.seconds(6);
  CHECK(f.tree().cap_mw == 65'000);
  CHECK(f.tree().follows == "demand.csv");
  CHECK(!f.tree().set);
  CHECK(f.in_force_mw() == 65'000);
  f.seconds(94);
  CHECK(f.tree().cap_mw == 80'000);
  CHECK(f.in_force_mw() == 80'000);
  f.pass(2h);
  CHECK(f.tree().cap_mw == 80'000);  // the last row holds
  const auto told = f.events("budget");
  REQUIRE(told.size() == 2);
  CHECK(told[0].at("budget_w") == 65);
  CHECK(told[0].at("was_w") == 70);
  CHECK(told[0].at("file") == "demand.csv");
  CHECK(told[1].at("budget_w") == 80);
}

TEST_CASE("BGA-6: budget: what is set for a time goes over the schedule, and ends in it") {
  following_budget f;
  CHECK(f.text_of_set(62'000, 20'000) == "row0 has 62 W from now on, for 20s; it was 70 W");
  f.seconds(19);
  CHECK(f.tree().cap_mw == 62'000);
  CHECK(f.tree().set);
  CHECK(f.tree().set_left_ms == 1000);
  CHECK(f.tree().follows.empty());
  CHECK(f.events("budget").size() == 1);
  f.second();
  CHECK(f.tree().cap_mw == 65'000);
  CHECK(!f.tree().set);
  const auto told = f.events("budget");
  REQUIRE(told.size() == 2);
  CHECK(told[1].at("budget_w") == 65);
  CHECK(told[1].contains("why"));
}

TEST_CASE("BGA-6: budget: what is set for good ends the schedule, until the configuration's is") {
  following_budget f;
  CHECK(f.text_of_set(62'000) == "row0 has 62 W from now on; it was 70 W");
  f.seconds(120);
  CHECK(f.tree().cap_mw == 62'000);
  CHECK(f.events("budget").size() == 1);
  CHECK(f.text_of_set(70'000) ==
        "row0 follows demand.csv, as its configuration says: 80 W now; it was 62 W");
  CHECK(f.tree().cap_mw == 80'000);
  f.seconds(2);
  CHECK(f.events("budget").size() == 2);

  f.begin_following(budget_set{62'000, 70'000, "alice", "noon"});  // a life after it was set
  CHECK(f.events("begins")[0].at("budget_w") == 62);
  CHECK(!f.events("begins")[0].contains("file"));
  f.pass(200s);
  CHECK(f.tree().cap_mw == 62'000);
  CHECK(f.tree().set);
  CHECK(f.tree().set_by == "alice");
  CHECK(f.tree().set_left_ms == 0);
  CHECK(f.events("budget").empty());
}
