// What lies in frames and in the file of spilled activations while somebody carries out a
// spill_policy's operations, and whether each of them may be done when it is: order_watch.hpp's
// sibling, on the same machines.
//
// Bytes are numbers of passes: what a forward pass has made is told from what any other has, of the
// same record or another.
//
// Invariants that are looked after, beside those of spill_policy.hpp
//   SPW-1  A record is read when all of it was written, by its latest forward pass: none is torn,
//          of an earlier pass or of another micro-batch.
//   SPW-2  A frame holds one thing at a time: nothing else comes into it while somebody computes in
//          it, reads into it or writes out of it.
//   SPW-3  At a step's end nobody has a frame, and nothing waits for its backward pass.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/swap/order_watch.hpp"
#include "gpu/swap/spill_policy.hpp"

namespace troupe::gpu {

/// The spilled activations of a stage that trains by a policy's orders.
class spill_watch {
 public:
  /// `machine` outlives it.
  spill_watch(std::vector<int> frame_of_record, order_machine& machine);

  /// What went wrong first; empty: nothing.
  const std::string& wrong() const { return wrong_; }

  /// A forward pass, which takes so long. `keeps`: a backward pass follows, and it spills.
  void forward(int record, bool keeps = true, int64_t takes = 0);
  /// The one that uses what the latest forward pass of the record has made.
  void backward(int record, int64_t takes = 0);
  /// Whether there is such a one to make.
  bool awaits_backward(int record) const { return made_[static_cast<size_t>(record)] != none; }

  /// SPW-3; when the compute lane has come to the end of a step.
  void check_step_over();

 private:
  static constexpr int none = -1, torn = -2;

  struct frame_model {
    int record = none, number = none;  ///< of the pass that made what is in it
    int writes = 0;                    ///< of the drive, out of it
    bool computes = false, fills = false;
    bool eaten = false;  ///< by backward, which nobody reads it behind
    bool idle() const { return writes == 0 && !computes && !fills; }
  };

  void check(bool good, std::string_view what);
  frame_model& frame_of(int record) {
    return frames_[static_cast<size_t>(policy_.frame_of(record))];
  }
  int& in_file(int record) { return file_[static_cast<size_t>(record)]; }
  int& made(int record) { return made_[static_cast<size_t>(record)]; }
  int& awaited(int record) { return awaited_[static_cast<size_t>(record)]; }

  void enqueue(const spill_op& op, watched_op out);
  void carry_out(const spill_policy::ops& ops);
  void writing(watched_op& out, int record);
  void reading(watched_op& out, int record);

  order_machine& machine_;
  spill_policy policy_;
  std::vector<frame_model> frames_;
  std::vector<int> file_;     ///< by record: the pass that made what is there
  std::vector<int> made_;     ///< by record: the latest pass whose backward was not asked for
  std::vector<int> awaited_;  ///< by record: the latest pass that is over and whose backward is not
  std::map<std::pair<int, int>, size_t> points_;  ///< who marked each last
  int passes_ = 0;
  std::string wrong_;
};

}  // namespace troupe::gpu
