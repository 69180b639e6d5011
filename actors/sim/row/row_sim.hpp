// A row of inference servers under one breaker, event by event: what POLCA was evaluated on.
//
// Two pools of servers, low and high priority, each with a queue that holds a request a server; the
// row's policy (actors/power/row_policy.hpp, the same object for a real row) sees the mean power of
// each tick and answers with clocks, which servers follow `actuation_s` later, and with the brake,
// which takes 5 s. A change of clock stretches what is left of a request. No actors: six weeks of a
// row are six million events, in a second or two.
//
// Invariants
//   RWS-1  The same options and seed give the same outcome, bit for bit.
//   RWS-2  Requests are the same whatever policy deals with them.
//   RWS-3  Every request that came is done, dropped, waiting or under way; energy is the sum of
//     what servers drew.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/power/row_journal.hpp"
#include "actors/power/row_policy.hpp"
#include "actors/sim/row/row_model.hpp"
#include "io/base/result.hpp"

namespace troupe::sim {

struct row_options {
  static constexpr int most_servers = 4096;
  static constexpr int most_weeks = 52;
  /// Servers times weeks: every request's latency is kept, some 7000 a server and week.
  static constexpr int64_t most_server_weeks = 16'384;
  /// Readings of a run: weeks by --telemetry-s.
  static constexpr int64_t most_ticks = 1 << 25;
  static constexpr int most_release_groups = 64;

  power::row_rule rule = power::row_rule::polca;
  power::row_thresholds thresholds;
  int servers = row_own_servers;
  double lp_share = 0.5;  ///< of the servers, those of low priority
  double budget_w = row_own_servers * row_server_w;
  double actuation_s = 40, telemetry_s = 2;
  double power_scale = 1;  ///< of busy GPUs
  int release_groups = 1;  ///< after a brake, of servers by chance; 1: all at once
  int weeks = 6;
  uint64_t seed = 1;
  std::vector<double> profile;  ///< by bins of 10 minutes; empty: daily_profile()

  power::row_rules rules() const;
  int lp_servers() const;
};

/// Errors: usage, with the option's name.
status check(const row_options& o);
/// Whether a simulation of checked options fits into memory. Errors: usage, with the options.
status check_run(const row_options& o);

/// Of requests of one class, from when they came to their last token.
struct row_class_outcome {
  double p50_s = 0, p99_s = 0;
  uint64_t done = 0, dropped = 0;
  uint64_t left = 0;        ///< waiting or under way at the end
  double capped_share = 0;  ///< of the time, with clocks commanded below the maximum
};

/// Powers are shares of the budget, means of a tick.
struct row_outcome {
  double max_power = 0, mean_power = 0;
  std::optional<double> max_5min;             ///< of means of 5 minutes; none: a tick is longer
  std::optional<double> spike_2s, spike_40s;  ///< rises within them; none: a tick is longer
  /// The largest rise within telemetry and actuation, of times without the brake: what T2 must
  /// leave free.
  double spike_answer = 0;
  uint64_t brakes = 0, ticks_over_1 = 0;
  std::array<row_class_outcome, row_classes> of;
  double mwh = 0;
};

/// What was seen at a tick.
struct row_tick {
  float power = 0;  ///< of the budget
  uint8_t level = 0;
  power::row_brake brake = power::row_brake::off;
};

using row_listener = std::function<void(const power::row_record& decision)>;

/// `seen`, if asked for, gets every tick, and `listener` every decision that changes something. The
/// options have been checked.
row_outcome simulate_row(const row_options& o, std::vector<row_tick>* seen = nullptr,
                         const row_listener& listener = {});

}  // namespace troupe::sim
