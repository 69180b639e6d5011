// How often a file is told how far something has come.
#include "apps/up/progress_pace.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace troupe::apps;

TEST_CASE("progress: of what is told every two seconds a file has the first, and one in 30 s") {
  progress_pace pace;
  std::vector<int64_t> told_s;
  for (int64_t s = 7; s <= 100; s += 2)
    if (pace.tells(s * 1'000'000'000)) told_s.push_back(s);
  CHECK(told_s == std::vector<int64_t>{7, 37, 67, 97});
}
