// Loops, and the quickest of their times.
#include "gpu/predict/probes.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpu/host/peak.hpp"
#include "gpu/host/thread_team.hpp"
#include "gpu/ops.hpp"
#include "gpu/stopwatch.hpp"

namespace troupe::gpu::predict {

namespace {

using measured = io::perf::hw_profile::value;

constexpr size_t probe_mib = size_t{1} << 20;

double wall_s() {
  return seconds_now(time_kind::wall);
}

/// So that what was written is read.
void keep_written() {
  asm volatile("" ::: "memory");
}

/// The quickest of what fits into the time, after one try that warms up; of one that takes all of
/// it, its own.
template <class F>
double quickest_s(double seconds, F once) {
  const double begin = wall_s();
  once();
  double best = wall_s() - begin;
  if (best >= seconds) return best;
  do {
    const double start = wall_s();
    once();
    best = std::min(best, std::max(wall_s() - start, 1e-9));
  } while (wall_s() - begin < seconds);
  return best;
}

/// The same of what is enqueued on a stream.
template <class F>
result<double> quickest_on(stream& s, double seconds, F enqueue) {
  status outcome;
  const double best = quickest_s(seconds, [&] {
    if (!outcome) return;
    enqueue();
    outcome = s.synchronize();
  });
  if (!outcome) return outcome.error();
  return best;
}

/// Probes one after the other (HWM-1).
class probe_course {
 public:
  explicit probe_course(const probe_options& options)
      : options_(options), end_(wall_s() + options.seconds) {}

  double try_s() const { return options_.full ? 0.6 : 0.12; }
  uint64_t memory() const { return options_.memory_bytes; }
  /// Of an array, where `arrays` of them are made: to write all of it a first time takes longer
  /// than to measure with it.
  size_t bytes(size_t arrays) const {
    const size_t wanted = (options_.full ? 256 : arrays > 3 ? 16 : 32) * probe_mib;
    return std::min<uint64_t>(wanted, options_.memory_bytes / arrays) / probe_mib * probe_mib;
  }

  /// `usual_s`: how long it takes, but for its tries.
  template <class F>
  void run(const char* what, double usual_s, F probe) {
    if (options_.stopped()) return;
    if (wall_s() + usual_s + try_s() > end_) return late_.push_back(what);
    options_.before(what);
    const status done = probe();
    if (!done) troubles_.push_back(fmt::format("{}: {}", what, done.error().message));
  }

  /// One that is not begun is as much missing as one that fails; who stops them knows of it.
  probe_troubles take() {
    if (!late_.empty())
      troubles_.push_back(fmt::format("{}: no time was left", fmt::join(late_, ", ")));
    return std::move(troubles_);
  }

 private:
  const probe_options& options_;
  double end_;
  std::vector<const char*> late_;
  probe_troubles troubles_;
};

error too_little_memory() {
  return error{errc::no_memory, "there is too little memory left for its arrays"};
}

// -- memory of the host --------------------------------------------------------------------------

/// Three arrays, each thread's part written by that thread first: so it has it near.
class triad_arrays {
 public:
  static result<triad_arrays> make(host::thread_team& team, size_t bytes) {
    triad_arrays out;
    out.count_ = static_cast<int64_t>(bytes / sizeof(double));
    if (out.count_ == 0) return too_little_memory();
    for (auto& one : out.all_) {
      one.reset(new (std::nothrow) double[static_cast<size_t>(out.count_)]);
      if (!one) return too_little_memory();
    }
    out.over(team, [](double* a, double* b, double* c, int64_t i) { a[i] = b[i] = c[i] = 1; });
    return out;
  }

  /// Bytes a second, of the quickest a = b + c * by.
  double rate(host::thread_team& team, double seconds) {
    double by = 1;
    const double took = quickest_s(seconds, [&] {
      by += 1;
      over(team, [by](double* a, const double* b, const double* c, int64_t i) {
        a[i] = b[i] + by * c[i];
      });
      keep_written();
    });
    return 3 * static_cast<double>(count_) * sizeof(double) / took;
  }

