// Any bytes as a table of numbers: refused with a line, or read as what its invariants say.
#include <cmath>

#include "io/formats/number_table.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto table = io::parse_number_table({reinterpret_cast<const char*>(data), size});
  if (!table) {
    must(table.error().is(io::bad_number_table), "NTB-1");
    return 0;
  }
  must(table->others.size() + 1 == table->names.size(), "NTB-2: a column for each name");
  for (const double x : table->first) must(std::isfinite(x), "NTB-2: finite");
  for (const auto& column : table->others) {
    must(column.size() == table->rows(), "NTB-2: rows as long as the heading");
    for (const float x : column) must(std::isfinite(x), "NTB-2: finite");
  }
  return 0;
}
