// Words that are written, read back and turned around; a triad.
#include <algorithm>
#include <memory>
#include <new>

#include <fmt/format.h>

#include "actors/health/checks.hpp"
#include "actors/health/machine_sampler.hpp"
#include "io/machine/kernel_counters.hpp"

namespace troupe::health {

namespace {

constexpr size_t mib = size_t{1} << 20;
constexpr size_t block = mib / sizeof(uint64_t);  // words between two looks at the clock

/// Of what is wanted, at most an eighth of what the machine has left.
size_t bounded_bytes(size_t wanted) {
  const auto memory = io::parse_memory(kernel_text("/proc/meminfo"));
  if (!memory.available) return std::min(wanted, 8 * mib);
  return std::clamp<size_t>(*memory.available / 8, mib, wanted) / mib * mib;
}

template <class T>
std::unique_ptr<T[]> without_zeroing(size_t count) {
  return std::unique_ptr<T[]>(new (std::nothrow) T[count]);
}

/// No two words alike, and no bit that all of them have.
uint64_t word_of(size_t place) {
  uint64_t x = (place + 1) * 0x9e3779b97f4a7c15u;
  x ^= x >> 31;
  return x * 0xbf58476d1ce4e5b9u;
}

/// So that what was written is read.
void forget() {
  asm volatile("" ::: "memory");
}

/// Wrong words of a pass; `turned`: each bit the other way.
uint64_t pass(uint64_t* words, size_t count, bool turned, const checkup_under_way& c,
              const deadline& until) {
  const uint64_t flip = turned ? ~uint64_t{0} : 0;
  size_t written = 0;
  for (; written < count && (written == 0 || !until.over()); written += block)
    for (size_t i = written; i < written + block; ++i) words[i] = word_of(i) ^ flip;
  forget();
  if (c.options.spoil_memory) c.options.spoil_memory({words, written});
  uint64_t wrong = 0;
  for (size_t i = 0; i < written; ++i) wrong += words[i] != (word_of(i) ^ flip) ? 1 : 0;
  return wrong;
}

}  // namespace

void check_memory_pattern(checkup_under_way& c) {
  const size_t bytes = bounded_bytes(c.deep ? 1024 * mib : 16 * mib);
  auto& result = c.add("memory_pattern", fmt::format("{} MiB", bytes / mib));
  const size_t count = bytes / sizeof(uint64_t);
  const auto words = without_zeroing<uint64_t>(count);
  if (!words) {
    result.text = fmt::format("there are no {} MiB of memory", bytes / mib);
    return;
  }
  const busy_time measured(c);
  const deadline until(c, "memory_pattern");
  uint64_t wrong = 0;
  do {
    wrong += pass(words.get(), count, false, c, until);
    wrong += pass(words.get(), count, true, c, until);
  } while (c.deep && !until.over());
  result.seen = static_cast<double>(wrong);
}

void check_memory_bandwidth(checkup_under_way& c) {
  const size_t bytes = bounded_bytes(c.deep ? 768 * mib : 96 * mib) / 3;
  auto& result = c.add("memory_bandwidth");
  const size_t count = bytes / sizeof(double);
  const auto a = without_zeroing<double>(count), b = without_zeroing<double>(count),
             d = without_zeroing<double>(count);
  if (!a || !b || !d) {
    result.text = fmt::format("there are no {} MiB of memory", 3 * bytes / mib);
    return;
  }
  const busy_time measured(c);
  std::fill_n(a.get(), count, 0.0);
  std::fill_n(b.get(), count, 1.0);
  std::fill_n(d.get(), count, 2.0);
  const deadline until(c, "memory_bandwidth");
  double best = 0;
  for (int round = 0; round < 3 || (c.deep && !until.over()); ++round) {
    if (round > 0 && until.over()) break;
    const double begin = gpu::seconds_now(gpu::time_kind::wall);
    const double by = 1 + round;
    for (size_t i = 0; i < count; ++i) a[i] = b[i] + by * d[i];
    forget();
    const double took = gpu::seconds_now(gpu::time_kind::wall) - begin;
    if (took > 0) best = std::max(best, 3 * static_cast<double>(bytes) / took);
  }
  result.seen = best;
}

}  // namespace troupe::health
