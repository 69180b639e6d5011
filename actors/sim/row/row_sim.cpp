// The loop of events.
#include "actors/sim/row/row_sim.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "actors/power/largest_rise.hpp"
#include "actors/power/safe_threshold_policy.hpp"
#include "actors/sim/row/row_load.hpp"
#include "actors/sim/row/row_pools.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t never = std::numeric_limits<int64_t>::max();

int64_t ns_of(double s) {
  return std::llround(s * 1e9);
}

size_t ticks_in(double span_s, double tick_s) {
  return static_cast<size_t>(std::max(1.0, std::round(span_s / tick_s)));
}

/// By nearest rank; 0 of nothing.
double percentile(std::vector<float>& all, double share) {
  if (all.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(all.size())));
  const auto at = all.begin() + static_cast<ptrdiff_t>(std::max<size_t>(1, rank) - 1);
  std::nth_element(all.begin(), at, all.end());
  return *at;
}

/// What ticks come to.
class row_account {
 public:
  explicit row_account(double tick_s)
      : tick_s_(tick_s),
        minutes_(ticks_in(minutes_s, tick_s)),
        in_2s_(ticks_in(2, tick_s)),
        in_40s_(ticks_in(40, tick_s)) {}

  void add(double power) {
    ++ticks_;
    sum_ += power;
    out.max_power = std::max(out.max_power, power);
    out.ticks_over_1 += power > 1 ? 1 : 0;
    in_2s_.add(power);
    in_40s_.add(power);
    last_.push_back(power);
    last_sum_ += power;
    if (last_.size() > minutes_) {
      last_sum_ -= last_.front();
      last_.pop_front();
    }
    if (last_.size() == minutes_)
      max_5min_ = std::max(max_5min_, last_sum_ / static_cast<double>(minutes_));
  }

  void finish() {
    out.mean_power = ticks_ > 0 ? sum_ / static_cast<double>(ticks_) : 0;
    if (tick_s_ <= minutes_s) out.max_5min = max_5min_;
    if (tick_s_ <= 2) out.spike_2s = in_2s_.most();
    if (tick_s_ <= 40) out.spike_40s = in_40s_.most();
  }

  row_outcome out;

 private:
  static constexpr double minutes_s = 300;

  double tick_s_;
  size_t minutes_;
  power::largest_rise in_2s_, in_40s_;
  std::deque<double> last_;
  double last_sum_ = 0, sum_ = 0, max_5min_ = 0;
  uint64_t ticks_ = 0;
};

class row_world {
 public:
  row_world(const row_options& o, std::vector<row_tick>* seen, const row_listener& listener)
      : o_(o),
        seen_(seen),
        listener_(listener),
        policy_(o.rules()),
        tick_ns_(ns_of(o.telemetry_s)),
        load_(load_of(o.profile.empty() ? daily_profile() : o.profile, o.weeks)),
        pools_(o.lp_servers(), o.servers - o.lp_servers(), o.power_scale),
        account_(o.telemetry_s),
        safe_(ns_of(o.telemetry_s), ns_of(o.actuation_s)) {
    rng chance(mix(o.seed));
    const int of[] = {o.lp_servers(), o.servers - o.lp_servers()};
    for (int c = 0; c < row_classes; ++c) {
      auto own = chance.split(static_cast<uint64_t>(c));
      if (of[c] > 0) arrivals_[c].emplace(static_cast<row_class>(c), of[c], load_, own);
    }
  }

  row_outcome run() {
    const auto end_ns = static_cast<int64_t>(o_.weeks) * 7 * 86'400 * 1'000'000'000;
    for (int64_t tick = tick_ns_; tick <= end_ns; tick += tick_ns_) {
      while (step_before(tick)) {
      }
      pass(tick);
      at_tick(tick);
    }
    return result();
  }

 private:
  struct order {
    int64_t at_ns;
    std::optional<row_class> of;  ///< else the brake's
    int mhz;
    std::optional<int> group;  ///< released; else the brake is pulled
    uint32_t brake;            ///< which one
  };

  int64_t comes_ns(int c) const { return arrivals_[c] ? arrivals_[c]->next_ns() : never; }

