// Replicas of a job in one process, each with an engine of its own, for tests.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/train/rank_engine.hpp"
#include "actors/train/swap_folder.hpp"

namespace troupe::train::test {

inline constexpr int64_t batch = 6, seq = 8;

inline model_config small_model() {
  model_config m;
  m.layers = 2;
  m.hidden = 16;
  m.heads = m.kv_heads = 2;
  m.head_width = 8;
  m.ffn = 24;
  m.vocab = 37;
  m.max_positions = seq;
  return m;
}

inline engine_options options_for(int rank, int ranks, gpu::optimizer_step_args::rule kind,
                                  gpu::dtype type) {
  engine_options o;
  o.at = {{ranks, 1, 1}, rank};
  o.model = small_model();
  o.shape = gpu::whole_model(o.model, batch / ranks, seq, type);
  o.shape.replica = {rank, ranks};
  o.optimizer.kind = kind;
  o.batch = batch;
  o.seed = 3;
  o.checkpoint_slot_bytes = 4096;
  o.checkpoint_ring_bytes = 1 << 20;
  return o;
}

/// A call that completes later.
class pending {
 public:
  rank_engine::completion done() {
    return [p = promise_](const status& s) { p->set_value(s); };
  }
  std::function<void(const status&, step_outcome)> outcome() {
    return [p = promise_, into = outcome_](const status& s, step_outcome o) {
      *into = o;
      p->set_value(s);
    };
  }
  /// Waits for it, which must be good.
  step_outcome get() {
    const auto s = future_.get();
    REQUIRE_MESSAGE(s, (s ? std::string() : render(s.error())));
    return *outcome_;
  }
  /// Waits for it, which must fail.
  error why() {
    const auto s = future_.get();
    REQUIRE_FALSE(s);
    return s.error();
  }
  bool within(std::chrono::milliseconds time) const {
    return future_.wait_for(time) == std::future_status::ready;
  }

 private:
  std::shared_ptr<std::promise<status>> promise_ = std::make_shared<std::promise<status>>();
  std::shared_ptr<step_outcome> outcome_ = std::make_shared<step_outcome>();
  std::future<status> future_ = promise_->get_future();
};

/// All replicas of a job, built and connected.
struct replicas {
  std::optional<batch_memory> batches;
  std::vector<std::vector<std::string>> offered;  ///< addresses, by rank, then by whom they are for
  std::vector<std::unique_ptr<rank_engine>> ranks;
  double norm = 0;  ///< of the last step(): what all of them say

  using maker = std::function<result<std::unique_ptr<rank_engine>>(const engine_options&)>;
  /// With a swap folder of its own where its options ask for one.
  static result<std::unique_ptr<rank_engine>> plain(engine_options o) {
    if (o.shape.where.any_on_disk() && !o.swap_dirs.empty()) {
      TROUPE_TRY(opened, open_swap_alone(o));
      o.swap = std::move(opened);
    }
    return rank_engine::make(o);
  }

  explicit replicas(int count,
                    gpu::optimizer_step_args::rule kind = gpu::optimizer_step_args::rule::adamw,
                    gpu::dtype type = gpu::dtype::f32, const maker& make = plain,
                    bool connects = true) {
    auto memory = batch_memory::create({batch, seq}, 1);
    REQUIRE(memory);
    batches.emplace(std::move(*memory));
    for (int64_t i = 0; i < batch * seq; ++i) {
      batches->slot(0)[i] = static_cast<int32_t>(i * i % 37);
      batches->slot(0)[batch * seq + i] = static_cast<int32_t>((i + 1) * (i + 1) % 37);
    }
    for (int r = 0; r < count; ++r) {
      auto made = make(options_for(r, count, kind, type));
      REQUIRE(made);
      ranks.push_back(std::move(*made));
      pending built;
      ranks.back()->build(built.done());
      built.get();
      REQUIRE(
          ranks.back()->attach({batches->path(), batches->slot_bytes(), 1, r * (batch / count)}));
      auto offers = ranks.back()->open_groups("127.0.0.1");
      REQUIRE(offers);
      for (auto& o : *offers) offered.push_back(o.addresses);
    }
    if (!connects) return;
    for (auto& c : connect()) c.get();
  }

  /// All at once; by rank.
  std::vector<pending> connect() {
    std::vector<pending> connected(ranks.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      rank_engine::group_tables meant{{"data/0", {}}};
      for (const auto& from : offered) meant.front().second.push_back(from[r]);
      ranks[r]->connect_groups(meant, connected[r].done());
    }
    return connected;
  }

  pending forward(size_t rank, uint64_t step = 0) {
    pending out;
    ranks[rank]->run({pipeline_op::begin}, {});
    ranks[rank]->run({pipeline_op::forward, 0, 0, 0, false, step}, out.done());
    return out;
  }

  /// Everything of a step behind forward.
  pending finish(size_t rank, int64_t step) {
    ranks[rank]->run({pipeline_op::backward, 0, 0, 0, true}, [](const status&) {});
    pending out;
    ranks[rank]->update(step, 1e-2, out.outcome());
    return out;
  }

  /// The step that a call of update() has finished, or another one where its updates were dropped.
  step_outcome updated(size_t rank, int64_t step, pending& first) {
    auto out = first.get();
    if (!out.again) return out;
    pending second;
    ranks[rank]->update(step, 1e-2, second.outcome());
    out = second.get();
    CHECK_FALSE(out.again);
    return out;
  }

  /// The same of all ranks, which meet in what is made again.
  std::vector<step_outcome> updated(int64_t step, std::vector<pending>& firsts) {
    std::vector<step_outcome> out;
    for (auto& first : firsts) out.push_back(first.get());
    std::vector<std::optional<pending>> seconds(out.size());
    for (size_t r = 0; r < out.size(); ++r)
      if (out[r].again) ranks[r]->update(step, 1e-2, seconds[r].emplace().outcome());
    for (size_t r = 0; r < out.size(); ++r) {
      if (!seconds[r]) continue;
      out[r] = seconds[r]->get();
      CHECK_FALSE(out[r].again);
    }
    return out;
  }

  /// The loss of one step of all.
  double step(int64_t number) {
    std::vector<pending> updates;
    for (size_t r = 0; r < ranks.size(); ++r) {
      forward(r, static_cast<uint64_t>(number));
      updates.push_back(finish(r, number));
    }
    double loss = 0;
    const auto all = updated(number, updates);
    for (size_t r = 0; r < ranks.size(); ++r) {
      const auto& told = all[r];
      loss += told.loss_sum;
      if (r == 0) norm = told.grad_norm;
      CHECK(told.grad_norm == norm);
    }
    return loss / static_cast<double>(batch * seq);
  }

  std::vector<double> steps(int64_t last) {
    std::vector<double> out;
    for (int64_t n = 1; n <= last; ++n) out.push_back(step(n));
    return out;
  }
};

}  // namespace troupe::train::test
