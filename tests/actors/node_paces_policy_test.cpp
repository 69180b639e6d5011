// Which of what is known of a node counts, and what that rests on (NPC-1).
#include "actors/train/node_paces_policy.hpp"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::train;

namespace {

std::optional<io::perf::past_pace> past_of_node(double flops_s, double half = 0.1) {
  return io::perf::past_pace{"", {}, 1, false, flops_s, half, 1240, 9};
}

std::vector<double> flops_of_nodes(const std::vector<node_pace>& places) {
  std::vector<double> out;
  for (const auto& p : places) out.push_back(p.flops_s);
  return out;
}

using rates = std::vector<double>;
const std::vector<std::string> names_of_nodes{"a", "b", "c"};

}  // namespace

TEST_CASE("NPC-1: what runs before took outranks what nodes measure") {
  std::vector<node_pace> places{{4e9, 0}, {4e9, 0}, {0, 0}};
  const past_of_places past{past_of_node(2e9, 0.2), past_of_node(1e9), past_of_node(3e9)};
  outrank_by_past(places, past);
  CHECK(flops_of_nodes(places) == rates{2e9, 1e9, 3e9});
  CHECK(places[0].half == 0.2);
  for (const auto& p : places) CHECK(p.source == pace_source::past);
  CHECK(sources_text(places, past, names_of_nodes) ==
        "; from 1,240 steps of 9 runs on these nodes");
}

TEST_CASE("NPC-1: who is known by no run is as quick as it measured, by the ratio of the others") {
  std::vector<node_pace> places{{4e9, 0}, {8e9, 0}, {6e9, 0}};
  const past_of_places past{past_of_node(1e9), std::nullopt, past_of_node(1.5e9, 0.3)};
  outrank_by_past(places, past);
  CHECK(places[0].flops_s == 1e9);
  CHECK(places[1].flops_s == doctest::Approx(2e9));
  CHECK(places[1].source == pace_source::probe);
  CHECK(places[1].half > 0.3);
  CHECK(places[2].flops_s == 1.5e9);
  CHECK(sources_text(places, past, names_of_nodes) ==
        "; from 1,240 steps of 9 runs on the other nodes, and by the layer that b measured just "
        "now");
}

TEST_CASE("NPC-1: where nobody is known by both, everybody is as quick as it measured") {
  const std::vector<node_pace> measured{{0, 0}, {8e9, 0}, {6e9, 0}};
  auto places = measured;
  const past_of_places past{past_of_node(1e9), std::nullopt, std::nullopt};
  outrank_by_past(places, past);
  CHECK(flops_of_nodes(places) == flops_of_nodes(measured));
  CHECK(sources_text(places, past, names_of_nodes).empty());
  places = {{4e9, 0}, {8e9, 0}, {6e9, 0}};
  outrank_by_past(places, past_of_places(3));
  CHECK(flops_of_nodes(places) == rates{4e9, 8e9, 6e9});
  CHECK(sources_text(places, past_of_places(3), names_of_nodes).empty());
}
