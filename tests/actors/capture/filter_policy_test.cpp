// Patterns, rates and limits of a view.
#include "actors/capture/filter_policy.hpp"
#include "io/base/text.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::trace;

namespace {

filter_policy make(filter_rule rule) {
  return filter_policy(
      std::move(rule),
      [](uint32_t actor) {
        return actor == 1 ? "stage/0" : actor == 2 ? "worker/0" : actor == 3 ? "gateway" : "";
      },
      [](record_kind kind, uint16_t type) {
        return kind == record_kind::work ? "forward" : type == 7 ? "RunStep" : "RunOp";
      });
}

trace_record record(uint32_t actor, uint16_t type, float handling_s = 0, float waiting_s = 0) {
  trace_record r;
  r.actor = actor;
  r.type = type;
  r.handling_s = handling_s;
  r.mailbox_s = waiting_s;
  return r;
}

}  // namespace

TEST_CASE("patterns") {
  struct row {
    const char *pattern, *text;
    bool fits;
  };
  for (const auto& [pattern, text, fits] :
       {row{"", "x", true}, row{"*", "", true}, row{"stage/*", "stage/12", true},
        row{"stage/?", "stage/12", false}, row{"*/0", "stage/0", true},
        row{"s*g*0", "stage/0", true},
        row{"stage", "stage/0", false}, row{"a*b*c", "abbc", true}, row{"a*b*c", "acb", false},
        row{"**", "x", true}, row{"?", "", false}}) {
    CAPTURE(pattern);
    CAPTURE(text);
    CHECK(glob_match(pattern, text) == fits);
  }
}

TEST_CASE("actor and message must fit, work goes by its name") {
  auto f = make({.actor = "stage/*", .message = "RunS*", .max_records = 10});
  CHECK(f.passes(record(1, 7), 0));
  CHECK_FALSE(f.passes(record(1, 8), 0));
  CHECK_FALSE(f.passes(record(2, 7), 0));
  auto work = record(1, 7);
  work.kind = record_kind::work;
  CHECK_FALSE(f.passes(work, 0));
}

TEST_CASE("slower-than looks at waiting and at handling") {
  auto f = make({.slower_than_ns = 5'000'000, .max_records = 10});
  CHECK_FALSE(f.passes(record(1, 7, 0.004f, 0.004f), 0));
  CHECK(f.passes(record(1, 7, 0.006f, 0), 0));
  CHECK(f.passes(record(1, 7, 0, 0.006f), 0));
}

TEST_CASE("FIL-1: the limit holds, and a limit of nothing lets nothing pass") {
  auto f = make({.max_records = 2});
  CHECK(f.passes(record(1, 7), 0));
  CHECK_FALSE(f.exhausted());
  CHECK(f.passes(record(1, 7), 0));
  CHECK(f.exhausted());
  CHECK_FALSE(f.passes(record(1, 7), 0));
  CHECK_FALSE(make({}).passes(record(1, 7), 0));
}

TEST_CASE("FIL-1: the rate holds and what it leaves out is counted") {
  auto f = make({.max_records = 1000, .rate_per_s = 10});
  int passed = 0;
  for (int i = 0; i < 100; ++i) passed += f.passes(record(1, 7), 0) ? 1 : 0;
  CHECK(passed == 10);
  CHECK(f.over_rate() == 90);
  CHECK_FALSE(f.passes(record(1, 7), 50'000'000));
  CHECK(f.passes(record(1, 7), 150'000'000));
}

TEST_CASE("FIL-2: a view does not show itself unless it is asked for by name") {
  CHECK_FALSE(make({.max_records = 9}).passes(record(3, 7), 0));
  CHECK_FALSE(make({.actor = "*", .max_records = 9}).passes(record(3, 7), 0));
  CHECK(make({.actor = "gateway", .max_records = 9}).passes(record(3, 7), 0));
}
