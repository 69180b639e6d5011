// The nearest train rows of a row, and what their residuals say of it.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace troupe::gpu::predict {

/// How many are looked at.
inline constexpr size_t neighbour_count = 32;

/// A row of the neighbours and its distance, nearest first; ties by the smaller row.
using neighbour_list = std::vector<std::pair<float, int>>;

/// Of a point [columns] among rows [n, columns]; `without` is left out (-1: none).
neighbour_list nearest_rows(const float* point, const std::vector<float>& rows, size_t columns,
                            int without = -1);

/// sum w r / (sum w + shrink) by output; distances in units of `unit`.
std::vector<double> local_residual(const neighbour_list& near, const std::vector<float>& residuals,
                                   size_t outputs, double unit, double bandwidth, double shrink);

/// The median distance above 0 of rows to their nearest other row; 1 where there is none.
double typical_distance(const std::vector<float>& rows, size_t columns);

}  // namespace troupe::gpu::predict
