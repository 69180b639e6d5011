// Engines whose steps overlap more or less: see the header.
#include "apps/bench/swap_trainer.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>

#include <fmt/format.h>
#include <xxhash.h>

#include "actors/train/rank_engine.hpp"
#include "actors/train/swap_folder.hpp"
#include "apps/bench/swap_phased.hpp"
#include "apps/bench/told.hpp"
#include "gpu/back_end.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps::swap_bench {

namespace {

using train::pipeline_op;
using clock = std::chrono::steady_clock;

constexpr float never_clips = 1e30f;

/// A rank's engine, less what the way does without.
class way_engine final : public train::rank_engine {
 public:
  static result<std::unique_ptr<train::rank_engine>> make(way of,
                                                          const train::engine_options& options) {
    std::unique_ptr<way_engine> out(new way_engine(of, options));
    TROUPE_TRY(device, gpu::open_device(options.device, options.threads));
    TROUPE_CHECK(out->open(std::move(device)));
    return std::unique_ptr<train::rank_engine>(std::move(out));
  }

 protected:
  /// Of `sync` nothing that moves overlaps with anything else.
  void enqueue(gpu::stream& s, pipeline_op kind, const std::function<void()>& work) override {
    using enum pipeline_op;
    const bool moves = kind == read_weights || kind == read_state || kind == update_chunk ||
                       kind == write_chunk || kind == write_activation || kind == read_activation;
    if (of_ != way::sync || !moves) return work();
    s.wait(compute().record());
    work();
    compute().wait(s.record());
  }

  io::swap_io_options swap_io_options() const override {
    io::swap_io_options out;
    out.mixes = of_ != way::turns;
    return out;
  }
  bool tries_duplex() const override { return false; }

 private:
  way_engine(way of, train::engine_options options) : rank_engine(std::move(options)), of_(of) {}

  way of_;
};

/// In training by way of its engine.
class engine_trainer final : public trainer {
 public:
  explicit engine_trainer(train::engine_options options) : trainer(std::move(options)) {}
  ~engine_trainer() override {
    static_cast<void>(await_vote());
    static_cast<void>(begin_removal());
    static_cast<void>(await_removal());
    if (kept_ > 0)
      static_cast<void>(io::remove_from_scratch(options_.checkpoint_folder, name_of(kept_)));
  }

  status open(way w) {
    saves_ = w == way::saving;
    TROUPE_TRY(engine, way_engine::make(w, options_));
    engine_ = std::move(engine);
    told<status> built;
    engine_->build(built);
    TROUPE_CHECK(built.wait());
    const auto tokens = options_.shape.tokens();
    TROUPE_TRY(batches, train::batch_memory::create({1, tokens}, 1));
    for (int64_t i = 0; i < 2 * tokens; ++i)
      batches.slot(0)[i] = token_at(static_cast<size_t>(i), options_.model.vocab);
    batches_.emplace(std::move(batches));
    return engine_->attach({batches_->path(), batches_->slot_bytes(), batches_->slots(), 0});
  }

  moved_bytes moved() const override {
    const auto facts = engine_->swap_facts();
    if (!facts) return {};
    const auto saved = engine_->saver_facts();
    return {facts->read_bytes,
            facts->written_bytes + (saves_ && saved ? saved->flusher.durable_bytes : 0)};
  }
  uint64_t redone_steps() const override {
    const auto facts = engine_->swap_facts();
    return facts ? facts->redone_steps : 0;
  }
  std::string cached() const override { return why_cached(engine_->facts().notes); }

 protected:
  gpu::parameter_store& store() override { return engine_->model()->store(); }

  status step() override {
    TROUPE_CHECK(begin_removal());
    engine_->run({pipeline_op::begin}, {});
    engine_->run({pipeline_op::forward, 0, 0, 0}, [](const status&) {});
    engine_->run({pipeline_op::backward, 0, 0, 0, true}, [](const status&) {});
    ++steps_;
    auto done = update();
    if (done.first && done.second.again) done = update();
    TROUPE_CHECK(done.first);
    loss_ = done.second.loss_sum / static_cast<double>(options_.shape.tokens());
    return saves_ ? save() : status{};
  }

