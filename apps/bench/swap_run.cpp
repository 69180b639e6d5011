// Engines side by side, steps in turn.
#include "apps/bench/swap_run.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "actors/train/rank_engine.hpp"
#include "actors/train/swap_folder.hpp"
#include "apps/bench/told.hpp"
#include "apps/swap/rates.hpp"
#include "gpu/back_end.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/base/text.hpp"
#include "io/disk/calibrate.hpp"

namespace troupe::apps::swap_bench {

namespace {

using train::pipeline_op;
using clock = std::chrono::steady_clock;

/// Nothing that moves overlaps with anything else.
class serial_engine final : public train::rank_engine {
 public:
  static result<std::unique_ptr<train::rank_engine>> make(const train::engine_options& options) {
    std::unique_ptr<serial_engine> out(new serial_engine(options));
    TROUPE_TRY(device, gpu::open_device(options.device, options.threads));
    TROUPE_CHECK(out->open(std::move(device)));
    return std::unique_ptr<train::rank_engine>(std::move(out));
  }

 protected:
  void enqueue(gpu::stream& s, pipeline_op kind, const std::function<void()>& work) override {
    const bool moves = kind == pipeline_op::read_weights || kind == pipeline_op::read_state ||
                       kind == pipeline_op::update_chunk || kind == pipeline_op::write_chunk;
    if (!moves) return work();
    s.wait(compute().record());
    work();
    compute().wait(s.record());
  }

 private:
  explicit serial_engine(train::engine_options options) : rank_engine(std::move(options)) {}
};

train::engine_options options_of(const swap_plan& plan) {
  train_plan what;
  what.model = plan.model;
  what.layers = plan.layers;
  what.batch = 1;
  what.seq = plan.tokens;
  const auto shape = shape_of(what);
  train::engine_options o;
  o.model = shape.model;
  o.shape = gpu::whole_model(shape.model, 1, shape.seq,
                             plan.dtype == "bf16" ? gpu::dtype::bf16 : gpu::dtype::f32);
  o.shape.recompute = plan.recompute;
  o.optimizer.clip_norm = static_cast<float>(plan.clip_norm);
  o.batch = 1;
  o.seed = 1;
  return o;
}

/// Where the chunks of a way live. Errors: budget_too_small.
result<gpu::residency> residency_of(way w, const swap_plan& plan, const train::engine_options& o) {
  if (w == way::inmem) return gpu::residency{};
  gpu::residency_budget budget{plan.host_bytes, plan.clip_norm > 0, 1};
  auto where = gpu::least_residency(o.model, o.shape, budget);
  if (plan.host_bytes > 0) {
    TROUPE_TRY(chosen, gpu::plan_residency(o.model, o.shape, budget));
    where = std::move(chosen);
  }
  if (w == way::behind)
    for (auto& c : where.chunks) c.grad_frame = -1;
  where.speculates = w == way::speculate;
  return where;
}

/// One way's engine, in training.
class trainer {
 public:
  static result<std::unique_ptr<trainer>> make(way w, const swap_plan& plan) {
    std::unique_ptr<trainer> out(new trainer);
    auto o = options_of(plan);
    TROUPE_TRY(where, residency_of(w, plan, o));
    o.shape.where = std::move(where);
    o.swap_dirs = {plan.dir};
    o.swap_verify = w != way::noverify;
    if (w == way::speculate) o.swap_clip = gpu::clip_way::speculate;
    o.job = std::string(to_string(w));
    // What `behind` has of its own is that updates wait for the norm of all gradients.
    if (w == way::behind && o.optimizer.clip_norm == 0) o.optimizer.clip_norm = never_clips;
    TROUPE_TRY(device, gpu::open_device(o.device));
    o.threads = device->facts().threads;
    out->options_ = o;
    if (o.shape.where.any_on_disk()) {
      TROUPE_TRY(opened, train::open_swap_alone(o));
      o.swap = std::move(opened);
    }
    TROUPE_TRY(engine, w == way::sync ? serial_engine::make(o) : train::rank_engine::make(o));
    out->engine_ = std::move(engine);
    told<status> built;
    out->engine_->build(built);
    TROUPE_CHECK(built.wait());
    TROUPE_TRY(batches, train::batch_memory::create(1, plan.tokens, 1));
    for (int64_t i = 0; i < 2 * plan.tokens; ++i)
      batches.slot(0)[i] = static_cast<int32_t>((i * 7919 + 17) % o.model.vocab);
    out->batches_.emplace(std::move(batches));
    const auto& b = *out->batches_;
    TROUPE_CHECK(out->engine_->attach({b.path(), b.slot_bytes(), b.slots(), 0}));
    return out;
  }

