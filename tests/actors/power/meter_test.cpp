// The meter on a real actor system: readings are answered, shown and recorded; a machine without
// meters is left alone.
#include "actors/power/meter.hpp"

#include <bit>
#include <map>

#include <doctest/doctest.h>
#include <caf/all.hpp>

#include "actors/power/readings.hpp"
#include "tests/patience.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

std::vector<gpu::metered> sample() {
  using k = gpu::metered_kind;
  return {{"gpu0", k::accelerator, 412.25, 700.0, 61.0, 97.0},
          {"gpu1", k::accelerator, std::nullopt, std::nullopt, std::nullopt, std::nullopt},
          {"package-0", k::package, 90.0, 250.0, std::nullopt, std::nullopt},
          {"power_meter", k::sensor, 800.0, std::nullopt, 72.5, std::nullopt}};
}

class paper_reader final : public gpu::meter_reader {
 public:
  std::vector<gpu::metered> read(int64_t) override { return sample(); }
};

struct meter_fixture {
  runtime_config config;
  std::unique_ptr<caf::actor_system> system;
  meter_actor target;

  explicit meter_fixture(bool any) {
    system = std::make_unique<caf::actor_system>(config);
    meter_options o{"paper", 1, 3'600'000, "boot"};
    o.open = [any] {
      std::vector<std::unique_ptr<gpu::meter_reader>> out;
      if (any) out.push_back(std::make_unique<paper_reader>());
      return out;
    };
    target = system->spawn<caf::detached>(meter, std::move(o));
    troupe::test::wait_until([&] { return ask().at_ns != 0 || stats().state != "opening"; });
  }
  ~meter_fixture() { caf::anon_send_exit(target, caf::exit_reason::kill); }

  fbs::MeterReadingsT ask(const std::string& device = {}) {
    caf::scoped_actor self(*system);
    fbs::MeterReadingsT out;
    self->request(target, std::chrono::minutes(5),
                  make_msg<fbs::ReadMeters>({}, [&](auto& m) { m.device = device; }))
        .receive([&](const msg<fbs::MeterReadings>& r) { out = r.unpack(); },
                 [&](const caf::error& e) { FAIL(to_string(e)); });
    return out;
  }

  actor_view stats() {
    const auto found = runtime_of(*system).registry.find("meter/paper");
    REQUIRE(found);
    return found->view();
  }
};

}  // namespace

TEST_CASE("meter: sums what can be added, and says nothing of what is not known") {
  const auto r = readings_of(sample());
  CHECK(r.power_w == 502.25);  // the sensor of the whole machine contains the others
  CHECK(r.temperature_c == 72.5);
  auto sensors = sample();
  sensors.erase(sensors.begin(), sensors.begin() + 3);
  sensors.push_back({"disk", gpu::metered_kind::sensor, 9.0, std::nullopt, 40.0, std::nullopt});
  CHECK(readings_of(sensors).power_w == 800);  // all that is known of the machine
  REQUIRE(r.devices.size() == 4);
  CHECK(r.devices[0]->power_w == 412.25);
  CHECK(r.devices[1]->power_w == -1);
  CHECK(r.devices[1]->temperature_c == -300);
  CHECK(r.devices[2]->limit_w == 250);
  CHECK(readings_of({}).power_w == -1);
  CHECK(readings_of({}).source == fbs::PowerSource::unknown);
  CHECK(r.source == fbs::PowerSource::measured);
  CHECK(r.devices[1]->source == fbs::PowerSource::unknown);
  const auto counters = counters_of(r);
  REQUIRE(counters.size() == 7);
  CHECK(counters[0].name == "W");
  CHECK(counters[0].value == 502.25);
  CHECK(counters[3].name == "gpu0 C");
  CHECK(counters_of(readings_of({})).empty());
}

TEST_CASE("meter: a sum with a part that is calculated is calculated, and joules are the sum's") {
  auto devices = sample();
  devices[0].energy_j = 1000;
  devices[2].energy_j = 30;
  devices[2].modelled = true;
  devices[3].energy_j = 5000;
  auto r = readings_of(devices);
  CHECK(r.source == fbs::PowerSource::modelled);
  CHECK(r.devices[0]->source == fbs::PowerSource::measured);
  CHECK(r.devices[2]->source == fbs::PowerSource::modelled);
  CHECK(r.energy_j == 1030);
  const auto counters = counters_of(r);
  CHECK(counters[0].name == "~W");
  CHECK(counters[2].name == "gpu0 W");
  CHECK(counters[4].name == "package-0 ~W");
  devices[2].power_w.reset();  // its energy is in the sum's
  CHECK(readings_of(devices).source == fbs::PowerSource::modelled);
  devices[2].energy_j.reset();
  CHECK(readings_of(devices).source == fbs::PowerSource::measured);
  devices.erase(devices.begin(), devices.begin() + 3);
  r = readings_of(devices);
  CHECK(r.energy_j == 5000);
  CHECK(r.source == fbs::PowerSource::measured);
}

