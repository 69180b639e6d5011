// Angles in double, rounded once.
#include "gpu/model/rope_table.hpp"

#include <cmath>
#include <numbers>

namespace troupe::gpu {

std::vector<double> rope_frequencies(const model_config& model) {
  std::vector<double> out;
  const rope_scaling& scale = model.rope;
  const auto context = static_cast<double>(scale.original_max_positions);
  for (int64_t i = 0; i < model.head_width / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(model.head_width);
    double frequency = std::pow(model.rope_theta, -exponent);
    if (scale.factor != 1) {
      // transformers, modeling_rope_utils.py, _compute_llama3_parameters: long waves are slowed by
      // factor, short ones kept, those between blended.
      const double wavelength = 2 * std::numbers::pi / frequency;
      if (wavelength > context / scale.low_freq_factor) {
        frequency /= scale.factor;
      } else if (wavelength > context / scale.high_freq_factor) {
        const double smooth = (context / wavelength - scale.low_freq_factor) /
                              (scale.high_freq_factor - scale.low_freq_factor);
        frequency = (1 - smooth) * frequency / scale.factor + smooth * frequency;
      }
    }
    out.push_back(frequency);
  }
  return out;
}

rope_table make_rope_table(const model_config& model, int64_t positions) {
  const std::vector<double> frequencies = rope_frequencies(model);
  rope_table table;
  table.cosine.reserve(frequencies.size() * static_cast<size_t>(positions));
  table.sine.reserve(frequencies.size() * static_cast<size_t>(positions));
  for (int64_t p = 0; p < positions; ++p)
    for (double frequency : frequencies) {
      const double angle = static_cast<double>(p) * frequency;
      table.cosine.push_back(static_cast<float>(std::cos(angle)));
      table.sine.push_back(static_cast<float>(std::sin(angle)));
    }
  return table;
}

}  // namespace troupe::gpu
