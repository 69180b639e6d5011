// The frontier against every table of clocks there is, against the schedule as stages walk it, and
// against what is published.
#include "actors/power/frontier_policy.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

#include "actors/train/schedule_policy.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

/// A number in [0, 1), the same on every machine.
double part_of_one(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

/// Clocks of a processor with some static power, slower and cheaper each; uneven, and now and then
/// one that is no use.
clock_profile random_profile(std::mt19937_64& random, int stages, int clocks) {
  clock_profile out;
  out.stages.resize(static_cast<size_t>(stages));
  for (auto& stage : out.stages)
    for (size_t which = 0; which < instructions; ++which) {
      const double work_s = (which == 0 ? 0.04 : 0.08) * (0.7 + 0.6 * part_of_one(random));
      for (int c = 0; c < clocks; ++c) {
        const double clock = 1 - 0.5 * (c + 0.4 * part_of_one(random)) / clocks;
        const double time_s = work_s * (0.15 + 0.85 / clock);
        const double watts = 90 + 260 * clock * clock * clock * (0.97 + 0.06 * part_of_one(random));
        stage[which].push_back({static_cast<int>(1400 * clock), time_s, watts * time_s});
      }
    }
  return out;
}

frontier whole_frontier(frontier_policy& policy) {
  while (policy.advance()) {
  }
  return policy.take();
}

std::vector<const frontier_point*> all_points(const frontier& f) {
  std::vector<const frontier_point*> out;
  for (const auto* part : {&f.own, &f.held})
    for (const auto& p : *part) out.push_back(&p);
  return out;
}

/// When the last operation ends where each stage walks its own schedule and is told of what its
/// neighbours have done: the policy that stages run by, and a device that does one thing at a time.
double walked_s(const clock_profile& profile, int micro_batches,
                const std::map<std::tuple<int, instruction, int>, size_t>& clocks) {
  const int stages = static_cast<int>(profile.stages.size());
  std::vector<train::step_policy> policies;
  for (int s = 0; s < stages; ++s)
    policies.emplace_back(train::schedule_of{s, stages, micro_batches}, true);
  using ended = std::tuple<double, int, instruction, int>;
  std::priority_queue<ended, std::vector<ended>, std::greater<>> events;
  std::vector<double> free_s(policies.size(), 0);
  double now_s = 0;
  const auto issue = [&](int s) {
    for (const auto& a : policies[static_cast<size_t>(s)].next()) {
      if (a.what != train::pipeline_op::forward && a.what != train::pipeline_op::backward) continue;
      const auto which =
          a.what == train::pipeline_op::forward ? instruction::forward : instruction::backward;
      const auto row = clocks.at({s, which, a.micro_batch});
      auto& free = free_s[static_cast<size_t>(s)];
      free = std::max(free, now_s) + profile.rows(s, which)[row].time_s;
      events.push({free, s, which, a.micro_batch});
    }
  };
  for (int s = 0; s < stages; ++s) issue(s);
  while (!events.empty()) {
    const auto [at_s, s, which, m] = events.top();
    events.pop();
    now_s = at_s;
    const int neighbour = which == instruction::forward ? s + 1 : s - 1;
    if (neighbour < 0 || neighbour == stages) continue;
    auto& told = policies[static_cast<size_t>(neighbour)];
    CHECK((which == instruction::forward ? told.activation_ready(m) : told.gradient_ready(m)));
    issue(neighbour);
  }
  for (const auto& p : policies) CHECK(p.finished());
  return now_s;
}

/// What a table costs, from its rows alone and the walk above.
table_cost walked_cost(const frontier_policy& policy, const clock_table& clocks) {
  std::map<std::tuple<int, instruction, int>, size_t> placed;
  double energy_j = 0, worked_s = 0;
  const auto& nodes = policy.dag().nodes();
  REQUIRE(clocks.size() == nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto& rows = policy.profile().rows(nodes[i].stage, nodes[i].which);
    REQUIRE(clocks[i] < rows.size());
    placed[{nodes[i].stage, nodes[i].which, nodes[i].micro_batch}] = clocks[i];
    energy_j += rows[clocks[i]].energy_j;
    worked_s += rows[clocks[i]].time_s;
  }
  REQUIRE(placed.size() == nodes.size());
  table_cost out;
  out.time_s = walked_s(policy.profile(), policy.dag().micro_batches(), placed);
  out.energy_j = energy_j + policy.blocking_w() * (policy.dag().stages() * out.time_s - worked_s);
  return out;
}

/// Every table of clocks, as time and energy, fastest first and nothing that another one beats.
std::vector<table_cost> best_tables(const frontier_policy& policy) {
  std::vector<table_cost> all;
  const auto& nodes = policy.dag().nodes();
  clock_table clocks(nodes.size(), 0);
  for (;;) {
    all.push_back(cost_of(policy.dag(), policy.profile(), clocks, policy.blocking_w()));
    size_t i = 0;
    while (i < clocks.size() &&
           ++clocks[i] == policy.profile().rows(nodes[i].stage, nodes[i].which).size())
      clocks[i++] = 0;
    if (i == clocks.size()) break;
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(a.time_s, a.energy_j) < std::pair(b.time_s, b.energy_j);
  });
  std::vector<table_cost> out;
  for (const auto& t : all)
    if (out.empty() || t.energy_j < out.back().energy_j) out.push_back(t);
  return out;
}

