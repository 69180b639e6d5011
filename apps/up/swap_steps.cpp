// Sums of a step's parts.
#include "apps/up/swap_steps.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::apps {

namespace {

constexpr uint64_t tera = 1'000'000'000'000;  // as drives are sold

}  // namespace

std::optional<report::swap_traffic> moved_in(std::span<const train::step_part> parts) {
  using train::pipeline_op;
  std::optional<report::swap_traffic> out;
  for (const auto& p : parts) {
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
  return out;
}

std::optional<report::swap_traffic> swap_of(std::span<const train::step_part> parts,
                                            const config::job& job) {
  auto out = moved_in(parts);
  double forward_tokens = 0;
  for (const auto& p : parts)
    if (p.kind == train::pipeline_op::forward) forward_tokens += static_cast<double>(p.work);
  const auto tokens = static_cast<double>(job.tokens_per_step() * job.parallel.pipeline);
  if (out) out->passes = static_cast<int>(std::lround(forward_tokens / tokens));
  return out;
}

double bytes_per_s(uint64_t bytes, double busy_ms) {
  return busy_ms > 0 ? static_cast<double>(bytes) / busy_ms * 1e3 : 0;
}

fbs::SwapStepT status_of(const report::step_report& r, uint64_t job_written_bytes,
                         int64_t rated_tbw) {
  fbs::SwapStepT out;
  out.job_written_bytes = job_written_bytes;
  out.rated_bytes = static_cast<uint64_t>(std::max<int64_t>(0, rated_tbw)) * tera;
  out.step = static_cast<uint64_t>(r.step);
  out.step_ms = r.step_ms;
  if (!r.swap) return out;
  const auto& moved = *r.swap;
  out.read_bytes = moved.read_bytes;
  out.written_bytes = moved.written_bytes;
  out.read_bytes_per_s = bytes_per_s(moved.read_bytes, moved.read_ms);
  out.written_bytes_per_s = bytes_per_s(moved.written_bytes, moved.write_ms);
  out.swap_wait_ms = moved.wait_ms;
  out.limit_kept_ms = moved.limit_kept_ms;
  if (moved.limit_ms <= 0) return out;
  out.limit_ms = moved.limit_ms;
  out.of_limit_percent = r.step_ms > 0 ? 100 * moved.limit_ms / r.step_ms : 0;
  out.bound_by = moved.bound_by;
  return out;
}

bool tells_of_drive(const report::step_report& r) {
  return r.swap && r.pace_percent >= 100 && r.power_wait_ms <= 0;
}

}  // namespace troupe::apps
