// Three short simulations, one for each way in which a fault is noticed.
#include "actors/sim/days/protocol_times.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/sim/days/recovery_watch.hpp"
#include "actors/sim/simulation.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t ms = 1'000'000;
constexpr int64_t first_try_ns = 4'000 * ms;

/// With the product's own heartbeats and limits, and steps of a second.
simulation_options options_of(int nodes, int workers, uint64_t seed) {
  const config::cluster_section product;
  simulation_options o;
  o.seed = seed;
  o.nodes = nodes;
  o.workers = workers;
  o.pipeline = nodes * workers % 8 == 0 ? 8 : 1;
  o.checkpoint_every = 1;
  o.heartbeat_ms = product.heartbeat_interval_ms;
  o.suspect_after_ms = product.suspect_after_ms;
  o.dead_after_ms = product.dead_after_ms;
  o.join_timeout_ms = product.join_timeout_ms;
  o.meter_ms = 0;
  o.times.forward_ns = 5 * ms;
  o.times.backward_ns = 10 * ms;
  o.times.update_ns = 1'000 * ms;
  o.times.build_ns = o.times.open_ns = o.times.fetch_ns = o.times.save_ns = 0;
  o.times.jitter = 0;
  o.recovers = true;
  o.launch_ns = 0;
  o.shuffle = false;
  o.burst = 64;
  o.check = false;
  o.mailbox_limit = 1 << 20;
  return o;
}

/// The first recovery from a fault that befalls a cluster while it trains.
result<recovery_times> recover_from(simulation_options o, fault_kind kind) {
  for (int64_t at_ns = first_try_ns; at_ns <= 64 * first_try_ns; at_ns *= 4) {
    o.steps = static_cast<int>(at_ns / (1'000 * ms)) + 3;
    o.faults = {{kind, at_ns, 0, 1}};
    recovery_watch watch(o.faults);
    o.sees = [&](const any_msg& m, int64_t now_ns) { watch.see(m, now_ns); };
    o.in = std::make_shared<runtime>();
    TROUPE_TRY(done, simulate(o));
    if (done.violation) return error{errc::bug, *done.violation};
    if (watch.first_step_ns() == 0 || watch.first_step_ns() >= at_ns) continue;
    if (watch.recoveries().empty() || watch.recoveries().front().stepped_ns == 0) break;
    return watch.recoveries().front();
  }
  return error{errc::bug, fmt::format("{} simulated nodes did not recover", o.nodes)};
}

}  // namespace

protocol_times protocol_times::scaled_to(int wanted) const {
  auto out = *this;
  const double more = std::max(1.0, static_cast<double>(wanted) / std::max(1, nodes));
  for (auto* t :
       {&out.notice_closed_ns, &out.quiet_ns, &out.members_ns, &out.connect_ns, &out.restore_ns})
    *t = static_cast<int64_t>(static_cast<double>(*t) * more);
  return out;
}

result<protocol_times> measure_protocol(int nodes, int workers, uint64_t seed) {
  const auto o = options_of(nodes, workers, seed);
  TROUPE_TRY(killed, recover_from(o, fault_kind::crash_node));
  TROUPE_TRY(silent, recover_from(o, fault_kind::lose_node));
  auto unsaved = o;
  unsaved.checkpoint_every = 0;  // a save that fails is no fault of the job
  TROUPE_TRY(failed, recover_from(unsaved, fault_kind::fail_device));
  protocol_times out;
  out.nodes = nodes;
  out.workers = workers;
  out.notice_closed_ns = killed.noticed_ns - killed.fault_ns;
  out.notice_silent_ns = silent.noticed_ns - silent.fault_ns;
  out.notice_error_ns = failed.noticed_ns - failed.fault_ns;
  out.quiet_ns = killed.quiet_ns - killed.noticed_ns;
  out.members_ns = killed.members_ns - killed.quiet_ns;
  out.connect_ns = killed.connected_ns - killed.members_ns;
  out.restore_ns = killed.restored_ns - killed.connected_ns;
  return out;
}

}  // namespace troupe::sim
