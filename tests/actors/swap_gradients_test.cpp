// ENG-11, SWP-17: stages of a pipeline, and micro-batches that are not done by layer, whose
// gradients wait on a drive for the next micro-batch and for their update, have the bits of the
// same layout in memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/swap/step_traffic.hpp"
#include "tests/actors/swapped_job.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::train::test {

namespace {

/// A job of several ranks, each with some micro-batches.
struct grid_shape {
  int data = 1, pipeline = 2;
  int64_t micro_batch = 2;
  swapped_job job = {};
  bool tied = true;
  int64_t micro_batches() const { return batch / data / micro_batch; }
};

std::string text_of_grid(const grid_shape& g) {
  return text_of_job(g.job) + " " + std::to_string(g.data) + "x" + std::to_string(g.pipeline) +
         (g.tied ? " tied" : "") + ", " + std::to_string(g.micro_batches()) + " micro-batches";
}

/// Of one rank, without where its stage lives.
engine_options grid_options(const grid_shape& g, int rank) {
  const auto kind =
      g.job.lamb ? gpu::optimizer_step_args::rule::lamb : gpu::optimizer_step_args::rule::adamw;
  const grid_rank at{{g.data, 1, g.pipeline}, rank};
  const auto place = at.place();
  auto o = options_for(static_cast<int>(place.data), g.data, kind, g.job.type);
  auto of_job = g.job;
  of_job.layers = 5 * g.pipeline;
  const auto replica = o.shape.replica;
  o = swap_engine_options(std::move(o), of_job);
  o.at = at;
  o.model.ffn = lamb_ffn;  // so that a layer has several groups
  o.model.tied = g.tied;
  auto shape = gpu::cut_stages(std::vector<int64_t>(static_cast<size_t>(g.pipeline),
                                                    5))[static_cast<size_t>(place.pipeline)];
  shape.micro_batch = g.micro_batch;
  shape.seq = seq;
  shape.compute = g.job.type;
  shape.slots = g.pipeline - place.pipeline;
  shape.recompute = g.job.recompute;
  shape.replica = replica;
  o.shape = std::move(shape);
  return o;
}

/// All state is on the drive, layers share two frames of weights and of gradients.
auto gradients_on_drive(const std::filesystem::path& folder, bool some_in_memory = false) {
  return [=](engine_options& o) {
    o.swap_dirs = {folder};
    auto& where = o.shape.where;
    where = gpu::least_residency(o.model, o.shape, steps_of(o));
    where.group_elements = lamb_group;
    where.groups_in_memory = 2;
    where.gradients_on_disk = true;
    for (auto& c : where.chunks) c.grad_frame = c.weight_frame;
    if (some_in_memory)  // the last layer's
      for (size_t c = where.chunks.size(); c-- > 0;)
        if (where.chunks[c].grad_frame >= 0) {
          where.chunks[c].grad_frame = -1;
          break;
        }
  };
}

/// The ranks of one, built and connected.
class grid_job {
 public:
  grid_job(const grid_shape& g, const settle_where& where) : shape_(g) {
    auto memory = batch_memory::create({batch, seq}, 1);
    REQUIRE(memory);
    batches_.emplace(std::move(*memory));
    for (int64_t i = 0; i < batch * seq; ++i) {
      batches_->slot(0)[i] = static_cast<int32_t>(i * i % 37);
      batches_->slot(0)[batch * seq + i] = static_cast<int32_t>((i + 1) * (i + 1) % 37);
    }
    for (int r = 0; r < g.data * g.pipeline; ++r) add(r, where);
    connect();
  }

  swapped_outcome train(int64_t steps) {
    swapped_outcome out;
    std::vector<gpu::phase_traffic> before(ranks_.size()), after(ranks_.size());
    for (int64_t step = 1; step <= steps; ++step) {
      std::vector<pending> updates(ranks_.size());
      for (size_t r = 0; r < ranks_.size(); ++r) enqueue(r, step, updates[r]);
      double loss = 0;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        const auto told = updates[r].get();
        loss += told.loss_sum;
        out.norms.push_back(told.grad_norm);
        if (!ranks_[r]->swap_facts()) continue;
        await_drive(*ranks_[r]);
        const auto facts = *ranks_[r]->swap_facts();
        before[r] = std::exchange(after[r], {facts.read_bytes, facts.written_bytes});
      }
      out.losses.push_back(loss);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      append_state(ranks_[r]->model()->store(), out.state);
      if (!ranks_[r]->swap_facts()) continue;
      CHECK(after[r].read_bytes - before[r].read_bytes == planned_[r].read_bytes);
      CHECK(after[r].written_bytes - before[r].written_bytes == planned_[r].written_bytes);
    }
    return out;
  }

