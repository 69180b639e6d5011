// Watts of a budget by time: what holds when, what is refused and where.
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/power/budget_schedule.hpp"
#include "actors/power/row_trace.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t schedule_s = 1'000'000'000;

/// For a process that starts at 1000 s, whose children have static shares of 60 W.
result<budget_schedule> schedule_from(const std::string& text) {
  const auto table = io::parse_number_table(text);
  REQUIRE(table);
  return budget_schedule::of(*table, {"demand.csv", 1000, 60'000});
}

}  // namespace

TEST_CASE("budget schedule: each row holds until the next one, and the last one for good") {
  const auto s = schedule_from("t_s,watts\n10,70\n20.5,60\n30,66.6\n");
  REQUIRE_MESSAGE(s, (s ? "" : s.error().message));
  CHECK(s->at_mw(0) == std::nullopt);
  CHECK(s->at_mw(10 * schedule_s - 1) == std::nullopt);
  CHECK(s->at_mw(10 * schedule_s) == 70'000);
  CHECK(s->at_mw(20 * schedule_s) == 70'000);
  CHECK(s->at_mw(20'500'000'000) == 60'000);
  CHECK(s->at_mw(30 * schedule_s - 1) == 60'000);
  CHECK(s->at_mw(30 * schedule_s) == 66'600);
  CHECK(s->at_mw(1'000'000 * schedule_s) == 66'600);
  CHECK(s->name() == "demand.csv");
  CHECK(s->rows() == 3);
  CHECK(s->least_mw() == 60'000);
  CHECK(s->greatest_mw() == 70'000);
}

TEST_CASE("budget schedule: times of day count from when the process starts") {
  const auto s = schedule_from("unix_s,watts\n400,61\n990,62\n1010,63\n");
  REQUIRE_MESSAGE(s, (s ? "" : s.error().message));
  CHECK(s->at_mw(0) == 62'000);
  CHECK(s->at_mw(10 * schedule_s - 1) == 62'000);
  CHECK(s->at_mw(10 * schedule_s) == 63'000);
  const auto one = schedule_from("t_s,watts\n0,60\n");
  REQUIRE(one);
  CHECK(one->at_mw(0) == 60'000);
}

TEST_CASE("BSC-1: budget schedule: what is wrong is refused with its line") {
  std::string many = "t_s,watts\n";
  for (size_t i = 0; i <= budget_schedule::most_rows; ++i) many += fmt::format("{},60\n", i);
  struct wrong {
    std::string text;
    const char* said;
  };
  for (const auto& w : {
           wrong{"time,watts\n0,60\n", "line 1: the first column is time"},
           wrong{"t_s\n0\n", "line 1: 1 columns"},
           wrong{"t_s,a,b\n0,60,60\n", "line 1: 3 columns"},
           wrong{"t_s,power\n0,60\n", "line 1: the second column is power"},
           wrong{"# a site's\nt_s,watts\n", "no row of watts follows"},
           wrong{"t_s,watts\n0,60\n0,61\n", "line 3: t_s is 0 after 0"},
           wrong{"unix_s,watts\n9,60\n8,61\n", "line 3: unix_s is 8 after 9"},
           wrong{"t_s,watts\n-1,60\n", "line 2: t_s is -1, and not 0 to 4e+09"},
           wrong{"t_s,watts\n0,60\n5e9,61\n", "line 3: t_s is"},
           wrong{"t_s,watts\n0,-60\n", "line 2: -60 W"},
           wrong{"t_s,watts\n0,60\n1,0\n", "line 3: 0 W"},
           wrong{"t_s,watts\n0,2e9\n", "line 2: 2e+09 W"},
           wrong{"t_s,watts\n0,60\n1,59.99\n", "line 3: 59.99 W, and the static shares"},
           wrong{many, "line 100002: more than 100000 rows"},
       }) {
    CAPTURE(w.text.substr(0, 100));
    const auto s = schedule_from(w.text);
    REQUIRE(!s);
    CHECK(s.error().is(bad_schedule));
    CAPTURE(s.error().message);
    CHECK(s.error().message.find(w.said) != std::string::npos);
  }
  for (const auto* unit : {"kW", "power_mw", "kWh"}) {
    CAPTURE(unit);
    const auto s = schedule_from(fmt::format("t_s,{}\n0,60\n", unit));
    REQUIRE(!s);
    CHECK(s.error().is(not_watts));
  }
}