  /// The next event up to a tick; what is ordered comes before what ends, and that before what
  /// arrives.
  bool step_before(int64_t tick_ns) {
    const auto clocks_ns = clocks_.empty() ? never : clocks_.front().at_ns;
    const auto brake_ns = brakes_.empty() ? never : brakes_.front().at_ns;
    const auto ends_ns = pools_.next_end_ns();
    const int c = comes_ns(0) <= comes_ns(1) ? 0 : 1;
    const auto at_ns = std::min({clocks_ns, brake_ns, ends_ns, comes_ns(c)});
    if (at_ns > tick_ns) return false;
    pass(at_ns);
    if (brake_ns == at_ns) {
      work_brake(brakes_.front(), at_ns);
      brakes_.pop_front();
    } else if (clocks_ns == at_ns) {
      pools_.lock(*clocks_.front().of, clocks_.front().mhz, at_ns);
      clocks_.pop_front();
    } else if (ends_ns == at_ns) {
      pools_.end_phase(at_ns);
    } else {
      pools_.arrive(static_cast<row_class>(c), arrivals_[c]->take(), at_ns);
    }
    return true;
  }

  void work_brake(const order& o, int64_t now_ns) {
    if (!o.group) return pools_.brake(o.mhz, now_ns);
    const int groups = policy_.rules().release_groups;
    pools_.release(
        [&](size_t server) {
          return power::release_group(o_.seed, o.brake, server, groups) == *o.group;
        },
        now_ns);
  }

  void pass(int64_t now_ns) {
    tick_mw_ns_ += static_cast<double>(pools_.drawn_mw()) * static_cast<double>(now_ns - now_ns_);
    now_ns_ = now_ns;
  }

  void at_tick(int64_t now_ns) {
    const double watts = tick_mw_ns_ / static_cast<double>(tick_ns_) / 1000;
    energy_mw_ns_ += tick_mw_ns_;
    tick_mw_ns_ = 0;
    const double power = watts / o_.budget_w;
    account_.add(power);
    // What pulls the brake is a reading without it.
    safe_.read(power, state_.brake != power::row_brake::off);
    const double at_caps = static_cast<double>(pools_.most_mw()) / 1000 / o_.budget_w;
    const power::row_sample sample{power, at_caps, false};
    const auto decided = policy_.decide(state_, sample, now_ns);
    if (listener_)
      if (const power::row_record r{now_ns, state_, sample, decided}; r.is_worth_keeping())
        listener_(r);
    state_ = decided.state;
    obey(decided.commands, now_ns);
    const auto& rules = policy_.rules();
    capped_[0] += rules.lp_mhz(state_.level) < rules.max_mhz ? 1 : 0;
    capped_[1] += rules.hp_mhz(state_.level) < rules.max_mhz ? 1 : 0;
    ++ticks_;
    if (seen_ != nullptr)
      seen_->push_back(
          {static_cast<float>(power), static_cast<uint8_t>(state_.level), state_.brake});
  }

  void obey(const power::row_commands& c, int64_t now_ns) {
    const auto& rules = policy_.rules();
    const auto after_ns = now_ns + ns_of(o_.actuation_s);
    if (c.lp_mhz) clocks_.push_back({after_ns, row_class::low, *c.lp_mhz, {}, 0});
    if (c.hp_mhz) clocks_.push_back({after_ns, row_class::high, *c.hp_mhz, {}, 0});
    if (c.brake == true || c.release_group)
      brakes_.push_back(
          {now_ns + rules.brake_actuation_ns, {}, rules.brake_mhz, c.release_group, state_.brakes});
  }

  row_outcome result() {
    account_.finish();
    auto out = account_.out;
    out.brakes = state_.brakes;
    out.spike_answer = safe_.largest();
    constexpr double mwh_of_mw_ns = 1e-3 / 1e9 / 3600 / 1e6;
    out.mwh = energy_mw_ns_ * mwh_of_mw_ns;
    for (int i = 0; i < row_classes; ++i) {
      const auto c = static_cast<row_class>(i);
      auto& counted = pools_.of(c);
      auto& into = out.of[static_cast<size_t>(i)];
      into.p50_s = percentile(counted.latency_s, 0.50);
      into.p99_s = percentile(counted.latency_s, 0.99);
      into.done = counted.latency_s.size();
      into.dropped = counted.dropped;
      into.left = pools_.unfinished(c);
      into.capped_share =
          static_cast<double>(capped_[i]) / static_cast<double>(std::max<uint64_t>(1, ticks_));
    }
    return out;
  }

