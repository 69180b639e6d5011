// What a prediction is made of, and which features predictions hang on.
//
// Invariants
// FAC-1 The product of a prediction's factors is the prediction.
// FAC-2 The same model, rows and seed give the same importances and shares.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

/// What the network attends to, beside what the same features are worth to the whole model: not the
/// same, since attention is no effect, and what the trunk says of a feature is not in it.
struct attention_share {
  std::string group, name;  ///< no name: of the whole group
  double share = 0;   ///< of a group among the groups; of a feature its group's, times its own
  double points = 0;  ///< as importance has them
};

/// Groups are the network's: categories are one of their own, whatever theirs is called.
struct attention_told {
  std::vector<attention_share> shares;  ///< features, in their order, then groups
  /// How far shares and points put features, and groups, in the same order.
  std::optional<double> features_agree, groups_agree;
};

/// Of the rows that have all their labels, which are at least two; `worth` is importances_of()
/// them. Nothing where the model's kind has no network, or one without a block. (FAC-2)
std::optional<attention_told> attention_of(predictor& p, const row_list& rows,
                                           const std::vector<importance>& worth, uint64_t seed);

/// Spearman's rank correlation, equal values sharing their ranks; nothing of fewer than three, or
/// where all of either are equal.
std::optional<double> rank_agreement(std::span<const double> a, std::span<const double> b);

}  // namespace troupe::gpu::predict
