// Others that come to a GPU, go, and come again: when it is one job's, and what is said of it.
#include "gpu/controls/sharing_policy.hpp"

#include <doctest/doctest.h>

using troupe::gpu::controls::sharing_policy;
using sharing_news = sharing_policy::news;

TEST_CASE("SHR-1: sharing: a device is shared at once, and one job's again behind a while") {
  sharing_policy p(10);
  CHECK_FALSE(p.is_shared());
  CHECK_FALSE(p.look(0, 1));
  CHECK(p.look(1, 2));
  CHECK(p.is_shared());
  CHECK_FALSE(p.look(1, 5));
  CHECK_FALSE(p.look(0, 14));  // nine behind the last that was found
  CHECK(p.is_shared());
  CHECK_FALSE(p.look(1, 14));  // which begins that anew
  CHECK_FALSE(p.look(0, 23));
  CHECK(p.look(0, 24));
  CHECK_FALSE(p.is_shared());
  CHECK_FALSE(p.look(0, 100));
}

TEST_CASE("sharing: as many share it as were found last, until it is one job's again") {
  sharing_policy p(10);
  CHECK(p.others() == 0);
  p.look(3, 1);
  CHECK(p.others() == 3);
  p.look(2, 2);
  CHECK(p.others() == 2);
  p.look(0, 5);
  CHECK(p.others() == 2);
  p.look(0, 12);
  CHECK(p.others() == 0);
}

TEST_CASE("SHR-2: sharing: whoever comes and goes again and again is told of once") {
  sharing_policy p(10);
  CHECK(p.take_news() == sharing_news::none);
  p.look(1, 1);
  CHECK(p.take_news() == sharing_news::shared);
  CHECK(p.take_news() == sharing_news::none);
  p.look(0, 20);
  CHECK(p.take_news() == sharing_news::alone);
  for (int i = 1; i < 5; ++i) {
    CHECK(p.look(1, 100 * i));
    CHECK(p.look(0, 100 * i + 50));
    CHECK(p.take_news() == sharing_news::none);
  }
}
