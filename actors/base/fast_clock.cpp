// Anchors.
#include "actors/base/fast_clock.hpp"

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

struct beginning {
  bool usable = constant_rate();
  uint64_t ticks = __rdtsc();
  int64_t ns = steady_ns();
};
#endif

}  // namespace

thread_local constinit clock_anchor this_thread_clock;

int64_t anchor_clock(uint64_t ticks) noexcept {
  auto& a = this_thread_clock;
  const auto now = steady_ns();
#if defined(__x86_64__)
  static const beginning start;
  const auto life = now - start.ns;
  if (start.usable && life >= least_life_ns && ticks > start.ticks) {
    const double rate = static_cast<double>(life) / static_cast<double>(ticks - start.ticks);
    a.ticks = ticks;
    a.good_for = static_cast<uint64_t>(static_cast<double>(anchor_ns) / rate);
    a.scale = static_cast<uint64_t>(rate * 4294967296.0);
    a.ns = std::max(now, a.last_ns);  // FCK-1
  }
#else
  (void)ticks;
#endif
  a.last_ns = std::max(now, a.last_ns);
  return a.last_ns;
}

}  // namespace troupe::detail
