// The meters of a machine: GPUs on paper, and the kernel's files as a folder.
#include "gpu/meters/readers.hpp"

#include <unistd.h>

#include <fstream>
#include <optional>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "tests/gpu/meters/fake_nvml.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::gpu;

namespace {

constexpr int64_t second = 1'000'000'000;

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text << '\n';
}

std::unique_ptr<meter_reader> opened(result<std::unique_ptr<meter_reader>> made) {
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return std::move(*made);
}

}  // namespace

TEST_CASE("readers: GPUs by NVML, where a lost one stays in the list and reports nothing (RDR-1)") {
  auto& machine = nvml::fake::fresh();
  const auto functions = nvml::fake::functions();
  {
    const auto reader = opened(open_gpu_reader(functions));
    auto all = reader->read(second);
    REQUIRE(all.size() == 2);
    CHECK(all[1].device == "gpu1");
    CHECK(all[1].kind == metered_kind::accelerator);
    CHECK(all[1].power_w == 413.25);
    CHECK(all[1].limit_w == 700.0);
    CHECK(all[1].temperature_c == 61.0);
    CHECK(all[1].busy_percent == 97.0);
    machine.gpus[1].gone = nvml::gpu_is_lost;
    all = reader->read(2 * second);
    REQUIRE(all.size() == 2);
    CHECK(all[0].power_w);
    CHECK(all[1].device == "gpu1");
    CHECK_FALSE(all[1].power_w);
    CHECK_FALSE(all[1].temperature_c);
  }
  CHECK(machine.sessions == 0);
}

