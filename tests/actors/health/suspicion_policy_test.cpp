// Whose machine is examined, when, and what stays of it.
#include "actors/health/suspicion_policy.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/actors/health/seconds.hpp"

using namespace troupe;
using namespace troupe::health;

namespace {

constexpr int64_t suspicion_s = troupe::health::test::s;
constexpr int64_t pause_s = 600;

finding accusing(const std::string& node, finding_name name = finding_name::straggler) {
  return {{name, node, 1}, {}, 0};
}

struct suspicions {
  suspicion_policy policy{pause_s * suspicion_s};
  suspicion_policy::surroundings around{true, false};

  void raise(const std::string& node, int64_t at_s,
             finding_name name = finding_name::straggler) {
    policy.raised({accusing(node, name)}, at_s * suspicion_s);
  }
  /// Who is examined; "" nobody.
  std::string begin(int64_t at_s) {
    const auto who = policy.begin(around, at_s * suspicion_s);
    return who ? who->node : "";
  }
  std::string examine(int64_t at_s, const std::string& text = "well") {
    const auto who = policy.begin(around, at_s * suspicion_s);
    if (who) policy.over(*who, text, at_s * suspicion_s);
    return who ? who->node : "";
  }
};

}  // namespace

TEST_CASE("suspicion: findings that can have their reason in a machine accuse it, others do not") {
  size_t accuse = 0;
  for (size_t i = 0; i < finding_table.size(); ++i) {
    suspicions s;
    const auto name = static_cast<finding_name>(i);
    CAPTURE(facts_of(name).name);
    s.raise("a", 0, name);
    CHECK((s.begin(0) == "a") == suspicion_policy::accuses(name));
    accuse += suspicion_policy::accuses(name);
  }
  CHECK(accuse == 5);
  suspicions s;
  s.raise("", 0);
  CHECK(s.begin(0).empty());
}

TEST_CASE("SUS-1: one examination at a time, the longest suspected first") {
  suspicions s;
  s.raise("b", 0);
  s.raise("a", 1);
  CHECK(s.begin(2) == "b");
  CHECK(s.begin(3).empty());
  s.policy.over(accusing("b").who, "well", 4 * suspicion_s);
  CHECK(s.begin(4) == "a");
  CHECK(s.policy.begun() == 2);
}

TEST_CASE("SUS-1: a node once within the pause, whatever accuses it") {
  suspicions s;
  s.raise("a", 0);
  CHECK(s.examine(0) == "a");
  s.raise("a", 1, finding_name::disk_slow);
  CHECK(s.examine(1).empty());
  CHECK(s.examine(pause_s - 1).empty());
  CHECK(s.examine(pause_s) == "a");
}

TEST_CASE("SUS-1: in all so many in an hour") {
  suspicions s;
  for (size_t i = 0; i < suspicion_policy::most_per_hour; ++i) {
    const auto node = fmt::format("n{}", i);
    s.raise(node, static_cast<int64_t>(i));
    CHECK(s.examine(static_cast<int64_t>(i)) == node);
  }
  s.raise("more", 3'500);
  CHECK(s.examine(3'599).empty());
  CHECK(s.examine(3'600) == "more");
}

TEST_CASE("SUS-2: none begins but while steps are made and no checkpoint is written") {
  suspicions s;
  s.raise("a", 0);
  s.around.steps = false;
  CHECK(s.examine(1).empty());
  s.around = {true, true};
  CHECK(s.examine(2).empty());
  s.around = {true, false};
  CHECK(s.examine(3) == "a");
}

TEST_CASE("SUS-3: who is not heard is asked once it is heard again, and is forgotten at last") {
  suspicions s;
  s.raise("a", 0, finding_name::frozen_process);
  s.raise("b", 1);
  s.around.unheard = {"a"};
  CHECK(s.examine(2) == "b");
  CHECK(s.examine(3).empty());
  s.around.unheard = {};
  CHECK(s.examine(4) == "a");
  s.raise("c", 10);
  s.around.unheard = {"c"};
  CHECK(s.examine(10 + pause_s).empty());
  s.around.unheard = {};
  CHECK(s.examine(11 + pause_s).empty());
}

TEST_CASE("suspicion: what was shown stands in findings that accuse the node, for the pause") {
  suspicions s;
  s.raise("a", 0);
  CHECK(s.examine(0, "memory is slow: bad") == "a");
  const auto text = [&](const std::string& node, finding_name name, int64_t at_s) {
    return s.policy.text_for({name, node}, at_s * suspicion_s);
  };
  CHECK(text("a", finding_name::straggler, 1) == "memory is slow: bad");
  CHECK(text("a", finding_name::disk_slow, pause_s - 1) == "memory is slow: bad");
  CHECK(text("a", finding_name::disk_slow, pause_s).empty());
  CHECK(text("a", finding_name::clock_jump, 1).empty());
  CHECK(text("b", finding_name::straggler, 1).empty());
}

TEST_CASE("suspicion: suspects are bounded") {
  suspicions s;
  s.around.steps = false;
  for (size_t i = 0; i < suspicion_policy::most_suspects + 1; ++i)
    s.raise(fmt::format("n{}", i), 0);
  s.around.steps = true;
  // The hour's budget hides those behind it: the last one is none even when all others are out.
  s.around.unheard.clear();
  for (size_t i = 0; i < suspicion_policy::most_suspects; ++i)
    s.around.unheard.insert(fmt::format("n{}", i));
  CHECK(s.examine(1).empty());
  s.around.unheard.erase("n255");
  CHECK(s.examine(1) == "n255");
}
