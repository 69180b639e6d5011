// Anchors.
#include "actors/capture/fast_clock.hpp"

#include <algorithm>
#include <chrono>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace troupe::detail {

namespace {

constexpr int64_t anchor_ns = 10'000'000;
/// The counter's rate is believed after so long: an error of reading then is a millionth.
constexpr int64_t least_life_ns = 50'000'000;

int64_t steady_ns() noexcept {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

#if defined(__x86_64__)
bool constant_rate() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}

/// A moment on both clocks.
struct moment {
  uint64_t ticks = 0;
  int64_t ns = 0;
};

/// Who is interrupted between the two readings has no moment: of a few tries the closest is taken.
moment read_both() noexcept {
  constexpr int tries = 8;
  constexpr uint64_t close_ticks = 2'000;  // well below a microsecond
  moment best;
  uint64_t closest = UINT64_MAX;
  for (int i = 0; i < tries && closest > close_ticks; ++i) {
    const uint64_t before = __rdtsc();
    const int64_t ns = steady_ns();
    const uint64_t gap = __rdtsc() - before;
    if (gap >= closest) continue;
    closest = gap;
    best = {before + gap / 2, ns};
  }
  return best;
}

struct beginning {
  bool usable = constant_rate();
  moment at = read_both();
};
#endif

}  // namespace

thread_local constinit clock_anchor this_thread_clock;

int64_t anchor_clock() noexcept {
  auto& a = this_thread_clock;
#if defined(__x86_64__)
  static const beginning start;
  const auto [ticks, now] = read_both();
  const auto life = now - start.at.ns;
  if (start.usable && life >= least_life_ns && ticks > start.at.ticks) {
    const double rate = static_cast<double>(life) / static_cast<double>(ticks - start.at.ticks);
    a.ticks = ticks;
    a.good_for = static_cast<uint64_t>(static_cast<double>(anchor_ns) / rate);
    a.scale = static_cast<uint64_t>(rate * 4294967296.0);
    a.ns = std::max(now, a.last_ns);  // FCK-1
  }
#else
  const auto now = steady_ns();
#endif
  a.last_ns = std::max(now, a.last_ns);
  return a.last_ns;
}

}  // namespace troupe::detail
