// Devices, their nodes, and a job on them, second by second (power_devices.hpp).
#include "apps/bench/power_devices.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "actors/power/budget_policy.hpp"
#include "actors/power/budget_schedule.hpp"
#include "actors/power/lease_policy.hpp"
#include "actors/power/node_lease_policy.hpp"
#include "actors/sim/power_model.hpp"
#include "actors/sim/rng.hpp"
#include "actors/train/work_pace_policy.hpp"
#include "apps/bench/spread.hpp"
#include "apps/bench/stopwatch.hpp"
#include "io/formats/number_table.hpp"

namespace troupe::apps::power_bench {

namespace {

using train::machine_draw;
using train::work_pace;
using train::work_pace_policy;

constexpr int64_t site_tick_ns = 1'000'000'000;
/// A lease outlasts six ticks of each level.
constexpr int64_t ttl_ticks_a_level = 6;
/// Until every level has granted what there is, and the ranks have gone up to their clocks.
constexpr int settling_ticks_a_level = 90;
/// What is known of a device at a clock is the mean of so many steps there: readings err.
constexpr int mean_steps = 4;
/// Clocks of an H100, each 15 MHz.
constexpr int least_mhz = 345, greatest_mhz = 1980, apart_mhz = 15;
/// Of a device: static shares fit into the least row of the table.
constexpr int64_t device_ceiling_mw = 700'000, device_static_mw = 350'000,
                  device_floor_mw = 150'000;
/// What is wished for above what a meter has said: of so many meters one says too little.
constexpr double wished_above = 0.004;

const sim::power_model_options h100;

int64_t milli(double watts) {
  return std::llround(watts * 1e3);
}

double share_of_mhz(int mhz) {
  return static_cast<double>(mhz) / greatest_mhz;
}

/// A clock is the root of the pace, as for a job whose ranks' GPUs are locked.
int mhz_of(work_pace pace) {
  const int mhz = static_cast<int>(std::sqrt(pace.share()) * greatest_mhz);
  return std::clamp((mhz - least_mhz) / apart_mhz * apart_mhz + least_mhz, least_mhz, greatest_mhz);
}

/// The least one that stands for that clock.
work_pace pace_of_mhz(int mhz) {
  const double share = share_of_mhz(mhz);
  return {static_cast<int>(std::ceil(share * share * work_pace::whole))};
}

/// A simulated device, and what its job knows of it.
struct site_device {
  double idle_w = 0, work_w = 0;  ///< the latter at the greatest clock
  int64_t known_full_mw = 0;      ///< by its meter
  int mhz = greatest_mhz;         ///< in force
  double read_w = 0;              ///< the sum of the step's readings
  int steps_at = 0;               ///< that it has made at this clock
  power::lease_policy lease{device_static_mw, 1, device_static_mw};
  std::optional<power::power_grant> inbox = {};

  double drawn_w(double exponent) const {
    return idle_w + work_w * std::pow(share_of_mhz(mhz), exponent);
  }
  machine_draw known() const { return {milli(idle_w), known_full_mw, 0}; }
};

/// A node of the tree above the devices.
struct site_node {
  power::budget_policy policy;
  std::optional<power::node_lease_policy> lease;  ///< none: the feed
  std::optional<power::power_answer> inbox = {};
  int64_t static_mw = 0, ceiling_mw = 0;
  int64_t drawn_mw = 0, wish_mw = 0;  ///< of its children, as they told in this tick
};

power::budget_rules rules_of_level(size_t levels, int64_t floor_mw) {
  constexpr int64_t noise_parts = 20'000;  // a cap is to be followed to the clock
  power::budget_rules out;
  out.tick_ns = site_tick_ns;
  out.ttl_ns = static_cast<int64_t>(levels) * ttl_ticks_a_level * site_tick_ns;
  out.noise_mw = floor_mw / noise_parts;
  out.row = power::rules_of(power::row_rule::none, {}, 2 * site_tick_ns, site_tick_ns);
  return out;
}

class device_site {
 public:
  device_site(const devices_plan& plan, rank_clocks clocks) : plan_(plan), clocks_(clocks) {
    sim::rng random(plan.seed);
    int64_t devices = 1;
    for (const int n : plan.children) devices *= n;
    devices_.resize(static_cast<size_t>(devices));
    for (auto& d : devices_) {
      const double more = 1 + plan.spread * (2 * random.unit() - 1);
      d.idle_w = h100.idle_w;
      d.work_w = (h100.backward_w - h100.idle_w) * more;
      d.known_full_mw = device_ceiling_mw;
    }
    noise_ = random.split(1);
    int64_t below = devices, nodes = 1;
    for (const int n : plan.children) {
      below /= n;
      levels_.push_back({});
      const power::budget_child child{power::power_class::low, below * device_floor_mw,
                                      below * device_static_mw, below * device_ceiling_mw};
      const auto rules = rules_of_level(plan.children.size(), child.floor_mw);
      for (int64_t i = 0; i < nodes; ++i) add_node(rules, child, static_cast<size_t>(n));
      nodes *= n;
    }
  }

