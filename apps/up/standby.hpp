// A head that stands by: it votes, holds what the head that acts decides, and waits until it is to
// act itself, or the job is over, or it proves to be none of the job's (actors/heads/elector.hpp).
//
//   auto aside = standby::begin(...);
//   auto what = aside->wait(signals);
//   // until it acts, others find it here: that it is about to
//   aside.reset();
//
// Invariants
//   STB-1  It writes nothing but its vote, and holds no folder of the job.
//   STB-2  Once it is to act it answers the other heads until it goes, so that none of them takes
//     the silence of a head that reads its checkpoints for its end.
//   STB-3  One that comes after the job's end, as the votes say it, leaves no secret of the job
//     that was not there before. Where a head tells it of the end, that head has seen to it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/heads/elector.hpp"
#include "apps/up/stop_signals.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::apps {

/// What it came to: one of the three.
struct stood_by {
  std::optional<heads::won_epoch> won = {};  ///< it is to act
  std::optional<int> code = {};              ///< the job is over, or a signal asked it to end
  std::optional<error> refused = {};         ///< it is none of the job's heads
};

class standby {
 public:
  /// `address`: of cluster.heads. `how`: at_once and job_runs count (TKO-1). Errors: what keeps it
  /// from listening there, or from proving who it is.
  static result<std::unique_ptr<standby>> begin(const config::job& job, const std::string& address,
                                                heads::takeover_policy::rules how,
                                                stop_signals& signals);
  virtual ~standby() = default;

  /// Until it is decided.
  virtual stood_by wait(stop_signals& signals) = 0;
};

}  // namespace troupe::apps
