// Joules of devices that say watts.
#include "actors/power/energy_account.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t second = 1'000'000'000;

std::vector<gpu::metered> drawing(std::optional<double> power_w,
                                  std::optional<double> energy_j = {}) {
  gpu::metered m;
  m.device = "gpu0";
  m.kind = gpu::metered_kind::accelerator;
  m.power_w = power_w;
  m.energy_j = energy_j;
  return {m};
}

std::optional<double> joules(energy_account& account, std::vector<gpu::metered> devices,
                             int64_t at_ns) {
  account.add(devices, at_ns);
  return devices[0].energy_j;
}

}  // namespace

TEST_CASE("energy account: between two readings a device drew the mean of both") {
  energy_account account(second);
  CHECK_FALSE(joules(account, drawing(100), 5 * second));  // of one look nothing is known
  CHECK(joules(account, drawing(300), 6 * second) == 200.0);
  CHECK(joules(account, drawing(300), 8 * second) == 800.0);
}

TEST_CASE("ENA-1: energy account: a counter's own joules stay") {
  energy_account account(second);
  CHECK(joules(account, drawing(100, 7.5), second) == 7.5);
  CHECK(joules(account, drawing(100, 9.5), 2 * second) == 9.5);
  CHECK_FALSE(joules(account, drawing(100), 3 * second));  // it counts no more: begun anew
  CHECK(joules(account, drawing(100), 4 * second) == 100.0);
}

TEST_CASE(
    "ENA-2: energy account: a time without power, or much longer than the interval, adds none") {
  energy_account account(20 * second);
  CHECK_FALSE(joules(account, drawing({}), second));
  CHECK_FALSE(joules(account, drawing(50), 2 * second));
  CHECK(joules(account, drawing(50), 3 * second) == 50.0);
  CHECK(joules(account, drawing({}), 4 * second) == 50.0);
  CHECK(joules(account, drawing(50), 5 * second) == 50.0);
  CHECK(joules(account, drawing(50), 6 * second) == 100.0);
  CHECK(joules(account, drawing(50), 206 * second) == 10'100.0);
  CHECK(joules(account, drawing(50), 407 * second) == 10'100.0);  // 201 s: it slept
  CHECK(joules(account, drawing(50), 406 * second) == 10'100.0);  // a clock that went back
  energy_account quick(1);  // a look takes longer than this interval
  CHECK_FALSE(joules(quick, drawing(10), second));
  CHECK(joules(quick, drawing(10), 11 * second) == 100.0);
  CHECK(joules(quick, drawing(10), 22 * second) == 100.0);
}