  status settle() override {
    TROUPE_CHECK(trainer::settle());
    TROUPE_CHECK(await_vote());
    return await_removal();  // nothing of it falls into whatever is measured next
  }

 private:
  using vote = result<io::checkpoint::shard_facts>;

  std::pair<status, train::step_outcome> update() {
    told<std::pair<status, train::step_outcome>> ended;
    engine_->update(steps_, rate, [ended](const status& s, train::step_outcome o) {
      ended({s, std::move(o)});
    });
    return ended.wait();
  }

  std::string name_of(int64_t step) const { return fmt::format("step-{}", step); }

  /// By links, while the next step goes on; the one before it has its vote by then, and what that
  /// one replaced is gone, as a job's is (the committer removes it beside the step).
  status save() {
    TROUPE_CHECK(await_vote());
    TROUPE_CHECK(begin_removal());
    TROUPE_CHECK(await_removal());
    voted_.emplace();
    const auto step = static_cast<uint64_t>(steps_);
    engine_->save(step, options_.checkpoint_folder / name_of(steps_), false,
                  [told = *voted_](const vote& v) { told(v ? status{} : status(v.error())); });
    saved_ = steps_;
    return {};
  }

  status await_vote() {
    if (!voted_) return {};
    const auto outcome = voted_->wait();
    voted_.reset();
    TROUPE_CHECK(outcome);
    expired_ = std::exchange(kept_, saved_);
    return {};
  }

  /// Of the checkpoint before the newest, if that is still there.
  status begin_removal() {
    TROUPE_CHECK(await_removal());
    const auto step = std::exchange(expired_, 0);
    if (step == 0) return {};
    removed_ = std::async(std::launch::async,
                          [folder = options_.checkpoint_folder, name = name_of(step)] {
                            return io::remove_from_scratch(folder, name);
                          });
    return {};
  }

  status await_removal() { return removed_.valid() ? removed_.get() : status{}; }

  std::unique_ptr<train::rank_engine> engine_;
  std::optional<train::batch_memory> batches_;
  bool saves_ = false;
  std::optional<told<status>> voted_;  ///< of a checkpoint under way
  int64_t saved_ = 0, kept_ = 0;       ///< steps of that one, and of the one that is there
  int64_t expired_ = 0;                ///< the one before that
  std::future<status> removed_;        ///< of what has expired
};

/// ... behind what the step of `ours` moves (PHW-1).
void add_gradients(gpu::step_traffic& of, const train::engine_options& o) {
  const auto chunks = gpu::stage_chunks(o.model, o.shape);
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (!o.shape.where.of(static_cast<int>(c)).state_on_disk) continue;
    const auto bytes = gpu::frame_size(static_cast<size_t>(chunks[c].count) * sizeof(float));
    of.backward.read_bytes += bytes;
    of.backward.written_bytes += bytes;
  }
}

/// One slot, and one frame of weights: the next is read when that one is not used any more.
void take_read_ahead(gpu::residency& where) {
  where.groups_in_memory = 1;
  for (auto& c : where.chunks) c.weight_frame = std::min(c.weight_frame, 0);
}

/// What is read and written past the page cache comes in whole blocks of memory: so frames.
void frame_gradients(gpu::residency& where) {
  int next = 0;
  for (const auto& c : where.chunks) next = std::max(next, c.grad_frame + 1);
  for (auto& c : where.chunks)
    if (c.state_on_disk && c.grad_frame < 0) c.grad_frame = next++;
}

}  // namespace

int32_t token_at(size_t i, int64_t vocab) {
  return static_cast<int32_t>((i * 7919 + 17) % static_cast<size_t>(vocab));
}

std::string why_cached(const std::vector<std::string>& notes) {
  for (const auto& note : notes)
    if (note.find("page cache") != std::string::npos) return note;
  return {};
}

