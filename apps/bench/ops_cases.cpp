// Tensors, calls and the stopwatch of the operations' benchmark.
#include "apps/bench/ops_cases.hpp"

#include <algorithm>
#include <utility>

namespace troupe::apps {

using namespace gpu;

namespace {

constexpr int64_t pattern_elements = 1 << 20;

}  // namespace

std::vector<float> noise(int64_t count, float scale, float offset) {
  std::vector<float> out(static_cast<size_t>(count));
  uint64_t x = 0x9e3779b97f4a7c15u;
  for (float& number : out) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    number = offset + scale * (static_cast<float>(x >> 40) / 8388608.0f - 1.0f);
  }
  return out;
}

namespace {

double as_double(int64_t a, int64_t b = 1) {
  return static_cast<double>(a) * static_cast<double>(b);
}

}  // namespace

const std::map<std::string, bench_shape>& bench_shapes() {
  static const std::map<std::string, bench_shape> shapes = {
      {"micro", {1, 32, 1, 2, 2, 32, 128, 128, false}},
      {"tiny", {8, 256, 4, 4, 4, 256, 1024, 4096, false}},
      {"llama-tiny", {8, 256, 4, 8, 4, 256, 704, 4096, true}},
      {"gpt2-124m", {1, 1024, 12, 12, 12, 768, 3072, 50257, false}},
      {"gpt2-1.5b", {1, 1024, 48, 25, 25, 1600, 6400, 50257, false}},
      {"llama-110m", {1, 1024, 12, 12, 4, 768, 2048, 32000, true}},
      {"llama-1b", {1, 2048, 16, 32, 8, 2048, 8192, 128256, true}},
      {"llama-8b", {1, 4096, 32, 32, 8, 4096, 14336, 128256, true}},
  };
  return shapes;
}

double ceilings::floor_s(const ops_case& c) const {
  return std::max(flops > 0 ? c.flops / flops : 0,
                  bytes_per_second > 0 ? c.bytes / bytes_per_second : 0);
}

result<spread> time_calls(stream& s, const std::function<void()>& enqueue,
                          const ops_timing& timing) {
  status outcome;
  const auto round = [&](int calls) {
    const double start = seconds_now(timing.clock);
    for (int i = 0; i < calls; ++i) enqueue();
    if (status done = s.synchronize(); !done && outcome) outcome = done;
    return (seconds_now(timing.clock) - start) / calls;
  };
  round(2);
  const int calls = std::clamp(static_cast<int>(0.01 / std::max(round(1), 1e-7)), 1, 2000);
  std::vector<double> seconds;
  const double until = seconds_now(time_kind::wall) + timing.seconds;
  while (outcome && (seconds.size() < 3 || seconds_now(time_kind::wall) < until)) {
    timing.between();
    seconds.push_back(round(calls));
  }
  if (!outcome) return outcome.error();
  return spread_of(std::move(seconds));
}

result<ceilings> measure_ceilings(device& on, stream& s, dtype type, int64_t side,
                                  size_t copy_bytes) {
  ceilings found;
  const ops_timing timing = {.seconds = 0.5};
  {
    TROUPE_TRY(from, on.allocate(copy_bytes));
    TROUPE_TRY(to, on.allocate(copy_bytes));
    TROUPE_TRY(time, time_calls(
                         s, [&] { s.copy(to.data(), from.data(), copy_bytes); }, timing));
    found.bytes_per_second = 2 * static_cast<double>(copy_bytes) / time.least;
  }
  const int64_t elements = side * side;
  const size_t bytes = static_cast<size_t>(elements) * size_of(type);
  const auto numbers = noise(elements, 1, 0);
  TROUPE_TRY(source, on.allocate(static_cast<size_t>(elements) * sizeof(float)));
  TROUPE_TRY(x, on.allocate(bytes));
  TROUPE_TRY(w, on.allocate(bytes));
  TROUPE_TRY(y, on.allocate(bytes));
  s.copy(source.data(), numbers.data(), source.bytes());
  on.ops().cast(s, {x.data(), type, source.data(), dtype::f32, elements});
  on.ops().cast(s, {w.data(), type, source.data(), dtype::f32, elements});
  TROUPE_CHECK(s.synchronize());
  const auto product = [&] {
    on.ops().linear_forward(s, {.tokens = side,
                                .in = side,
                                .out = side,
                                .type = type,
                                .x = x.data(),
                                .w = w.data(),
                                .y = y.data()});
  };
  TROUPE_TRY(time, time_calls(s, product, timing));
  found.flops = 2 * as_double(side, side) * as_double(side) / time.least;
  return found;
}

