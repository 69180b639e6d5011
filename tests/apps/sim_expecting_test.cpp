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

TEST_CASE("sim: what is expected and learned of a rank takes no more than 4 KiB of a large job") {
  const rank_grid grid{256, 1, 8};
  const auto expecting = cost_of_expecting(grid, 48);  // normal is known after 35
  const auto learning = cost_of_learning(grid, 24);    // each rank is told of three times
  INFO(expecting.bytes_per_rank << " and " << learning.bytes_per_rank << " bytes a rank");
  CHECK(expecting.bytes_per_rank + learning.bytes_per_rank <= 4096);
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

TEST_CASE("sim: learning what parts of steps take is of some ranks a step, fits included") {
  const rank_grid grid{32, 1, 8};
  const auto cost = cost_of_learning(grid, 40);
  CHECK(cost.hear_s > 0);
  CHECK(cost.fit_s > 0);
  CHECK(cost.fits > 0);
  // Windows of eight steps, after the first three, of each part of each rank, and of the step.
  CHECK(cost.samples == 4 * (256 * 11 + 1));
  CHECK((cost.bytes_per_rank == 0 || cost.bytes_per_rank > 500));  // 0: a sanitizer's heap
  // Of twice as many ranks half are told of in a step: each has half as many windows.
  const auto twice = cost_of_learning({64, 1, 8}, 40);
  CHECK(twice.samples == cost.samples);
}

TEST_CASE("sim: what learning costs is told beside all else, and how much of it are fits") {
  const learning_cost cost{1, 0.5, 9000, 12, 2048};
  CHECK(learning_text(cost, 60) ==
        "learning what parts of steps take: 1.50 s of processor time beside 60.00 s (+2.5 %), "
        "0.50 s of it in 12 fits; 2.0 KiB a rank\n");
  const auto j = learning_json(cost, 60);
  CHECK(j["cpu_s"] == 1.5);
  CHECK(j["fit_s"] == 0.5);
  CHECK(j["fits"] == 12);
  CHECK(j["more_percent"] == doctest::Approx(2.5));
  CHECK(j["bytes_per_rank"] == 2048);
}
