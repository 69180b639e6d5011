// A file of JSON lines that is written behind its giver's back: a disk that hangs or is full holds
// up neither a budget's ticks nor a job's steps. The journals of budgets (budget_disk.hpp) and of
// jobs (apps/up/power_files.hpp) are such files. With a heading it is a table, as the trace of a
// budget, each file of which begins with that.
//
// Invariants
//   JNF-1  Whoever gives lines waits for nothing. That lines begin to be missing in the file, and
//     that they are written again, is told once each.
//   JNF-2  Before a line would make the file longer than its bound, the file is moved to FILE.1,
//     and those before it each to the next number; the oldest of `most_files` goes. Where that
//     fails, which is told, lines go on in the file that is there; it is tried again each time that
//     it has grown by its bound.
//   JNF-3  A file that does not begin as a journal does is neither moved nor replaced: a person has
//     put it there.
//   JNF-4  A table's file holds nothing but whole rows below its heading, and the times that they
//     begin with rise: half a row that a disk took is cut off, and a file that has other columns,
//     or ends later than the row that comes, is moved as in JNF-2. What is no such table, or cannot
//     be moved, takes no row, which is told once.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/power/background.hpp"

namespace troupe::apps::power_verb {

/// A line of a journal, a JSON object, with its time of day before all else; what is none becomes
/// the text of one.
std::string stamped(const std::string& line, double unix_s);

/// The same of a JSON object that is not empty, without a look into it.
std::string stamped_object(std::string_view line, double unix_s);

/// The journal and those before it, the newest first, whether or not they are there. JNF-2
std::vector<std::string> journal_names(const std::string& file);

class journal_file {
 public:
  /// Lines that may wait for the disk, and their bytes together; a longer line alone may, too.
  static constexpr size_t waiting_lines = 4096;
  static constexpr size_t waiting_bytes = size_t{16} << 20;
  /// Of one file, and how many of them are kept. JNF-2
  static constexpr size_t most_bytes = size_t{16} << 20;
  static constexpr size_t most_files = 4;

  /// Lines are appended, and the file made by the first one; who moves it away has another made.
  /// `heading`: a table's first line; none: lines are JSON objects. Both begin with their time.
  explicit journal_file(const std::filesystem::path& file, size_t room = waiting_lines,
                        size_t bytes = most_bytes, std::string heading = {});
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
