// The trace of a served budget: its lines, and what is read of them.
#include "actors/power/budget_trace.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/row_trace.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

budget_trace_row trace_row_at(double t_s, double watts) {
  budget_trace_row out;
  out.t_s = t_s;
  out.watts = watts;
  out.budget_w = 70;
  out.counted_w = 68.2;
  out.t1 = 0.8;
  out.t2 = 0.89;
  out.low = 0.79;
  out.brake = trace_brake::pulled;
  out.brakes = 2;
  out.modelled = true;
  return out;
}

std::string with_heading(const std::string& lines) {
  return std::string(budget_trace_heading) + "\n" + lines;
}

result<std::vector<budget_trace_row>> rows_of_lines(const std::string& lines) {
  const auto table = io::parse_number_table(with_heading(lines));
  REQUIRE(table);
  return budget_trace_of(*table);
}

}  // namespace

TEST_CASE("BTC-1: a line is as short as its numbers, and none is earlier than the one before") {
  budget_trace_lines lines;
  CHECK(*lines.line_of(trace_row_at(1'795'996'982.1, 61.3)) ==
        "1795996982.100,61.3,70,68.2,0.8,0.89,0,0.79,1,2,2,1");
  CHECK(!lines.line_of(trace_row_at(1'795'996'982.1, 61.3)));
  CHECK(!lines.line_of(trace_row_at(1'795'996'000, 61.3)));
  CHECK(lines.line_of(trace_row_at(1'795'996'982.2, 61.3)));
}

TEST_CASE("BTC-2: what is written is read, and what no budget writes is refused with its line") {
  budget_trace_lines lines;
  std::string text;
  for (int i = 0; i < 5; ++i) text += *lines.line_of(trace_row_at(1000 + i, 60 + i)) + "\n";
  const auto rows = rows_of_lines(text);
  REQUIRE(rows);
  REQUIRE(rows->size() == 5);
  const auto& r = rows->back();
  CHECK(r.t_s == 1004);
  CHECK(r.watts == 64);
  CHECK(r.counted_w == doctest::Approx(68.2));
  CHECK(r.t2 == doctest::Approx(0.89));
  CHECK(r.low == doctest::Approx(0.79));
  CHECK(r.brake == trace_brake::pulled);
  CHECK(r.brakes == 2);
  CHECK(r.modelled);
  for (const auto* wrong :
       {"1,-1,70,70,0,0,0,1,1,0,0,0", "1,1,0,70,0,0,0,1,1,0,0,0", "1,1,70,70,1.1,0,0,1,1,0,0,0",
        "1,1,70,70,0,0,0,2,1,0,0,0", "1,1,70,70,0,0,0,1,1,3,0,0", "2000,1,70,70,0,0,0,1,1,0,0,0"}) {
    CAPTURE(wrong);
    const auto none = rows_of_lines(std::string(wrong) + "\n" + text);
    REQUIRE(!none);
    CHECK(none.error().is(bad_trace));
  }
  CHECK(!rows_of_lines("1,1,70,70,0,0,0,1,1,0,0,0\n"));
  const auto other = io::parse_number_table("t_s,watts\n0,1\n1,1\n");
  REQUIRE(other);
  CHECK(!budget_trace_of(*other));
}

TEST_CASE("BTC-2: as a trace of watts it is one of the whole row") {
  budget_trace_lines lines;
  std::string text;
  for (int i = 0; i < 5; ++i) text += *lines.line_of(trace_row_at(1000 + 2 * i, 60 + i)) + "\n";
  auto table = io::parse_number_table(with_heading(text));
  REQUIRE(table);
  const auto row = row_trace_of(std::move(*table));
  REQUIRE(row);
  CHECK(!row->by_server);
  CHECK(row->step_s == 2);
  REQUIRE(row->samples() == 5);
  CHECK(row->row_w(4) == 64);
}
