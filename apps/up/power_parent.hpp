// How the head of a job, or a budget, joins the power budget above it: where that is, and by which
// key it proves itself there.
//
// "auto" is the one that this user serves on this machine, for a budget the other one, of several
// the one that has a child of the name of who joins, "auto:NAME" the one of that name: its sign
// says where it listens and where its secret is (apps/power/budget_sign.hpp), of which the key of
// who joins is made. HOST:PORT comes with a file that holds the key. Files are read anew each time:
// a budget that starts again may be elsewhere. A budget that has certificates is shown those of who
// joins, which all of his links are made with.
//
//   <output>/power.incarnation   the number of the last process that joined from there, by which a
//                                budget tells it from those before
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/power/pacer.hpp"
#include "actors/power/parent_link.hpp"
#include "io/config/heads.hpp"
#include "io/config/job.hpp"
#include "io/config/power_tree.hpp"

namespace troupe::apps {

/// Who joins a power budget, and what his configuration says of that.
struct power_joiner {
  std::string name;        ///< of a job, or of a budget
  bool is_budget = false;  ///< it may be served on this machine itself
  std::string parent;      ///< io/config/budget_place.hpp; empty: he joins none
  std::string parent_key;  ///< a file; empty: by the sign
  std::string output;      ///< his folder
  bool has_certificates = false;
};
power_joiner joiner_of(const config::job& job);
power_joiner joiner_of(const config::power_tree& tree);

/// Whether parent_key, where there is one, is a key of role power that can be read; where the
/// budget is, and whether it is there, is no matter of a start. Errors: those of
/// tls::job_key::read; permission.
status check_power_parent(const power_joiner& who);

/// Whether who listens so is reached at that place: PTR-5, as far as this machine can tell without
/// a name service, which may be away when a budget starts.
bool is_reached_at(const std::string& listen, uint16_t port, const config::head_place& place);

/// Where the budget above is now, and the proof for it. Errors: the same; not_found, usage where
/// several budgets fit; permission where it has certificates and who joins has none.
result<power::budget_parent> find_power_parent(const power_joiner& who);

/// Which process of the joiner this is, the greatest yet of all that the file has counted: also
/// where the clock has gone back since, but no less than the clock says, so that jobs of one name
/// with other folders are in order as well. Where the file cannot be written the clock has to do.
uint64_t next_incarnation(const std::filesystem::path& file, uint64_t clock_ns);

/// What a pacer, or a budget, joins it by, which counts another process in the output; none: no
/// budget is above. `reporter`: of a job.
std::optional<power::parent_options> power_parent_of(const power_joiner& who,
                                                     const reporter_actor& reporter = {});
/// The same of a job whose machines hang on several budgets, by nodes; empty: they do not.
std::vector<power::rack_options> power_racks_of(const config::job& job,
                                                const reporter_actor& reporter);

}  // namespace troupe::apps
