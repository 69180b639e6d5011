// The best split of a model over nodes of unequal speed and memory, against all splits there are.
#include "actors/job/stage_split_policy.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::train;

namespace {

/// Of `layers` equal layers, for nodes of kinds that need so long for one.
split_question equal_layers(size_t layers, std::vector<double> layer_s, std::vector<size_t> nodes,
                            size_t stages) {
  split_question q;
  for (size_t k = 0; k < layer_s.size(); ++k)
    q.kinds.push_back({"kind" + std::to_string(k), std::vector<double>(layers, layer_s[k])});
  q.nodes = std::move(nodes);
  q.slots.assign(stages, 1);
  q.layer_bytes.assign(layers, 1);
  q.layer_slot_bytes.assign(layers, 0);
  return q;
}

/// What a split costs by the question's words alone: the slowest stage, and all together.
struct split_cost {
  double slowest = 0, sum = 0;
  bool operator<(const split_cost& o) const {
    return slowest != o.slowest ? slowest < o.slowest : sum < o.sum;
  }
};
std::optional<split_cost> cost_of_split(const split_question& q, const std::vector<int64_t>& layers,
                                        const std::vector<size_t>& kinds) {
  split_cost out;
  const size_t each = kinds.size() / layers.size();
  size_t first = 0;
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    const size_t last = first + static_cast<size_t>(layers[stage]);
    double slowest = 0;
    for (size_t i = stage * each; i < (stage + 1) * each; ++i) {
      const auto& kind = q.kinds[kinds[i]];
      double seconds = (first == 0 ? kind.embedding_s : 0);
      uint64_t bytes = first == 0 ? q.embedding_bytes : 0;
      if (last == q.layer_bytes.size()) seconds += kind.head_s, bytes += q.head_bytes;
      for (size_t l = first; l < last; ++l) {
        seconds += kind.layer_s[l];
        bytes += q.layer_bytes[l] + static_cast<uint64_t>(q.slots[stage]) * q.layer_slot_bytes[l];
      }
      if (kind.memory_bytes != 0 && bytes > kind.memory_bytes) return std::nullopt;
      slowest = std::max(slowest, seconds);
    }
    out.slowest = std::max(out.slowest, slowest);
    out.sum += slowest;
    first = last;
  }
  return out;
}

/// The best of all splits and all orders of the nodes.
std::optional<split_cost> best_of_all(const split_question& q) {
  std::optional<split_cost> best;
  auto kinds = q.nodes;
  std::sort(kinds.begin(), kinds.end());
  do {
    std::vector<int64_t> layers(q.slots.size(), 1);
    const auto put = [&](auto& self, size_t stage, int64_t left) -> void {
      if (stage + 1 == layers.size()) {
        layers[stage] = left;
        const auto cost = cost_of_split(q, layers, kinds);
        if (cost && (!best || *cost < *best)) best = cost;
        return;
      }
      const auto others = static_cast<int64_t>(layers.size() - stage - 1);
      for (layers[stage] = 1; layers[stage] <= left - others; ++layers[stage])
        self(self, stage + 1, left - layers[stage]);
    };
    put(put, 0, std::ssize(q.layer_bytes));
  } while (std::next_permutation(kinds.begin(), kinds.end()));
  return best;
}

/// Small, of whole seconds, so that sums are exact.
split_question drawn_question(std::mt19937& chance) {
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(chance);
  };
  split_question q;
  const size_t layers = 1 + below(7), stages = 1 + below(std::min<size_t>(layers, 4));
  const size_t kinds = 1 + below(3), each = stages > 3 ? 1 : 1 + below(2);
  const bool tight = below(2) == 0;
  for (size_t k = 0; k < kinds; ++k) {
    node_kind kind{"k", {}, static_cast<double>(below(4)), static_cast<double>(below(9)), 0};
    for (size_t l = 0; l < layers; ++l) kind.layer_s.push_back(static_cast<double>(below(9)));
    if (tight) kind.memory_bytes = 5 + below(60);
    q.kinds.push_back(std::move(kind));
  }
  for (size_t i = 0; i < stages * each; ++i) q.nodes.push_back(below(kinds));
  for (size_t s = 0; s < stages; ++s) q.slots.push_back(static_cast<int64_t>(stages - s));
  for (size_t l = 0; l < layers; ++l) {
    q.layer_bytes.push_back(1 + below(9));
    q.layer_slot_bytes.push_back(below(4));
  }
  q.embedding_bytes = below(9);
  q.head_bytes = below(9);
  return q;
}

}  // namespace

