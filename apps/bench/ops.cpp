// `troupe bench ops`: the time of each operation of a training step, alone, at the shapes of
// known models.
//
// Why: a step's time says that something is slow, this says what. Products are compared with the
// measured ceiling (`troupe bench peak`), passes over memory are given in bytes a second.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/bench/compute.hpp"
#include "gpu/host/peak.hpp"
#include "gpu/ops.hpp"

namespace troupe::apps {
namespace {

using namespace gpu;

/// The shapes of one model and batch.
struct bench_shape {
  int64_t batch, seq, layers, heads, kv_heads, width, feed, vocab;
  bool llama;

  int64_t tokens() const { return batch * seq; }
  int64_t head_width() const { return width / heads; }
  int64_t qkv() const { return (heads + 2 * kv_heads) * head_width(); }
  int64_t feed_in() const { return llama ? 2 * feed : feed; }
};

const std::map<std::string, bench_shape> bench_shapes = {
    {"tiny", {8, 256, 4, 4, 4, 256, 1024, 4096, false}},
    {"llama-tiny", {8, 256, 4, 8, 4, 256, 704, 4096, true}},
    {"gpt2-124m", {1, 1024, 12, 12, 12, 768, 3072, 50257, false}},
    {"llama-110m", {1, 1024, 12, 12, 4, 768, 2048, 32000, true}},
};

struct ops_arguments {
  std::string model = "tiny", type = "f32", only, clock = "wall";
  int threads = 2;
  bool json = false;
};

/// One operation to time: what it does, and how often a step does it.
struct ops_case {
  std::string name;
  double flops, bytes;  // of one call
  int64_t per_step;
  std::function<void()> enqueue;
};

/// Device, stream and memory that the cases share. Buffers live until the end.
class ops_bench {
 public:
  ops_bench(const bench_shape& shape, dtype type, int threads)
      : s_(shape), type_(type), device_(make_host_device(threads)) {}

  status open(int threads) {
    auto made = device_->make_stream({"bench", threads});
    if (!made) return made.error();
    stream_ = std::move(*made);
    return {};
  }
  status add_cases();
  /// Seconds of one call: the median of several rounds; `peak`: the median of the ceiling between
  /// them, operations a second.
  double time(const ops_case& c, peak_meter& meter, time_kind clock, double& peak);
  const std::vector<ops_case>& cases() const { return cases_; }
  bool out_of_memory() const { return out_of_memory_; }

 private:
  template <class T = void>
  T* take(int64_t elements, dtype type, float value = 0.01f);
  void add_linear(const std::string& name, int64_t in, int64_t out, int64_t per_step);
  void add_rows();
  void add_attention();
  void add_ends();

