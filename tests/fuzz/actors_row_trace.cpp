// Any bytes as a trace of watts: refused with a line, or a grid that a plan can be made of.
#include "actors/power/row_trace.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto table = io::parse_number_table({reinterpret_cast<const char*>(data), size});
  if (!table) return 0;
  const auto rows = table->rows();
  const auto trace = power::row_trace_of(std::move(*table));
  if (!trace) {
    must(trace.error().is(power::bad_trace) || trace.error().is(power::not_watts), "RTR-1");
    return 0;
  }
  must(trace->step_s > 0, "RTR-2: samples follow each other");
  must(trace->samples() <= 2 * rows, "RTR-2: the grid is bounded by what was read");
  must(trace->filled * 5 < trace->samples(), "RTR-2: less than a fifth is filled");
  for (const auto& column : trace->columns) {
    must(column.size() == trace->samples(), "RTR-2: columns of one length");
    for (const float w : column) must(w >= 0, "RTR-2: no watts below 0");
  }
  return 0;
}
