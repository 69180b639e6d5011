// Which drill of a job (io/config/drills.hpp) acts when: in the head, which counts and tells, and
// in the process of a rank, which does it.
//
// A drill falls due in from_step, and with `every` in each so many steps after it. It acts in the
// first making of such a step and in no other: a job that recovers makes the step again without it,
// or it would lose the same node for ever. Whether a step is made for the first time is known to
// the head alone, for the process that makes it may be a new one. So the head keeps the furthest
// step that it ordered, and a rank that is built, in whatever epoch, is given what is left by then
// of the drills that are its own: those that fall due later, `from_step` set to their next step.
// What is left to come needs no memory, nor does a rank.
//
// The launch counts, not the job: one that goes on from a checkpoint by a new `troupe up` makes its
// drills again, from the step behind the checkpoint. A head that goes on for a lost one counts on
// from the step behind the last that was told of: that one may have been ordered, and what acted
// must not act again. A drill of just that step may then be left out.
//
// Pure.
//
// Invariants
//   DRL-1  A drill acts at most once for each step that it falls due in, however often that is
//     made.
//   DRL-2  What falls due behind the furthest step is done in every epoch: a recovery leaves out
//     nothing of it.
//   DRL-3  A rank is given drills of its own number, and of the node that it is on then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/config/job.hpp"

namespace troupe::train {

class drill_policy {
 public:
  drill_policy() = default;
  /// `furthest`: the greatest step that was ordered before.
  explicit drill_policy(std::vector<config::drill_spec> drills, uint64_t furthest = 0)
      : drills_(std::move(drills)), furthest_(furthest) {}

  /// A step is ordered: which drills act, as indices into those given.
  std::vector<size_t> begin_step(uint64_t step);

  /// What is left for a rank that is built now (DRL-3).
  std::vector<config::drill_spec> left_for(int rank, const std::string& node) const;

  const std::vector<config::drill_spec>& all() const noexcept { return drills_; }

 private:
  std::vector<config::drill_spec> drills_;
  uint64_t furthest_ = 0;
};

/// Whether it is told that a drill acts in this step: of one that acts in each, the first.
inline bool is_told(const config::drill_spec& drill, uint64_t step) {
  return drill.every != 1 || step == static_cast<uint64_t>(drill.from_step);
}

}  // namespace troupe::train
