// `troupe bench peak`: how many multiply-adds a second this machine can do on registers alone.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/bench/bench.hpp"
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

std::string row_of(const gpu::peak_sample& s) {
  return fmt::format("{:<18} {:<5} {:>7} {:>16.1f} {:>14.1f} {:>13.1f}{}\n", s.instruction,
                     gpu::to_string(s.type), s.threads, s.flops_per_second * 1e-9, s.best * 1e-9,
                     100 * s.others, s.disturbed() ? "  disturbed" : "");
}

nlohmann::ordered_json json_of(const gpu::peak_sample& s) {
  return {{"instruction", s.instruction}, {"dtype", gpu::to_string(s.type)},
          {"threads", s.threads},         {"median_flops", s.flops_per_second},
          {"best_flops", s.best},         {"others", s.others},
          {"disturbed", s.disturbed()}};
}

constexpr auto what_disturbed_means =
    "disturbed: other work had the processors for more than 5 % of the time, or the rate changed "
    "by\n"
    "more than 10 %; rates count these threads' own time, and are less certain then\n";

result<int> run_peak(const peak_arguments& arguments) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!arguments.json) {
    TROUPE_CHECK(
        print(fmt::format("{:<18} {:<5} {:>7} {:>16} {:>14} {:>13}\n", "instruction", "type",
                          "threads", "median GFLOP/s", "best GFLOP/s", "% for others")));
  }
  bool disturbed = false;
  for (int threads : thread_counts(arguments.threads > 0 ? arguments.threads : cores)) {
    TROUPE_TRY(samples, gpu::measure_peaks(threads));
    for (const auto& s : samples) {
      disturbed = disturbed || s.disturbed();
      if (arguments.json)
        rows.push_back(json_of(s));
      else
        TROUPE_CHECK(print(row_of(s)));
    }
  }
  if (arguments.json) TROUPE_CHECK(print(rows.dump() + "\n"));
  if (disturbed && !arguments.json) TROUPE_CHECK(print(what_disturbed_means));
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
