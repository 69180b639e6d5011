// The last line of a launch in its log: how it ended (docs/log.md).
//
// Invariants
//   LGE-1  A launch has one end, the first that is known: what comes later changes nothing.
//   LGE-2  Whoever writes it is not held up for long by a drive that does not answer: the process
//     ends all the same (watchdog, the launcher's kill).
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "apps/report/log_lines.hpp"
#include "apps/up/reporter.hpp"
#include "apps/up/run_log.hpp"
#include "apps/up/stop_signals.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

class log_end {
 public:
  /// The launch begins now, in that epoch, behind that step.
  log_end(std::shared_ptr<run_log> log, std::shared_ptr<run_outcome> outcome, uint32_t epoch,
          uint64_t after_step)
      : log_(std::move(log)),
        outcome_(std::move(outcome)),
        epoch_(epoch),
        after_step_(after_step) {}

  /// The process ends with that code, or by that error. `signal`: that asked it to stop; 0: none.
  void process_ends(const result<int>& code, int signal);
  /// A signal has it end at once, without an orderly end.
  void aborted(int signal);
  /// This process goes on: another head acts in its place, or it begins again with another state.
  void goes_on(report::end_reason reason);

 private:
  std::string why() const;
  void write(report::end_reason reason, std::optional<int> code, const std::string& text);

  std::shared_ptr<run_log> log_;
  std::shared_ptr<run_outcome> outcome_;
  uint32_t epoch_;
  uint64_t after_step_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::mutex mutex_;  ///< over what follows: whoever is second waits for the line of the first
  bool written_ = false;
};

/// Of the launch whose log has just begun; a signal that ends the process at once writes it, too.
std::shared_ptr<log_end> begin_end(const reporter_options& talk, stop_signals& signals);

/// Whether the launch that a log has last wrote its end, by the lines of its last 256 KiB; none: it
/// has no launch there. A file that is none is not read.
std::optional<bool> last_launch_has_end(const std::string& file);

}  // namespace troupe::apps
