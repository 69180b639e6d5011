// A predictor that answers: a saved model, with what is computed of it once.
//
//   y = exp(trunk + s * clip(w * network + neighbours, -3, 3))
//
// by the model's kind: `mean` (of the train rows), `trunk`, `trunk+local`, `ncpp` and
// `ncpp-published` (a network alone), `trunk+ncpp`, `trunk+ncpp+local`.
//
// Where there are networks of several seeds, `network` is the mean of what they say; where they
// are farther apart than on nine of ten rows of the fit, the interval is wider by as much, three
// times at most.
//
// What a network makes of a row falls off with the distance to the nearest train row, as what is
// known of it does: w = share + (1 - share) exp(-(d / reach)^2).
//
// Neighbours: the residuals r_k of train rows, by their distance d_k where the network (or the
// trunk) puts them, sum w_k r_k / (sum w_k + shrink), w_k = exp(-(d_k / bandwidth)^2): a row far
// from all gets nothing of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/predict/network.hpp"

namespace troupe::gpu::predict {

/// The kinds, from the plainest on.
inline constexpr const auto& kinds = io::perf::model_kinds;
bool is_kind(std::string_view word) noexcept;

struct prediction {
  std::vector<double> value, lower, upper;  ///< by output; the interval has 95 % of rows
  std::string flag;     ///< what of the row is outside the training range; empty where nothing is
  double distance = 0;  ///< to the nearest train row, in units of a typical one
  /// Where the row lacks what every train row has: the row as it was completed, whose prediction
  /// `value` is. The interval then covers those of all that it may be completed by.
  std::optional<perf_row> completed = {};
};

/// The parts that a prediction is made of, by output: `trunk` in logarithms, others in deviations.
struct prediction_parts {
  std::vector<double> trunk, network, local;
  double distance = 0;
  std::vector<double> spread = {};  ///< standard deviation of what networks say; 0 of one
};

/// Of the residuals, in deviations: what is beyond is no residual that was ever learned from.
inline constexpr double residual_clip = 3;

class predictor {
 public:
  /// A model that passed io::perf::check().
  explicit predictor(ModelT model);
  predictor(predictor&&) noexcept = default;

  const ModelT& model() const noexcept { return model_; }
  ModelT& model() noexcept { return model_; }

  std::vector<prediction> ask(const row_list& rows);
  /// `placed`, where given, becomes what embed() gives for the rows.
  std::vector<prediction_parts> parts(const row_list& rows, std::vector<float>* placed = nullptr);
  /// What its networks attend to over rows, in the mean; of a model without one nothing.
  network::attention attended(const row_list& rows);
  /// Where rows lie among the neighbours: [rows, local->columns].
  std::vector<float> embed(const row_list& rows);

  /// The logarithm of an output, of parts, by a kind.
  double logarithm(const prediction_parts& p, size_t output, std::string_view kind) const;
  /// How much of the network's answer is taken, at a distance; of a model that has one.
  double network_share(double distance) const;
  /// Half of the interval's width of a logarithm, at a distance.
  double half_width(double distance) const;
  /// How far networks of several seeds are apart on an output, as a logarithm.
  double spread_of(const prediction_parts& p, size_t output) const;

 private:
  network::answers ask_networks(const row_list& rows, std::vector<double>& spread);
  prediction answer(const perf_row& row, const prediction_parts& of) const;
  prediction answer_completed(const perf_row& row);

  ModelT model_;
  std::vector<network> networks_;  ///< by seed
};

}  // namespace troupe::gpu::predict
