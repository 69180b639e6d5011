// Which point a job runs at, and when a device is asked for a clock: by tables.
#include "actors/power/slack_policy.hpp"

#include <vector>

#include <doctest/doctest.h>

#include "gpu/controls/stage_clocks_policy.hpp"

using namespace troupe::power;
using troupe::gpu::controls::clocked_operation;
using troupe::gpu::controls::stage_clocks_policy;

namespace {

/// Steps of 1, 1.1, 1.2 and 1.3 s; the third costs least.
slack_plan four_points() {
  slack_plan out;
  out.highest = {1, 1000, 800};
  out.points = {
      {{1, 900, 700}, {}}, {{1.1, 880, 650}, {}}, {{1.2, 860, 620}, {}}, {{1.3, 870, 600}, {}}};
  out.least = 2;
  return out;
}

struct scripted_slack {
  explicit scripted_slack(size_t replicas, const slack_terms& terms = {})
      : policy(replicas, terms), replica_s(replicas, 1) {
    policy.begin(plan);
  }
  void steps(int count, bool paced = false, uint64_t late = 0) {
    for (int i = 0; i < count; ++i) policy.step({replica_s, paced, late});
  }
  /// Replicas take what is planned for them, the last so many times as long.
  void follow(double times, int count) {
    for (int i = 0; i < count; ++i) {
      for (size_t r = 0; r < replica_s.size(); ++r) {
        const auto point = policy.point_of(r);
        replica_s[r] = (point ? plan.points[*point].cost.time_s : plan.highest.time_s) *
                       (r + 1 == replica_s.size() ? times : 1);
      }
      steps(1);
    }
  }

  slack_plan plan = four_points();
  slack_policy policy;
  std::vector<double> replica_s;
};

}  // namespace

TEST_CASE("SLT-2: nothing is slowed before steps at the highest clocks were measured") {
  scripted_slack job(2);
  CHECK(job.policy.state() == slack_state::measuring);
  CHECK(!job.policy.point_of(0));
  job.follow(1, 2);
  CHECK(!job.policy.point_of(1));
  job.follow(1, 1);
  CHECK(job.policy.state() == slack_state::planned);
  CHECK(job.policy.point_of(0) == 0);
  CHECK(job.policy.target_s() == doctest::Approx(1));
  job.policy.restarted();
  CHECK(job.policy.state() == slack_state::measuring);
  CHECK(!job.policy.point_of(0));
}

TEST_CASE("SLT-2: off without a plan, where nothing is saved, and under a budget's pace") {
  slack_policy none(1, {});
  const std::vector<double> one_s = {1};
  none.step({one_s, false, 0});
  none.restarted();
  CHECK(none.state() == slack_state::off);
  CHECK(none.reason() == slack_reason::no_plan);

  slack_terms later;
  later.saves_energy = false;
  scripted_slack same(1, later);
  same.follow(1, 9);
  CHECK(same.policy.state() == slack_state::off);
  CHECK(same.policy.reason() == slack_reason::no_saving);

  scripted_slack paced(2);
  paced.follow(1, 4);
  paced.steps(1, true);
  CHECK(paced.policy.reason() == slack_reason::paced);
  CHECK(!paced.policy.point_of(0));
  paced.steps(5, true);
  CHECK(paced.policy.state() == slack_state::off);
  paced.follow(1, 4);
  CHECK(paced.policy.state() == slack_state::planned);
}

TEST_CASE("SLT-3 and SLT-4: a straggler counts after some steps, and is let go at once") {
  scripted_slack job(3);
  job.follow(1, 3);
  job.follow(1.15, 2);
  CHECK(job.policy.state() == slack_state::planned);
  job.follow(1, 1);  // two in a row are no three
  job.follow(1.15, 2);
  CHECK(job.policy.state() == slack_state::planned);
  job.follow(1.15, 1);
  CHECK(job.policy.state() == slack_state::held);
  CHECK(job.policy.target_s() == doctest::Approx(1.15));
  CHECK(job.policy.point_of(0) == 1);
  CHECK(job.policy.point_of(1) == 1);
  CHECK(job.policy.point_of(2) == 0);
  job.follow(1.15, 5);
  CHECK(job.policy.point_of(0) == 1);
  job.follow(1, 1);
  CHECK(job.policy.state() == slack_state::planned);
  CHECK(job.policy.point_of(0) == 0);
}

TEST_CASE("slack: T is clamped at the step of least energy, and does not follow small moves") {
  scripted_slack job(2);
  job.follow(1, 3);
  job.follow(9, 3);
  CHECK(job.policy.target_s() == doctest::Approx(1.2));
  CHECK(job.policy.point_of(0) == 2);
  job.follow(1.11, 1);
  CHECK(job.policy.target_s() == doctest::Approx(1.11));
  CHECK(job.policy.point_of(0) == 1);
  job.follow(1.115, 1);
  CHECK(job.policy.target_s() == doctest::Approx(1.11));
  job.follow(1.13, 1);
  CHECK(job.policy.target_s() == doctest::Approx(1.13));
}

