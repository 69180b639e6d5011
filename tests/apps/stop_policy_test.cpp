// What a signal means: a table of phases, signals and times.
#include "apps/up/stop_policy.hpp"

#include <vector>

#include <doctest/doctest.h>

using troupe::apps::phase;
using troupe::apps::stop_policy;
using troupe::apps::stop_verdict;

namespace {

struct heard_signal {
  phase during;
  int signal;
  int at_ms;
  stop_verdict expected;
};

void follow(const std::vector<heard_signal>& all) {
  stop_policy p;
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    CHECK(p.heard(all[i].during, all[i].signal, std::chrono::milliseconds(all[i].at_ms)) ==
          all[i].expected);
  }
}

constexpr auto stop = stop_verdict::stop;
constexpr auto nothing = stop_verdict::nothing;
constexpr auto at_once = stop_verdict::at_once;

}  // namespace

TEST_CASE("stop: STP-1: two equal signals within a second are one, later or other ones are not") {
  follow({{phase::running, SIGTERM, 5000, stop},  // `timeout`: to the process, then to its group
          {phase::running, SIGTERM, 5000, nothing},
          {phase::running, SIGTERM, 5999, nothing},
          {phase::running, SIGTERM, 7000, at_once}});
  follow({{phase::running, SIGINT, 0, stop}, {phase::running, SIGINT, 1000, at_once}});
  follow({{phase::running, SIGINT, 0, stop}, {phase::running, SIGTERM, 1, at_once}});
  follow({{phase::running, SIGINT, 0, stop},
          {phase::running, SIGINT, 900, nothing},
          {phase::running, SIGINT, 1800, at_once}});
}

TEST_CASE("stop: STP-2: a closed terminal may be told of any number of times") {
  follow({{phase::running, SIGHUP, 0, stop},
          {phase::running, SIGHUP, 10, nothing},
          {phase::running, SIGHUP, 60'000, nothing},
          {phase::concluding, SIGHUP, 120'000, nothing}});
  follow({{phase::running, SIGTERM, 0, stop}, {phase::running, SIGHUP, 1, nothing}});  // systemd
  follow({{phase::running, SIGHUP, 0, stop}, {phase::running, SIGINT, 60'000, at_once}});
}

TEST_CASE("stop: STP-3: a start ends at once, a conclusion at the second signal") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    follow({{phase::starting, signal, 0, at_once}});
    follow({{phase::concluding, signal, 0, stop}});
  }
  follow({{phase::running, SIGINT, 0, stop}, {phase::concluding, SIGINT, 9000, at_once}});
}
