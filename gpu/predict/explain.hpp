// What a prediction is made of, and which features predictions hang on.
//
// Invariants
// FAC-1 The product of a prediction's factors is the prediction.
// FAC-2 The same model, rows and seed give the same importances.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/predict/predictor.hpp"

namespace troupe::gpu::predict {

/// What a prediction is multiplied by, for what a feature says to the trunk, or by another part of
/// the model, which has no group.
struct factor {
  std::string group, name;
  std::vector<double> by;  ///< by output
};

/// Of one row by the model's kind: the mean of the train rows, then each feature of the trunk, then
/// "network" and "neighbours" where the kind has them (FAC-1). Bounds of what can be computed with
/// are a factor of their own where they were met.
std::vector<factor> factors_of(predictor& p, const perf_row& row);

/// How much worse the model gets where a feature's values are dealt out anew among the rows: points
/// of MAPE (Breiman's permutation importance). A group's are dealt out together.
struct importance {
  std::string group, name;  ///< no name: of the whole group
  double points = 0;
};

/// Of the rows that have all their labels, which are at least two; features first, in their order,
/// then groups. (FAC-2)
std::vector<importance> importances_of(predictor& p, const row_list& rows, uint64_t seed);

}  // namespace troupe::gpu::predict
