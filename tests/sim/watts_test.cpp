// The watts of simulated clusters over virtual time: how far they fall when checkpoints are saved,
// beside the steps and in their place; and what devices draw whose actuators stick.
#include <algorithm>

#include <doctest/doctest.h>

#include "actors/sim/power_model.hpp"
#include "actors/sim/simulation.hpp"
#include "actors/sim/watts_trace.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr int64_t ms_of_watts = 1'000'000, second_of_watts = 1'000 * ms_of_watts;

/// Eight devices of 700 W, whose saves take five seconds each.
simulation_options eight_devices_that_save() {
  simulation_options o;
  o.nodes = 8;
  o.micro_batches = 16;
  o.steps = 1000;
  o.checkpoint_every = 200;
  o.times.save_ns = 5 * second_of_watts;
  o.watts_each_ms = 100;
  return o;
}

/// Within two seconds, from the first step to the last; of what all devices can draw at most.
double greatest_fall(const simulation_outcome& done, const simulation_options& o) {
  const auto each_ns = o.watts_each_ms * ms_of_watts;
  const auto first = static_cast<size_t>(done.first_step_ns / each_ns + 1);
  const auto end = static_cast<size_t>(done.last_step_ns / each_ns);
  const auto window = static_cast<size_t>(2 * second_of_watts / each_ns);
  REQUIRE(end <= done.watts.size());
  REQUIRE(first + 10 * window < end);
  double most = 0;
  for (size_t i = first; i < end; ++i) {
    const auto from = done.watts.begin() + static_cast<ptrdiff_t>(i);
    const auto to = done.watts.begin() + static_cast<ptrdiff_t>(std::min(i + window + 1, end));
    most = std::max(most, *from - *std::min_element(from, to));
  }
  return most / (devices_of(o) * power_model_options().limit_w);
}

}  // namespace

TEST_CASE("a simulated save beside the steps lets watts fall by less than 10 % of the TDP") {
  auto o = eight_devices_that_save();
  const auto beside = simulate(o);
  REQUIRE(beside);
  CHECK(!beside->violation);
  CHECK(beside->checkpoints >= 4);
  CHECK(greatest_fall(*beside, o) <= 0.10);
  o.times.saves_block = true;
  const auto blocking = simulate(o);
  REQUIRE(blocking);
  CHECK(!blocking->violation);
  CHECK(blocking->checkpoints >= 4);
  CHECK(greatest_fall(*blocking, o) >= 0.51);  // as measured of synchronous saves
  CHECK(blocking->virtual_ns >= beside->virtual_ns + 2 * o.times.save_ns);
  CHECK(blocking->losses == beside->losses);
}

TEST_CASE("a simulated cluster whose watts nobody asks for keeps none") {
  auto o = eight_devices_that_save();
  o.steps = 5;
  o.watts_each_ms = 0;
  const auto done = simulate(o);
  REQUIRE(done);
  CHECK(done->watts.empty());
}

TEST_CASE("WTR-1: watts over time add up to what operations and idle devices draw") {
  watts_trace trace(100);
  trace.add(50, 250, 10);
  trace.add(120, 130, 100);
  CHECK(trace.means(1, 400) == std::vector<double>{6, 21, 6, 1});
  CHECK(trace.means(1, 399).size() == 3);
  power_model_options o;
  o.noise = 0;
  watts_trace of_device(100);
  power_model device(o, rng(1), &of_device);
  device.works(0, 200, o.idle_w + 40);
  device.works(200, 300, o.idle_w + 80);
  device.stops(150);
  CHECK(of_device.means(o.idle_w, 300) ==
        std::vector<double>{o.idle_w + 40, o.idle_w + 20, o.idle_w});
  CHECK(device.read(300).power_w == doctest::Approx(o.idle_w + 20));
  CHECK(watts_trace().means(1, 400).empty());
}

TEST_CASE("DRW-3: a device whose actuator sticks draws no less, until it follows again") {
  power_model_options o;
  o.noise = 0;
  power_model device(o, rng(1));
  device.works(0, 100, 500);
  CHECK(device.last_w() == o.idle_w);
  CHECK(device.read(100).power_w == doctest::Approx(500));
  CHECK(device.last_w() == doctest::Approx(500));
  device.sticks(device.last_w());
  device.sticks(o.limit_w);
  CHECK(device.read(200).power_w == doctest::Approx(o.limit_w));
  device.follows_again(o.limit_w);
  CHECK(device.read(300).power_w == doctest::Approx(500));
  device.works(300, 400, 600);
  CHECK(device.read(400).power_w == doctest::Approx(600));
  device.follows_again(500);
  CHECK(device.read(500).power_w == doctest::Approx(o.idle_w));
}
