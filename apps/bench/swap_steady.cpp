// Shares of the higher rate.
#include "apps/bench/swap_steady.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/spread.hpp"

namespace troupe::apps::swap_bench {

namespace {

double share_apart(double a, double b) {
  const auto [less, more] = std::minmax(a, b);
  return more > 0 ? (more - less) / more : 0;
}

/// Bytes a second; 0: not measured.
double mixed_rate(const gpu::machine_rates& rates) {
  const double seconds = gpu::disk_seconds(1, 1, rates);
  return seconds > 0 ? 2 / seconds : 0;
}

spread spread_over(const std::vector<rates_apart>& of_rounds, double rates_apart::*of) {
  std::vector<double> all;
  for (const auto& r : of_rounds) all.push_back(r.*of);
  return spread_of(std::move(all));
}

}  // namespace

rates_apart apart(const gpu::machine_rates& before, const gpu::machine_rates& after) {
  return {share_apart(before.read_bytes_s, after.read_bytes_s),
          share_apart(before.write_bytes_s, after.write_bytes_s),
          share_apart(mixed_rate(before), mixed_rate(after))};
}

bool is_steady(const rates_apart& rates) {
  return rates.read <= steady_share && rates.write <= steady_share;
}

std::string apart_text(const std::vector<rates_apart>& of_rounds) {
  if (of_rounds.empty()) return {};
  const auto of = [&](double rates_apart::*which) {
    const auto s = spread_over(of_rounds, which);
    return fmt::format("{:.0f} % ({:.0f} % at worst)", 100 * s.median, 100 * s.most);
  };
  return fmt::format(
      "the drive's rates before and behind a round differ by, in the median, read {}, write {}, "
      "mixed {}; a round counts where read and write differ by {:.0f} % at most\n",
      of(&rates_apart::read), of(&rates_apart::write), of(&rates_apart::mixed), 100 * steady_share);
}

nlohmann::ordered_json apart_json(const std::vector<rates_apart>& of_rounds) {
  const auto of = [&](double rates_apart::*which) {
    const auto s = spread_over(of_rounds, which);
    return nlohmann::ordered_json{{"median", s.median}, {"worst", s.most}};
  };
  return {{"read", of(&rates_apart::read)},
          {"write", of(&rates_apart::write)},
          {"mixed", of(&rates_apart::mixed)}};
}

}  // namespace troupe::apps::swap_bench
