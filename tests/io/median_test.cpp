// The value in the middle, of odd and even counts, and of nothing.
#include "io/base/median.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <span>
#include <vector>

using namespace troupe;

TEST_CASE("median: of an even count the upper of two, or the mean of both, and 0 of nothing") {
  CHECK(upper_median(std::vector<double>{}) == 0);
  CHECK(median(std::vector<double>{}) == 0);
  CHECK(upper_median(std::vector<float>{3}) == 3);
  CHECK(median(std::vector<double>{3}) == 3);
  CHECK(upper_median(std::vector<double>{5, 1, 9}) == 5);
  CHECK(median(std::vector<double>{5, 1, 9}) == 5);
  CHECK(upper_median(std::deque<double>{7, 1, 9, 3}) == 7);
  CHECK(median(std::vector<double>{7, 1, 9, 3}) == 5);
  CHECK(median(std::vector<double>{2, 2, 2, 8}) == 2);
}

TEST_CASE("median: of a span without a copy of it") {
  std::vector<double> values{4, 8, 6, 100};
  CHECK(upper_median(std::span(values).first(3)) == 6);
  CHECK(values[3] == 100);
}