TEST_CASE("MTR-3: meter: readings are due at whole intervals after the first") {
  CHECK(next_due_ns(100, 100, 10) == 110);
  CHECK(next_due_ns(100, 109, 10) == 110);
  CHECK(next_due_ns(100, 110, 10) == 120);  // it took a whole interval: that one is left out
  CHECK(next_due_ns(100, 137, 10) == 140);
  CHECK(next_due_ns(100, 90, 10) == 110);  // a timer that was early
}

TEST_CASE("meter: what is read is answered, in its stats, and in the flight recorder") {
  meter_fixture f(true);
  record_reader records(runtime_of(*f.system).records, false);
  const auto all = f.ask();
  CHECK(all.node == "paper");
  CHECK(all.at_ns > 0);
  CHECK(all.interval_ms == 3'600'000);
  CHECK(all.power_w == 502.25);
  CHECK(all.devices.size() == 4);
  CHECK(all.machine == "boot");
  CHECK(all.source == fbs::PowerSource::measured);
  CHECK(all.energy_j == -1);  // of one look nothing is known
  const auto gpus = f.ask("gpu*");
  CHECK(gpus.devices.size() == 2);
  CHECK(gpus.power_w == 502.25);
  const auto stats = f.stats();
  CHECK(stats.state == "reading");
  REQUIRE(stats.values.meter);
  CHECK(stats.values.meter->power_w == 502.25);
  CHECK(stats.values.meter->temperature_c == 72.5);
  CHECK(stats.values.meter->machine == "boot");
  CHECK(stats.values.meter->read_at_ns == all.at_ns);
  CHECK(stats.values.meter->interval_ms == 3'600'000);
  CHECK(stats.values.meter->source == fbs::PowerSource::measured);
  REQUIRE(stats.values.meter->devices.size() == 4);
  CHECK(stats.values.meter->devices[2]->limit_w == 250);
  std::map<std::string, double> counters;
  for (const auto& r : records.read(100'000))
    if (r.kind == record_kind::counter && r.begin_ns == all.at_ns)
      counters[work_names()[r.type - 1]] = std::bit_cast<double>(r.sender);
  CHECK(counters == std::map<std::string, double>{{"W", 502.25},
                                                  {"C", 72.5},
                                                  {"gpu0 W", 412.25},
                                                  {"gpu0 C", 61},
                                                  {"package-0 W", 90},
                                                  {"power_meter W", 800},
                                                  {"power_meter C", 72.5}});
}

TEST_CASE("meter: how busy the node's own process keeps processors is told from the second look") {
  runtime_config config;
  caf::actor_system system(config);
  meter_options o{"paper", 1, 1, "boot"};
  o.open = [] {
    std::vector<std::unique_ptr<gpu::meter_reader>> out;
    out.push_back(std::make_unique<paper_reader>());
    return out;
  };
  o.processor_time = [used_s = 100.0]() mutable -> gpu::processor_seconds {
    used_s += 3600;
    return {used_s, 2 * used_s};
  };
  const auto target = system.spawn<caf::detached>(meter, std::move(o));
  const auto published = [&] {
    const auto found = runtime_of(system).registry.find("meter/paper");
    return found ? found->view().values : fbs::StatusValuesT{};
  };
  // More than an hour of it in less than an hour.
  troupe::test::wait_until([&] {
    const auto now = published();
    return now.meter && now.meter->process_busy > 1;
  });
  const auto vitals = power_vitals(published(), 0);
  REQUIRE(vitals);
  CHECK(vitals->process_busy > 1);
  CHECK(vitals->machine_busy == doctest::Approx(2 * vitals->process_busy));
  CHECK(readings_of(sample()).process_busy == -1);
  CHECK(readings_of(sample()).machine_busy == -1);
  caf::anon_send_exit(target, caf::exit_reason::kill);
}

TEST_CASE("meter: a machine without any is not asked again") {
  meter_fixture f(false);
  const auto all = f.ask();
  CHECK(all.at_ns == 0);
  CHECK(all.power_w == -1);
  CHECK(all.devices.empty());
  CHECK(f.stats().state == "nothing to read");
}
