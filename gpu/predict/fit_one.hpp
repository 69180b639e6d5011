// One fit on given rows, without choices: trunk, network, the places of the neighbours.
#pragma once

#include <functional>

#include "gpu/predict/fit.hpp"

namespace troupe::gpu::predict {

/// Of the networks that are fitted.
inline constexpr uint32_t network_width = 64;

/// What a fit has besides the trunk.
struct fit_plan {
  bool trunk = true, network = false, published = false;
  bool by_model = false;  ///< the trunk's strength is chosen by CPU models left out, not rows
  bool intra = true, inter = true;  ///< the network's blocks, as fit_options has them
  uint64_t seed = 0;
  int seeds = 1, passes = 40;
};
/// The plan of a kind.
fit_plan plan_of(std::string_view kind, const fit_options& options, size_t rows);

/// `rows` and `extra` have all their labels; features, trunk and network are learned from both, the
/// rest from `rows` (FIT-4). Of `watched`, of which nothing is learned, the learning curve says how
/// they did meanwhile. `tell` after each pass of the network.
ModelT fit_rows(const io::perf::perf_table& table, const row_list& rows, const row_list& extra,
                const row_list& watched, const fit_plan& plan, const std::function<void()>& tell);

}  // namespace troupe::gpu::predict