TEST_CASE("readers: packages and their memory by energy, which goes round") {
  const scratch here;
  const auto zone = here / "intel-rapl:0";
  write(zone / "name", "package-0");
  write(zone / "energy_uj", "1000000");
  write(zone / "max_energy_range_uj", "262143328850");
  write(zone / "constraint_0_power_limit_uw", "250000000");
  write(here / "intel-rapl:0:0" / "name", "core");  // within the package's
  write(here / "intel-rapl:0:0" / "energy_uj", "5");
  write(here / "intel-rapl:0:1" / "name", "dram");
  write(here / "intel-rapl:0:1" / "energy_uj", "0");
  write(here / "intel-rapl:10" / "name", "package-1");
  write(here / "intel-rapl:10" / "energy_uj", "none of your business");
  write(here / "intel-rapl-mmio:0" / "name", "package-0");  // the same once more
  write(here / "intel-rapl-mmio:0" / "energy_uj", "1000000");
  const auto reader = opened(open_package_reader(here.path));
  auto all = reader->read(10 * second);
  REQUIRE(all.size() == 2);
  CHECK(all[0].device == "package-0");
  CHECK(all[0].kind == metered_kind::package);
  CHECK(all[0].limit_w == 250.0);
  CHECK_FALSE(all[0].power_w);  // of one look there is no mean
  CHECK(all[1].device == "package-0-dram");
  write(zone / "energy_uj", "181000000");
  write(here / "intel-rapl:0:1" / "energy_uj", "3000000");
  all = reader->read(12 * second);
  CHECK(all[0].power_w == 90.0);
  CHECK(all[0].energy_j == 180.0);
  CHECK_FALSE(all[0].modelled);
  CHECK(all[1].power_w == 1.5);
  write(zone / "energy_uj", "18856671150");
  reader->read(13 * second);
  write(zone / "energy_uj", "1000000");  // 262143328850 - 18856671150 + 1000000 used
  all = reader->read(14 * second);
  REQUIRE(all[0].power_w);
  CHECK(*all[0].power_w == doctest::Approx(243'287.6577));
  const auto used_j = all[0].energy_j;
  std::filesystem::remove(zone / "energy_uj");
  all = reader->read(15 * second);
  CHECK_FALSE(all[0].power_w);
  CHECK(all[0].energy_j == used_j);  // what was known stays
  write(zone / "energy_uj", "61000000");
  all = reader->read(16 * second);
  CHECK(all[0].power_w == 30.0);  // over the look that failed, too
  CHECK(*all[0].energy_j == doctest::Approx(*used_j + 60));
  std::filesystem::remove(zone / "max_energy_range_uj");
  write(zone / "energy_uj", "5");
  CHECK_FALSE(reader->read(17 * second)[0].power_w);  // it went round, nobody knows at what
}

TEST_CASE("readers: joules of drawn looks, some of which fail, never fall") {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const scratch here;
    const auto zone = here / "intel-rapl:0";
    write(zone / "max_energy_range_uj", "1000000");
    write(zone / "energy_uj", "0");
    write(here / "stat", "cpu  0 0 0 0 0 0 0\ncpu0 0");
    const auto packages = opened(open_package_reader(here.path));
    const auto model = opened(open_model_reader({30, 4}, here.path));
    std::optional<double> last[2];
    for (int look = 1; look <= 40; ++look) {
      for (const auto& [file, text] :
           {std::pair(zone / "energy_uj", std::to_string(random() % 1'000'000)),
            std::pair(here / "stat",
                      "cpu  " + std::to_string(random() % 500) + " 0 0 0 0 0 0\ncpu0 0")}) {
        std::filesystem::remove(file);
        if (random() % 4 != 0) write(file, text);
      }
      const auto at_ns = look * second;
      const std::optional<double> now[2] = {packages->read(at_ns)[0].energy_j,
                                            model->read(at_ns)[0].energy_j};
      for (int i = 0; i < 2; ++i) {
        if (last[i]) REQUIRE(now[i].value_or(-1) >= *last[i]);
        last[i] = now[i];
      }
    }
    CHECK(last[0]);
    CHECK(last[1]);
  }
}

TEST_CASE("readers: chips by their warmest sensor and all their power") {
  const scratch here;
  write(here / "hwmon9" / "name", "coretemp");
  write(here / "hwmon9" / "temp1_input", "45000");
  write(here / "hwmon9" / "temp2_input", "61500");
  write(here / "hwmon9" / "temp2_label", "Core 0");
  write(here / "hwmon10" / "name", "coretemp");
  write(here / "hwmon10" / "temp1_input", "-5000");
  write(here / "hwmon11" / "name", "power_meter");
  write(here / "hwmon11" / "power1_average", "512000000");
  write(here / "hwmon12" / "name", "fan");
  const auto all = opened(open_sensor_reader(here.path))->read(0);
  REQUIRE(all.size() == 3);
  CHECK(all[0].device == "coretemp");
  CHECK(all[0].temperature_c == 61.5);
  CHECK_FALSE(all[0].power_w);
  CHECK(all[1].device == "coretemp#2");
  CHECK(all[1].temperature_c == -5.0);
  CHECK(all[2].device == "power_meter");
  CHECK(all[2].kind == metered_kind::sensor);
  CHECK(all[2].power_w == 512.0);
}

TEST_CASE("readers: a machine by its model, from the time its processors were busy") {
  const scratch here;
  const auto ticks = [&](int64_t user, int64_t idle) {  // a hundred a second
    write(here / "stat", "cpu  " + std::to_string(user) + " 100 200 " + std::to_string(idle) +
                             " 999 50 50 7 3 3\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5 cpu2");
  };
  REQUIRE(sysconf(_SC_CLK_TCK) == 100);
  ticks(1000, 0);
  const auto reader = opened(open_model_reader({40, 5}, here.path));
  auto all = reader->read(10 * second);
  REQUIRE(all.size() == 1);
  CHECK(all[0].device == "machine");
  CHECK(all[0].modelled);
  CHECK_FALSE(all[0].power_w);  // of one look there is no mean
  CHECK_FALSE(all[0].energy_j);
  ticks(1300, 5000);
  all = reader->read(12 * second);
  CHECK(all[0].power_w == 47.5);  // 3 s of two processors in 2 s
  CHECK(all[0].busy_percent == 75.0);
  CHECK(all[0].energy_j == 95.0);
  ticks(9300, 5000);  // more than two processors can be busy in a second: the counts were late
  all = reader->read(13 * second);
  CHECK(all[0].power_w == 50.0);
  ticks(5, 5000);  // they go back: nothing is negative
  CHECK(reader->read(14 * second)[0].power_w == 40.0);
  std::filesystem::remove(here / "stat");
  all = reader->read(15 * second);
  CHECK_FALSE(all[0].power_w);
  CHECK(all[0].energy_j == 185.0);  // what was known stays
  for (const auto* odd : {"", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7", "cpu 1 2 x 4 5 6 7\ncpu0",
                          "cpu 1 2 3 4 5 6 7", "cpu -9 2 3 4 5 6 7\ncpu0 1"}) {
    CAPTURE(odd);
    write(here / "stat", odd);
    CHECK(open_model_reader({40, 5}, here.path).error().code == errc::unavailable);
  }
}

TEST_CASE("RDR-3: readers: the model stands in where no package and no sensor says a power") {
  const scratch here;
  write(here / "proc" / "stat", "cpu  1 1 1 1 1 1 1\ncpu0 1 1 1");
  const auto modelled = [&](const power_model& model) {
    const auto readers =
        open_machine_readers(model, nullptr, here / "powercap", here / "hwmon", here / "proc");
    int count = 0;
    for (const auto& r : readers)
      for (const auto& m : r->read(second)) count += m.modelled ? 1 : 0;
    return count;
  };
  CHECK(modelled({40, 5}) == 1);
  CHECK(modelled({}) == 0);  // unknown, not 0
  write(here / "hwmon" / "hwmon1" / "temp1_input", "45000");
  CHECK(modelled({40, 0}) == 1);
  write(here / "hwmon" / "hwmon1" / "power1_input", "9000000");
  CHECK(modelled({40, 5}) == 0);
  std::filesystem::remove_all(here / "hwmon");
  write(here / "powercap" / "intel-rapl:0" / "energy_uj", "5");
  CHECK(modelled({40, 5}) == 0);
}

TEST_CASE("readers: a machine without them is an error that says so") {
  const scratch here;
  CHECK(open_package_reader(here.path).error().code == errc::unavailable);
  CHECK(open_sensor_reader(here / "nothing").error().code == errc::unavailable);
  for (const auto& reader : open_machine_readers())  // whatever this one has: read twice, it holds
    for (int i = 0; i < 2; ++i) CHECK_FALSE(reader->read((i + 1) * second).empty());
}
