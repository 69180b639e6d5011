// Others that come to a GPU, go, and come again: when it is one job's, and what is said of it.
#include "gpu/controls/sharing_policy.hpp"

#include <doctest/doctest.h>

using troupe::gpu::controls::sharing_policy;
using sharing_news = sharing_policy::news;

TEST_CASE("SHR-1: sharing: a device is shared at once, and one job's again behind a while") {
  sharing_policy p(10);
  CHECK_FALSE(p.is_shared());
  CHECK_FALSE(p.look(false, 1));
  CHECK(p.look(true, 2));
  CHECK(p.is_shared());
  CHECK_FALSE(p.look(true, 5));
  CHECK_FALSE(p.look(false, 14));  // nine behind the last that was found
  CHECK(p.is_shared());
  CHECK_FALSE(p.look(true, 14));  // which begins that anew
  CHECK_FALSE(p.look(false, 23));
  CHECK(p.look(false, 24));
  CHECK_FALSE(p.is_shared());
  CHECK_FALSE(p.look(false, 100));
}

TEST_CASE("SHR-2: sharing: whoever comes and goes again and again is told of once") {
  sharing_policy p(10);
  CHECK(p.take_news() == sharing_news::none);
  p.look(true, 1);
  CHECK(p.take_news() == sharing_news::shared);
  CHECK(p.take_news() == sharing_news::none);
  p.look(false, 20);
  CHECK(p.take_news() == sharing_news::alone);
  for (int i = 1; i < 5; ++i) {
    CHECK(p.look(true, 100 * i));
    CHECK(p.look(false, 100 * i + 50));
    CHECK(p.take_news() == sharing_news::none);
  }
}