result<std::unique_ptr<ops_cases>> ops_cases::make(device& on, stream& s, const bench_shape& shape,
                                                   dtype type) {
  std::unique_ptr<ops_cases> made(new ops_cases(on, s, shape, type));
  ops_cases& m = *made;
  for (int i = 0; i < 2; ++i) {
    const auto numbers = i == 0 ? noise(pattern_elements, 0.02f, 0) :  //
                             noise(pattern_elements, 0.005f, 0.01f);
    TROUPE_TRY(pattern, on.allocate(numbers.size() * sizeof(float)));
    s.copy(pattern.data(), numbers.data(), pattern.bytes());
    TROUPE_CHECK(s.synchronize());
    m.patterns_[i] = std::move(pattern);
  }
  m.add_linear("qkv", shape.width, shape.qkv());
  m.add_linear("attention out", shape.width, shape.width);
  m.add_linear("feed in", shape.width, shape.feed_in(), gelu_side::out);
  m.add_linear("feed out", shape.feed, shape.width, gelu_side::in);
  m.add_attention();
  m.add_norms();
  m.add_rows();
  m.add_head();
  m.add_optimizers();
  m.add_small();
  if (!m.outcome_) return m.outcome_.error();
  return made;
}

void ops_cases::keep(status outcome) {
  if (outcome_ && !outcome) outcome_ = std::move(outcome);
}

void ops_cases::fill(void* to, int64_t elements, dtype type, content what) {
  auto* bytes = static_cast<char*>(to);
  const void* pattern = patterns_[what == content::positive].data();
  for (int64_t done = 0; done < elements; done += pattern_elements) {
    const int64_t count = std::min(pattern_elements, elements - done);
    device_.ops().cast(stream_, {bytes + done * static_cast<int64_t>(size_of(type)), type, pattern,
                                 dtype::f32, count});
  }
  keep(stream_.synchronize());
}

/// Memory that lives as long as the cases; null once something has gone wrong.
template <class T>
T* ops_cases::take(int64_t elements, dtype type, content what) {
  if (!outcome_) return nullptr;
  auto made = device_.allocate(static_cast<size_t>(elements) * size_of(type));
  if (!made) {
    keep(error(made.error().code, made.error().message,
               "choose a smaller model or batch: its tensors do not fit"));
    return nullptr;
  }
  buffers_.push_back(std::move(*made));
  void* data = buffers_.back().data();
  if (what != content::zeros) fill(data, elements, type, what);
  return static_cast<T*>(data);
}

template <class T>
T* ops_cases::take_copy(const std::vector<T>& from) {
  const size_t bytes = from.size() * sizeof(T);
  T* to = take<T>(static_cast<int64_t>((bytes + 3) / 4), dtype::i32, content::zeros);
  if (!to) return nullptr;
  stream_.copy(to, from.data(), bytes);
  keep(stream_.synchronize());
  return to;
}

void ops_cases::add(std::string name, double flops, double bytes, int64_t per_step,
                    std::function<void()> enqueue) {
  cases_.push_back({std::move(name), flops, bytes, per_step, std::move(enqueue)});
}

