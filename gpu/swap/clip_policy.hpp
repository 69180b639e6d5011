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
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace troupe::gpu {

class clip_policy {
 public:
  static constexpr size_t window = 16;  ///< steps

  /// A step that made its passes twice: for the norm alone, then with the updates.
  void made_twice(double norm_s, double update_s, bool clipped) {
    share_ = update_s > 0 ? norm_s / update_s : 0;
    note(clipped);
  }
  /// A step whose updates came first.
  void speculated(bool clipped) { note(clipped); }

  bool speculates() const { return clip_chance() < share_; }

  /// Of the next step.
  double clip_chance() const {
    double clipped = 1;
    for (const bool was : last_) clipped += was ? 1 : 0;
    return clipped / static_cast<double>(last_.size() + 2);
  }

 private:
  void note(bool clipped) {
    last_.push_back(clipped);
    if (last_.size() > window) last_.pop_front();
  }

  double share_ = 0;  ///< of a step with updates that the passes for the norm take
  std::deque<bool> last_;
};

}  // namespace troupe::gpu
