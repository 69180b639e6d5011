// Sums of samples, and the thread that takes them (draw_trace.hpp).
#include "apps/bench/draw_trace.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "io/machine/available_memory.hpp"
#include "io/machine/kernel_counters.hpp"

namespace troupe::apps::power_bench {

namespace {

constexpr auto between_samples = std::chrono::milliseconds(100);

std::optional<draw_sample> sample_now() {
  const auto ticks = io::parse_cpu_ticks(io::kernel_text("/proc/stat"));
  if (!ticks) return std::nullopt;
  const auto busy = ticks->all - ticks->idle - ticks->stolen;
  return draw_sample{clock_s(),
                     static_cast<double>(busy) / static_cast<double>(sysconf(_SC_CLK_TCK))};
}

}  // namespace

double clock_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<double> draw_trace::busy_at(double t_s) const {
  const auto after = std::lower_bound(samples_.begin(), samples_.end(), t_s,
                                      [](const auto& s, double t) { return s.t_s < t; });
  if (after == samples_.end()) return std::nullopt;
  if (after->t_s == t_s) return after->busy_s;
  if (after == samples_.begin()) return std::nullopt;
  const auto& a = *(after - 1);
  return a.busy_s + (after->busy_s - a.busy_s) * (t_s - a.t_s) / (after->t_s - a.t_s);
}

std::optional<double> draw_trace::mean(double from_s, double to_s) const {
  const auto before = busy_at(from_s), behind = busy_at(to_s);
  if (!before || !behind || to_s <= from_s) return std::nullopt;
  return (*behind - *before) / (to_s - from_s);
}

std::optional<double> draw_trace::most(double from_s, double to_s, double window_s) const {
  std::optional<double> out;
  for (const auto& s : samples_) {
    if (s.t_s < from_s || s.t_s + window_s > to_s) continue;
    if (const auto m = mean(s.t_s, s.t_s + window_s)) out = std::max(out.value_or(*m), *m);
  }
  return out;
}

std::optional<double> draw_trace::first_kept(double from_s, double to_s, double window_s,
                                             double processors) const {
  for (const auto& s : samples_) {
    if (s.t_s < from_s || s.t_s + window_s > to_s) continue;
    const auto m = mean(s.t_s, s.t_s + window_s);
    if (m && *m <= processors) return s.t_s;
  }
  return std::nullopt;
}

draw_watch::draw_watch() {
  sample();
  thread_ = std::jthread([this](const std::stop_token& over) {
    std::mutex mutex;
    std::condition_variable_any bell;
    std::unique_lock lock(mutex);
    for (;;) {
      bell.wait_for(lock, over, between_samples, [] { return false; });
      if (over.stop_requested()) return;
      sample();
    }
  });
}

draw_trace draw_watch::take() {
  thread_.request_stop();
  thread_.join();
  sample();
  return draw_trace(std::move(samples_));
}

void draw_watch::sample() {
  if (const auto s = sample_now()) samples_.push_back(*s);
}

}  // namespace troupe::apps::power_bench
