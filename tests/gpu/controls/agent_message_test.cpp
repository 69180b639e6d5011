// What a rank and the agent of its machine say to each other: read as it was written, or refused.
#include "gpu/controls/agent_message.hpp"

#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::gpu::controls;

namespace {

agent_request a_take() {
  agent_request r;
  r.sequence = 7;
  r.verb = agent_verb::take;
  r.target = {setting_kind::nvml_clocks, "GPU-1f3c"};
  r.owner = {"tiny", 3, 0xfeed};
  return r;
}

bool is_refused(const agent_request& r) {
  const auto read = parse_agent_request(to_bytes(r));
  return !read && read.error().is(bad_agent_message);
}

}  // namespace

TEST_CASE("AGM-2: agent message: what is written is read") {
  const auto take = parse_agent_request(to_bytes(a_take()));
  REQUIRE_MESSAGE(take, (take ? "" : render(take.error())));
  CHECK(take->sequence == 7);
  CHECK(take->verb == agent_verb::take);
  CHECK(take->target.kind == setting_kind::nvml_clocks);
  CHECK(take->target.gpu == "GPU-1f3c");
  CHECK(take->owner.job == "tiny");
  CHECK(take->owner.rank == 3);
  CHECK(take->owner.launch == 0xfeed);
  CHECK_FALSE(take->owner.is_adopted);
  agent_request set;
  set.verb = agent_verb::set;
  set.pace_of_1024 = 300;
  const auto read = parse_agent_request(to_bytes(set));
  REQUIRE(read);
  CHECK(read->pace_of_1024 == 300);
  agent_answer a{9, agent_outcome::governed, "another has it", "rack7", {}};
  a.facts.least = 0.25;
  a.facts.saves_energy = true;
  a.facts.p99_ns = 5'000'000;
  a.given_back_to = 2;
  const auto answer = parse_agent_answer(to_bytes(a));
  REQUIRE(answer);
  CHECK(answer->sequence == 9);
  CHECK(answer->outcome == agent_outcome::governed);
  CHECK(answer->why == "another has it");
  CHECK(answer->agent == "rack7");
  CHECK(answer->facts.least == 0.25);
  CHECK(answer->facts.most == 1);
  CHECK(answer->facts.saves_energy);
  CHECK_FALSE(answer->facts.p50_ns);
  CHECK(answer->facts.p99_ns == 5'000'000);
  CHECK(answer->given_back_to == 2);
}

TEST_CASE(
    "AGM-1: agent message: a device that is none of its word, a name and a pace are refused") {
  auto r = a_take();
  r.target.gpu = "";
  CHECK(is_refused(r));
  r.target.gpu = "../../sys";
  CHECK(is_refused(r));
  r.target = {setting_kind::cpufreq, "GPU-1f3c"};
  CHECK(is_refused(r));
  for (const char* name : {"", "two\nlines", "\x1b[2J"}) {
    r = a_take();
    r.owner.job = name;
    CHECK(is_refused(r));
  }
  r = a_take();
  r.owner.rank = -1;
  CHECK(is_refused(r));
  agent_request set;
  set.verb = agent_verb::set;
  for (const int pace : {-1, whole_pace + 1, std::numeric_limits<int>::max()}) {
    set.pace_of_1024 = pace;
    CHECK(is_refused(set));
  }
  r = a_take();
  r.verb = static_cast<agent_verb>(200);
  CHECK(is_refused(r));
}

