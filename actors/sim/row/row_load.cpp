// Profiles, noise, thinning.
#include "actors/sim/row/row_load.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace troupe::sim {

namespace {

constexpr double bins_a_day = 86'400 / row_bin_s;
constexpr double least_load = 0.02;
/// The noise's generator: fixed, so that policies and seeds differ in requests alone.
constexpr uint64_t noise_seed = 20'230'621;
constexpr double noise_share = 0.05, noise_kept = 0.97;
constexpr int service_draws = 200'000;

double normal(rng& chance) {
  const double u = 1 - chance.unit();  // (0, 1]
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * chance.unit());
}

double mean_service_s(row_class c, rng chance) {
  double sum = 0;
  for (int i = 0; i < service_draws; ++i) sum += service_s(draw_request(c, chance));
  return sum / service_draws;
}

}  // namespace

std::vector<double> daily_profile() {
  std::vector<double> out;
  for (int i = 0; i < static_cast<int>(bins_a_day); ++i) {
    const double hour = i * row_bin_s / 3600;
    const auto hump = [&](double at, double width) {
      return std::exp(-std::pow((hour - at) / width, 2));
    };
    out.push_back(0.30 + 0.62 * hump(10.5, 3.0) + 0.66 * hump(15.5, 3.4) + 0.2 * hump(21, 2));
  }
  const double most = *std::max_element(out.begin(), out.end());
  for (auto& x : out) x /= most;
  return out;
}

std::vector<double> load_of(const std::vector<double>& profile, int weeks) {
  const double most = *std::max_element(profile.begin(), profile.end());
  const auto bins = static_cast<size_t>(7 * bins_a_day) * static_cast<size_t>(weeks);
  rng chance(mix(noise_seed));
  double noise = normal(chance);
  std::vector<double> out(bins);
  for (size_t i = 0; i < bins; ++i) {
    out[i] = std::max(least_load, profile[i % profile.size()] / most * (1 + noise_share * noise));
    noise = noise_kept * noise + std::sqrt(1 - noise_kept * noise_kept) * normal(chance);
  }
  return out;
}

row_arrivals::row_arrivals(row_class c, int servers, const std::vector<double>& load, rng chance)
    : class_(c), load_(load), chance_(chance) {
  most_load_ = *std::max_element(load.begin(), load.end());
  most_rate_ = row_utilisation * servers / mean_service_s(c, chance_.split(1)) * most_load_;
  find_next();
}

void row_arrivals::find_next() {
  for (;;) {
    t_s_ -= std::log1p(-chance_.unit()) / most_rate_;
    const auto bin = static_cast<size_t>(t_s_ / row_bin_s);
    if (bin >= load_.size()) {
      next_ns_ = std::numeric_limits<int64_t>::max();
      return;
    }
    if (!chance_.chance(load_[bin] / most_load_)) continue;
    next_ns_ = static_cast<int64_t>(t_s_ * 1e9);
    return;
  }
}

row_request row_arrivals::take() {
  const auto out = draw_request(class_, chance_);
  find_next();
  return out;
}

}  // namespace troupe::sim
