// Made-up clusters, who is named in them, and what that comes to (predict_blame.hpp).
#include "apps/bench/predict_blame.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/health/blame_policy.hpp"
#include "apps/bench/spread.hpp"
#include "gpu/predict/random.hpp"

namespace troupe::apps::predict_bench {

namespace {

using blamed_op = train::pipeline_op;

constexpr double found_within_aim = 20, right_percent_aim = 99, alarms_aim = 1e-5;
constexpr int blamed_stages = 2, blamed_replicas = 4;
constexpr int calm_stages = 2, calm_replicas = 2;
constexpr int steps_before = 100;       ///< in which normal is known, and some more
constexpr int steps_waited = 100;       ///< for who is not found
constexpr int steps_of_cluster = 1000;  ///< a calm one

/// What a rank of the first stage does, in milliseconds; the last takes a quarter longer.
constexpr std::array blamed_parts{
    std::pair{blamed_op::forward, 80.0}, std::pair{blamed_op::backward, 160.0},
    std::pair{blamed_op::update, 20.0}, std::pair{blamed_op::reduce_scatter, 30.0},
    std::pair{blamed_op::norm, 0.5}};
/// Of these one gets slower, in turn.
constexpr std::array slow_parts{blamed_op::forward, blamed_op::backward, blamed_op::update};

struct made_up_cluster {
  int stages, replicas;
  double noise, tail;
  gpu::predict::random_numbers random;
  health::blame_policy policy;
  std::vector<health::blamed_place> places;
  uint64_t step = 0;
  int slow_rank = -1;  ///< -1: none
  blamed_op slow_part = blamed_op::count;
  double slower = 0;

  made_up_cluster(const blame_plan& plan, double tail_of, int of_stages, int of_replicas,
                  uint64_t seed)
      : stages(of_stages),
        replicas(of_replicas),
        noise(plan.noise),
        tail(tail_of),
        random(seed),
        policy({}, {of_replicas, 1, of_stages}) {
    for (int r = 0; r < ranks(); ++r) places.push_back({fmt::format("node{}", r), "alike"});
  }

  int ranks() const { return stages * replicas; }

  health::blame_policy::parts parts_of(int rank) {
    const double share = 1 + 0.25 * (rank / replicas);
    health::blame_policy::parts out;
    for (const auto& [part, ms] : blamed_parts) {
      double took = ms * share;
      if (rank == slow_rank && part == slow_part) took *= 1 + slower;
      took *= 1 + noise * static_cast<double>(random.normal());
      if (random.unit() < tail) took *= 1.5;
      out.push_back({part, std::max(0.001, took), 0, 1000});
    }
    return out;
  }

