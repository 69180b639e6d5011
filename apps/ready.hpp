// Whether a job could start here: the one list of checks that `troupe up` runs before it writes or
// allocates anything, and that `troupe config check` runs without starting.
//
// Invariants
//   ONE-1  Both verbs say the same of the same job and end with the same number: neither has a
//     check of its own, but for processes that have its folders now: they refuse a start, and the
//     check tells of them.
//   ONE-2  Checks leave nothing behind.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/job/catalog.hpp"
#include "actors/job/plan.hpp"
#include "actors/train/finding.hpp"
#include "actors/train/inputs.hpp"
#include "actors/train/machine.hpp"
#include "io/config/load.hpp"

namespace troupe::apps {

/// What the checks found, and what a start needs of it.
struct readiness {
  std::vector<std::string> remarks;  ///< what a person should know all the same
  std::vector<std::string> of_data;  ///< the same of data: at a start its loader says it
  std::vector<train::source_share> sources;  ///< all that is trained on
  std::vector<train::finding> problems;
  std::string data_mark;  ///< what it is trained on, for later starts; empty: not known
  // Where there are no problems:
  std::optional<train::job_plan> plan;
  std::optional<checkpoint::resume_point> resume;
  uint32_t epoch = 1;                              ///< later than that of every checkpoint there is
  std::vector<std::filesystem::path> checkpoints;  ///< complete ones that there were
};

/// What the configuration alone shows that a person should know all the same: keys without effect.
/// readiness_of has it among its remarks.
std::vector<std::string> remarks_on(const config::job& job);

/// What it means that a living process has a swap folder of the job's ranks.
enum class swap_held {
  passes,  ///< it will end: those of a lost head do once they join the next one
  refuses  ///< where it has not ended in a moment it is another run's
};

/// All checks of a settled job against this machine. `resume`: how closely what it goes on from is
/// looked at.
readiness readiness_of(const config::job& job, const train::machine& machine,
                       checkpoint::look resume = checkpoint::look::whole,
                       swap_held held = swap_held::passes);

/// Once more what another launcher may have changed during the checks; asked when the folders are
/// held. The epoch becomes later than that of what it left. Errors: timeout where the complete
/// checkpoints are not those that were checked: nodes alone complete none.
status look_again(readiness& r, const config::checkpoint_section& c);

/// Problems at the places that their keys came from.
std::vector<config::problem> placed(const std::vector<train::finding>& problems,
                                    const config::loaded& job);

/// One error for them all: a line each, and the code of a single one, else bad_config.
error refusal_of(const std::vector<train::finding>& problems, const config::loaded& job);

}  // namespace troupe::apps
