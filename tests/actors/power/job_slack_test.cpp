// The slack of a job that trains: which tables its run is told of, when, and why not.
#include "actors/power/job_slack.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/actors/power/scripted_pacer.hpp"
#include "tests/actors/power/slack_profiles.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::power::test::pacer_epoch;
using troupe::power::test::scripted_pacer;

namespace {

constexpr int slack_stages = 4, slack_micro_batches = 8;
const int steps_measured = live_slack_terms().measured_steps;

/// Planned once for all tests.
planned_slack_ptr plan_of_four() {
  static const planned_slack_ptr it = [] {
    auto out = std::make_shared<planned_slack>();
    out->policy =
        std::make_unique<frontier_policy>(a100_form(slack_stages), slack_micro_batches, 84);
    out->set_s = 0.01;
    out->plan = plan_slack(*out->policy, planned_frontier(*out->policy), out->set_s);
    return out;
  }();
  return it;
}

struct training_job {
  job_slack slack{[] { return plan_of_four(); }};
  fbs::StepMadeT made;
  uint32_t epoch = 3;

  explicit training_job(size_t replicas = 2) {
    made.stages = slack_stages;
    made.micro_batches = slack_micro_batches;
    made.sets_clocks = made.saves_energy = true;
    made.replica_s.assign(replicas, plan_of_four()->plan.highest.time_s);
  }
  std::optional<fbs::JobClocksT> step() { return slack.made(made, epoch, 0); }
  /// To where it is planned; what is told then.
  fbs::JobClocksT plan() {
    for (int i = 1; i < steps_measured; ++i) step();
    auto out = step();
    REQUIRE(out);
    return std::move(*out);
  }
};

double sum_of(const std::vector<float>& all) {
  double out = 0;
  for (const float s : all) out += static_cast<double>(s);
  return out;
}

}  // namespace

TEST_CASE("JSL-1, JSL-3: slack: behind the measured steps a run is told of tables that fit, once") {
  training_job job;
  const auto first = job.step();
  REQUIRE(first);
  CHECK(first->state == "measuring");
  CHECK(first->of_replica.empty());
  for (int i = 2; i < steps_measured; ++i) CHECK_FALSE(job.step());
  const auto planned = job.step();
  REQUIRE(planned);
  CHECK(planned->state == "planned");
  CHECK(planned->of_epoch == 3);
  CHECK_FALSE(planned->warns);
  CHECK_FALSE(planned->notice.empty());
  CHECK(planned->of_replica == std::vector<uint32_t>{0, 0});
  REQUIRE(planned->tables.size() == 1);
  REQUIRE(planned->tables[0]->stages.size() == slack_stages);
  bool is_any_lower = false, is_any_longer = false;
  for (const auto& stage : planned->tables[0]->stages) {
    CHECK(stage->mhz.size() == 2 * slack_micro_batches);
    CHECK(stage->lasts_s.size() == stage->mhz.size());
    const double times = sum_of(stage->lasts_s) / sum_of(stage->shortest_s);
    CHECK(static_cast<double>(stage->times) == doctest::Approx(times).epsilon(1e-4));  // JSL-4
    is_any_longer |= stage->times > 1.01F;
    for (const auto mhz : stage->mhz) is_any_lower |= mhz < 1410;
    for (size_t i = 0; i < stage->mhz.size(); ++i) CHECK(stage->lasts_s[i] >= stage->shortest_s[i]);
  }
  CHECK(is_any_lower);
  CHECK(is_any_longer);
  CHECK_FALSE(job.step());
  CHECK(job.slack.words().starts_with("planned, for steps of "));
}

TEST_CASE("JSL-1: slack: in another epoch it begins anew, and other micro-batches have no table") {
  training_job job;
  job.plan();
  job.epoch = 4;
  const auto anew = job.step();
  REQUIRE(anew);
  CHECK(anew->state == "measuring");
  CHECK(anew->of_replica.empty());
  CHECK(anew->of_epoch == 4);
  job.epoch = 5;
  job.made.micro_batches = 12;  // a replica is lost
  job.made.replica_s.resize(1);
  const auto other = job.step();
  REQUIRE(other);
  CHECK(other->state == "off: other_job");
  CHECK(other->warns);
  CHECK(other->of_replica.empty());
}