TEST_CASE("CUT-3: no split of thousands of small questions is better than the one found") {
  std::mt19937 chance(19);
  size_t without_room = 0, moved = 0;
  for (int i = 0; i < 4000; ++i) {
    CAPTURE(i);
    const auto q = drawn_question(chance);
    const auto best = best_of_all(q);
    const auto found = best_split(q);
    REQUIRE(found.has_value() == best.has_value());
    if (!found) {
      CHECK(found.error().is(no_split_fits));
      ++without_room;
      continue;
    }
    // CUT-1
    REQUIRE(found->layers.size() == q.slots.size());
    CHECK(*std::min_element(found->layers.begin(), found->layers.end()) >= 1);
    CHECK(std::accumulate(found->layers.begin(), found->layers.end(), int64_t{0}) ==
          std::ssize(q.layer_bytes));
    CHECK(std::set<size_t>(found->nodes.begin(), found->nodes.end()).size() == q.nodes.size());
    std::vector<size_t> kinds;
    for (const auto n : found->nodes) kinds.push_back(q.nodes[n]);
    // CUT-2, CUT-3
    const auto cost = cost_of_split(q, found->layers, kinds);
    REQUIRE(cost);
    CHECK(cost->slowest == best->slowest);
    CHECK(cost->sum == best->sum);
    CHECK(found->slowest_s == cost->slowest);
    moved += std::is_sorted(found->nodes.begin(), found->nodes.end()) ? 0 : 1;
  }
  CHECK(without_room > 100);
  CHECK(without_room < 3000);
  CHECK(moved > 100);
}

TEST_CASE("split: a node half as quick has half the layers, and its replicas wait for it") {
  auto q = equal_layers(12, {1, 2}, {0, 1}, 2);
  q.layers_now = {6, 6};
  const auto found = best_split(q);
  REQUIRE(found);
  CHECK(found->layers == std::vector<int64_t>{8, 4});
  CHECK(found->slowest_s == 8);
  CHECK(found->now_s == 12);
  CHECK(found->stage_s == std::vector<double>{8, 8});
  CHECK(found->reason.find("8,4") != std::string::npos);
  CHECK(found->reason.find("6,6") != std::string::npos);
  // Two slow ones of four nodes are best in one stage, though they stand in two.
  const auto together = best_split(equal_layers(12, {1, 2}, {0, 1, 0, 1}, 2));
  REQUIRE(together);
  CHECK(together->slowest_s == 8);
  CHECK(together->nodes == std::vector<size_t>{0, 2, 1, 3});
}

TEST_CASE("split: the head's time counts as layers, and nodes stay where nothing is gained") {
  auto q = equal_layers(12, {1}, {0, 0}, 2);
  q.kinds[0].head_s = 4;
  const auto found = best_split(q);
  REQUIRE(found);
  CHECK(found->layers == std::vector<int64_t>{8, 4});
  CHECK(found->nodes == std::vector<size_t>{0, 1});
  // Kinds of one speed: no reason to move.
  const auto same = best_split(equal_layers(8, {1, 1}, {1, 0, 1, 0}, 4));
  REQUIRE(same);
  CHECK(same->nodes == std::vector<size_t>{0, 1, 2, 3});
}

