// The engine of a simulated rank: operations that take given times and do nothing else, one after
// another. They are told as the parts of a step by the clock of the real one (step_parts.hpp): what
// is waited for the others at the step's end is waited before the update is whole, and beside it,
// where there are replicas, they gather its weights, which takes until the last of them has come.
// One whose operations have clocks of their own is in clocked_engine.hpp.
//
// Invariants
//   TEN-1  A loss follows from the step's number, and from its micro-batches: what a step computes
//     are sums of floats, so one that goes forth or back out of its turn, twice or not at all makes
//     it another one, whatever clocks the operations had (SIM-39).
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/sim/environment.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/step_clock.hpp"

namespace troupe::sim {

class timed_engine : public train::engine {
 public:
  timed_engine(environment* room, int node, const train::engine_options& o)
      : room_(room),
        epoch_(o.epoch),
        ranks_(room->barrier_of(o.epoch, o.at.grid)),
        node_(node),
        at_(o.at),
        times_(room->times.of(o.at.place().pipeline)),
        micro_batch_tokens_(static_cast<uint64_t>(o.shape.micro_batch * o.shape.seq)) {
    head_.job = o.job;
    head_.epoch = o.epoch;
    head_.layout = at_.grid;
    head_.slot_bytes = o.checkpoint_slot_bytes;
    room_->draw_of(rank()).stops(now());  // what it did for the engine before this one
  }

  /// Its sockets close, which the other ranks notice; those of a host that has gone do not.
  ~timed_engine() override {
    if (room_->where.fell_silent(node_)) return;
    room_->where.clock().call_at(now() + 1'000'000, [group = ranks_] { group->fail(); });
  }

  void set_probe(train::engine_probe*) noexcept override {}
  void set_cause(uint64_t, uint64_t) noexcept override {}

