// Which tokens row b of step k trains on: a pure policy, so that any step is addressable and a
// resumed run needs nothing but the step's number, and what is passed over.
//
// Let n be the tokens, T the sequence length, B the rows of one optimizer step over all ranks (a
// rank takes its own slice of rows; the order knows only rows).
//   Training window w (0 <= w < W): inputs t[wT .. wT+T-1], targets one later, so it touches
//   t[wT .. wT+T]. Row b of step k has the running number g = g0 + (k - k0)*B + b (both 0 unless a
//   run goes on with another B or T than it had; numbers that are passed over are not counted, see
//   io/data/row_skips.hpp), pass g / W and place g % W:
//   unshuffled, window = place; shuffled, window = P(seed, pass, place), where P(seed, pass, .)
//   is a permutation of 0..W-1, computed (a 6-round Feistel network on the next even power of two,
//   walked until it falls below W) and not stored. A pass's end inside a step continues with
//   the next pass's first windows: no partial batch, nothing dropped.
//   Validation window v (0 <= v < V): the same from token n0 = W*T + 1 on: inputs
//   t[n0+vT .. n0+vT+T-1]. A separate validation file gets an order of its own (no shuffle).
//
// Invariants:
// ORD-1 Every training window lies inside [0, n); without a split W = floor((n-1)/T).
// ORD-2 No training window touches a token that a validation window touches.
// ORD-3 In every pass each training window comes exactly once.
// ORD-4 The answer depends on the arguments alone, on every machine.
// ORD-5 A step has B rows, whatever is passed over, and no row of a pass comes twice.
#pragma once

#include <cstdint>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/data/row_skips.hpp"

namespace troupe::io {

/// What the order is computed from.
struct batch_order_spec {
  uint64_t tokens = 0;      ///< n
  uint32_t seq_len = 0;     ///< T
  uint32_t batch_rows = 0;  ///< B: rows of one step, over all ranks
  uint64_t first_step = 0;  ///< k0
  uint64_t first_row = 0;   ///< g0
  row_skips skipped = {};   ///< running numbers that no step has
  bool shuffle = false;
  uint64_t seed = 0;
  /// Share of all windows held out at the end, in [0, 0.5], rounded down but to at least one.
  double validation_fraction = 0.0;
};

/// Not one sequence: the tokens, a sequence's, and what else takes of them.
inline constexpr error_kind<uint64_t, uint64_t, std::string_view> too_few_tokens{
    "too_few_tokens", errc::bad_config, "too few tokens for sequences of {1}{2}: {0}",
    "give more data, or a smaller train.seq_len"};

/// See the head of the file.
class batch_order {
 public:
  /// Error bad_config without one training window (and one validation window if asked for)
  static result<batch_order> make(const batch_order_spec& spec);

  /// W.
  uint64_t train_windows() const noexcept { return train_windows_; }
  /// V.
  uint64_t validation_windows() const noexcept { return validation_windows_; }
  /// First token of training row `row` (< B) of step `step` (from k0); T+1 tokens follow.
  uint64_t train_first_token(uint64_t step, uint32_t row) const noexcept;
  /// The running number of that row: g.
  uint64_t running_row(uint64_t step, uint32_t row) const noexcept;
  /// First token of the row of a running number.
  uint64_t running_first_token(uint64_t running) const noexcept;
  /// First token of validation window v modulo V; V > 0; T+1 tokens follow.
  uint64_t validation_first_token(uint64_t v) const noexcept;

  const batch_order_spec& spec() const noexcept { return spec_; }

 private:
  uint64_t permuted(uint64_t pass, uint64_t place) const noexcept;

  batch_order_spec spec_;
  uint64_t train_windows_ = 0;
  uint64_t validation_windows_ = 0;
  uint32_t half_bits_ = 1;  ///< the Feistel network permutes 0 .. 4^half_bits_ - 1
};

}  // namespace troupe::io
