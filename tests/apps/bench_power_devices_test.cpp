// `troupe bench power --only devices`: a job of many simulated devices under a budget that falls is
// held against the best clock that somebody who knew all would have set.
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/power/budget_schedule.hpp"
#include "apps/bench/power_devices_report.hpp"
#include "io/formats/number_table.hpp"
#include "tests/apps/power_bench.hpp"

using namespace troupe;
using namespace troupe::apps::power_bench;

namespace {

/// 128 devices: two rows of two racks of four machines of eight.
devices_plan small_site() {
  devices_plan out;
  out.children = {2, 2, 4, 8};
  return out;
}

devices_measurement measured_devices(const devices_plan& plan) {
  const auto m = measure_devices(plan);
  REQUIRE_MESSAGE(m, (m ? std::string() : render(m.error())));
  return *m;
}

}  // namespace

TEST_CASE("bench power: a job of many devices keeps a falling budget near the best uniform clock") {
  for (const double exponent : {1.5, 1.8, 2.4})
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      auto plan = small_site();
      plan.exponent = exponent;
      plan.seed = seed;
      const auto m = measured_devices(plan);
      CHECK(m.devices == 128);
      CHECK(m.seconds == 12 * 60);
      CHECK(m.best_speed < 0.95);
      CHECK(m.together.of_best >= least_of_best);
      CHECK(m.together.of_best <= 1);
      CHECK(m.alone.of_best < m.together.of_best);
      CHECK(m.few_of_best < 0.5);  // one capped rank, and each step waits for it
      CHECK(m.few_ranks > 0);
      CHECK(m.few_ranks < m.devices / 2);
      CHECK(m.together.used > 0.9);
      CHECK(m.together.used <= 1);
      // A cut takes a tick a level, and the step under way.
      CHECK(m.together.over_s > 0);
      CHECK(m.together.longest_over_s <= 4 + plan.step_s);
    }
}

TEST_CASE("bench power: the same devices and table give the same numbers") {
  const auto a = measured_devices(small_site()), b = measured_devices(small_site());
  CHECK(a.together.speed == b.together.speed);
  CHECK(a.alone.speed == b.alone.speed);
  CHECK(a.few_of_best == b.few_of_best);
  auto other = small_site();
  other.seed = 7;
  CHECK(measured_devices(other).alone.speed != a.alone.speed);
}

TEST_CASE("bench power: devices under a budget that does not bind are as fast as they can be") {
  auto plan = small_site();
  plan.budget_csv = "t_s,watts\n0,100000\n";
  const auto m = measured_devices(plan);
  CHECK(m.seconds == plan.last_row_s);
  CHECK(m.best_speed == 1);
  CHECK(m.together.of_best == 1);
  CHECK(m.alone.of_best == 1);
  CHECK(m.few_of_best == 1);
  CHECK(m.few_ranks == 0);
  CHECK(m.together.over_s == 0);
}

TEST_CASE("BPD-1: what is drawn above a budget that fell at once counts as the best clock's") {
  auto plan = small_site();
  plan.last_row_s = 4;  // no cut has come down four levels by then
  plan.budget_csv = "t_s,watts\n0,100000\n1,50000\n";
  const auto m = measured_devices(plan);
  CHECK(m.seconds == 5);
  CHECK(m.together.over_s == 4);
  CHECK(m.together.speed == 1);
  CHECK(m.together.of_best == 1);
  CHECK(m.best_speed < 1);
}

TEST_CASE("bench power: a tree of devices or a table that cannot be is refused") {
  auto none = small_site();
  none.children.clear();
  CHECK(measure_devices(none).error().code == errc::bad_config);
  auto childless = small_site();
  childless.children[1] = 0;
  CHECK(measure_devices(childless).error().code == errc::bad_config);
  auto huge = small_site();
  huge.children = {100'000, 100'000, 100'000};
  CHECK(measure_devices(huge).error().code == errc::bad_config);
  auto plan = small_site();
  plan.budget_csv = "t_s,watts\n0,100000\n60,40000\n";  // static shares are 44,800 W together
  CHECK(measure_devices(plan).error().is(power::bad_schedule));
  plan.budget_csv = "t_s,watts\n0,100000\n3000000000,90000\n";
  CHECK(measure_devices(plan).error().is(power::bad_schedule));
  plan.budget_csv = "t_s,watts\n0\n";
  CHECK(measure_devices(plan).error().is(io::bad_number_table));
  plan.budget_csv = "t_s,watts\n";
  CHECK_FALSE(measure_devices(plan));
}

TEST_CASE("bench power: devices are told as a table and as JSON, with what is wanted") {
  devices_measurement m;
  m.devices = 128;
  m.seconds = 60;
  m.best_speed = 0.8;
  m.together = {0.79, 0.98, 0.96, 5, 3, 60};
  m.alone = {0.6, 0.75, 0.97, 4, 2, 60};
  m.few_of_best = 0.25;
  m.few_ranks = 30;
  CHECK(text_of(m).find("together: met") != std::string::npos);
  m.together.of_best = 0.96;
  CHECK(text_of(m).find("together: missed") != std::string::npos);
  const auto j = json_of(m);
  CHECK(j["together"]["of_best"] == 0.96);
  CHECK(j["alone"]["longest_over_s"] == 2);
  CHECK(j["few"]["ranks"] == 30);
  CHECK(j["least_of_best"] == 0.97);
}

TEST_CASE("bench power: devices follow a file, and one that is not there is told") {
  scratch dir;
  std::ofstream(dir / "demand.csv") << "t_s,watts\n0,9000000\n";
  const auto done =
      run_power_bench(dir, TROUPE_PROGRAM " bench power --only devices --follow demand.csv --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out)["devices"];
  CHECK(j["devices"] == 12288);
  CHECK(j["seconds"] == 60);
  CHECK(j["together"]["of_best"] == 1);
  CHECK(run_power_bench(dir, TROUPE_PROGRAM " bench power --only devices --follow none.csv").code !=
        0);
}
