// Plain loops that the compiler vectorises; generation is bound by reading weights, not by this.
#include "gpu/model/cached_attention.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "io/formats/safetensors.hpp"

namespace troupe::gpu {

namespace {

/// `count` elements from `first` on, as f32.
void load(const void* data, dtype type, int64_t first, int64_t count, float* out) {
  if (type == dtype::f32) {
    std::copy_n(static_cast<const float*>(data) + first, count, out);
    return;
  }
  const auto* bits = static_cast<const uint16_t*>(data) + first;
  for (int64_t i = 0; i < count; ++i) out[i] = io::bf16_to_f32(bits[i]);
}

void store(void* data, dtype type, int64_t first, int64_t count, const float* values) {
  if (type == dtype::f32) {
    std::copy_n(values, count, static_cast<float*>(data) + first);
    return;
  }
  auto* bits = static_cast<uint16_t*>(data) + first;
  for (int64_t i = 0; i < count; ++i) bits[i] = io::f32_to_bf16(values[i]);
}

}  // namespace

void attend_last_row(const model_config& model, dtype type, const void* qkv, int64_t position,
                     void* out) {
  const int64_t d = model.head_width, stride = model.qkv_width();
  const int64_t window = model.sliding_window;
  const int64_t begin = window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  const auto width = static_cast<size_t>(d);
  std::vector<float> q(width), row(width), sum(width);
  std::vector<float> scores(static_cast<size_t>(position - begin + 1));
  for (int64_t h = 0; h < model.heads; ++h) {
    const int64_t kv = h / (model.heads / model.kv_heads);
    const int64_t k_column = (model.heads + kv) * d, v_column = k_column + model.kv_heads * d;
    load(qkv, type, position * stride + h * d, d, q.data());
    for (int64_t t = begin; t <= position; ++t) {
      load(qkv, type, t * stride + k_column, d, row.data());
      float dot = 0;
      for (size_t i = 0; i < width; ++i) dot += q[i] * row[i];
      scores[static_cast<size_t>(t - begin)] = dot * scale;
    }
    const float top = *std::max_element(scores.begin(), scores.end());
    float total = 0;
    for (float& s : scores) total += s = std::exp(s - top);
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int64_t t = begin; t <= position; ++t) {
      load(qkv, type, t * stride + v_column, d, row.data());
      const float p = scores[static_cast<size_t>(t - begin)] / total;
      for (size_t i = 0; i < width; ++i) sum[i] += p * row[i];
    }
    store(out, type, h * d, d, sum.data());
  }
}

}  // namespace troupe::gpu
