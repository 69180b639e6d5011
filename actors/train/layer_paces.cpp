// A layer and its update on streams of their own, the same several times.
#include "actors/train/layer_paces.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "actors/job/plan.hpp"
#include "gpu/back_end.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/optim/optimizer.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/file.hpp"

namespace troupe::train {

namespace {

using pace_clock = std::chrono::steady_clock;

/// Of a layer that is measured: matrix elements, and products of one try; of the first, small one.
constexpr double measured_elements = 8e6, measured_flops = 12e9, first_flops = measured_flops / 64;

/// An array of a group of a swapper's (4 bytes an element), and how often one try sums it.
constexpr size_t summed_bytes = size_t{4} << 20, sums_of_try = 4;

double seconds_since(pace_clock::time_point start) {
  return std::chrono::duration<double>(pace_clock::now() - start).count();
}

template <class F>
result<tried> times_of(gpu::stream& s, const pace_measuring& how, F enqueue) {
  const auto begin = pace_clock::now();
  enqueue();  // warms up
  TROUPE_CHECK(s.synchronize());
  std::vector<double> all;
  while (all.empty() || (std::ssize(all) < how.tries && seconds_since(begin) < how.enough_s)) {
    const auto start = pace_clock::now();
    enqueue();
    TROUPE_CHECK(s.synchronize());
    all.push_back(std::max(seconds_since(start), 1e-9));
  }
  return summed_up(all);
}

/// Bytes a second. What a thread sums lies in its caches, as what an update has just made does:
/// nothing that is summed comes quicker.
result<double> measure_sums(gpu::stream& s, const pace_measuring& how) {
  const std::vector<std::byte> array(summed_bytes, std::byte{1});
  uint32_t sum = 0;
  const auto sum_up = [&]() -> status {
    for (size_t i = 0; i < sums_of_try; ++i) sum = io::crc32c(array, sum);
    return {};
  };
  TROUPE_TRY(took, times_of(s, how, [&] { s.host_task(sum_up); }));
  return static_cast<double>(summed_bytes * sums_of_try) / took.best;
}

}  // namespace

tried summed_up(std::span<const double> seconds) {
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {*std::min_element(seconds.begin(), seconds.end()),
          sum / static_cast<double>(seconds.size())};
}

result<paces> measure_paces(const engine_options& options, const pace_measuring& how) {
  TROUPE_TRY(device, gpu::open_device(options.device, options.threads));
  return measure_paces(options, *device, how);
}

result<paces> measure_paces(const engine_options& options, gpu::device& device,
                            const pace_measuring& how) {
  auto model = options.model;
  model.layers = 1;
  model.vocab = std::min<int64_t>(model.vocab, 64);  // the smallest tables that there can be
  const auto shape =
      gpu::whole_model(model, options.shape.micro_batch, options.shape.seq, options.shape.compute);
  TROUPE_TRY(stage, gpu::stage_model::make(device, model, shape));
  TROUPE_TRY(rule, gpu::optimizer::make(stage->store(), options.optimizer));
  // As steps have them: a rank's, and the swapper's.
  TROUPE_TRY(compute, device.make_stream({"compute", options.threads}));
  TROUPE_TRY(update, device.make_stream({"update", how.update_threads}));
  const int chunk = stage->store().find_chunk("layer.0");
  TROUPE_TRY(products, times_of(*compute, how, [&] { stage->run_layer(*compute, 0, 0); }));
  TROUPE_TRY(updates, times_of(*update, how, [&] { rule->step(*update, chunk, 1e-3f, 1); }));
  double sum_bytes_s = 0;
  if (how.sums) {
    TROUPE_TRY(sums, measure_sums(*update, how));
    sum_bytes_s = sums;
  }
  const auto count = static_cast<double>(stage->store().info(chunk).count);
  const double flops = gpu::layer_flops(model, shape.seq) * static_cast<double>(shape.tokens());
  return paces{flops / products.best, count / updates.best,
               fmt::format("{} {} {}/{} {} {} {} x {} {} {}", to_string(model.family), model.hidden,
                           model.heads, model.kv_heads, model.ffn,
                           shape.compute == gpu::dtype::f32 ? "f32" : "bf16", shape.micro_batch,
                           shape.seq, options.threads, device.facts().instruction_set),
               products.mean / products.best, sum_bytes_s};
}

void set_paces(gpu::machine_rates& of, const paces& measured, const worker_cores& on) {
  of.flops_s = on.workers * measured.flops_s;
  of.updates_s = on.workers * measured.updates_s;
  const double cores = std::max(1.0, on.cores);
  const double of_products = std::clamp(static_cast<double>(on.threads), 1.0, cores);
  of.processors.flops_s = std::max(of.flops_s, measured.flops_s * cores / of_products);
  of.processors.updates_s = cores * measured.updates_s;
  of.processors.sum_bytes_s = cores * measured.sum_bytes_s;
}

double flops_of_try(double flops_s) {
  constexpr double slow_try_s = 2;
  return std::clamp(slow_try_s * flops_s, first_flops, measured_flops);
}

engine_options measured_part(engine_options o, double most) {
  auto& m = o.model;
  m.layers = 1;
  m.vocab = std::min<int64_t>(m.vocab, 64);  // no head is measured
  const auto halves = [](int64_t n) { return n % 2 == 0; };
  const auto elements = [&] {
    return static_cast<double>(m.matrix_parameters() - m.vocab * m.hidden);
  };
  while (elements() > measured_elements && halves(m.heads) && halves(m.kv_heads) &&
         halves(m.hidden) && halves(m.ffn)) {
    m.heads /= 2;
    m.kv_heads /= 2;
    m.hidden /= 2;
    m.ffn /= 2;
  }
  auto& s = o.shape;
  const auto flops = [&] {
    return gpu::layer_flops(m, s.seq) * static_cast<double>(s.micro_batch * s.seq);
  };
  while (flops() > most && s.micro_batch > 1) s.micro_batch /= 2;
  while (flops() > most && s.seq > 16) s.seq /= 2;
  return o;
}

result<paces> measure_workers(const engine_options& asked, int64_t workers) {
  const auto first = measured_part(asked, first_flops);
  if (first.device != "host")
    return error{errc::unavailable, "rates are measured of the host's processors only"};
  if (static_cast<double>(first.model.matrix_parameters()) > 4 * measured_elements)
    return error{errc::unavailable, "a layer of this model is too large to be measured in passing"};
  TROUPE_TRY(small, measure_paces(first, {first.threads, 1, 0, false}));
  const auto options = measured_part(asked, flops_of_try(small.flops_s));
  std::vector<std::future<result<paces>>> others;
  const auto measure = [&] { return measure_paces(options, {options.threads, 256, 0.8, false}); };
  for (int64_t i = 1; i < workers; ++i) others.push_back(std::async(std::launch::async, measure));
  std::vector<result<paces>> all{measure()};
  for (auto& other : others) all.push_back(other.get());
  for (const auto& one : all)
    if (!one) return one.error();
  return **std::min_element(all.begin(), all.end(), [](const auto& x, const auto& y) {
    return x->flops_s / x->spread < y->flops_s / y->spread;
  });
}

result<double> measure_layer_of(const config::job& job, const std::string& device, int threads,
                                int64_t workers) {
  TROUPE_TRY(model, model_of(job));
  auto options = options_of(job, model, {job.grid(), 0}, {0, 1}, threads);
  options.device = device;
  TROUPE_TRY(measured, measure_workers(options, workers));
  return measured.flops_s / measured.spread;
}

}  // namespace troupe::train
