// What is told of a long tokenising, and how often.
#include "actors/train/tokenising_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::train;

namespace {

constexpr int64_t second = 1'000'000'000;

/// So many of 1000 bytes, or of `all`; `found` of them were done before.
io::corpus_progress at(uint64_t done, uint64_t all = 1000, uint64_t found = 0) {
  io::corpus_progress p;
  p.file_bytes_done = done;
  p.file_bytes = all;
  p.file_bytes_found = found;
  return p;
}

}  // namespace

TEST_CASE("tokenising: a line at once, then one every interval") {
  tokenising_policy policy(5 * second, 2 * second);
  int64_t last = -1;
  int lines = 0;
  for (int64_t ms = 100; ms <= 10'000; ms += 100) {
    const int64_t now = 5 * second + ms * 1'000'000;
    if (!policy.heard(now, at(static_cast<uint64_t>(ms), 100'000))) continue;
    if (last >= 0) CHECK(now - last >= 2 * second);
    last = now;
    ++lines;
  }
  CHECK(lines == 5);  // at 0.1, 2.1, 4.1, 6.1 and 8.1 s
}

TEST_CASE("tokenising: percent, rate and what is left") {
  struct {
    uint64_t done, all;
    double seconds;
    const char* text;
    uint64_t found = 0;
  } const rows[] = {
      {1, 4, 0, "tokenising: 25 % of 4 B"},
      {500'000'000, 2'000'000'000, 10, "tokenising: 25 % of 1.9 GiB, 47.7 MiB/s, ETA 0:30"},
      {999'999'999, 1'000'000'000, 100, "tokenising: 99 % of 953.7 MiB, 9.5 MiB/s, ETA 0:01"},
      {1'000'000, 400'000'000, 10, "tokenising: 0 % of 381.5 MiB, 97.7 KiB/s, ETA 1:06:30"},
      // What a start before had done is no speed of this one.
      {600'000'000, 1'000'000'000, 10, "tokenising: 60 % of 953.7 MiB, 9.5 MiB/s, ETA 0:40",
       500'000'000},
  };
  for (const auto& r : rows) {
    CAPTURE(std::string(r.text));
    tokenising_policy policy(0, second);
    auto text = policy.heard(static_cast<int64_t>(r.seconds * second), at(r.done, r.all, r.found));
    REQUIRE(text);
    CHECK(*text == r.text);
  }
}

TEST_CASE("tokenising: what is read first is told once it takes a while, and is of no speed") {
  tokenising_policy policy(0, 2 * second);
  auto reading = at(0);
  reading.file_bytes_known = 100;
  CHECK_FALSE(policy.heard(1 * second, reading));
  reading.file_bytes_known = 400;
  CHECK(policy.heard(100 * second, reading) == "reading: 40 % of 1000 B");
  CHECK_FALSE(policy.heard(101 * second, reading));
  CHECK(policy.heard(200 * second, at(300, 1000, 300)) == "tokenising: 30 % of 1000 B");
  CHECK(policy.heard(210 * second, at(400, 1000, 300)) ==
        "tokenising: 40 % of 1000 B, 10 B/s, ETA 1:00");
}

TEST_CASE("tokenising: nothing to tell of nothing, nor of what is done") {
  tokenising_policy policy(0, second);
  CHECK_FALSE(policy.heard(9 * second, at(0)));
  CHECK_FALSE(policy.heard(9 * second, at(1000)));
}
