// Sums of samples, and the thread that takes them (draw_trace.hpp).
#include "apps/bench/draw_trace.hpp"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "io/base/printable.hpp"
#include "io/machine/available_memory.hpp"
#include "io/machine/kernel_counters.hpp"

namespace troupe::apps::power_bench {

namespace {

double seconds_of(uint64_t ticks) {
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// By their numbers, as they are now.
std::map<uint64_t, io::process_ticks> processes_now() {
  std::map<uint64_t, io::process_ticks> out;
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/proc", failed), end; !failed && at != end;
       at.increment(failed)) {
    const auto number = at->path().filename().string();
    if (number.find_first_not_of("0123456789") != number.npos) continue;
    const auto ticks = io::parse_process_ticks(io::kernel_text((at->path() / "stat").string()));
    if (ticks) out.emplace(std::stoull(number), *ticks);
  }
  return out;
}

/// Whether it is one of the roots, or was started by what is.
bool is_below(const std::map<uint64_t, io::process_ticks>& all, const std::vector<pid_t>& roots,
              uint64_t number) {
  const auto is_root = [&](uint64_t at) {
    return std::find(roots.begin(), roots.end(), static_cast<pid_t>(at)) != roots.end();
  };
  // A number that is given anew while we look may make a ring of them.
  auto at = number;
  for (size_t i = 0; i < all.size() && at != 0 && !is_root(at); ++i) {
    const auto process = all.find(at);
    at = process == all.end() ? 0 : process->second.parent;
  }
  return is_root(at);
}

}  // namespace

std::optional<double> machine_busy_s() {
  const auto ticks = io::parse_cpu_ticks(io::kernel_text("/proc/stat"));
  if (!ticks) return std::nullopt;
  return seconds_of(ticks->all - ticks->idle - ticks->stolen);
}

std::optional<double> processes_busy_s(const std::vector<pid_t>& roots) {
  const auto all = processes_now();
  if (all.empty()) return std::nullopt;
  uint64_t out = 0;
  for (const auto& [number, ticks] : all)
    if (is_below(all, roots, number)) out += ticks.busy;
  return seconds_of(out);
}

std::map<pid_t, seen_process> seen_processes() {
  std::map<pid_t, seen_process> out;
  for (const auto& [number, ticks] : processes_now()) {
    auto name = io::kernel_text(fmt::format("/proc/{}/comm", number));
    if (!name.empty() && name.back() == '\n') name.pop_back();
    out[static_cast<pid_t>(number)] = {static_cast<pid_t>(ticks.parent), printable(name),
                                       seconds_of(ticks.busy)};
  }
  return out;
}

std::vector<pid_t> processes_below(const std::vector<pid_t>& roots) {
  const auto all = processes_now();
  std::vector<pid_t> out;
  for (const auto& [number, ticks] : all)
    if (is_below(all, roots, number)) out.push_back(static_cast<pid_t>(number));
  return out;
}

std::optional<double> clocks_busy_s(const std::vector<pid_t>& processes) {
  double out = 0;
  for (const pid_t p : processes) {
    clockid_t clock{};
    timespec busy{};
    if (::clock_getcpuclockid(p, &clock) != 0 || ::clock_gettime(clock, &busy) != 0)
      return std::nullopt;
    out += static_cast<double>(busy.tv_sec) + static_cast<double>(busy.tv_nsec) * 1e-9;
  }
  return out;
}

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

draw_watch::draw_watch(busy_counter counter, std::chrono::milliseconds between)
    : counter_(std::move(counter)) {
  sample();
  thread_ = std::jthread([this, between](const std::stop_token& over) {
    std::mutex mutex;
    std::condition_variable_any bell;
    std::unique_lock lock(mutex);
    for (;;) {
      bell.wait_for(lock, over, between, [] { return false; });
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
  if (const auto busy_s = counter_()) samples_.push_back({clock_s(), *busy_s});
}

}  // namespace troupe::apps::power_bench
