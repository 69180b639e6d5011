// A job's pace on machines that it shares with others.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/job_pace_policy.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t a_tick = 1'000'000, a_second = 1'000 * a_tick;

}  // namespace

TEST_CASE("JPP-8: of a machine that others use, too, the job's part counts from then on") {
  job_pace_policy policy;
  int64_t now = 0;
  double used_j = 0;
  const auto seconds = [&](int n, double power_w, double own, double all) {
    for (int i = 0; i < n; ++i) {
      now += a_second;
      policy.hear("node0", "boot0",
                  {power_w, used_j += power_w, true, now, a_second, 200, own, all}, now);
    }
  };
  seconds(1, 20, 0, 0);
  seconds(10, 60, 1, 4);
  CHECK(policy.sum(now).energy_j == doctest::Approx(600));
  policy.set_shared({{"boot0", 2}, {"boot9", 3}}, now);
  CHECK(policy.sum(now).power_w == 60);  // it was read before
  seconds(10, 60, 1, 4);
  CHECK(policy.sum(now).power_w == doctest::Approx(10 + 10));  // half of 20 W, a quarter of 40
  CHECK(policy.sum(now).idle_w == doctest::Approx(10));
  CHECK(policy.sum(now).limit_w == 200);  // all of it may come to be the job's
  CHECK(policy.sum(now).energy_j == doctest::Approx(800));
  seconds(1, 60, -1, 4);  // what it works is not known: all that work draws may be its
  CHECK(policy.sum(now).power_w == doctest::Approx(50));
  policy.set_shared({}, now);  // who says so may have begun a moment ago
  seconds(1, 60, 1, 4);
  CHECK(policy.sum(now).power_w == doctest::Approx(20));
  seconds(60, 60, 1, 4);
  policy.set_shared({}, now);
  seconds(1, 60, 1, 4);
  CHECK(policy.sum(now).power_w == 60);
}

TEST_CASE("JPP-8: what a job's head computes is its, too, where that is and while it is said") {
  job_pace_policy policy;
  int64_t now = 0;
  const auto drawn_w = [&](double power_w, double own, double all) {
    now += a_second;
    policy.hear("node0", "boot0", {power_w, -1, true, now, a_second, 200, own, all}, now);
    return policy.sum(now).power_w;
  };
  drawn_w(20, 0, 0);
  policy.set_shared({{"boot0", 2}}, now);
  CHECK(drawn_w(60, 1, 4) == doctest::Approx(10 + 10));
  policy.hear_head("boot0", 7, 100, now);  // what it used before is of no look
  CHECK(drawn_w(60, 1, 4) == doctest::Approx(10 + 10));
  policy.hear_head("boot0", 8, 104, now);
  CHECK(drawn_w(60, 1, 4) == doctest::Approx(10 + 20));
  policy.hear_head("boot0", -1, -1, now);                  // the last that was known
  CHECK(drawn_w(60, 3.5, 4) == doctest::Approx(10 + 40));  // no more than all
  policy.hear_head("boot1", 8, 104, now);
  CHECK(drawn_w(60, 1, 4) == doctest::Approx(10 + 20));
  policy.hear_head("boot1", 9, 108, now);
  CHECK(drawn_w(60, 1, 4) == doctest::Approx(10 + 10));
  policy.hear_head("boot0", 10, 112, now);
  CHECK(drawn_w(60, 1, 4) == doctest::Approx(10 + 20));
  now += 10 * a_second;
  CHECK(drawn_w(60, 1, 4) == doctest::Approx(10 + 10));
}

TEST_CASE("JPP-6: a cap that comes with word of a shared machine binds the next step") {
  job_pace_policy policy;
  policy.set_budget(110);
  int64_t now = 0;
  double used_j = 0;
  const auto seconds = [&](int n, double power_w, double own, double all) {
    for (int i = 0; i < n; ++i) {
      now += a_second;
      policy.hear("node0", "boot0",
                  {power_w, used_j += power_w, true, now, a_second, 100, own, all}, now);
      const auto next = policy.decide(now);
      policy.steps(static_cast<uint64_t>(now / a_second), next.pace, now);
    }
  };
  seconds(2, 20, 0, 0);
  seconds(20, 100, 2, 2);
  CHECK(policy.decide(now).pace == work_pace{});
  // 10 W of 20 without work are its own now, and all of the 80 that work draws.
  policy.set_shared({{"boot0", 2}}, now);
  policy.set_budget(50 / job_pace_policy::aim);
  CHECK(policy.decide(now).pace.share() == doctest::Approx(0.5).epsilon(0.02));
}

