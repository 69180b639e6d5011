// Whether a drive was the same drive before and behind a round of `troupe bench swap`, and how far
// its rates were apart: who sees that no round counts needs to know whether that was by a little.
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "gpu/swap/limit_model.hpp"

namespace troupe::apps::swap_bench {

/// That rates before and behind a round that counts may differ by, of the higher one (SWB-2).
inline constexpr double steady_share = 0.15;

/// How far a drive's rates before and behind a round are apart, each as a share of the higher one.
struct rates_apart {
  double read = 0, write = 0;
  double mixed = 0;  ///< of as many bytes read as written, as far as it does so at once
};
rates_apart apart(const gpu::machine_rates& before, const gpu::machine_rates& after);

/// SWB-2. The mixed rate has no say: it follows from what is measured for a moment.
bool is_steady(const rates_apart& rates);

/// A line with its end: median and worst of the rounds; empty of none.
std::string apart_text(const std::vector<rates_apart>& of_rounds);
/// The same, of `read`, `write` and `mixed`.
nlohmann::ordered_json apart_json(const std::vector<rates_apart>& of_rounds);

}  // namespace troupe::apps::swap_bench
