// The head of a cluster: the process that holds the coordinator, the run, the committer and the
// reporter, and starts the nodes. `troupe up` is its launcher (launch.hpp), which starts it again
// where a signal ended it.
#pragma once

#include <string>
#include <vector>

#include "actors/job/job_memory.hpp"
#include "apps/job_arguments.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// An address that is none of cluster.heads, and those that are.
inline constexpr error_kind<std::string_view, std::string_view> no_such_head{
    "no_such_head", errc::usage, "{0} is no head of this job: cluster.heads is {1}"};

/// What `troupe up` was told.
struct up_arguments {
  job_arguments job;
  std::string log_format;
  bool dry_run = false;  ///< power.dry_run
  std::string record;  ///< the actors that are recorded (a pattern); empty: none
  bool break_lock = false;
  bool allow_injection = false;
  int launcher = 0;  ///< the process that started the head; 0: this one is to be the launcher
  train::lost_head lost;  ///< where the head goes on for one of this launch: how that was lost
  std::vector<std::string> lost_warnings = {};  ///< of the launcher, which has no log: STW-1
  int port = 0;           ///< at which the nodes of that one look for it; 0: none do
  std::string address;    ///< of cluster.heads, its own; empty: the first of them
  bool stands_by = false;  ///< it waits until it is to act (standby.hpp)

  bool goes_on() const { return !lost.how.empty(); }
};

/// The words that tell a head so.
std::vector<std::string> lost_head_words(const train::lost_head& lost, int port);

/// Trains; the exit code. Ends with its launcher.
result<int> run_head(const up_arguments& a);

}  // namespace troupe::apps