/// A Llama's products have no biases, and its activation is a pass of its own.
void ops_cases::add_linear(const std::string& name, int64_t in, int64_t out, gelu_side gelu) {
  const int64_t n = s_.tokens(), layers = s_.layers;
  auto *x = take(n * in, type_), *w = take(out * in, type_), *y = take(n * out, type_);
  auto* dw = take<float>(out * in, dtype::f32);
  auto* bias = s_.llama ? nullptr : take(out, type_);
  auto* dbias = s_.llama ? nullptr : take<float>(out, dtype::f32);
  const bool forward = !s_.llama && gelu == gelu_side::out;
  const bool backward = !s_.llama && gelu == gelu_side::in;
  auto* pre = forward ? take(n * out, type_) : backward ? take(n * in, type_) : nullptr;
  const double flops = 2 * as_double(n * in, out);
  const double element = static_cast<double>(size_of(type_));
  const double bytes = element * as_double(n * in + out * in + n * out);
  const double bias_bytes = s_.llama ? 0 : static_cast<double>(out);
  const double weight_bytes = element * as_double(n * in + n * out) + 8 * as_double(out * in);
  ops& op = device_.ops();
  add(name + (forward ? " forward + GELU" : " forward"), flops,
      bytes + element * (bias_bytes + (forward ? as_double(n, out) : 0)), layers, [=, this, &op] {
        op.linear_forward(stream_, {.tokens = n,
                                    .in = in,
                                    .out = out,
                                    .type = type_,
                                    .x = x,
                                    .w = w,
                                    .bias = bias,
                                    .y = y,
                                    .pre_gelu = forward ? pre : nullptr});
      });
  add(name + (backward ? " backward input + GELU" : " backward input"), flops,
      bytes + (backward ? element * as_double(n, in) : 0), layers, [=, this, &op] {
        op.linear_backward_input(stream_, {.tokens = n,
                                           .in = in,
                                           .out = out,
                                           .type = type_,
                                           .dy = y,
                                           .w = w,
                                           .dx = x,
                                           .pre_gelu = backward ? pre : nullptr});
      });
  add(name + (dbias ? " backward weight + bias" : " backward weight"), flops,
      weight_bytes + 8 * bias_bytes, layers, [=, this, &op] {
        op.linear_backward_weight(stream_, {.tokens = n,
                                            .in = in,
                                            .out = out,
                                            .type = type_,
                                            .dy = y,
                                            .x = x,
                                            .dw = dw,
                                            .dbias = dbias});
      });
}

/// Rows cut into so many documents of the same length, or nearly.
row_documents ops_cases::take_documents(int64_t of_row) {
  std::vector<int32_t> first, end;
  for (int64_t i = 0; i < s_.tokens(); ++i) {
    const int64_t number = i % s_.seq * of_row / s_.seq;
    first.push_back(static_cast<int32_t>((number * s_.seq + of_row - 1) / of_row));
    end.push_back(static_cast<int32_t>(((number + 1) * s_.seq + of_row - 1) / of_row));
  }
  return {take_copy(first), take_copy(end)};
}

