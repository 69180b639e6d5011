// Any bytes as a mix of faults: refused with a line or read, never a crash; what was read survives
// its own text, and can be drawn from.
#include "actors/sim/days/fault_schedule.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto mix = sim::parse_mix({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!mix) {
    must(mix.error().is(sim::bad_mix), "MIX-1");
    return 0;
  }
  must(!mix->causes.empty() && mix->causes.size() <= sim::fault_mix::most_causes, "MIX-2");
  const auto again = sim::parse_mix(mix->text(), "again");
  must(again && again->causes == mix->causes, "MIX-2: it survives its own text");
  constexpr int64_t hour_ns = 3'600'000'000'000;
  (void)sim::draw_schedule(mix->at_rate(100), 8, hour_ns, 1);
  return 0;
}
