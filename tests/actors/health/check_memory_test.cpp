// How much of what is left of memory checks take.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/health/checks.hpp"

using namespace troupe;
using namespace troupe::health;

namespace {

constexpr uint64_t mib = uint64_t{1} << 20;

/// Both checks of memory where so much is left, asked once more at each look.
struct with_left {
  std::map<std::string, fbs::CheckResultT> found;
  size_t most_held = 0;

  with_left(bool deep, std::function<std::optional<uint64_t>()> left) {
    checkup_options options;
    options.memory_left = std::move(left);
    options.spoil_memory = [this](std::span<uint64_t> words) {
      most_held = std::max(most_held, words.size_bytes());
    };
    std::stop_source stop;
    if (deep) stop.request_stop();  // one round of each
    checkup_under_way c{deep, options, stop.get_token()};
    check_memory_pattern(c);
    check_memory_bandwidth(c);
    for (const auto& r : c.results) found[r->check] = *r;
  }
};

}  // namespace

TEST_CASE("EXM-4: checks of memory take an eighth of what is left at most, and say what they had") {
  const with_left some(false, [] { return std::optional(24 * mib); });
  CHECK(some.most_held == 3 * mib);
  CHECK(some.found.at("memory_pattern").part == "3 MiB");
  CHECK(some.found.at("memory_pattern").seen == 0);
  CHECK(some.found.at("memory_bandwidth").seen == -1);  // a cache would hold that
  CHECK_FALSE(some.found.at("memory_bandwidth").text.empty());
  const with_left none(true, [] { return std::optional(7 * mib); });
  CHECK(none.most_held == 0);
  for (const auto& [name, c] : none.found) {
    CAPTURE(name);
    CHECK(c.seen == -1);
    CHECK_FALSE(c.text.empty());
  }
}

TEST_CASE("EXM-4: what others take meanwhile is not taken from them") {
  uint64_t left = 4096 * mib;
  const with_left shrinking(true, [&left] {
    const auto now = left;
    if (left > 1024 * mib) left -= 600 * mib;
    return std::optional(now);
  });
  CHECK(shrinking.found.at("memory_pattern").part == "48 MiB");
  CHECK(shrinking.found.at("memory_pattern").seen == 0);
}
