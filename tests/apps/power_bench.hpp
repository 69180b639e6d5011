// What tests of `troupe bench power` have in common: drawn samples, and the benchmark itself.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/bench/draw_trace.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

namespace troupe {

/// A sample a second: `busy` processors in each second after the first sample, at second 100.
inline apps::power_bench::draw_trace trace_of(const std::vector<double>& busy) {
  std::vector<apps::power_bench::draw_sample> out{{100, 7}};
  for (const double b : busy) out.push_back({out.back().t_s + 1, out.back().busy_s + b});
  return apps::power_bench::draw_trace(std::move(out));
}

/// `before`, and then n seconds of that.
inline std::vector<double> seconds_busy(int n, double busy, std::vector<double> before = {}) {
  before.insert(before.end(), static_cast<size_t>(n), busy);
  return before;
}

/// `troupe bench power`, with signs and caches that nobody else has.
inline ended run_power_bench(const scratch& dir, const std::string& words) {
  std::filesystem::create_directories(dir / "here");
  std::filesystem::create_directories(dir / "runtime");
  std::filesystem::permissions(dir / "runtime", std::filesystem::perms::owner_all);
  return run_in(dir.path, "XDG_CACHE_HOME='" + (dir / "cache").string() + "' XDG_RUNTIME_DIR='" +
                              (dir / "runtime").string() + "' " + words);
}

}  // namespace troupe
