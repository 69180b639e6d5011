// Devices on paper, read; and the machine's own, where it has some.
#include "gpu/meters/nvml.hpp"

#include <set>

#include <doctest/doctest.h>

#include "tests/errors.hpp"
#include "tests/gpu/meters/fake_nvml.hpp"

using namespace troupe;
using namespace troupe::gpu::nvml;
using std::chrono::milliseconds;

namespace {

std::unique_ptr<gpu_meter> opened(const library& functions) {
  auto made = gpu_meter::open(functions);
  REQUIRE(made);
  return std::move(*made);
}

}  // namespace

TEST_CASE("nvml: a reading has every number in its unit") {
  auto& machine = fake::fresh();
  machine.clock_reasons = 0x4 | 0x40;
  const auto functions = fake::functions();
  {
    auto meter = opened(functions);
    CHECK(meter->driver_version() == "580.95.05");
    REQUIRE(meter->devices().size() == 2);
    CHECK(meter->devices()[0].name == "NVIDIA H200");
    CHECK(meter->devices()[1].uuid == "GPU-1");
    auto r = meter->read(1);
    REQUIRE(r);
    CHECK(r->power_mw == 413'250);
    CHECK(r->power_limit_mw == 700'000);
    CHECK(r->energy_mj == 98'765'432'100);
    CHECK(r->sm_mhz == 1755);
    CHECK(r->memory_mhz == 3201);
    CHECK(r->temperature_c == 61);
    CHECK(r->busy_percent == 97);
    CHECK(r->memory_busy_percent == 42);
    CHECK(r->memory_used_bytes == 123'000);
    CHECK(r->memory_total_bytes == 150'000);
    CHECK(r->ecc_corrected == 3);
    CHECK(r->ecc_uncorrected == 1);
    CHECK(r->slowed_by == std::vector<std::string>{"power cap", "heat (hardware)"});
  }
  CHECK(machine.sessions == 0);
}

TEST_CASE("nvml: watts are of this moment where the device says that, else the older mean") {
  auto& machine = fake::fresh();
  auto functions = fake::functions();
  const auto power = [&functions] { return opened(functions)->read(0)->power_mw; };
  CHECK(power() == 413'250);  // the field is not there
  machine.gpus[0].instant_mw = 688'000;
  CHECK(power() == 688'000);
  machine.gpus[0].instant_type = 0;  // a double, which it is by no reference
  CHECK(power() == 413'250);
  machine.gpus[0].instant_type = type_whole;
  machine.gpus[0].refusals = {{"field_values", not_supported}};
  CHECK(power() == 413'250);
  machine.gpus[0].refusals = {{"power", not_supported}};
  CHECK(power() == 688'000);
  functions.field_values = nullptr;  // an older driver
  CHECK_FALSE(power());
}

TEST_CASE("nvml: a power brake from outside is told apart from what else slows a device") {
  auto& machine = fake::fresh();
  const auto functions = fake::functions();
  const auto braked = [&functions] { return opened(functions)->read(0)->power_brake; };
  machine.clock_reasons = 0x4 | 0x8 | 0x40;
  CHECK_FALSE(braked());
  machine.clock_reasons = 0x8 | 0x80;
  CHECK(braked());
  machine.gpus[0].refusals = {{"clock_reasons", not_supported}};
  CHECK_FALSE(braked());
}

TEST_CASE("NVM-1: what a device does not report is absent") {
  auto& machine = fake::fresh();
  machine.gpus[0].refusals = {{"energy", not_supported},
                              {"ecc", not_supported},
                              {"power", no_permission},
                              {"memory", no_data},
                              {"clock_reasons", unknown}};
  auto functions = fake::functions();
  functions.temperature = nullptr;  // a driver without the function
  auto meter = opened(functions);
  auto r = meter->read(0);
  REQUIRE(r);
  CHECK_FALSE(r->energy_mj);
  CHECK_FALSE(r->ecc_corrected);
  CHECK_FALSE(r->ecc_uncorrected);
  CHECK_FALSE(r->power_mw);
  CHECK_FALSE(r->memory_used_bytes);
  CHECK_FALSE(r->slowed_by);
  CHECK_FALSE(r->temperature_c);
  CHECK(r->sm_mhz == 1755);
}

TEST_CASE("NVM-2: a lost device is an error, the other one is read") {
  auto& machine = fake::fresh();
  const auto functions = fake::functions();
  SUBCASE("while it is watched") {
    auto meter = opened(functions);
    machine.gpus[0].gone = gpu_is_lost;
    auto r = meter->read(0);
    REQUIRE_FALSE(r);
    CHECK(r.error().code == errc::unavailable);
    CHECK(is_error(r, gpu_lost, "GPU", 0));
    CHECK(meter->read(1));
  }
  SUBCASE("before") {
    machine.gpus[0].gone = gpu_is_lost;
    auto meter = opened(functions);
    REQUIRE(meter->devices().size() == 2);
    CHECK(meter->devices()[0].name.empty());
    CHECK_FALSE(meter->read(0));
    CHECK(meter->read(1));
  }
  SUBCASE("one that needs a reset") {
    auto meter = opened(functions);
    machine.gpus[0].refusals = {{"memory", reset_required}};
    auto r = meter->read(0);
    REQUIRE_FALSE(r);
    CHECK(r.error().hint.find("reset") != std::string::npos);
  }
  SUBCASE("one that never was") {
    CHECK_FALSE(opened(functions)->read(2));
  }
}

TEST_CASE("nvml: reasons of slow clocks are words, new ones are numbers") {
  CHECK(clock_reasons(0).empty());
  CHECK(clock_reasons(0x1) == std::vector<std::string>{"idle"});
  CHECK(clock_reasons(0x8 | 0x20 | 0x80) ==
        std::vector<std::string>{"hardware slowdown", "heat (software)", "power brake"});
  CHECK(clock_reasons(0x100 | 0x200) == std::vector<std::string>{"display clocks", "0x200"});
  CHECK(clock_reasons(~uint64_t{0}).size() == 64);
}

TEST_CASE("nvml: Xids come with their device, in order, and a wait is finite") {
  auto& machine = fake::fresh();
  machine.xids = {{1, 79}, {0, 48}};
  const auto functions = fake::functions();
  {
    auto meter = opened(functions);
    auto first = meter->wait_xid(milliseconds(250));
    REQUIRE((first && *first));
    CHECK((*first)->index == 1);
    CHECK((*first)->xid == 79);
    auto second = meter->wait_xid(milliseconds(250));
    REQUIRE((second && *second));
    CHECK((*second)->index == 0);
    CHECK((*second)->xid == 48);
    auto none = meter->wait_xid(std::chrono::hours(2));
    REQUIRE(none);
    CHECK_FALSE(*none);
    CHECK(machine.waited_ms == std::vector<unsigned>{250, 250, 60'000});
    CHECK(machine.event_sets == 1);
  }
  CHECK(machine.event_sets == 0);
}

TEST_CASE("nvml: devices that report no events say so, and leave nothing behind") {
  auto& machine = fake::fresh();
  auto functions = fake::functions();
  SUBCASE("all of them") {
    for (auto& g : machine.gpus) g.refusals = {{"events", not_supported}};
  }
  SUBCASE("a driver without events") {
    functions.wait_event = nullptr;
  }
  auto meter = opened(functions);
  auto r = meter->wait_xid(milliseconds(1));
  REQUIRE_FALSE(r);
  CHECK(r.error().code == errc::unavailable);
  CHECK(machine.event_sets == 0);
}

TEST_CASE("nvml: one device with events is enough") {
  auto& machine = fake::fresh();
  machine.gpus[0].refusals = {{"events", not_supported}};
  machine.xids = {{1, 31}};
  const auto functions = fake::functions();
  auto r = opened(functions)->wait_xid(milliseconds(1));
  REQUIRE((r && *r));
  CHECK((*r)->xid == 31);
}

TEST_CASE("nvml: without driver or device nothing opens, with a hint") {
  auto& machine = fake::fresh();
  const auto functions = fake::functions();
  SUBCASE("no driver") {
    machine.init_answer = driver_not_loaded;
  }
  SUBCASE("no device") {
    machine.gpus.clear();
  }
  auto made = gpu_meter::open(functions);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::unavailable);
  CHECK_FALSE(made.error().hint.empty());
  CHECK(machine.sessions == 0);
}

TEST_CASE("nvml: this machine's own GPUs") {
  auto meter = gpu_meter::open();
  if (!meter) {
    CHECK(meter.error().code == errc::unavailable);
    MESSAGE("SKIPPED: " << meter.error().message);
    return;
  }
  std::set<std::string> uuids;
  for (const auto& d : (*meter)->devices()) {
    auto r = (*meter)->read(d.index);
    REQUIRE(r);
    CHECK(uuids.insert(d.uuid).second);
    if (r->memory_total_bytes) CHECK(*r->memory_used_bytes <= *r->memory_total_bytes);
    if (r->temperature_c) CHECK(*r->temperature_c < 120);
  }
  CHECK((*meter)->wait_xid(milliseconds(1)));
}
