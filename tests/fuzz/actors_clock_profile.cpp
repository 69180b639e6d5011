// Any bytes as a profile of clocks: refused with a line or read, never a crash; what was read
// survives its own text, and a small pipeline of it can be planned.
#include <cmath>

#include "actors/power/frontier_policy.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto profile = power::parse_profile({reinterpret_cast<const char*>(data), size});
  if (!profile) {
    must(profile.error().is(power::bad_profile), "PCL-1");
    return 0;
  }
  const auto again = power::parse_profile(profile->text());
  must(again && again->stages == profile->stages, "PCL-2: it survives its own text");
  must(again->of == profile->of, "PCL-3: and so does of what micro-batches it is");
  // A plan takes milliseconds, a profile none: of some inputs only.
  if (profile->stages.size() > 4 || size % 64 != 0) return 0;
  power::frontier_policy policy(*profile, 2, 1);
  while (policy.advance()) {
  }
  const auto found = policy.take();
  must(!found.own.empty(), "a frontier has a point");
  for (size_t i = 0; i < found.own.size(); ++i) {
    must(std::isfinite(found.own[i].cost.energy_j), "energies are numbers");
    must(i == 0 || found.own[i].cost.energy_j < found.own[i - 1].cost.energy_j, "FRO-1");
  }
  return 0;
}
