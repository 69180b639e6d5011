// What `troupe up` warns of before its log is there: said at once, and written as soon as it is.
//
// Invariants
//   STW-1  Each warning of a start is a line of its log, behind those of the start itself; of more
//     than are kept the number is. What the launcher said of heads that were lost before is there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/up/run_log.hpp"

namespace troupe::apps {

class start_warnings {
 public:
  /// Tells a person; and the log, now or once there is one.
  void warn(const std::string& text);
  /// Says a sentence, which is a warning where it begins as one.
  void remark(const std::string& sentence);
  /// The log alone: what was said already.
  void keep(const std::string& text);

  /// Writes what is kept; what follows is written at once. `step`: whose state the job begins from.
  void log_to(std::shared_ptr<run_log> log, uint64_t step);
  /// What follows belongs to the next start, whose log is not there yet.
  void hold() { log_.reset(); }

 private:
  void write(const std::string& text);

  std::vector<std::string> kept_;
  uint64_t left_out_ = 0;
  std::shared_ptr<run_log> log_;
  uint64_t step_ = 0;
};

}  // namespace troupe::apps