  std::vector<health::blame> go_on() {
    ++step;
    for (int r = 0; r < ranks(); ++r) policy.hear(1, step, static_cast<uint64_t>(r), parts_of(r));
    return policy.found(places);
  }
};

void measure_slow_case(const blame_plan& plan, uint64_t number, blame_row& row) {
  made_up_cluster c(plan, row.tail, blamed_stages, blamed_replicas, plan.seed * 1'000'003 + number);
  ++row.cases;
  bool before = false;
  for (int i = 0; i < steps_before; ++i) before = !c.go_on().empty() || before;
  if (before) return;  // BPB-1
  c.slow_rank = static_cast<int>(number % static_cast<uint64_t>(c.ranks()));
  c.slow_part = slow_parts[number % slow_parts.size()];
  c.slower = plan.slower;
  for (int i = 1; i <= steps_waited; ++i) {
    const auto found = c.go_on();
    if (found.empty()) continue;
    row.steps.push_back(i);
    row.right += found.size() == 1 && found[0].rank == c.slow_rank &&
                 found[0].part == c.slow_part && found[0].cause == health::blame_cause::slow;
    return;
  }
}

using named = std::set<std::pair<int, blamed_op>>;

void measure_calm(const blame_plan& plan, blame_row& row) {
  for (uint64_t number = 0; row.node_steps < plan.node_steps; ++number) {
    made_up_cluster c(plan, row.tail, calm_stages, calm_replicas, plan.seed * 2'000'003 + number);
    named last;
    for (int i = 0; i < steps_of_cluster && row.node_steps < plan.node_steps; ++i) {
      named now;
      for (const auto& b : c.go_on()) now.emplace(b.rank, b.part);
      for (const auto& n : now) row.alarms += last.contains(n) ? 0 : 1;  // BPB-2
      last = std::move(now);
      row.node_steps += static_cast<uint64_t>(c.ranks());
    }
  }
}

std::string noise_text(const blame_plan& plan, const blame_row& row) {
  const auto noise = fmt::format("{:g} %", 100 * plan.noise);
  return row.tail > 0 ? noise + fmt::format(", tail {:g} %", 100 * row.tail) : noise;
}

double share_within(const blame_row& row) {
  const auto within =
      std::ranges::count_if(row.steps, [](double s) { return s <= found_within_aim; });
  return row.cases == 0 ? 0 : 100.0 * static_cast<double>(within) / row.cases;
}

double alarms_per_node_step(const blame_row& row) {
  return row.node_steps == 0
             ? 0
             : static_cast<double>(row.alarms) / static_cast<double>(row.node_steps);
}

size_t never_found(const blame_row& row) {
  return static_cast<size_t>(row.cases) - row.steps.size();
}

}  // namespace

blame_verdict verdict_of(const blame_measurement& m) {
  blame_verdict out;
  for (const auto& row : m.rows) {
    const auto noise = noise_text(m.plan, row);
    const auto steps = spread_of(row.steps);
    if (never_found(row) > 0)
      out.missed.push_back(
          fmt::format("noise {}: {} of {} never found", noise, never_found(row), row.cases));
    if (steps.most > found_within_aim)
      out.missed.push_back(fmt::format("noise {}: found after {:.0f} steps at worst (aim {:.0f})",
                                       noise, steps.most, found_within_aim));
    if (row.right_percent() < right_percent_aim)
      out.missed.push_back(fmt::format("noise {}: right in {:.1f} % (aim {:.0f})", noise,
                                       row.right_percent(), right_percent_aim));
    if (alarms_per_node_step(row) > alarms_aim)
      out.missed.push_back(fmt::format("noise {}: {} false alarms in {} steps of nodes (aim {:g})",
                                       noise, row.alarms, row.node_steps, alarms_aim));
  }
  return out;
}

blame_measurement measure_blame(const blame_plan& plan) {
  blame_measurement out{plan, {}};
  for (const double tail : {0.0, plan.tail}) {
    blame_row row;
    row.tail = tail;
    for (int i = 0; i < plan.cases; ++i) measure_slow_case(plan, static_cast<uint64_t>(i), row);
    measure_calm(plan, row);
    out.rows.push_back(std::move(row));
  }
  return out;
}

std::string text_of(const blame_measurement& m) {
  auto out =
      fmt::format("{:<16} {:>6} {:>12} {:>7} {:>10} {:>8} {:>12} {:>12}\n", "noise", "cases",
                  "found after", "worst", "within 20", "right", "node steps", "false alarms");
  for (const auto& row : m.rows) {
    const auto steps = spread_of(row.steps);
    out += fmt::format("{:<16} {:>6} {:>6.0f} steps {:>7.0f} {:>8.1f} % {:>6.1f} % {:>12} {:>12}\n",
                       noise_text(m.plan, row), row.cases, steps.median, steps.most,
                       share_within(row), row.right_percent(), row.node_steps, row.alarms);
  }
  const auto v = verdict_of(m);
  return out + fmt::format(
                   "a part of one of {} ranks takes {:g} % longer; found after: the median of "
                   "cases. Aims: within {:.0f}\nsteps, the right rank and part in {:.0f} %, {:g} "
                   "false alarms a step of a node: {}\n",
                   blamed_stages * blamed_replicas, 100 * m.plan.slower, found_within_aim,
                   right_percent_aim, alarms_aim,
                   v.met() ? "met" : fmt::format("missed: {}", fmt::join(v.missed, "; ")));
}

nlohmann::ordered_json json_of(const blame_measurement& m) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& row : m.rows)
    rows.push_back({{"noise_percent", 100 * m.plan.noise},
                    {"tail_percent", 100 * row.tail},
                    {"cases", row.cases},
                    {"never_found", never_found(row)},
                    {"found_after_steps", json_of(spread_of(row.steps))},
                    {"within_20_percent", share_within(row)},
                    {"right_percent", row.right_percent()},
                    {"node_steps", row.node_steps},
                    {"false_alarms", row.alarms}});
  const auto v = verdict_of(m);
  return {{"slower_percent", 100 * m.plan.slower},
          {"rows", std::move(rows)},
          {"missed", v.missed},
          {"met", v.met()}};
}

}  // namespace troupe::apps::predict_bench