  /// A second of all devices, then of all nodes, from below; returns how long the nodes' took.
  double tick(int64_t feed_mw) {
    now_ns_ += site_tick_ns;
    if (++seconds_ % plan_.step_s == 0) begin_step();
    set_wishes();
    const auto deciding = std::chrono::steady_clock::now();
    hear_devices();
    for (size_t level = levels_.size(); level-- > 0;) decide(level, feed_mw);
    return seconds_since(deciding) * 1e3;
  }

  double drawn_w() const {
    double out = 0;
    for (const auto& d : devices_) out += d.drawn_w(plan_.exponent);
    return out;
  }
  /// Of the slowest.
  double speed() const {
    const auto by_clock = [](const site_device& a, const site_device& b) { return a.mhz < b.mhz; };
    return share_of_mhz(std::min_element(devices_.begin(), devices_.end(), by_clock)->mhz);
  }
  /// All of them at one clock.
  double drawn_w_at(int mhz) const {
    double idle_w = 0, work_w = 0;
    for (const auto& d : devices_) {
      idle_w += d.idle_w;
      work_w += d.work_w;
    }
    return idle_w + work_w * std::pow(share_of_mhz(mhz), plan_.exponent);
  }
  size_t devices() const { return devices_.size(); }

 private:
  void add_node(const power::budget_rules& rules, const power::budget_child& child, size_t many) {
    const auto all = static_cast<int64_t>(many);
    site_node made{power::budget_policy(rules, {many, child}, 1, now_ns_), {}};
    made.static_mw = all * child.static_share_mw;
    made.ceiling_mw = all * child.ceiling_mw;
    if (levels_.size() > 1) made.lease.emplace(1, made.static_mw);
    levels_.back().push_back(std::move(made));
  }

  /// What a step drew says what its device draws at the whole pace; then the clocks of the next.
  void begin_step() {
    std::vector<machine_draw> draws;
    for (auto& d : devices_) {
      const auto mean_mw = milli(std::exchange(d.read_w, 0) / plan_.step_s);
      const auto full_mw =
          work_pace_policy::uncapped_mw(milli(d.idle_w), mean_mw, pace_of_mhz(d.mhz));
      if (full_mw && seconds_ > plan_.step_s)
        d.known_full_mw += (*full_mw - d.known_full_mw) / std::clamp(d.steps_at, 1, mean_steps);
      draws.push_back(bounded(d));
    }
    const auto least = work_pace_policy::least_pace;
    const auto all = work_pace_policy::pace_of(draws).value_or(least);  // PWR-4
    for (size_t i = 0; i < devices_.size(); ++i) {
      auto& d = devices_[i];
      const std::span one(&draws[i], 1);
      const auto pace =
          clocks_ == rank_clocks::together ? all : work_pace_policy::pace_of(one).value_or(least);
      d.steps_at = mhz_of(pace) == d.mhz ? d.steps_at + 1 : 0;
      // What a greater clock draws is known once it was in force: up by one of the list at a time.
      d.mhz = std::min(mhz_of(pace), d.mhz + apart_mhz);
    }
  }

  static machine_draw bounded(const site_device& d) {
    auto out = d.known();
    out.cap_mw = d.lease.cap_mw();
    return out;
  }

  /// Together: the clock of the list that all that the job was granted is enough for. PWR-4
  void set_wishes() {
    wished_ = {};
    if (clocks_ == rank_clocks::alone) return;
    machine_draw all;
    for (const auto& d : devices_) {
      const auto one = bounded(d);
      all.idle_mw += one.idle_mw;
      all.work_mw += one.work_mw;
      all.cap_mw += one.cap_mw;
    }
    // As much again stays free: what is short is cut from those that draw most.
    all.cap_mw = std::llround(static_cast<double>(all.cap_mw) / (1 + 2 * wished_above));
    const auto pace = work_pace_policy::pace_of(std::span(&all, 1));
    wished_ = pace_of_mhz(mhz_of(pace.value_or(work_pace_policy::least_pace)));
  }

