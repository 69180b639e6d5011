// A machine without a job that a pacer holds to what the budget above grants (`troupe power
// agent`): its work is others', as a rack's of inference servers. So there is no run that takes a
// pace at a step's begin. The pacer itself reads what the machine draws and sets the pace, by a
// clock or a limit (gpu/controls), at once.
//
// Why the same actor: lease, report, judgement and journal are those of a job. A step is a look
// here (JPP-9): the machine works on whatever is decided.
//
// Messages: ReadMeters to the meter.
//
// Invariants
//   MHD-1  Nothing is set before the machine has said what it draws, nor before watts are granted,
//     for `start_looks` at most. After that it is held to its static share, which the budget counts
//     of it without a lease (JLP-6), as soon as that is known: by the budget's first answer, or by
//     who starts it; then, where nobody has held it before, at once. Until watts are granted it has
//     the pace that an agent before has left it, or less (PWR-5). Where nothing says what it draws
//     it stays as it was found, and a person is told so.
//   MHD-2  Where no work should be done the least pace is set, for others' work cannot be held; and
//     that is acknowledged as no cap. So it is with a pace that is not set: a dry run and a device
//     that somebody else governs acknowledge no lesser cap, and what is drawn above it counts.
//   MHD-3  What fails to be set is said once, until it is set or fails in another way, and is tried
//     with each look.
//   MHD-5  The brake is armed while all of the machine has the pace that was set last, read back:
//     the least one would be, too, with the answer that pulls it. Its work goes on at the least
//     pace. What a part does not take, or nothing is there to take, arms none; nor a dry run.
//   MHD-4  Where a part of the machine took the pace, what is drawn is judged as drawn at it: the
//     next pace makes up for the part that did not, until the whole keeps the cap or that part has
//     the least.
//   MHD-6  Who is to hold it no more tells the budget before that: all that it can draw is in force
//     from then on. The budget has counted it so once it answers such a report.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "actors/base/traced.hpp"
#include "actors/train/work_pace_policy.hpp"
#include "io/base/result.hpp"
#include "messages/actors.hpp"

namespace troupe::power {

/// Such a machine.
struct held_machine {
  std::string node;   ///< as its readings are told
  meter_actor meter;  ///< that reads it
  /// Blocks while the kernel or a driver works: spawn the pacer detached. Success: it was read
  /// back by all of it; else it says whether a part took it. Empty: nothing is set (a dry run).
  std::function<status(train::work_pace, bool& is_any_set)> set = {};
  std::function<void(std::string)> say = {};  ///< to a person, a sentence
  train::work_pace found = {};  ///< in force as it begins, by one that has held it before
  std::optional<int64_t> share_mw = {};  ///< its static share, where it is known already
  /// Asked with each look, whether it is to be let go, and told once that is counted (MHD-6); from
  /// the pacer's thread. Empty: it never is.
  std::function<bool()> is_to_go = {};
  std::function<void()> counted = {};
};

/// How many looks a machine goes on as it was found, while it is counted as before (BGT-7) and the
/// budget is about to grant.
inline constexpr uint64_t start_looks = 10;

/// What is known of it.
struct machine_hold {
  explicit machine_hold(held_machine m) : of(std::move(m)), in_force(of.found), judged(of.found) {}

  held_machine of;
  train::work_pace in_force;  ///< the most that it may have
  train::work_pace judged;    ///< MHD-4: by which what it draws is judged
  bool is_all_set = false;    ///< MHD-5
  uint64_t looks = 0;
  bool has_begun = false;       ///< MHD-1
  bool is_granted = false;      ///< MHD-1: it was, and may be made faster than it was found
  bool is_unread_said = false;  ///< MHD-1
  std::string problem = {};  ///< MHD-3
  bool goes = false;         ///< MHD-6
  bool goes_told = false;    ///< by the report that was sent last
};

struct pacer_state;
using pacer_pointer = traced_pointer<pacer_actor, pacer_state>;

/// Another look: what is drawn is asked for, and what was by now is judged.
void look_at_machine(pacer_pointer self);
/// What was decided last is in force from now on, as far as it can be.
void hold_machine(pacer_pointer self, const fbs::JobPowerT& decided);

}  // namespace troupe::power
