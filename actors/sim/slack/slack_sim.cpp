// Events of one replica at a time: replicas meet at the end of a step only.
#include "actors/sim/slack/slack_sim.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "actors/sim/rng.hpp"
#include "actors/sim/slack/slack_device.hpp"
#include "actors/train/schedule_policy.hpp"
#include "gpu/controls/stage_clocks_policy.hpp"

namespace troupe::sim {

namespace {

using power::instruction;

/// What a replica's stages run in a step.
struct slack_orders {
  std::vector<std::vector<size_t>> nodes;  ///< by stage, numbers in the pipeline_dag, in order
  std::vector<gpu::controls::stage_clocks_policy> clocks;
};

/// A table as each stage has it.
slack_orders orders_of(const power::frontier_policy& policy, const power::clock_table& table,
                       double set_s) {
  const auto& dag = policy.dag();
  slack_orders out;
  out.nodes.resize(static_cast<size_t>(dag.stages()));
  for (size_t i = 0; i < dag.nodes().size(); ++i)
    out.nodes[static_cast<size_t>(dag.nodes()[i].stage)].push_back(i);
  for (auto& each : power::clocks_by_stage(dag, policy.profile(), table))
    out.clocks.emplace_back(std::move(each), set_s);
  return out;
}

/// One replica's devices, over all steps.
class slack_replica {
 public:
  slack_replica(const power::frontier_policy& policy, rng chance)
      : policy_(policy), chance_(chance) {
    for (int s = 0; s < policy.dag().stages(); ++s)
      devices_.emplace_back(power::clock_of(policy.profile(), {s}, 0));
  }

  struct terms {
    double times = 1, uneven = 0;
    double set_s = 0, known_set_s = 0;  ///< what a change takes, and is believed to
  };
  /// Runs a step from `from_s` on; when it ended.
  double run(double from_s, const slack_orders& orders, const terms& with) {
    settle(from_s);
    // Clocks of another table are asked for as the step begins: these are not late.
    asked_s_ = orders_ == &orders ? from_s : from_s + with.known_set_s;
    orders_ = &orders;
    with_ = with;
    draw();
    const int stages = policy_.dag().stages();
    stages_.clear();
    for (int s = 0; s < stages; ++s)
      stages_.emplace_back(train::schedule_of{s, stages, policy_.dag().micro_batches()});
    left_ = policy_.dag().nodes().size();
    now_s_ = from_s;
    for (size_t s = 0; s < stages_.size(); ++s) {
      ask(s, orders.clocks[s].first_mhz());
      issue(s);
    }
    while (left_ > 0) {
      const auto e = events_.top();
      events_.pop();
      now_s_ = e.at_s;
      happen(e);
    }
    return now_s_;
  }

  double busy_s() const {
    return sum([](const auto& d) { return d.busy_s(); });
  }
  double energy_j() const {
    return sum([](const auto& d) { return d.energy_j(); });
  }
  uint64_t changes() const {
    uint64_t out = 0;
    for (const auto& d : devices_) out += d.changes();
    return out;
  }
  uint64_t late() const { return late_; }

 private:
  enum class event_kind { ended, wish, set };
  struct event {
    double at_s;
    uint64_t number;  ///< of those at the same time the first comes first
    event_kind kind;
    size_t stage;
    uint64_t version;
    int mhz;
    bool operator>(const event& o) const {
      return std::tie(at_s, number) > std::tie(o.at_s, o.number);
    }
  };
  struct one_stage {
    explicit one_stage(const train::schedule_of& job) : order(job, true) {}
    train::step_policy order;
    size_t issued = 0, begun = 0;
  };

  template <class F>
  double sum(F of) const {
    double out = 0;
    for (const auto& d : devices_) out += of(d);
    return out;
  }

