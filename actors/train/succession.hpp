// What a head begins with: one that goes on for another with what that one, or a majority of
// voters, has left; one that a person starts with nothing. And how a head that has fallen stands by
// again. The same for a process (apps/up) and for a simulated head (actors/sim).
//
// Invariants
//   SUC-1  No two heads of a job act in one epoch: each begins behind what its checkpoints, the
//     account of the head before it, the votes that lie in the job's folder and its own election
//     say.
//   SUC-2  Ranks of all heads of a launch know each other by one number, that of the first head: so
//     a device that one of them governs is no other job's. A launch that a person starts has
//     another one, whatever its name and folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/heads/elector.hpp"
#include "actors/job/job_memory.hpp"
#include "actors/job/spawn_record.hpp"
#include "actors/train/journal.hpp"

namespace troupe::train {

/// Who acted before.
struct head_before {
  std::optional<lost_head> lost = {};  ///< whom this one goes on for; none: it begins a launch
  bool is_told = false;                ///< of that loss a head of this process has told already
  std::optional<heads::won_epoch> won = {};  ///< what a majority said; none: nobody was asked
};

/// What a head begins with.
struct succession {
  uint32_t epoch = 1;
  std::shared_ptr<kept_journal> journal = {};  ///< null: none can be kept, as `not_kept` says
  std::optional<error> not_kept = {};
  std::optional<job_memory> memory = {};  ///< of the head that was lost
  std::optional<fbs::ClusterMemoryT> cluster = {};  ///< the same
  uint64_t first_launch = 0;                        ///< SUC-2; 0: it begins one, or nobody has told
  heads::held_records held = {};                    ///< ELC-2
};

/// Makes the journal of this head (JRA-2). `epoch`: the first that no checkpoint is of.
succession succeed(io::file_system& files, const config::job& job, uint32_t epoch,
                   const head_before& before);

/// The elector of a head that acts. Who makes it adds how it reaches others.
heads::elector_options acting_elector(const config::job& job, const std::string& address,
                                      const succession& from);

/// Whom a standby that won goes on for; none: no head was heard of.
std::optional<lost_head> lost_head_of(const heads::won_epoch& won);

/// That its run ended so says that the head acts no more, but not that the job is over (CRD-18).
bool acts_no_more(const error& why);
/// As whom it goes on if it is to act again; `last_step`: the last that it told of.
lost_head fallen_head(const error& why, uint64_t last_step, int64_t now_ns);
/// How it stands by then: one that made no step may ask at once.
heads::takeover_policy::rules rules_after_fall(uint64_t last_step);

/// `how` with what the job says for the head at `address`.
heads::takeover_policy::rules takeover_rules(heads::takeover_policy::rules how,
                                             const config::job& job, const std::string& address);

}  // namespace troupe::train