void ops_cases::add_attention() {
  const int64_t b = s_.batch, t = s_.seq, h = s_.heads, k = s_.kv_heads, d = s_.head_width();
  const int64_t n = s_.tokens(), layers = s_.layers;
  auto *qkv = take(n * s_.qkv(), type_), *dqkv = take(n * s_.qkv(), type_);
  auto *out = take(n * h * d, type_), *dout = take(n * h * d, type_);
  auto* lse = take<float>(b * h * t, dtype::f32);
  // two products over the visible half of T x T; five in backward
  const double product = 2 * as_double(b * h * d) * as_double(t, t) / 2;
  const double bytes = static_cast<double>(size_of(type_)) * as_double(n, s_.qkv() + h * d);
  ops& op = device_.ops();
  add("attention forward", 2 * product, bytes, layers, [=, this, &op] {
    op.attention_forward(stream_, {b, t, h, k, d, 0, type_, qkv, out, lse});
  });
  add("attention backward", 5 * product, 2 * bytes, layers, [=, this, &op] {
    op.attention_backward(stream_, {b, t, h, k, d, 0, type_, qkv, out, lse, dout, dqkv});
  });
  // a token of generation, behind a row of text
  const double cache = as_double(t, 2 * k * d);
  add("attention of a token, cached", 4 * as_double(t, h * d),
      static_cast<double>(size_of(type_)) * cache, 0, [=, this, &op] {
        op.attention_cached(stream_, {t, 1, h, k, d, 0, type_, qkv, out});
      });
  const row_documents parted = take_documents(4);
  add("attention forward, 4 documents a row", 2 * product / 4, bytes, 0, [=, this, &op] {
    op.attention_forward(stream_, {b, t, h, k, d, 0, type_, qkv, out, lse, parted});
  });
  add("attention backward, 4 documents a row", 5 * product / 4, 2 * bytes, 0, [=, this, &op] {
    op.attention_backward(stream_, {b, t, h, k, d, 0, type_, qkv, out, lse, dout, dqkv, parted});
  });
  if (!s_.llama) return;
  auto* angles = take<float>(2 * t * (d / 2), dtype::f32);
  const double rotated = 2 * static_cast<double>(size_of(type_)) * as_double(n, (h + k) * d);
  // of Qwen 3: what it adds to such a model
  const double element = static_cast<double>(size_of(type_));
  const double normed = 3 * element * as_double(n, (h + k) * d) + 4 * as_double(n, h + k);
  auto* before = take(n * (h + k) * d, type_);
  auto *q_weight = take(d, type_), *k_weight = take(d, type_);
  auto* rstd = take<float>(n * (h + k), dtype::f32);
  auto *dq = take<float>(d, dtype::f32), *dk = take<float>(d, dtype::f32);
  add("norm of heads forward", 0, normed, 0, [=, this, &op] {
    op.head_norm_forward(stream_,
                         {b, t, h, k, d, type_, 1e-6f, qkv, before, q_weight, k_weight, rstd});
  });
  add("norm of heads backward", 0, normed, 0, [=, this, &op] {
    op.head_norm_backward(stream_,
                          {b, t, h, k, d, type_, dqkv, before, q_weight, k_weight, rstd, dq, dk});
  });
  add("rope", 0, rotated, 2 * layers, [=, this, &op] {
    op.rope(stream_, {.batch = b,
                      .seq = t,
                      .heads = h,
                      .kv_heads = k,
                      .head_width = d,
                      .type = type_,
                      .qkv = dqkv,
                      .cosine = angles,
                      .sine = angles + t * (d / 2)});
  });
}

void ops_cases::add_norms() {
  const int64_t n = s_.tokens(), c = s_.width, calls = 2 * s_.layers + 1;
  auto *x = take(n * c, type_), *y = take(n * c, type_), *r = take(n * c, type_);
  auto *w = take(c, type_), *bias = take(c, type_);
  auto *mean = take<float>(n, dtype::f32), *rstd = take<float>(n, dtype::f32);
  auto *dw = take<float>(c, dtype::f32), *db = take<float>(c, dtype::f32);
  const norm_kind kind = s_.llama ? norm_kind::rms : norm_kind::layer;
  const double rows = static_cast<double>(size_of(type_)) * as_double(n, c);
  const norm_forward_args forward = {.kind = kind,
                                     .tokens = n,
                                     .width = c,
                                     .type = type_,
                                     .eps = 1e-5f,
                                     .x = x,
                                     .residual = r,
                                     .weight = w,
                                     .bias = s_.llama ? nullptr : bias,
                                     .sum_out = x,
                                     .y = y,
                                     .mean = mean,
                                     .rstd = rstd};
  const norm_backward_args backward = {.kind = kind,
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
                                       .dbias = s_.llama ? nullptr : db};
  ops& op = device_.ops();
  add("norm forward + residual", 0, 4 * rows, calls,
      [=, this, &op] { op.norm_forward(stream_, forward); });
  add("norm backward + residual", 0, 4 * rows, calls,
      [=, this, &op] { op.norm_backward(stream_, backward); });
}

void ops_cases::add_rows() {
  const int64_t n = s_.tokens(), f = s_.feed;
  const int64_t layers = s_.llama ? s_.layers : 0;  // a GELU goes with its products
  auto *wide = take(n * s_.feed_in(), type_), *narrow = take(n * f, type_);
  const auto act = s_.llama ? activation_kind::swiglu : activation_kind::gelu_tanh;
  const auto element = static_cast<double>(size_of(type_));
  const double in = element * as_double(n, s_.feed_in()), out = element * as_double(n, f);
  ops& op = device_.ops();
  add("activation forward", 0, in + out, layers, [=, this, &op] {
    op.activation_forward(stream_, {act, n, f, type_, wide, narrow});
  });
  add("activation backward", 0, 2 * in + out, layers, [=, this, &op] {
    op.activation_backward(stream_, {act, n, f, type_, wide, narrow, wide});
  });
}