TEST_CASE("JSL-2: slack: devices that save nothing, or have no clock to set, claim nothing") {
  training_job same;
  same.made.saves_energy = false;
  const auto told = same.step();
  REQUIRE(told);
  CHECK(told->state == "off: no_saving");
  CHECK(told->warns);
  CHECK_FALSE(told->notice.empty());
  CHECK(told->of_replica.empty());
  for (int i = 0; i < 9; ++i) CHECK_FALSE(same.step());  // said once
  same.epoch = 4;                                        // its run knows nothing of it any more
  const auto again = same.step();
  REQUIRE(again);
  CHECK(again->state == "off: no_saving");
  CHECK(again->notice.empty());

  training_job none;
  none.made.sets_clocks = false;
  REQUIRE(none.step());
  CHECK(none.slack.state() == "off: no_clocks");
}

TEST_CASE("JSL-5: slack: a step whose times are none is passed over, also among the measured") {
  training_job job;
  REQUIRE(job.step());
  const auto right = job.made.replica_s;
  for (const double none :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1.0}) {
    job.made.replica_s[1] = none;
    CHECK_FALSE(job.step());
  }
  job.made.replica_s = right;
  for (int i = 2; i < steps_measured; ++i) CHECK_FALSE(job.step());
  const auto planned = job.step();
  REQUIRE(planned);
  CHECK(planned->state == "planned");
}

TEST_CASE("JSL-2: slack: a device that takes no clock turns it off for all") {
  training_job job;
  job.plan();
  job.made.failed = 1;
  const auto told = job.step();
  REQUIRE(told);
  CHECK(told->state == "off: refused");
  CHECK(told->warns);
  CHECK(told->of_replica.empty());
  CHECK_FALSE(job.step());
}

TEST_CASE(
    "SLT-2: slack: a budget's pace has all at the highest clocks, and what follows is measured") {
  training_job job;
  job.plan();
  job.made.paced = true;
  const auto paced = job.step();
  REQUIRE(paced);
  CHECK(paced->state == "off: paced");
  CHECK(paced->of_replica.empty());
  CHECK(paced->notice.empty());
  CHECK_FALSE(job.step());
  job.made.paced = false;
  const auto again = job.step();
  REQUIRE(again);
  CHECK(again->state == "measuring");
}

TEST_CASE("JSL-4: slack: replicas that are slowed for a straggler say by how much") {
  training_job job;
  job.plan();
  const double planned_s =
      plan_of_four()->plan.points[plan_of_four()->plan.unchanged()].cost.time_s;
  job.made.replica_s = {planned_s, 1.2 * planned_s};
  CHECK_FALSE(job.step());
  CHECK_FALSE(job.step());
  const auto held = job.step();
  REQUIRE(held);
  CHECK(held->state == "held");
  CHECK(held->of_replica == std::vector<uint32_t>{0, 1});
  REQUIRE(held->tables.size() == 2);
  double slowed_s = 0, usual_s = 0;
  for (int s = 0; s < slack_stages; ++s) {
    const auto& slowed = *held->tables[0]->stages[static_cast<size_t>(s)];
    const auto& usual = *held->tables[1]->stages[static_cast<size_t>(s)];
    CHECK(static_cast<double>(slowed.times / usual.times) ==
          doctest::Approx(sum_of(slowed.lasts_s) / sum_of(usual.lasts_s)).epsilon(1e-4));
    slowed_s += sum_of(slowed.lasts_s);
    usual_s += sum_of(usual.lasts_s);
  }
  CHECK(slowed_s > usual_s);
}