  /// Each reads its meter, follows its lease, and reports to its machine.
  void hear_devices() {
    const auto fan_out = static_cast<size_t>(plan_.children.back());
    auto& machines = levels_.back();
    for (auto& m : machines) m.drawn_mw = m.wish_mw = 0;
    for (size_t i = 0; i < devices_.size(); ++i) {
      auto& d = devices_[i];
      const double w = d.drawn_w(plan_.exponent) * (1 + plan_.noise * (2 * noise_.unit() - 1));
      d.read_w += w;
      if (d.inbox) d.lease.hear(*std::exchange(d.inbox, {}), now_ns_);
      d.lease.tick(now_ns_);
      d.lease.read_back(work_pace_policy::drawn_mw(d.known(), pace_of_mhz(d.mhz)));
      const auto wish_mw = std::llround(
          static_cast<double>(work_pace_policy::drawn_mw(d.known(), wished_)) * (1 + wished_above));
      auto& m = machines[i / fan_out];
      m.drawn_mw += milli(w);
      m.wish_mw += wish_mw;
      m.policy.hear(i % fan_out, d.lease.report(now_ns_, milli(w), wish_mw), now_ns_);
    }
  }

  /// All nodes of a level: what was granted, what they grant, what they tell above.
  void decide(size_t level, int64_t feed_mw) {
    if (level > 0)
      for (auto& above : levels_[level - 1]) above.drawn_mw = above.wish_mw = 0;
    for (size_t i = 0; i < levels_[level].size(); ++i) {
      auto& n = levels_[level][i];
      const auto own = own_of(n, feed_mw);
      for (const auto& g : n.policy.tick(own, {n.drawn_mw, true}, now_ns_).grants)
        send(level, i, g);
      if (level > 0 && n.lease->has_begun()) report(level, i);
    }
  }

  power::own_cap own_of(site_node& n, int64_t feed_mw) {
    if (!n.lease) return {feed_mw};
    if (n.inbox) n.lease->hear(*std::exchange(n.inbox, {}), now_ns_);
    if (!n.lease->has_begun() && n.policy.knows(now_ns_)) n.lease->begin(n.policy.told_mw());
    return n.lease->tick(n.ceiling_mw, now_ns_);
  }

  void send(size_t level, size_t from, const power::budget_decision::addressed& g) {
    const auto to = from * static_cast<size_t>(plan_.children[level]) + g.child;
    if (level + 1 == levels_.size())
      devices_[to].inbox = g.grant;
    else
      levels_[level + 1][to].inbox = {g.grant, levels_[level + 1][to].static_mw, false};
  }

  void report(size_t level, size_t i) {
    auto& n = levels_[level][i];
    const auto fan_out = static_cast<size_t>(plan_.children[level - 1]);
    auto& above = levels_[level - 1][i / fan_out];
    const auto wish_mw = std::min(n.wish_mw, n.ceiling_mw);
    above.drawn_mw += n.drawn_mw;
    above.wish_mw += wish_mw;
    above.policy.hear(i % fan_out,
                      n.lease->report(now_ns_, {n.policy.counted_mw(), n.drawn_mw, wish_mw}),
                      now_ns_);
  }

  const devices_plan& plan_;
  const rank_clocks clocks_;
  sim::rng noise_{0};
  int64_t now_ns_ = 1000 * site_tick_ns;
  int seconds_ = 0;
  work_pace wished_;
  std::vector<site_device> devices_;
  std::vector<std::vector<site_node>> levels_;  ///< the feed first
};

/// The greatest clock at which all devices are within the watts; the least one where none is.
int best_mhz(const device_site& s, double watts) {
  int mhz = greatest_mhz;
  while (mhz > least_mhz && s.drawn_w_at(mhz) > watts) mhz -= apart_mhz;
  return mhz;
}

/// What a way has come to, second by second.
class ranks_judge {
 public:
  void second(double speed, double best, double drawn_w, double budget_w) {
    const bool over = drawn_w > budget_w;
    ++out_.seconds;
    out_.speed += speed;
    best_ += best;
    counted_ += std::min(speed, best);  // BPD-1: within the budget no clock is above the best
    over_now_ = over ? over_now_ + 1 : 0;
    out_.over_s += over ? 1 : 0;
    out_.longest_over_s = std::max(out_.longest_over_s, over_now_);
    if (!over) used_ += drawn_w / budget_w;
  }
  devices_run run() const {
    auto out = out_;
    out.speed /= out.seconds;
    out.of_best = counted_ / best_;
    if (const int within = out.seconds - out.over_s; within > 0) out.used = used_ / within;
    return out;
  }

