// What a check's value says: by what is wanted, and by how busy the machine was. Pure: no clock, no
// file, no actor.
//
// Invariants
//   CKP-1  Wrong bits are bad however busy the machine was; nothing that only was slow is bad on a
//     machine that had other work, or where the thread that measured did not get a processor.
//   CKP-2  What this machine reached before counts before what equal machines reach, and that
//     before a floor.
//   CKP-3  Equal machines judge each other only where there are three that were not busy: of two
//     that differ nobody knows which is ill. Their disks do not: nothing tells equal ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// One check of the list, in its order.
struct check_entry {
  std::string_view name;
  std::string_view unit;
  bool bits;        ///< it is about wrong bits, not about speed
  bool at_least;    ///< so much is wanted at least
  double floor;     ///< what every machine reaches; below 0: nothing is wanted in particular
  double of_kept;   ///< the part of what this machine reached before that is wanted; 0: none
  int64_t budget_ms;       ///< it begins nothing new after that
  int64_t deep_budget_ms;  ///< of a deep one
};
std::span<const check_entry> checks_in_order();

/// The entry of this name, which is one.
const check_entry& entry_of(std::string_view name);

/// A result with what its entry says; nothing is seen yet.
fbs::CheckResultT check_of(std::string_view name, std::string_view part = {});

/// Whether it is about a disk, which may be busy while the processors are not.
bool is_of_disk(std::string_view check);

/// How much of a machine others had.
struct load {
  double others_percent = 0;  ///< of all processor time, by other work
  double own_percent = 100;   ///< of the wall's time, by the thread that measured
};
bool was_busy(const load& l);

/// Sets what is wanted and the verdict (CKP-1, CKP-2); `kept`: the best of this machine so far.
void judge(fbs::CheckResultT& c, std::optional<double> kept, bool busy);

/// Judges again what was judged by a floor, by what equal machines reached (CKP-3).
void judge_among_equals(std::vector<fbs::CheckupReportT>& all);

/// "bad" where a check is, else "ok" where one is, else "unknown".
fbs::CheckVerdict verdict_of(const fbs::CheckupReportT& r);

}  // namespace troupe::health
