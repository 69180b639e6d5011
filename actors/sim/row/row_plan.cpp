// Resampling, caps on a trace, and the search.
#include "actors/sim/row/row_plan.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <thread>

#include <fmt/format.h>

#include "actors/power/largest_rise.hpp"
#include "io/base/counted.hpp"

namespace troupe::sim {

namespace {

constexpr double week_s = 7 * 86'400, day_s = 86'400, least_span_s = 3600;
/// Doubts, as shares of all watts. A week that was not seen may be as much busier as weeks differ.
constexpr double doubt_of_weeks = 0.03, least_spread = 0.02, doubt_of_short = 0.05;
constexpr double doubt_of_gaps = 0.02, doubt_of_samples = 0.02, doubt_of_slow = 0.05;
constexpr double slowest_step_s = 600;
constexpr double idle_share = 0.01;  ///< of the time, in which readings below idle are none
constexpr double least_share = 0.01, most_share = 100;  ///< of the budget, a peak that is believed
constexpr int rows_beyond = 3;
/// T1 below T2, and the ladder's below and above: as far apart as those of the paper.
constexpr double below_t2 = 0.09, ladder_below = 0.07, ladder_above = 0.03;
constexpr double lowest_t2 = 0.50, highest_t2 = 0.95;

/// What remains of what a busy server draws above idle, with a class's requests at a clock.
double energy_left(row_class c, const row_clock& clock) {
  constexpr int draws = 20'000;
  const row_watts watts(1);
  rng chance(mix(static_cast<uint64_t>(c) + 11));
  const row_clock full;
  double at_full = 0, at_clock = 0;
  for (int i = 0; i < draws; ++i) {
    const auto r = draw_request(c, chance);
    const auto joules = [&](const row_clock& k) {
      const double peak = prompt_peak(r.prompt_tokens);
      const auto prompt = static_cast<double>(watts.prompt_mw(peak, k) - watts.idle_mw());
      const auto token = static_cast<double>(watts.token_mw(k) - watts.idle_mw());
      return prompt * prompt_s(r.prompt_tokens) * k.prompt_x +
             token * token_s * r.output_tokens * k.token_x;
    };
    at_full += joules(full);
    at_clock += joules(clock);
  }
  return at_clock / at_full;
}

/// The brake stops nearly all: what is left at once, not by energy.
double braked_left(const row_clock& clock) {
  const row_watts watts(1);
  const auto above = [&](const row_clock& k) {
    return static_cast<double>(watts.token_mw(k) - watts.idle_mw());
  };
  return above(clock) / above({});
}

/// What each rung leaves of a class's power above idle, and how much longer its requests take.
struct rung_effect {
  double lp_left = 1, hp_left = 1, lp_slower = 1, hp_slower = 1;
};

std::vector<rung_effect> effects_of(const power::row_rules& rules) {
  std::vector<rung_effect> out(1);
  for (size_t level = 1; level <= rules.rung_count; ++level) {
    const auto lp = clock_of(rules.lp_mhz(level)), hp = clock_of(rules.hp_mhz(level));
    out.push_back({energy_left(row_class::low, lp), energy_left(row_class::high, hp),
                   slowdown_of(row_class::low, lp), slowdown_of(row_class::high, hp)});
  }
  return out;
}

/// The trace at the policy's ticks, in blocks that weeks are made of.
struct ticked_trace {
  double tick_s = 0;
  size_t ticks = 0;
  std::vector<std::vector<float>> columns;
  size_t block = 0;            ///< ticks of a week, or of what is nearest to one
  std::vector<size_t> starts;  ///< of blocks; together they cover the trace
  double idle_w = 0;           ///< the least that the row drew, but for a hundredth of the time