  /// What still happens while the replica waits for the others.
  void settle(double until_s) {
    while (!events_.empty() && events_.top().at_s <= until_s) {
      const auto e = events_.top();
      events_.pop();
      now_s_ = e.at_s;
      happen(e);
    }
  }
  /// How uneven the step's operations are, whatever their clocks (SLS-1).
  void draw() {
    uneven_.resize(policy_.dag().nodes().size());
    for (auto& u : uneven_) u = with_.times * (1 + with_.uneven * (2 * chance_.unit() - 1));
  }
  void push(double at_s, event_kind kind, size_t stage, int mhz = 0) {
    events_.push({at_s, numbers_++, kind, stage, devices_[stage].version(), mhz});
  }
  void ask(size_t stage, int mhz) {
    if (devices_[stage].wish(mhz)) push(now_s_ + with_.set_s, event_kind::set, stage);
  }
  void ask(size_t stage, const std::optional<gpu::controls::stage_clocks_policy::wish>& w) {
    if (!w) return;
    if (w->after_s <= 0) return ask(stage, w->mhz);
    push(now_s_ + w->after_s, event_kind::wish, stage, w->mhz);
  }

  void issue(size_t stage) {
    for (const auto& a : stages_[stage].order.next())
      stages_[stage].issued +=
          a.what == train::pipeline_op::forward || a.what == train::pipeline_op::backward;
    begin(stage);
  }
  void begin(size_t stage) {
    auto& s = stages_[stage];
    auto& d = devices_[stage];
    if (d.works() || s.begun == s.issued) return;
    const auto& clocks = orders_->clocks[stage];
    const size_t node = orders_->nodes[stage][s.begun];
    const auto& n = policy_.dag().nodes()[node];
    late_ += now_s_ >= asked_s_ && d.mhz() < clocks.mhz_of(s.begun);
    d.begin(now_s_, policy_.profile().rows(n.stage, n.which), uneven_[node]);
    push(d.ends_s(), event_kind::ended, stage);
    ask(stage, clocks.began(s.begun++));
  }

  void happen(const event& e) {
    auto& d = devices_[e.stage];
    switch (e.kind) {
      case event_kind::wish:
        return ask(e.stage, e.mhz);
      case event_kind::set:
        if (d.set(now_s_)) push(now_s_ + with_.set_s, event_kind::set, e.stage);
        if (d.works()) push(d.ends_s(), event_kind::ended, e.stage);
        return;
      case event_kind::ended:
        if (e.version == d.version()) ended(e.stage);
    }
  }

  void ended(size_t stage) {
    devices_[stage].end(now_s_);
    --left_;
    const size_t place = stages_[stage].begun - 1;
    const auto& n = policy_.dag().nodes()[orders_->nodes[stage][place]];
    ask(stage, orders_->clocks[stage].ended(place));
    const bool forward = n.which == instruction::forward;
    const size_t neighbour = forward ? stage + 1 : stage - 1;
    if (neighbour < stages_.size()) {
      auto& told = stages_[neighbour].order;
      forward ? told.activation_ready(n.micro_batch) : told.gradient_ready(n.micro_batch);
      issue(neighbour);
    }
    issue(stage);
  }

