// Trains on tokens drawn at random, without actors, and reports tokens/s, GFLOP/s, the share of the
// machine's measured peak and the share of each operation.
//
// GFLOP/s counts 6 x matrix parameters (with the head, without the tables) + 12*L*C*T a token: what
// the algorithm needs, not what is executed (a causal mask skips half of T*T). Shares come from
// extra steps with a stopwatch around each operation; the speed is measured without it.
#include "apps/bench/train.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/bench/product_peak.hpp"
#include "gpu/back_end.hpp"
#include "gpu/model/init.hpp"
#include "gpu/model/local_trainer.hpp"
#include "gpu/profiled_device.hpp"

namespace troupe::apps {

namespace {

struct train_arguments {
  std::string model = "tiny";
  std::string dtype = "f32";
  std::string device = "host";
  int threads = 0;
  int64_t layers = 0;
  int64_t batch = 0;
  int64_t seq = 0;
  int steps = 10;
  int warmup = 2;
  bool recompute = false;
  std::string clock = "wall";
  bool json = false;

  gpu::time_kind time() const {
    return clock == "cpu" ? gpu::time_kind::processor : gpu::time_kind::wall;
  }
};

/// A model with the batch it is usually measured at.
struct preset {
  gpu::model_config model;
  int64_t batch;
  int64_t seq;
  int64_t layers_of_model = 0;  ///< where the preset has fewer than the model it is shaped after
};

gpu::model_config gpt2(int64_t layers, int64_t heads, int64_t hidden, int64_t vocab,
                       int64_t positions) {
  gpu::model_config m;
  m.layers = layers;
  m.heads = m.kv_heads = heads;
  m.hidden = hidden;
  m.head_width = hidden / heads;
  m.ffn = 4 * hidden;
  m.vocab = vocab;
  m.max_positions = positions;
  return m;
}

gpu::model_config llama(gpu::model_config m, int64_t kv_heads, int64_t ffn) {
  m.family = gpu::model_family::llama;
  m.kv_heads = kv_heads;
  m.ffn = ffn;
  m.activation = gpu::activation_kind::swiglu;
  m.attention_bias = m.mlp_bias = m.tied = false;
  return m;
}

preset preset_of(const std::string& name) {
  if (name == "tiny") return {gpt2(4, 4, 256, 4096, 1024), 8, 256};
  if (name == "llama-tiny") return {llama(gpt2(4, 8, 256, 4096, 1024), 4, 704), 8, 256};
  if (name == "gpt2-124m") return {gpt2(12, 12, 768, 50257, 1024), 1, 1024};
  if (name == "gpt2-1.5b") return {gpt2(48, 25, 1600, 50257, 1024), 1, 1024};
  if (name == "llama-1b") return {llama(gpt2(16, 32, 2048, 128256, 2048), 8, 8192), 1, 2048};
  if (name == "llama-8b") return {llama(gpt2(8, 32, 4096, 128256, 2048), 8, 14336), 1, 2048, 32};
  return {llama(gpt2(12, 12, 768, 32000, 1024), 4, 2048), 1, 1024};
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

/// One trainer and its data.
class session {
 public:
  static result<session> make(gpu::device& owner, const preset& shape,
                              const train_arguments& args) {
    gpu::local_options options;
    options.micro_batch = shape.batch;
    options.seq = shape.seq;
    options.threads = args.threads;
    options.compute = args.dtype == "bf16" ? gpu::dtype::bf16 : gpu::dtype::f32;
    options.recompute = args.recompute;
    TROUPE_TRY(trainer, gpu::local_trainer::make(owner, shape.model, options));
    TROUPE_CHECK(gpu::initialize(trainer->stage(0).store(), shape.model, 1));
    const auto count = static_cast<size_t>(shape.batch * shape.seq + 1);
    return session(std::move(trainer), random_tokens(count, shape.model.vocab));
  }

  /// Seconds of one step.
  result<double> step(gpu::time_kind clock) {
    const double began = gpu::seconds_now(clock);
    TROUPE_TRY(done, trainer_->step(tokens_.data(), tokens_.data() + 1, 1e-4f));
    loss_ = done.loss;
    return gpu::seconds_now(clock) - began;
  }
  status run(int steps) {
    for (int i = 0; i < steps; ++i) TROUPE_CHECK(step(gpu::time_kind::wall));
    return {};
  }

  gpu::local_trainer& trainer() { return *trainer_; }
  double loss() const { return loss_; }

 private:
  session(std::unique_ptr<gpu::local_trainer> trainer, std::vector<int32_t> tokens)
      : trainer_(std::move(trainer)), tokens_(std::move(tokens)) {}

  std::unique_ptr<gpu::local_trainer> trainer_;
  std::vector<int32_t> tokens_;
  double loss_ = 0;
};

struct measurement {
  std::vector<double> seconds;  ///< sorted
  std::vector<double> peaks;    ///< GFLOP/s, sorted
  double loss = 0;
  double flops_per_step = 0;
  gpu::op_profile profile;
  int profiled_steps = 0;
  std::string plan;
  std::string device;
  double sheet_flops = 0;     ///< of the maker's data sheet; 0: not known
  uint64_t memory_bytes = 0;  ///< of the device in use at the end of the steps; 0: not known

  double peak() const { return peaks[peaks.size() / 2]; }
  double flops() const { return flops_per_step / 1e9; }  ///< GFLOP of a step

  /// A step that stands for others, and the peak it is compared with.
  struct pace {
    const char* name;
    double seconds, peak;
  };
  std::array<pace, 3> paces() const {
    return {{{"best", seconds.front(), peaks.back()},
             {"median", seconds[seconds.size() / 2], peak()},
             {"worst", seconds.back(), peak()}}};
  }
};

result<measurement> measure(const preset& shape, const train_arguments& args) {
  measurement out;
  TROUPE_TRY(owner, gpu::open_device(args.device, args.threads));
  const int threads = args.threads > 0 ? args.threads : owner->facts().threads;
  const auto type = args.dtype == "bf16" ? gpu::dtype::bf16 : gpu::dtype::f32;
  out.device = owner->facts().name;
  out.sheet_flops = type == gpu::dtype::bf16 ? owner->facts().sheet_flops : 0;
  TROUPE_TRY(meter, product_peak::make(*owner, type, threads, args.time()));
  {
    TROUPE_TRY(timed, session::make(*owner, shape, args));
    TROUPE_CHECK(timed.run(args.warmup));
    for (int i = 0; i < args.steps; ++i) {
      TROUPE_TRY(peak, meter.sample());
      out.peaks.push_back(peak / 1e9);
      TROUPE_TRY(seconds, timed.step(args.time()));
      out.seconds.push_back(seconds);
    }
    out.loss = timed.loss();
    out.plan = timed.trainer().stage(0).plan().text();
    const auto facts = owner->facts();
    if (facts.free_bytes > 0) out.memory_bytes = facts.memory_bytes - facts.free_bytes;
  }
  std::sort(out.peaks.begin(), out.peaks.end());
  std::sort(out.seconds.begin(), out.seconds.end());
  out.flops_per_step =
      shape.model.flops_per_token(shape.seq) * static_cast<double>(shape.batch * shape.seq);
  auto profiled = gpu::make_profiled_device(*owner, out.profile);
  TROUPE_TRY(watched, session::make(*profiled, shape, args));
  TROUPE_CHECK(watched.run(1));
  out.profile.clear();
  out.profile.clock = args.time();
  out.profiled_steps = std::max(1, std::min(args.steps, 5));
  TROUPE_CHECK(watched.run(out.profiled_steps));
  return out;
}

std::vector<std::pair<gpu::op_kind, gpu::op_time>> by_time(const gpu::op_profile& profile) {
  std::vector<std::pair<gpu::op_kind, gpu::op_time>> out;
  for (size_t i = 0; i < profile.kinds.size(); ++i)
    if (profile.kinds[i].calls > 0)
      out.emplace_back(static_cast<gpu::op_kind>(i), profile.kinds[i]);
  std::sort(out.begin(), out.end(),
            [](auto& a, auto& b) { return a.second.seconds > b.second.seconds; });
  return out;
}

/// Says so where layers are cut.
std::string cut(const preset& shape) {
  if (shape.layers_of_model == 0 || shape.layers_of_model == shape.model.layers) return "";
  return fmt::format(" cut to {} of {} layers", shape.model.layers, shape.layers_of_model);
}

std::string text(const train_arguments& args, const preset& shape, const measurement& m) {
  const double tokens = static_cast<double>(shape.batch * shape.seq);
  std::string out = fmt::format(
      "{}{} {} {}x{}, {:.1f} M parameters, {} steps, loss {:.4f}\non {}; peak {:.0f} GFLOP/s\n",
      args.model, cut(shape), args.dtype, shape.batch, shape.seq,
      static_cast<double>(shape.model.parameters()) / 1e6, m.seconds.size(), m.loss, m.device,
      m.peak());
  for (const auto& pace : m.paces()) {
    const double gflops = m.flops() / pace.seconds;
    out +=
        fmt::format("  {:<7} {:10.1f} tokens/s {:9.1f} GFLOP/s {:6.1f} % of peak {:10.1f} ms{}\n",
                    pace.name, tokens / pace.seconds, gflops, 100 * gflops / pace.peak,
                    pace.seconds * 1e3, args.clock == "cpu" ? " of processor time" : "");
  }
  if (m.sheet_flops > 0)
    out +=
        fmt::format("  MFU     {:6.1f} % of the data sheet's {:.0f} TFLOP/s (median step)\n",
                    100e9 * m.flops() / m.paces()[1].seconds / m.sheet_flops, m.sheet_flops / 1e12);
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
      out += fmt::format(" {:8.1f} GFLOP/s ({:.0f} %)", gflops, 100 * gflops / m.peak());
    }
    out += "\n";
  }
  return out + m.plan;
}

std::string json_text(const train_arguments& args, const preset& shape, const measurement& m) {
  const double tokens = static_cast<double>(shape.batch * shape.seq);
  nlohmann::ordered_json out;
  out["bench"] = "train";
  out["model"] = args.model;
  out["dtype"] = args.dtype;
  out["device"] = m.device;
  out["layers"] = shape.model.layers;
  if (m.sheet_flops > 0) out["mfu"] = 1e9 * m.flops() / m.paces()[1].seconds / m.sheet_flops;
  if (m.memory_bytes > 0) out["memory_bytes"] = m.memory_bytes;
  out["threads"] = args.threads;
  out["batch"] = shape.batch;
  out["seq"] = shape.seq;
  out["parameters"] = shape.model.parameters();
  out["loss"] = m.loss;
  out["clock"] = args.clock;
  out["peak_gflops"] = m.peak();
  for (const auto& pace : m.paces()) {
    const double gflops = m.flops() / pace.seconds;
    out[pace.name] = {{"tokens_per_s", tokens / pace.seconds},
                      {"gflops", gflops},
                      {"of_peak", gflops / pace.peak},
                      {"step_ms", pace.seconds * 1e3}};
  }
  for (const auto& [kind, time] : by_time(m.profile))
    out["ops"][std::string(to_string(kind))] = {
        {"share", time.seconds / m.profile.total_seconds()},
        {"ms_per_step", 1e3 * time.seconds / m.profiled_steps},
        {"calls_per_step", time.calls / m.profiled_steps},
        {"gflops", time.flops / time.seconds / 1e9}};
  return out.dump() + "\n";
}

}  // namespace

