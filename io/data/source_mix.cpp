// Shares, the block, and windows by it: see source_mix.hpp.
#include "io/data/source_mix.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace troupe::io {

namespace {

/// Of a block in which no whole rows make the shares.
constexpr uint32_t whole_rows = 65'536;

/// The shares as whole parts of `rows`, where they are such.
bool divide(std::span<const double> weights, double sum, uint32_t rows,
            std::vector<uint32_t>& parts) {
  constexpr double rounding = 1e-9;  // of dividing; far below what tells two shares apart
  for (size_t s = 0; s < weights.size(); ++s) {
    const double exact = weights[s] / sum * rows;
    const double whole = std::round(exact);
    if (whole < 1 || std::abs(exact - whole) > rounding) return false;
    parts[s] = static_cast<uint32_t>(whole);
  }
  return std::accumulate(parts.begin(), parts.end(), uint64_t{0}) == rows;
}

}  // namespace

source_mix::source_mix(std::span<const double> weights) : in_block_(weights.size()) {
  assert(!weights.empty() && weights.size() <= whole_rows);
  share_out(weights);
  lay_out();
}

void source_mix::share_out(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (uint32_t rows = static_cast<uint32_t>(weights.size()); rows <= whole_rows; ++rows)
    if (divide(weights, sum, rows, in_block_)) return;
  std::vector<std::pair<double, size_t>> missing;  // to the exact share, of each
  int64_t left = whole_rows;
  for (size_t s = 0; s < weights.size(); ++s) {
    const double exact = weights[s] / sum * whole_rows;
    in_block_[s] = std::max<uint32_t>(1, static_cast<uint32_t>(exact));
    left -= in_block_[s];
    missing.emplace_back(in_block_[s] - exact, s);
  }
  std::sort(missing.begin(), missing.end());  // who lacks most comes first, then who stands first
  for (size_t i = 0; left > 0; i = (i + 1) % missing.size(), --left) ++in_block_[missing[i].second];
  while (left < 0) {  // rows that tiny sources had for nothing: the greatest do not miss them
    --*std::max_element(in_block_.begin(), in_block_.end());
    ++left;
  }
}

void source_mix::lay_out() {
  const auto rows = std::accumulate(in_block_.begin(), in_block_.end(), uint64_t{0});
  std::vector<uint64_t> had(in_block_.size());
  block_.reserve(rows);
  for (uint64_t i = 1; i <= rows; ++i) {
    size_t next = 0;
    uint64_t next_due = 0;
    for (size_t s = 0; s < had.size(); ++s) {
      if (had[s] * rows >= i * in_block_[s]) continue;  // it has its share, or more
      const uint64_t due = ((had[s] + 1) * rows + in_block_[s] - 1) / in_block_[s];
      if (next_due != 0 && due >= next_due) continue;
      next = s;
      next_due = due;
    }
    block_.push_back({next, had[next]++});
  }
}

source_mix::place source_mix::at(uint64_t row) const noexcept {
  const auto& in = block_[row % period()];
  return {in.source, row / period() * in_block_[in.source] + in.row};  // SRM-2
}

uint64_t source_mix::before(size_t source, uint64_t end) const noexcept {
  const auto last = block_.begin() + static_cast<ptrdiff_t>(end % period());
  const auto in_last =
      std::count_if(block_.begin(), last, [&](const place& p) { return p.source == source; });
  return end / period() * in_block_[source] + static_cast<uint64_t>(in_last);
}

uint64_t mixed_order::train_windows() const noexcept {
  uint64_t sum = 0;
  for (const auto& order : orders_) sum += order.train_windows();
  return sum;
}

uint64_t mixed_order::validation_windows() const noexcept {
  uint64_t sum = 0;
  for (const auto& order : orders_) sum += order.validation_windows();
  return sum;
}

mixed_order::window mixed_order::train_window(uint64_t step, uint32_t row) const noexcept {
  const auto at = mix_.at(orders_.front().running_row(step, row));
  return {at.source, orders_[at.source].running_first_token(at.row)};
}

mixed_order::window mixed_order::validation_window(uint64_t v) const noexcept {
  const auto at = mix_.at(v);
  return {at.source, orders_[at.source].validation_first_token(at.row)};
}

}  // namespace troupe::io
