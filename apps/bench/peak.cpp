// `troupe bench peak`: how many multiply-adds a second this machine can do on registers alone.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/bench/compute.hpp"
#include "gpu/host/peak.hpp"

namespace troupe::apps {
namespace {

struct peak_arguments {
  int threads = 0;
  bool json = false;
};

/// 1, 2, 4, ... and `most` itself.
std::vector<int> thread_counts(int most) {
  std::vector<int> counts;
  for (int n = 1; n < most; n *= 2) counts.push_back(n);
  counts.push_back(most);
  return counts;
}

result<int> run_peak(const peak_arguments& arguments) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!arguments.json) {
    TROUPE_CHECK(print(fmt::format("{:<18} {:<5} {:>7} {:>16} {:>14}\n", "instruction", "type",
                                   "threads", "median GFLOP/s", "best GFLOP/s")));
  }
  for (int threads : thread_counts(arguments.threads > 0 ? arguments.threads : cores)) {
    TROUPE_TRY(samples, gpu::measure_peaks(threads));
    for (const auto& s : samples) {
      if (arguments.json) {
        rows.push_back({{"instruction", s.instruction},
                        {"dtype", gpu::to_string(s.type)},
                        {"threads", s.threads},
                        {"median_flops", s.flops_per_second},
                        {"best_flops", s.best}});
        continue;
      }
      TROUPE_CHECK(print(fmt::format("{:<18} {:<5} {:>7} {:>16.1f} {:>14.1f}\n", s.instruction,
                                     gpu::to_string(s.type), s.threads, s.flops_per_second * 1e-9,
                                     s.best * 1e-9)));
    }
  }
  if (arguments.json) TROUPE_CHECK(print(rows.dump() + "\n"));
  return 0;
}

}  // namespace

void add_bench_peak(shell& sh, command* bench) {
  auto* verb = bench->add_subcommand("peak", "Measure the ceiling: multiply-adds on registers");
  auto arguments = std::make_shared<peak_arguments>();
  verb->add_option("--threads", arguments->threads, "Most threads to try (default: all cores)")
      ->positive();
  verb->add_flag("--json", arguments->json, "As one JSON array");
  on_run(sh, verb, [arguments] { return run_peak(*arguments); });
}

}  // namespace troupe::apps
