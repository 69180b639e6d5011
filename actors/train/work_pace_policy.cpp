// Caps to paces, paces to gates.
#include "actors/train/work_pace_policy.hpp"

#include <algorithm>

namespace troupe::train {

namespace {

int64_t of_pace(int64_t x, work_pace pace) {
  return x * pace.of_1024 / work_pace::whole;
}

}  // namespace

std::optional<int64_t> work_pace_policy::uncapped_mw(int64_t idle_mw, int64_t drawn_mw,
                                                     work_pace pace) {
  if (drawn_mw <= idle_mw || pace < least_pace) return {};
  return idle_mw + (drawn_mw - idle_mw) * work_pace::whole / pace.of_1024;  // WPC-1
}

std::optional<work_pace> work_pace_policy::pace_of(std::span<const machine_draw> machines) {
  work_pace out;
  for (const auto& m : machines) {
    const int64_t work_mw = m.work_mw - m.idle_mw;
    const int64_t room_mw = m.cap_mw - m.idle_mw;
    if (work_mw <= 0 && room_mw >= 0) continue;
    const int64_t pace = work_mw <= 0 ? -1 : room_mw * work_pace::whole / work_mw;
    out.of_1024 = static_cast<int>(std::min<int64_t>(out.of_1024, pace));  // PWR-4
  }
  if (out < least_pace) return {};
  return out;
}

int64_t work_pace_policy::drawn_mw(const machine_draw& m, work_pace pace) {
  return m.idle_mw + of_pace(std::max<int64_t>(0, m.work_mw - m.idle_mw), pace);
}

int64_t work_pace_policy::gate_ns(int64_t began_ns, int64_t ended_ns, work_pace pace) {
  const int64_t ran_ns = std::max<int64_t>(0, ended_ns - began_ns);
  return began_ns + ran_ns * work_pace::whole / std::max(pace, least_pace).of_1024;  // WPC-2
}

}  // namespace troupe::train
