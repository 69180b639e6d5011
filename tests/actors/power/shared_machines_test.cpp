// Whose part of a machine's draw is whose.
#include "actors/power/shared_machines.hpp"

#include <doctest/doctest.h>

#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

using shares = std::map<std::string, double>;

shared_machines heard(const std::vector<machine_loads>& all, size_t silent = 99) {
  shared_machines out(all.size());
  for (size_t i = 0; i < all.size(); ++i) out.hear(i, all[i]);
  out.settle([&](size_t child) { return child == silent; });
  return out;
}

}  // namespace

TEST_CASE("SHM-1: what a machine draws is divided by the processor time that children use there") {
  const auto m = heard({{{"boot0", 1.5}}, {{"boot0", 0.5}, {"boot1", 2}}, {{"boot2", 1}}});
  CHECK(m.shares_of(0) == shares{{"boot0", 0.75}});
  CHECK(m.shares_of(1) == shares{{"boot0", 0.25}});  // boot1 is its own
  CHECK(m.shares_of(2).empty());
}

TEST_CASE("SHM-1: where nobody works, or it is not known who does, all have the same") {
  CHECK(heard({{{"boot0", 0}}, {{"boot0", 0}}}).shares_of(1) == shares{{"boot0", 0.5}});
  const auto m = heard({{{"boot0", 4}}, {{"boot0", -1}}});
  CHECK(m.shares_of(0) == shares{{"boot0", 0.5}});
  CHECK(m.shares_of(1) == shares{{"boot0", 0.5}});
}

TEST_CASE("SHM-2: who is silent has no share, and who has left a machine none of that") {
  auto m = heard({{{"boot0", 1}}, {{"boot0", 1}}, {{"boot0", 2}}}, 2);
  CHECK(m.shares_of(0) == shares{{"boot0", 0.5}});
  CHECK(m.shares_of(2).empty());
  m.hear(1, {{"boot1", 1}});
  CHECK(m.shares_of(0) == shares{{"boot0", 0.5}});  // before the tick
  m.settle([](size_t) { return false; });
  CHECK(m.shares_of(0) == shares{{"boot0", 1.0 / 3}});
  CHECK(m.shares_of(1).empty());
}

TEST_CASE("SHM-1: the shares of each machine are 1 together, whatever children say") {
  sim::rng random(11);
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    std::vector<machine_loads> all(2 + random.below(6));
    std::map<std::string, size_t> on;
    for (auto& loads : all)
      for (uint64_t i = 0, n = random.below(4); i < n; ++i) {
        const auto machine = "boot" + std::to_string(random.below(3));
        if (loads.emplace(machine, random.chance(0.1) ? -1 : random.unit() * 2).second)
          ++on[machine];
      }
    const auto m = heard(all);
    shares sums;
    for (size_t i = 0; i < all.size(); ++i)
      for (const auto& [machine, share] : m.shares_of(i)) {
        CHECK(share >= 0);
        sums[machine] += share;
      }
    for (const auto& [machine, children] : on) {
      if (children > 1)
        CHECK(sums[machine] == doctest::Approx(1));
      else
        CHECK(!sums.contains(machine));
    }
  }
}