 private:
  template <class F>
  void over(host::thread_team& team, F each) {
    constexpr int64_t page = 512;  // of doubles
    double *a = all_[0].get(), *b = all_[1].get(), *c = all_[2].get();
    team.split(count_, page, [=](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) each(a, b, c, i);
    });
  }

  std::unique_ptr<double[]> all_[3];
  int64_t count_ = 0;
};

status probe_triad(const probe_course& course, int threads, measured& into) {
  host::thread_team team(threads, "probe");
  TROUPE_TRY(arrays, triad_arrays::make(team, course.bytes(3)));
  into = arrays.rate(team, course.try_s()) / 1e9;
  return {};
}

/// A cache line that leads to the next one.
struct alignas(64) chased_line {
  chased_line* next = nullptr;
};

/// One cycle through all lines by chance (Sattolo's), so that no prefetcher knows the next one.
status probe_chase(const probe_course& course, measured& into) {
  const size_t count = course.bytes(1) / sizeof(chased_line);
  if (count < 2) return too_little_memory();
  const std::unique_ptr<chased_line[]> lines(new (std::nothrow) chased_line[count]);
  if (!lines) return too_little_memory();
  for (size_t i = 0; i < count; ++i) lines[i].next = &lines[i];
  uint64_t random = 0x9e3779b97f4a7c15u;
  for (size_t i = count - 1; i > 0; --i) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    std::swap(lines[i].next, lines[random % i].next);
  }
  constexpr int hops = 100'000;
  const chased_line* at = lines.get();
  const double took = quickest_s(course.try_s(), [&] {
    for (int i = 0; i < hops; ++i) at = at->next;
    asm volatile("" : "+r"(at));
  });
  into = took / hops * 1e9;
  return {};
}

/// Cycles of one processor: additions that each wait for the one before, one a cycle. Of a kind of
/// processor that nobody has looked at: none.
constexpr int additions_a_round = 64;
bool add_in_turn(int rounds) {
#if defined(__x86_64__) || defined(__aarch64__)
  uint64_t sum = 0, by = 3;
  for (int i = 0; i < rounds; ++i) {
#if defined(__x86_64__)
    asm volatile(".rept 64\n\tadd %1, %0\n\t.endr" : "+r"(sum) : "r"(by) : "cc");
#else
    asm volatile(".rept 64\n\tadd %0, %0, %1\n\t.endr" : "+r"(sum) : "r"(by));
#endif
  }
  return true;
#else
  return rounds < 0;
#endif
}

/// What a thread counts, the middle one of many short looks: who is held up in one, or was alone in
/// the first, is not the middle; nor is he whom others kept from all but a few until the time was
/// over, which had its end in one of them.
double clock_hz(double seconds) {
  constexpr int rounds = 2000;
  constexpr size_t few = 9;
  std::vector<double> looks;
  for (const double end = wall_s() + seconds; looks.size() < few || wall_s() < end;) {
    const double begin = wall_s();
    if (!add_in_turn(rounds)) return 0;
    looks.push_back(std::max(wall_s() - begin, 1e-9));
  }
  const auto middle = looks.begin() + static_cast<std::ptrdiff_t>(looks.size() / 2);
  std::nth_element(looks.begin(), middle, looks.end());
  return static_cast<double>(rounds) * additions_a_round / *middle;
}

/// The mean over threads that all count at once.
status probe_clock(int threads, measured& into) {
  constexpr double seconds = 0.02;
  host::thread_team team(threads, "probe");
  std::vector<double> hz(static_cast<size_t>(threads));
  team.split(threads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) hz[static_cast<size_t>(i)] = clock_hz(seconds);
  });
  double sum = 0;
  for (const double one : hz) sum += one;
  if (sum > 0) into = sum / threads / 1e6;
  return {};
}

