// When a spare may take the place of a node that is slow.
#include "actors/health/slow_evictions_policy.hpp"

#include <vector>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::health;
using config::recovery_action, config::recovery_rule;

namespace {

struct eviction_rules {
  config::recovery_section rules;
  std::vector<past_recovery> past;
  uint64_t spares = 1;

  eviction_rules() {
    rules.enabled = true;
    rules.evict_slow = true;
  }
  bool allow() const { return slow_evictions_policy::allows(rules, spares, past); }
};

}  // namespace

TEST_CASE("SEV-1: only where it is wanted, recoveries are on, and a spare is there") {
  eviction_rules e;
  CHECK(e.allow());
  e.spares = 0;
  CHECK_FALSE(e.allow());
  e.spares = 1;
  e.rules.evict_slow = false;
  CHECK_FALSE(e.allow());
  CHECK_FALSE(config::recovery_section().evict_slow);
  e.rules.evict_slow = true;
  e.rules.enabled = false;
  CHECK_FALSE(e.allow());
}

TEST_CASE("SEV-2: twice an hour, and never with the last recovery that the hour allows") {
  eviction_rules e;
  e.past = {{"straggler", 10}};
  CHECK(e.allow());
  e.past.push_back({"straggler", 3599});
  CHECK_FALSE(e.allow());
  e.past.back().ago_s = 3600;
  CHECK(e.allow());
  e.past = {{"dead_process", 10}, {"dead_process", 20}, {"dead_process", 5000}};
  e.rules.most_per_hour = 4;
  CHECK(e.allow());
  e.rules.most_per_hour = 3;
  CHECK_FALSE(e.allow());
  e.past.clear();
  e.rules.most_per_hour = 1;
  CHECK_FALSE(e.allow());
}

TEST_CASE("SEV-2: a rule's budget is never used up for slowness: a job would end over it") {
  eviction_rules e;
  e.rules.rule = {recovery_rule{finding_name::straggler, recovery_action::restart, 7200, 1}};
  CHECK(e.allow());
  e.past = {{"straggler", 5000}};
  CHECK_FALSE(e.allow());
  e.rules.rule.push_back(recovery_rule{finding_name::straggler, recovery_action::hold, 3600, 0});
  CHECK(e.allow());
  e.rules.rule = {recovery_rule{finding_name::dead_process, recovery_action::restart, 3600, 0}};
  CHECK_FALSE(e.allow());
}
