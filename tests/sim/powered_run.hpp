// A simulated cluster under a power budget, and what its messages showed of paces and watts.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/sim/simulation.hpp"
#include "messages/registry.hpp"

namespace troupe::sim::test {

/// A lease that a budget above granted: the child is told by its static share.
struct granted_lease {
  int64_t at_ns = 0;
  int64_t static_share_mw = 0;
  int64_t cap_mw = 0;
  bool shed = false, brake = false;
};

/// What a run under a budget showed.
struct powered_run {
  simulation_outcome outcome;
  std::map<uint64_t, std::set<uint32_t>> paces;    ///< by step, of all ranks
  std::map<uint64_t, double> losses;               ///< by step
  std::vector<std::pair<int64_t, double>> watts;   ///< of all machines, and when they were told
  std::vector<std::pair<int64_t, double>> shares;  ///< of its speed: of a step, and when it began
  std::vector<granted_lease> leases;
  std::vector<int64_t> saves_asked_ns;  ///< by anybody, and when
  double waited_ms = 0;
  double energy_j = -1;
};

template <class T>
const T* as(const any_msg& m) {
  return m.type() == message_traits<T>::id ? flatbuffers::GetRoot<T>(m.payload().data()) : nullptr;
}

/// Fails where something is violated.
inline powered_run run_powered(simulation_options o) {
  powered_run out;
  o.sees = [&](const any_msg& m, int64_t now_ns) {
    if (const auto* step = as<fbs::RunStep>(m)) {
      out.paces[step->step()].insert(step->pace_of_1024());
      out.shares.emplace_back(now_ns, step->pace_of_1024() / 1024.0);
    }
    if (const auto* told = as<fbs::JobPower>(m))
      if (told->power_w() >= 0) out.watts.emplace_back(now_ns, told->power_w());
    if (const auto* g = as<fbs::PowerGrant>(m); g != nullptr && g->lease_epoch() > 0)
      out.leases.push_back({now_ns, g->static_share_mw(), g->cap_mw(), g->shed(), g->brake()});
    if (as<fbs::CheckpointNow>(m) != nullptr) out.saves_asked_ns.push_back(now_ns);
    if (const auto* report = as<fbs::StepReport>(m)) {
      out.losses[report->step()] = report->loss();
      out.waited_ms += report->power_wait_ms();
      out.energy_j = report->energy_j();
    }
  };
  auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  out.outcome = std::move(*done);
  CHECK_MESSAGE(!out.outcome.violation, out.outcome.violation.value_or(""));
  return out;
}

/// Without a budget.
inline simulation_options four_nodes() {
  simulation_options o;
  o.nodes = 4;
  o.pipeline = 2;
  o.steps = 3000;
  o.checkpoint_every = 0;
  o.meter_ms = 1000;
  o.heartbeat_ms = 500;
  return o;
}

/// Of what was told in that time.
inline double mean(const std::vector<std::pair<int64_t, double>>& of, int64_t from_ns,
                   int64_t to_ns) {
  double sum = 0;
  int count = 0;
  for (const auto& [at_ns, x] : of)
    if (at_ns >= from_ns && at_ns < to_ns) sum += x, ++count;
  REQUIRE(count > 10);
  return sum / count;
}
inline double mean_w(const powered_run& r, int64_t from_ns) {
  return mean(r.watts, from_ns, std::numeric_limits<int64_t>::max());
}

}  // namespace troupe::sim::test