TEST_CASE("JPP-8: all nodes of a job on a machine count, and each of its machines by itself") {
  job_pace_policy policy;
  const auto says = [&](const std::string& node, const std::string& machine, double power_w,
                        double own, double all, int64_t now) {
    policy.hear(node, machine, {power_w, -1, true, now, a_second, -1, own, all}, now);
  };
  says("node0", "boot0", 20, 0, 0, a_second);
  policy.set_shared({{"boot0", 2}}, a_second);
  says("node1", "boot0", 58, 1, 4, 2 * a_second - a_tick);  // another look of the same watts
  says("node0", "boot0", 60, 1, 4, 2 * a_second);
  CHECK(policy.sum(2 * a_second).power_w == doctest::Approx(10 + 20));
  says("node2", "boot1", 50, 0.5, 2, 2 * a_second);
  CHECK(policy.sum(2 * a_second).power_w == doctest::Approx(30 + 50));
  CHECK(policy.machines() == std::set<std::string>{"boot0", "boot1"});
  // Of node1 nothing is known now.
  says("node0", "boot0", 60, 1, 4, 20 * a_second);
  says("node2", "boot1", 50, 0.5, 2, 20 * a_second);
  CHECK(policy.sum(20 * a_second).power_w == doctest::Approx(20 + 50));
}

namespace {

/// Jobs on one machine, which draws 20 W and 40 more for each whole processor. Each works as fast
/// as its pace lets it, unless a person has it paused.
struct crowd {
  struct member {
    job_pace_policy policy;
    work_pace pace{0};
    uint64_t step = 0;
    bool paused = false;
  };
  std::vector<member> jobs;
  double used_j = 0;
  int64_t now = 0;

  explicit crowd(const std::vector<double>& budgets_w) : jobs(budgets_w.size()) {
    for (size_t i = 0; i < jobs.size(); ++i) jobs[i].policy.set_budget(budgets_w[i]);
  }
  /// The mean of all seconds.
  double pass(int seconds) {
    const double before_j = used_j;
    for (int i = 0; i < seconds; ++i) second();
    return (used_j - before_j) / seconds;
  }

 private:
  void second() {
    now += a_second;
    double busy = 0;
    for (const auto& j : jobs) busy += j.pace.share();
    const double power_w = 20 + 40 * busy;
    used_j += power_w;
    for (auto& j : jobs) {
      j.policy.set_shared({{"boot", static_cast<uint32_t>(jobs.size())}}, now);
      j.policy.hear("node", "boot",
                    {power_w, used_j, true, now, a_second, 100, j.pace.share(), busy}, now);
      const auto next = j.policy.decide(now);
      const bool works = !next.holds && !j.paused;
      j.pace = works ? next.pace : work_pace{0};
      j.policy.steps(works ? ++j.step : 0, j.pace, now);
    }
  }
};

}  // namespace

TEST_CASE("JPP-8: two jobs on one machine each keep a budget, and the machine keeps both") {
  crowd c({45, 25});
  c.pass(300);
  const double mean_w = c.pass(200);  // 70 W are all there is
  CHECK(mean_w <= 70 * 1.02);
  CHECK(mean_w >= 70 * 0.95);
  CHECK(c.jobs[0].policy.sum(c.now).power_w == doctest::Approx(45).epsilon(0.05));
  CHECK(c.jobs[1].policy.sum(c.now).power_w == doctest::Approx(25).epsilon(0.05));
}

TEST_CASE("JPP-8: a job that pauses and goes on beside another changes nothing of what that may") {
  crowd c({40, 30});
  c.pass(300);
  const auto pace = c.jobs[0].pace;
  for (int round = 0; round < 10; ++round) {
    c.jobs[1].paused = !c.jobs[1].paused;
    for (int i = 0; i < 40; ++i) {
      const double all_w = c.pass(1);
      CHECK(all_w <= 70 * 1.02);
      CHECK(c.jobs[0].pace.share() == doctest::Approx(pace.share()).epsilon(0.05));
    }
    CHECK((c.jobs[1].pace == work_pace{0}) == c.jobs[1].paused);
  }
}
