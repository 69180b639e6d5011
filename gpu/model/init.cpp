// Counter-based normal numbers: a hash of (seed, name) keys a hash of the element's index.
#include "gpu/model/init.hpp"

#include <cmath>
#include <numbers>
#include <vector>

#include "io/base/splitmix.hpp"

namespace troupe::gpu {

namespace {

uint64_t key_of(uint64_t seed, std::string_view name) {
  uint64_t key = splitmix(seed);
  for (char c : name) key = splitmix(key ^ static_cast<unsigned char>(c));
  return key;
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  for (auto ending : endings)
    if (name.ends_with(ending)) return true;
  return false;
}

/// Sets `count` of one tensor's values at `out`, from its element `first` on.
void fill(const tensor_info& tensor, const model_config& model, uint64_t seed, int64_t first,
          int64_t count, float* out) {
  const std::string_view name = tensor.name;
  if (name.ends_with(".bias")) return;  // zero already
  if (tensor.shape.size() == 1) {
    std::fill_n(out, count, 1.0f);
    return;
  }
  double deviation = model.init_std;
  if (ends_with_any(name, {".c_proj.weight", ".o_proj.weight", ".down_proj.weight"}))
    deviation /= std::sqrt(2.0 * static_cast<double>(model.layers));
  fill_normal(seed, name, first, count, deviation, out);
}

}  // namespace

void fill_normal(uint64_t seed, std::string_view name, int64_t first, int64_t count,
                 double std_deviation, float* out) {
  const uint64_t key = key_of(seed, name);
  const auto deviation = static_cast<float>(std_deviation);
  // Box-Muller: elements 2j and 2j+1 are the two halves of pair j.
  for (int64_t i = 0; i < count; ++i) {
    const auto element = static_cast<uint64_t>(first + i);
    const uint64_t bits = splitmix(key + (element >> 1) * splitmix_step);
    const float radius_uniform = (static_cast<float>(bits >> 41) + 0.5f) * 0x1p-23f;
    const float angle_uniform = static_cast<float>((bits >> 8) & 0xffffff) * 0x1p-24f;
    const float radius = deviation * std::sqrt(-2.0f * std::log(radius_uniform));
    const float angle = 2.0f * std::numbers::pi_v<float> * angle_uniform;
    const bool odd = (element & 1) != 0;
    out[i] = radius * (odd ? std::sin(angle) : std::cos(angle));
    if (!odd && i + 1 < count) out[++i] = radius * std::sin(angle);
  }
}

status initialize(parameter_store& store, const model_config& model, uint64_t seed,
                  const std::stop_token& ending) {
  for (int c = 0; c < store.chunk_count(); ++c) {
    const auto values = [&](int64_t first, int64_t count, float* out) -> status {
      std::fill_n(out, count, 0.0f);
      return for_each_piece(store.info(c), first, count, [&](const tensor_piece& p) -> status {
        if (ending.stop_requested()) return error{errc::cancelled, "stopped"};
        fill(*p.tensor, model, seed, p.first, p.count, out + p.at);
        return {};
      });
    };
    TROUPE_CHECK(store.write(c, part::master, values));
  }
  return {};
}

}  // namespace troupe::gpu