TEST_CASE("slack: the profile's times are scaled by what was measured, within reason") {
  scripted_slack job(2);
  job.replica_s = {1.05, 1.05};
  job.steps(3);
  CHECK(job.policy.target_s() == doctest::Approx(1.05));
  job.replica_s = {1.05, 1.16};
  job.steps(3);
  CHECK(job.policy.point_of(0) == 1);  // 1.155 s
  scripted_slack other(2);
  other.replica_s = {1.2, 1.2};
  other.steps(3);
  CHECK(other.policy.state() == slack_state::off);
  CHECK(other.policy.reason() == slack_reason::unlike);
}

TEST_CASE("slack: a straggler that is there from the beginning is none of the profile's") {
  scripted_slack job(2);
  job.replica_s = {1, 1.5};
  job.steps(3);
  CHECK(job.policy.state() == slack_state::planned);
  CHECK(job.policy.target_s() == doctest::Approx(1));
}

TEST_CASE("SLT-5: steps of most replicas that become longer end it until there is another plan") {
  scripted_slack job(2);
  job.follow(1, 3);
  job.replica_s = {1.015, 1.015};
  job.steps(2);
  CHECK(job.policy.state() == slack_state::planned);
  job.replica_s = {1, 1};
  job.steps(1);
  job.replica_s = {1.015, 1.015};
  job.steps(2);
  CHECK(job.policy.state() == slack_state::planned);
  job.steps(1);
  CHECK(job.policy.reason() == slack_reason::stale);
  CHECK(!job.policy.point_of(0));
  job.follow(1, 9);
  CHECK(job.policy.state() == slack_state::off);
  job.policy.begin(job.plan);
  job.follow(1, 3);
  CHECK(job.policy.state() == slack_state::planned);
}

TEST_CASE("slack: clocks that come too late end it, also after a recovery") {
  scripted_slack job(2);
  job.follow(1, 3);
  job.steps(1, false, 2);
  CHECK(job.policy.state() == slack_state::planned);
  job.steps(1, false, 1);
  CHECK(job.policy.reason() == slack_reason::late_setting);
  job.policy.restarted();
  job.follow(1, 5);
  CHECK(job.policy.state() == slack_state::off);
  CHECK(job.policy.reason() == slack_reason::late_setting);
}

TEST_CASE("slack: clocks that come late now and then end nothing") {
  scripted_slack job(2);
  job.follow(1, 3);
  for (int i = 0; i < 9; ++i) {
    job.steps(1, false, 1);
    job.steps(1);
  }
  CHECK(job.policy.state() == slack_state::planned);
  job.steps(2, false, 1);
  CHECK(job.policy.state() == slack_state::planned);
  job.steps(1, false, 1);
  CHECK(job.policy.reason() == slack_reason::late_setting);
}

TEST_CASE("SCP-1: a higher clock is asked for ahead, a lower one when nothing needs the other") {
  using wish = stage_clocks_policy::wish;
  const clocked_operation fast{1400, 0.1, 0.1}, slow{1000, 0.125, 0.1};
  const stage_clocks_policy clocks({fast, slow, slow, fast}, 0.01);
  CHECK(clocks.first_mhz() == 1400);
  CHECK(!clocks.began(0));
  CHECK(clocks.ended(0) == wish{1000, 0});
  CHECK(!clocks.began(1));
  CHECK(!clocks.ended(1));
  const auto up = clocks.began(2);
  REQUIRE(up);
  CHECK(up->mhz == 1400);
  CHECK(up->after_s == doctest::Approx(0.125 - 0.0125 - 0.0025));
  CHECK(!clocks.ended(2));
  CHECK(!clocks.ended(3));
}

TEST_CASE("SCP-1: setting that takes longer than an operation is asked for operations ahead") {
  const clocked_operation fast{1400, 0.1, 0.1}, slow{1000, 0.125, 0.1};
  const stage_clocks_policy clocks({fast, slow, slow, slow, fast}, 0.15);
  // 0.1875 and the sooner end ahead of the fast one: while the second of three slow ones runs.
  CHECK(!clocks.began(1));
  const auto up = clocks.began(2);
  REQUIRE(up);
  CHECK(up->mhz == 1400);
  CHECK(up->after_s == doctest::Approx(0.25 - 0.1875 - 0.0025));
  // Round the end: the first of the next step.
  const stage_clocks_policy round({fast, slow}, 0.01);
  REQUIRE(round.began(1));
  CHECK(round.began(1)->mhz == 1400);
}
