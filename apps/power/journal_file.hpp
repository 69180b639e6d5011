// A file of JSON lines that is written behind its giver's back: a disk that hangs or is full holds
// up neither a budget's ticks nor a job's steps. The journals of budgets (budget_disk.hpp) and of
// jobs (apps/up/power_files.hpp) are such files.
//
// Invariants
//   JNF-1  Whoever gives lines waits for nothing. That lines begin to be missing in the file, and
//     that they are written again, is told once each.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "apps/power/background.hpp"

namespace troupe::apps::power_verb {

/// A line of a journal, a JSON object, with its time of day before all else; what is none becomes
/// the text of one.
std::string stamped(const std::string& line, double unix_s);

class journal_file {
 public:
  /// Lines that may wait for the disk.
  static constexpr size_t waiting_lines = 4096;

  /// Lines are appended, and the file made by the first one; who moves it away has another made.
  explicit journal_file(const std::filesystem::path& file, size_t room = waiting_lines);
  ~journal_file();  ///< waits for the disk, at most `defaults::orderly_end`
  journal_file(const journal_file&) = delete;
  journal_file& operator=(const journal_file&) = delete;

  /// A line without its end. JNF-1
  void take(std::string line);

  /// Waits until what was taken is in the file, or missing in it; whether it is.
  bool settle(std::chrono::milliseconds patience) const { return writer_.settle(patience); }

 private:
  struct disk;
  std::shared_ptr<disk> to_;  ///< the writer's tasks' as well
  background writer_;
};

}  // namespace troupe::apps::power_verb
