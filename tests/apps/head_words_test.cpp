// What a launcher believes of its head.
#include "apps/up/head_words.hpp"

#include <doctest/doctest.h>

using namespace troupe::apps;

TEST_CASE("head words: who says nothing has not begun and has saved nothing") {
  CHECK(parse_head_words("") == head_says{});
}

TEST_CASE("head words: the newest word counts, whole lines alone, others are left out") {
  CHECK(parse_head_words("begun 10\n") == head_says{10, false});
  CHECK(parse_head_words("begun 10\nsaved\n") == head_says{10, true});
  CHECK(parse_head_words("begun 10\nbegun 3\n") == head_says{3, false});
  CHECK(parse_head_words("begun 10\nsav") == head_says{10, false});
  CHECK(parse_head_words("begun 1") == head_says{});
  CHECK(parse_head_words("begun x\nbegun -1\nbegun 1 2\nhello\n\n") == head_says{});
  CHECK(parse_head_words("begun 99999999999999999999\nsaved\n") == head_says{{}, true});
}