/// The least energy of tables no longer than `time_s`.
double best_within(const std::vector<table_cost>& best, double time_s) {
  double out = std::numeric_limits<double>::infinity();
  for (const auto& t : best)
    if (t.time_s <= time_s * (1 + 1e-12)) out = t.energy_j;
  return out;
}

/// What the frontier has within `time_s`.
double found_within(const frontier& found, double time_s) {
  double out = std::numeric_limits<double>::infinity();
  for (const auto& p : found.own)
    if (p.cost.time_s <= time_s * (1 + 1e-12)) out = p.cost.energy_j;
  return out;
}

/// The profile of a shared GPT-3 pipeline, or none where it is not there.
std::optional<clock_profile> shared_profile(const std::string& device) {
  const auto path =
      shared_folder() / "data/power/perseus" / ("gpt3-175b_" + device + "_stage_profile.csv");
  std::ifstream in(path);
  if (shared_folder().empty() || !in) {
    MESSAGE("SKIPPED: no shared/data/power/perseus beside the source tree, and no TROUPE_SHARED");
    return std::nullopt;
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto read = parse_profile(text);
  REQUIRE(read);
  return std::move(*read);
}

/// Stages, micro-batches, clocks: some thousand tables each.
constexpr std::tuple<int, int, int> small_pipelines[] = {
    {2, 2, 3}, {4, 1, 3}, {3, 1, 4}, {1, 3, 4}};

struct saving {
  double ours, at_most;
};

/// The share of energy saved at the time of the highest clocks.
saving saving_of(frontier_policy& policy) {
  const auto found = whole_frontier(policy);
  const auto plain =
      cost_of(policy.dag(), policy.profile(), highest_clocks(policy.dag()), policy.blocking_w());
  const auto& p = found.at(plain.time_s);
  const double wait_j =
      (plain.time_s - p.cost.time_s) * policy.blocking_w() * policy.dag().stages();
  return {1 - (p.cost.energy_j + wait_j) / plain.energy_j,
          1 - (p.bound_j + wait_j) / plain.energy_j};
}

}  // namespace

