// When a drive is told to have become slow.
#include "apps/up/slow_drive_policy.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::apps;

namespace {

/// A step with a limit of 1 s that reads 3 GB and writes 2.
report::swap_traffic traffic_bound(std::string bound_by = "disk", double limit_ms = 1000) {
  report::swap_traffic out;
  out.read_bytes = 3'000'000'000;
  out.written_bytes = 2'000'000'000;
  out.limit_ms = limit_ms;
  out.bound_by = std::move(bound_by);
  return out;
}

/// In which of these steps, by how many times the limit each took, something is said.
std::vector<int> told_behind(const std::vector<double>& times) {
  slow_drive_policy policy;
  std::vector<int> out;
  for (size_t i = 0; i < times.size(); ++i)
    if (policy.stepped(traffic_bound(), times[i] * 1000)) out.push_back(static_cast<int>(i));
  return out;
}

}  // namespace

TEST_CASE("SDR-1: a slow drive is told behind two slow steps, again behind two good ones") {
  using steps = std::vector<int>;
  CHECK(told_behind({1.1, 1.4, 1.9, 1.0}) == steps{});
  CHECK(told_behind({4, 1, 4, 1, 4}) == steps{});
  CHECK(told_behind({4, 7, 6, 5}) == steps{1});
  CHECK(told_behind({1, 4, 7, 1, 6, 5}) == steps{2});
  CHECK(told_behind({4, 7, 1, 1, 6, 5, 4}) == steps{1, 5});
}

TEST_CASE("SDR-1: what is said of a slow drive has its rates") {
  slow_drive_policy policy;
  CHECK_FALSE(policy.stepped(traffic_bound(), 4000));
  const auto said = policy.stepped(traffic_bound(), 10'000);
  REQUIRE(said);
  CHECK(said->find("10.0 times") != std::string::npos);
  CHECK(said->find("0.30 GB/s are read and 0.20 written") != std::string::npos);
}

TEST_CASE("SDR-2: steps that the drive does not bound say nothing of it") {
  slow_drive_policy policy;
  for (int i = 0; i < 4; ++i) {
    CHECK_FALSE(policy.stepped(traffic_bound("products"), 9000));
    CHECK_FALSE(policy.stepped(traffic_bound("disk", 0), 9000));
  }
  CHECK_FALSE(policy.stepped(traffic_bound(), 9000));
  CHECK_FALSE(policy.stepped(traffic_bound("products"), 9000));
  CHECK(policy.stepped(traffic_bound(), 9000));
}
