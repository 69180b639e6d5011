// The engine of a simulated rank whose operations have clocks of their own (power.slack): it asks
// its device for them as the real one does (gpu/controls/operation_clocks.hpp), by the same policy,
// on virtual time.
//
// The device (slack/slack_device.hpp) follows a wish some time later, one change after the other,
// of several wishes the newest; what is left of the operation under way is stretched, or is done
// sooner, and its watts are those of the clock that it has. Faults make it late, have it refuse a
// clock, or say that it has one and run at its lowest (clock_fault).
//
// Invariants
//   CLE-1  Operations begin one after another, as they were ordered, at the clock that the device
//     has then; how long one takes follows from the clocks that it had meanwhile.
//   CLE-2  A pass without a table, and what comes behind the last operation of one, has the highest
//     clock asked for, but where the table holds (OCL-2). An update's time follows no clock.
//   CLE-3  A device that refuses a clock is let go: it has its highest, is asked for no other, and
//     that is told with each step (CKS-3).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "actors/sim/slack/slack_device.hpp"
#include "actors/sim/timed_engine.hpp"

namespace troupe::sim {

class clocked_engine final : public timed_engine {
 public:
  clocked_engine(environment* room, int node, const train::engine_options& o)
      : timed_engine(room, node, o), device_(room->clocks.highest_mhz) {}

  train::engine_facts facts() const override;

 protected:
  void begin_pass(const train::op_order& order) override;
  void occupy(int64_t ns, double watts, train::pipeline_op kind, uint64_t amount,
              std::function<void()> then) override;
  void put_clocks(train::step_outcome& into) override;

 private:
  struct operation {
    train::pipeline_op kind;
    uint64_t amount;
    std::vector<power::clock_row> rows;
    double jitter;  ///< times as long
    std::function<void()> then;
  };

  static bool has_clock(train::pipeline_op kind) {
    return kind == train::pipeline_op::forward || kind == train::pipeline_op::backward;
  }
  double now_s() const { return static_cast<double>(now()) / 1e9; }
  /// Now, or when what is under way has ended: a process that stood still hears of it later.
  double done_s() const { return device_.works() ? std::min(now_s(), device_.ends_s()) : now_s(); }
  const clock_fault& fault() const { return room_->clock_faults[rank()]; }
  size_t operations() const { return table_ ? table_->size() - 1 : 0; }

  void begin_next();
  void draw();
  void ended();
  void began_clocked();
  void ended_clocked();
  void ask(int mhz, double after_s = 0);
  void wish(int mhz);
  void await_setting();
  void set();
  void count_joules();

  slack_device device_;
  std::deque<operation> ordered_;  ///< the first is under way
  bool holds_ = false;             ///< until what keeps the device from it is over
  int64_t began_ns_ = 0;
  double told_j_ = 0, told_busy_s_ = 0;   ///< of the device, in environment::clocked_j
  gpu::controls::clock_table_ptr table_;  ///< of the pass
  bool counts_ = false;                   ///< what begins too low (OCL-3)
  size_t begun_ = 0;                      ///< operations of the pass
  uint64_t late_ = 0, wishes_ = 0;
  bool failed_ = false;  ///< CLE-3
};

}  // namespace troupe::sim
