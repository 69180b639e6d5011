// From assumptions to nanoseconds, by size where the source tells sizes apart.
#include <algorithm>
#include <cmath>
#include <span>

#include "actors/base/defaults.hpp"
#include "actors/sim/days/assumptions.hpp"
#include "actors/sim/days/day_model.hpp"

namespace troupe::sim {

namespace {

struct size_point {
  double gpus, s;
};

/// Between two sizes by the logarithm; below the first and above the last as those.
double at_size(std::span<const size_point> points, double gpus) {
  if (gpus <= points.front().gpus) return points.front().s;
  for (size_t i = 1; i < points.size(); ++i) {
    const auto &a = points[i - 1], &b = points[i];
    if (gpus > b.gpus) continue;
    return a.s + (b.s - a.s) * std::log2(gpus / a.gpus) / std::log2(b.gpus / a.gpus);
  }
  return points.back().s;
}

}  // namespace

day_times times_of(const day_options& options, const protocol_times& protocol) {
  using namespace assumed;
  const size_point hot[] = {{2048, hot_update_2048_s.value},
                            {4096, hot_update_4096_s.value},
                            {8192, hot_update_8192_s.value},
                            {16384, hot_update_16384_s.value}};
  const size_point queue[] = {{2048, requeue_2048_s.value},
                              {4096, requeue_4096_s.value},
                              {8192, requeue_8192_s.value},
                              {16384, requeue_16384_s.value}};
  const size_point groups[] = {{2048, groups_2048_s.value}, {10'000, groups_10000_s.value}};
  const double gpus = static_cast<double>(options.nodes) * options.workers;
  const double state = parameters.value * (weight_bytes.value + optimizer_bytes.value);
  const double replicas = std::max(1.0, gpus / ranks_a_replica.value);
  const config::timeouts_section limits;
  const config::cluster_section cluster;
  day_times t;
  t.protocol = protocol.scaled_to(options.nodes);
  t.step_ns = ns_of(step_s.value);
  t.blocking_ns = ns_of(blocking_s.value);
  t.save_ns = ns_of(state / storage_rate.value);
  t.copy_ns = ns_of(state / options.nodes / nic_rate.value);
  t.process_start_ns = ns_of(at_size(hot, gpus));
  t.requeue_ns = ns_of(at_size(queue, gpus));
  t.reschedule_ns = ns_of(at_size(queue, gpus) * reschedule_share.value);
  t.groups_ns = ns_of(at_size(groups, gpus));
  // Each replica reads its own weights; the optimizer's state is read once.
  const double read = weight_bytes.value * replicas + optimizer_bytes.value;
  t.read_disk_ns = ns_of(parameters.value * read / storage_rate.value);
  t.read_copy_ns = t.copy_ns;
  t.person_ns = ns_of(person_s.value);
  t.group_limit_ns = std::chrono::nanoseconds(defaults::group_timeout).count();
  t.step_limit_ns = limits.operation_s * 1'000'000'000;
  const auto ms_of = [](auto time) { return std::chrono::nanoseconds(time).count(); };
  // A counter that has not moved shows with the next heartbeat, at the monitor's next look.
  t.stuck_ns = ns_of(static_cast<double>(options.health.stuck_after_s)) +
               cluster.heartbeat_interval_ms * 1'000'000 + ms_of(defaults::monitor_period);
  t.stuck_acts_ns = options.recovery.stuck_after_s * 1'000'000'000;
  t.head_ns = options.recovery.head_takeover_s * 1'000'000'000;
  t.rejoin_ns = ms_of(defaults::rejoin_patience);
  t.digest_ns = options.health.digest_every * t.step_ns;
  t.recheck_ns = options.health.recheck_every * t.step_ns *
                 static_cast<int64_t>(rechecks_to_wrong.value);
  t.wrong_bits_person_ns = ns_of(wrong_bits_person_s.value);
  // Windows are of three steps at least; two name a straggler, five let a spare take its place.
  const auto window_ns = std::max<int64_t>(options.health.window_s * 1'000'000'000, 3 * t.step_ns);
  t.slow_ns = 2 * window_ns;
  t.slow_out_ns = 5 * window_ns;
  t.warned_ns = ns_of(warned_person_s.value);
  t.repair_ns = ns_of(spare_returns_s.value);
  // Two rounds, of each of which a pair does not meet; then what is left of its last sum.
  t.link_tests_ns = 2 * ms_of(defaults::group_meeting + defaults::group_operation);
  return t;
}

}  // namespace troupe::sim
