// The pacer where it does less than it decides: in a dry run, and on a ramp.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/actors/power/leased_pacer.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::power::test::leased_pacer;
using troupe::power::test::pacer_epoch;
using troupe::power::test::scripted_pacer;

TEST_CASE("PCR-6: a dry run holds no step back, and acknowledges no cap") {
  leased_pacer f(0, {}, true);
  f.take_pace(0, 1024, 0);
  auto told = f.last_told();
  CHECK(told.pace_of_1024 == 1024);
  CHECK(told.reason.empty());
  CHECK(f.status().pace_percent == 100);
  CHECK(f.status().decided.starts_with("in a dry run alone: to no steps, since no lease yet"));
  CHECK(f.answered(1, 1, 60'000).in_force_mw == beyond_mw);
  f.take_pace(1, 1024, 0);
  f.pass(1s);
  CHECK(f.answered(1, 2, 60'000).in_force_mw == beyond_mw);
  CHECK(f.status().decided == "in a dry run alone: to 48.8 % of full speed");
  CHECK(f.status().pace_percent == 100);
  f.pass(1s);
  const auto worked = f.answered(1, 3, 40'000, false, true);
  CHECK(worked.pace_of_1024 == 1024);
  CHECK(worked.in_force_mw == beyond_mw);
  CHECK(worked.lease_sequence == 2);
  f.pass(1s);
  const auto braked = f.answered(1, 4, 40'000, true);
  CHECK(braked.pace_of_1024 == 1024);  // the brake holds nothing
  CHECK(!braked.brake_armed);
  f.pass(1s);
  CHECK(f.run.take_all<fbs::CheckpointNow>().empty());
  for (const auto& m : f.run.take_all<fbs::JobPower>()) {
    CHECK(m->pace_of_1024() == 1024);
    CHECK(!m->brake());
  }
  CHECK(f.warnings().empty());
}

TEST_CASE("PCR-6: a dry run journals what it would have done, and that it is one") {
  std::vector<nlohmann::json> kept;
  scripted_pacer f;
  pacer_options options{60, pacer_epoch};
  options.dry_run = true;
  options.journal = [&](const std::string& line) { kept.push_back(nlohmann::json::parse(line)); };
  f.start(std::move(options));
  f.beat(20, 0, 0, 100);
  f.take_pace(0, 1024, 60);
  CHECK(f.run.take<fbs::JobPower>()->pace_of_1024() == 1024);
  f.take_pace(4, 1024, 15);
  REQUIRE(kept.size() == 3);
  CHECK(kept[0]["dry_run"] == true);
  CHECK(kept[1]["rule"] == "budget");
  CHECK(kept[1]["pace_of_1024"] == 500);
  CHECK(kept[2]["rule"] == "draw");
  CHECK(kept[2]["pace_of_1024"] == 0);
}

TEST_CASE("JPP-10: pacer: without a budget a ramp rises each second, and says so") {
  std::vector<nlohmann::json> kept;
  scripted_pacer f;
  pacer_options options{0, pacer_epoch};
  options.ramp_w_s = 8;  // of 80 W above what is drawn without steps
  options.journal = [&](const std::string& line) { kept.push_back(nlohmann::json::parse(line)); };
  f.start(std::move(options));
  f.take_pace(0, 1024, 0);
  CHECK(f.run.take<fbs::JobPower>()->pace_of_1024() == 0);  // nothing says yet what is drawn
  f.beat(20, 0, 0, 100);
  f.pass(1s);
  auto words = f.run.take_all<fbs::JobPower>();
  REQUIRE(!words.empty());
  auto pace = words.back()->pace_of_1024();
  CHECK(pace >= static_cast<uint32_t>(work_pace_policy::least_pace.of_1024));
  CHECK(pace <= 103);
  for (uint64_t step = 1; step < 5; ++step) {
    f.take_pace(step, pace, 0);
    f.beat(20, 0, 0, 100);
    f.pass(1s);
    words = f.run.take_all<fbs::JobPower>();
    REQUIRE(!words.empty());
    const auto next = words.back()->pace_of_1024();
    CHECK(next > pace);
    CHECK(next <= pace + 103);
    pace = next;
  }
  CHECK(f.status().decided.find("by 8 W a second, to 100 % in ") != std::string::npos);
  CHECK(f.status().pace_percent < 60);
  f.take_pace(0, pace, 0);
  CHECK(f.run.take_all<fbs::JobPower>().back()->pace_of_1024() ==
        static_cast<uint32_t>(work_pace_policy::least_pace.of_1024));  // from no steps anew
  REQUIRE(kept.size() >= 3);
  CHECK(kept[1]["rule"] == "draw");
  CHECK(kept[2]["rule"] == "ramp");
  CHECK(kept[2]["to_of_1024"] == 1024);
  CHECK(kept.size() == 3);  // on its way up it is told once
}
