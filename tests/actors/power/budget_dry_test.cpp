// A budget's dry run: what is decided, what children get, and what a life after it finds.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/actors/power/scripted_budget.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::test::scripted_budget;
using troupe::test::scripted_keeper;

namespace {

/// Two children that draw 65 W each, of 70 W together.
struct dry_budget : scripted_budget {
  explicit dry_budget(bool dry = true) {
    pulls = true;
    keeper = std::make_shared<scripted_keeper>();
    lines.clear();
    auto o = options(2, 70'000);
    o.dry_run = dry;
    target = spawn(budget, o);
    for (auto& c : children) c.drawn_mw = 65'000;
  }
  /// By its journal, of the last line of each child.
  std::map<std::string, double> decided_w() const {
    std::map<std::string, double> out;
    for (const auto& line : events("grant"))
      out[line.at("child").get<std::string>()] = line.at("cap_w").get<double>();
    return out;
  }
};

}  // namespace

TEST_CASE("BGA-9: budget: a dry run decides as it would, and grants each child its ceiling") {
  dry_budget f;
  CHECK(f.events("begins")[0].at("dry_run") == true);
  CHECK(f.tree().dry_run);
  f.seconds(60);
  CHECK(f.caps() == std::vector<int64_t>{70'000, 70'000});
  for (const auto& c : f.children) CHECK(c.told_mw == 70'000);
  const auto decided = f.decided_w();
  REQUIRE(decided.size() == 2);
  CHECK(decided.at("gpt-a") + decided.at("gpt-b") <= 70);
  CHECK(decided.at("gpt-b") > decided.at("gpt-a"));  // of high priority
  CHECK(f.tree().children[0]->granted_mw < 70'000);
  CHECK(f.events("brake_pulled").empty());  // as if caps were kept: nothing is too much
  CHECK(f.events("unruly").empty());
  CHECK(f.braked() == std::vector<bool>{false, false});
  const auto kept = f.keeper->last().children_mw;
  REQUIRE(kept.size() == 2);
  for (const auto& [name, mw] : kept) CHECK(mw == 70'000);  // what a later life is to count
}

TEST_CASE("BGA-9: budget: without a dry run the same children are held to what is decided") {
  dry_budget f(false);
  f.seconds(60);
  CHECK(f.caps()[0] + f.caps()[1] <= 70'000);
  CHECK(!f.events("begins")[0].contains("dry_run"));
  CHECK(!f.tree().dry_run);
}

TEST_CASE("BGA-9: budget: a person's brake holds in a dry run, too") {
  dry_budget f;
  f.seconds(5);
  REQUIRE(f.brake(true));
  CHECK(f.braked() == std::vector<bool>{true, true});
  REQUIRE(f.brake(false));
  CHECK(f.braked() == std::vector<bool>{false, false});
}

TEST_CASE("BGA-9: budget: a brake that a dry run would have pulled is on in no life after it") {
  scripted_budget f;
  f.keeper = std::make_shared<scripted_keeper>();
  auto o = f.options(2, 70'000);
  o.rules.mode = budget_mode::thresholds;
  o.dry_run = true;
  std::vector<budget_trace_row> traced;
  o.trace = [&traced](const budget_trace_row& row) { traced.push_back(row); };
  f.target = f.spawn(budget, o);
  for (auto& c : f.children) {
    c.armed = true;
    c.drawn_mw = 20'000;
  }
  f.seconds(6);
  for (auto& c : f.children) c.drawn_mw = 60'000;
  f.seconds(6);
  REQUIRE(f.events("brake_pulled").size() == 1);  // as it would have been
  CHECK(f.braked() == std::vector<bool>{false, false});
  REQUIRE(!traced.empty());
  CHECK(traced.back().brake == trace_brake::off);  // no work was held
  CHECK(traced.back().brakes == 0);
  CHECK(!f.keeper->last().pulled);
  f.pulls = true;
  f.begin_with(3, f.keeper->left());
  CHECK(f.braked() == std::vector<bool>{false, false});
}

TEST_CASE("BGA-9: budget: a brake that a life before a dry run has pulled goes as it would") {
  dry_budget f;
  f.found_pulled = true;
  f.keeper = std::make_shared<scripted_keeper>();
  auto o = f.options(2, 70'000);
  o.dry_run = true;
  f.target = f.spawn(budget, o);
  for (auto& c : f.children) c.drawn_mw = 5000;
  f.seconds(5);
  CHECK(f.keeper->last().pulled);
  CHECK(f.braked() == std::vector<bool>{false, false});
  f.seconds(60);
  CHECK(!f.keeper->last().pulled);
}

TEST_CASE("BGA-9: budget: a dry run grants no ceiling before the record has it") {
  dry_budget f;
  f.children[1].speaks = false;  // the first write is of one child
  for (int i = 0; i < 12; ++i) {
    f.children[1].speaks = i >= 3;
    f.second();
    for (size_t c = 0; c < 2; ++c)
      if (f.children[c].told_mw == 70'000)
        CHECK(f.keeper->text.find("\"" + f.terms[c].name + "\":70.0") != std::string::npos);
  }
  CHECK(f.children[0].told_mw == 70'000);
  CHECK(f.children[1].told_mw == 70'000);
}

TEST_CASE("BGA-9: budget: where the record cannot be written a dry run grants what it decides") {
  dry_budget f;
  f.keeper->fails = error{errc::io, "no room"};
  f.keeper->lands = false;
  f.seconds(30);
  int64_t told_mw = 0;
  for (const auto& c : f.children) told_mw += c.told_mw;
  CHECK(told_mw <= 70'000);
  for (auto& c : f.children) f.reports(c);
  f.pass(std::chrono::seconds(1));
  for (auto& c : f.children) CHECK(f.answer_to(c).static_share_mw == 30'000);
  f.keeper->fails.reset();
  f.keeper->lands = true;
  f.seconds(5);
  CHECK(f.caps() == std::vector<int64_t>{70'000, 70'000});
}

TEST_CASE("BGA-9: budget: what a process that is refused says changes nothing of who is heard") {
  dry_budget f;
  f.keeper.reset();
  f.seconds(20);
  const auto before = f.tree().children[0]->in_force_mw;
  REQUIRE(before < 70'000);
  auto& c = f.children[0];
  power_report other;
  other.id = {c.incarnation - 1, 1};
  other.in_force_mw = 70'000;
  other.drawn_mw = 65'000;
  other.wish_mw = 70'000;
  const auto asked = f.report(c.box, other);
  CHECK(f.refusal_of(c.box, asked) == errc::unavailable);
  power_report again = c.lease.report(f.now_ns(), c.drawn_mw, c.wish_mw);
  again.order = {};  // of no lease that it was told
  f.report(c.box, again);
  f.pass(std::chrono::seconds(1));
  CHECK(f.tree().children[0]->in_force_mw <= before);
}
