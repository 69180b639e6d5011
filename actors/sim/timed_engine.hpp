// The engine of a simulated rank: operations that take given times and do nothing else, one after
// another.
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

namespace troupe::sim {

class timed_engine : public train::engine {
 public:
  timed_engine(environment* room, int node, const train::engine_options& o)
      : room_(room),
        epoch_(o.epoch),
        ranks_(room->barrier_of(o.epoch, o.at.grid)),
        node_(node),
        at_(o.at),
        times_(room->times.of(o.at.place().pipeline)) {
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
  train::engine_facts facts() const override { return {1000, 16'000, {}}; }
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
  int64_t busy_for(int64_t ns, double watts) {
    const auto takes = static_cast<int64_t>(static_cast<double>(room_->about(ns)) * state().slow);
    const auto begin_ns = std::max(busy_until_ns_, now());
    busy_until_ns_ = begin_ns + takes;
    computed_ns_ += takes;
    room_->draw_of(rank()).works(begin_ns, busy_until_ns_, watts);
    return busy_until_ns_ - now();
  }

  void work(int64_t ns, double watts, completion done) {
    if (hangs(done)) return;
    later(busy_for(ns, watts), [done = std::move(done)] { done({}); });
  }
  void operate(int64_t ns, double watts, double& add_to_ms, completion done) {
    if (auto broken = failure(); !broken) return done(broken);
    add_to_ms += static_cast<double>(ns) / 1e6;
    work(ns, watts, std::move(done));
  }

  train::step_outcome outcome(int64_t step) const {
    train::step_outcome o;
    o.loss_sum = at_.last() ? 1000.0 / static_cast<double>(step + 100) : 0;
    o.grad_norm = 1;
    o.parts = {{train::pipeline_op::forward, forward_ms_, 0, 0},
               {train::pipeline_op::backward, backward_ms_, 0, 0}};
    return o;
  }

  /// The step ends for this rank when all have come to it.
  void meet_others(int64_t step, std::function<void(const status&)> then);

  environment* room_;
  uint64_t epoch_;
  std::shared_ptr<rank_barrier> ranks_;
  int node_;
  grid_rank at_;
  stage_timing times_;
  io::checkpoint::manifest_head head_;  ///< of what it saves
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  int64_t busy_until_ns_ = 0, computed_ns_ = 0;
  double forward_ms_ = 0, backward_ms_ = 0;
  std::vector<std::shared_ptr<void>> never_;
};

}  // namespace troupe::sim
