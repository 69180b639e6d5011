// The clocks of a rank's operations while a step goes: told of each as it begins and ends, on the
// thread of the stream that does them, it asks for the clocks that stage_clocks_policy says, and
// counts what began at a lower one than its own.
//
// Invariants
//   OCL-1  No call waits for the device's clock (CKS-1). All but take_late(), has_failed() and
//     given_back_to() come from one thread: that of the stream which tells of its operations.
//   OCL-2  A pass without a table, and what comes behind the last operation of one, runs at the
//     highest clock: what updates weights, saves and checks them has no slack. A table that holds
//     keeps its last clock until the next pass: what a clock costs is measured by whole steps.
//   OCL-3  What began too low counts as late but in the first pass of a table: its clocks are asked
//     for as that begins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gpu/controls/clock_setter.hpp"
#include "gpu/controls/stage_clocks_policy.hpp"

namespace troupe::gpu::controls {

/// The operations of a step at one rank, in their order, and behind them what has no slack.
using clock_table_ptr = std::shared_ptr<const stage_clocks_policy>;
/// One operation at least; a change of clock takes `set_s`. OCL-2
clock_table_ptr clock_table_of(std::vector<clocked_operation> operations, double set_s,
                               bool holds = false);

class operation_clocks {
 public:
  explicit operation_clocks(std::shared_ptr<actuator> control,
                            std::function<void(const error&)> failed = {},
                            const clock_setter_terms& terms = {},
                            std::function<void(const std::string&)> noted = {})
      : setter_(std::move(control), std::move(failed), terms, std::move(noted)) {}

  /// A pass begins; null: at the highest clocks. OCL-2
  void begin_pass(clock_table_ptr table);
  /// The next of the table's operations.
  void began();
  void ended();

  /// Since it was asked last.
  uint64_t take_late() { return late_.exchange(0); }
  bool has_failed() const { return setter_.has_failed(); }
  unsigned given_back_to() const { return setter_.given_back_to(); }

 private:
  bool is_of_one_thread();
  size_t operations() const { return table_ ? table_->size() - 1 : 0; }
  void ask(const stage_clocks_policy::wish& w);

  std::thread::id thread_;  ///< OCL-1; none: nobody called yet
  clock_table_ptr table_;
  bool counts_ = false;  ///< OCL-3
  size_t begun_ = 0;
  std::atomic<uint64_t> late_ = 0;
  clock_setter setter_;
};

}  // namespace troupe::gpu::controls