  const bench_shape s_;
  const dtype type_;
  std::unique_ptr<device> device_;
  std::unique_ptr<stream> stream_;
  std::vector<buffer> buffers_;
  std::vector<ops_case> cases_;
  bool out_of_memory_ = false;
};

/// Memory filled with numbers around `value`; null once memory has run out.
template <class T>
T* ops_bench::take(int64_t elements, dtype type, float value) {
  auto made = device_->allocate(static_cast<size_t>(elements) * size_of(type));
  auto source = device_->allocate(static_cast<size_t>(elements) * sizeof(float));
  if (!made || !source) {
    out_of_memory_ = true;
    return nullptr;
  }
  buffers_.push_back(std::move(*made));
  if (type != dtype::i32) {
    auto* numbers = source->as<float>();
    for (int64_t i = 0; i < elements; ++i) {
      numbers[i] = value * (1.0f + 0.5f * static_cast<float>(i * 7919 % 1009 - 504) / 504.0f);
    }
    device_->ops().cast(*stream_, buffers_.back().data(), type, numbers, dtype::f32, elements);
    if (!stream_->synchronize()) out_of_memory_ = true;
  }
  return static_cast<T*>(buffers_.back().data());
}

void ops_bench::add_linear(const std::string& name, int64_t in, int64_t out, int64_t per_step) {
  const int64_t n = s_.tokens();
  auto *x = take(n * in, type_), *w = take(out * in, type_), *y = take(n * out, type_);
  auto* dw = take<float>(out * in, dtype::f32);
  const double flops = 2.0 * static_cast<double>(n * in) * static_cast<double>(out);
  const auto bytes =
      static_cast<double>((n * in + out * in + n * out) * static_cast<int64_t>(size_of(type_)));
  ops& op = device_->ops();
  cases_.push_back(
      {name + " forward", flops, bytes, per_step, [=, this, &op] {
         op.linear_forward(
             *stream_, {.tokens = n, .in = in, .out = out, .type = type_, .x = x, .w = w, .y = y});
       }});
  cases_.push_back(
      {name + " backward input", flops, bytes, per_step, [=, this, &op] {
         op.linear_backward_input(
             *stream_,
             {.tokens = n, .in = in, .out = out, .type = type_, .dy = y, .w = w, .dx = x});
       }});
  cases_.push_back(
      {name + " backward weight", flops, bytes, per_step, [=, this, &op] {
         op.linear_backward_weight(
             *stream_,
             {.tokens = n, .in = in, .out = out, .type = type_, .dy = y, .x = x, .dw = dw});
       }});
}

void ops_bench::add_rows() {
  const int64_t n = s_.tokens(), c = s_.width, f = s_.feed, layers = s_.layers;
  const auto element = static_cast<double>(size_of(type_));
  auto *x = take(n * c, type_), *y = take(n * c, type_), *r = take(n * c, type_);
  auto *w = take(c, type_), *bias = take(c, type_);
  auto *mean = take<float>(n, dtype::f32), *rstd = take<float>(n, dtype::f32);
  auto *dw = take<float>(c, dtype::f32), *db = take<float>(c, dtype::f32);
  auto *wide = take(n * s_.feed_in(), type_), *narrow = take(n * f, type_);
  const norm_kind kind = s_.llama ? norm_kind::rms : norm_kind::layer;
  const auto act = s_.llama ? activation_kind::swiglu : activation_kind::gelu_tanh;
  const auto rows = static_cast<double>(n * c) * element;
  const double in = static_cast<double>(n * s_.feed_in()) * element;
  const double out = static_cast<double>(n * f) * element;
  ops& op = device_->ops();
  cases_.push_back({"norm forward + residual", 0, 4 * rows, 2 * layers + 1, [=, this, &op] {
                      op.norm_forward(*stream_, {.kind = kind,
                                                 .tokens = n,
                                                 .width = c,
                                                 .type = type_,
                                                 .eps = 1e-5f,
                                                 .x = x,
                                                 .residual = r,
                                                 .weight = w,
                                                 .bias = bias,
                                                 .sum_out = x,
                                                 .y = y,
                                                 .mean = mean,
                                                 .rstd = rstd});
                    }});
  cases_.push_back({"norm backward + residual", 0, 4 * rows, 2 * layers + 1, [=, this, &op] {
                      op.norm_backward(*stream_, {.kind = kind,
                                                  .tokens = n,
                                                  .width = c,
                                                  .type = type_,
                                                  .dy = y,
                                                  .x = x,
                                                  .weight = w,
                                                  .mean = mean,
                                                  .rstd = rstd,
                                                  .dresidual = r,
                                                  .dx = r,
                                                  .dweight = dw,
                                                  .dbias = db});
                    }});
  cases_.push_back({"activation forward", 0, in + out, layers, [=, this, &op] {
                      op.activation_forward(*stream_, {act, n, f, type_, wide, narrow});
                    }});
  cases_.push_back({"activation backward", 0, 2 * in + out, layers, [=, this, &op] {
                      op.activation_backward(*stream_, {act, n, f, type_, wide, narrow, wide});
                    }});
}

void ops_bench::add_attention() {
  const int64_t b = s_.batch, t = s_.seq, h = s_.heads, k = s_.kv_heads, d = s_.head_width();
  const int64_t n = s_.tokens(), layers = s_.layers;
  auto *qkv = take(n * s_.qkv(), type_), *dqkv = take(n * s_.qkv(), type_);
  auto *out = take(n * h * d, type_), *dout = take(n * h * d, type_);
  auto* lse = take<float>(b * h * t, dtype::f32);
  // two products over the visible half of T x T; five in backward
  const double product = 2.0 * static_cast<double>(b * h * d) * static_cast<double>(t * t) / 2;
  const auto bytes =
      static_cast<double>(n * (s_.qkv() + h * d)) * static_cast<double>(size_of(type_));
  ops& op = device_->ops();
  cases_.push_back({"attention forward", 2 * product, bytes, layers, [=, this, &op] {
                      op.attention_forward(*stream_, {b, t, h, k, d, 0, type_, qkv, out, lse});
                    }});
  cases_.push_back(
      {"attention backward", 5 * product, 2 * bytes, layers, [=, this, &op] {
         op.attention_backward(*stream_, {b, t, h, k, d, 0, type_, qkv, out, lse, dout, dqkv});
       }});
}

void ops_bench::add_ends() {
  const int64_t n = s_.tokens(), c = s_.width, v = s_.vocab;
  const int64_t parameters =
      s_.layers * (c * s_.qkv() + c * c + c * s_.feed_in() + c * s_.feed) + v * c;
  auto *x = take(n * c, type_), *w = take(v * c, type_), *dx = take(n * c, type_);
  auto* dw = take<float>(v * c, dtype::f32);
  auto* ids = take<int32_t>(n, dtype::i32);
  auto* loss = take<double>(2, dtype::f32);
  for (int64_t i = 0; !out_of_memory_ && i < n; ++i) ids[i] = static_cast<int32_t>(i * 7919 % v);
  float* state[4];
  for (float*& part : state) part = take<float>(parameters, dtype::f32);
  auto* weight = type_ == dtype::f32 ? static_cast<void*>(state[0]) : take(parameters, type_);
  auto* scale = take<float>(1, dtype::f32, 1.0f);
  auto* span = take<parameter_span>(static_cast<int64_t>(sizeof(parameter_span) / 4), dtype::i32);
  if (out_of_memory_) return;
  *span = {0, parameters, true};
  ops& op = device_->ops();
  const double head = 6.0 * static_cast<double>(n * c) * static_cast<double>(v);
  const auto element = static_cast<double>(size_of(type_));
  const auto count = static_cast<double>(parameters);
  cases_.push_back(
      {"head + loss, both ways", head, element * static_cast<double>(n * v), 1, [=, this, &op] {
         op.head_loss(*stream_, {n, c, v, type_, x, w, ids, 1e-3f, loss, dx, dw});
       }});
  cases_.push_back(
      {"embedding forward", 0, 2 * element * static_cast<double>(n * c), 1, [=, this, &op] {
         op.embedding_forward(*stream_, {s_.batch, s_.seq, c, v, type_, ids, w, nullptr, x});
       }});
  cases_.push_back(
      {"embedding backward", 0, (element + 8) * static_cast<double>(n * c), 1, [=, this, &op] {
         op.embedding_backward(*stream_, {s_.batch, s_.seq, c, v, type_, ids, x, dw, nullptr});
       }});
  cases_.push_back(
      {"AdamW, one pass", 0, count * (32 + (type_ == dtype::bf16 ? 2 : 0)), 1, [=, this, &op] {
         op.optimizer_step(*stream_, {optimizer_args::rule::adamw, parameters, span, 1, state[0],
                                      weight, type_, state[1], state[2], state[3], scale, 1e-3f,
                                      0.9f, 0.95f, 1e-8f, 0.1f, 10, true});
       }});
  cases_.push_back({"norm of gradients", 0, count * 4, 1, [=, this, &op] {
                      op.norm_squared(*stream_, state[3], span, 1, loss, nullptr);
                    }});
}

status ops_bench::add_cases() {
  add_linear("qkv", s_.width, s_.qkv(), s_.layers);
  add_linear("attention out", s_.width, s_.width, s_.layers);
  add_linear("feed in", s_.width, s_.feed_in(), s_.layers);
  add_linear("feed out", s_.feed, s_.width, s_.layers);
  add_attention();
  add_rows();
  add_ends();
  if (out_of_memory_) {
    return error(errc::no_memory, "the benchmark's tensors do not fit", "choose a smaller model");
  }
  return {};
}

double ops_bench::time(const ops_case& c, peak_meter& meter, time_kind clock, double& peak) {
  const auto once = [&](int calls) {
    const double start = seconds_now(clock);
    for (int i = 0; i < calls; ++i) c.enqueue();
    const status outcome = stream_->synchronize();
    if (!outcome) out_of_memory_ = true;
    return (seconds_now(clock) - start) / calls;
  };
  once(2);
  const int calls = std::clamp(static_cast<int>(0.01 / once(1)), 1, 200);
  std::vector<double> seconds, peaks;
  const double until = seconds_now(time_kind::wall) + 0.4;
  while (seconds.size() < 3 || seconds_now(time_kind::wall) < until) {
    peaks.push_back(meter.sample());
    seconds.push_back(once(calls));
  }
  std::sort(seconds.begin(), seconds.end());
  std::sort(peaks.begin(), peaks.end());
  peak = peaks[peaks.size() / 2];
  return seconds[seconds.size() / 2];
}

std::string describe(const ops_case& c, double seconds, double share, double peak) {
  std::string rate = fmt::format("{:>9.1f} GB/s", c.bytes / seconds * 1e-9);
  if (c.flops > 0) {
    rate = fmt::format("{:>8.1f} GFLOP/s {:>5.1f} % of peak", c.flops / seconds * 1e-9,
                       100 * c.flops / seconds / peak);
  }
  return fmt::format("{:<30} {:>9.3f} ms {:>5.1f} % of a step  {}\n", c.name, seconds * 1e3,
                     100 * share, rate);
}

result<int> run_ops(const ops_arguments& arguments) {
  const dtype type = arguments.type == "bf16" ? dtype::bf16 : dtype::f32;
  const time_kind clock = arguments.clock == "cpu" ? time_kind::processor : time_kind::wall;
  TROUPE_TRY(meter, peak_meter::make(type, arguments.threads, clock));
  const bench_shape& shape = bench_shapes.at(arguments.model);
  ops_bench bench(shape, type, arguments.threads);
  TROUPE_CHECK(bench.open(arguments.threads));
  TROUPE_CHECK(bench.add_cases());
  std::vector<double> seconds, peaks;
  std::vector<const ops_case*> chosen;
  double step = 0, flops = 0;
  for (const ops_case& c : bench.cases()) {
    if (c.name.find(arguments.only) == std::string::npos) continue;
    chosen.push_back(&c);
    double ceiling = 0;
    seconds.push_back(bench.time(c, meter, clock, ceiling));
    peaks.push_back(ceiling);
    step += seconds.back() * static_cast<double>(c.per_step);
    flops += c.flops * static_cast<double>(c.per_step);
  }
  if (chosen.empty()) return error(errc::usage, "no operation has that in its name");
  std::vector<double> sorted = peaks;
  std::sort(sorted.begin(), sorted.end());
  const double peak = sorted[sorted.size() / 2];
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < seconds.size(); ++i) {
    const ops_case& c = *chosen[i];
    const double share = seconds[i] * static_cast<double>(c.per_step) / step;
    if (arguments.json) {
      rows.push_back({{"op", c.name},
                      {"seconds", seconds[i]},
                      {"per_step", c.per_step},
                      {"share", share},
                      {"flops", c.flops},
                      {"bytes", c.bytes}});
    } else {
      TROUPE_CHECK(print(describe(c, seconds[i], share, peaks[i])));
    }
  }
  if (arguments.json) {
    nlohmann::ordered_json all = {{"model", arguments.model},     {"dtype", arguments.type},
                                  {"threads", arguments.threads}, {"peak_flops", peak},
                                  {"step_seconds", step},         {"ops", rows}};
    TROUPE_CHECK(print(all.dump() + "\n"));
  } else {
    TROUPE_CHECK(print(fmt::format(
        "all of a step {:>26.2f} ms  {:.0f} tok/s  {:.1f} % of the {:.0f} GFLOP/s peak\n",
        step * 1e3, static_cast<double>(shape.tokens()) / step, 100 * flops / step / peak,
        peak * 1e-9)));
  }
  return 0;
}

}  // namespace

void add_bench_ops(shell& sh, CLI::App* bench) {
  auto* verb = bench->add_subcommand("ops", "Time each operation of a training step, alone");
  auto arguments = std::make_shared<ops_arguments>();
  verb->add_option("--model", arguments->model, "Shapes to use (default tiny)")
      ->check(CLI::IsMember({"tiny", "llama-tiny", "gpt2-124m", "llama-110m"}));
  verb->add_option("--dtype", arguments->type, "f32 or bf16 (default f32)")
      ->check(CLI::IsMember({"f32", "bf16"}));
  verb->add_option("--threads", arguments->threads, "Threads of the stream (default 2)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--only", arguments->only, "Operations with this in their name");
  verb->add_option("--clock", arguments->clock,
                   "wall, or cpu: this process's processor time, for busy machines (1 thread)")
      ->check(CLI::IsMember({"wall", "cpu"}));
  verb->add_flag("--json", arguments->json, "As one JSON object");
  on_run(sh, verb, [arguments] { return run_ops(*arguments); });
}

}  // namespace troupe::apps
