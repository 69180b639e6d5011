// Any bytes as what a budget was given: refused with a line, or decided again to its end.
#include "actors/power/budget_inputs.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  power::budget_replayer replayer;
  const auto same = replayer.take(text);
  static_cast<void>(power::is_budget_inputs(text));
  if (!same) {
    must(same.error().is(power::bad_budget_inputs), "BIN-2");
    return 0;
  }
  const auto& found = replayer.found();
  must(found.ticks + found.lives + found.passed_over <= size, "BIN-2: a tick has a line");
  must(*same == !found.first_difference, "BIN-1: what differs is told");
  if (const auto& d = found.first_difference)
    must(d->expected != d->found, "BIN-1: what differs is written differently");
  return 0;
}
