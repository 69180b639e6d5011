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
}

TEST_CASE("BGA-9: budget: a person's brake holds in a dry run, too") {
  dry_budget f;
  f.seconds(5);
  REQUIRE(f.brake(true));
  CHECK(f.braked() == std::vector<bool>{true, true});
  REQUIRE(f.brake(false));
  CHECK(f.braked() == std::vector<bool>{false, false});
}
