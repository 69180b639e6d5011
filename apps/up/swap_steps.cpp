// Sums of a step's parts.
#include "apps/up/swap_steps.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::apps {

std::optional<report::swap_traffic> swap_of(std::span<const train::step_part> parts,
                                            const config::job& job) {
  using train::pipeline_op;
  std::optional<report::swap_traffic> out;
  double forward_tokens = 0;
  for (const auto& p : parts) {
    if (p.kind == pipeline_op::forward) forward_tokens += static_cast<double>(p.work);
    const bool reads = p.kind == pipeline_op::read_weights || p.kind == pipeline_op::read_state ||
                       p.kind == pipeline_op::read_activation;
    const bool writes =
        p.kind == pipeline_op::write_chunk || p.kind == pipeline_op::write_activation;
    if ((reads || writes) && !out) out.emplace();
    if (reads) out->read_bytes += p.work, out->read_ms = std::max(out->read_ms, p.busy_ms);
    if (writes) out->written_bytes += p.work, out->write_ms = std::max(out->write_ms, p.busy_ms);
    const bool waits =
        p.kind == pipeline_op::await_weights || p.kind == pipeline_op::await_activations;
    if (waits && out) out->wait_ms += p.waited_ms;
  }
  const auto tokens = static_cast<double>(job.tokens_per_step() * job.parallel.pipeline);
  if (out) out->passes = static_cast<int>(std::lround(forward_tokens / tokens));
  return out;
}

bool tells_of_drive(const report::step_report& r) {
  return r.swap && r.pace_percent >= 100 && r.power_wait_ms <= 0;
}

}  // namespace troupe::apps
