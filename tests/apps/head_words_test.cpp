// What a launcher believes of its head.
#include "apps/up/head_words.hpp"

#include <doctest/doctest.h>

using namespace troupe::apps;

namespace {

head_says said_by(const std::vector<packet>& packets) {
  head_says out;
  for (const auto& p : packets) take_head_words(p, out);
  return out;
}

}  // namespace

TEST_CASE("head words: who says nothing has not begun and has saved nothing") {
  CHECK(said_by({}) == head_says{});
  CHECK(said_by({{}}) == head_says{});
}

TEST_CASE("head words: the newest word counts, what is not known is left out") {
  CHECK(said_by({{"begun", "10"}}) == head_says{10, false});
  CHECK(said_by({{"begun", "10"}, {"saved"}}) == head_says{10, true});
  CHECK(said_by({{"begun", "10"}, {"begun", "3"}}) == head_says{3, false});
  CHECK(said_by({{"begun", "10"}, {"sav"}}) == head_says{10, false});
  CHECK(said_by({{"begun"}}) == head_says{});
  CHECK(said_by({{"begun", "x"}, {"begun", "-1"}, {"begun", "1", "2"}, {"hello"}}) == head_says{});
  CHECK(said_by({{"begun", "99999999999999999999"}, {"saved"}}) == head_says{{}, true});
  CHECK(said_by({{"step", "7"}, {"step", "8"}, {"step", "x"}}) == head_says{{}, false, 8, 8});
  CHECK(said_by({{"step", "9"}, {"step", "4"}}) == head_says{{}, false, 4, 9});  // made again
  CHECK(said_by({{"port", "4000"}, {"port", "70000"}}) == head_says{{}, false, 0, 0, 4000});
}

TEST_CASE("LLN: packets arrive whole and in order, what does not fit waits, a longer is refused") {
  auto ends = launcher_line::make();
  REQUIRE(ends);
  auto& [here, socket] = *ends;
  launcher_line there(std::move(socket));
  CHECK_FALSE(there.receive());
  const packet odd{"start", "", "with a blank", std::string(40'000, 'x')};
  size_t sent = 0;
  for (; sent < 64; ++sent) REQUIRE(here.send(odd));  // far beyond what a socket takes
  CHECK_FALSE(here.tell({"step", "1"}));              // LLN-1
  size_t came = 0;
  for (; auto p = there.receive(); here.flush()) {
    CHECK(*p == odd);
    ++came;
  }
  CHECK(came == sent);
  CHECK(here.tell({"step", "1"}));
  CHECK(there.receive() == packet{"step", "1"});
  const auto refused = here.send({std::string(max_packet_bytes, 'x')});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(packet_too_long));
}

TEST_CASE("LLN: who speaks to nobody is told so, and does not die of it") {
  auto ends = launcher_line::make();
  REQUIRE(ends);
  ends->second.reset();
  CHECK_FALSE(ends->first.send({"stop", "node0"}));
  CHECK_FALSE(ends->first.tell({"saved"}));
  launcher_line nobody;
  CHECK_FALSE(nobody.tell({"saved"}));
  CHECK_FALSE(nobody.receive());
}
