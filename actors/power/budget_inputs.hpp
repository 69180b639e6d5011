// What a budget's policy was given, and what it decided by that: kept so that it can be decided
// again, on another day, by another version.
//
// A JSON object a line, in a file of its own, for it is a line a tick: first the terms of a life
// (rules, children, epoch), then for each tick the reports that came before it, what the budget
// had, what was seen, and what was decided. A report that differs from the one before of its child
// by what is drawn alone is written as that, and how long a child's caps take once it tells another
// time, before the report that does. Whoever writes the lines adds the time of day.
//
//   {"power":"budget","version":1,"budget":"row0","epoch":3,"now_ns":..,"brake":0,"rules":[..],
//    "children":[[..],..]}
//   {"t":2000000000,"e":[[0,..],..],"own":[..],"seen":[..],"d":{"g":[[0,7,44000,..],..]}}
//
// A policy has a state from its first tick on, so a life is decided again from its terms: lines
// without them before are passed over, and counted.
//
// Pure: no clock, no disk, no actor.
//
// Invariants
//   BIN-1  What is read back is what the policy was given, bit by bit; a report is heard again
//     whether or not it was taken.
//   BIN-2  What is no such line is refused with its number, and reaches no policy; a line has at
//     most `most_line_bytes`.
//   BIN-3  A line that is missing in a life is seen by its number: what is behind it is not decided
//     again, and that is refused, not taken for a difference.
//   BIN-4  A tick's line is bounded: where more is reported in a tick than several reports of each
//     child, that is written instead, and no more of that life.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "actors/power/budget_policy.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::power {

inline constexpr error_kind<size_t, std::string> bad_budget_inputs{
    "bad_budget_inputs", errc::bad_data, "line {}: {}",
    "what a budget was given is in power.inputs of its folder, written by troupe power serve"};

/// With which a budget's life begins.
struct budget_terms {
  std::string budget;
  uint64_t epoch = 1;
  int64_t now_ns = 0;
  row_brake brake = row_brake::off;  ///< of the life before
  budget_rules rules;
  std::vector<budget_child> children;
};

/// Writes what is given, in the order in which the policy is.
class budget_inputs {
 public:
  using sink = std::function<void(const std::string&)>;

  budget_inputs();
  ~budget_inputs();
  budget_inputs(budget_inputs&&) noexcept;
  budget_inputs& operator=(budget_inputs&&) noexcept;
  /// `to`: takes a line without its end; empty: nothing is kept, and nothing is made.
  budget_inputs(sink to, const budget_terms& terms);

  void heard(size_t child, const power_report& r, int64_t now_ns);
  void let_go();
  void ticked(const own_cap& own, const budget_sample& seen, int64_t now_ns,
              const budget_decision& decided);

 private:
  struct writer;
  bool has_room();

  std::unique_ptr<writer> writer_;  ///< none: nothing is kept
};

/// Where a policy decides otherwise than is written.
struct budget_difference {
  size_t line = 0;
  std::string expected, found;  ///< JSON: what is decided now, and what is written
};

struct budget_replay {
  std::string budget;      ///< of the last life
  size_t lives = 0;        ///< that were decided again
  size_t ticks = 0;        ///< the same
  size_t grants = 0;       ///< in them
  size_t passed_over = 0;  ///< lines of a life whose terms are not there
  std::optional<budget_difference> first_difference;
};

/// Decides again, line by line, until one differs.
class budget_replayer {
 public:
  /// As many children as there may be, each with a report or two in a tick.
  static constexpr size_t most_line_bytes = size_t{4} << 20;

  budget_replayer();
  ~budget_replayer();
  budget_replayer(const budget_replayer&) = delete;
  budget_replayer& operator=(const budget_replayer&) = delete;

  /// The lines of a file, the oldest file first. Whether to go on: not once something differs.
  /// Errors: bad_budget_inputs, with the line of that text.
  result<bool> take(std::string_view text);
  const budget_replay& found() const { return found_; }

 private:
  struct life;
  result<bool> take_line(const nlohmann::json& line, size_t number);

  std::unique_ptr<life> life_;
  budget_replay found_;
};

/// Whether a text begins as such lines do: with terms, or a tick of a life.
bool is_budget_inputs(std::string_view text);

}  // namespace troupe::power
