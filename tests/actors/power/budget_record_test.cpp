// What outlives a budget's process: its text, when it is written, and what waits for it.
#include "actors/power/budget_record.hpp"

#include <doctest/doctest.h>

#include "tests/actors/power/scripted_budget.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::test::scripted_budget;

namespace {

constexpr int64_t record_rest_ns = 10'000'000'000;
using watts_of_two = std::vector<int64_t>;

watts_of_two covered_by(const record_policy& p) {
  return {p.covered_mw().begin(), p.covered_mw().end()};
}

const error disk_is_full(errc::io, "write power.state: No space left on device");

}  // namespace

TEST_CASE("budget record: what is written is read back") {
  budget_record r{3, {{"gpt-a", 44'000}, {"gpt-b", 20'125}}, {}};
  CHECK(record_text(r) == "{\"epoch\":3,\"children\":{\"gpt-a\":44.0,\"gpt-b\":20.125}}\n");
  auto back = parse_budget_record(record_text(r));
  REQUIRE(back);
  CHECK(*back == r);
  r.set = budget_set{55'000, 70'000, "alice", "2026-11-29T20:00:00Z"};
  back = parse_budget_record(record_text(r));
  REQUIRE(back);
  CHECK(*back == r);
  r.children_mw = {{"x", beyond_mw}};
  r.set = budget_set{55'001, 70'000};
  back = parse_budget_record(record_text(r));
  REQUIRE(back);
  CHECK(*back == r);
}

TEST_CASE("budget record: what is none is refused") {
  for (const auto* text :
       {"", "{", "3", "{}", R"({"epoch":1})", R"({"children":{}})", R"({"epoch":-1,"children":{}})",
        R"({"epoch":1,"children":[]})", R"({"epoch":1,"children":{"a":-1}})",
        R"({"epoch":1,"children":{"a":"1"}})", R"({"epoch":1,"children":{"a":1e13}})",
        R"({"epoch":1,"children":{},"more":1})", R"({"epoch":2000000000000000,"children":{}})",
        R"({"epoch":1,"children":{},"set":{"budget_w":1}})",
        R"({"epoch":1,"children":{},"set":{"budget_w":1,"instead_of_w":2,"by":3}})",
        R"({"epoch":1,"children":{},"set":{"budget_w":1,"instead_of_w":2,"x":3}})"}) {
    CAPTURE(text);
    const auto r = parse_budget_record(text);
    REQUIRE_FALSE(r);
    CHECK(r.error().code == errc::bad_data);
  }
}

TEST_CASE("BUR-1: budget record: what is covered is the least that may be on the disk") {
  record_policy p({10, 30}, {0, 50}, record_rest_ns);
  CHECK(covered_by(p) == watts_of_two{10, 50});
  REQUIRE(p.begin({40, 40}, true, 0) == 1);
  CHECK(covered_by(p) == watts_of_two{10, 40});  // the new one may be there, or the old one
  p.ended(7, {});                                // another life's
  CHECK(covered_by(p) == watts_of_two{10, 40});
  p.ended(1, {});
  CHECK(covered_by(p) == watts_of_two{40, 40});
  REQUIRE(p.begin({60, 20}, true, 1) == 2);
  p.ended(2, disk_is_full);
  CHECK(covered_by(p) == watts_of_two{40, 30});  // nobody knows which of them is there
  REQUIRE(p.begin({60, 40}, true, 2) == 3);
  CHECK(covered_by(p) == watts_of_two{40, 30});
  p.ended(3, {});
  CHECK(covered_by(p) == watts_of_two{60, 40});
}