TEST_CASE(
    "DAG-1: operations come after all they wait for, from the first forward to the last "
    "backward") {
  for (const auto& [stages, micro_batches] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 5}, {2, 1}, {4, 2}, {3, 7}}) {
    const pipeline_dag dag(stages, micro_batches);
    const auto& nodes = dag.nodes();
    REQUIRE(nodes.size() == static_cast<size_t>(2 * stages * micro_batches));
    std::set<std::tuple<int, instruction, int>> seen;
    for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
      const auto& n = nodes[static_cast<size_t>(i)];
      CHECK(seen.insert({n.stage, n.which, n.micro_batch}).second);
      CHECK(n.before_here < i);
      CHECK(n.before_there < i);
      const bool forward = n.which == instruction::forward;
      const int neighbour = forward ? n.stage - 1 : n.stage + 1;
      CHECK((n.before_there < 0) == (neighbour < 0 || neighbour == stages));
      if (n.before_there >= 0) {
        const auto& there = nodes[static_cast<size_t>(n.before_there)];
        CHECK(there.stage == neighbour);
        CHECK((there.which == n.which && there.micro_batch == n.micro_batch));
      }
      CHECK((n.after_here < 0 || nodes[static_cast<size_t>(n.after_here)].before_here == i));
      CHECK((n.after_there < 0 || nodes[static_cast<size_t>(n.after_there)].before_there == i));
    }
    CHECK((nodes.front().stage == 0 && nodes.front().which == instruction::forward));
    CHECK((nodes.back().stage == 0 && nodes.back().micro_batch == micro_batches - 1));
  }
}

TEST_CASE("TCF-1: the flow shortens what is cheapest first, and two at once where ways part") {
  // a (10, may be 6 at 1 a tick, 4 at 5), then b (10, may be 8 at 2) beside c (9, may be 5 at 1).
  const std::vector<time_cost_flow::corner> a = {{10, 1}, {6, 5}, {4}};
  const std::vector<time_cost_flow::corner> b = {{10, 2}, {8}};
  const std::vector<time_cost_flow::corner> c = {{9, 1}, {5}};
  time_cost_flow flow(4);
  flow.add(0, 1, a);
  flow.add(1, 2, b);
  flow.add(1, 3, c);
  const std::vector<time_cost_flow::corner> dependency = {{0}};
  flow.add(2, 3, dependency);
  flow.start();
  std::vector<int64_t> ends = {flow.times().back()};
  while (flow.shorten()) ends.push_back(flow.times().back());
  // a to 6; b alone to 9 (c has a tick of slack); b and c to 8; a to 4.
  CHECK(ends == std::vector<int64_t>{20, 16, 15, 14, 12});
}

TEST_CASE("frontier: against every table of clocks of small pipelines") {
  std::mt19937_64 random(7);
  double worst = 0, sum = 0;
  int compared = 0;
  for (int round = 0; round < 40; ++round) {
    const auto [stages, micro_batches, clocks] = small_pipelines[round % 4];
    CAPTURE(round);
    frontier_policy policy(random_profile(random, stages, clocks), micro_batches, 60);
    const auto found = whole_frontier(policy);
    const auto best = best_tables(policy);
    CHECK(found.own.front().cost.time_s == doctest::Approx(best.front().time_s).epsilon(1e-12));
    CHECK(found.own.back().cost.energy_j == doctest::Approx(best.back().energy_j).epsilon(0.01));
    for (const auto* p : all_points(found)) {
      const double least_j = best_within(best, p->cost.time_s);
      CHECK(p->cost.energy_j >= least_j * (1 - 1e-12));
      if (p->cost.time_s <= best.back().time_s) CHECK(p->bound_j <= least_j * (1 + 1e-9));
    }
    for (const auto& t : best) {
      const double above = found_within(found, t.time_s) / t.energy_j - 1;
      worst = std::max(worst, above);
      sum += above;
      ++compared;
    }
  }
  MESSAGE("above the optimum of " << compared << " steps: " << 100 * sum / compared
                                  << " % on average, at most " << 100 * worst << " %");
  CHECK(worst <= 0.03);
  CHECK(sum / compared <= 0.005);
}

