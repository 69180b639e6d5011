// Nearest rows by looking at all of them: thousands at most.
#include "gpu/predict/neighbours.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::gpu::predict {

neighbour_list nearest_rows(const float* point, const std::vector<float>& rows, size_t columns,
                            int without) {
  const size_t n = rows.size() / columns;
  neighbour_list all;
  all.reserve(n);
  for (size_t r = 0; r < n; ++r) {
    if (static_cast<int>(r) == without) continue;
    const float* other = rows.data() + r * columns;
    float lanes[8] = {};  // sums in a fixed order that the compiler may keep in one register
    size_t c = 0;
    for (; c + 8 <= columns; c += 8)
      for (size_t i = 0; i < 8; ++i)
        lanes[i] += (point[c + i] - other[c + i]) * (point[c + i] - other[c + i]);
    for (; c < columns; ++c) lanes[0] += (point[c] - other[c]) * (point[c] - other[c]);
    float sum = 0;
    for (const float l : lanes) sum += l;
    all.emplace_back(sum, static_cast<int>(r));
  }
  const size_t kept = std::min(neighbour_count, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end());
  all.resize(kept);
  for (auto& [distance, row] : all) distance = std::sqrt(distance);
  return all;
}

std::vector<double> local_residual(const neighbour_list& near, const std::vector<float>& residuals,
                                   size_t outputs, double unit, double bandwidth, double shrink) {
  std::vector<double> out(outputs, 0.0);
  double weights = shrink;
  for (const auto& [distance, row] : near) {
    const double away = distance / (unit * bandwidth);
    const double w = std::exp(-away * away);
    weights += w;
    for (size_t o = 0; o < outputs; ++o)
      out[o] += w * residuals[static_cast<size_t>(row) * outputs + o];
  }
  for (auto& r : out) r = weights > 0 ? r / weights : 0;
  return out;
}

double typical_distance(const std::vector<float>& rows, size_t columns) {
  const size_t n = rows.size() / columns;
  std::vector<float> nearest;
  constexpr size_t looked_at = 512;  // rows, evenly spaced: a median needs no more
  const size_t step = std::max<size_t>(1, n / looked_at);
  for (size_t r = 0; r < n; r += step) {
    const auto near = nearest_rows(rows.data() + r * columns, rows, columns, static_cast<int>(r));
    const auto other =
        std::find_if(near.begin(), near.end(), [](const auto& x) { return x.first > 0; });
    if (other != near.end()) nearest.push_back(other->first);
  }
  if (nearest.empty()) return 1;
  std::nth_element(nearest.begin(),
                   nearest.begin() + static_cast<std::ptrdiff_t>(nearest.size() / 2),
                   nearest.end());
  return nearest[nearest.size() / 2];
}

}  // namespace troupe::gpu::predict