TEST_CASE("JSL-7: slack: while clocks are given back it says where, since when and for how many") {
  training_job job;
  job.made.ranks = 8;
  job.made.given_back = 2;
  job.made.given_back_to = 3;
  for (job.made.step = 1; job.made.step < static_cast<uint64_t>(steps_measured); ++job.made.step) {
    job.step();
    CHECK(job.slack.words().find("given back") == std::string::npos);  // none has any
  }
  job.made.given_back = job.made.given_back_to = 0;
  REQUIRE(job.step());
  const auto planned = job.slack.words();
  job.made.step = 12;
  job.made.given_back = 2;
  job.made.given_back_to = 3;
  CHECK_FALSE(job.step());  // a run does as before
  CHECK(job.slack.words() ==
        planned +
            "; given back at 2 of 8 ranks since step 12: 3 other processes compute on their "
            "devices");
  job.made.step = 13;
  job.made.given_back = job.made.given_back_to = 1;
  job.step();
  CHECK(job.slack.words() ==
        planned +
            "; given back at 1 of 8 ranks since step 12: 1 other process computes on their "
            "devices");
  job.made.given_back = job.made.given_back_to = 8;
  job.step();
  CHECK(job.slack.words().starts_with("given back at 8 of 8 ranks since step 12: 8 other "));
  CHECK(job.slack.words().ends_with(planned));
  job.made.given_back = job.made.given_back_to = 0;
  job.step();
  CHECK(job.slack.words() == planned);
}

TEST_CASE("slack: while there is no plan yet nothing is told") {
  job_slack waits([]() -> planned_slack_ptr { return nullptr; });
  training_job job;
  CHECK_FALSE(waits.made(job.made, 3, 0));
  CHECK(waits.state() == "off: no_plan");
}

TEST_CASE("JSL-6: slack: where no plan can be made of what was measured, that is said once") {
  auto none = std::make_shared<planned_slack>();
  none->note = "no row draws more";
  job_slack unplanned([&] { return planned_slack_ptr(none); });
  training_job job;
  const auto told = unplanned.made(job.made, 3, 0);
  REQUIRE(told);
  CHECK(told->state == "off: unmeasured");
  CHECK(told->notice == "no row draws more");
  CHECK(told->warns);
  CHECK(told->of_replica.empty());
  CHECK_FALSE(unplanned.made(job.made, 3, 0));
  const auto anew = unplanned.made(job.made, 4, 0);
  REQUIRE(anew);
  CHECK(anew->notice.empty());
}

TEST_CASE("pacer: of a job that takes slack it says which clocks operations have, and how it is") {
  scripted_pacer f;
  pacer_options options{0, pacer_epoch};
  options.slack = [] { return plan_of_four(); };
  f.start(options);
  training_job job;
  for (int i = 0; i < steps_measured; ++i, ++job.made.step)
    f.run.tell(f.target, make_msg<fbs::StepMade>(f.context(), job.made));
  const auto told = f.run.take_all<fbs::JobClocks>();
  REQUIRE(told.size() == 2);
  CHECK(told[1]->state()->str() == "planned");
  CHECK(told[1]->of_epoch() == pacer_epoch);
  CHECK(told[1]->of_replica()->size() == 2);
  CHECK(f.status().slack.starts_with("planned, for steps of "));
  CHECK(f.status().slack.ends_with(fmt::format(" s, since step {}", steps_measured - 1)));
  f.run.tell(f.target, make_msg<fbs::StepMade>(f.context(), job.made));
  CHECK(f.status().slack.ends_with(fmt::format(" s, since step {}", steps_measured - 1)));
  job.made.given_back = job.made.given_back_to = 1;  // JSL-7: its status follows
  f.run.tell(f.target, make_msg<fbs::StepMade>(f.context(), job.made));
  CHECK(f.status().slack.find("given back at 1 of ") != std::string::npos);
  CHECK(f.run.take_all<fbs::JobClocks>().empty());
  scripted_pacer without;
  without.start({0, pacer_epoch});
  without.run.tell(without.target, make_msg<fbs::StepMade>(without.context(), job.made));
  CHECK(without.run.idle());
  CHECK(without.status().slack.empty());
}
