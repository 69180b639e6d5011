// What a machine reached before counts where it is slower for a moment.
#include "apps/swap/rates.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/io/scratch.hpp"

using namespace troupe;
using apps::swap::best_so_far;
using apps::swap::paces;

TEST_CASE("swap: of one layer's paces the best so far counts, each by itself") {
  scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const paces first{60e9, 1e9, "gpt2 2048"};
  CHECK(best_so_far(first, store).flops_s == 60e9);
  const auto starved = best_so_far({20e9, 2e9, "gpt2 2048"}, store);
  CHECK(starved.flops_s == 60e9);
  CHECK(starved.updates_s == 2e9);
  CHECK(best_so_far({10e9, 1e9, "gpt2 2048"}, store).updates_s == 2e9);
  const auto other = best_so_far({20e9, 1e9, "gpt2 768"}, store);  // of another layer
  CHECK(other.flops_s == 20e9);
  CHECK(other.updates_s == 1e9);
}

TEST_CASE("swap: a kept pace that cannot be is not believed") {
  scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  for (const nlohmann::json& wrong : {nlohmann::json(1e30), nlohmann::json("fast")}) {
    store.keep("swap-paces", {{"of", "a"}, {"flops_s", wrong}, {"updates_s", wrong}});
    const auto told = best_so_far({20e9, 1e9, "a"}, store);
    CHECK(told.flops_s == 20e9);
    CHECK(told.updates_s == 1e9);
  }
  store.keep("swap-paces", nlohmann::json::array({1, 2}));
  CHECK(best_so_far({20e9, 1e9, "a"}, store).flops_s == 20e9);
}
