// Training steps on one device, measured; see train_run.hpp.
#include "apps/bench/train_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "actors/train/rank_engine.hpp"
#include "apps/bench/product_peak.hpp"
#include "apps/bench/told.hpp"
#include "gpu/back_end.hpp"
#include "gpu/cuda/working_memory.hpp"
#include "io/base/counted.hpp"

namespace troupe::apps {

namespace {

model_config sized(model_family family, int64_t layers, int64_t heads, int64_t kv_heads,
                   int64_t hidden, int64_t ffn, int64_t vocab, int64_t positions) {
  auto m = model_config::of(family);
  m.layers = layers;
  m.heads = heads;
  m.kv_heads = kv_heads;
  m.hidden = hidden;
  m.head_width = hidden / heads;
  m.ffn = ffn;
  m.vocab = vocab;
  m.max_positions = positions;
  return m;
}

train_shape usual_shape(const std::string& name) {
  constexpr auto gpt2 = model_family::gpt2, llama = model_family::llama;
  if (name == "micro") return {sized(gpt2, 1, 2, 2, 32, 128, 128, 64), 1, 32};
  if (name == "tiny") return {sized(gpt2, 4, 4, 4, 256, 1024, 4096, 1024), 8, 256};
  if (name == "llama-tiny") return {sized(llama, 4, 8, 4, 256, 704, 4096, 1024), 8, 256};
  if (name == "gpt2-124m") return {sized(gpt2, 12, 12, 12, 768, 3072, 50257, 1024), 1, 1024};
  if (name == "gpt2-1.5b") return {sized(gpt2, 48, 25, 25, 1600, 6400, 50257, 1024), 1, 1024};
  if (name == "llama-1b") return {sized(llama, 16, 32, 8, 2048, 8192, 128256, 2048), 1, 2048};
  if (name == "llama-8b") return {sized(llama, 8, 32, 8, 4096, 14336, 128256, 2048), 1, 2048, 32};
  return {sized(llama, 12, 12, 4, 768, 2048, 32000, 1024), 1, 1024};
}

/// Token ids that are spread evenly, the same in every run.
std::vector<int32_t> random_tokens(size_t count, int64_t vocab) {
  std::vector<int32_t> out(count);
  uint64_t x = 0x9e3779b97f4a7c15u;
  for (auto& token : out) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    token = static_cast<int32_t>((x >> 20) % static_cast<uint64_t>(vocab));
  }
  return out;
}

gpu::dtype dtype_of(const train_plan& plan) {
  return plan.dtype == "bf16" ? gpu::dtype::bf16 : gpu::dtype::f32;
}

gpu::stage_shape stage_of(const train_shape& shape, const train_plan& plan) {
  auto stage = gpu::whole_model(shape.model, shape.batch, shape.seq, dtype_of(plan));
  stage.recompute = plan.recompute;
  return stage;
}

/// The engine of a job's only rank, and its batch.
class session {
 public:
  static result<session> make(std::shared_ptr<gpu::device> device, const train_shape& shape,
                              const train_plan& plan) {
    train::engine_options options;
    options.model = shape.model;
    options.shape = stage_of(shape, plan);
    options.batch = shape.batch;
    options.seed = 1;
    options.threads = plan.threads > 0 ? plan.threads : device->facts().threads;
    TROUPE_TRY(engine, train::rank_engine::make(options, std::move(device)));
    told<status> built;
    engine->build(built);
    TROUPE_CHECK(built.wait());
    TROUPE_TRY(batches, train::batch_memory::create({shape.batch, shape.seq}, 1));
    const auto count = static_cast<size_t>(shape.batch * shape.seq);
    const auto tokens = random_tokens(count + 1, shape.model.vocab);
    std::copy_n(tokens.begin(), count, batches.slot(0));
    std::copy_n(tokens.begin() + 1, count, batches.slot(0) + count);
    TROUPE_CHECK(engine->attach({batches.path(), batches.slot_bytes(), batches.slots(), 0}));
    return session(std::move(engine), static_cast<double>(count));
  }

