// Integers, and comparing with them.
#include "actors/health/known_sum.hpp"

#include <bit>

namespace troupe::health {

namespace {

/// Where in the numbers an element of a member's part stands: every member has others.
uint32_t place_of(size_t rank, size_t element) {
  constexpr size_t stride = 4099;
  return static_cast<uint32_t>((element + rank * stride) % known_sum::elements);
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

}  // namespace

known_sum::known_sum() : numbers_(elements) {
  for (size_t i = 0; i < elements; ++i)
    numbers_[i] = static_cast<float>(number(static_cast<uint32_t>(i)));
}

void known_sum::part_of(size_t rank, std::span<float> out) const {
  for (size_t i = 0; i < out.size(); ++i) out[i] = numbers_[place_of(rank, i)];
}

known_sum::sum_errors known_sum::errors_of_sum(std::span<const float> sum, size_t members) {
  sum_errors out;
  for (size_t i = 0; i < sum.size(); ++i) {
    int32_t wanted = 0;  // KSM-1
    for (size_t rank = 0; rank < members; ++rank) wanted += number(place_of(rank, i));
    if (same_bits(sum[i], static_cast<float>(wanted))) continue;
    if (out.wrong++ == 0) out.first = {i, sum[i], static_cast<double>(wanted)};
  }
  return out;
}

void known_sum::part_errors::add(const part_errors& other) {
  wrong += other.wrong;
  if (from < 0) from = other.from;
}

known_sum::part_errors known_sum::errors_of_parts(std::span<const float> parts) {
  part_errors out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto rank = i / gathered;
    const auto wanted = number(place_of(rank, i % gathered));  // KSM-1
    if (same_bits(parts[i], static_cast<float>(wanted))) continue;
    if (out.wrong++ == 0) out.from = static_cast<int>(rank);
  }
  return out;
}

}  // namespace troupe::health