  const row_options& o_;
  std::vector<row_tick>* seen_;
  const row_listener& listener_;
  power::row_policy policy_;
  power::row_state state_;
  int64_t tick_ns_;
  std::vector<double> load_;
  row_pools pools_;
  std::optional<row_arrivals> arrivals_[row_classes];
  std::deque<order> clocks_, brakes_;  ///< delays are constant: in order as they come
  row_account account_;
  power::safe_threshold_policy safe_;
  int64_t now_ns_ = 0;
  double tick_mw_ns_ = 0, energy_mw_ns_ = 0;
  uint64_t capped_[row_classes] = {}, ticks_ = 0;
};

error misuse(std::string what, std::string hint) {
  return {errc::usage, std::move(what), std::move(hint)};
}

}  // namespace

power::row_rules row_options::rules() const {
  auto out = power::rules_of(rule, thresholds, ns_of(actuation_s), ns_of(telemetry_s));
  out.release_groups = release_groups;
  return out;
}

int row_options::lp_servers() const {
  return static_cast<int>(std::lround(servers * lp_share));
}

status check(const row_options& o) {
  const auto within = [](double x, double low, double high) { return x >= low && x <= high; };
  TROUPE_CHECK(power::check(o.rule, o.thresholds));
  if (!within(o.servers, 1, row_options::most_servers))
    return misuse(
        fmt::format("--servers is from 1 to {}, and not {}", row_options::most_servers, o.servers),
        "a row has some tens of servers");
  if (!within(o.weeks, 1, row_options::most_weeks))
    return misuse(
        fmt::format("--weeks is from 1 to {}, and not {}", row_options::most_weeks, o.weeks),
        "six weeks are what POLCA was evaluated on");
  if (!within(o.budget_w, 1, 1e9))
    return misuse(fmt::format("--budget-w is from 1 to 1e9 watts, and not {}", o.budget_w),
                  fmt::format("{} servers of {} W have 216000", row_own_servers, row_server_w));
  if (!within(o.telemetry_s, 0.1, 600))
    return misuse(fmt::format("--telemetry-s is from 0.1 to 600, and not {}", o.telemetry_s),
                  "it is the time between two readings of the row, 2 s in the paper");
  if (!within(o.actuation_s, 0, 3600))
    return misuse(fmt::format("--actuation-s is from 0 to 3600, and not {}", o.actuation_s),
                  "out of band it is 40 s, in band about 2");
  if (!within(o.lp_share, 0, 1))
    return misuse(fmt::format("--lp-share is from 0 to 1, and not {}", o.lp_share), "");
  if (!within(o.release_groups, 1, row_options::most_release_groups))
    return misuse(fmt::format("--release-groups is from 1 to {}, and not {}",
                              row_options::most_release_groups, o.release_groups),
                  "1 releases the brake of all servers at once");
  if (!within(o.power_scale, 0.1, 10))
    return misuse(fmt::format("--power-scale is from 0.1 to 10, and not {}", o.power_scale), "");
  return {};
}

status check_run(const row_options& o) {
  if (int64_t{o.servers} * o.weeks > row_options::most_server_weeks)
    return misuse(fmt::format("--servers times --weeks is {} at most, and not {} * {}",
                              row_options::most_server_weeks, o.servers, o.weeks),
                  "the latency of every request is kept: simulate fewer weeks of so many servers");
  constexpr double week_s = 7 * 86'400;
  if (o.weeks * week_s / o.telemetry_s > static_cast<double>(row_options::most_ticks))
    return misuse(fmt::format("--weeks {} at --telemetry-s {} are more than {} readings", o.weeks,
                              o.telemetry_s, row_options::most_ticks),
                  "simulate fewer weeks, or read less often");
  return {};
}

row_outcome simulate_row(const row_options& o, std::vector<row_tick>* seen,
                         const row_listener& listener) {
  return row_world(o, seen, listener).run();
}

}  // namespace troupe::sim