 private:
  void add(int rank, const settle_where& where) {
    auto o = grid_options(shape_, rank);
    where(o);
    planned_.push_back(gpu::traffic_of_step(o.model, o.shape, steps_of(o)).whole());
    const auto first_row = o.at.place().data * (batch / shape_.data);
    auto made = replicas::plain(std::move(o));
    REQUIRE_MESSAGE(made, (made ? std::string() : render(made.error())));
    ranks_.push_back(std::move(*made));
    pending built;
    ranks_.back()->build(built.done());
    built.get();
    REQUIRE(ranks_.back()->attach({batches_->path(), batches_->slot_bytes(), 1, first_row}));
    auto offered = ranks_.back()->open_groups("127.0.0.1");
    REQUIRE(offered);
    offers_.push_back(std::move(*offered));
  }

  void connect() {
    std::vector<pending> connected(ranks_.size());
    for (size_t r = 0; r < ranks_.size(); ++r) {
      rank_engine::group_tables meant;
      for (const auto& own : offers_[r]) {
        meant.emplace_back(own.name, std::vector<std::string>());
        for (const auto& theirs : offers_)
          for (const auto& o : theirs)
            if (o.name == own.name)
              meant.back().second.push_back(o.addresses[static_cast<size_t>(own.rank)]);
      }
      ranks_[r]->connect_groups(meant, connected[r].done());
    }
    for (auto& c : connected) c.get();
  }

  /// 1F1B.
  void enqueue(size_t rank, int64_t step, pending& updated) {
    auto& engine = *ranks_[rank];
    const auto told = [](const status&) {};
    const grid_rank at{{shape_.data, 1, shape_.pipeline}, static_cast<int>(rank)};
    const auto count = static_cast<int>(shape_.micro_batches());
    const int slots = static_cast<int>(shape_.pipeline - at.place().pipeline);
    const auto number = static_cast<uint64_t>(step);
    engine.run({pipeline_op::begin}, {});
    int begun = 0;
    for (int done = 0; done < count; ++done) {
      for (; begun < std::min(count, done + slots); ++begun) {
        if (!at.first())
          engine.run({pipeline_op::receive_activation, begun, begun % slots, 0, false, number},
                     told);
        engine.run({pipeline_op::forward, begun, begun % slots, 0, false, number}, told);
      }
      if (!at.last())
        engine.run({pipeline_op::receive_gradient, done, done % slots, 0, false, number}, told);
      engine.run({pipeline_op::backward, done, done % slots, 0, done + 1 == count, number}, told);
    }
    engine.update(step, 1e-2, updated.outcome());
  }

  const grid_shape shape_;
  std::optional<batch_memory> batches_;
  std::vector<std::unique_ptr<rank_engine>> ranks_;
  std::vector<std::vector<group_offer>> offers_;
  std::vector<gpu::phase_traffic> planned_;
};

constexpr int64_t grid_steps = 3;

swapped_outcome train_grid(const grid_shape& g, const settle_where& where) {
  return grid_job(g, where).train(grid_steps);
}

/// Between the norms of its steps: some are clipped, some are not.
float clip_of_some(grid_shape g) {
  g.job.clip_norm = 0;
  auto norms = train_grid(g, in_memory).norms;
  std::sort(norms.begin(), norms.end());
  REQUIRE(norms.front() < norms.back());
  return static_cast<float>((norms.front() + norms.back()) / 2);
}

void has_bits_of_memory(const grid_shape& g) {
  scratch dir;
  CAPTURE(text_of_grid(g));
  const auto expected = train_grid(g, in_memory);
  CHECK(expected.losses.back() < expected.losses.front());
  CHECK(train_grid(g, gradients_on_drive(dir.path)) == expected);
  CHECK(train_grid(g, gradients_on_drive(dir.path, true)) == expected);
}

}  // namespace

TEST_CASE("ENG-11 SWP-17: stages whose gradients are on a drive have the bits of those in memory") {
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const bool lamb : {false, true})
      for (const bool tied : {true, false}) {
        grid_shape g{1, 2, 2, {.type = type, .recompute = lamb, .lamb = lamb}, tied};
        const auto some = clip_of_some(g);
        const std::vector<float> few{0, some}, all{0, 0.01f, some, 1000};
        for (const float clip : lamb ? few : all) {
          g.job.clip_norm = clip;
          has_bits_of_memory(g);
        }
      }
}

TEST_CASE("ENG-11 SWP-17: and so have stages with replicas, each of which stores its slice") {
  for (const bool lamb : {false, true})
    for (const float clip : {0.0f, 0.05f}) {
      grid_shape g{2, 2, 1, {.type = gpu::dtype::bf16, .clip_norm = clip, .lamb = lamb}};
      g.tied = !lamb;
      has_bits_of_memory(g);
    }
}

TEST_CASE("ENG-11 SWP-17: and micro-batches of one stage, updated under backward or behind it") {
  for (const int data : {1, 2})
    for (const bool llama : {false, true})
      for (const float clip : {0.0f, 0.05f}) {
        const grid_shape g{data, 1, 1, {.llama = llama, .clip_norm = clip}, !llama};
        has_bits_of_memory(g);
      }
}

TEST_CASE("ENG-11 SWP-17: gradients of one micro-batch may wait for the norm on a drive") {
  grid_shape g{1, 1, batch, {.clip_norm = 0.05f}};
  has_bits_of_memory(g);
}

}  // namespace troupe::train::test
