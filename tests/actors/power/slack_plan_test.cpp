// Tables of clocks that devices can follow: by hand, and of whole frontiers.
#include "actors/power/slack_plan.hpp"

#include <algorithm>
#include <stop_token>
#include <vector>

#include <doctest/doctest.h>

#include "tests/actors/power/slack_profiles.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

/// One stage, its order forward and backward by turns: 0.1 s at 1400 MHz, 0.125 s at 1000.
clock_profile one_slack_stage() {
  clock_profile out;
  out.stages.resize(1);
  for (auto& rows : out.stages[0]) rows = {{1400, 0.1, 30}, {1200, 0.11, 27}, {1000, 0.125, 25}};
  return out;
}

/// The clocks of a stage's operations in their order, when each begins, and how long the step is.
struct walked_stage {
  std::vector<int> mhz;
  std::vector<double> begins_s, leads_s;
  double step_s = 0;
};

walked_stage walked(const pipeline_dag& dag, const clock_profile& profile, const clock_table& table,
                    int stage, double set_s) {
  std::vector<double> lasting;
  for (size_t i = 0; i < table.size(); ++i)
    lasting.push_back(profile.rows(dag.nodes()[i].stage, dag.nodes()[i].which)[table[i]].time_s);
  const auto ends = dag.ends(lasting);
  walked_stage out;
  out.step_s = ends.back();
  for (size_t i = 0; i < table.size(); ++i) {
    if (dag.nodes()[i].stage != stage) continue;
    out.mhz.push_back(clock_of(profile, dag.nodes()[i], table[i]));
    out.begins_s.push_back(ends[i] - lasting[i]);
    out.leads_s.push_back(lead_of(profile.rows(stage, dag.nodes()[i].which), table[i], set_s));
  }
  return out;
}

