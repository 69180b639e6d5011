// Which source each training window comes from, where several are mixed by weight, and which of
// its windows that is: pure policies, so that any row of the endless sequence of training windows
// (io/data/batch_order.hpp) is addressable in any layout, and a resumed run needs its number alone.
//
// Source s of weight w(s) has n(s) of the N rows of a block; blocks follow each other, all alike.
// N is the least number up to 65,536 for which all N w(s) / sum(w) are whole, if there is one (4
// for the weights 3 and 1); else 65,536, the shares rounded by largest remainders, to one row at
// least. Within a block row i goes to the source that is behind its share and whose next row is due
// first, so that after any number of rows each has had its share, to less than one row. It is the
// schedule of periodic tasks on one processor, earliest deadline first, which never misses one
// (Baruah, Cohen, Plaxton and Varvel, Proportionate Progress, Algorithmica 15, 1996).
// Nothing of it is drawn by chance: what a step has of each source would vary, for nothing.
//   Row g of the run is row k of its source, k = (rows of the source before g). Row k of a source
//   is what it were in a run on that source alone: pass k / W(s), the place in it permuted by the
//   seed. A small source of great weight begins anew as often as it must; none waits for others.
//   Held-out windows of all sources are mixed alike: number v is number k of its source, modulo
//   what that holds out. So the validation loss is that of the mixture trained on.
//
// Invariants:
// SRM-1 Of the first g rows, each source has floor or ceil of g n(s) / N.
// SRM-2 The rows of a source are numbered 0, 1, 2, ... without a gap, whoever asks first.
// SRM-3 The answer depends on the weights alone, on every machine.
// SRM-4 One source has the windows of batch_order, whatever its weight.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/data/batch_order.hpp"

namespace troupe::io {

/// Rows to sources: see the head of the file.
class source_mix {
 public:
  /// A row, or a window, by its number in a source.
  struct place {
    size_t source = 0;
    uint64_t row = 0;
    bool operator==(const place&) const = default;
  };

  /// `weights`: one at least, 2^16 at most, each above 0 and finite, as their sum is.
  explicit source_mix(std::span<const double> weights);

  size_t sources() const noexcept { return in_block_.size(); }
  /// Rows of a block: N.
  uint64_t period() const noexcept { return block_.size(); }
  /// What a source has of all rows.
  double share(size_t source) const noexcept {
    return static_cast<double>(in_block_[source]) / static_cast<double>(period());
  }
  place at(uint64_t row) const noexcept;
  /// How many rows before `end` are of a source.
  uint64_t before(size_t source, uint64_t end) const noexcept;

 private:
  void share_out(std::span<const double> weights);
  void lay_out();

  std::vector<uint32_t> in_block_;  ///< n(s)
  std::vector<place> block_;
};

/// Which tokens each row is of, where there are several sources.
class mixed_order {
 public:
  struct window {
    size_t source = 0;
    uint64_t first_token = 0;  ///< in the source
    bool operator==(const window&) const = default;
  };

  /// `orders`: one of each source, of the same steps, rows and skips.
  mixed_order(std::vector<batch_order> orders, source_mix mix)
      : orders_(std::move(orders)), mix_(std::move(mix)) {}
  explicit mixed_order(const batch_order& one) : mixed_order({one}, source_mix(only_)) {}

  /// Windows of all sources.
  uint64_t train_windows() const noexcept;
  uint64_t validation_windows() const noexcept;
  /// Training row `row` of step `step`.
  window train_window(uint64_t step, uint32_t row) const noexcept;
  /// Validation window v; there are some.
  window validation_window(uint64_t v) const noexcept;

  const source_mix& mix() const noexcept { return mix_; }
  const batch_order& of(size_t source) const noexcept { return orders_[source]; }

 private:
  static constexpr double only_[] = {1.0};

  std::vector<batch_order> orders_;
  source_mix mix_;
};

}  // namespace troupe::io