  /// Seconds of a step, of some, with all that is still on its way behind the last.
  result<double> run(int steps) {
    const auto begun = clock::now();
    for (int i = 0; i < steps; ++i) TROUPE_CHECK(step());
    TROUPE_CHECK(settle());
    return std::chrono::duration<double>(clock::now() - begun).count() / steps;
  }

  /// Of every master and moment.
  result<uint64_t> state_hash() {
    auto& store = engine_->model()->store();
    uint64_t hash = 0;
    std::vector<float> values;
    for (int c = 0; c < store.chunk_count(); ++c)
      for (const auto which : {gpu::part::master, gpu::part::m, gpu::part::v}) {
        values.resize(static_cast<size_t>(store.slice(c).count));
        TROUPE_CHECK(store.read(c, which, values.data()));
        hash = XXH64(values.data(), values.size() * sizeof(float), hash);
      }
    return hash;
  }
  double loss() const { return loss_; }
  std::optional<train::swap_facts> facts() const { return engine_->swap_facts(); }
  const train::engine_options& options() const { return options_; }
  uint64_t memory_bytes() const { return engine_->facts().bytes; }
  uint64_t parameters() const { return engine_->facts().parameters; }

 private:
  static constexpr float never_clips = 1e30f;

  trainer() = default;
  status step() {
    engine_->run({pipeline_op::begin}, {});
    engine_->run({pipeline_op::forward, 0, 0, 0}, [](const status&) {});
    engine_->run({pipeline_op::backward, 0, 0, 0, true}, [](const status&) {});
    ++steps_;
    auto done = update();
    if (done.first && done.second.again) done = update();
    loss_ = done.second.loss_sum / static_cast<double>(options_.shape.seq);
    return done.first;
  }
  std::pair<status, train::step_outcome> update() {
    told<std::pair<status, train::step_outcome>> ended;
    engine_->update(steps_, 1e-4, [ended](const status& s, train::step_outcome o) {
      ended({s, std::move(o)});
    });
    return ended.wait();
  }
  status settle() {
    auto& store = engine_->model()->store();
    TROUPE_TRY(s, store.owner().make_stream({}));
    for (int c = 0; c < store.chunk_count(); ++c) store.await_state(*s, c);
    return s->synchronize();
  }

  train::engine_options options_;
  std::unique_ptr<train::rank_engine> engine_;
  std::optional<train::batch_memory> batches_;
  int64_t steps_ = 0;
  double loss_ = 0;
};

double flops_of_step(const train::engine_options& o) {
  return o.model.flops_per_token(o.shape.seq) * static_cast<double>(o.shape.seq);
}

result<gpu::machine_rates> rates_of_disk(const std::filesystem::path& dir) {
  io::calibrate_options how;
  how.budget_bytes = uint64_t{192} << 20;
  how.chunk_and_depth = {{size_t{4} << 20, 8}};
  TROUPE_TRY(disk, io::measure_disk(dir, how));
  gpu::machine_rates out;
  out.read_bytes_s = disk.best.read_bytes_s;
  out.write_bytes_s = disk.best.write_bytes_s;
  out.duplex = disk.best.duplex;
  return out;
}

/// SWB-2.
bool is_steady(const gpu::machine_rates& a, const gpu::machine_rates& b) {
  const auto near = [](double x, double y) {
    return std::abs(x - y) <= steady_share * std::max(x, y);
  };
  return near(a.read_bytes_s, b.read_bytes_s) && near(a.write_bytes_s, b.write_bytes_s);
}

class rounds {
 public:
  explicit rounds(const swap_plan& plan) { out_.plan = plan; }

