// Which checkpoint is copied next, by tables of what is committed and what ends when.
#include "actors/checkpoint/copy_policy.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace troupe;
using namespace troupe::checkpoint;

namespace {

copy_policy::load load_at(uint64_t step) {
  return {step, fmt::format("/first/{}", step)};
}

/// The step that begins now, 0: none.
uint64_t begun(copy_policy& p) {
  const auto next = p.next();
  return next ? next->step : 0;
}

const error failure{errc::io, "no space"}, gone{errc::not_found, "removed"};
using news = copy_policy::news;

}  // namespace

TEST_CASE("REP-1: one is copied, the newest waits, the others are skipped and counted") {
  copy_policy p;
  CHECK(begun(p) == 0);
  p.committed(load_at(1));
  CHECK(begun(p) == 1);
  for (uint64_t step : {2, 3, 4}) {
    p.committed(load_at(step));
    CHECK(begun(p) == 0);
  }
  CHECK(p.waiting()->step == 4);
  CHECK(p.waiting()->directory == "/first/4");
  CHECK(p.counted().passed_over == 2);
  CHECK(p.ended({}) == news::none);
  CHECK(p.durable_step() == 1);
  CHECK(begun(p) == 4);
  p.ended({});
  CHECK(begun(p) == 0);
  CHECK(p.durable_step() == 4);
  CHECK(p.counted().copied == 2);
}

TEST_CASE("carry policy: commits that change places do not put an older one before a newer") {
  copy_policy p;
  p.committed(load_at(11));
  CHECK(begun(p) == 11);
  p.committed(load_at(10));
  CHECK_FALSE(p.waiting());
  p.committed(load_at(13));
  p.committed(load_at(12));
  CHECK(p.waiting()->step == 13);
  CHECK(p.counted().passed_over == 2);
}

TEST_CASE("carry policy: only multiples of every") {
  for (const auto& [every, expected] : {std::pair{0, 7}, {1, 7}, {3, 6}, {7, 7}, {8, 0}}) {
    CAPTURE(every);
    copy_policy p(static_cast<uint64_t>(every));
    for (uint64_t step = 1; step <= 7; ++step) p.committed(load_at(step));
    CHECK(begun(p) == static_cast<uint64_t>(expected));
  }
}

TEST_CASE("REP-2: the last is copied whatever its step, and again after a failure") {
  copy_policy p(10);
  p.committed(load_at(10));
  CHECK(begun(p) == 10);
  p.last(load_at(13));
  CHECK(p.waiting()->step == 13);
  p.ended({});
  CHECK(begun(p) == 13);
  p.last(load_at(13));  // it is under way
  CHECK_FALSE(p.waiting());
  p.ended(failure);
  p.last(load_at(13));
  CHECK(begun(p) == 13);
}

TEST_CASE("REP-2: the last takes the place of an older one that waits") {
  copy_policy p;
  p.committed(load_at(1));
  CHECK(begun(p) == 1);
  p.committed(load_at(2));
  p.last(load_at(3));
  CHECK(p.waiting()->step == 3);
  CHECK(p.counted().passed_over == 1);
  p.last(load_at(1));
  CHECK_FALSE(p.waiting());
}

TEST_CASE("REP-3: of failures in a row the first is told, and when it works again") {
  copy_policy p;
  auto copy = [&, step = uint64_t{0}](const status& how) mutable {
    p.committed(load_at(++step));
    REQUIRE(begun(p) == step);
    return p.ended(how);
  };
  CHECK(copy({}) == news::none);
  CHECK(copy(failure) == news::failed);
  CHECK(copy(failure) == news::none);
  CHECK(copy(gone) == news::none);
  CHECK(copy({}) == news::works_again);
  CHECK(copy({}) == news::none);
  CHECK(copy(gone) == news::none);  // for a newer one: no failure
  CHECK(copy(failure) == news::failed);
  CHECK(p.counted().failed == 3);
  CHECK(p.counted().passed_over == 2);
  CHECK(p.counted().copied == 3);
  CHECK(p.durable_step() == 6);
}
