// What must be true of a folder of checkpoints after its run was ended by force, whatever the
// moment:
//
//   SUR-1  Every folder with a final name is whole: each byte verifies.
//   SUR-2  What was acknowledged is there, or a newer one.
//          The link `latest`, a hint, does not point to nothing.
//   SUR-3  The state in it, and the streams of its shards byte for byte, are those of a run that
//          nobody disturbed.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/job_files.hpp"

namespace troupe::cluster_test {

/// What a run says and saves that nobody disturbs: a loss and a checkpoint for each step.
struct undisturbed {
  std::vector<double> losses;
  fs::path checkpoints;
  std::string model;  ///< the bytes of the exported weights
};
/// Trains it, in a folder of its own beside the job.
undisturbed train_undisturbed(const job_files& job, const std::vector<std::string>& sets);

/// Steps with a folder of the final name, ascending.
std::vector<int> complete_in(const fs::path& folder);
/// Names of what interrupted saves and removals left.
std::vector<std::string> leftovers_in(const fs::path& folder);
/// The steps that whole lines of a log say are saved.
std::set<int> all_acknowledged_in(const std::string& lines);
/// The newest of them; 0: none.
int acknowledged_in(const std::string& lines);
std::string text_of(const fs::path& file);
/// A number of the environment, or another.
int number_from(const char* variable, int otherwise);

/// Looks at what is left, and counts.
class judge {
 public:
  explicit judge(const undisturbed& truth) : truth_(truth) {}

  /// SUR-1 to SUR-3; the newest step, 0 if there is none. A folder that was found right before is
  /// only verified again.
  int look(const fs::path& folder, int acknowledged);
  /// SUR-1 and SUR-3 of one checkpoint, whatever its folder is called; one that was found right
  /// before, and is `renamed` at most, is only verified again.
  void look_into(const fs::path& checkpoint, int step, bool renamed = false);
  /// Whether these losses are the undisturbed run's after `step`, bit by bit, as far as they go.
  /// `again`: a job that recovers makes steps again.
  void follow(const std::vector<nlohmann::json>& steps, int step, bool again = false) const;

  /// Other disks are under the same names from now on.
  void forget() { known_.clear(); }

  int verified() const { return verified_; }
  int compared() const { return compared_; }

 private:
  void compare(const fs::path& checkpoint, int step);

  const undisturbed& truth_;
  std::set<std::pair<fs::path, uint64_t>> known_;  ///< by path and inode
  int verified_ = 0, compared_ = 0;
};

}  // namespace troupe::cluster_test