  double row_w(size_t tick) const {
    double sum = 0;
    for (const auto& c : columns) sum += static_cast<double>(c[tick]);
    return sum;
  }
};

/// Ticks are as long as the policy's, or as the samples where those are slower; the greatest of a
/// tick's samples stands for it.
ticked_trace at_ticks(const power::row_trace& t, double telemetry_s) {
  ticked_trace out;
  const auto group = static_cast<size_t>(std::max(1.0, std::floor(telemetry_s / t.step_s + 1e-6)));
  out.tick_s = t.step_s * static_cast<double>(group);
  out.ticks = (t.samples() + group - 1) / group;
  for (const auto& c : t.columns) {
    out.columns.emplace_back(out.ticks);
    for (size_t i = 0; i < c.size(); ++i)
      out.columns.back()[i / group] = std::max(out.columns.back()[i / group], c[i]);
  }
  const auto whole = [&](double s) { return static_cast<size_t>(std::llround(s / out.tick_s)); };
  out.block = out.ticks;
  for (const double s : {week_s, day_s})
    if (out.ticks >= whole(s)) {
      out.block = whole(s);
      break;
    }
  out.block = std::max<size_t>(1, out.block);
  for (size_t at = 0; at + out.block <= out.ticks; at += out.block) out.starts.push_back(at);
  if (out.starts.back() + out.block < out.ticks) out.starts.push_back(out.ticks - out.block);
  std::vector<double> drawn(out.ticks);
  for (size_t i = 0; i < out.ticks; ++i) drawn[i] = out.row_w(i);
  const auto least =
      drawn.begin() + static_cast<ptrdiff_t>(idle_share * static_cast<double>(out.ticks));
  std::nth_element(drawn.begin(), least, drawn.end());
  out.idle_w = *least;
  return out;
}

/// A resampled row: which blocks follow each other, and of a trace by server the sum of the servers
/// drawn so far.
class resample {
 public:
  resample(const ticked_trace& t, const row_options& o, rng chance)
      : t_(t), own_(o.servers), chance_(chance) {
    const auto wanted = static_cast<size_t>(std::ceil(o.weeks * week_s / t.tick_s));
    for (size_t n = 0; n < wanted; n += t.block)
      starts_.push_back(t.starts[chance_.below(t.starts.size())]);
    ticks_ = wanted;
    if (t.columns.size() > 1) sum_.resize(ticks_);
  }

  /// To so many servers; never fewer than before.
  void grow(int servers) {
    if (sum_.empty()) {
      scale_ = static_cast<double>(servers) / own_;
      return;
    }
    for (; drawn_ < servers; ++drawn_)
      for (size_t b = 0; b < starts_.size(); ++b) {
        const auto& column = t_.columns[chance_.below(t_.columns.size())];
        const size_t first = b * t_.block;
        for (size_t i = first; i < std::min(ticks_, first + t_.block); ++i)
          sum_[i] += column[starts_[b] + i - first];
      }
  }

  size_t ticks() const { return ticks_; }
  double watts(size_t i) const {
    if (!sum_.empty()) return static_cast<double>(sum_[i]);
    return scale_ * static_cast<double>(t_.columns[0][starts_[i / t_.block] + i % t_.block]);
  }

 private:
  const ticked_trace& t_;
  int own_;
  rng chance_;
  std::vector<size_t> starts_;
  size_t ticks_ = 0;
  std::vector<float> sum_;
  int drawn_ = 0;
  double scale_ = 1;
};

/// What came of one resample.
struct passed {
  double peak = 0;
  uint64_t brakes = 0;
  std::vector<uint64_t> at_level;  ///< ticks with so many rungs taken
};

/// The policy beside a resampled row: caps and brake take of the power above idle, late.
class capped_walk {
 public:
  capped_walk(const power::row_rules& rules, const std::vector<rung_effect>& effects,
              const row_options& o)
      : policy_(rules),
        effects_(effects),
        lp_share_(o.lp_share),
        budget_w_(o.budget_w),
        actuation_ns_(std::llround(o.actuation_s * 1e9)),
        braked_(braked_left(clock_of(rules.brake_mhz))) {}

  passed walk(const resample& r, double tick_s, double idle_w, double raised) {
    passed out;
    out.at_level.resize(effects_.size());
    const auto tick_ns = std::llround(tick_s * 1e9);
    for (size_t i = 0; i < r.ticks(); ++i) {
      const auto now_ns = static_cast<int64_t>(i + 1) * tick_ns;
      while (!orders_.empty() && orders_.front().at_ns < now_ns) {
        in_force_ = orders_.front().level;
        orders_.pop_front();
      }
      if (brake_ns_ < now_ns) brake_ = brake_next_;
      const double power = capped(r.watts(i) * raised, idle_w) / budget_w_;
      out.peak = std::max(out.peak, power);
      const auto before = state_.level;
      const auto d = policy_.decide(state_, {power, 1}, now_ns);
      state_ = d.state;
      if (state_.level != before) orders_.push_back({now_ns + actuation_ns_, state_.level});
      if (d.commands.brake) {
        brake_next_ = *d.commands.brake;
        brake_ns_ = now_ns + policy_.rules().brake_actuation_ns;
        out.brakes += brake_next_ ? 1 : 0;
      }
      ++out.at_level[state_.level];
    }
    return out;
  }

