// Which numbers a pace stands for, and that the budget's judge comes to rest by them.
#include "gpu/controls/setting_policy.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe::gpu::controls;

namespace {

constexpr uint64_t one_w = 1'000'000;  // in microwatts

/// How far from a budget watts are in the end, in parts of it, if each pace is the last one times
/// what was to be drawn over what was.
template <class Watts>
double off_budget(double budget_w, double idle_w, Watts&& watts_at) {
  double pace = 1, drawn_w = 0;
  for (int i = 0; i < 24; ++i) {
    drawn_w = watts_at(static_cast<int>(pace * whole_pace));
    const double wanted = pace * (budget_w - idle_w) / (drawn_w - idle_w);
    pace = std::clamp(std::min(wanted, 4 * pace), 0.05, 1.0);
  }
  return std::abs(drawn_w - budget_w) / budget_w;
}

}  // namespace

TEST_CASE("DVS-1: settings: a clock follows the root of the pace, within what it may be") {
  const auto r = clock_range(800'000, 3'000'000, "");
  CHECK(setting_at(setting_kind::cpufreq, r, 1024) == 3'000'000);
  CHECK(setting_at(setting_kind::cpufreq, r, 5000) == 3'000'000);
  CHECK(setting_at(setting_kind::cpufreq, r, 512) == 2'121'000);
  CHECK(setting_at(setting_kind::cpufreq, r, 256) == 1'500'000);
  CHECK(setting_at(setting_kind::cpufreq, r, 51) == 800'000);
  CHECK(setting_at(setting_kind::cpufreq, r, 0) == 800'000);
  CHECK(setting_at(setting_kind::cpufreq, r, -3) == 800'000);
  const auto narrow = clock_range(3'000'000, 2'000'000, "");  // set below its least by somebody
  CHECK(setting_at(setting_kind::cpufreq, narrow, 100) == 2'000'000);
}

TEST_CASE("DVS-1: settings: where the kernel lists clocks, one of those") {
  const auto r =
      clock_range(800'000, 3'000'000, "3400000 3000000 2200000 1500000 800000 400000 \n");
  CHECK(r.only == std::vector<uint64_t>{800'000, 1'500'000, 2'200'000, 3'000'000});
  CHECK(setting_at(setting_kind::cpufreq, r, 512) == 1'500'000);
  CHECK(setting_at(setting_kind::cpufreq, r, 1) == 800'000);
  CHECK(setting_at(setting_kind::cpufreq, r, 1024) == 3'000'000);
  CHECK(clock_range(800'000, 3'000'000, "junk -1 ").only.empty());
}

TEST_CASE("DVS-1: settings: a limit is what was found, down to a quarter of it") {
  const auto r = limit_range(150 * one_w);
  CHECK(setting_at(setting_kind::rapl, r, 1024) == 150 * one_w);
  CHECK(setting_at(setting_kind::rapl, r, 512) == 93'750'000);
  CHECK(setting_at(setting_kind::rapl, r, 0) == 37'500'000);
}

TEST_CASE("DVS-2: settings: a lower pace is never a higher setting") {
  for (const auto kind : {setting_kind::cpufreq, setting_kind::rapl}) {
    CAPTURE(to_string(kind));
    const auto r = kind == setting_kind::cpufreq ? clock_range(800'000, 3'012'345, "")
                                                 : limit_range(97'654'321);
    uint64_t last = 0;
    for (int pace = 0; pace <= whole_pace; ++pace) {
      const auto now = setting_at(kind, r, pace);
      REQUIRE(now >= last);
      REQUIRE(now >= r.least);
      REQUIRE(now <= r.most);
      last = now;
    }
    CHECK(last == r.most);
  }
}

TEST_CASE("settings: whatever the power of the clock is, the judge comes to the budget") {
  const auto r = clock_range(400'000, 3'000'000, "");
  for (const double power : {1.0, 2.0, 3.0}) {
    CAPTURE(power);
    const auto watts_at = [&](int pace) {
      const auto clock = static_cast<double>(setting_at(setting_kind::cpufreq, r, pace));
      return 12 + 30 * std::pow(clock / 3e6, power);
    };
    for (const double budget_w : {20.0, 25.0, 35.0})
      CHECK(off_budget(budget_w, 12, watts_at) < 0.015);
  }
}

TEST_CASE("settings: the judge comes to the budget by limits, too") {
  const auto r = limit_range(150 * one_w);
  const auto watts_at = [&](int pace) {
    return static_cast<double>(setting_at(setting_kind::rapl, r, pace)) / one_w;
  };
  for (const double idle_w : {10.0, 30.0, 45.0})
    for (const double budget_w : {70.0, 100.0, 140.0}) {
      CAPTURE(idle_w);
      CHECK(off_budget(budget_w, idle_w, watts_at) < 0.015);
    }
}

TEST_CASE("DVS-3: settings: what reads back higher is not in force, but for what devices round") {
  const auto clocks = clock_range(800'000, 3'000'000, "");
  CHECK(is_in_force(clocks, 2'110'000, 2'110'000));
  CHECK(is_in_force(clocks, 2'110'000, 2'200'000));
  CHECK(is_in_force(clocks, 2'110'000, 1'000'000));  // somebody holds it lower
  CHECK_FALSE(is_in_force(clocks, 2'110'000, 2'300'000));
  CHECK_FALSE(is_in_force(limit_range(150 * one_w), 90 * one_w, 91 * one_w));
}

TEST_CASE("DVS-4: settings: they are known by their whole names") {
  using enum setting_kind;
  CHECK(names_setting(cpufreq, "/sys/devices/system/cpu/cpufreq/policy12/scaling_max_freq"));
  CHECK(names_setting(rapl, "/sys/class/powercap/intel-rapl:1/constraint_0_power_limit_uw"));
  for (const std::string& where :
       {std::string(), std::string("policy0/scaling_max_freq"),
        std::string("/sys/policy0/../policy1/scaling_max_freq"),
        std::string("/sys/policy/scaling_max_freq"), std::string("/sys/policyx/scaling_max_freq"),
        std::string("/sys/policy0/scaling_min_freq"), std::string("/etc/passwd"),
        std::string("/sys/a\n/policy0/scaling_max_freq"),
        std::string("/sys/a\0/policy0/scaling_max_freq", 32),
        std::string("/sys/class/powercap/intel-rapl:1/constraint_0_power_limit_uw")}) {
    CAPTURE(where);
    CHECK_FALSE(names_setting(cpufreq, where));
  }
  CHECK_FALSE(names_setting(rapl, "/sys/intel-rapl:0:0/constraint_0_power_limit_uw"));
  CHECK_FALSE(names_setting(rapl, "/sys/intel-rapl:0/constraint_1_power_limit_uw"));
  CHECK(setting_kind_named("rapl") == rapl);
  CHECK_FALSE(setting_kind_named("pace"));
}

TEST_CASE("DVS-5: settings: a clock that is to be had sets what it is") {
  using enum setting_kind;
  const auto set_of = [](setting_kind kind, const setting_range& range) {
    const auto clocks = clocks_of(kind, std::vector{range});
    REQUIRE_FALSE(clocks.empty());
    CHECK(setting_of_clock(kind, range, clocks.front()) == range.most);
    for (size_t i = 1; i < clocks.size(); ++i) {
      CHECK(clocks[i] < clocks[i - 1]);
      CHECK(setting_of_clock(kind, range, clocks[i]) <
            setting_of_clock(kind, range, clocks[i - 1]));
    }
    return clocks;
  };
  const auto even = set_of(cpufreq, clock_range(800'000, 3'000'000, ""));
  CHECK(even.size() == even_clocks + 1);
  CHECK(even.back() == 800);
  CHECK(set_of(cpufreq, clock_range(800'000, 2'400'500, "800000 1600000 2400500")) ==
        std::vector<int>{2401, 1600, 800});
  CHECK(set_of(nvml_clocks, lock_range({345, 990, 1980})) == std::vector<int>{1980, 990, 345});
  CHECK(set_of(cpufreq, clock_range(2'000'000, 2'000'000, "")) == std::vector<int>{2000});
  CHECK(clocks_of(cpufreq, std::vector{clock_range(600'000, 3'000'000, ""),
                                       clock_range(800'000, 2'000'000, "")})
            .front() == 3000);
  CHECK(clocks_of(rapl, std::vector{limit_range(150 * one_w)}).empty());
  CHECK(clocks_of(cpufreq, {}).empty());
}

TEST_CASE("settings: they say their range, and that they save energy") {
  const std::vector clocks{clock_range(600'000, 3'000'000, ""),
                           clock_range(800'000, 2'000'000, "")};
  const auto facts = setting_facts(setting_kind::cpufreq, clocks);
  CHECK(facts.name == "cpufreq");
  CHECK(facts.least == doctest::Approx(0.16));
  CHECK(facts.most == 1);
  CHECK(facts.resolution == doctest::Approx(0.001));
  CHECK(facts.saves_energy);
  const std::vector limits{limit_range(150 * one_w)};
  CHECK(setting_facts(setting_kind::rapl, limits).resolution == doctest::Approx(0.125 / 112.5));
}

TEST_CASE("settings: a file of the kernel holds one whole number, or none is read") {
  CHECK(number_in("2400000\n") == 2'400'000);
  CHECK(number_in("0") == 0);
  for (const char* other : {"", "\n", "-1\n", "max\n", "1 2\n", "99999999999999999999\n"})
    CHECK_FALSE(number_in(other));
}

TEST_CASE("DVS-5: settings: a clock that is asked for is the lowest that is enough for it") {
  const auto any = clock_range(800'000, 3'000'000, "");
  CHECK(setting_of_clock(setting_kind::cpufreq, any, 1500) == 1'500'000);
  CHECK(setting_of_clock(setting_kind::cpufreq, any, 100) == 800'000);
  CHECK(setting_of_clock(setting_kind::cpufreq, any, 0) == 800'000);
  CHECK(setting_of_clock(setting_kind::cpufreq, any, highest_clock_mhz) == 3'000'000);
  const auto listed = lock_range({345, 990, 1410, 1980});
  CHECK(setting_of_clock(setting_kind::nvml_clocks, listed, 990) == 990);
  CHECK(setting_of_clock(setting_kind::nvml_clocks, listed, 991) == 1410);
  CHECK(setting_of_clock(setting_kind::nvml_clocks, listed, 1) == 345);
  CHECK(setting_of_clock(setting_kind::nvml_clocks, listed, 1981) == 1980);
  CHECK(setting_of_clock(setting_kind::rapl, limit_range(150 * one_w), 1) == 150 * one_w);
}
