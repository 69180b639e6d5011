// What the next head must know of a job beyond its newest checkpoint: what persons have said and
// that still holds, and the account of faults and time. Kept in the journal
// (actors/train/journal.hpp). Its times are the machine's steady clock's, which outlives processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/health/recovery_policy.hpp"
#include "actors/health/time_ledger_policy.hpp"
#include "actors/job/train_state.hpp"
#include "io/checkpoint/memory_copies.hpp"
#include "messages/schemas/train_generated.h"

namespace troupe::train {

/// Faults and time, up to a moment.
struct job_account {
  uint32_t epoch = 0;  ///< 0: nothing is known
  uint64_t incidents = 0;
  health::recoveries_made recoveries = {};
  health::time_entries time = {};  ///< as if the job went back to its newest checkpoint then
  int64_t at_ns = 0;
  uint64_t steps_repeated = 0;
  bool operator==(const job_account&) const = default;
};

/// Which copies in memory are of the way that the job goes: those of others are not gone back to.
struct believed_copies {
  uint64_t epoch = 0;  ///< taken in it; 0: none
  /// That it went back to in this epoch; none: it went back to the disk, or nowhere.
  std::optional<io::checkpoint::copy_tag> from = {};
  bool operator==(const believed_copies&) const = default;
};

/// How the head was lost that another one goes on for, as its launcher saw it.
struct lost_head {
  std::string how;          ///< a sentence without its subject
  uint64_t after_step = 0;  ///< the last that it told of
  uint64_t furthest_step = 0;  ///< the greatest that any head of the launch told of
  int64_t at_ns = 0;
  bool operator==(const lost_head&) const = default;
};

/// That the job is to go back to an earlier state.
struct rewind_order {
  uint64_t at_most = 0;     ///< the newest step whose state it may be
  uint64_t skip_steps = 0;  ///< so many steps' worth of data is passed over from there on
  std::string reason = {};
  bool operator==(const rewind_order&) const = default;
};

struct job_memory {
  bool paused = false;
  std::string pause_reason = {};
  /// Settings in the order of their steps: those that a checkpoint has, too, for the next head may
  /// have to begin with an older one.
  std::vector<checkpoint::setting_change> settings = {};
  job_account account = {};
  believed_copies copies = {};
  std::vector<checkpoint::skipped_tokens> skipped = {};  ///< in order
  std::optional<rewind_order> rewind = {};               ///< it is not done yet
  std::optional<lost_head> lost = {};  ///< only in what the next head begins with
  bool operator==(const job_memory&) const = default;
};

/// With its times as a clock says them that is `ns` ahead of the one that they were taken by: the
/// next head may be on another machine.
job_memory moved_by(job_memory memory, int64_t ns);

fbs::JobMemoryT to_message(const job_memory& memory);
job_memory memory_in(const fbs::JobMemoryT& m);

}  // namespace troupe::train
