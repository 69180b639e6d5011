// When the device of a stage is to be asked for which clock, while a step goes: by the order of its
// operations, their clocks and how long they last at them.
//
// A lower clock is asked for when the last operation at a higher one has ended: what follows may
// begin at once, and does so at the higher clock until the lower is there. A higher clock is asked
// for ahead of the operation that needs it, by what setting takes: the end of the one before it
// runs faster than it had to.
//
// Invariants
//   SCP-1  Where devices keep to their times, no operation begins at a lower clock than its own:
//     whatever is early or late costs energy, not time.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace troupe::gpu::controls {

/// An operation of a stage, in the order in which they run.
struct clocked_operation {
  int mhz = 0;
  double lasts_s = 0;     ///< at that clock
  double shortest_s = 0;  ///< at the highest
  bool operator==(const clocked_operation&) const = default;
};

class stage_clocks_policy {
 public:
  /// A wish is asked for `after_s` from now.
  struct wish {
    int mhz = 0;
    double after_s = 0;
    bool operator==(const wish&) const = default;
  };

  /// At least one operation, which begin anew with each step; a change of clock takes `set_s`.
  stage_clocks_policy(std::vector<clocked_operation> order, double set_s);

  /// The clock of the first operation: what is asked for before a step.
  int first_mhz() const { return order_.front().mhz; }
  int mhz_of(size_t i) const { return order_[i].mhz; }
  size_t size() const { return order_.size(); }
  /// How many times as long it takes as at the highest clock.
  double times_of(size_t i) const { return order_[i].lasts_s / order_[i].shortest_s; }
  bool operator==(const stage_clocks_policy&) const = default;
  /// The i-th operation begins.
  std::optional<wish> began(size_t i) const;
  /// It has ended.
  std::optional<wish> ended(size_t i) const;

 private:
  const clocked_operation& after(size_t i) const { return order_[(i + 1) % order_.size()]; }
  double lead_s(size_t i) const;

  std::vector<clocked_operation> order_;
  double set_s_;
};

}  // namespace troupe::gpu::controls
