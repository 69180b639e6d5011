// A job that is launched several times: its tiers, what befalls them between two launches, where
// each launch begins, and the account of what must be there. How a launch ends is the test's
// affair: kill_crash, power_cut_crash.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/cluster/ledger.hpp"
#include "tests/cluster/turns.hpp"

namespace troupe::cluster_test {

/// A copy has an account of its own of the same folders: for one end of a launch among several.
class launches {
 public:
  /// The second tier is none where its path is empty; of each the `keep` newest are kept, 0: all.
  launches(judge& eyes, fs::path first, fs::path second, int keep);

  const fs::path& first() const { return first_; }
  const fs::path& second() const { return second_; }
  bool has_second() const { return !second_.empty(); }
  bool removes() const { return keep_ > 0; }
  /// Of both tiers, for `--set`.
  std::vector<std::string> settings() const;
  ledger& account() { return account_; }
  const ledger& account() const { return account_; }

  /// What the turn says befalls the first tier; then a launch begins. The setting of where.
  std::string begin(const turn& t, const turn_deck& deck, std::mt19937_64& random);
  /// The step that the launch at hand began with.
  int from() const { return account_.step_of(from_); }
  /// The launch has ended: judges its losses, and what is left. `again`: it may have made steps
  /// again.
  void end(const program& up, const std::set<int>& acknowledged, bool last, bool again = false);
  /// Whether each tier has the job's last step.
  void check_done(int steps) const;

  /// What interrupted saves, copies and removals left, with their folders.
  std::vector<fs::path> leftovers() const;
  /// The launch was cut off: what it left is to be named and removed by the next one.
  void note_leftovers() { left_ = leftovers(); }
  /// What was noted is gone and was named, and what is partial now is this launch's own; how much
  /// was noted. To be asked once the launch says where it listens.
  int check_leftovers(const program& up) const;

 private:
  void make_trouble(const turn& t, std::mt19937_64& random);

  judge& eyes_;
  fs::path first_, second_;
  int keep_;
  ledger account_;
  int from_ = -1;
  int64_t started_ns_ = 0;      ///< the launch at hand, since 1970, less a tick of the kernel
  std::vector<fs::path> left_;  ///< by the launch before
};

/// All nodes of a launch that has said where it listens, once all so many were started.
std::vector<watched> nodes_when_there(const program& up, size_t count);

}  // namespace troupe::cluster_test
