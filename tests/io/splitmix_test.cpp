// Against the numbers of its authors' program.
#include "io/base/splitmix.hpp"

#include <doctest/doctest.h>

using namespace troupe;

TEST_CASE("splitmix: the numbers are those of the generator that was published") {
  CHECK(splitmix(0) == 0xe220a8397b1dcdaf);
  CHECK(splitmix(splitmix_step) == 0x6e789e6aa1b965f4);
  CHECK(splitmix(2 * splitmix_step) == 0x06c45d188009454f);
  CHECK(mix_bits(0) == 0);
}
