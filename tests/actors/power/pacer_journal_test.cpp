// The journal of a job's power: which decisions are lines, and what stands in them.
#include "actors/power/pacer_journal.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/actors/power/scripted_pacer.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::power::test::pacer_epoch;
using troupe::power::test::scripted_pacer;

namespace {

struct kept_lines {
  std::vector<nlohmann::json> all;
  pacer_journal::sink to() {
    return [this](const std::string& line) { all.push_back(nlohmann::json::parse(line)); };
  }
};

pacer_decision at_pace(int of_1024, double budget_w) {
  pacer_decision d;
  d.pace = work_pace{of_1024};
  d.budget_w = budget_w;
  return d;
}

pacer_decision under_lease(int of_1024, double cap_w, uint64_t sequence,
                           lease_hold hold = lease_hold::none) {
  auto d = at_pace(of_1024, cap_w);
  d.lease = pacer_decision::leased{"row0", {3, sequence}, cap_w, 4'000'000'000, hold};
  return d;
}

}  // namespace

TEST_CASE(
    "PJN-1: power journal: a decision is a line where it is another one, not where watts are") {
  kept_lines kept;
  pacer_journal journal(kept.to());
  journal.begins(2, 0, "auto");
  auto d = under_lease(500, 60, 2);
  d.drawn.power_w = 41;
  d.why = "by what it drew";
  journal.decided(d);
  d.drawn.power_w = 43;
  d.lease->left_ns = 1'000'000'000;
  journal.decided(d);
  REQUIRE(kept.all.size() == 2);
  CHECK(kept.all[0] ==
        nlohmann::json::parse(R"({"event":"begins","epoch":2,"budget_w":null,"parent":"auto"})"));
  const auto& first = kept.all[1];
  CHECK(first["event"] == "pace");
  CHECK(first["rule"] == "lease");
  CHECK(first["pace_of_1024"] == 500);
  CHECK(first["was_of_1024"].is_null());
  CHECK(first["budget_w"] == 60);
  CHECK(first["own_w"].is_null());
  CHECK(first["drawn_w"] == 41);
  CHECK(first["mean_w"].is_null());
  CHECK(first["why"] == "by what it drew");
  CHECK(first["lease"]["parent"] == "row0");
  CHECK(first["lease"]["epoch"] == 3);
  CHECK(first["lease"]["sequence"] == 2);
  CHECK(first["lease"]["cap_w"] == 60);
  CHECK(first["lease"]["left_s"] == 4);
  journal.decided(under_lease(500, 60, 3));  // the same watts, for longer
  REQUIRE(kept.all.size() == 2);
  journal.decided(under_lease(400, 60, 3));
  journal.decided(under_lease(400, 50, 3));
  journal.decided(under_lease(0, 50, 3, lease_hold::brake));
  auto next_life = under_lease(0, 50, 3, lease_hold::brake);
  next_life.lease->order.epoch = 4;
  journal.decided(next_life);
  REQUIRE(kept.all.size() == 6);
  CHECK(kept.all[2]["was_of_1024"] == 500);
  CHECK(kept.all[4]["rule"] == "brake");
  CHECK(kept.all[4]["was_of_1024"] == 400);
  CHECK_FALSE(kept.all[4].contains("why"));
  CHECK(kept.all[5]["lease"]["epoch"] == 4);
}

TEST_CASE("PJN-1: power journal: a ramp is one line, until it rises to another pace") {
  kept_lines kept;
  pacer_journal journal(kept.to());
  journal.begins(2, 60, "", true);
  CHECK(kept.all[0]["dry_run"] == true);
  auto d = at_pace(100, 60);
  d.ramps_to = work_pace{500};
  d.ramp_ns = 9'000'000'000;
  CHECK(rule_of(d) == "ramp");
  journal.decided(d);
  d.pace = work_pace{200};
  d.ramp_ns = 7'000'000'000;
  journal.decided(d);
  REQUIRE(kept.all.size() == 2);
  CHECK(kept.all[1]["rule"] == "ramp");
  CHECK(kept.all[1]["pace_of_1024"] == 100);
  CHECK(kept.all[1]["to_of_1024"] == 500);
  CHECK(kept.all[1]["in_s"] == 9);
  d.ramps_to = work_pace{700};
  d.ramp_ns.reset();
  journal.decided(d);
  REQUIRE(kept.all.size() == 3);
  CHECK(kept.all[2]["was_of_1024"] == 200);
  CHECK(kept.all[2]["in_s"].is_null());
  journal.decided(at_pace(700, 60));
  REQUIRE(kept.all.size() == 4);
  CHECK(kept.all[3]["rule"] == "budget");
}

TEST_CASE("power journal: a rule is what bounds the pace, or lets no step begin") {
  CHECK(rule_of(at_pace(1024, 0)) == "none");
  CHECK(rule_of(at_pace(500, 60)) == "budget");
  CHECK(rule_of(at_pace(0, 60)) == "draw");
  CHECK(rule_of(under_lease(500, 60, 1)) == "lease");
  CHECK(rule_of(under_lease(0, 60, 1)) == "draw");
  CHECK(rule_of(under_lease(0, 60, 1, lease_hold::shed)) == "shed");
  CHECK(rule_of(under_lease(0, 0, 0, lease_hold::no_lease)) == "no_lease");
  auto both = under_lease(500, 60, 1);
  both.own_w = 40;
  CHECK(rule_of(both) == "budget");
  both.own_w = 80;
  CHECK(rule_of(both) == "lease");
  both.lease->left_ns = 0;
  CHECK(rule_of(both) == "lapsed");
  pacer_journal().decided(both);  // nobody keeps it
}

TEST_CASE("PCR-5: a pacer journals each pace that it decides, what by, and why none may be") {
  kept_lines kept;
  scripted_pacer f;
  f.start({60, pacer_epoch, {}, kept.to()});
  f.beat(20, 0, 0, 100);
  f.take_pace(0, 1024, 60);
  f.pass(std::chrono::seconds(1));  // looks again, and decides the same
  f.take_pace(4, 500, 15);
  f.take_pace(0, 500, 0);
  REQUIRE(kept.all.size() == 4);
  CHECK(kept.all[0]["event"] == "begins");
  CHECK(kept.all[0]["epoch"] == pacer_epoch);
  CHECK(kept.all[0]["budget_w"] == 60);
  CHECK(kept.all[1]["rule"] == "budget");
  CHECK(kept.all[1]["pace_of_1024"] == 500);
  CHECK(kept.all[1]["drawn_w"] == 20);
  CHECK(kept.all[1]["modelled"] == true);
  CHECK(kept.all[1]["machines"] == 1);
  CHECK(kept.all[2]["rule"] == "draw");
  CHECK(kept.all[2]["pace_of_1024"] == 0);
  CHECK(kept.all[2]["was_of_1024"] == 500);
  CHECK(kept.all[2]["budget_w"] == 15);
  CHECK(kept.all[2]["why"].get<std::string>().find("15 W") != std::string::npos);
  CHECK(kept.all[3]["rule"] == "none");
  CHECK(kept.all[3]["pace_of_1024"] == 1024);
  CHECK(kept.all[3]["budget_w"].is_null());
}

TEST_CASE("power journal: a step that is held back for other jobs is a line, with for whom") {
  kept_lines kept;
  pacer_journal(kept.to()).shifted(510'250, "row0");
  REQUIRE(kept.all.size() == 1);
  CHECK(kept.all[0] ==
        nlohmann::json::parse(R"({"event":"shifted","start_offset_ms":510.25,"parent":"row0"})"));
  pacer_journal().shifted(1, "row0");  // nobody keeps it
}
