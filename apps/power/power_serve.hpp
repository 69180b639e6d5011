// `troupe power serve POWER.toml`: the process that holds a power budget and grants leases of it to
// jobs on this machine.
//
//   <output>/power.epoch   {"epoch": 3}: how many lives this budget has had
//   <output>/power.jsonl   what it decided and heard, a JSON object a line
//
// Invariants
//   PSV-1  Each life has an epoch above all before it at this place, and that is durably written
//     before anything is granted: what a dead one still has under way is older (PWR-2).
//   PSV-2  One process serves a budget at a time: its folder is locked.
//   PSV-3  A journal that cannot be written is told once, and keeps nobody from being granted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/power/budget.hpp"
#include "apps/up/run_log.hpp"
#include "io/base/result.hpp"
#include "io/config/power_tree.hpp"

namespace troupe::apps::power_verb {

/// Counts another life in the file, and is its number. Errors: bad_data where the file is not ours;
/// io.
result<uint64_t> next_epoch(const std::filesystem::path& file);

/// What the actor is made of; without those whom it speaks to.
power::budget_options budget_options_of(const config::power_tree& tree, uint64_t epoch);

/// A budget that can be served. Errors: as load_power_tree; bad_config.
result<config::power_tree> read_budget(const std::string& file);

/// "row0 has 70 W for 2 children, whose static shares are 60 W together".
std::string budget_sentence(const config::power_tree& tree);
/// The same as a JSON object, a line.
std::string budget_json(const config::power_tree& tree);

/// A line of the journal as a person reads it: "gpt-a: grant 44 W, was 40 W; in force 40 W".
std::string journal_words(const std::string& line);

/// The journal of a budget, and what is told of it.
class budget_journal {
 public:
  /// `as_json`: its lines go to stdout, too; else they are said in words.
  budget_journal(const std::filesystem::path& file, bool as_json)
      : log_(file.string(), as_json), as_json_(as_json) {}

  /// A line, a JSON object, at that time (PSV-3). May block, as line_log.
  void take(const std::string& line, double unix_s);

 private:
  run_log log_;
  bool as_json_;
};

}  // namespace troupe::apps::power_verb
