// Penalising, ranking, cutting off, drawing.
#include "gpu/model/sampler.hpp"

#include <algorithm>
#include <cmath>

#include "io/base/splitmix.hpp"

namespace troupe::gpu {

double sampler::uniform() {
  const uint64_t x = splitmix(state_);
  state_ += splitmix_step;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

void sampler::saw(int32_t token) {
  const auto at = static_cast<size_t>(token);
  if (at >= seen_.size()) seen_.resize(at + 1);
  seen_[at] = true;
}

/// As in transformers, however often the token was seen: a logit above 0 is divided, another
/// multiplied, so that it becomes less in either case.
float sampler::penalised(float logit, size_t token) const {
  if (token >= seen_.size() || !seen_[token]) return logit;
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  return logit < 0 ? logit * penalty : logit / penalty;
}

int32_t sampler::pick(std::span<const float> logits) {
  const double draw = uniform();
  ranked_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = penalised(logits[i], i);
    if (!std::isnan(logit)) ranked_.emplace_back(logit, static_cast<int32_t>(i));
  }
  if (ranked_.empty()) return 0;
  auto likelier = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  if (options_.temperature <= 0)
    return std::min_element(ranked_.begin(), ranked_.end(), likelier)->second;
  size_t kept = ranked_.size();
  if (options_.top_k > 0) kept = std::min(kept, static_cast<size_t>(options_.top_k));
  std::partial_sort(
      ranked_.begin(),
      ranked_.begin() + static_cast<ptrdiff_t>(options_.top_p < 1 ? ranked_.size() : kept),
      ranked_.end(), likelier);
  const double top = ranked_.front().first;
  auto weight = [&](size_t i) {
    return std::exp((static_cast<double>(ranked_[i].first) - top) / options_.temperature);
  };
  double total = 0;
  for (size_t i = 0; i < kept; ++i) total += weight(i);
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    sum += weight(i);
    if (options_.top_p < 1 && sum >= options_.top_p * total) kept = i + 1;
  }
  double at = draw * std::min(sum, total);
  for (size_t i = 0; i + 1 < kept; ++i) {
    at -= weight(i);
    if (at < 0) return ranked_[i].second;
  }
  return ranked_[kept - 1].second;
}

}  // namespace troupe::gpu
