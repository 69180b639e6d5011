// Fuzzes the lines of what runs took: whatever is read with a right sum can be written, read again
// and estimated by; with another sum nothing is.
#include "io/perf/past_runs.hpp"

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
  must(!perf::parse_past_run(fmt::format("{} {:08x}", text, sum ^ 1)), "a wrong sum is seen");
  const auto run = perf::parse_past_run(fmt::format("{} {:08x}", text, sum));
  if (!run) return 0;
  const auto again = perf::parse_past_run(perf::past_run_line(*run));
  must(again && again->median_s == run->median_s && again->flops == run->flops &&
           again->shape == run->shape,
       "it reads back");
  const std::span runs(&*run, 1);
  const auto same = perf::estimate_step(runs, run->machine, run->work);
  must(same && same->least_s <= same->step_s && same->step_s <= same->most_s, "an interval");
  return 0;
}
