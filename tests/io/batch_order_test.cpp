// The order of batches: the invariants ORD-1..ORD-4 over many shapes, and the oracle's order.
#include "io/data/batch_order.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::io;

TEST_CASE("unshuffled: step k row b is window kB+b, and wraps at the end") {
  auto order = batch_order::make({.tokens = 2561, .seq_len = 64, .batch_rows = 2});
  REQUIRE(order);
  CHECK(order->train_windows() == 40);
  CHECK(order->validation_windows() == 0);
  for (uint64_t k = 0; k < 20; ++k)
    for (uint32_t b = 0; b < 2; ++b) CHECK(order->train_first_token(k, b) == 128 * k + 64 * b);
  CHECK(order->train_first_token(20, 0) == 0);
  auto odd = batch_order::make({.tokens = 31, .seq_len = 10, .batch_rows = 2});
  REQUIRE(odd);
  CHECK(odd->train_windows() == 3);
  CHECK(odd->train_first_token(1, 0) == 20);
  CHECK(odd->train_first_token(1, 1) == 0);  // a pass may end inside a step
}

TEST_CASE("a run that goes on with another batch or length goes on behind what it has seen") {
  const batch_order_spec spec{
      .tokens = 2561, .seq_len = 64, .batch_rows = 2, .shuffle = true, .seed = 7};
  const auto whole = batch_order::make(spec);
  auto with = [&](uint32_t rows, uint64_t first_step, uint64_t first_row) {
    auto changed = spec;
    changed.batch_rows = rows;
    changed.first_step = first_step;
    changed.first_row = first_row;
    return *batch_order::make(changed);
  };
  REQUIRE(whole);
  const auto same = with(2, 9, 18);  // nothing changed
  const auto wider = with(4, 9, 18), narrower = with(1, 9, 18);
  for (uint64_t k = 9; k < 40; ++k)
    for (uint32_t b = 0; b < 2; ++b) {
      CHECK(same.train_first_token(k, b) == whole->train_first_token(k, b));
      CHECK(wider.train_first_token(9 + (k - 9) / 2, static_cast<uint32_t>((k - 9) % 2) * 2 + b) ==
            whole->train_first_token(k, b));
      CHECK(narrower.train_first_token(9 + (k - 9) * 2 + b, 0) == whole->train_first_token(k, b));
    }
}

TEST_CASE("ORD-1 ORD-2 every window lies inside, and no split shares a token") {
  for (uint64_t n = 2; n < 90; ++n)
    for (uint32_t t : {1U, 2U, 7U, 16U})
      for (double f : {0.0, 0.01, 0.1, 0.5})
        for (bool shuffle : {false, true}) {
          auto order = batch_order::make({.tokens = n,
                                          .seq_len = t,
                                          .batch_rows = 1,
                                          .shuffle = shuffle,
                                          .seed = n,
                                          .validation_fraction = f});
          if (!order) {
            CHECK(order.error().code == errc::bad_config);
            CHECK(n < (f > 0 ? 2 * t + 2 : t + 1));
            continue;
          }
          CAPTURE(n);
          CAPTURE(t);
          if (f == 0.0) CHECK(order->train_windows() == (n - 1) / t);
          CHECK((order->validation_windows() > 0) == (f > 0));
          uint64_t last_train = 0;
          for (uint64_t k = 0; k < order->train_windows(); ++k)
            last_train = std::max(last_train, order->train_first_token(k, 0) + t);
          CHECK(last_train < n);
          for (uint64_t v = 0; v < order->validation_windows(); ++v) {
            CHECK(order->validation_first_token(v) > last_train);
            CHECK(order->validation_first_token(v) + t < n);
          }
        }
}

TEST_CASE("ORD-3 shuffled: every pass has each window once, in another order") {
  for (uint64_t windows : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 63U, 64U, 65U, 1000U, 4097U}) {
    auto order = batch_order::make(
        {.tokens = windows * 8 + 1, .seq_len = 8, .batch_rows = 1, .shuffle = true, .seed = 5});
    REQUIRE(order);
    REQUIRE(order->train_windows() == windows);
    std::vector<uint64_t> previous;
    for (uint64_t pass = 0; pass < 3; ++pass) {
      std::vector<uint64_t> seen;
      for (uint64_t i = 0; i < windows; ++i)
        seen.push_back(order->train_first_token(pass * windows + i, 0) / 8);
      if (windows >= 16) CHECK(seen != previous);
      previous = seen;
      std::sort(seen.begin(), seen.end());
      for (uint64_t i = 0; i < windows; ++i) REQUIRE(seen[i] == i);
    }
  }
}

TEST_CASE("shuffled: another seed is another order, and neighbours part") {
  auto make = [](uint64_t seed) {
    return *batch_order::make(
        {.tokens = 80001, .seq_len = 8, .batch_rows = 4, .shuffle = true, .seed = seed});
  };
  auto a = make(1), b = make(2);
  size_t equal = 0, adjacent = 0;
  for (uint64_t k = 0; k < 2500; ++k)
    for (uint32_t r = 0; r + 1 < 4; ++r) {
      equal += a.train_first_token(k, r) == b.train_first_token(k, r);
      adjacent += a.train_first_token(k, r) + 8 == a.train_first_token(k, r + 1);
    }
  CHECK(equal < 20);
  CHECK(adjacent < 20);
  // The first quarter of a pass must not favour low windows: its mean is the middle.
  double mean = 0;
  for (uint64_t k = 0; k < 625; ++k)
    for (uint32_t r = 0; r < 4; ++r)
      mean += static_cast<double>(a.train_first_token(k, r)) / 8 / 2500;
  CHECK(mean == doctest::Approx(5000).epsilon(0.05));
}

TEST_CASE("ORD-4 the order is pinned: changing it would change every seeded run") {
  auto order = *batch_order::make(
      {.tokens = 1001, .seq_len = 10, .batch_rows = 3, .shuffle = true, .seed = 1234});
  std::vector<uint64_t> first;
  for (uint64_t k = 0; k < 2; ++k)
    for (uint32_t r = 0; r < 3; ++r) first.push_back(order.train_first_token(k, r) / 10);
  CHECK(first == std::vector<uint64_t>{59, 0, 48, 4, 97, 61});
  CHECK(order.train_first_token(uint64_t{1} << 40, 2) % 10 == 0);
}

TEST_CASE("impossible orders are refused with a hint") {
  CHECK_FALSE(batch_order::make({.tokens = 64, .seq_len = 64, .batch_rows = 1}));
  CHECK_FALSE(batch_order::make({.tokens = 0, .seq_len = 64, .batch_rows = 1}));
  CHECK_FALSE(batch_order::make({.tokens = 100, .seq_len = 0, .batch_rows = 1}));
  CHECK_FALSE(batch_order::make({.tokens = 100, .seq_len = 1, .batch_rows = 0}));
  for (double f : {-0.1, 0.6, 0.0 / 0.0})
    CHECK_FALSE(batch_order::make(
        {.tokens = 100, .seq_len = 1, .batch_rows = 1, .validation_fraction = f}));
  auto few = batch_order::make({.tokens = 64, .seq_len = 64, .batch_rows = 1});
  CHECK(few.error().hint.find("seq_len") != std::string::npos);
}