  result<swap_measurement> measure() {
    TROUPE_CHECK(make_trainers());
    auto o = options_of(out_.plan);
    TROUPE_TRY(device, gpu::open_device(o.device));
    o.threads = device->facts().threads;
    TROUPE_TRY(speed, swap::measure_paces(o));
    std::vector<gpu::machine_rates> disks;
    for (int round = 0; round < out_.plan.rounds; ++round) {
      TROUPE_TRY(before, rates_of_disk(out_.plan.dir));
      TROUPE_TRY(seconds, one_round());
      TROUPE_TRY(after, rates_of_disk(out_.plan.dir));
      disks.push_back(before);
      disks.push_back(after);
      if (!is_steady(before, after)) {
        ++out_.discarded;
        continue;
      }
      for (size_t i = 0; i < seconds.size(); ++i)
        if (seconds[i] > 0) out_.results[i].seconds.push_back(seconds[i]);
    }
    TROUPE_CHECK(compare());
    const auto middle = [&](double gpu::machine_rates::*of) {
      std::vector<double> all;
      for (const auto& d : disks) all.push_back(d.*of);
      return median(std::move(all));
    };
    out_.rates.read_bytes_s = middle(&gpu::machine_rates::read_bytes_s);
    out_.rates.write_bytes_s = middle(&gpu::machine_rates::write_bytes_s);
    out_.rates.duplex = middle(&gpu::machine_rates::duplex);
    out_.rates.flops_s = speed.flops_s;
    out_.rates.updates_s = speed.updates_s;
    for (size_t i = 0; i < out_.results.size(); ++i) add_limit(i);
    return std::move(out_);
  }

 private:
  status make_trainers() {
    for (const auto w : out_.plan.ways) {
      auto& r = out_.results.emplace_back();
      r.of = w;
      if (w == way::speculate && out_.plan.clip_norm == 0) {
        r.skipped = "nothing is clipped (--clip)";
        trainers_.push_back(nullptr);
        continue;
      }
      auto made = trainer::make(w, out_.plan);
      if (!made && made.error().code != errc::no_memory) return made.error();
      if (!made) r.skipped = made.error().message;
      trainers_.push_back(made ? std::move(*made) : nullptr);
      if (!made) continue;
      auto& t = *trainers_.back();
      TROUPE_CHECK(stopped());
      TROUPE_TRY(first, t.run(1));  // whose moments are not read
      static_cast<void>(first);
      out_.parameters = t.parameters();
      r.memory_bytes = t.memory_bytes();
      if (const auto facts = t.facts()) r.disk_bytes = facts->disk_bytes;
    }
    return {};
  }

  status stopped() const {
    if (out_.plan.stop && *out_.plan.stop) return error{errc::cancelled, "interrupted"};
    return {};
  }

  result<std::vector<double>> one_round() {
    std::vector<double> out(trainers_.size(), 0);
    for (size_t i = 0; i < trainers_.size(); ++i) {
      if (!trainers_[i]) continue;
      TROUPE_CHECK(stopped());
      const auto before = trainers_[i]->facts();
      TROUPE_TRY(took, trainers_[i]->run(out_.plan.steps));
      out[i] = took;
      const auto after = trainers_[i]->facts();
      if (!after) continue;
      const auto steps = static_cast<uint64_t>(out_.plan.steps);
      out_.results[i].read_bytes = (after->read_bytes - before->read_bytes) / steps;
      out_.results[i].written_bytes = (after->written_bytes - before->written_bytes) / steps;
      out_.results[i].redone_steps = after->redone_steps;
    }
    return out;
  }

  /// SWB-1.
  status compare() {
    bool first = true;
    for (size_t i = 0; i < trainers_.size(); ++i) {
      if (!trainers_[i]) continue;
      TROUPE_TRY(hash, trainers_[i]->state_hash());
      const double loss = trainers_[i]->loss();
      if (std::exchange(first, false)) {
        out_.loss = loss;
        out_.state_hash = hash;
      } else if (loss != out_.loss || hash != out_.state_hash) {
        return error{
            errc::training,
            fmt::format("{} came to loss {} and state {:016x}, others to {} and {:016x}",
                        to_string(out_.results[i].of), loss, hash, out_.loss, out_.state_hash)};
      }
    }
    return {};
  }

  void add_limit(size_t i) {
    auto& r = out_.results[i];
    if (!trainers_[i]) return;
    const auto& o = trainers_[i]->options();
    const bool clips = o.optimizer.clip_norm > 0;
    const auto traffic = gpu::traffic_of_step(o.model, o.shape, {0, clips, 1});
    const double head = gpu::head_flops(o.model, static_cast<double>(o.shape.seq));
    const auto work = gpu::work_of_step(traffic, flops_of_step(o), head, o.shape.recompute,
                                        static_cast<double>(out_.parameters));
    r.expected_s = gpu::limit_of(work.forward, out_.rates).seconds +
                   gpu::limit_of(work.backward, out_.rates).seconds;
    const auto limit = gpu::limit_of(work.whole(), out_.rates);
    r.limit_s = limit.seconds;
    r.part = limit.part;
  }

