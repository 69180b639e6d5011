// A search along a line.
#include "gpu/swap/activation_plan.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace troupe::gpu {

namespace {

/// Rates are known by less than this.
constexpr double as_quick = 1.001;
constexpr int64_t looked_at = 16;

class line {
 public:
  using clock = std::function<std::optional<double>(const activation_split&)>;
  line(int64_t layers, bool has_halves, const clock& seconds)
      : layers_(layers), has_halves_(has_halves), seconds_(seconds) {}

  std::optional<activation_split> best() {
    const int64_t last = has_halves_ ? 2 * layers_ : layers_;
    auto pace = std::max<int64_t>(1, last / looked_at);
    for (int64_t at = 0; at < last; at += pace) look_at(at);
    look_at(layers_);
    look_at(last);
    look_near(pace, last);
    if (least_ == std::numeric_limits<double>::infinity()) return std::nullopt;
    return split_of(best_);
  }

 private:
  activation_split split_of(int64_t at) const {
    if (!has_halves_) return {at, 0};
    const auto keep = std::max<int64_t>(0, at - layers_);
    return {keep, std::min(at, layers_ - keep)};
  }

  /// Nearer and nearer, until no neighbour of the best one is better.
  void look_near(int64_t pace, int64_t last) {
    for (;;) {
      const auto before = best_;
      for (const auto at : {before - pace, before + pace})
        if (at >= 0 && at <= last) look_at(at);
      if (best_ != before) continue;
      if (pace == 1) return;
      pace = (pace + 1) / 2;
    }
  }

  void look_at(int64_t at) {
    if (!tried_.insert(at).second) return;
    const auto took = seconds_(split_of(at));
    if (!took) return;
    const bool better = at > best_ ? *took <= least_ * as_quick : *took * as_quick < best_s_;
    least_ = std::min(least_, *took);
    if (!better) return;
    best_ = at;
    best_s_ = *took;
  }

  int64_t layers_;
  bool has_halves_;
  const clock& seconds_;
  std::set<int64_t> tried_;
  int64_t best_ = 0;
  double best_s_ = std::numeric_limits<double>::infinity();
  double least_ = std::numeric_limits<double>::infinity();  ///< seconds, of any
};

}  // namespace

std::vector<activation_choice> choices_by_layer(const activation_split& split, int64_t layers) {
  using enum activation_choice;
  std::vector<activation_choice> out;
  for (int64_t left = layers; left > 0; --left)
    out.push_back(left <= split.keep ? keep : left <= split.keep + split.half ? half : recompute);
  return out;
}

std::optional<activation_split> choose_activations(int64_t layers, bool has_halves,
                                                   const line::clock& seconds) {
  return line(layers, has_halves, seconds).best();
}

}  // namespace troupe::gpu