  void build(completion done) override {
    work(room_->times.build_ns, room_->draw.other_w, std::move(done));
  }
  train::engine_facts facts() const override { return {parameters, 16'000, {}}; }
  uint64_t computed_us() const override { return static_cast<uint64_t>(computed_ns_ / 1000); }
  status attach(const train::batch_source&) override { return {}; }

  result<std::vector<train::group_offer>> open_groups(const std::string&) override;
  void connect_groups(group_tables tables, completion done) override;

  void run(const train::op_order& order, completion done) override;
  void update(int64_t step, double lr, outcome_completion done) override;
  void finish_evaluation(outcome_completion done) override;

  void load(std::string folder, bool optimizer, completion done) override;
  void save(uint64_t step, const std::filesystem::path& partial, bool last,
            gpu::state_saver::completion done) override;
  std::optional<gpu::saver_facts> saver_facts() const override { return std::nullopt; }

  void abort() noexcept override {}

 protected:
  static constexpr uint64_t parameters = 1000;

  uint32_t rank() const { return static_cast<uint32_t>(at_.rank); }
  const io::checkpoint::rank_plan& share() const {
    return room_->plans.at(at_.grid.data).at(rank());
  }
  int64_t now() const { return room_->where.now_ns(); }
  device_fault state() const {
    const auto it = room_->device_faults.find(rank());
    return it == room_->device_faults.end() ? device_fault{} : it->second;
  }

  /// A failure of the device, told once.
  status failure() {
    if (!state().fails) return {};
    room_->device_faults[rank()].fails = false;
    return error{errc::io, "the device reports an uncorrectable error"};
  }

  template <class F>
  void later(int64_t delay_ns, F then) {
    room_->where.after(delay_ns, node_, alive_, std::move(then));
  }

  /// Of what is called, nothing is heard any more. Kept: a promise that is let go is an answer.
  template <class Completion>
  bool hangs(Completion& done) {
    if (!state().hangs) return false;
    never_.push_back(std::make_shared<Completion>(std::move(done)));
    return true;
  }

  /// How long the device takes from now, drawing so many watts: it does one thing after another.
  int64_t busy_for(int64_t ns, double watts, train::pipeline_op kind = train::pipeline_op::count) {
    const auto takes = static_cast<int64_t>(slowed(static_cast<double>(room_->about(ns)), kind));
    const auto begin_ns = std::max(busy_until_ns_, now());
    busy_until_ns_ = begin_ns + takes;
    computed_ns_ += takes;
    room_->draw_of(rank()).works(begin_ns, busy_until_ns_, watts);
    return busy_until_ns_ - now();
  }
  /// The same, as an operation of the step.
  int64_t busy_for(int64_t ns, double watts, train::pipeline_op kind, uint64_t amount) {
    const auto begin_ns = std::max(busy_until_ns_, now());
    const auto takes = busy_for(ns, watts, kind);
    note(kind, begin_ns, busy_until_ns_, amount);
    return takes;
  }
  uint64_t tokens_of(int micro_batches) const {
    return static_cast<uint64_t>(micro_batches) * micro_batch_tokens_;
  }
  static double in_ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }
  void note(train::pipeline_op kind, int64_t begin_ns, int64_t end_ns, uint64_t amount) {
    clock_.began(kind, in_ms(begin_ns));
    clock_.ended(kind, in_ms(end_ns), amount);
  }

  virtual void begin_pass(const train::op_order&) {
    clock_.begin_step(in_ms(now()));
    turns_ = {};
  }
  /// What begins now, as long as its device and its machine take for it.
  double slowed(double ns, train::pipeline_op kind) const {
    return ns * state().slow * room_->times.slowness_of(node_) *
           room_->paces.times(node_, kind, step_, now());
  }
  /// `then` when the device has done that behind what it does; kind count: of no step.
  virtual void occupy(int64_t ns, double watts, train::pipeline_op kind, uint64_t amount,
                      std::function<void()> then);

  void work(int64_t ns, double watts, completion done) {
    if (hangs(done)) return;
    occupy(ns, watts, train::pipeline_op::count, 0, [done = std::move(done)] { done({}); });
  }
  void operate(const train::op_order& order, int64_t ns, double watts, completion done) {
    if (auto broken = failure(); !broken) return done(broken);
    if (hangs(done)) return;
    occupy(order.micro_batches * ns, watts, order.kind, tokens_of(order.micro_batches),
           [this, order, done = std::move(done)] {
             turns_.ended(order);
             done({});
           });
  }

  /// What came of the clocks of its operations.
  virtual void put_clocks(train::step_outcome&) {}
  /// With the parts since the last one.
  train::step_outcome outcome(int64_t step) {
    train::step_outcome o;
    o.loss_sum = at_.last() ? 1000.0 / static_cast<double>(step + 100) : 0;
    if (step > 0) o.loss_sum += turns_.odd();  // TEN-1
    o.grad_norm = 1;
    o.parts = clock_.take();
    put_clocks(o);
    return o;
  }

  /// Of the micro-batches of a pass, in the order in which they have been through.
  class micro_batch_turns {
   public:
    void ended(const train::op_order& order) {
      const bool is_forth = train::facts_of(order.kind).releases == train::op_partner::next;
      auto& next = is_forth ? forth_ : back_;
      odd_ += order.micro_batch == next ? 0 : 1;
      next = order.micro_batch + order.micro_batches;
    }
    /// How many were out of their turn, or are missing in one of both.
    int odd() const { return odd_ + (forth_ == back_ ? 0 : 1); }

   private:
    int forth_ = 0, back_ = 0, odd_ = 0;
  };

  /// The step ends for this rank when all have come to it.
  void meet_others(int64_t step, std::function<void(const status&)> then);
  void note_meeting(int64_t came_ns, int64_t replicas_came_ns);
  static status left_group();

  environment* room_;
  uint64_t epoch_;
  std::shared_ptr<rank_barrier> ranks_;
  int node_;
  grid_rank at_;
  stage_timing times_;
  uint64_t micro_batch_tokens_;
  io::checkpoint::manifest_head head_;  ///< of what it saves
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  int64_t busy_until_ns_ = 0, computed_ns_ = 0;
  uint64_t step_ = 0;  ///< that it is at
  micro_batch_turns turns_;
  train::step_clock clock_;
  std::vector<std::shared_ptr<void>> never_;
};

}  // namespace troupe::sim
