// The checks of a checkup, each a function with a budget. See checkup.hpp.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "actors/health/checkup.hpp"
#include "actors/health/checkup_policy.hpp"
#include "io/machine/available_memory.hpp"
#include "gpu/stopwatch.hpp"

namespace troupe::health {

/// What a check adds to: results, and the processor time that it used.
struct checkup_under_way {
  bool deep = false;
  const checkup_options& options;
  std::stop_token stop;
  std::vector<std::unique_ptr<fbs::CheckResultT>> results = {};
  double own_seconds = 0, wall_seconds = 0;  ///< of what only computes
  double helpers_seconds = 0;                ///< processor time of other threads of ours

  std::optional<uint64_t> memory_left() const {
    return options.memory_left ? options.memory_left() : io::available_memory();
  }
  double budget_s(std::string_view check) const {
    const auto& e = entry_of(check);
    return 1e-3 * options.times_budget * static_cast<double>(deep ? e.deep_budget_ms : e.budget_ms);
  }
  fbs::CheckResultT& add(std::string_view name, std::string_view part = {}) {
    return *results.emplace_back(std::make_unique<fbs::CheckResultT>(check_of(name, part)));
  }
};

/// Ends with a check's budget (EXM-1).
class deadline {
 public:
  deadline(const checkup_under_way& c, std::string_view check)
      : stop_(c.stop), end_(gpu::seconds_now(gpu::time_kind::wall) + c.budget_s(check)) {}
  bool over() const {
    return stop_.stop_requested() || gpu::seconds_now(gpu::time_kind::wall) >= end_;
  }
  double end() const { return end_; }

 private:
  std::stop_token stop_;
  double end_;
};

/// Counts what only computes, until it goes.
class busy_time {
 public:
  explicit busy_time(checkup_under_way& of)
      : of_(of),
        wall_(gpu::seconds_now(gpu::time_kind::wall)),
        own_(gpu::seconds_now(gpu::time_kind::thread)) {}
  busy_time(const busy_time&) = delete;
  busy_time& operator=(const busy_time&) = delete;
  ~busy_time() {
    of_.wall_seconds += gpu::seconds_now(gpu::time_kind::wall) - wall_;
    of_.own_seconds += gpu::seconds_now(gpu::time_kind::thread) - own_;
  }

 private:
  checkup_under_way& of_;
  double wall_, own_;
};

void check_process(checkup_under_way& c);
void check_clock(checkup_under_way& c);
void check_cores(checkup_under_way& c);
void check_gpus(checkup_under_way& c);
void check_memory_pattern(checkup_under_way& c);
void check_memory_bandwidth(checkup_under_way& c);
void check_disk(checkup_under_way& c);
void check_loopback(checkup_under_way& c);
void check_gpu_exchange(checkup_under_way& c);

}  // namespace troupe::health
