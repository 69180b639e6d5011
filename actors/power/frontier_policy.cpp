// From measured clocks to a network of activities, and from its corners back to clocks.
#include "actors/power/frontier_policy.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

namespace troupe::power {

namespace {

/// All operations in a row last so many ticks at most: sums stay exact, and are far from overflow.
constexpr double ticks_in_all = 1LL << 50;
/// Flows are microwatts. Steeper than 10 MW is as good as not to be had.
constexpr double flow_per_w = 1e6;
constexpr double steepest_flow = 1e13;
/// A way to solve the programme. Prices rise from the first micro-batch to the last by `rise`:
/// enough to tell them apart, less than the clocks of one operation differ by.
struct pass_kind {
  double rise;
  bool shallow;
};
constexpr pass_kind passes[] = {{0, false}, {1e-2, false}, {0, true}, {1e-2, true}};
/// The first of them that needs a deep hull.
constexpr size_t first_shallow = 2;
/// A hull that runs so far below the clocks there are (of an operation's cost) is deep.
constexpr double deep = 0.01;

double longest_time(const clock_profile& profile) {
  double out = 0;
  for (const auto& stage : profile.stages)
    for (const auto& rows : stage)
      for (const auto& r : rows) out = std::max(out, r.time_s);
  return out;
}

/// What a tick less costs between two clocks.
double price_of(const clock_choice& fast, const clock_choice& slow) {
  return (fast.cost_j - slow.cost_j) / static_cast<double>(slow.ticks - fast.ticks);
}

/// The lower convex hull of choices; both longest first.
std::vector<clock_choice> hull_of(std::span<const clock_choice> choices) {
  std::vector<clock_choice> out;
  for (const auto& c : choices) {
    while (out.size() > 1 && price_of(out.back(), out[out.size() - 2]) >= price_of(c, out.back()))
      out.pop_back();
    out.push_back(c);
  }
  return out;
}

std::vector<time_cost_flow::corner> corners_along(const std::vector<clock_choice>& hull,
                                                  double tick_s) {
  std::vector<time_cost_flow::corner> out;
  for (size_t i = 0; i + 1 < hull.size(); ++i) {
    const double flow = price_of(hull[i + 1], hull[i]) / tick_s * flow_per_w;
    const int64_t until = std::llround(std::clamp(flow, 1.0, steepest_flow));
    if (out.empty() || out.back().until < until) out.push_back({hull[i].ticks, until});
  }
  out.push_back({hull.back().ticks, time_cost_flow::no_bound});
  return out;
}

/// Choices without those behind the side of the hull that runs deepest below them, if one is deep.
std::span<const clock_choice> before_deepest(std::span<const clock_choice> choices,
                                             const std::vector<clock_choice>& hull) {
  double deepest_j = deep * choices.front().cost_j;
  size_t from = 0, side = 0;
  for (size_t i = 1; i < choices.size(); ++i) {
    while (hull[side + 1].ticks >= choices[i].ticks && side + 2 < hull.size()) ++side;
    // At the time of a choice's slower neighbour, where the choice is the slowest that fits.
    const auto& slow = hull[side];
    if (choices[i - 1].ticks > slow.ticks) continue;
    const double below_j =
        choices[i].cost_j - slow.cost_j -
        price_of(hull[side + 1], slow) * static_cast<double>(slow.ticks - choices[i - 1].ticks);
    if (below_j <= deepest_j) continue;
    deepest_j = below_j;
    const auto behind = std::find_if(choices.begin(), choices.end(),
                                     [&](const auto& c) { return c.ticks < slow.ticks; });
    from = static_cast<size_t>(behind - choices.begin());
  }
  return choices.subspan(from);
}

}  // namespace

table_cost cost_of(const pipeline_dag& dag, const clock_profile& profile, const clock_table& clocks,
                   double blocking_w) {
  const auto& nodes = dag.nodes();
  std::vector<double> lasting(nodes.size());
  table_cost out;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto& row = profile.rows(nodes[i].stage, nodes[i].which)[clocks[i]];
    lasting[i] = row.time_s;
    out.above_wait_j += row.energy_j - blocking_w * row.time_s;
  }
  out.time_s = dag.ends(lasting).back();
  out.energy_j = out.above_wait_j + blocking_w * dag.stages() * out.time_s;
  return out;
}

