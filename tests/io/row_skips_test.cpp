// Rows that are passed over, against counting one by one.
#include "io/data/row_skips.hpp"

#include <random>
#include <set>

#include <doctest/doctest.h>

#include "io/data/batch_order.hpp"

using troupe::io::rows_between;
using troupe::io::row_skips;

TEST_CASE("SKP-1: ranges that meet are one, and empty ones are none") {
  const row_skips skips({{30, 40}, {5, 5}, {10, 20}, {20, 25}, {12, 14}, {9, 3}});
  CHECK(skips.ranges() == std::vector<rows_between>{{10, 25}, {30, 40}});
  CHECK(row_skips().ranges().empty());
}

TEST_CASE("SKP-2: whoever begins anywhere meets each row that stays, once and in order") {
  std::mt19937_64 rng(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<rows_between> ranges;
    std::set<uint64_t> out;
    for (uint64_t k = rng() % 5; k > 0; --k) {
      const uint64_t first = rng() % 60;
      const uint64_t end = first + rng() % 12;
      ranges.push_back({first, end});
      for (uint64_t row = first; row < end; ++row) out.insert(row);
    }
    const row_skips skips(ranges);
    const uint64_t first = rng() % 70;
    uint64_t row = first;
    for (uint64_t n = 0; n < 90; ++n, ++row) {
      while (out.contains(row)) ++row;
      REQUIRE(skips.nth(first, n) == row);
    }
    uint64_t gone = 0;
    for (uint64_t end = 0; end < 80; ++end) {
      REQUIRE(skips.before(end) == gone);
      gone += out.contains(end) ? 1 : 0;
    }
  }
}

TEST_CASE("ORD-5: a step has the rows behind those that are passed over, none twice, none less") {
  troupe::io::batch_order_spec spec{
      .tokens = 8001, .seq_len = 8, .batch_rows = 4, .shuffle = true, .seed = 5};
  const auto whole = troupe::io::batch_order::make(spec);
  spec.skipped = row_skips({{6, 14}});
  const auto order = troupe::io::batch_order::make(spec);
  REQUIRE((whole && order));
  const auto row_of_whole = [&](uint64_t running) {
    return whole->train_first_token(running / 4, static_cast<uint32_t>(running % 4));
  };
  for (uint64_t step = 0; step < 50; ++step)
    for (uint32_t row = 0; row < 4; ++row) {
      const uint64_t n = step * 4 + row;
      CHECK(order->train_first_token(step, row) == row_of_whole(n < 6 ? n : n + 8));
    }
}
