// Profiles of clocks: what is read, and how what is wrong is named.
#include "actors/power/clock_profile.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace troupe;
using namespace troupe::power;

namespace {

const std::string profile_lines =
    "stage,instruction,frequency,time,energy\n"
    "0,forward,1410,0.05,20\n"
    "0,backward,1410,0.1,40\n";

/// The message of what parse_profile refuses.
std::string refused_profile(const std::string& text) {
  const auto read = parse_profile(text);
  REQUIRE(!read);
  CHECK(read.error().is(bad_profile));
  CHECK(!read.error().hint.empty());
  return read.error().message;
}

bool says(const std::string& message, std::string_view what) {
  return message.find(what) != message.npos;
}

}  // namespace

TEST_CASE("clock profile: rows in any order are by stage and instruction, fastest clock first") {
  const auto read = parse_profile(
      "# measured on a Monday\r\n\r\nstage,instruction,frequency,time,energy\r\n"
      "1,backward,900,0.2,30\n0,forward, 900 ,0.08,15\n1,forward,900,0.08,15\n"
      "0,backward,900,0.2,30\n0,forward,1410,0.05,20");
  REQUIRE(read);
  REQUIRE(read->stages.size() == 2);
  CHECK(read->rows(0, instruction::forward) ==
        std::vector<clock_row>{{1410, 0.05, 20}, {900, 0.08, 15}});
  CHECK(read->rows(1, instruction::backward) == std::vector<clock_row>{{900, 0.2, 30}});
  const auto again = parse_profile(read->text());
  REQUIRE(again);
  CHECK(again->stages == read->stages);
}

TEST_CASE("PCL-1: a field that is none is named with its line, what was expected and found") {
  const auto refused = [](const std::string& row) { return refused_profile(profile_lines + row); };
  for (const auto* row : {"0,forward,1410\n", "0,forward,1200,0.05,20,1\n", "0\n"})
    CHECK(says(refused(row), "line 4: "));
  CHECK(says(refused("0,forward,1200,0.05\n"), "4 fields, not 5"));
  CHECK(says(refused("-1,forward,1200,0.05,20\n"), "stage is \"-1\""));
  CHECK(says(refused("256,forward,1200,0.05,20\n"), "an integer from 0 to 255"));
  CHECK(says(refused("0,update,1200,0.05,20\n"), "\"update\", not forward or backward"));
  CHECK(says(refused("0,forward,1.2e3,0.05,20\n"), "frequency is \"1.2e3\""));
  CHECK(says(refused("0,forward,1200,nan,20\n"), "time is \"nan\""));
  CHECK(says(refused("0,forward,1200,-0.05,20\n"), "time is \"-0.05\""));
  CHECK(says(refused("0,forward,1200,0.05,inf\n"), "energy is \"inf\""));
  CHECK(says(refused("0,forward,1200,0.05s,20\n"), "time is \"0.05s\""));
  CHECK(says(refused("0,forward,1200,0.05,\n"), "energy is \"\""));
}

TEST_CASE("PCL-1: another unit, a clock twice, and gaps are named") {
  CHECK(says(refused_profile(profile_lines + "0,forward,1200,50,20\n"), "is a unit another one"));
  CHECK(says(refused_profile(profile_lines + "0,forward,1200,0.05,20000\n"),
             "is a unit another one"));
  CHECK(says(refused_profile(profile_lines + "0,forward,1410,0.06,20\n"), "in line 2 already"));
  CHECK(says(refused_profile(profile_lines + "2,forward,1410,0.05,20\n"),
             "without a forward of stage 1"));
  CHECK(says(refused_profile("stage,instruction,frequency,time,energy\n0,forward,1410,0.05,20\n"),
             "without a backward of stage 0"));
  CHECK(says(refused_profile(""), "without a row"));
  CHECK(says(refused_profile("stage,instruction,frequency,time_ms,energy\n"), "the heading is"));
}

TEST_CASE("PCL-3: a profile says of what micro-batches it is, or nothing of that") {
  const auto plain = parse_profile("# micro_batch of the model card\n" + profile_lines);
  REQUIRE(plain);
  CHECK_FALSE(plain->of);
  const auto of = parse_profile("# micro_batch = 2, seq_len = 1024\n" + profile_lines);
  REQUIRE(of);
  CHECK(of->of == micro_batch_size{2, 1024});
  CHECK(of->stages == plain->stages);
  const auto again = parse_profile(of->text());
  REQUIRE(again);
  CHECK(again->of == of->of);
  for (const auto* wrong :
       {"# micro_batch = 2\n", "# micro_batch = 2, seq_len = \n",
        "# micro_batch = 0, seq_len = 8\n", "# micro_batch = 2, seq_len = 8, and so on\n",
        "# micro_batch = , seq_len = 8\n"})
    CHECK(says(refused_profile(wrong + profile_lines), "line 1: "));
  CHECK(says(refused_profile(of->text() + "# micro_batch = 2, seq_len = 1024\n"), "line 5: "));
}

TEST_CASE("PCL-2: a profile beyond its bounds is refused") {
  auto text = std::string("stage,instruction,frequency,time,energy\n");
  for (size_t i = 0; i <= clock_profile::most_clocks; ++i)
    text += fmt::format("0,forward,{},0.05,20\n", i + 1);
  CHECK(says(refused_profile(text), "more than 1024 clocks"));
  CHECK(says(refused_profile(profile_lines + std::string(clock_profile::most_bytes, '\n')),
             "bytes in all"));
}
