// What this process may have, and whether its clocks agree.
#include <sys/resource.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include "actors/health/checks.hpp"

namespace troupe::health {

namespace {

/// A limit without an end is as large as a number of bytes can be.
double limit_of(int which) {
  rlimit l{};
  if (getrlimit(static_cast<__rlimit_resource_t>(which), &l) != 0) return -1;
  return l.rlim_cur == RLIM_INFINITY
             ? static_cast<double>(std::numeric_limits<int64_t>::max())
             : static_cast<double>(l.rlim_cur);
}

double now_us(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

/// How far the wall's clock is ahead of the one that nobody sets, in microseconds: of several tries
/// that in which the least time passed.
double ahead_us() {
  double best = std::numeric_limits<double>::max(), out = 0;
  for (int i = 0; i < 20; ++i) {
    const double before = now_us(CLOCK_MONOTONIC), wall = now_us(CLOCK_REALTIME),
                 after = now_us(CLOCK_MONOTONIC);
    if (after - before >= best) continue;
    best = after - before;
    out = wall - (before + after) / 2;
  }
  return out;
}

}  // namespace

void check_process(checkup_under_way& c) {
  c.add("open_files").seen = limit_of(RLIMIT_NOFILE);
  c.add("locked_memory").seen = limit_of(RLIMIT_MEMLOCK);
  c.add("core_files").seen = limit_of(RLIMIT_CORE);
  auto& memory = c.add("memory_left");
  if (const auto left = c.memory_left())
    memory.seen = static_cast<double>(*left);
  else
    memory.text = "the kernel does not say how much memory is left";
}

void check_clock(checkup_under_way& c) {
  auto& result = c.add("clock");
  const deadline until(c, "clock");
  const double before = ahead_us();
  double last = now_us(CLOCK_MONOTONIC), back = 0;
  while (!until.over()) {
    const double now = now_us(CLOCK_MONOTONIC);
    back = std::max(back, last - now);
    last = now;
    std::this_thread::yield();
  }
  result.seen = std::abs(ahead_us() - before);
  if (back > 0) {
    result.seen = std::max(result.seen, back);
    result.text = fmt::format("a clock that nobody sets went back by {:.0f} us", back);
  }
}

}  // namespace troupe::health
