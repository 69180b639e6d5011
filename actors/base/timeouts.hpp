// How long one waits for an answer: what the call's contract says (messages/contract.hpp), and
// where it names a key of the configuration, what the job says there.
#pragma once

#include <chrono>
#include <vector>

#include "io/config/job.hpp"
#include "messages/contract.hpp"

namespace troupe {

/// The timeouts of one job's calls.
class call_timeouts {
 public:
  /// As the schemas say.
  call_timeouts() = default;
  explicit call_timeouts(const config::job& job);

  /// Of a call that is answered. Finite.
  std::chrono::milliseconds of(const call_info& call) const;

 private:
  std::vector<std::chrono::milliseconds> by_key_;  ///< as timeout_keys(); empty: no job
};

}  // namespace troupe
