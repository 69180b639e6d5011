// What a launcher believes of its head.
#include "apps/up/head_words.hpp"

#include <doctest/doctest.h>

using namespace troupe::apps;

namespace {

head_says said_by(std::string text) {
  head_says out;
  take_head_words(text, out);
  return out;
}

}  // namespace

TEST_CASE("head words: who says nothing has not begun and has saved nothing") {
  CHECK(said_by("") == head_says{});
}

TEST_CASE("head words: the newest word counts, whole lines alone, others are left out") {
  CHECK(said_by("begun 10\n") == head_says{10, false});
  CHECK(said_by("begun 10\nsaved\n") == head_says{10, true});
  CHECK(said_by("begun 10\nbegun 3\n") == head_says{3, false});
  CHECK(said_by("begun 10\nsav") == head_says{10, false});
  CHECK(said_by("begun 1") == head_says{});
  CHECK(said_by("begun x\nbegun -1\nbegun 1 2\nhello\n\n") == head_says{});
  CHECK(said_by("begun 99999999999999999999\nsaved\n") == head_says{{}, true});
  CHECK(said_by("step 7\nstep 8\nstep x\n") == head_says{{}, false, 8, 8});
  CHECK(said_by("step 9\nstep 4\n") == head_says{{}, false, 4, 9});  // made again
}

TEST_CASE("head words: a line that comes in two parts is one") {
  head_says said;
  std::string text = "begun 4\nstep 12";
  take_head_words(text, said);
  CHECK(said == head_says{4, false});
  CHECK(text == "step 12");
  text += "3\n";
  take_head_words(text, said);
  CHECK(said == head_says{4, false, 123, 123});
  CHECK(text.empty());
}
