// What is kept of the predictor's doubts, and for how long (DBT-1, DBT-2).
#include "actors/health/doubts_policy.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::health;
using train::pipeline_op;

TEST_CASE("DBT-1: doubts are of a rank's part, of the newest epoch, of ranks of the job") {
  doubts_policy p(2);
  p.hear(3, 1, pipeline_op::backward, {"b", 400, 390, 410});
  p.hear(3, 1, pipeline_op::backward, {"b", 401, 390, 410});
  p.hear(3, 0, pipeline_op::forward, {"a", 200, 190, 210});
  p.hear(3, 2, pipeline_op::forward, {"c", 200, 190, 210});
  p.hear(3, -1, pipeline_op::forward, {"c", 200, 190, 210});
  p.hear(3, 1, pipeline_op::count, {"b", 200, 190, 210});
  CHECK(p.count() == 2);
  REQUIRE(p.of(3, 1, pipeline_op::backward, "b") != nullptr);
  CHECK(p.of(3, 1, pipeline_op::backward, "b")->expected_ms == 401);
  CHECK(p.of(3, 1, pipeline_op::forward, "b") == nullptr);
  p.gone(3, 0, pipeline_op::forward);
  CHECK(p.count() == 1);
  p.hear(2, 0, pipeline_op::forward, {"a", 200, 190, 210});
  p.gone(2, 1, pipeline_op::backward);
  CHECK(p.count() == 1);
  p.hear(4, 0, pipeline_op::forward, {"a", 200, 190, 210});
  CHECK(p.count() == 1);
}

TEST_CASE("DBT-2: of a rank that is elsewhere by now, or in another epoch, nothing is said") {
  doubts_policy p(2);
  p.hear(3, 1, pipeline_op::backward, {"b", 400, 390, 410});
  CHECK(p.of(3, 1, pipeline_op::backward, "b") != nullptr);
  CHECK(p.of(3, 1, pipeline_op::backward, "c") == nullptr);
  CHECK(p.of(4, 1, pipeline_op::backward, "b") == nullptr);
}

TEST_CASE("DBT-1, DBT-2: doubts by probes are kept apart from those by what was learned") {
  doubts_policy p(2);
  CHECK_FALSE(p.has_beyond(0));
  p.hear(3, 1, pipeline_op::backward, {"b", 400, 390, 410});
  CHECK_FALSE(p.has_beyond(3));
  p.hear(3, 1, pipeline_op::backward, {"b", 45, 27, 120, 500, true});
  p.hear(3, 0, pipeline_op::update, {"a", 45, 27, 120, 600, true});
  CHECK(p.count() == 3);
  CHECK(p.of(3, 1, pipeline_op::backward, "b")->expected_ms == 400);
  CHECK(p.of(3, 0, pipeline_op::update, "a") == nullptr);
  CHECK(p.has_beyond(3));
  CHECK_FALSE(p.has_beyond(4));
  const std::vector<std::string> nodes{"a", "b"}, moved{"b", "c"}, fewer{"a"};
  const auto all = p.beyond(3, nodes);
  REQUIRE(all.size() == 2);
  CHECK(all[0].rank == 0);
  CHECK(all[1].part == pipeline_op::backward);
  CHECK(all[1].is.seen_ms == 500);
  CHECK(p.beyond(4, nodes).empty());
  CHECK(p.beyond(3, moved).empty());
  CHECK(p.beyond(3, fewer).size() == 1);
  p.gone(3, 1, pipeline_op::backward);
  CHECK(p.of(3, 1, pipeline_op::backward, "b") == nullptr);
  CHECK(p.beyond(3, nodes).size() == 2);
  p.gone(3, 1, pipeline_op::backward, true);
  CHECK(p.beyond(3, nodes).size() == 1);
}

TEST_CASE("DBT-3: doubts by probes are let go alone, where nobody is there to take them back") {
  doubts_policy p(2);
  p.hear(3, 1, pipeline_op::backward, {"b", 400, 390, 410});
  p.hear(3, 1, pipeline_op::backward, {"b", 45, 27, 120, 500, true});
  p.drop_beyond();
  CHECK_FALSE(p.has_beyond(3));
  CHECK(p.of(3, 1, pipeline_op::backward, "b") != nullptr);
}