status probe_peaks(const probe_options& options, io::perf::hw_profile& into) {
  TROUPE_TRY(ways, measure_peaks(options.threads));
  for (const auto& way : ways) {
    auto& reached = way.type == dtype::f32 ? into.fma_gflop_s : into.fma_bf16_gflop_s;
    reached = std::max(reached.value_or(0), way.best / 1e9);
  }
  return {};
}

// -- operations of a device ----------------------------------------------------------------------

/// Numbers that switch bits as a model's do: a GPU has higher clocks for zeros.
status fill_with_noise(stream& s, const buffer& into) {
  std::vector<uint32_t> noise(16 << 10);
  uint64_t random = 0x9e3779b97f4a7c15u;
  for (auto& word : noise) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    // Both halves are bfloat16 in [0.5, 2), and the whole is such a float32, of either sign.
    constexpr uint32_t free_bits = 0x80ff'80ffu, exponent = 0x3f00'3f00u;
    word = (static_cast<uint32_t>(random >> 32) & free_bits) | exponent;
  }
  const size_t bytes = noise.size() * sizeof(uint32_t);
  for (size_t at = 0; at < into.bytes(); at += bytes)
    s.copy(into.as<std::byte>() + at, noise.data(), std::min(bytes, into.bytes() - at));
  return s.synchronize();
}

/// Floating-point operations a second of a square product, of as many rows as have room.
result<double> product_rate(const probe_course& course, device& on, stream& s, dtype type,
                            int64_t side) {
  constexpr int64_t least = 64;
  while (side >= least && 3 * static_cast<uint64_t>(side * side) * size_of(type) > course.memory())
    side /= 2;  // HWM-2
  if (side < least) return too_little_memory();
  const auto bytes = static_cast<size_t>(side * side) * size_of(type);
  TROUPE_TRY(x, on.allocate(bytes));
  TROUPE_TRY(w, on.allocate(bytes));
  TROUPE_TRY(y, on.allocate(bytes));
  TROUPE_CHECK(fill_with_noise(s, x));
  TROUPE_CHECK(fill_with_noise(s, w));
  TROUPE_TRY(took, quickest_on(s, course.try_s(), [&] {
               on.ops().linear_forward(s, {.tokens = side,
                                           .in = side,
                                           .out = side,
                                           .type = type,
                                           .x = x.data(),
                                           .w = w.data(),
                                           .y = y.data()});
             }));
  return 2 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side) /
         took;
}

/// Parameters a second that AdamW updates.
result<double> update_rate(const probe_course& course, device& on, stream& s) {
  constexpr size_t arrays = 5;
  const auto count = static_cast<int64_t>(course.bytes(arrays) / sizeof(float));
  if (count == 0) return too_little_memory();
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  TROUPE_TRY(master, on.allocate(bytes));
  TROUPE_TRY(weight, on.allocate(static_cast<size_t>(count) * size_of(dtype::bf16)));
  TROUPE_TRY(m, on.allocate(bytes));
  TROUPE_TRY(v, on.allocate(bytes));
  TROUPE_TRY(grad, on.allocate(bytes));
  TROUPE_TRY(scale, on.allocate(sizeof(float)));
  const parameter_span all{0, count, true};
  int64_t step = 0;
  TROUPE_TRY(took, quickest_on(s, course.try_s(), [&] {
               on.ops().optimizer_step(s, {.kind = optimizer_step_args::rule::adamw,
                                           .count = count,
                                           .spans = &all,
                                           .span_count = 1,
                                           .master = master.as<float>(),
                                           .weight = weight.data(),
                                           .weight_type = dtype::bf16,
                                           .m = m.as<float>(),
                                           .v = v.as<float>(),
                                           .grad = grad.as<float>(),
                                           .grad_scale = scale.as<float>(),
                                           .lr = 1e-3f,
                                           .beta1 = 0.9f,
                                           .beta2 = 0.95f,
                                           .eps = 1e-8f,
                                           .weight_decay = 0.1f,
                                           .step = ++step});
             }));
  return static_cast<double>(count) / took;
}

/// A result into a field, in units.
status take_rate(const result<double>& rate, double unit, measured& into) {
  if (!rate) return rate.error();
  into = *rate / unit;
  return {};
}

