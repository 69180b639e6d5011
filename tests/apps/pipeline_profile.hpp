// The measured clocks of a small pipeline, as `power frontier` and `power slack` read them.
#pragma once

#include <string>

#include <fmt/format.h>

namespace troupe {

/// Three stages, the last one slower, of clocks from 1400 MHz down.
inline std::string pipeline_profile() {
  std::string out = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 3; ++stage)
    for (const auto* which : {"forward", "backward"})
      for (int mhz = 1400; mhz >= 800; mhz -= 50) {
        const double work_s = (which[0] == 'f' ? 0.05 : 0.1) * (stage == 2 ? 1.2 : 1);
        const double clock = mhz / 1400.0, time_s = work_s * (0.2 + 0.8 / clock);
        out += fmt::format("{},{},{},{},{}\n", stage, which, mhz, time_s,
                           time_s * (100 + 250 * clock * clock * clock));
      }
  return out;
}

}  // namespace troupe
