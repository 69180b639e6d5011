// Fuzzes the lines of what parts of steps took: whatever is read with a right sum can be written
// and read again, all of it finite and above 0 (PTM-1); with another sum nothing is read.
#include "io/perf/part_times.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include <fmt/format.h>

#include "io/file.hpp"
#include "tests/fuzz/must.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  namespace perf = io::perf;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto sum = io::crc32c(std::as_bytes(std::span(text.data(), text.size())));
  must(!perf::parse_part_time(fmt::format("{} {:08x}", text, sum ^ 1)), "a wrong sum is seen");
  const auto time = perf::parse_part_time(fmt::format("{} {:08x}", text, sum));
  if (!time) return 0;
  const auto is_sane = [](double x) { return std::isfinite(x) && x > 0; };
  must(is_sane(time->seconds) && time->samples > 0 &&
           std::all_of(time->features.begin(), time->features.end(), is_sane),
       "its numbers are numbers");
  must(perf::is_print_text(time->machine.kind) && perf::is_print_text(time->machine.gpu_ids) &&
           (time->machine.is_known() || time->machine.gpu_ids.empty()),
       "its machine is one that could be written");
  const auto line = perf::part_time_line(*time);
  const auto again = perf::parse_part_time(line);
  must(line.size() > perf::max_part_time_bytes || (again && *again == *time), "it reads back");
  return 0;
}