TEST_CASE("BUR-2: budget record: it is written when a raise waits, else rarely, else not at all") {
  record_policy p({10, 30}, {0, 0}, record_rest_ns);
  CHECK(!p.begin({0, 0}, false, 0));
  CHECK(p.begin({10, 0}, false, 1) == 1);
  CHECK(!p.begin({50, 0}, true, 2));  // one is under way
  p.ended(1, {});
  CHECK(!p.begin({12, 0}, false, 3));
  CHECK(p.begin({50, 0}, true, 3) == 2);
  p.ended(2, {});
  CHECK(!p.begin({50, 0}, false, 3 + record_rest_ns));
  CHECK(!p.begin({20, 0}, false, 2 + record_rest_ns));
  CHECK(p.begin({20, 0}, false, 3 + record_rest_ns) == 3);
  p.ended(3, disk_is_full);
  CHECK(!p.begin({20, 0}, false, 4 + record_rest_ns));
  CHECK(p.begin({20, 0}, false, 3 + 2 * record_rest_ns) == 4);  // what has failed is tried again
}

TEST_CASE("BUR-2: budget record: a disk that fails for long is not tried each tick for a raise") {
  scripted_budget f;
  f.begin_with(1, "");
  f.keeper->fails = disk_is_full;
  constexpr size_t at_once = record_policy::tries_at_once;
  f.seconds(record_policy::tries_at_once + 20);
  const auto tried = f.keeper->writes.size();
  CHECK(tried >= at_once);
  f.seconds(90);
  CHECK(f.keeper->writes.size() <= tried + 11);  // a lease takes 9 s
  CHECK(f.keeper->writes.size() >= tried + 5);
  const auto before = f.keeper->writes.size();
  CHECK(!f.set(69'000));  // a person waits: it is tried, and told
  CHECK(f.keeper->writes.size() > before);
  f.keeper->fails.reset();
  f.seconds(12);
  CHECK(f.caps() == watts_of_two{10'000, 59'000});
}

TEST_CASE(
    "budget record: a write that has failed, or takes long, is a trouble until one succeeds") {
  record_policy p({10}, {0}, record_rest_ns);
  CHECK(!p.trouble(0));
  REQUIRE(p.begin({20}, true, 0));
  CHECK(!p.trouble(record_rest_ns - 1));
  REQUIRE(p.trouble(record_rest_ns));
  CHECK(p.trouble(record_rest_ns)->code == errc::timeout);
  p.ended(1, disk_is_full);
  CHECK(p.trouble(record_rest_ns) == disk_is_full);
  REQUIRE(p.begin({20}, true, record_rest_ns));
  CHECK(p.trouble(record_rest_ns) == disk_is_full);
  p.ended(2, {});
  CHECK(!p.trouble(3 * record_rest_ns));
}

TEST_CASE("BGT-9: budget: no raise leaves before the record has it, cuts and renewals do") {
  scripted_budget f;
  f.begin_with(1, "");
  f.keeper->answers = false;
  f.seconds(12);
  CHECK(f.caps() == watts_of_two{10'000, 30'000});  // the cut, and nothing of what it has freed
  for (const auto& c : f.children) CHECK(c.lease.is_leased(f.now_ns()));
  CHECK(f.keeper->writes.size() == 1);
  REQUIRE(f.events("record_not_written").size() == 1);
  CHECK(f.events("record_written_again").empty());
  CHECK(f.tree().children[0]->awaits_mw == 0);
  CHECK(f.tree().children[1]->awaits_mw > 30'000);
  f.keeper->answers = true;
  f.second();
  CHECK(f.caps() == watts_of_two{10'000, 30'000});
  CHECK(f.keeper->last().children_mw.at("gpt-b") == 60'000);
  CHECK(f.events("record_written_again").size() == 1);
  f.second();
  CHECK(f.caps() == watts_of_two{10'000, 60'000});
  CHECK(f.keeper->text == f.keeper->writes.back());

  f.seconds(20);
  const auto writes = f.keeper->writes.size();
  f.seconds(60);
  CHECK(f.keeper->writes.size() == writes);  // where nothing changes nothing is written

  f.keeper->answers = false;
  f.seconds(20);
  CHECK(f.caps() == watts_of_two{10'000, 60'000});
  CHECK(f.set(62'000).error().code == errc::timeout);  // no answer yet: BGA-8
  f.seconds(20);
  CHECK(f.caps() == watts_of_two{10'000, 52'000});
  CHECK(f.events("record_not_written").size() == 2);
}

TEST_CASE("BGT-9: budget: up to its static share a child is raised without the record") {
  scripted_budget f;
  f.begin_with(1, "");
  f.keeper->fails = disk_is_full;
  f.children[0].wish_mw = 10'000;
  f.children[1].lease = lease_policy(30'000, 1, 0);
  f.seconds(20);
  CHECK(f.caps() == watts_of_two{10'000, 30'000});
  REQUIRE(f.events("record_not_written").size() == 1);
  CHECK(f.events("record_not_written")[0].at("why") == disk_is_full.message);
  f.keeper->fails.reset();
  f.seconds(4);
  CHECK(f.caps() == watts_of_two{10'000, 60'000});
}

TEST_CASE("PWR-1: budget: a later life counts what the one before has granted until it has heard") {
  scripted_budget f;
  f.begin_with(1, "");
  f.seconds(6);
  REQUIRE(f.caps() == watts_of_two{10'000, 60'000});
  f.children[1].speaks = false;
  f.children[1].obeys = false;  // the step that it makes goes on
  f.begin_with(2, f.keeper->left());
  for (int i = 0; i < 60; ++i) {
    f.second();
    CHECK(f.in_force_mw() <= 70'000);
  }
  CHECK(f.tree().knows);
  CHECK(f.tree().children[1]->counted_mw == 60'000);
  CHECK(f.caps()[0] == 10'000);
  f.begin_with(3, f.keeper->left());  // which has not heard of it, either
  f.seconds(20);
  CHECK(f.tree().children[1]->counted_mw == 60'000);
  CHECK(f.in_force_mw() == 70'000);
  f.children[1].speaks = f.children[1].obeys = true;
  f.children[1].wish_mw = 10'000;
  f.seconds(20);
  CHECK(f.caps() == watts_of_two{60'000, 10'000});
  CHECK(f.keeper->last().children_mw ==
        std::map<std::string, int64_t>{{"gpt-a", 60'000}, {"gpt-b", 30'000}});
}

TEST_CASE("PWR-1: budget: a later life passes on what it was told of whom it has not heard") {
  scripted_budget f;
  f.begin_with(2, record_text({1, {{"gpt-b", 60'000}}, {}}));
  f.children[1].speaks = false;
  f.seconds(20);
  CHECK(f.keeper->last().epoch == 2);
  CHECK(f.keeper->last().children_mw ==
        std::map<std::string, int64_t>{{"gpt-a", 30'000}, {"gpt-b", 60'000}});
}

TEST_CASE("BGA-4: budget: what a person sets for good is in the record, and in its next life") {
  scripted_budget f;
  f.begin_with(1, "");
  f.seconds(4);
  REQUIRE(f.set(65'000));
  f.second();
  CHECK(f.keeper->last().set == budget_set{65'000, 70'000, "", "noon"});
  REQUIRE(f.set(66'000, 1000));
  f.seconds(12);
  CHECK(f.keeper->last().set->budget_mw == 65'000);

  auto options = f.options(2, 65'000);
  options.set = f.keeper->last().set;
  options.keeper = f.keeper = std::make_shared<troupe::test::scripted_keeper>();
  f.target = f.spawn(budget, options);
  CHECK(f.tree().cap_mw == 65'000);
  const auto begins = f.events("begins").back();
  CHECK(begins.at("budget_w") == 65);
  CHECK(begins.at("instead_of_w") == 70);
  f.second();
  CHECK(f.keeper->last().set == options.set);
  REQUIRE(f.set(70'000));  // as its configuration says
  f.seconds(2);
  CHECK(!f.keeper->last().set);
}
