// Rows of the endless sequence of training windows that no step trains on: a pure value.
//
// SKP-1 Ranges are kept in order, apart from each other and not empty, however they were given.
// SKP-2 Who passes over them meets every other row exactly once, in order, wherever he begins.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::io {

/// Rows first .. end-1 of the sequence.
struct rows_between {
  uint64_t first = 0, end = 0;
  bool operator==(const rows_between&) const = default;
};

class row_skips {
 public:
  row_skips() = default;
  explicit row_skips(std::vector<rows_between> ranges);

  /// The row that is number n, from 0, of those at or behind `first` that are not passed over.
  uint64_t nth(uint64_t first, uint64_t n) const noexcept;
  /// How many rows before `end` are passed over.
  uint64_t before(uint64_t end) const noexcept;

  const std::vector<rows_between>& ranges() const noexcept { return ranges_; }

 private:
  std::vector<rows_between> ranges_;
};

}  // namespace troupe::io
