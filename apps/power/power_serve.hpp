// `troupe power serve POWER.toml`: the process that holds a power budget and grants leases of it to
// jobs, or to budgets below it, whose processes are the same.
//
//   <output>/power.epoch   {"epoch": 3}: how many lives this budget has had
//   audit.jsonl            who said what to it (apps/power/budget_audit.hpp)
//   and the journal and the record of apps/power/budget_disk.hpp
//
// Invariants
//   PSV-1  Each life has an epoch above all before it at this place, and that is durably written
//     before anything is granted: what a dead one still has under way is older (PWR-2).
//   PSV-2  One process serves a budget at a time: its folder is locked.
//   PSV-3  A disk that is full or hangs keeps nobody from his lease, nor from his static share;
//     raises above that wait for the record. Both is told once.
//   PSV-4  What a person has set for good holds in later lives, until the file names another budget
//     than it did then. It does not come back with that one. A schedule is not followed meanwhile.
//   PSV-5  Whom an earlier life granted watts and the file names no more may go on with them: there
//     is no later life before somebody has said that it does not.
//   PSV-6  It has certificates, or a secret, and never both: with certificates nobody comes in by a
//     key, from this machine neither, and its own is one of a power budget (TC-5). Beyond loopback
//     it has certificates (PTR-7).
//   PSV-7  A budget that dies leaves its last messages in its folder, as a black box: by its
//     process where that lives, by the child that outlives it where a signal has ended it.
//   PSV-8  Who sets what, and who may not, stands in its audit log (budget_audit.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "actors/power/budget.hpp"
#include "apps/up/signals.hpp"
#include "io/base/result.hpp"
#include "io/config/power_tree.hpp"
#include "io/folder/lock.hpp"

namespace troupe::apps::power_verb {

/// Counts another life in the file, and is its number, above `known` in any case. Errors: bad_data
/// where the file is not ours; io.
result<uint64_t> next_epoch(const std::filesystem::path& file, uint64_t known = 0);

/// What the actor is made of; without those whom it speaks to. `record`: of the life before.
power::budget_options budget_options_of(const config::power_tree& tree, uint64_t epoch,
                                        const power::budget_record& record = {});

/// Begins another life of the budget: by what those before have left in its folder. Errors: as
/// next_epoch and read_record; io.
result<power::budget_options> begin_life(const config::power_tree& tree,
                                         const std::filesystem::path& folder);

/// Which budget holds at the start, and why; empty where nobody has set another (PSV-4).
std::string set_sentence(const config::power_tree& tree, const power::budget_record& record);

/// The folder of a budget, or of an agent (power_agent.hpp), held by this process alone. PSV-2.
/// Errors: as take_folder; io.
result<io::folder_lock> hold_output(const std::string& output, const std::string& name);

/// Until a signal asks it to end; false: `gone`, and the queue was woken.
bool wait_for_end(signal_queue& signals, const std::atomic<bool>& gone);

/// A budget that can be served. Errors: as load_power_tree; bad_config.
result<config::power_tree> read_budget(const std::string& file);

/// What the budget follows, for a process that starts then; none: nothing. Errors: not_found, io,
/// bad_number_table, bad_schedule, not_watts, with the file's path.
result<std::optional<power::budget_schedule>> read_schedule(const config::power_tree& tree,
                                                            double unix_s);

/// "row0 has 70 W for 2 children, whose static shares are 60 W together", and what it follows.
std::string budget_sentence(const config::power_tree& tree,
                            const std::optional<power::budget_schedule>& schedule = {});
/// The same as a JSON object, a line.
std::string budget_json(const config::power_tree& tree);

}  // namespace troupe::apps::power_verb
