// The clocks of a simulated device, as rows of a profile.
#include "actors/sim/device_clocks.hpp"

namespace troupe::sim {

std::vector<int> device_clocks::ladder() const {
  std::vector<int> out;
  for (int mhz = highest_mhz; mhz >= lowest_mhz; mhz -= apart_mhz) out.push_back(mhz);
  return out;
}

std::vector<power::clock_row> device_clocks::rows(double time_s, double watts) const {
  std::vector<power::clock_row> out;
  for (const int mhz : ladder()) {
    const double at_clock_s = time_s * times_of(mhz);
    out.push_back({mhz, at_clock_s, at_clock_s * watts_of(mhz, watts)});
  }
  return out;
}

}  // namespace troupe::sim
