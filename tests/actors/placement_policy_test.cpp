// Ranks and layers: every coordinate once, contiguous layers, the cheapest largest stage.
#include "actors/train/placement_policy.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::train;

namespace {

double worst(const std::vector<int64_t>& counts, const stage_costs& c) {
  double most = 0;
  for (size_t s = 0; s < counts.size(); ++s)
    most = std::max(most, static_cast<double>(counts[s]) * c.layer + (s == 0 ? c.embedding : 0) +
                              (s + 1 == counts.size() ? c.head : 0));
  return most;
}

/// The least largest cost over every split, by trying all.
double best_by_search(int64_t layers, int64_t stages, const stage_costs& c) {
  double best = 1e300;
  std::vector<int64_t> counts;
  std::function<void(int64_t)> extend = [&](int64_t left) {
    if (static_cast<int64_t>(counts.size()) + 1 == stages) {
      counts.push_back(left);
      best = std::min(best, worst(counts, c));
      counts.pop_back();
      return;
    }
    for (int64_t n = 1; n < left; ++n) {
      counts.push_back(n);
      extend(left - n);
      counts.pop_back();
    }
  };
  extend(layers);
  return best;
}

}  // namespace

TEST_CASE("PLC-2: the split is as good as an exhaustive search") {
  for (int64_t layers = 1; layers <= 10; ++layers)
    for (int64_t stages = 1; stages <= std::min<int64_t>(layers, 4); ++stages)
      for (const auto& costs : {stage_costs{1, 0, 0}, {1, 0, 2.5}, {1, 0.3, 0.6}, {2, 5, 0}}) {
        auto ranges = split_layers(layers, stages, costs);
        REQUIRE(ranges);
        std::vector<int64_t> counts;
        int64_t next = 0;
        for (auto r : *ranges) {
          CHECK(r.first == next);
          CHECK(r.last > r.first);
          counts.push_back(r.last - r.first);
          next = r.last;
        }
        CHECK(next == layers);
        CHECK(worst(counts, costs) == doctest::Approx(best_by_search(layers, stages, costs)));
      }
  CHECK(split_layers(2, 3, {}).error().code == errc::bad_config);
}

TEST_CASE("PLC-1, PLC-3: ranks cover the grid and fill nodes in order") {
  cluster_shape shape{{1, 2, 1}, 2, 2, 6, {}};
  auto ranks = place_ranks(shape);
  REQUIRE(ranks);
  std::set<std::pair<int64_t, int64_t>> seen;
  for (auto& r : *ranks) {
    CHECK(r.rank == r.pipeline_rank * 2 + r.data_rank);
    seen.insert({r.data_rank, r.pipeline_rank});
  }
  CHECK(seen.size() == 4);
  CHECK((*ranks)[0].node == 0);
  CHECK((*ranks)[1].node == 1);
  CHECK((*ranks)[2].node == 1);
  CHECK((*ranks)[3].node == 2);
  CHECK((*ranks)[3].layers == layer_range{3, 6});
  shape.workers = {1, 1};
  CHECK(place_ranks(shape).error().code == errc::bad_config);
}
