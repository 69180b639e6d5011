// [[recovery.rule]]: what a configuration says of findings, what it does not say, and what is
// refused.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "io/config/load.hpp"
#include "io/config/properties.hpp"
#include "io/config/show.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::config;
using health::finding_name;

namespace {

const std::string least = "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";

result<job> with_rules(const std::string& text) {
  return parse(least + text, "job.toml");
}

}  // namespace

TEST_CASE("rules: without one each finding that a job acts on has its default") {
  const auto got = with_rules("");
  REQUIRE(got);
  CHECK(got->recovery.rule == default_rules());
  CHECK(with_rules("[recovery]\nrule = []\n")->recovery.rule == default_rules());
}

TEST_CASE(
    "rules: a finding's own take the place of its default one, the others keep theirs (J-6)") {
  const auto got = with_rules(
      "[[recovery.rule]]\nfinding = 'lost_host'\ndo = 'restart'\ntimes = 1\nwithin_s = 60\n"
      "[[recovery.rule]]\nfinding = 'lost_host'\ndo = 'end'\n");
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  const auto& rules = got->recovery.rule;
  REQUIRE(rules.size() == acted_on.size() + 1);
  CHECK(rules[0] == recovery_rule{finding_name::lost_host, recovery_action::restart, 60, 1});
  CHECK(rules[1] == recovery_rule{finding_name::lost_host, recovery_action::end, 3600, 0});
  for (const auto finding : acted_on)
    CHECK(std::count_if(rules.begin(), rules.end(), [&](const auto& r) {
            return r.finding == finding;
          }) == (finding == finding_name::lost_host ? 2 : 1));
  CHECK(parse(to_toml(*got), "again")->recovery == got->recovery);  // J-4
}

TEST_CASE("rules: what is wrong with one is said with its place and the nearest name") {
  struct wrong {
    std::string text, place, what;
  };
  const std::string rule = "[[recovery.rule]]\n";
  for (const auto& w : {
           wrong{rule + "finding = 'dead_proces'\n", "job.toml:8:11",
                 "did you mean \"dead_process\"?"},
           wrong{rule + "finding = 'dead_process'\ndo = 'restrat'\n", "job.toml:9:6",
                 "did you mean \"restart\"?"},
           wrong{rule + "finding = 'dead_process'\ntime = 1\n", "job.toml:9:1",
                 "did you mean recovery.rule.times?"},
           wrong{rule + "do = 'end'\n", "job.toml:7:1", "needs a finding"},
           wrong{rule + "finding = 'disk_slow'\n", "job.toml:7:1", "no rule can act on it"},
           wrong{"[recovery]\nrule = 3\n", "job.toml:8:1", "expected [[recovery.rule]] tables"},
       }) {
    CAPTURE(w.text);
    const auto got = with_rules(w.text);
    REQUIRE_FALSE(got);
    const auto said = render(got.error());
    CAPTURE(said);
    CHECK(said.find(w.place) != std::string::npos);
    CHECK(said.find(w.what) != std::string::npos);
  }
}