void ops_cases::add_head() {
  const int64_t n = s_.tokens(), c = s_.width, v = s_.vocab;
  auto *x = take(n * c, type_), *w = take(v * c, type_), *dx = take(n * c, type_);
  auto* dw = take<float>(v * c, dtype::f32);
  std::vector<int32_t> numbers(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) numbers[static_cast<size_t>(i)] = int32_t(i * 7919 % v);
  auto* ids = take_copy(numbers);
  auto* loss = take<double>(2, dtype::f32, content::zeros);
  ops& op = device_.ops();
  const auto element = static_cast<double>(size_of(type_));
  // x, w, dx once; dw read and written: what a head that never stores its logits would move
  const double bytes = element * as_double(2 * n + v, c) + 8 * as_double(v, c);
  add("head + loss, both ways", 6 * as_double(n * c, v), bytes, 1, [=, this, &op] {
    op.head_loss(stream_, {n, c, v, type_, x, w, ids, 1e-3f, loss, dx, dw});
  });
  add("embedding forward", 0, 2 * element * as_double(n, c), 1, [=, this, &op] {
    op.embedding_forward(stream_, {s_.batch, s_.seq, c, v, type_, ids, w, nullptr, x});
  });
  add("embedding backward", 0, (element + 8) * as_double(n, c), 1, [=, this, &op] {
    op.embedding_backward(stream_, {s_.batch, s_.seq, c, v, type_, ids, x, dw, nullptr});
  });
}

/// The update of a layer's chunk; a step does as many as its parameters fill.
void ops_cases::add_optimizers() {
  const int64_t count = s_.layer();
  const int64_t chunks = s_.layers + (s_.vocab * s_.width + count - 1) / count;
  float* state[4];
  for (float*& part : state) part = take<float>(count, dtype::f32, content::positive);
  void* weight = type_ == dtype::f32 ? state[0] : take(count, type_);
  auto* scale = take<float>(1, dtype::f32, content::positive);
  auto* sum = take<double>(2, dtype::f32, content::zeros);
  span_ = {0, count, true};
  const double adamw_bytes = as_double(count, 32 + (type_ == dtype::bf16 ? 2 : 0));
  ops& op = device_.ops();
  const auto update = [=, this](optimizer_step_args::rule rule) {
    return optimizer_step_args{rule,  count,    &span_,   1,        state[0], weight,
                               type_, state[1], state[2], state[3], scale,    1e-3f,
                               0.9f,  0.95f,    1e-8f,    0.1f,     10,       true};
  };
  add("AdamW of a layer", 0, adamw_bytes, chunks,
      [=, this, &op] { op.optimizer_step(stream_, update(optimizer_step_args::rule::adamw)); });
  // norms first, so gradient, moments and weights are read twice
  add("LAMB of a layer", 0, adamw_bytes + as_double(count, 16), 0,
      [=, this, &op] { op.optimizer_step(stream_, update(optimizer_step_args::rule::lamb)); });
  add("norm of gradients, a layer", 0, as_double(count, 4), chunks, [=, this, &op] {
    op.norm_squared(stream_, {state[3], &span_, 1, sum, nullptr});
  });
  add("clip scale", 0, 12, 1, [=, this, &op] { op.clip_scale(stream_, {sum, 1.0f, scale}); });
}

void ops_cases::add_small() {
  const int64_t count = s_.tokens() * s_.width;
  auto *x = take(count, type_), *y = take(count, type_);
  auto* wide = take<float>(count, dtype::f32);
  ops& op = device_.ops();
  const auto element = static_cast<double>(size_of(type_));
  add("add", 0, 3 * element * as_double(count), 0, [=, this, &op] {
    op.add(stream_, {y, x, type_, count});
  });
  add("cast to float32", 0, (element + 4) * as_double(count), 0, [=, this, &op] {
    op.cast(stream_, {wide, dtype::f32, x, type_, count});
  });
  add("round by chance", 0, 6 * as_double(count), 0, [=, this, &op] {
    op.round_by_chance(stream_,
                       {.count = count, .destination = y, .source = wide, .seed = 1, .step = 1});
  });
}

}  // namespace troupe::apps