train::engine_options options_of(const swap_plan& plan) {
  train_plan what;
  what.model = plan.model;
  what.layers = plan.layers;
  what.batch = 1;
  what.seq = plan.tokens;
  train_shape shape;
  if (plan.of_job) {
    shape.model = *plan.of_job;
    if (plan.layers > 0) shape.model.layers = plan.layers;
    shape.model.max_positions = std::max(shape.model.max_positions, plan.tokens);
  } else {
    shape = shape_of(what);
  }
  train::engine_options o;
  o.model = shape.model;
  o.shape = gpu::whole_model(shape.model, 1, plan.tokens,
                             plan.dtype == "bf16" ? gpu::dtype::bf16 : gpu::dtype::f32);
  o.shape.recompute = plan.recompute;
  o.device = plan.device;
  o.optimizer.clip_norm = static_cast<float>(plan.clip_norm);
  o.batch = 1;
  o.seed = 1;
  return o;
}

result<gpu::residency> residency_of(way w, const swap_plan& plan, const train::engine_options& o) {
  if (w == way::inmem) return gpu::residency{};
  gpu::residency_budget budget{plan.host_bytes, plan.clip_norm > 0, 1};
  if (w == way::derived) budget.weights = gpu::weights_choice::derived;
  auto where = gpu::least_residency(o.model, o.shape, budget);
  if (plan.host_bytes > 0) {
    TROUPE_TRY(chosen, gpu::plan_residency(o.model, o.shape, budget));
    where = std::move(chosen);
  }
  if (w == way::behind)
    for (auto& c : where.chunks) c.grad_frame = -1;
  if (w == way::noahead) take_read_ahead(where);
  if (w == way::phased) frame_gradients(where);
  where.speculates = w == way::speculate;
  return where;
}

gpu::step_traffic traffic_of(way w, const train::engine_options& o) {
  const bool clips = o.optimizer.clip_norm > 0 && w != way::phased;  // whose passes are made once
  gpu::residency_budget steps{0, clips, 1};
  steps.verifies = o.swap_verify;
  auto out = gpu::traffic_of_step(o.model, o.shape, steps);
  if (w == way::phased) add_gradients(out, o);
  return out;
}

gpu::step_work work_of(way w, const train::engine_options& o) {
  const auto tokens = static_cast<double>(o.shape.tokens());
  return gpu::work_of_step(traffic_of(w, o), o.model.flops_per_token(o.shape.seq) * tokens,
                           gpu::again_flops(o.model, o.shape) * tokens,
                           static_cast<double>(o.model.parameters()));
}

gpu::phase_work least_of(const train::engine_options& o) {
  auto shape = o.shape;
  std::replace(shape.activations.begin(), shape.activations.end(), gpu::activation_choice::spill,
               gpu::activation_choice::keep);
  gpu::residency_budget steps{0, false, 1};
  steps.verifies = o.swap_verify;
  const auto tokens = static_cast<double>(o.shape.tokens());
  return gpu::work_of_step(gpu::traffic_of_step(o.model, shape, steps),
                           o.model.flops_per_token(o.shape.seq) * tokens, 0,
                           static_cast<double>(o.model.parameters()))
      .whole();
}

gpu::activation_split kept_by(const gpu::stage_shape& shape) {
  gpu::activation_split out;
  for (size_t i = 0; i < static_cast<size_t>(shape.layers()); ++i) {
    const auto kept = shape.activations_of(i);
    out.keep += kept == gpu::activation_choice::keep;
    out.half += kept == gpu::activation_choice::half;
    out.spill += kept == gpu::activation_choice::spill;
  }
  return out;
}

