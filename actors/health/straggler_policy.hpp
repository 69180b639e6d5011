// Which ranks make the steps of all longer, by computing longer than their peers, and what a step
// would take without them.
//
// Why: all ranks of a step wait for the slowest, so that one slow machine of a thousand costs as
// much as a thousand slow ones. Whoever waits looks slow, too: only what a rank itself computes
// tells them apart (Jiang et al., "MegaScale", NSDI'24, 6.3).
//
// A rank's peers are those of its stage, which do the same work on as many tokens: it is held
// against their median. Where a stage is of one rank, nobody does the same: another stage that
// takes longer has more work or a slower machine, and the two look alike. There a rank is held
// against itself, in the window with the shortest step of the epoch, as much as the other ranks
// have changed since: who has become slower is slow, who always was may have more to do. What a
// plan makes uneven is no finding; `troupe trace stragglers` tells it.
//
// The estimate of a step without them: a pipeline of stages that compute w_s for m micro-batches
// takes max(w) + (sum(w) - max(w)) / m, the slowest stage and one micro-batch of each other; a job
// takes what its slowest pipeline takes. What that becomes less with slow ranks as their peers is
// taken off the measured step. Transfers are left as they are, so it is no replay: that is what
// `troupe trace stragglers` does.
//
// Pure.
//
// Invariants
//   SLW-1  Nobody is named but a rank whose own slowness costs at least the limit of a step, with
//     all others put right: neither who waits, nor one whose stage has slack.
//   SLW-2  Named in one window alone is not named: `least_windows` one after the other say so. For
//     long is `long_windows` of them, and each so many further ones.
//   SLW-3  A node is named where all of its ranks are slow and others are not: slow_host. A rank,
//     where others of its node are not: slow_device.
//   SLW-4  An epoch begins anew, and so do steps of other work.
//   SLW-5  At most `most_told` are told of a window, who costs most first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/health/step_windows_policy.hpp"
#include "io/base/rank_grid.hpp"

namespace troupe::health {

/// Of the classes of `troupe trace stragglers` (trace/whatif_policy.hpp) those of a rank's own.
enum class slow_class : uint8_t { slow_host, slow_device };

/// "slow_host", "slow_device"
std::string_view to_string(slow_class c) noexcept;

/// Ranks that are slow together.
struct straggler {
  std::string node;  ///< empty: not known
  int rank = -1;     ///< -1: all of the node's
  slow_class what = slow_class::slow_host;
  double cost_ms = 0;  ///< of a step, were all other ranks as their peers
  uint64_t windows = 0;
  bool for_long = false;  ///< SLW-2
  bool operator==(const straggler&) const = default;
};

class straggler_policy {
 public:
  static constexpr uint64_t least_windows = 2;
  static constexpr uint64_t long_windows = 5;
  static constexpr size_t most_told = 16;

  straggler_policy() = default;
  /// `limit`: the least part of a step, as 0.1; 0: nobody is named.
  straggler_policy(rank_grid grid, int64_t micro_batches, double limit);

  struct verdict {
    double step_ms = 0;
    double without_ms = 0;        ///< were all slow ranks as their peers
    std::vector<straggler> slow;  ///< SLW-5
  };
  /// The next window of steps. `nodes` by rank; empty where nobody knows.
  verdict judge(const step_window& last, const std::vector<std::string>& nodes);

 private:
  using times = std::vector<float>;  ///< by rank, of a step

  void begin_epoch(const step_window& first);
  /// What each rank would take if it was as its peers.
  times expected(const times& own) const;
  double model_ms(const times& own) const;
  std::vector<straggler> groups(const times& own, const times& right, double least_ms,
                                const std::vector<std::string>& nodes) const;
  /// SLW-2. Of these groups, counts their ranks.
  void count(std::vector<straggler>& slow, const std::vector<std::string>& nodes);

  rank_grid grid_;
  double micro_batches_ = 1;
  double limit_ = 0;
  uint32_t epoch_ = 0;
  uint64_t tokens_ = 0;
  double best_ms_ = 0;               ///< the shortest step of a window; 0: there was none
  times best_;                       ///< that window's
  std::map<int, uint64_t> windows_;  ///< by rank: how many one after the other it was slow in
};

}  // namespace troupe::health