 private:
  struct order {
    int64_t at_ns;
    size_t level;
  };

  double capped(double watts, double idle_w) const {
    const double above = std::max(0.0, watts - idle_w);
    if (brake_) return watts - above * (1 - braked_);
    const auto& e = effects_[in_force_];
    return watts - above * (lp_share_ * (1 - e.lp_left) + (1 - lp_share_) * (1 - e.hp_left));
  }

  power::row_policy policy_;
  const std::vector<rung_effect>& effects_;
  double lp_share_, budget_w_;
  int64_t actuation_ns_;
  double braked_;
  power::row_state state_;
  std::deque<order> orders_;
  size_t in_force_ = 0;
  bool brake_ = false, brake_next_ = false;
  int64_t brake_ns_ = 0;
};

class planner {
 public:
  planner(const power::row_trace& trace, const plan_options& o)
      : trace_(trace), o_(o), t_(at_ticks(trace, o.row.telemetry_s)) {}

  result<row_plan> plan(const std::function<void(int)>& told) {
    if (trace_.span_s() < least_span_s)
      return short_trace(fmt::format("{:.0f} s", trace_.span_s()));
    if (trace_.step_s > slowest_step_s) return slow_trace(trace_.step_s, slowest_step_s);
    double peak = 0;
    for (size_t i = 0; i < t_.ticks; ++i) peak = std::max(peak, t_.row_w(i));
    if (peak < least_share * o_.row.budget_w || peak > most_share * o_.row.budget_w)
      return watts_beyond(peak, o_.row.budget_w);
    measure_rise();
    doubt_weeks();
    doubt_samples();
    search(told);
    return std::move(out_);
  }

 private:
  void measure_rise() {
    const double within_s = o_.row.telemetry_s + o_.row.actuation_s;
    const auto ticks = static_cast<size_t>(std::max(1.0, std::ceil(within_s / t_.tick_s - 1e-6)));
    power::largest_rise rise(ticks);
    for (size_t i = 0; i < t_.ticks; ++i)
      rise.add(std::max(t_.row_w(i), t_.idle_w) / o_.row.budget_w);
    out_.rise = rise.most();
    out_.rise_s = static_cast<double>(ticks) * t_.tick_s;
  }

  void doubt(double share, std::string note) {
    out_.doubt += share;
    out_.notes.push_back(fmt::format("{}: watts +{:.1f} %", note, 100 * share));
  }

  /// How much weekly peaks differ is how much busier another week may be.
  void doubt_weeks() {
    const double weeks = trace_.span_s() / week_s;
    std::vector<double> peaks;
    for (const auto start : t_.starts) {
      peaks.push_back(0);
      for (size_t i = start; i < start + t_.block; ++i)
        peaks.back() = std::max(peaks.back(), t_.row_w(i));
    }
    if (weeks < 1 - 1e-3)
      doubt(doubt_of_short, fmt::format("less than a week ({:.1f} days): busier days are not seen",
                                        trace_.span_s() / day_s));
    if (weeks < 2 - 1e-3) {
      if (weeks >= 1 - 1e-3) doubt(doubt_of_weeks, "one week: others may be busier");
      return;
    }
    double mean = 0, square = 0;
    for (const double p : peaks) mean += p / static_cast<double>(peaks.size());
    for (const double p : peaks) square += (p - mean) * (p - mean);
    const double spread = std::sqrt(square / static_cast<double>(peaks.size() - 1)) / mean;
    doubt(std::max(least_spread, spread), "weeks to come, by how much peaks of those seen differ");
  }

  void doubt_samples() {
    if (trace_.filled > 0)
      doubt(std::max(doubt_of_gaps,
                     static_cast<double>(trace_.filled) / static_cast<double>(trace_.samples())),
            fmt::format("{} missing, {:g} s at most",
                        counted(trace_.filled, "sample is", "samples are"), trace_.longest_gap_s));
    const double within_s = o_.row.actuation_s + o_.row.telemetry_s;
    if (trace_.step_s > within_s)  // samples are means: the longer, the less of a peak is in them
      doubt(doubt_of_slow * std::sqrt(trace_.step_s / within_s),
            fmt::format("samples are {:g} s apart, slower than clocks follow ({:g} s)",
                        trace_.step_s, o_.row.actuation_s));
    else if (trace_.step_s > o_.row.telemetry_s * (1 + 1e-6))
      doubt(doubt_of_samples, fmt::format("samples are {:g} s apart, readings {:g} s",
                                          trace_.step_s, o_.row.telemetry_s));
  }

