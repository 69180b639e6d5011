// What a signal that asks a launch to stop means: by the phase, by what came before it, by time.
//
//   phase        first signal             a further one
//   starting     ends it at once          -
//   running      save after the step      ends it at once
//   concluding   leave out what is left   ends it at once
//
// Pure: it reads no clock and handles no signal.
//
// Invariants
//   STP-1  Two equal signals within a second are one: `timeout`, `srun` and others send theirs to
//     the process and to its group. The second counts from the first of them: whoever goes on
  //     pressing Ctrl-C is heard.
//   STP-2  SIGHUP saves and stops as SIGTERM does, but never ends at once what runs: a terminal is
//     closed once, however often its shell and its kernel say so.
//   STP-3  A start has made nothing that an end at once could harm: what it writes may be cut off
//     by kill -9 as well.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>

namespace troupe::apps {

enum class phase : uint8_t {
  starting,    ///< reading, measuring, verifying: until the cluster is open
  running,     ///< from then on, until the run has ended and what it saves is saved
  concluding,  ///< the nodes' end, the sample, the summary
};

enum class stop_verdict : uint8_t { nothing, stop, at_once };

class stop_policy {
 public:
  using milliseconds = std::chrono::milliseconds;

  /// `at`: of any clock that does not go back.
  stop_verdict heard(phase during, int signal, milliseconds at) {
    const bool again = last_ && last_->signal == signal && at - last_->at < one_word;
    const bool first = !last_;
    if (again) return stop_verdict::nothing;  // STP-1
    last_ = {signal, at};
    if (during == phase::starting) return stop_verdict::at_once;             // STP-3
    if (first) return stop_verdict::stop;
    return signal == SIGHUP ? stop_verdict::nothing : stop_verdict::at_once;  // STP-2
  }

 private:
  static constexpr milliseconds one_word{1000};
  struct word {
    int signal;
    milliseconds at;
  };
  std::optional<word> last_;
};

}  // namespace troupe::apps