namespace {

/// Of `ours` with that memory and these rates.
std::optional<double> step_seconds(const swap_plan& plan, train::engine_options o) {
  auto where = residency_of(way::ours, plan, o);
  if (!where) return std::nullopt;
  o.shape.where = std::move(*where);
  if (!o.shape.spilling().empty() && !o.shape.where.any_on_disk()) return std::nullopt;
  const auto work = work_of(way::ours, o);
  return gpu::limit_of(work.forward, plan.rates).seconds +
         gpu::limit_of(work.backward, plan.rates).seconds;
}

/// Of a way that is swept, what its layers keep.
void choose_kept(way w, const swap_plan& plan, train::engine_options& o) {
  const auto layers = o.shape.layers();
  gpu::activation_split split;
  if (w == way::half) split.half = layers;
  if (w == way::keep) split.keep = layers;
  if (w == way::spill) split.spill = layers;
  if (w == way::planned)
    split = gpu::choose_activations(layers, o.model.block == block_form::sequential,
                                    [&](const gpu::activation_split& tried) {
                                      auto with = o;
                                      with.shape.activations = gpu::choices_by_layer(tried, layers);
                                      return step_seconds(plan, std::move(with));
                                    })
                .value_or(split);
  o.shape.activations = gpu::choices_by_layer(split, layers);
}

}  // namespace

result<std::unique_ptr<trainer>> trainer::make(way w, const swap_plan& plan) {
  auto o = options_of(plan);
  if (is_swept(w)) choose_kept(w, plan, o);
  TROUPE_TRY(where, residency_of(w, plan, o));
  o.shape.where = std::move(where);
  if (!o.shape.spilling().empty() && !o.shape.where.any_on_disk()) return nothing_spills();
  o.swap_dirs = {plan.dir};
  o.swap_verify = w != way::noverify;
  if (w == way::speculate) o.swap_clip = gpu::clip_way::speculate;
  o.job = std::string(to_string(w));
  if (w == way::saving) {
    o.checkpoint_folder = plan.dir;
    o.swap_old_files = 3;  // as a job's that keeps one checkpoint
  }
  // What `behind` has of its own is that updates wait for the norm of all gradients.
  if (w == way::behind && o.optimizer.clip_norm == 0) o.optimizer.clip_norm = never_clips;
  TROUPE_TRY(device, gpu::open_device(o.device));
  o.threads = device->facts().threads;
  if (o.shape.where.any_on_disk()) {
    TROUPE_TRY(opened, train::open_swap_alone(o));
    o.swap = std::move(opened);
  }
  if (w == way::phased && o.shape.where.any_on_disk()) return make_phased(std::move(o));
  auto out = std::make_unique<engine_trainer>(std::move(o));
  TROUPE_CHECK(out->open(w));
  return std::unique_ptr<trainer>(std::move(out));
}

result<double> trainer::run(int steps) {
  const auto begun = clock::now();
  for (int i = 0; i < steps; ++i) TROUPE_CHECK(step());
  TROUPE_CHECK(settle());
  return std::chrono::duration<double>(clock::now() - begun).count() / steps;
}

status trainer::settle() {
  TROUPE_TRY(s, store().owner().make_stream({}));
  for (int c = 0; c < store().chunk_count(); ++c) store().await_state(*s, c);
  return s->synchronize();
}

result<uint64_t> trainer::state_hash() {
  uint64_t hash = 0;
  std::vector<float> values;
  for (int c = 0; c < store().chunk_count(); ++c)
    for (const auto which : {gpu::part::master, gpu::part::m, gpu::part::v}) {
      values.resize(static_cast<size_t>(store().slice(c).count));
      TROUPE_CHECK(store().read(c, which, values.data()));
      hash = XXH64(values.data(), values.size() * sizeof(float), hash);
    }
  return hash;
}

uint64_t trainer::parameters() {
  uint64_t out = 0;
  for (int c = 0; c < store().chunk_count(); ++c)
    if (!store().info(c).tied_copy)
      for (const auto& t : store().info(c).tensors) out += static_cast<uint64_t>(t.count);
  return out;
}

uint64_t trainer::memory_bytes() const {
  return gpu::plan_stage(options_.model, options_.shape).total();
}

uint64_t trainer::disk_bytes() const {
  return gpu::plan_stage(options_.model, options_.shape).on_disk;
}

}  // namespace troupe::apps::swap_bench
