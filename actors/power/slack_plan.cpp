// Walks each stage's operations as runs of one clock, and joins runs that are too short.
#include "actors/power/slack_plan.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace troupe::power {

namespace {

/// Times are sums of rounded numbers.
constexpr double like = 1e-12;

/// Operations of a stage at one clock, one after the other; the last may go on in the next step.
struct clock_run {
  size_t first = 0, count = 0;  ///< of the stage's order, which goes round
  int mhz = 0;
};

/// The operations of one stage in their order, and the clocks they are to get.
class stage_runs {
 public:
  stage_runs(const pipeline_dag& dag, const clock_profile& profile, int stage)
      : dag_(dag), profile_(profile) {
    for (size_t i = 0; i < dag.nodes().size(); ++i)
      if (dag.nodes()[i].stage == stage) order_.push_back(i);
  }

  /// Joins what is too short in a step of these begins, which lasts `step_s`. Whether it did.
  bool join(clock_table& clocks, const std::vector<double>& begins_s, double step_s, double set_s) {
    gather(clocks);
    bool changed = false;
    for (size_t i = 0; runs_.size() > 1 && i < runs_.size();) {
      if (lasts_s(i, begins_s, step_s) >= needs_s(i, clocks, set_s) * (1 - like)) {
        ++i;
        continue;
      }
      changed = true;
      i = join_one(i);
      i -= std::min<size_t>(i, 1);  // what is before it has another one behind it now
    }
    for (const auto& run : runs_)
      for (size_t k = 0; k < run.count; ++k) raise(clocks[at(run.first + k)], run, k);
    return changed;
  }

 private:
  size_t at(size_t place) const { return order_[place % order_.size()]; }
  const std::vector<clock_row>& rows_at(size_t place) const {
    const auto& n = dag_.nodes()[at(place)];
    return profile_.rows(n.stage, n.which);
  }

  void gather(const clock_table& clocks) {
    runs_.clear();
    for (size_t k = 0; k < order_.size(); ++k) {
      const int mhz = clock_of(profile_, dag_.nodes()[order_[k]], clocks[order_[k]]);
      if (runs_.empty() || runs_.back().mhz != mhz) runs_.push_back({k, 0, mhz});
      ++runs_.back().count;
    }
    if (runs_.size() > 1 && runs_.front().mhz == runs_.back().mhz) {
      runs_.back().count += runs_.front().count;
      runs_.erase(runs_.begin());
    }
  }

  size_t after(size_t i) const { return (i + 1) % runs_.size(); }
  size_t before(size_t i) const { return (i + runs_.size() - 1) % runs_.size(); }

  double lasts_s(size_t i, const std::vector<double>& begins_s, double step_s) const {
    const double s = begins_s[at(runs_[after(i)].first)] - begins_s[at(runs_[i].first)];
    return s > 0 ? s : s + step_s;
  }
  /// SLP-2
  double needs_s(size_t i, const clock_table& clocks, double set_s) const {
    if (runs_[after(i)].mhz <= runs_[i].mhz) return set_s;
    double lead_s = 0;
    for (size_t k = 0; k < runs_[i].count; ++k) {
      const size_t place = runs_[i].first + k;
      lead_s = std::max(lead_s, lead_of(rows_at(place), clocks[at(place)], set_s));
    }
    return runs_[before(i)].mhz > runs_[i].mhz ? set_s + lead_s : lead_s;
  }

  /// With the neighbour that costs least to join: the nearest above it, else the one below it. Its
  /// place then.
  size_t join_one(size_t i) {
    const int own = runs_[i].mhz, last = runs_[before(i)].mhz, next = runs_[after(i)].mhz;
    const auto price = [&](int mhz) {
      return mhz > own ? mhz - own : (own - mhz) + clock_profile::mhz_ceiling;
    };
    const bool with_last = price(last) <= price(next);
    const int higher = std::max(own, with_last ? last : next);
    i = with_last ? take_next(before(i)) : take_next(i);
    runs_[i].mhz = shared_clock(runs_[i], higher);
    while (runs_.size() > 1 && runs_[after(i)].mhz == runs_[i].mhz) i = take_next(i);
    while (runs_.size() > 1 && runs_[before(i)].mhz == runs_[i].mhz) i = take_next(before(i));
    return i;
  }
  /// Makes the next run part of this one; its place then.
  size_t take_next(size_t i) {
    const size_t gone = after(i);
    runs_[i].count += runs_[gone].count;
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(gone));
    return gone < i ? i - 1 : i;
  }

  /// The lowest clock not below `mhz` that all operations of a run have.
  int shared_clock(const clock_run& run, int mhz) const {
    for (bool raised = true; std::exchange(raised, false);)
      for (size_t k = 0; k < run.count; ++k) {
        const size_t place = run.first + k;
        const int its =
            clock_of(profile_, dag_.nodes()[at(place)], row_not_below(rows_at(place), mhz));
        raised |= its > mhz;
        mhz = std::max(mhz, its);
      }
    return mhz;
  }

