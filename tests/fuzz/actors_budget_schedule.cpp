// Any bytes as a table that a power budget follows: refused with a line, or watts that can be
// granted at every time.
#include <cstdint>
#include <limits>
#include <string_view>

#include "actors/power/budget_schedule.hpp"
#include "actors/power/row_trace.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t least_mw = 60'000;
  const auto table = io::parse_number_table({reinterpret_cast<const char*>(data), size});
  if (!table) return 0;
  const auto schedule = power::budget_schedule::of(*table, {"demand.csv", 1.7e9, least_mw});
  if (!schedule) {
    must(schedule.error().is(power::bad_schedule) || schedule.error().is(power::not_watts),
         "BSC-1: what is refused is named");
    return 0;
  }
  must(schedule->rows() == table->rows(), "each row holds");
  must(schedule->least_mw() >= least_mw, "BSC-1: no row is below the least");
  must(schedule->least_mw() <= schedule->greatest_mw(), "the greatest is no less");
  for (const int64_t at : {std::numeric_limits<int64_t>::min(), int64_t{0}, int64_t{5'000'000'000},
                           std::numeric_limits<int64_t>::max()}) {
    const auto mw = schedule->at_mw(at);
    must(!mw || (*mw >= schedule->least_mw() && *mw <= schedule->greatest_mw()),
         "BSC-1: what holds is of a row");
  }
  must(schedule->at_mw(std::numeric_limits<int64_t>::max()).has_value(), "the last row holds");
  return 0;
}
