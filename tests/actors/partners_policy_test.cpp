// Whom a node is told of: its ranks' neighbours and its host's loader, in clusters of any size.
#include "actors/cluster/partners_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using cluster::partners_of;

namespace {

/// `ranks_per_node` ranks on each node, in order.
train::job_plan plan_of_grid(int data, int pipeline, int ranks_per_node) {
  train::job_plan plan;
  const rank_grid grid(data, 1, pipeline);
  for (int rank = 0; rank < data * pipeline; ++rank)
    plan.ranks.push_back({{grid, rank}, rank / ranks_per_node, {}});
  return plan;
}

}  // namespace

TEST_CASE("CRD-9: partners are the neighbours in the pipeline, from both ends") {
  const auto all = partners_of(plan_of_grid(2, 3, 1), {});
  using set = std::set<uint32_t>;
  CHECK(all.at(0) == set{2});
  CHECK(all.at(1) == set{3});
  CHECK(all.at(2) == set{0, 4});
  CHECK(all.at(3) == set{1, 5});
  CHECK(all.at(4) == set{2});
  CHECK(all.at(5) == set{3});
}

TEST_CASE("CRD-9: a loader and the stages it serves are partners, a node is none of its own") {
  const auto all = partners_of(plan_of_grid(4, 1, 1), {{1, {0, 1, 3}}});
  using set = std::set<uint32_t>;
  CHECK(all.at(1) == set{0, 3});
  CHECK(all.at(0) == set{1});
  CHECK(all.at(3) == set{1});
  CHECK_FALSE(all.contains(2));  // replicas do not talk
  CHECK(partners_of(plan_of_grid(2, 2, 4), {{0, {0, 1}}}).empty());
}

TEST_CASE("CRD-9: in a cluster of 12,288 ranks no node is told of more than a few") {
  const auto all = partners_of(plan_of_grid(1536, 8, 8), {});
  CHECK(all.size() == 1536);
  for (const auto& [node, partners] : all) CHECK(partners.size() <= 2);
}