/// The first change of a clock that comes too soon after another (SLP-2); none: -1.
int too_soon(const walked_stage& w, double set_s) {
  const size_t n = w.mhz.size();
  for (size_t i = 0; i < n; ++i) {
    const int before = w.mhz[(i + n - 1) % n];
    if (w.mhz[i] == before) continue;
    size_t k = i;
    double lead_s = 0;
    for (; w.mhz[k % n] == w.mhz[i]; ++k) lead_s = std::max(lead_s, w.leads_s[k % n]);
    const double lasts_s = w.begins_s[k % n] + (k >= n ? w.step_s : 0) - w.begins_s[i];
    const bool left_for_higher = w.mhz[k % n] > w.mhz[i];
    const double needs_s = !left_for_higher ? set_s : lead_s + (before > w.mhz[i] ? set_s : 0);
    if (lasts_s < needs_s * (1 - 1e-9)) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

TEST_CASE("SLP-2: neighbours that are too short for a change share the higher clock") {
  const auto profile = one_slack_stage();
  const pipeline_dag dag(1, 3);
  // Down and up again takes 40 ms and what a slower operation's lead is more: there is time.
  const clock_table valley = {0, 2, 0, 0, 0, 0};
  CHECK(followable(dag, profile, valley, 0.04) == valley);
  CHECK(followable(dag, profile, valley, 0.06) == clock_table{0, 0, 0, 0, 0, 0});
  CHECK(followable(dag, profile, valley, 0) == valley);
  // Steps down, one operation each, need what one change takes.
  CHECK(followable(dag, profile, {0, 1, 2, 2, 2, 0}, 0.1) == clock_table{0, 1, 2, 2, 2, 0});
  // The order goes round: what the last operation has the first one of the next step has, too.
  CHECK(followable(dag, profile, {2, 0, 0, 0, 0, 2}, 0.1) == clock_table{2, 0, 0, 0, 0, 2});
  CHECK(followable(dag, profile, {2, 0, 0, 0, 0, 0}, 0.1) == clock_table{0, 0, 0, 0, 0, 0});
  // The nearer of two higher clocks.
  CHECK(followable(dag, profile, {0, 0, 2, 1, 1, 1}, 0.1) == clock_table{0, 0, 1, 1, 1, 1});
  // A peak raises what is beside it.
  CHECK(followable(dag, profile, {2, 2, 2, 0, 2, 2}, 0.09) == clock_table{2, 2, 2, 0, 2, 2});
  CHECK(followable(dag, profile, {2, 2, 2, 0, 2, 2}, 0.11) == clock_table{0, 0, 0, 0, 0, 0});
}

TEST_CASE("SLP-1: joined operations have clocks of their own rows, none lower than before") {
  auto profile = one_slack_stage();
  // Backwards have no 1200 MHz: what is shared is a clock that both have.
  profile.stages[0][1] = {{1400, 0.1, 30}, {1000, 0.125, 25}};
  const pipeline_dag dag(1, 2);
  CHECK(followable(dag, profile, {1, 1, 1, 1}, 0.5) == clock_table{0, 0, 0, 0});
  CHECK(followable(dag, profile, {2, 1, 2, 1}, 0.5) == clock_table{2, 1, 2, 1});
  CHECK(followable(dag, profile, {1, 0, 1, 0}, 0.5) == clock_table{0, 0, 0, 0});
  CHECK(followable(dag, profile, {2, 0, 2, 1}, 0.5) == clock_table{0, 0, 0, 0});
}

TEST_CASE("SLP-1 and SLP-2: every point of a frontier, for devices of any swiftness") {
  frontier_policy policy(a100_form(4), 8, 84);
  const auto found = planned_frontier(policy);
  const auto& dag = policy.dag();
  for (const double set_s : {0.0, 0.005, 0.02, 0.06, 0.3}) {
    CAPTURE(set_s);
    for (size_t i = 0; i < found.own.size(); i += 9) {
      const auto table = followable(dag, policy.profile(), found.own[i].clocks, set_s);
      bool lower = false;
      for (size_t k = 0; k < table.size(); ++k) lower |= table[k] > found.own[i].clocks[k];
      CHECK(!lower);
      for (int s = 0; s < dag.stages(); ++s)
        CHECK(too_soon(walked(dag, policy.profile(), table, s, set_s), set_s) == -1);
    }
  }
}

TEST_CASE("SLP-3: points cost less the longer they are, by the table that devices follow") {
  frontier_policy policy(a100_form(4), 8, 84);
  const auto found = planned_frontier(policy);
  double before_j = 0;
  for (const double set_s : {0.0, 0.01, 0.05, 10.0}) {
    CAPTURE(set_s);
    const auto plan = plan_slack(policy, found, set_s);
    CHECK(plan.points.front().cost.time_s <= plan.highest.time_s * (1 + 1e-12));
    for (size_t i = 0; i < plan.points.size(); ++i) {
      const auto& p = plan.points[i];
      CHECK(p.cost.energy_j >= plan.points[plan.least].cost.energy_j);
      const auto its = cost_of(policy.dag(), policy.profile(), p.clocks, policy.blocking_w());
      CHECK(its.time_s == p.cost.time_s);
      CHECK(its.energy_j == p.cost.energy_j);
      if (i == 0) continue;
      CHECK(p.cost.time_s > plan.points[i - 1].cost.time_s);
      CHECK(p.cost.above_wait_j < plan.points[i - 1].cost.above_wait_j);
    }
    const double unchanged_j = plan.points[plan.unchanged()].cost.energy_j;
    CHECK(unchanged_j < plan.highest.energy_j * 1.0000001);
    CHECK(unchanged_j >= before_j * (1 - 1e-9));  // slower devices save less
    before_j = unchanged_j;
    CHECK(plan.at(0) == 0);
    CHECK(plan.at(1e9) == plan.points.size() - 1);
  }
  const auto plan = plan_slack(policy, found, 0.01);
  CHECK(plan.points[plan.unchanged()].cost.energy_j < 0.95 * plan.highest.energy_j);
}

TEST_CASE("slack plan: one that nobody wants any more is not made to its end") {
  frontier_policy policy(a100_form(4), 8, 84);
  const auto found = planned_frontier(policy);
  std::stop_source over;
  CHECK(!plan_slack(policy, found, 0.01, over.get_token()).points.empty());
  over.request_stop();
  CHECK(plan_slack(policy, found, 0.01, over.get_token()).points.empty());
}