  /// Seconds of one step.
  result<double> step(gpu::time_kind clock) {
    using train::pipeline_op;
    const double began = gpu::seconds_now(clock);
    told<std::pair<status, double>> ended;
    engine_->run({pipeline_op::begin}, {});
    engine_->run({pipeline_op::forward, 0, 0, 0}, [](const status&) {});
    engine_->run({pipeline_op::backward, 0, 0, 0, true}, [](const status&) {});
    engine_->update(++steps_, 1e-4, [ended](const status& s, const train::step_outcome& o) {
      ended({s, o.loss_sum});
    });
    const auto [state, loss_sum] = ended.wait();
    TROUPE_CHECK(state);
    loss_ = loss_sum / tokens_;
    return gpu::seconds_now(clock) - began;
  }
  status run(int steps) {
    for (int i = 0; i < steps; ++i) TROUPE_CHECK(step(gpu::time_kind::wall));
    return {};
  }

  /// What the device's memory is for.
  std::string memory() { return engine_->model()->plan().text(); }
  double loss() const { return loss_; }

 private:
  session(std::unique_ptr<train::rank_engine> engine, double tokens)
      : engine_(std::move(engine)), tokens_(tokens) {}

  std::unique_ptr<train::rank_engine> engine_;
  double tokens_ = 0;  ///< of a step
  int64_t steps_ = 0;
  double loss_ = 0;
};

/// Fails where what the stage's plan and a GPU's operations need is more than the device has free.
status fits(gpu::device& owner, const train_shape& shape, const train_plan& plan) {
  const uint64_t free = owner.facts().free_bytes;
  const auto stage = stage_of(shape, plan);
  uint64_t needed = gpu::plan_stage(shape.model, stage).total();
  if (!owner.host_accessible())
    needed += gpu::cuda::rank_scratch_bytes(stage.tokens(), shape.model.vocab,
                                            owner.facts().memory_bytes);
  if (free == 0 || needed <= free) return {};
  constexpr double gib = 1 << 30;
  return error(errc::no_memory,
               fmt::format("{} needs {:.1f} GiB, {:.1f} GiB of the device are free", plan.model,
                           static_cast<double>(needed) / gib, static_cast<double>(free) / gib),
               "give it fewer rows (--batch) or layers (--layers), or --recompute");
}

}  // namespace

const std::vector<std::string>& train_models() {
  static const std::vector<std::string> names = {"micro",     "tiny",       "llama-tiny",
                                                 "gpt2-124m", "llama-110m", "gpt2-1.5b",
                                                 "llama-1b",  "llama-8b"};
  return names;
}

train_shape shape_of(const train_plan& plan) {
  train_shape shape = usual_shape(plan.model);
  if (plan.batch > 0) shape.batch = plan.batch;
  if (plan.seq > 0) shape.seq = plan.seq;
  if (plan.layers > 0) {
    if (shape.layers_of_model == 0) shape.layers_of_model = shape.model.layers;
    shape.model.layers = plan.layers;
  }
  shape.model.max_positions = std::max(shape.model.max_positions, shape.seq);
  return shape;
}