clock_table fastest_clocks(const pipeline_dag& dag, const clock_profile& profile) {
  clock_table out;
  for (const auto& node : dag.nodes()) {
    const auto& rows = profile.rows(node.stage, node.which);
    const auto fastest =
        std::min_element(rows.begin(), rows.end(), [](const clock_row& a, const clock_row& b) {
          return std::pair(a.time_s, a.energy_j) < std::pair(b.time_s, b.energy_j);
        });
    out.push_back(static_cast<uint16_t>(fastest - rows.begin()));
  }
  return out;
}

clock_table highest_clocks(const pipeline_dag& dag) {
  return clock_table(dag.nodes().size(), 0);
}

const frontier_point& frontier::at(double step_s) const {
  const frontier_point* out = &own.front();
  for (const auto* part : {&own, &held})
    for (const auto& p : *part)
      if (p.cost.time_s <= step_s) out = &p;
  return *out;
}

frontier_policy::frontier_policy(clock_profile profile, int micro_batches, double blocking_w)
    : profile_(std::move(profile)),
      blocking_w_(blocking_w),
      dag_(static_cast<int>(profile_.stages.size()), micro_batches) {
  assert(dag_.nodes().size() <= most_operations);
  tick_s_ = longest_time(profile_) * static_cast<double>(dag_.nodes().size()) / ticks_in_all;
  for (const auto& stage : profile_.stages)
    for (const auto& rows : stage) operations_.push_back(operation_of(rows));
  const bool deep_ones =
      std::any_of(operations_.begin(), operations_.end(), [](const operation& o) {
        return o.shallow_corners.front().length != o.corners.front().length;
      });
  passes_ = deep_ones ? std::size(passes) : first_shallow;
  std::vector<int64_t> shortest;
  std::vector<const std::vector<clock_choice>*> choices;
  for (size_t i = 0; i < dag_.nodes().size(); ++i) {
    choices.push_back(&of(i).choices);
    shortest.push_back(of(i).choices.back().ticks);
  }
  shortest_ = dag_.ends(shortest).back();
  rounding_.emplace(dag_, std::move(choices));
  begin(0);
}

const frontier_policy::operation& frontier_policy::of(size_t node) const {
  const auto& n = dag_.nodes()[node];
  return operations_[static_cast<size_t>(n.stage) * instructions + static_cast<size_t>(n.which)];
}

frontier_policy::operation frontier_policy::operation_of(const std::vector<clock_row>& rows) const {
  std::vector<clock_choice> all;
  for (size_t i = 0; i < rows.size(); ++i)
    all.push_back({std::llround(rows[i].time_s / tick_s_),
                   rows[i].energy_j - blocking_w_ * rows[i].time_s, static_cast<uint16_t>(i)});
  std::sort(all.begin(), all.end(), [](const clock_choice& a, const clock_choice& b) {
    return std::tuple(a.ticks, a.cost_j, a.row) < std::tuple(b.ticks, b.cost_j, b.row);
  });
  operation out;
  for (const auto& c : all)
    if (out.choices.empty() || c.cost_j < out.choices.back().cost_j) out.choices.push_back(c);
  std::reverse(out.choices.begin(), out.choices.end());
  out.hull = hull_of(out.choices);
  out.corners = corners_along(out.hull, tick_s_);
  out.shallow_corners = corners_along(hull_of(before_deepest(out.choices, out.hull)), tick_s_);
  return out;
}

std::vector<time_cost_flow::corner> frontier_policy::corners_of(size_t node, size_t pass) const {
  const double rise = passes[pass].rise * dag_.nodes()[node].micro_batch / dag_.micro_batches();
  auto out = passes[pass].shallow ? of(node).shallow_corners : of(node).corners;
  for (auto& c : out)
    if (c.until != time_cost_flow::no_bound)
      c.until += std::llround(static_cast<double>(c.until) * rise);
  return out;
}

void frontier_policy::begin(size_t pass) {
  pass_ = pass;
  const auto& nodes = dag_.nodes();
  corners_.clear();
  for (size_t i = 0; i < nodes.size(); ++i) corners_.push_back(corners_of(i, pass));
  flow_.emplace(2 * nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    flow_->add(2 * i, 2 * i + 1, corners_[i]);
    for (const int before : {nodes[i].before_here, nodes[i].before_there})
      if (before >= 0) flow_->add(2 * static_cast<size_t>(before) + 1, 2 * i, dependency_);
  }
  flow_->start();
  longest_ = realized_ = flow_->times().back();
  before_ = times();
  note_corner(before_);
  realize(before_, longest_);
}

