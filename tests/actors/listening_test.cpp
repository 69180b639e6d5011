// Addresses a coordinator could listen on, and those it could not.
#include "actors/cluster/listening.hpp"

#include <doctest/doctest.h>

#include "tests/errors.hpp"
#include "tests/loopback.hpp"

using namespace troupe;

TEST_CASE("listening: addresses of this machine are taken, others are refused by name") {
  CHECK(cluster::can_listen("127.0.0.1", 0));
  CHECK(cluster::can_listen("localhost", 0));
  CHECK(cluster::can_listen("0.0.0.0", 0));
  CHECK(cluster::can_listen("", 0));
  for (const char* other : {"192.0.2.7", "1.2.3"}) {
    CAPTURE(other);
    const auto refused = cluster::can_listen(other, 0);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::bad_config);
    CHECK(mentions(refused.error(), other));
  }
}

TEST_CASE("listening: a port that somebody has is unavailable, and free again when he is gone") {
  auto fd = loopback_listener();
  const auto port = port_of(fd);
  const auto refused = cluster::can_listen("127.0.0.1", port);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unavailable);
  fd.reset();
  CHECK(cluster::can_listen("127.0.0.1", port));
}