TEST_CASE(
    "AGM-1: agent message: lengths are bounded, and every cut and bit of one verifies or not") {
  const auto whole = to_bytes(a_take());
  CHECK(whole.size() <= most_agent_message_bytes);
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto cut = parse_agent_request(std::span(whole).first(n));
    REQUIRE_FALSE(cut);
    CHECK(cut.error().is(bad_agent_message));
  }
  for (size_t i = 0; i < 8 * whole.size(); ++i) {
    auto changed = whole;
    changed[i / 8] ^= static_cast<std::byte>(1u << (i % 8));
    static_cast<void>(parse_agent_request(changed));
    static_cast<void>(parse_agent_answer(changed));
  }
  std::vector<std::byte> begun(3);
  REQUIRE(agent_message_bytes(begun));
  CHECK_FALSE(*agent_message_bytes(begun));
  const auto of = [](uint32_t bytes) {
    std::vector<std::byte> out(4);
    std::memcpy(out.data(), &bytes, 4);
    return agent_message_bytes(out);
  };
  CHECK(of(most_agent_message_bytes - 4));
  CHECK(of(most_agent_message_bytes - 3).error().is(bad_agent_message));
  CHECK(of(std::numeric_limits<uint32_t>::max()).error().is(bad_agent_message));
  CHECK(of(0).error().is(bad_agent_message));
}

TEST_CASE("AGM-2: agent message: a clock is read as it was written, and clocks, highest first") {
  agent_request r;
  r.verb = agent_verb::clock;
  for (const int mhz : {1, 1410, highest_clock_mhz}) {
    r.clock_mhz = mhz;
    const auto read = parse_agent_request(to_bytes(r));
    REQUIRE(read);
    CHECK(read->verb == agent_verb::clock);
    CHECK(read->clock_mhz == mhz);
  }
  r.verb = agent_verb::check_clock;
  const auto check = parse_agent_request(to_bytes(r));
  REQUIRE(check);
  CHECK(check->verb == agent_verb::check_clock);
  agent_answer a;
  CHECK(parse_agent_answer(to_bytes(a))->clocks_mhz.empty());
  a.clocks_mhz = {1410, 1395, 210};
  CHECK(parse_agent_answer(to_bytes(a))->clocks_mhz == a.clocks_mhz);
  a.clocks_mhz.clear();
  for (int mhz = 3000; mhz > 0; mhz -= 3) a.clocks_mhz.push_back(mhz);
  a.why = std::string(5000, 'x');
  a.agent = std::string(5000, 'y');
  const auto whole = to_bytes(a);
  CHECK(whole.size() <= most_agent_message_bytes);
  const auto some = parse_agent_answer(whole);
  REQUIRE(some);
  CHECK(some->clocks_mhz.size() == agent_clocks_told);
  CHECK(some->clocks_mhz.front() == 3000);
  CHECK(some->clocks_mhz.back() == 3);
}

TEST_CASE("AGM-1: agent message: a clock that is none, and clocks out of order, are refused") {
  agent_request r;
  r.verb = agent_verb::clock;
  for (const int mhz : {0, -1, highest_clock_mhz + 1, std::numeric_limits<int>::max()}) {
    r.clock_mhz = mhz;
    CHECK(is_refused(r));
  }
  agent_answer a;
  for (const auto& wrong : {std::vector{1000, 1000}, std::vector{900, 1000}, std::vector{900, 0}}) {
    a.clocks_mhz = wrong;
    CHECK(parse_agent_answer(to_bytes(a)).error().is(bad_agent_message));
  }
}

TEST_CASE("AGM-2: agent message: long texts are cut to what a message takes") {
  agent_answer a;
  a.why = std::string(5000, 'x');
  a.agent = std::string(5000, 'y');
  const auto bytes = to_bytes(a);
  CHECK(bytes.size() <= most_agent_message_bytes);
  const auto read = parse_agent_answer(bytes);
  REQUIRE(read);
  CHECK_FALSE(read->why.empty());
  for (std::string wide; wide.size() < 4 * agent_reason_length; wide += "\xf0\x9f\x98\x80")
    a.why = wide;
  CHECK(parse_agent_answer(to_bytes(a)));
  a.facts.least = std::numeric_limits<double>::quiet_NaN();
  CHECK(parse_agent_answer(to_bytes(a)).error().is(bad_agent_message));
}
