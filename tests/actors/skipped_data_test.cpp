// Places in the data, in tokens and in rows.
#include "actors/job/skipped_data.hpp"

#include <doctest/doctest.h>

#include "actors/job/job_memory.hpp"

using namespace troupe::train;
using parts = std::vector<troupe::checkpoint::skipped_tokens>;

TEST_CASE("SKD-1: a row that has any token of a part is passed over whole") {
  CHECK(rows_of(parts{{80, 16}}, 8).ranges() == std::vector<troupe::io::rows_between>{{10, 12}});
  CHECK(rows_of(parts{{81, 16}}, 8).ranges() == std::vector<troupe::io::rows_between>{{10, 13}});
  CHECK(rows_of(parts{{80, 16}}, 32).ranges() == std::vector<troupe::io::rows_between>{{2, 3}});
  CHECK(rows_of(parts{{8, UINT64_MAX}}, 8).nth(0, 1) > UINT64_MAX / 16);
}

TEST_CASE("SKD-2: places behind steps are those that rows say, with another length, too") {
  const parts skipped{{64, 48}, {200, 8}};
  CHECK(tokens_after(0, 2, 8, {}) == 16);
  CHECK(tokens_after(0, 2, 8, skipped) == 16);
  CHECK(tokens_after(48, 2, 8, skipped) == 64);
  CHECK(tokens_after(64, 2, 8, skipped) == 64 + 48 + 16);
  CHECK(tokens_after(56, 2, 8, skipped) == 64 + 48 + 8);
  CHECK(tokens_after(64, 0, 8, skipped) == 64);
  uint64_t tokens = 0, row = 0;
  const auto rows = rows_of(skipped, 8);
  for (int step = 0; step < 40; ++step) {
    for (int r = 0; r < 3; ++r) row = rows.nth(row, 0) + 1;
    tokens = tokens_after(tokens, 3, 8, skipped);
    REQUIRE(tokens == row * 8);
    REQUIRE(tokens - skipped_before(tokens, skipped) == static_cast<uint64_t>(step + 1) * 24);
  }
}

TEST_CASE("skipped data: parts that meet are one, and messages have them all") {
  const auto all = with_part({{64, 16}, {160, 8}}, 72, 100);
  CHECK(all == parts{{64, 36}, {160, 8}});
  CHECK(skipped_in(to_message(all)) == all);
  job_memory memory;
  memory.skipped = all;
  memory.rewind = rewind_order{12, 3, "bad data"};
  CHECK(memory_in(to_message(memory)) == memory);
}