/// Bytes a second within the device's memory, both read and written.
result<double> copy_rate(const probe_course& course, device& on, stream& s) {
  const auto bytes = course.bytes(2);
  if (bytes == 0) return too_little_memory();
  TROUPE_TRY(from, on.allocate(bytes));
  TROUPE_TRY(to, on.allocate(bytes));
  TROUPE_TRY(took, quickest_on(s, course.try_s(), [&] { s.copy(to.data(), from.data(), bytes); }));
  return 2 * static_cast<double>(bytes) / took;
}

/// From and to page-locked memory of the host.
status probe_links(const probe_course& course, device& on, stream& s, io::perf::hw_profile& into) {
  const auto bytes = course.bytes(2);
  const std::unique_ptr<std::byte[]> host(new (std::nothrow) std::byte[bytes]());
  if (bytes == 0 || !host) return too_little_memory();
  TROUPE_TRY(far, on.allocate(bytes));
  TROUPE_TRY(pinned, on.pin(host.get(), bytes));
  TROUPE_TRY(down, quickest_on(s, course.try_s(), [&] { s.copy(far.data(), host.get(), bytes); }));
  TROUPE_TRY(up, quickest_on(s, course.try_s(), [&] { s.copy(host.get(), far.data(), bytes); }));
  into.gpu_h2d_gb_s = static_cast<double>(bytes) / down / 1e9;
  into.gpu_d2h_gb_s = static_cast<double>(bytes) / up / 1e9;
  return {};
}

}  // namespace

probe_troubles probe_host(device& host, const probe_options& options, io::perf::hw_profile& into) {
  constexpr int64_t side = 1024;
  probe_course course(options);
  into.probe_threads = options.threads;
  auto compute = host.make_stream({"probe", options.threads});
  if (!compute) return {compute.error().message};
  auto& s = **compute;
  course.run("memory, all threads", 0.1,
             [&] { return probe_triad(course, options.threads, into.triad_gb_s); });
  course.run("clock", 0, [&] { return probe_clock(options.threads, into.all_core_mhz); });
  course.run("float32 products", 0.1, [&] {
    return take_rate(product_rate(course, host, s, dtype::f32, side), 1e9, into.gemm_gflop_s);
  });
  course.run("bfloat16 products", 0.1, [&] {
    return take_rate(product_rate(course, host, s, dtype::bf16, side), 1e9, into.gemm_bf16_gflop_s);
  });
  course.run("AdamW", 0.1,
             [&] { return take_rate(update_rate(course, host, s), 1e6, into.adamw_mparam_s); });
  course.run("latency of memory", 0.1, [&] { return probe_chase(course, into.chase_ns); });
  course.run("memory, one thread", 0.1,
             [&] { return probe_triad(course, 1, into.triad_one_gb_s); });
  // Last: by processor time, of which it takes as much however long others make that.
  course.run("multiply-adds", 0.4, [&] { return probe_peaks(options, into); });
  return course.take();
}

probe_troubles probe_device(device& on, const probe_options& options, io::perf::hw_profile& into) {
  constexpr int64_t side = 4096;
  probe_course course(options);
  auto compute = on.make_stream({"probe"});
  if (!compute) return {compute.error().message};
  auto& s = **compute;
  course.run("copies to and from the GPU", course.try_s() + 0.1,
             [&] { return probe_links(course, on, s, into); });
  course.run("products of the GPU", 0.1, [&] {
    return take_rate(product_rate(course, on, s, dtype::bf16, side), 1e12, into.gpu_gemm_tflop_s);
  });
  course.run("memory of the GPU", 0.1,
             [&] { return take_rate(copy_rate(course, on, s), 1e9, into.gpu_copy_gb_s); });
  course.run("AdamW of the GPU", 0.1,
             [&] { return take_rate(update_rate(course, on, s), 1e6, into.gpu_adamw_mparam_s); });
  return course.take();
}

}  // namespace troupe::gpu::predict
