// The order of batches: see batch_order.hpp.
#include "io/data/batch_order.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include <fmt/format.h>

namespace troupe::io {

namespace {

/// Steele, Lea and Flood's SplitMix64 finaliser: a good mix of 64 bits (OOPSLA 2014).
uint64_t mix(uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

result<batch_order> batch_order::make(const batch_order_spec& spec) {
  if (spec.seq_len == 0 || spec.batch_rows == 0)
    return error{errc::bad_config, "a sequence length and a batch of at least 1 are needed"};
  if (!(spec.validation_fraction >= 0.0 && spec.validation_fraction <= 0.5))
    return error{errc::bad_config, fmt::format("data.validation_fraction is {}, expected 0 to 0.5",
                                               spec.validation_fraction)};
  batch_order order;
  order.spec_ = spec;
  const uint64_t n = spec.tokens;
  const uint64_t t = spec.seq_len;
  const uint64_t all = n == 0 ? 0 : (n - 1) / t;  // ORD-1
  uint64_t held = 0;
  if (spec.validation_fraction > 0.0)
    held = std::max<uint64_t>(
        1, static_cast<uint64_t>(static_cast<double>(all) * spec.validation_fraction));
  // ORD-2: with a split, windows W*T+1+V*T+1 <= n, so that not even the last target is shared.
  uint64_t train = all;
  if (held > 0) train = n >= 2 + held * t ? (n - 2 - held * t) / t : 0;
  if (train == 0) return too_few_tokens(n, t, held > 0 ? " with a held-out part" : "");
  order.train_windows_ = train;
  order.validation_windows_ = held;
  auto bits = static_cast<uint32_t>(std::bit_width(train - 1));
  order.half_bits_ = std::max<uint32_t>(1, (bits + 1) / 2);
  return order;
}

uint64_t batch_order::permuted(uint64_t pass, uint64_t place) const noexcept {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  const uint64_t key = mix(mix(spec_.seed) ^ pass);
  uint64_t x = place;
  do {  // cycle walking: the network permutes 4^half_bits_, so the walk comes back below W (ORD-3)
    uint64_t left = x >> half_bits_;
    uint64_t right = x & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      uint64_t next = left ^ (mix(key + round * 0xD1342543DE82EF95ULL + right) & mask);
      left = right;
      right = next;
    }
    x = left << half_bits_ | right;
  } while (x >= train_windows_);
  return x;
}

uint64_t batch_order::running_row(uint64_t step, uint32_t row) const noexcept {
  assert(step >= spec_.first_step);
  return spec_.skipped.nth(spec_.first_row,
                           (step - spec_.first_step) * spec_.batch_rows + row);
}

uint64_t batch_order::train_first_token(uint64_t step, uint32_t row) const noexcept {
  assert(row < spec_.batch_rows);
  return running_first_token(running_row(step, row));
}

uint64_t batch_order::running_first_token(uint64_t running) const noexcept {
  uint64_t place = running % train_windows_;
  uint64_t window = spec_.shuffle ? permuted(running / train_windows_, place) : place;
  return window * spec_.seq_len;
}

uint64_t batch_order::validation_first_token(uint64_t v) const noexcept {
  assert(validation_windows_ > 0);
  return train_windows_ * spec_.seq_len + 1 + v % validation_windows_ * spec_.seq_len;
}

}  // namespace troupe::io