  void raise(uint16_t& row, const clock_run& run, size_t k) const {
    const size_t place = run.first + k;
    row = static_cast<uint16_t>(
        std::min<size_t>(row, row_not_below(rows_at(place), run.mhz)));  // SLP-1
  }

  const pipeline_dag& dag_;
  const clock_profile& profile_;
  std::vector<size_t> order_;
  std::vector<clock_run> runs_;
};

}  // namespace

int clock_of(const clock_profile& profile, const pipeline_node& node, size_t row) {
  if (row > 0) return profile.rows(node.stage, node.which)[row].frequency_mhz;
  int out = 0;
  for (const auto& rows : profile.stages[static_cast<size_t>(node.stage)])
    out = std::max(out, rows.front().frequency_mhz);
  return out;
}

size_t row_not_below(const std::vector<clock_row>& rows, int mhz) {
  const auto below = std::partition_point(
      rows.begin(), rows.end(), [&](const clock_row& r) { return r.frequency_mhz >= mhz; });
  return static_cast<size_t>(std::max<std::ptrdiff_t>(below - rows.begin(), 1) - 1);
}

std::vector<std::vector<gpu::controls::clocked_operation>> clocks_by_stage(
    const pipeline_dag& dag, const clock_profile& profile, const clock_table& clocks) {
  std::vector<std::vector<gpu::controls::clocked_operation>> out(static_cast<size_t>(dag.stages()));
  for (size_t i = 0; i < dag.nodes().size(); ++i) {
    const auto& n = dag.nodes()[i];
    const auto& rows = profile.rows(n.stage, n.which);
    out[static_cast<size_t>(n.stage)].push_back(
        {clock_of(profile, n, clocks[i]), rows[clocks[i]].time_s, rows.front().time_s});
  }
  return out;
}

double lead_of(const std::vector<clock_row>& rows, size_t row, double set_s) {
  return set_s * std::max(1.0, rows[row].time_s / rows.front().time_s);
}

clock_table followable(const pipeline_dag& dag, const clock_profile& profile, clock_table clocks,
                       double set_s) {
  assert(clocks.size() == dag.nodes().size() && set_s >= 0);
  std::vector<stage_runs> stages;
  for (int s = 0; s < dag.stages(); ++s) stages.emplace_back(dag, profile, s);
  std::vector<double> lasting(clocks.size());
  // Clocks only rise: it ends.
  for (bool changed = true; std::exchange(changed, false);) {
    for (size_t i = 0; i < clocks.size(); ++i)
      lasting[i] = profile.rows(dag.nodes()[i].stage, dag.nodes()[i].which)[clocks[i]].time_s;
    auto begins_s = dag.ends(lasting);
    const double step_s = begins_s.back();
    for (size_t i = 0; i < clocks.size(); ++i) begins_s[i] -= lasting[i];
    for (auto& stage : stages) changed |= stage.join(clocks, begins_s, step_s, set_s);
  }
  return clocks;
}

size_t slack_plan::at(double step_s) const {
  const auto longer = std::partition_point(points.begin(), points.end(), [&](const slack_point& p) {
    return p.cost.time_s <= step_s * (1 + like);
  });
  return static_cast<size_t>(std::max<std::ptrdiff_t>(longer - points.begin(), 1) - 1);
}

slack_plan plan_slack(const frontier_policy& policy, const frontier& found, double set_s,
                      const std::stop_token& over) {
  const auto& dag = policy.dag();
  const auto cost = [&](const clock_table& clocks) {
    return cost_of(dag, policy.profile(), clocks, policy.blocking_w());
  };
  std::vector<slack_point> all;
  const auto highest = highest_clocks(dag);
  all.push_back({cost(highest), highest});
  slack_plan out;
  out.highest = all.front().cost;
  for (const auto* part : {&found.own, &found.held})
    for (const auto& p : *part) {
      if (over.stop_requested()) return {};
      auto clocks = followable(dag, policy.profile(), p.clocks, set_s);
      const auto its = cost(clocks);
      all.push_back({its, std::move(clocks)});
    }
  std::stable_sort(all.begin(), all.end(), [](const slack_point& a, const slack_point& b) {
    return std::pair(a.cost.time_s, a.cost.above_wait_j) <
           std::pair(b.cost.time_s, b.cost.above_wait_j);
  });
  double above_j = std::numeric_limits<double>::infinity(), least_j = above_j;
  for (auto& p : all) {
    if (p.cost.above_wait_j >= above_j) continue;  // SLP-3
    above_j = p.cost.above_wait_j;
    if (p.cost.energy_j < least_j) {
      least_j = p.cost.energy_j;
      out.least = out.points.size();
    }
    out.points.push_back(std::move(p));
  }
  return out;
}

}  // namespace troupe::power
