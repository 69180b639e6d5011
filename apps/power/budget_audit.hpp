// The audit log of a served budget (actors/control/audit.hpp), written behind the giver's back:
//
//   <output>/audit.jsonl   who said what to the budget or to its process, from where, and what came
//                          of it; who was refused
//
// A job's gateway does not do what it cannot write (GTW-6). A budget does: a disk that is full or
// hangs keeps nobody from the brake, nor from a lesser budget, as it keeps nobody from his lease
// (PSV-3).
//
// Invariants
//   PAU-1  Whoever gives a line waits for nothing: not the budget, nor who passes messages to it.
//   PAU-2  A line is begun before it gets its result, and lines stand in the order of their begin.
//   PAU-3  What has no room, or cannot be written, is told once, and once again when lines are
//     written again.
//   PAU-4  No more lines wait for their result than there is room for words: one whose result had
//     no room would wait for ever. The oldest gives way, and stays "asked".
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/base/trust.hpp"
#include "actors/control/audit.hpp"
#include "actors/power/budget.hpp"
#include "apps/power/background.hpp"

namespace troupe::apps::power_verb {

class budget_audit final : public power::order_keeper {
 public:
  /// Words that may wait for the disk.
  static constexpr size_t waiting_words = 1024;

  /// `budget`: whose audit it is. `wall_time`: the time as text.
  budget_audit(const std::filesystem::path& file, std::string budget,
               std::function<std::string()> wall_time, size_t room = waiting_words);
  ~budget_audit() override;  ///< waits for the disk, at most `defaults::orderly_end`
  budget_audit(const budget_audit&) = delete;
  budget_audit& operator=(const budget_audit&) = delete;

  void begins(uint64_t number, power::order_said said) override;
  void ends(uint64_t number, const std::string& result) override;
  /// Of somebody whose role does not let him; any thread.
  void refused(const refusal& r);

  /// For the gateway of the process, whose lines go to the same file.
  std::shared_ptr<trace::audit_log> log() const;

  /// Waits until what was given is in the file, or missing in it; whether it is.
  bool settle(std::chrono::milliseconds patience) const { return writer_.settle(patience); }

 private:
  struct disk;
  /// The task says whether it has written a line.
  void put(std::function<bool(disk&)> task);

  std::shared_ptr<disk> to_;  ///< the writer's tasks' as well
  background writer_;
};

}  // namespace troupe::apps::power_verb