  /// T2 leaves the largest rise free, grown as the row is.
  power::row_thresholds thresholds_of(double growth) const {
    if (o_.own_thresholds) return o_.row.thresholds;
    const double safe = std::floor(100 * power::safe_t2(out_.rise * growth) + 1e-9) / 100;
    power::row_thresholds t;
    t.t2 = std::clamp(safe, lowest_t2, highest_t2);
    const bool ladder = o_.row.rule == power::row_rule::ladder;
    t.t1 = t.t2 - (ladder ? ladder_below : below_t2);
    t.t3 = std::max(t.t2, std::min(1.0, t.t2 + ladder_above));
    return t;
  }

  void search(const std::function<void(int)>& told) {
    rng chance(mix(o_.row.seed));
    std::vector<resample> all;
    for (size_t r = 0; r < o_.resamples; ++r) all.emplace_back(t_, o_.row, chance.split(r));
    const auto effects = effects_of(rules_with(o_.row.thresholds));
    int beyond = 0;
    for (int added = 0; added <= o_.row.servers && beyond <= rows_beyond; ++added) {
      if (told) told(added);
      out_.rows.push_back(try_row(all, effects, added));
      if (out_.rows.back().clean == o_.resamples && beyond == 0) {
        out_.servers_added = added;
        out_.fits = true;
      } else {
        ++beyond;
      }
    }
  }

  power::row_rules rules_with(const power::row_thresholds& t) const {
    return power::rules_of(o_.row.rule, t, std::llround(o_.row.actuation_s * 1e9),
                           std::llround(t_.tick_s * 1e9));
  }

  plan_row try_row(std::vector<resample>& all, const std::vector<rung_effect>& effects, int added) {
    const double growth = static_cast<double>(o_.row.servers + added) / o_.row.servers;
    const auto t = thresholds_of(growth);
    const auto rules = rules_with(t);
    std::vector<passed> done(all.size());
    const auto work = [&](size_t first, size_t each) {
      for (size_t i = first; i < all.size(); i += each) {
        all[i].grow(o_.row.servers + added);
        done[i] =
            capped_walk(rules, effects, o_.row)
                .walk(all[i], t_.tick_s, t_.idle_w * growth * (1 + out_.doubt), 1 + out_.doubt);
      }
    };
    const auto threads = std::max<size_t>(1, std::thread::hardware_concurrency());
    std::vector<std::thread> others;
    for (size_t i = 1; i < threads; ++i) others.emplace_back(work, i, threads);
    work(0, threads);
    for (auto& other : others) other.join();
    plan_row out{added, t.t1, t.t2, t.t3};
    out.lp_slowdown = out.hp_slowdown = 0;
    for (const auto& p : done) {
      out.peak = std::max(out.peak, p.peak);
      out.brakes = std::max(out.brakes, p.brakes);
      out.clean += p.brakes == 0 ? 1 : 0;
      add_levels(out, p, effects, rules);
    }
    return out;
  }

  void add_levels(plan_row& out, const passed& p, const std::vector<rung_effect>& effects,
                  const power::row_rules& rules) const {
    double ticks = 0;
    for (const auto n : p.at_level) ticks += static_cast<double>(n);
    for (size_t level = 0; level < effects.size(); ++level) {
      const double share =
          static_cast<double>(p.at_level[level]) / ticks / static_cast<double>(o_.resamples);
      out.lp_capped += rules.lp_mhz(level) < rules.max_mhz ? share : 0;
      out.hp_capped += rules.hp_mhz(level) < rules.max_mhz ? share : 0;
      out.lp_slowdown += share * effects[level].lp_slower;
      out.hp_slowdown += share * effects[level].hp_slower;
    }
  }

  const power::row_trace& trace_;
  const plan_options& o_;
  ticked_trace t_;
  row_plan out_;
};

}  // namespace

result<row_plan> plan_row_growth(const power::row_trace& trace, const plan_options& options,
                                 const std::function<void(int added)>& told) {
  return planner(trace, options).plan(told);
}

}  // namespace troupe::sim
