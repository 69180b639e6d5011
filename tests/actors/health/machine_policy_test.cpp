// A machine's vitals against their thresholds: each just below and just at it, and unknown.
#include "actors/health/machine_policy.hpp"

#include <doctest/doctest.h>

#include "messages/msg.hpp"
#include "tests/actors/health/seconds.hpp"

using namespace troupe;
using namespace troupe::health;

namespace {

using troupe::health::test::s;

/// What is found of a machine that says so for a minute.
std::vector<std::string_view> found_of(const fbs::MachineVitalsT& said) {
  findings_policy p;
  for (int64_t t = 0; t <= 60; ++t) {
    judge_machine("a", *make_msg<fbs::MachineVitals>({}, said), t * s, p);
    p.judge(t * s);
  }
  std::vector<std::string_view> out;
  for (const auto& f : p.standing()) {
    CHECK(f.who.node == "a");
    out.push_back(facts_of(f.who.name).name);
  }
  return out;
}

using names = std::vector<std::string_view>;

template <class Fill>
names found_with(Fill fill) {
  fbs::MachineVitalsT m;
  fill(m);
  return found_of(m);
}

}  // namespace

TEST_CASE("MCH-1: what is not known is no finding") {
  CHECK(found_of({}).empty());
  CHECK(found_with([](auto& m) { m.memory_bytes = 0, m.available_bytes = 0; }).empty());
  CHECK(found_with([](auto& m) { m.disk_bytes = 0, m.disk_free_bytes = 0; }).empty());
}

TEST_CASE("a machine's findings begin at their thresholds") {
  CHECK(found_with([](auto& m) { m.memory_full_percent = 9.9; }).empty());
  CHECK(found_with([](auto& m) { m.memory_full_percent = 10; }) == names{"memory_pressure"});
  CHECK(found_with([](auto& m) { m.memory_bytes = 1000, m.available_bytes = 50; }).empty());
  CHECK(found_with([](auto& m) { m.memory_bytes = 1000, m.available_bytes = 49; }) ==
        names{"memory_pressure"});
  CHECK(found_with([](auto& m) { m.cpu_some_percent = 100; }).empty());  // it is busy
  CHECK(found_with([](auto& m) { m.steal_percent = m.throttled_percent = 9.9; }).empty());
  CHECK(found_with([](auto& m) { m.steal_percent = 10; }) == names{"cpu_starved"});
  CHECK(found_with([](auto& m) { m.throttled_percent = 10; }) == names{"cpu_starved"});
  CHECK(found_with([](auto& m) { m.disk_sync_ms = 499; }).empty());
  CHECK(found_with([](auto& m) { m.disk_sync_ms = 500; }) == names{"disk_slow"});
  CHECK(found_with([](auto& m) { m.disk_bytes = 1000, m.disk_free_bytes = 20; }).empty());
  CHECK(found_with([](auto& m) { m.disk_bytes = 1000, m.disk_free_bytes = 19; }) ==
        names{"disk_full"});
  CHECK(found_with([](auto& m) { m.clock_set_ms = -499; }).empty());
  CHECK(found_with([](auto& m) { m.clock_set_ms = -500; }) == names{"clock_jump"});
}

TEST_CASE("GPUs: off the bus is lost, slowed by heat is hot, a power cap is neither") {
  const auto with = [](uint64_t xid, std::vector<std::string> slowed_by) {
    return found_with([&](auto& m) {
      m.gpus.push_back(std::make_unique<fbs::GpuVitalsT>());
      m.gpus.push_back(std::make_unique<fbs::GpuVitalsT>());
      m.gpus[0]->device = "gpu0";
      m.gpus[0]->xid_number = xid;
      m.gpus[0]->slowed_by = slowed_by;
    });
  };
  CHECK(with(0, {"power cap"}).empty());
  CHECK(with(13, {}).empty());  // a program's own fault
  CHECK(with(79, {}) == names{"lost_device"});
  CHECK(with(0, {"power cap", "heat (hardware)"}) == names{"device_hot"});
}