TEST_CASE("FRO-1: longer steps cost less, and each point is what stages make of its clocks") {
  std::mt19937_64 random(11);
  for (const auto& [stages, micro_batches] :
       std::vector<std::pair<int, int>>{{4, 6}, {1, 4}, {5, 3}, {3, 12}}) {
    CAPTURE(stages);
    frontier_policy policy(random_profile(random, stages, 20), micro_batches, 70);
    const auto found = whole_frontier(policy);
    REQUIRE(found.own.size() > 20);
    for (size_t i = 1; i < found.own.size(); ++i) {
      CHECK(found.own[i].cost.time_s > found.own[i - 1].cost.time_s);
      CHECK(found.own[i].cost.energy_j < found.own[i - 1].cost.energy_j);
    }
    double cost_j = found.own.back().cost.above_wait_j, time_s = found.own.back().cost.time_s;
    for (const auto& p : found.held) {
      CHECK(p.cost.time_s > std::exchange(time_s, p.cost.time_s));
      CHECK(p.cost.above_wait_j < std::exchange(cost_j, p.cost.above_wait_j));
    }
    const auto points = all_points(found);
    for (size_t i = 0; i < points.size(); i += 7) {
      const auto walked = walked_cost(policy, points[i]->clocks);
      CHECK(points[i]->cost.time_s == doctest::Approx(walked.time_s).epsilon(1e-12));
      CHECK(points[i]->cost.energy_j == doctest::Approx(walked.energy_j).epsilon(1e-12));
      CHECK(points[i]->bound_j <= points[i]->cost.energy_j * (1 + 1e-9));
      CHECK(points[i]->cost.energy_j <= 1.01 * points[i]->bound_j);
    }
    const auto fastest = walked_cost(policy, fastest_clocks(policy.dag(), policy.profile()));
    CHECK(found.own.front().cost.time_s == doctest::Approx(fastest.time_s).epsilon(1e-12));
    CHECK(found.own.front().cost.energy_j <= fastest.energy_j);
  }
}

TEST_CASE("frontier: a step that something else holds up runs at its slowest useful point") {
  std::mt19937_64 random(3);
  frontier_policy policy(random_profile(random, 3, 12), 4, 70);
  const auto found = whole_frontier(policy);
  REQUIRE(!found.held.empty());
  CHECK(&found.at(0) == &found.own.front());
  CHECK(&found.at(1e9) == &found.held.back());
  const auto& some = found.own[found.own.size() / 2];
  CHECK(&found.at(some.cost.time_s) == &some);
}

TEST_CASE("frontier: a single clock leaves one point, and equal stages find their waiting") {
  clock_profile one;
  one.stages.resize(2);
  for (auto& stage : one.stages) stage = {{{{1410, 0.1, 30}}, {{1410, 0.2, 60}}}};
  frontier_policy policy(one, 3, 80);
  const auto found = whole_frontier(policy);
  CHECK(found.own.size() == 1);
  CHECK(found.held.empty());
  // Filling and draining: (3 + 1) x (0.1 + 0.2) s; each device works 0.9 s of it.
  CHECK(found.own[0].cost.time_s == doctest::Approx(1.2));
  CHECK(found.own[0].cost.energy_j == doctest::Approx(2 * (270 + 80 * 0.3)));
}

TEST_CASE("frontier: GPT-3 175B saves what is possible at unchanged step time") {
  struct row {
    const char* device;
    double blocking_w;
    int micro_batches;
    double at_most, published;
  };
  for (const auto& r : {row{"a100", 83.64, 12, 0.161, 0.153}, row{"a40", 70.38, 12, 0.1265, 0.118},
                        row{"a100", 83.64, 96, 0.138, 0}, row{"a40", 70.38, 96, 0.1014, 0}}) {
    auto profile = shared_profile(r.device);
    if (!profile) return;
    frontier_policy policy(std::move(*profile), r.micro_batches, r.blocking_w);
    const auto s = saving_of(policy);
    MESSAGE(std::string(r.device) << ", " << r.micro_batches << " micro-batches: " << 100 * s.ours
                                  << " % saved, at most " << 100 * s.at_most << " %");
    CHECK(s.at_most == doctest::Approx(r.at_most).epsilon(0.006));
    CHECK((1 - s.ours) <= 1.015 * (1 - s.at_most));
    CHECK(s.ours >= r.published);
  }
}
