// Factors of times.
#include "actors/sim/pace_model.hpp"

#include <algorithm>
#include <iterator>

#include "actors/sim/rng.hpp"

namespace troupe::sim {

slowdown slowdown_of(const fault& f, int node, train::pipeline_op section, int64_t now_ns) {
  constexpr double least = 1.3, more = 1.7;  // noise reaches less (blame_policy.hpp)
  rng random(mix(f.random ^ 0x70616365));
  slowdown out{f.kind, node, train::pipeline_op::count, 1, now_ns, now_ns + f.lasts_ns, f.random};
  out.times = f.kind == fault_kind::spikes ? spike_times : least + more * random.unit();
  if (f.kind == fault_kind::slow_all) out.node = 0;
  if (f.kind == fault_kind::slow_section)
    out.section = section != train::pipeline_op::count
                      ? section
                      : slow_sections[random.below(std::size(slow_sections))];
  return out;
}

double times_of(const slowdown& s, int node, uint64_t step, int64_t now_ns) {
  if (s.kind == fault_kind::spikes) {
    const auto word = mix(s.random ^ mix(static_cast<uint64_t>(node)) ^ mix(step + 1));
    return word % steps_a_spike == 0 ? s.times : 1;
  }
  if (s.kind != fault_kind::decay) return s.times;
  const auto lasts_ns = std::max<int64_t>(1, s.until_ns - s.from_ns);
  return 1 +
         (s.times - 1) * static_cast<double>(now_ns - s.from_ns) / static_cast<double>(lasts_ns);
}

double pace_model::times(int node, train::pipeline_op section, uint64_t step,
                         int64_t now_ns) const {
  double out = 1;
  for (const auto& s : all_) {
    const bool is_whole = s.section == train::pipeline_op::count;
    if (now_ns < s.from_ns || now_ns >= s.until_ns) continue;
    if ((s.node != 0 && s.node != node) || (!is_whole && s.section != section)) continue;
    out *= times_of(s, node, step, now_ns);
  }
  return out;
}

}  // namespace troupe::sim
