// The pacer of a job that is shifted against others: what it reports of its steps, and what it
// tells its run of an order of the budget above.
#include <chrono>
#include <vector>

#include <doctest/doctest.h>

#include "tests/actors/power/leased_pacer.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::power::test::leased_pacer;

namespace {

/// It makes a step a second.
struct stepping_pacer : leased_pacer {
  uint64_t step = 0;
  double used_j = 0;
  fbs::PowerReportT said;  ///< last

  stepping_pacer() {
    take_pace(0, 1024, 0);
    join(60'000);
    for (int i = 0; i < 10; ++i) next();
  }
  /// A step begins, and a second later its report is answered. What the run is told by then: by
  /// how much steps are to be held back.
  std::vector<uint64_t> next(uint64_t number = 0, uint64_t offset_us = 0, bool brake = false,
                             uint64_t late_us = 0) {
    beat(60, used_j += 60, 0, 100);
    take_pace(++step, 500, 0, word, false, late_us);
    pass(1s);
    for (const auto& asked : budget.take_all<fbs::PowerReport>()) {
      said = asked.m.unpack();
      asked.answer<fbs::PowerGrant>([&](auto& g) {
        g.budget = "row0";
        g.lease_epoch = 1;
        g.lease_sequence = 2;
        g.answers_incarnation = asked->incarnation();
        g.answers_sent_ns = asked->sent_ns();
        g.cap_mw = 60'000;
        g.ttl_ms = 10'000;
        g.brake = brake;
        g.static_share_mw = 30'000;
        g.start_offset_us = offset_us;
        g.offset_number = number;
        g.offset_epoch = 1;
      });
    }
    std::vector<uint64_t> out;
    for (const auto& told : run.take_all<fbs::JobPower>()) {
      word = told->number();
      if (told->start_offset_us() > 0) out.push_back(told->start_offset_us());
    }
    return out;
  }
};

using offsets_us = std::vector<uint64_t>;

}  // namespace

TEST_CASE("pacer: how long steps take, and when the last one began, is reported once they beat") {
  stepping_pacer f;
  CHECK(f.said.step_us == 1'000'000);
  CHECK(f.said.step_age_us <= 1'000'000);
  f.take_pace(0, 1024, 0, f.word);  // no step is made
  f.pass(1s);
  CHECK(f.budget.take<fbs::PowerReport>()->step_us() == 0);
}

TEST_CASE("pacer: before its steps beat a job reports none") {
  leased_pacer f;
  f.take_pace(0, 1024, 0);
  CHECK(f.answered(1, 1, 60'000).step_us == 0);
}

TEST_CASE("PCR-7: the run is told once to hold a step back, however often the budget says it") {
  stepping_pacer f;
  CHECK(f.next(1, 400'000) == offsets_us{400'000});
  CHECK(f.next(1, 400'000, false, 400'000).empty());
  for (int i = 0; i < 20; ++i) CHECK(f.next(1, 400'000).empty());
  CHECK(f.next(2, 300'000) == offsets_us{300'000});
}

TEST_CASE("PCR-7: the job's journal has a line for each order that its run is told, with whose") {
  stepping_pacer f;
  const auto shifted = [&f] {
    std::vector<std::string> out;
    for (const auto& line : f.journal)
      if (line.find(R"("event":"shifted")") != line.npos) out.push_back(line);
    return out;
  };
  CHECK(shifted().empty());
  for (int i = 0; i < 20; ++i) f.next(1, 400'000);
  REQUIRE(shifted().size() == 1);
  CHECK(shifted()[0] == R"({"event":"shifted","start_offset_ms":400.0,"parent":"row0"})");
  f.next(2, 300'000);
  CHECK(shifted().size() == 2);
}

TEST_CASE("PCR-7: no step is held back by as much as it takes, nor by a budget that holds it") {
  stepping_pacer f;
  CHECK(f.next(1, 1'000'000).empty());
  CHECK(f.next(2, ~uint64_t{0}).empty());
  CHECK(f.next(3, 400'000, true).empty());
  CHECK(f.next().empty());
}
