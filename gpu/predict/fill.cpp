// Completes rows by the train rows nearest in what they give.
#include "gpu/predict/fill.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpu/predict/neighbours.hpp"
#include "gpu/predict/random.hpp"

namespace troupe::gpu::predict {

namespace {

using io::perf::absent;

constexpr uint8_t word_kind = static_cast<uint8_t>(io::perf::feature_kind::category);

/// How far a train row is from what a row gives: squares of deviations; a word that differs, and
/// what the train row lacks, is one.
double distance_in_given(const ModelT& m, const perf_row& row, const double* donor) {
  double sum = 0;
  for (size_t i = 0; i < m.features.size(); ++i) {
    const auto& f = *m.features[i];
    if (lacks(m, row, i)) continue;
    if (f.kind == word_kind) {
      sum += donor[i] == code_of(f, row.words[i]) ? 0 : 1;
      continue;
    }
    const double there = transformed(f, donor[i]);
    const double away = (transformed(f, row.numbers[i]) - there) / f.deviation;
    sum += std::isnan(there) ? 1 : away * away;
  }
  return sum;
}

perf_row completed(const ModelT& m, const perf_row& row, const double* donor) {
  auto out = row;
  for (size_t i = 0; i < m.features.size(); ++i) {
    if (std::isnan(donor[i]) || !lacks(m, row, i)) continue;  // DON-2
    if (m.features[i]->kind == word_kind)
      out.words[i] = m.features[i]->levels[static_cast<size_t>(donor[i]) - 1];
    else
      out.numbers[i] = donor[i];
  }
  return out;
}

}  // namespace

bool lacks(const ModelT& m, const perf_row& row, size_t i) {
  const auto& f = *m.features[i];
  return f.kind == word_kind ? row.words[i].empty() : std::isnan(transformed(f, row.numbers[i]));
}

std::vector<double> donors_of(const ModelT& m, const row_list& train) {
  constexpr size_t enough = 4096;
  const size_t step = (train.size() + enough - 1) / enough;
  std::vector<double> out;
  for (size_t r = 0; r < train.size(); r += step)
    for (size_t i = 0; i < m.features.size(); ++i) {
      const auto& f = *m.features[i];
      const int code = f.kind == word_kind ? code_of(f, train[r]->words[i]) : 0;
      out.push_back(f.kind != word_kind ? train[r]->numbers[i] : code > 0 ? code : absent);
    }
  return out;
}

std::vector<bool> always_given(const ModelT& m) {
  const size_t columns = m.features.size();
  std::vector<bool> out(columns);
  for (size_t i = 0; i < columns; ++i) out[i] = !m.features[i]->marked;
  for (size_t at = 0; at < m.donors.size(); ++at)
    if (std::isnan(m.donors[at])) out[at % columns] = false;
  return out;
}

std::vector<perf_row> completions_of(const ModelT& m, const perf_row& row) {
  const size_t columns = m.features.size(), n = m.donors.size() / columns;
  // Of rows that are as near, those in another order than that of their ids, which may go by date.
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  random_numbers draw(0);
  for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[draw.below(i)]);
  std::vector<double> away(n);
  for (size_t r = 0; r < n; ++r) away[r] = distance_in_given(m, row, m.donors.data() + r * columns);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return away[x] < away[y]; });
  constexpr size_t few = 8;  // where fewer are as near, the interval would hang on them
  const double radius = away[order[std::min(few, n) - 1]];
  std::vector<perf_row> out;
  for (size_t k = 0; k < std::min(neighbour_count, n) && away[order[k]] <= radius; ++k)
    out.push_back(completed(m, row, m.donors.data() + order[k] * columns));
  return out;
}

}  // namespace troupe::gpu::predict
