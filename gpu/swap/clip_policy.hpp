// Whether the next step updates chunks before it knows their norm, where it may do either.
//
// Pure. A step that speculates is made once, and once more where its norm is above the limit; one
// that makes its passes twice pays for the first of them always. So speculating is cheaper as long
// as the chance of a clipped step is below what the passes for the norm take of a step. Both are
// seen: each step tells whether it was clipped, and one that makes its passes twice how long either
// half took. The choice changes no bit (ENG-11).
//
// Invariants
//   CLP-1  The first step makes its passes twice: it tells what they take.
//   CLP-2  Of the last `window` steps the clipped ones count, and one more either way: a few steps
//          prove little.
//   CLP-3  Behind a step that speculated and was clipped one makes its passes twice: what they take
//          is seen anew, since one measurement may be of a step that waited for something else.
//   CLP-4  Replicas choose alike: what they are told of a step are the same numbers, the norm's
//          verdict and the sums of what both halves took each of them. For steps of either kind
//          they meet for other exchanges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>

namespace troupe::gpu {

class clip_policy {
 public:
  static constexpr size_t window = 16;   ///< steps
  static constexpr size_t measured = 4;  ///< steps that made their passes twice

  /// A step that made its passes twice: for the norm alone, then with the updates.
  void made_twice(double norm_s, double update_s, bool clipped) {
    if (update_s > 0) add(shares_, norm_s / update_s, measured);
    add(last_, clipped, window);
    was_wrong_ = false;
  }
  /// A step whose updates came first.
  void speculated(bool clipped) {
    add(last_, clipped, window);
    was_wrong_ = clipped;
  }

  bool speculates() const { return !was_wrong_ && clip_chance() < share(); }

  /// Of a step with updates, what the passes for the norm take: the mean of what was measured.
  double share() const {
    if (shares_.empty()) return 0;
    return std::accumulate(shares_.begin(), shares_.end(), 0.0) /
           static_cast<double>(shares_.size());
  }

  /// Of the next step.
  double clip_chance() const {
    double clipped = 1;
    for (const bool was : last_) clipped += was ? 1 : 0;
    return clipped / static_cast<double>(last_.size() + 2);
  }

 private:
  template <class T>
  static void add(std::deque<T>& to, T value, size_t most) {
    to.push_back(value);
    if (to.size() > most) to.pop_front();
  }

  std::deque<double> shares_;
  std::deque<bool> last_;
  bool was_wrong_ = false;  ///< CLP-3
};

}  // namespace troupe::gpu
