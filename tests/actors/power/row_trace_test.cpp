// Traces of watts: what is a grid, what is filled, what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/power/row_trace.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

result<row_trace> read(const std::string& text) {
  auto table = io::parse_number_table(text);
  REQUIRE(table);
  return row_trace_of(std::move(*table));
}

/// Rows of t_s,watts, each 2 s.
std::string even(int rows, const std::string& heading = "t_s,watts") {
  auto out = heading + "\n";
  for (int i = 0; i < rows; ++i) out += fmt::format("{},{}\n", 2 * i, 1000 + i);
  return out;
}

}  // namespace

TEST_CASE("row trace: a row's watts by even times, or those of each server") {
  const auto row = read(even(30));
  REQUIRE(row);
  CHECK(row->step_s == 2);
  CHECK(!row->by_server);
  CHECK(row->samples() == 30);
  CHECK(row->row_w(29) == 1029);
  const auto servers = read("t_s,s0,s1\n1.5,10,20\n2.5,11,21\n3.5,12,22\n");
  REQUIRE(servers);
  CHECK(servers->by_server);
  CHECK(servers->row_w(1) == 32);
}

TEST_CASE("row trace: what is missing is filled with the greater neighbour, and counted") {
  auto text = even(60);
  text += "124,2000\n126,1500\n";  // 120 and 122 are missing
  const auto t = read(text);
  REQUIRE(t);
  CHECK(t->filled == 2);
  CHECK(t->longest_gap_s == 6);
  CHECK(t->row_w(60) == 2000);
  CHECK(t->row_w(61) == 2000);
  CHECK(t->row_w(63) == 1500);
}

TEST_CASE("RTR-1 another unit, time or form is refused with its line or column") {
  struct wrong {
    std::string text;
    const char* said;
  };
  const wrong all[] = {{"time,watts\n0,1\n2,1\n4,1\n", "line 1: the first column is time"},
                       {"t_s\n0\n1\n2\n", "no column of watts"},
                       {"t_s,power\n0,1\n2,1\n4,1\n", "the one column is power, and not watts"},
                       {"t_s,watts\n0,1\n2,1\n", "fewer than 3"},
                       {"t_s,watts\n0,1\n2,1\n2,1\n4,1\n", "line 4: t_s is 2 after 2"},
                       {"t_s,watts\n0,1\n2,1\n1,1\n4,1\n", "line 4: t_s is 1 after 2"},
                       {"t_s,a,b\n0,1,1\n2,1,-3\n4,1,1\n", "line 3: b is -3"},
                       {even(20) + "400,1\n", "line 22: more than a tenth is missing"},
                       {"t_s,watts\n0,1\n1,1\n2,1\n3,1\n4,1\n4.1,1\n4.2,1\n4.3,1\n8,1\n9,1\n",
                        "times are not even"}};
  for (const auto& w : all) {
    CAPTURE(w.text);
    const auto t = read(w.text);
    REQUIRE(!t);
    CHECK(t.error().is(bad_trace));
    CAPTURE(t.error().message);
    CHECK(t.error().message.find(w.said) != std::string::npos);
  }
  for (const auto* name : {"kW", "row_kw", "power (mW)", "energy_J", "amps"}) {
    CAPTURE(name);
    const auto t = read(even(20, fmt::format("t_s,{}", name)));
    REQUIRE(!t);
    CHECK(t.error().is(not_watts));
  }
}

TEST_CASE("row trace: a step that a policy's time cannot count is refused") {
  const auto step = [](double step_s, size_t samples) {
    row_trace t;
    t.step_s = step_s;
    t.columns = {std::vector<float>(samples, 1.0f)};
    return step_ns_of(t);
  };
  for (const double s : {1e-12, 4e-10, 86'401.0, 1e12, 1e300, 0.0, -1.0}) {
    CAPTURE(s);
    const auto refused = step(s, 3);
    REQUIRE(!refused);
    CHECK(refused.error().is(bad_trace));
  }
  CHECK(*step(2, 3) == 2'000'000'000);
  CHECK(*step(1e-9, 3) == 1);
  CHECK(*step(86'400, 3) == 86'400'000'000'000);
  CHECK(step(86'400, 26'000));
  CHECK(!step(86'400, 27'000));  // 2^61 ns
}