TEST_CASE("CUT-2: a quick node without memory has what it has room for") {
  auto q = equal_layers(12, {1, 10}, {0, 1}, 2);
  q.kinds[0].memory_bytes = 3;
  const auto found = best_split(q);
  REQUIRE(found);
  CHECK(std::min(found->layers[0], found->layers[1]) == 3);
  CHECK(found->slowest_s == 90);
  q.slots = {2, 1};  // activations of two micro-batches in the first stage
  q.layer_slot_bytes.assign(12, 1);
  const auto slots = best_split(q);
  REQUIRE(slots);
  CHECK(slots->slowest_s == 110);  // one layer as stage 0 or 1: 1 + 2 x 1 = 3, 1 + 1 = 2
  q.kinds[1].memory_bytes = 3;
  const auto none = best_split(q);
  REQUIRE_FALSE(none);
  CHECK(none.error().is(no_split_fits));
  CHECK(none.error().code == errc::no_memory);
  CHECK(slowest_stage_s(q, {6, 6}) == 0);
}

TEST_CASE("split: what is large and alike is found, what has too many ways is refused") {
  std::vector<size_t> nodes(64);
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = i % 2;
  const auto two_kinds = best_split(equal_layers(126, {1, 2}, nodes, 64));
  REQUIRE(two_kinds);
  // 32 quick ones with three layers would leave 30 for 32 slow ones, which need one each.
  CHECK(two_kinds->slowest_s == 3);
  const auto alike = best_split(equal_layers(500, {1}, std::vector<size_t>(256, 0), 32));
  REQUIRE(alike);
  CHECK(alike->slowest_s == 16);
  std::vector<double> speeds(64, 1);
  std::iota(nodes.begin(), nodes.end(), size_t{0});
  const auto all_different = best_split(equal_layers(126, speeds, nodes, 16));
  REQUIRE_FALSE(all_different);
  CHECK(all_different.error().is(split_too_large));
}

TEST_CASE("CUT-3: where nodes stay, it is the best split of those that leave them where they are") {
  auto q = equal_layers(8, {1, 3}, {1, 0}, 2);
  const auto may_move = best_split(q);
  q.nodes_stay = true;
  const auto stays = best_split(q);
  REQUIRE(may_move);
  REQUIRE(stays);
  CHECK(stays->nodes == std::vector<size_t>{0, 1});
  CHECK(stays->layers == std::vector<int64_t>{2, 6});
  CHECK(stays->slowest_s == 6);
  CHECK(may_move->slowest_s <= stays->slowest_s);
  q.kinds[0].head_s = 1;
  q.kinds[1].head_s = 3;  // which the quick one would have if they changed places
  q.nodes = {0, 1};
  const auto with_head = best_split(q);
  REQUIRE(with_head);
  CHECK(with_head->nodes == std::vector<size_t>{0, 1});
  q.nodes_stay = false;
  const auto moved = best_split(q);
  REQUIRE(moved);
  CHECK(moved->slowest_s <= with_head->slowest_s);
}

TEST_CASE("CUT-3: where nodes stay, stages of nodes that all differ are no more work to split") {
  const auto all_differ = [](size_t layers, size_t stages, double slow) {
    std::vector<double> speeds;
    std::vector<size_t> nodes;
    for (size_t i = 0; i < stages; ++i) {
      speeds.push_back(i % 2 == 0 ? 1 : slow);
      nodes.push_back(i);
    }
    auto q = equal_layers(layers, speeds, nodes, stages);
    q.nodes_stay = true;
    return q;
  };
  const auto halves = best_split(all_differ(32, 16, 3));
  REQUIRE(halves);
  CHECK(halves->slowest_s == 3);
  for (size_t stage = 0; stage < 16; ++stage)
    CHECK(halves->layers[stage] == (stage % 2 == 0 ? 3 : 1));
  const auto many = best_split(all_differ(126, 64, 1));  // of more kinds than a word has bits
  REQUIRE(many);
  CHECK(many->slowest_s == 2);
  CHECK(std::accumulate(many->layers.begin(), many->layers.end(), int64_t{0}) == 126);
  // With replicas, which all differ, too.
  std::vector<double> speeds(32, 1);
  std::vector<size_t> nodes(32);
  std::iota(nodes.begin(), nodes.end(), size_t{0});
  speeds[3] = 2;
  auto q = equal_layers(33, speeds, nodes, 16);
  q.nodes_stay = true;
  const auto pairs = best_split(q);
  REQUIRE(pairs);
  CHECK(pairs->slowest_s == 3);
  CHECK(pairs->layers[1] == 1);
}