std::vector<node_times> frontier_policy::times() const {
  std::vector<node_times> out(dag_.nodes().size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = {flow_->times()[2 * i], flow_->times()[2 * i + 1]};
  return out;
}

void frontier_policy::note_corner(const std::vector<node_times>& times) {
  if (pass_ != 0) return;
  double cost_j = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const auto& hull = of(i).hull;
    const int64_t window = times[i].ends - times[i].begins;
    size_t k = 0;
    while (k + 1 < hull.size() && hull[k].ticks > window) ++k;
    cost_j += hull[k].cost_j;
    if (k == 0 || hull[k].ticks >= window) continue;
    const double share = static_cast<double>(window - hull[k].ticks) /
                         static_cast<double>(hull[k - 1].ticks - hull[k].ticks);
    cost_j += share * (hull[k - 1].cost_j - hull[k].cost_j);
  }
  curve_.push_back({flow_->times().back(), cost_j});
}

bool frontier_policy::advance() {
  const int64_t from = flow_->times().back();
  if (!flow_->shorten()) {
    if (realized_ != from) realize(before_, from);
    if (pass_ + 1 == passes_) return false;
    begin(pass_ + 1);
    return true;
  }
  const int64_t to = flow_->times().back();
  auto now = times();
  note_corner(now);
  const int64_t each = std::max<int64_t>(1, (longest_ - shortest_) / points);
  while (realized_ - to >= each) {
    realized_ -= each;
    // Between two corners the optimum is between their times.
    const double share = static_cast<double>(from - realized_) / static_cast<double>(from - to);
    const auto between = [&](int64_t before, int64_t after) {
      return before + static_cast<int64_t>(std::floor(share * static_cast<double>(after - before)));
    };
    auto there = before_;
    for (size_t i = 0; i < there.size(); ++i)
      there[i] = {between(before_[i].begins, now[i].begins), between(before_[i].ends, now[i].ends)};
    realize(there, realized_);
  }
  before_ = std::move(now);
  return true;
}

double frontier_policy::progress() const {
  const double part = longest_ == shortest_
                          ? 1
                          : static_cast<double>(longest_ - flow_->times().back()) /
                                static_cast<double>(longest_ - shortest_);
  return (static_cast<double>(pass_) + part) / static_cast<double>(passes_);
}

void frontier_policy::realize(const std::vector<node_times>& times, int64_t most_ticks) {
  for (const bool forwards : {true, false}) {
    const auto& chosen = rounding_->round(times, most_ticks, forwards);
    frontier_point point;
    for (size_t i = 0; i < chosen.size(); ++i) point.clocks.push_back(of(i).choices[chosen[i]].row);
    point.cost = cost_of(dag_, profile_, point.clocks, blocking_w_);
    found_.push_back(std::move(point));
  }
}

double frontier_policy::bound_at(double ticks) const {
  // The curve is convex and begins at its long end.
  const auto after = std::partition_point(curve_.begin(), curve_.end(), [&](const corner_point& c) {
    return static_cast<double>(c.ticks) > ticks;
  });
  if (after == curve_.begin()) return curve_.front().cost_j;
  if (after == curve_.end()) return curve_.back().cost_j;
  const auto& slow = *(after - 1);
  const double share =
      (ticks - static_cast<double>(after->ticks)) / static_cast<double>(slow.ticks - after->ticks);
  return after->cost_j + share * (slow.cost_j - after->cost_j);
}

frontier frontier_policy::take() {
  std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.cost.time_s, a.cost.above_wait_j) <
           std::pair(b.cost.time_s, b.cost.above_wait_j);
  });
  const auto least = std::min_element(
      found_.begin(), found_.end(),
      [](const auto& a, const auto& b) { return a.cost.energy_j < b.cost.energy_j; });
  const double least_j = least->cost.energy_j, least_s = least->cost.time_s;
  frontier out;
  double energy_j = std::numeric_limits<double>::infinity(), cost_j = energy_j;
  for (auto& p : found_) {
    const bool own = p.cost.time_s <= least_s;
    if (own ? p.cost.energy_j >= energy_j : p.cost.above_wait_j >= cost_j) continue;
    energy_j = p.cost.energy_j;
    cost_j = p.cost.above_wait_j;
    const double wait_j = blocking_w_ * dag_.stages() * p.cost.time_s;
    p.bound_j = bound_at(p.cost.time_s / tick_s_) + wait_j;
    (own ? out.own : out.held).push_back(std::move(p));
  }
  assert(!out.own.empty() && out.own.back().cost.energy_j == least_j);
  (void)least_j;
  return out;
}

}  // namespace troupe::power