  const power::frontier_policy& policy_;
  rng chance_;
  std::vector<slack_device> devices_;
  const slack_orders* orders_ = nullptr;
  terms with_;
  std::vector<one_stage> stages_;
  std::vector<double> uneven_;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  uint64_t numbers_ = 0, late_ = 0;
  size_t left_ = 0;
  double now_s_ = 0, asked_s_ = 0;
};

/// What all replicas have come to.
struct slack_totals {
  double busy_s = 0, energy_j = 0;
  uint64_t changes = 0, late = 0;
};

slack_totals totals_of(const std::vector<slack_replica>& replicas) {
  slack_totals out;
  for (const auto& r : replicas) {
    out.busy_s += r.busy_s();
    out.energy_j += r.energy_j();
    out.changes += r.changes();
    out.late += r.late();
  }
  return out;
}

}  // namespace

status check(const slack_options& o, size_t operations) {
  const auto wrong = [](std::string what, std::string hint) {
    return error{errc::usage, std::move(what), std::move(hint)};
  };
  if (o.replicas < 1 || o.replicas > slack_options::most_slack_replicas)
    return wrong(fmt::format("--replicas is {}, not from 1 to {}", o.replicas,
                             slack_options::most_slack_replicas),
                 "copies of the pipeline, which meet at the end of each step");
  if (o.steps < 1 || o.steps > slack_options::most_slack_steps)
    return wrong(
        fmt::format("--steps is {}, not from 1 to {}", o.steps, slack_options::most_slack_steps),
        "the first steps are measured, and a straggler is there in the middle third");
  if (static_cast<int64_t>(operations) * o.replicas * o.steps >
      slack_options::most_slack_operations)
    return wrong(fmt::format("{} steps of {} replicas are more than {} operations", o.steps,
                             o.replicas, slack_options::most_slack_operations),
                 "fewer --steps or --replicas show the same");
  if (!(o.set_s >= 0 && o.set_s <= 10))
    return wrong(fmt::format("--set-ms is {}, not from 0 to 10000", 1000 * o.set_s),
                 "what setting a clock takes until the device runs at it; some 5 to 20 ms");
  if (!(o.late_s >= 0 && o.late_s <= 10))
    return wrong(fmt::format("--late-ms is {}, not from 0 to 10000", 1000 * o.late_s),
                 "by what setting a clock takes longer than --set-ms says");
  if (!(o.straggler >= 1 && o.straggler <= 100))
    return wrong(fmt::format("--straggler is {}, not from 1 to 100", o.straggler),
                 "1.2: a replica takes 1.2 times as long");
  return {};
}

std::vector<slack_step> simulate_slack(const power::frontier_policy& policy,
                                       const power::slack_plan& plan, const slack_options& o) {
  rng chance(o.seed);
  std::vector<slack_replica> replicas;
  for (int r = 0; r < o.replicas; ++r)
    replicas.emplace_back(policy, chance.split(static_cast<uint64_t>(r)));
  power::slack_policy slack(replicas.size(), power::slack_terms{});
  if (o.slack) slack.begin(plan);
  const auto highest = orders_of(policy, power::highest_clocks(policy.dag()), o.set_s);
  std::vector<std::optional<slack_orders>> orders(plan.points.size());
  std::vector<slack_step> out;
  std::vector<double> replica_s(replicas.size());
  const double devices = static_cast<double>(replicas.size()) * policy.dag().stages();
  double from_s = 0;
  for (int step = 0; step < o.steps; ++step) {
    const auto before = totals_of(replicas);
    slack_step told{
        0, 0, slack.state(), slack.reason(), slack.target_s(), slack.straggles(replicas.size() - 1),
        0, 0};
    for (size_t r = 0; r < replicas.size(); ++r) {
      const auto point = slack.point_of(r);
      if (point && !orders[*point])
        orders[*point] = orders_of(policy, plan.points[*point].clocks, o.set_s);
      const bool straggles =
          r + 1 == replicas.size() && step >= o.straggler_from && step < o.straggler_until;
      const bool late = o.late_s > 0 && step >= o.late_from;
      replica_s[r] = replicas[r].run(from_s, point ? *orders[*point] : highest,
                                     {straggles ? o.straggler : 1, o.uneven,
                                      o.set_s + (late ? o.late_s : 0), o.set_s}) -
                     from_s;
    }
    const auto after = totals_of(replicas);
    told.step_s = *std::max_element(replica_s.begin(), replica_s.end());
    told.energy_j = after.energy_j - before.energy_j +
                    policy.blocking_w() * (devices * told.step_s - (after.busy_s - before.busy_s));
    told.changes = after.changes - before.changes;
    told.late = after.late - before.late;
    out.push_back(told);
    slack.step({replica_s, false, told.late});
    from_s += told.step_s;
  }
  return out;
}

}  // namespace troupe::sim
