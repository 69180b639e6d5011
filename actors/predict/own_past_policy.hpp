// Which parts of ranks' steps take lastingly more than the same work has ever taken on the same
// machine in earlier runs. Needs no peers, and no step of this run: a pair of nodes, or all of
// them, may have been set up otherwise since, with a lower clock, another governor, beside other
// work.
//
// Evidence alone: the predictor tells the monitor of it (Suspect), which finds.
//
// Pure. How much runs differ by themselves is seen from few of them, so as many pseudo-runs differ
// as those of a machine that nobody else uses: what is beyond the slowest run of all, by six times
// the deviation of both, is no chance.
//
// Invariants
//   OPP-1  A part is judged by runs of the same work (all its numbers, and all that work_sum
//     counts), by the same node on the same hardware, of which `least_runs` have `least_windows`
//     each; what moves bytes, or waits for a drive, is not. Of which work or run a time of an
//     earlier release is, is not known: it does not count.
//   OPP-2  Told is a part whose medians were beyond the limit in each of the last `windows`
//     windows, and no more once they were within in `windows_back` running. Each is told of once,
//     and so is its end, `told_kept` of one kind of part at once: whether most ranks are such is
//     seen from these.
//   OPP-3  The past is what was kept when the run began: what it learns itself does not raise the
//     limit. Of each part, node and configuration the newest `runs_kept` runs count, of
//     `pasts_kept` of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "io/base/model_config.hpp"
#include "io/base/rank_grid.hpp"
#include "io/config/job.hpp"
#include "messages/operations.hpp"

namespace troupe::predict {

/// What times depend on beside the numbers that are learned with, as one number: the model, what is
/// done otherwise with it, and how many ranks share each node. Equal of equal work; never 0, below
/// 2^34.
uint64_t work_sum(const config::job& job, const model_config& model);
/// The same of a rank, by whether its stage has the embedding or the head.
uint64_t work_sum_at(uint64_t of_job, const grid_rank& at);

struct own_past_options {
  size_t least_runs = 3, least_windows = 4;
  double least_more = 0.25;  ///< beyond the slowest run, however alike runs are
  double deviations = 6;
  double usual_deviation = 0.08;  ///< of pseudo-runs, of logarithms
  double pseudo_runs = 4;
  double least_ms = 5;  ///< of a step, in the past: of less a thread's start is a part
  size_t windows = 12, windows_back = 4;
  size_t runs_kept = 16, pasts_kept = 8192, told_kept = 64;
};

/// What a part took there in earlier runs.
struct own_past {
  double usual_s = 0;  ///< the mean of runs
  double least_s = 0;  ///< the quickest run
  double most_s = 0;   ///< what is beyond is no chance
  size_t runs = 0;
};

class own_past_policy {
 public:
  using key = std::pair<uint32_t, train::pipeline_op>;  ///< rank, part
  struct told {
    key of{};
    uint64_t node = 0;
    double seen_ms = 0;
    own_past past;
    bool gone = false;
  };

  own_past_policy() = default;
  explicit own_past_policy(own_past_options options) : options_(options) {}

  /// Of the kept times, the oldest first. `run`: equal of what one run has kept; 0: not known.
  void recall(train::pipeline_op part, uint64_t node, const std::vector<double>& features,
              uint64_t run, double seconds, uint64_t windows);
  void forget(uint64_t node);

  /// A window's median.
  void judge(const key& of, uint64_t node, const std::vector<double>& features, double ms);
  /// Its windows begin anew: it is of other work, on another node, or in another epoch.
  void drop(const key& of);
  void drop_rank(uint32_t rank);
  void drop_all();

  /// What takes too long or ceased to since this was asked last (OPP-2).
  std::vector<told> take() { return std::exchange(told_, {}); }
  size_t suspects() const noexcept { return named_.size(); }
  /// OPP-1.
  std::optional<own_past> past_of(train::pipeline_op part, uint64_t node,
                                  const std::vector<double>& features) const;

 private:
  struct run {
    uint64_t number = 0;
    double logarithms = 0, windows = 0;  ///< sums
  };
  struct judged {
    uint32_t beyond = 0, within = 0;  ///< windows running
  };
  void end(const key& of);

  own_past_options options_;
  std::map<std::tuple<train::pipeline_op, uint64_t, std::vector<double>>, std::vector<run>> runs_;
  std::map<key, judged> windows_;
  std::set<key> named_;
  std::map<train::pipeline_op, size_t> named_of_;  ///< how many, by part
  std::vector<told> told_;
};

}  // namespace troupe::predict