 private:
  devices_run out_;
  double best_ = 0, counted_ = 0, used_ = 0;
  int over_now_ = 0;
};

/// What the feed has by second.
struct feed_budget {
  power::budget_schedule schedule;
  int seconds = 0;  ///< that are watched

  int64_t at_mw(int second) const {
    return schedule.at_mw(second * site_tick_ns).value_or(schedule.greatest_mw());
  }
  double watts(int second) const { return static_cast<double>(at_mw(second)) / 1e3; }
};

/// BSC-1 bounds the rows from below; how long is watched is bounded here.
result<feed_budget> feed_for(const devices_plan& plan, int devices) {
  constexpr double most_s = 100'000;
  TROUPE_TRY(table, io::parse_number_table(plan.budget_csv.empty() ? falling_budget(devices)
                                                                   : plan.budget_csv));
  if (table.rows() > 0 && !(table.first.back() <= most_s))
    return power::bad_schedule(table.line_of(table.rows() - 1),
                               fmt::format("it is later than {:g} s", most_s));
  TROUPE_TRY(schedule,
             power::budget_schedule::of(table, {"the feed's", 0, devices * device_static_mw}));
  const int seconds = static_cast<int>(table.first.back()) + plan.last_row_s;
  return feed_budget{std::move(schedule), seconds};
}

status check_plan(const devices_plan& plan) {
  constexpr int64_t most_devices = 1'000'000;
  int64_t devices = 1;
  for (const int n : plan.children) {
    if (n < 1 || devices * n > most_devices)
      return error{errc::bad_config, "a tree has at least a child a node, and a million devices"};
    devices *= n;
  }
  if (plan.children.empty() || plan.step_s < 1 || plan.last_row_s < 1)
    return error{errc::bad_config, "a tree of devices needs a level, and a second"};
  return {};
}

/// What one way comes to. How long each second's decisions took is added to `decide_ms`.
devices_run watch_ranks(const devices_plan& plan, rank_clocks clocks, const feed_budget& has,
                        std::vector<double>& decide_ms) {
  device_site s(plan, clocks);
  const auto settling = static_cast<int>(plan.children.size()) * settling_ticks_a_level;
  for (int i = 0; i < settling; ++i) s.tick(has.at_mw(0));
  ranks_judge judged;
  for (int i = 0; i < has.seconds; ++i) {
    decide_ms.push_back(s.tick(has.at_mw(i)));
    judged.second(s.speed(), share_of_mhz(best_mhz(s, has.watts(i))), s.drawn_w(), has.watts(i));
  }
  return judged.run();
}

/// What needs no tree: the best uniform clock, and as few capped ranks as will do.
void look_back(const devices_plan& plan, const feed_budget& has, devices_measurement& out) {
  const device_site s(plan, rank_clocks::together);
  const double full_w = s.drawn_w_at(greatest_mhz);
  const double saved_w = (full_w - s.drawn_w_at(least_mhz)) / out.devices;  // by a mean rank
  double best = 0, few = 0;
  for (int i = 0; i < has.seconds; ++i) {
    best += share_of_mhz(best_mhz(s, has.watts(i)));
    const double over_w = full_w - has.watts(i);
    few += share_of_mhz(over_w > 0 ? least_mhz : greatest_mhz);
    if (over_w > 0) out.few_ranks += std::min<double>(std::ceil(over_w / saved_w), out.devices);
  }
  out.best_speed = best / has.seconds;
  out.few_of_best = few / best;
  out.few_ranks /= has.seconds;
}

}  // namespace

double full_watts(int devices) {
  return devices * h100.backward_w;
}

std::string falling_budget(int devices) {
  constexpr double first = 1.04, last = 0.6, a_minute = 0.04;
  std::string out = "t_s,watts\n";
  const int rows = static_cast<int>(std::lround((first - last) / a_minute)) + 1;
  for (int i = 0; i < rows; ++i)
    out += fmt::format("{},{:.0f}\n", 60 * i, (first - a_minute * i) * full_watts(devices));
  return out;
}

result<devices_measurement> measure_devices(const devices_plan& plan) {
  TROUPE_CHECK(check_plan(plan));
  devices_measurement out;
  out.devices = 1;
  for (const int n : plan.children) out.devices *= n;
  TROUPE_TRY(has, feed_for(plan, out.devices));
  out.seconds = has.seconds;
  look_back(plan, has, out);
  std::vector<double> decide_ms, alone_ms;
  out.together = watch_ranks(plan, rank_clocks::together, has, decide_ms);
  out.alone = watch_ranks(plan, rank_clocks::alone, has, alone_ms);
  out.decide_ms = median(decide_ms);
  return out;
}

}  // namespace troupe::apps::power_bench
