// POWER.toml: a power budget and the jobs, or budgets below it, that share it (`troupe power
// serve`).
//
//   name = "row0"
//   budget_w = 70
//   parent = "auto:feed0"  # the budget that it is a child of, under its own name; default: none
//
//   [[child]]
//   name = "gpt-a"       # the job's name
//   priority = "high"
//   floor_w = 20         # below it nothing useful is done
//   static_w = 40        # what it has when nobody is heard
//   ceiling_w = 60       # what it can draw
//   others_work = true   # may draw that before it is heard: others work on its machine, uncapped
//   phase = true         # its steps may be shifted against those of others that say so
//
// Invariants
//   PTR-1  What was read keeps 0 <= paused <= floor <= static share <= ceiling for each child, idle
//     <= ceiling, and static shares fit into the budget together, in the milliwatts of messages.
//   PTR-2  Names are unique, and such as a key can be made for (io/tls/keyring.hpp).
//   PTR-3  All problems are found in one go, each with its place; nothing but the file is read,
//     not what it names.
//   PTR-4  A lease is no shorter than three times what may lie between two reports of a job, which
//     renew it: a lost message does not end it.
//   PTR-5  No budget is its own parent, by its name or by where it listens.
//   PTR-7  Beyond loopback a budget listens with certificates alone. With them each child is proved
//     by one of a name that no other child has.
//   PTR-6  What only thresholds have is said of thresholds alone, and these have the brake.
//   PTR-8  No rung is taken before the one before it can have been seen to bind: a report, a tick
//     and a step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::config {

/// How a budget is divided.
enum class power_mode : uint8_t { shares, thresholds };
/// Who pulls the brake in shares: the budget as well, or persons alone.
enum class power_brake : uint8_t { automatic, manual };
/// Which classes are slowed above which thresholds.
enum class power_rule : uint8_t { polca, ladder };
/// Whose watts are cut last.
enum class power_priority : uint8_t { low, high };

/// One [[child]].
struct power_child {
  std::string name;
  power_priority priority = power_priority::low;
  double floor_w = 0, static_w = 0, ceiling_w = 0, paused_w = 0;
  /// The name (CN) of the certificate that proves it; as read that of the child where the budget
  /// has certificates, empty where it has none.
  std::string certificate = {};
  /// Others' work may run there, uncapped, before it is heard of: it counts at its ceiling then.
  bool others_work = false;
  double idle_w = 0;  ///< drawn whatever its clocks or its pace are
  bool phase = false;  ///< its steps may be shifted against those of others that say so
  bool operator==(const power_child&) const = default;
};

/// A budget, checked and settled.
struct power_tree {
  std::string name;
  double budget_w = 0;
  power_mode mode = power_mode::shares;
  power_brake brake = power_brake::automatic;
  power_rule policy = power_rule::polca;  ///< of thresholds, as the next three
  double t1 = -1, t2 = -1, t3 = -1;       ///< shares of the budget; -1: the policy's usual ones
  double hysteresis = 0.05;               ///< of thresholds: caps are undone so far below them
  /// Of thresholds, from a command to the next rung, and until it may be undone; as written -1, as
  /// read the policy's usual ones.
  int64_t settle_ms = -1, undo_ms = -1;
  int64_t brake_hold_ms = 30'000;   ///< that it has pulled, at least
  int64_t release_gap_ms = 10'000;  ///< from one group that is let go to the next
  int64_t unruly_ticks = 3;         ///< reports in a row above its cap that make a child unruly
  std::string listen = "127.0.0.1";
  int64_t port = 0;  ///< 0: a free one
  std::string parent;      ///< the budget above (budget_place.hpp); empty: none
  std::string parent_key;  ///< a file: proves it to that one, where that is given by HOST:PORT
  int64_t tick_ms = 1000;
  int64_t lease_ttl_ms = 10'000;
  /// Less is no difference; as written -1, as read 1 % of the least floor or static share.
  double noise_w = -1;
  std::string output;  ///< a folder; as written empty, as read "power/NAME"
  std::string follow;  ///< a table of watts by time that the budget follows; empty: none
  std::string textfile;  ///< a file that says who has which watts, for Prometheus; empty: none
  tls_section tls;       ///< "{node}" stands for the budget's name
  std::vector<power_child> child;
  bool operator==(const power_tree&) const = default;
};

/// No budget has more children.
inline constexpr size_t most_power_children = 4096;

/// A job reports so long after the report before, or once that is answered, with the next tick; and
/// looks so often whether it is to. actors/power/parent_link.cpp compares both with what jobs do.
inline constexpr int64_t job_report_ms = 1000, job_look_ms = 500;

/// The most that may lie between two reports of a job.
constexpr int64_t report_gap_ms(int64_t tick_ms) {
  return std::max(tick_ms, job_report_ms) + job_look_ms;
}

/// PTR-4
constexpr int64_t least_lease_ms(int64_t tick_ms) {
  return 3 * report_gap_ms(tick_ms);
}

/// What a step may take until a cap binds, before that has been measured.
inline constexpr int64_t assumed_step_ms = 2000;

/// From a decision until a cap of it binds: a job reports, hears its cap with the tick after that,
/// and takes it with its next step.
constexpr int64_t actuation_ms(int64_t tick_ms) {
  return report_gap_ms(tick_ms) + tick_ms + assumed_step_ms;
}

/// As messages have it.
inline int64_t milliwatts(double watts) {
  return std::llround(watts * 1000);
}

/// A budget from TOML text; `name` stands for the file in messages. Errors: bad_config, a line for
/// each problem.
result<power_tree> parse_power_tree(std::string_view toml, const std::string& name);

/// The same of a file of at most 1 MiB. Errors: not_found, io as well.
result<power_tree> load_power_tree(const std::string& file);

}  // namespace troupe::config