  swap_measurement out_;
  std::vector<std::unique_ptr<trainer>> trainers_;  ///< by result; null: skipped
};

}  // namespace

std::string_view to_string(way w) {
  constexpr std::array<std::string_view, ways> names{"inmem", "sync",      "behind",
                                                     "ours",  "speculate", "noverify"};
  return names[static_cast<size_t>(w)];
}

result<swap_measurement> measure_swap(const swap_plan& plan) {
  return rounds(plan).measure();
}

std::string text(const swap_measurement& m) {
  std::string out = fmt::format(
      "{} {}, {:.1f} M parameters, {} tokens a step, clip_norm {}, {}: {} rounds of {} steps, {} "
      "discarded; loss {:.4f}, state {:016x} in all\n"
      "drive: read {:.2f} GB/s, write {:.2f}, both at once save {:.2f} of the shorter; products "
      "{:.0f} GFLOP/s; updates {:.2f} G/s\n",
      m.plan.model, m.plan.dtype, static_cast<double>(m.parameters) / 1e6, m.plan.tokens,
      m.plan.clip_norm, m.plan.recompute ? "recomputed" : "kept activations", m.plan.rounds,
      m.plan.steps, m.discarded, m.loss, m.state_hash, m.rates.read_bytes_s / 1e9,
      m.rates.write_bytes_s / 1e9, m.rates.duplex, m.rates.flops_s / 1e9, m.rates.updates_s / 1e9);
  out += fmt::format("{:<10} {:>9} {:>19} {:>9} {:>11} {:>9} {:>11} {:>11} {:>10}\n", "way",
                     "s a step", "range", "of limit", "bound by", "expected", "in memory", "read",
                     "written");
  for (const auto& r : m.results) {
    if (!r.skipped.empty()) {
      out += fmt::format("{:<10} skipped: {}\n", to_string(r.of), r.skipped);
      continue;
    }
    if (r.seconds.empty()) {
      out += fmt::format("{:<10} no round counts: the drive was not steady\n", to_string(r.of));
      continue;
    }
    const auto took = r.took();
    out += fmt::format(
        "{:<10} {:>9.3f} {:>19} {:>9.2f} {:>11} {:>9.3f} {:>11} {:>11} {:>10}\n", to_string(r.of),
        took.median, fmt::format("{:.3f} to {:.3f}", took.least, took.most),
        took.median > 0 ? r.limit_s / took.median : 0, to_string(r.part), r.expected_s,
        bytes_text(r.memory_bytes), bytes_text(r.read_bytes), bytes_text(r.written_bytes));
    if (r.redone_steps > 0) out += fmt::format("{:<10} {} steps made again\n", "", r.redone_steps);
  }
  return out;
}

nlohmann::ordered_json json(const swap_measurement& m) {
  nlohmann::ordered_json out{{"model", m.plan.model},
                             {"dtype", m.plan.dtype},
                             {"parameters", m.parameters},
                             {"tokens", m.plan.tokens},
                             {"clip_norm", m.plan.clip_norm},
                             {"recompute", m.plan.recompute},
                             {"rounds", m.plan.rounds},
                             {"discarded", m.discarded},
                             {"loss", m.loss},
                             {"state", fmt::format("{:016x}", m.state_hash)},
                             {"read_bytes_s", m.rates.read_bytes_s},
                             {"write_bytes_s", m.rates.write_bytes_s},
                             {"duplex", m.rates.duplex},
                             {"flops_s", m.rates.flops_s},
                             {"updates_s", m.rates.updates_s}};
  out["ways"] = nlohmann::ordered_json::array();
  for (const auto& r : m.results)
    out["ways"].push_back({{"way", to_string(r.of)},
                           {"skipped", r.skipped},
                           {"seconds", json_of(r.took())},
                           {"limit_s", r.limit_s},
                           {"bound_by", to_string(r.part)},
                           {"expected_s", r.expected_s},
                           {"memory_bytes", r.memory_bytes},
                           {"disk_bytes", r.disk_bytes},
                           {"read_bytes", r.read_bytes},
                           {"written_bytes", r.written_bytes},
                           {"redone_steps", r.redone_steps}});
  return out;
}

}  // namespace troupe::apps::swap_bench
