// What of a served budget goes to the disk while it is served, behind its actor's back: the
// journal, the record, and a file for monitoring. A disk that hangs holds up neither its ticks nor
// its words on the terminal.
//
//   <output>/power.jsonl   what it decided and heard, a JSON object a line
//   <output>/power.state   what its next life has to know (actors/power/budget_record.hpp)
//   <output>/power.csv     what it saw, a line each tick (actors/power/budget_trace.hpp)
//   <textfile>             who has which watts, for node_exporter's textfile collector
//
// Invariants
//   BDK-1  A line is said as it comes, whatever the disk does (JNF-1).
//   BDK-2  A record that cannot be read is not begun anew: what jobs may draw would be forgotten.
//   and BDK-3, BDK-4 (textfile.hpp)
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "actors/power/budget_record.hpp"
#include "actors/power/budget_trace.hpp"
#include "apps/power/background.hpp"
#include "apps/power/journal_file.hpp"
#include "apps/power/textfile.hpp"
#include "io/base/result.hpp"
#include "messages/schemas/power_generated.h"

namespace troupe::apps::power_verb {

/// A line of the journal as a person reads it: "gpt-a: grant 44 W, was 40 W; in force 40 W".
std::string journal_words(const std::string& line);

/// The journal of a budget, and what is told of it.
class budget_journal {
 public:
  /// `as_json`: its lines go to stdout, too; else they are said in words.
  budget_journal(const std::filesystem::path& file, bool as_json,
                 size_t room = journal_file::waiting_lines);

  /// A line, a JSON object, at that time. Waits for nothing (BDK-1).
  void take(const std::string& line, double unix_s);

  /// Waits until what was taken is in the file, or missing in it; whether it is.
  bool settle(std::chrono::milliseconds patience) const { return file_.settle(patience); }

 private:
  journal_file file_;
  bool as_json_;
};

/// The trace of a budget.
class budget_trace_file {
 public:
  /// Of one file, as many of which are kept as of a journal: more than a week, a line a second.
  static constexpr size_t most_bytes = size_t{48} << 20;

  explicit budget_trace_file(const std::filesystem::path& file, size_t bytes = most_bytes);

  /// A tick, at that time. Waits for nothing (JNF-1).
  void take(power::budget_trace_row row, double unix_s);

  /// Waits until what was taken is in the file, or missing in it; whether it is.
  bool settle(std::chrono::milliseconds patience) const { return file_.settle(patience); }

 private:
  journal_file file_;
  power::budget_trace_lines lines_;
};

/// The record that a life before has left in the file; an empty one where there is no file. Errors:
/// bad_data where it is not ours (BDK-2); io.
result<power::budget_record> read_record(const std::filesystem::path& file);

/// Writes the record to a file, each one atomically.
class record_file : public power::record_keeper {
 public:
  explicit record_file(std::filesystem::path file);
  ~record_file() override;  ///< waits for a write that is under way, as long
  record_file(const record_file&) = delete;
  record_file& operator=(const record_file&) = delete;

  void keep(uint64_t number, std::string text) override;
  std::optional<outcome> ended() override;

  /// Waits until the last write has ended; whether it has.
  bool settle(std::chrono::milliseconds patience) const { return writer_.settle(patience); }

 private:
  struct answer {
    std::mutex mutex;
    std::optional<outcome> of_last;
  };
  std::filesystem::path file_;
  std::shared_ptr<answer> answer_;  ///< the writer's tasks' as well
  background writer_;
};

/// Replaces a file by what a budget's tree says.
class tree_textfile {
 public:
  explicit tree_textfile(std::filesystem::path file) : file_(std::move(file)) {}

  /// Waits for nothing (BDK-3).
  void take(fbs::PowerTreeT tree);

  /// Waits until what was taken is written, or has failed to be; whether it is.
  bool settle(std::chrono::milliseconds patience) const { return file_.settle(patience); }

 private:
  textfile file_;
};

}  // namespace troupe::apps::power_verb
