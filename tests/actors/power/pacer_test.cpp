// The pacer between scripted coordinator and run: what heartbeats come to, and when the run hears.
#include "actors/power/pacer.hpp"

#include <cstdint>
#include <limits>
#include <utility>

#include <doctest/doctest.h>

#include "actors/power/readings.hpp"
#include "tests/actors/power/scripted_pacer.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::power::test::scripted_pacer;

TEST_CASE("PCR-2: a pacer is silent until its run has spoken, and then tells at once") {
  scripted_pacer f(60);
  f.beat(20, 100);
  f.pass(5s);
  CHECK(f.run.idle());
  f.take_pace(0, 1024, 60);
  const auto told = f.run.take<fbs::JobPower>();
  CHECK(told->pace_of_1024() == static_cast<uint32_t>(work_pace_policy::least_pace.of_1024));
  CHECK(told->power_w() == 20);
  CHECK(told->energy_j() == 0);
  CHECK(told->source() == fbs::PowerSource::modelled);
  CHECK(f.run.idle());
}

TEST_CASE("PCR-1: a run hears within a period of what changes, and of nothing else") {
  scripted_pacer f(0);
  f.take_pace(0, 1024, 0);
  const auto first = f.run.take<fbs::JobPower>();
  CHECK(first->pace_of_1024() == 1024);  // there is no budget
  CHECK(first->power_w() == -1);
  CHECK(first->source() == fbs::PowerSource::unknown);
  f.pass(10s);
  CHECK(f.run.idle());
  f.beat(34.5, 10);
  f.pass(500ms);
  CHECK(f.run.take<fbs::JobPower>()->power_w() == 34.5);
  f.beat(34.5, 44.5);  // the reading is older than it was told: the same one
  f.pass(10s);
  CHECK(f.run.take_all<fbs::JobPower>().size() == 1);  // the energy of a second
  CHECK(f.status().power_w == 34.5);
  CHECK(f.status().budget_w == -1);
  CHECK(f.status().machines == 1);
}

TEST_CASE(
    "pacer: a budget that a person sets holds from then on, and one that is too small stops "
    "steps") {
  scripted_pacer f(60);
  f.beat(20, 0, 0, 100);
  f.take_pace(0, 1024, 60);
  CHECK(f.run.take<fbs::JobPower>()->pace_of_1024() == 500);  // (60 * 0.985 - 20) / (100 - 20)
  f.take_pace(4, 500, 15);
  const auto held = f.run.take<fbs::JobPower>();
  CHECK(held->pace_of_1024() == 0);
  CHECK(held->reason()->str().find("15 W") != std::string::npos);
  CHECK(f.status().pace_percent == 0);
  CHECK(f.status().reason == held->reason()->str());
  f.take_pace(0, 500, 0);
  CHECK(f.run.take<fbs::JobPower>()->pace_of_1024() == 1024);
}

TEST_CASE("JPP-1: pacer: a limit that the pace itself has lowered bounds no full speed") {
  const auto least = static_cast<uint32_t>(work_pace_policy::least_pace.of_1024);
  using words = std::vector<std::string>;
  for (const auto& [control, first] : {std::pair{words{"rapl"}, least},
                                       {words{"nvml_limit"}, least},
                                       {words{"nvml_clocks", "nvml_limit", "pace"}, least},
                                       {words{"cpufreq"}, uint32_t{500}},
                                       {words{"cgroup", "pace"}, uint32_t{500}}}) {
    CAPTURE(control.front());
    scripted_pacer f;
    pacer_options options{60, troupe::power::test::pacer_epoch};
    options.control = control;
    f.start(std::move(options));
    f.beat(20, 0, 0, 100);
    f.take_pace(0, 1024, 60);
    CHECK(f.run.take<fbs::JobPower>()->pace_of_1024() == first);
  }
}

TEST_CASE("pacer: heartbeats that say nothing of power, or nonsense, are no watts") {
  scripted_pacer f(60);
  f.take_pace(0, 1024, 60);
  CHECK(f.run.take<fbs::JobPower>()->pace_of_1024() == 0);
  f.coordinator.tell(f.target, make_msg<fbs::Heartbeat>(f.context(), [](auto&) {}));
  for (const double nonsense :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -5.0})
    f.beat(nonsense, nonsense, UINT64_MAX);
  f.pass(1s);
  for (const auto& m : f.run.take_all<fbs::JobPower>()) {
    CHECK(m->pace_of_1024() == 0);
    CHECK(m->power_w() == -1);
  }
  f.beat(20, 5);
  f.pass(1s);
  const auto all = f.run.take_all<fbs::JobPower>();
  REQUIRE(!all.empty());
  CHECK(all.back()->pace_of_1024() > 0);
}

TEST_CASE("heartbeats pass on what a meter read, with its age and what its devices may draw") {
  fbs::StatusValuesT published;
  CHECK(!power_vitals(published, 9));
  published.meter = std::make_unique<fbs::MeterStatusT>();
  CHECK(!power_vitals(published, 9));  // it has read nothing
  auto& m = *published.meter;
  m.machine = "boot";
  m.power_w = 300;
  m.energy_j = 12;
  m.source = fbs::PowerSource::measured;
  m.read_at_ns = 5'000'000'000;
  m.interval_ms = 700;
  const auto add = [&](fbs::MeteredKind kind, double power_w, double limit_w) {
    auto& d = *m.devices.emplace_back(std::make_unique<fbs::DeviceReadingT>());
    d.kind = kind;
    d.power_w = power_w;
    d.limit_w = limit_w;
  };
  add(fbs::MeteredKind::accelerator, 200, 700);
  add(fbs::MeteredKind::package, 100, 250);
  add(fbs::MeteredKind::accelerator, -1, -1);  // no part of the sum
  add(fbs::MeteredKind::sensor, 330, -1);
  const auto passed = power_vitals(published, 5'250'000'000);
  REQUIRE(passed);
  CHECK(passed->machine == "boot");
  CHECK(passed->power_w == 300);
  CHECK(passed->energy_j == 12);
  CHECK(passed->source == fbs::PowerSource::measured);
  CHECK(passed->age_ms == 250);
  CHECK(passed->interval_ms == 700);
  CHECK(passed->limit_w == 950);
  m.devices[1]->limit_w = -1;
  CHECK(power_vitals(published, 0)->limit_w == -1);
  CHECK(power_vitals(published, 0)->age_ms == 0);
}