void add_bench_train(shell& sh, CLI::App* bench) {
  auto* verb = bench->add_subcommand("train", "Training speed of one process and where time goes");
  auto args = std::make_shared<train_arguments>();
  verb->add_option("--model", args->model, "Which model")
      ->check(CLI::IsMember(
          {"tiny", "llama-tiny", "gpt2-124m", "llama-110m", "gpt2-1.5b", "llama-1b", "llama-8b"}))
      ->capture_default_str();
  verb->add_option("--dtype", args->dtype, "Number format of the computation")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  verb->add_option("--device", args->device, "host, cuda, cuda:1 ...")->capture_default_str();
  verb->add_option("--layers", args->layers, "Layers; 0: as the model has, or what fits of it")
      ->check(CLI::Range(0, 1000));
  verb->add_option("--threads", args->threads, "Compute threads; 0: all cores")
      ->check(CLI::Range(0, 1024));
  verb->add_option("--batch", args->batch, "Rows; 0: as the model is usually measured")
      ->check(CLI::Range(0, 1 << 20));
  verb->add_option("--seq", args->seq, "Tokens a row; 0: as usual")->check(CLI::Range(0, 1 << 20));
  verb->add_option("--steps", args->steps, "Measured steps")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb->add_option("--warmup", args->warmup, "Steps before them")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  verb->add_option("--clock", args->clock,
                   "wall, or cpu: this process's processor time, for busy machines (1 thread)")
      ->check(CLI::IsMember({"wall", "cpu"}))
      ->capture_default_str();
  verb->add_flag("--recompute", args->recompute, "Recompute activations in backward");
  verb->add_flag("--json", args->json, "As one JSON object");
  on_run(sh, verb, [args]() -> result<int> {
    preset shape = preset_of(args->model);
    if (args->batch > 0) shape.batch = args->batch;
    if (args->seq > 0) shape.seq = args->seq;
    if (args->layers > 0) {
      if (shape.layers_of_model == 0) shape.layers_of_model = shape.model.layers;
      shape.model.layers = args->layers;
    }
    shape.model.max_positions = std::max(shape.model.max_positions, shape.seq);
    TROUPE_TRY(m, measure(shape, *args));
    TROUPE_CHECK(print(args->json ? json_text(*args, shape, m) : text(*args, shape, m)));
    return 0;
  });
}

}  // namespace troupe::apps
