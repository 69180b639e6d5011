// What `troupe sim --scale` says of expecting parts of steps.
#include "apps/sim_expecting.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace troupe;
using namespace troupe::apps;

TEST_CASE("sim: expecting parts of steps takes some memory of each rank, and no more than 4 KiB") {
  const rank_grid grid{32, 1, 8};
  const auto cost = cost_of_expecting(grid, 60);
  CHECK(cost.cpu_s > 0);
  CHECK((cost.bytes_per_rank == 0 || cost.bytes_per_rank > 500));  // 0: a sanitizer's heap
  CHECK(cost.bytes_per_rank <= 4096);
}

TEST_CASE("sim: what expecting parts of steps costs is told beside all else") {
  const expecting_cost cost{1.5, 3072};
  CHECK(expecting_text(cost, 60) ==
        "expecting what parts of steps take: 1.50 s of processor time beside 60.00 s (+2.5 %), "
        "3.0 KiB a rank\n");
  const auto j = expecting_json(cost, 60);
  CHECK(j["cpu_s"] == 1.5);
  CHECK(j["cpu_s_without"] == 60.0);
  CHECK(j["more_percent"] == doctest::Approx(2.5));
  CHECK(j["bytes_per_rank"] == 3072);
}
