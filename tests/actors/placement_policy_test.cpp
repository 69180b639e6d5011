// Ranks: every coordinate once, nodes filled in order.
#include "actors/job/placement_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::train;

TEST_CASE("PLC-1, PLC-2: ranks cover the grid and fill nodes in order") {
  cluster_shape shape{{1, 2, 1}, {2, 1, 2}, {{0, 3}, {3, 6}}};
  auto ranks = place_ranks(shape);
  REQUIRE(ranks);
  REQUIRE(ranks->size() == 4);
  for (int r = 0; r < 4; ++r) {
    CHECK((*ranks)[static_cast<size_t>(r)].at.rank == r);
    CHECK((*ranks)[static_cast<size_t>(r)].at.grid == shape.grid);
  }
  CHECK((*ranks)[1].layers == layer_range{0, 3});
  CHECK((*ranks)[2].layers == layer_range{3, 6});
  CHECK((*ranks)[0].node == 0);
  CHECK((*ranks)[1].node == 1);
  CHECK((*ranks)[2].node == 1);
  CHECK((*ranks)[3].node == 2);
  CHECK((*ranks)[3].layers == layer_range{3, 6});
  shape.workers = {1, 1};
  CHECK(place_ranks(shape).error().code == errc::bad_config);
}