result<train_measurement> measure_training(const train_shape& shape, const train_plan& plan) {
  train_measurement out;
  TROUPE_TRY(opened, gpu::open_device(plan.device, plan.threads));
  const std::shared_ptr<gpu::device> owner = std::move(opened);
  const int threads = plan.threads > 0 ? plan.threads : owner->facts().threads;
  const auto type = dtype_of(plan);
  const auto late = [&] { return gpu::seconds_now(gpu::time_kind::wall) > plan.until_s; };
  out.device = owner->facts().name;
  out.sheet_flops = type == gpu::dtype::bf16 ? owner->facts().sheet_flops : 0;
  TROUPE_TRY(meter, product_peak::make(*owner, type, threads, plan.peak_side));
  TROUPE_CHECK(fits(*owner, shape, plan));
  {
    TROUPE_TRY(timed, session::make(owner, shape, plan));
    TROUPE_CHECK(timed.run(plan.warmup));
    for (int i = 0; i < plan.steps && (i == 0 || !late()); ++i) {
      TROUPE_CHECK(meter.sample());
      TROUPE_TRY(seconds, timed.step(plan.clock));
      out.seconds.push_back(seconds);
    }
    out.peak = meter.flops() / 1e9;
    out.loss = timed.loss();
    out.plan = timed.memory();
    const auto facts = owner->facts();
    if (facts.free_bytes > 0) out.memory_bytes = facts.memory_bytes - facts.free_bytes;
  }
  std::sort(out.seconds.begin(), out.seconds.end());
  out.flops_per_step =
      shape.model.flops_per_token(shape.seq) * static_cast<double>(shape.batch * shape.seq);
  TROUPE_TRY(watched, session::make(gpu::make_profiled_device(*owner, out.profile), shape, plan));
  TROUPE_CHECK(watched.run(1));
  out.profile.clear();
  out.profile.clock = plan.clock;
  const int most = std::max(1, std::min(plan.steps, 5));
  while (out.profiled_steps < most && (out.profiled_steps == 0 || !late())) {
    TROUPE_CHECK(watched.run(1));
    ++out.profiled_steps;
  }
  return out;
}

namespace {

std::vector<std::pair<gpu::device_op, gpu::op_time>> by_time(const gpu::op_profile& profile) {
  std::vector<std::pair<gpu::device_op, gpu::op_time>> out;
  for (size_t i = 0; i < profile.kinds.size(); ++i)
    if (profile.kinds[i].calls > 0)
      out.emplace_back(static_cast<gpu::device_op>(i), profile.kinds[i]);
  std::sort(out.begin(), out.end(),
            [](auto& a, auto& b) { return a.second.seconds > b.second.seconds; });
  return out;
}

/// Says so where layers are cut.
std::string cut(const train_shape& shape) {
  if (shape.layers_of_model == 0 || shape.layers_of_model == shape.model.layers) return "";
  return fmt::format(" cut to {} of {} layers", shape.model.layers, shape.layers_of_model);
}

}  // namespace

std::string text(const train_plan& plan, const train_shape& shape, const train_measurement& m) {
  const double tokens = static_cast<double>(shape.batch * shape.seq);
  std::string out = fmt::format(
      "{}{} {} {}x{}, {:.1f} M parameters, {}, loss {:.4f}\non {}; peak {:.0f} GFLOP/s\n",
      plan.model, cut(shape), plan.dtype, shape.batch, shape.seq,
      static_cast<double>(shape.model.parameters()) / 1e6, counted(m.seconds.size(), "step"),
      m.loss, m.device, m.peak);
  for (const auto& pace : m.paces()) {
    const double gflops = m.flops() / pace.seconds;
    out += fmt::format(
        "  {:<7} {:10.1f} tokens/s {:9.1f} GFLOP/s {:6.1f} % of peak {:10.1f} ms{}\n", pace.name,
        tokens / pace.seconds, gflops, 100 * m.of_peak(pace.seconds), pace.seconds * 1e3,
        plan.clock == gpu::time_kind::processor ? " of processor time" : "");
  }
  if (m.sheet_flops > 0)
    out += fmt::format("  MFU     {:6.1f} % of the data sheet's {:.0f} TFLOP/s (median step)\n",
                       100 * m.mfu(), m.sheet_flops / 1e12);
  if (m.memory_bytes > 0)
    out += fmt::format("  memory  {:.2f} GiB of the device in use\n",
                       static_cast<double>(m.memory_bytes) / (1 << 30));
  out += "share of each operation (stream time of extra, profiled steps)\n";
  const double total = m.profile.total_seconds();
  for (const auto& [kind, time] : by_time(m.profile)) {
    out += fmt::format("  {:<23} {:5.1f} % {:9.3f} ms a step {:5} calls", to_string(kind),
                       100 * time.seconds / total, 1e3 * time.seconds / m.profiled_steps,
                       time.calls / m.profiled_steps);
    if (time.flops > 0) {
      const double gflops = time.flops / time.seconds / 1e9;
      out +=
          fmt::format(" {:8.1f} GFLOP/s ({:.0f} %)", gflops, 100 * share_of_peak(gflops, m.peak));
    }
    out += "\n";
  }
  return out + m.plan;
}

std::string train_heading() {
  return fmt::format("{:<38} {:>10} {:>12} {:>9} {:>9} {:>10}\n", "training", "ms a step",
                     "tokens/s", "MFU %", "% of peak", "GiB in use");
}

std::string row(const train_plan& plan, const train_shape& shape, const train_measurement& m) {
  const auto or_nothing = [](bool known, double number) {
    return known ? fmt::format("{:.1f}", number) : std::string();
  };
  std::string out = fmt::format(
      "  {:<36} {:>10.3f} {:>12.0f} {:>9} {:>9.1f} {:>10}\n",
      fmt::format("{}{} {} {}x{}", plan.model, cut(shape), plan.dtype, shape.batch, shape.seq),
      m.median() * 1e3, static_cast<double>(shape.batch * shape.seq) / m.median(),
      or_nothing(m.sheet_flops > 0, 100 * m.mfu()), 100 * m.of_peak(m.median()),
      or_nothing(m.memory_bytes > 0, static_cast<double>(m.memory_bytes) / (1 << 30)));
  const double total = m.profile.total_seconds();
  std::string shares;
  for (const auto& [kind, time] : by_time(m.profile))
    shares += fmt::format("{}{} {:.1f} %", shares.empty() ? "" : ", ", to_string(kind),
                          100 * time.seconds / total);
  out += fmt::format("    {}, loss {:.4f}; the peak beside it {:.0f} GFLOP/s\n",
                     counted(m.seconds.size(), "step"), m.loss, m.peak);
  return out + "    of " + std::to_string(m.profiled_steps) + " profiled: " + shares + "\n";
}

nlohmann::ordered_json json(const train_plan& plan, const train_shape& shape,
                            const train_measurement& m) {
  const double tokens = static_cast<double>(shape.batch * shape.seq);
  nlohmann::ordered_json out;
  out["bench"] = "train";
  out["model"] = plan.model;
  out["dtype"] = plan.dtype;
  out["device"] = m.device;
  out["layers"] = shape.model.layers;
  if (m.sheet_flops > 0) out["mfu"] = m.mfu();
  if (m.memory_bytes > 0) out["memory_bytes"] = m.memory_bytes;
  out["threads"] = plan.threads;
  out["batch"] = shape.batch;
  out["seq"] = shape.seq;
  out["parameters"] = shape.model.parameters();
  out["loss"] = m.loss;
  out["clock"] = plan.clock == gpu::time_kind::processor ? "cpu" : "wall";
  out["peak_gflops"] = m.peak;
  for (const auto& pace : m.paces()) {
    const double gflops = m.flops() / pace.seconds;
    out[pace.name] = {{"tokens_per_s", tokens / pace.seconds},
                      {"gflops", gflops},
                      {"of_peak", m.of_peak(pace.seconds)},
                      {"step_ms", pace.seconds * 1e3}};
  }
  for (const auto& [kind, time] : by_time(m.profile))
    out["ops"][std::string(to_string(kind))] = {
        {"share", time.seconds / m.profile.total_seconds()},
        {"ms_per_step", 1e3 * time.seconds / m.profiled_steps},
        {"calls_per_step", time.calls / m.profiled_steps},
        {"gflops", time.flops / time.seconds / 1e9}};
  return out;
}

}  // namespace troupe::apps
