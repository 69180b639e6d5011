// Falls, dips and envelopes of a trace (swings.hpp).
#include "actors/power/swings.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include <fmt/format.h>

namespace troupe::power {

namespace {

/// A dip is below this share of the watts that are exceeded a tenth of the time.
constexpr double dip_share = 0.5;
/// It ends where this share of the usual watts is drawn again.
constexpr double works_share = 0.9;
/// Of phase: as many as that many additions allow.
constexpr size_t shifts_tried = 96, least_shifts = 8;
constexpr double additions = 4e8;
/// Steps of a trace are as even as clocks are.
constexpr double even = 1.01;
/// What rounding adds to a swing.
constexpr double rounding = 1 + 1e-9;

double sum_of(std::span<const double> x) {
  return std::accumulate(x.begin(), x.end(), 0.0);
}

/// The value that a share of all do not exceed.
double quantile(std::span<const double> x, double share) {
  std::vector<double> sorted(x.begin(), x.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

/// At each sample, how far it is below the highest of those within the window before it.
std::vector<double> falls_of(std::span<const double> x, double step_s) {
  const auto window = static_cast<size_t>(swing_rules::window_s / step_s * even);
  std::deque<size_t> highest;  // of the window, those that no later one is above
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    while (!highest.empty() && highest.front() + window < i) highest.pop_front();
    while (!highest.empty() && x[highest.back()] <= x[i]) highest.pop_back();
    highest.push_back(i);
    out[i] = x[highest.front()] - x[i];
  }
  return out;
}

double greatest_fall(std::span<const double> x, double step_s) {
  const auto all = falls_of(x, step_s);
  return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

std::vector<double> reversed(std::span<const double> x) {
  return {x.rbegin(), x.rend()};
}

double greatest_swing(std::span<const double> x, double step_s) {
  return std::max(greatest_fall(x, step_s), greatest_fall(reversed(x), step_s));
}

/// How often values come above a bound.
size_t times_beyond(const std::vector<double>& x, double bound) {
  size_t out = 0;
  for (size_t i = 1; i < x.size(); ++i) out += x[i] > bound && x[i - 1] <= bound;
  return out;
}

/// Work is what is drawn beyond idling; what is left of it is made later.
double slower_by(std::span<const double> before, std::span<const double> after, double idle_w) {
  const double work = sum_of(before) - idle_w * static_cast<double>(before.size());
  const double left = sum_of(before) - sum_of(after);
  return work > 0 && left > 0 ? left / work : 0;
}

/// Below it a job idles.
double idle_bound(std::span<const double> x) {
  return dip_share * quantile(x, 0.9);
}

remedied cut_dips(std::span<const double> x, double step_s, const swing_rules& rules) {
  remedied out;
  const auto found = dips_of(x, step_s).inner;
  size_t at = 0;
  for (const auto& d : found) {
    if (static_cast<double>(d.to - d.from) * step_s > rules.longest_save_s) continue;
    out.watts.insert(out.watts.end(), x.begin() + static_cast<ptrdiff_t>(at),
                     x.begin() + static_cast<ptrdiff_t>(d.from));
    at = d.to;
  }
  out.watts.insert(out.watts.end(), x.begin() + static_cast<ptrdiff_t>(at), x.end());
  out.slower = static_cast<double>(out.watts.size()) / static_cast<double>(x.size()) - 1;
  out.more_energy = sum_of(out.watts) / sum_of(x) - 1;
  return out;
}

/// The most that may be drawn where slopes from and to idle are bounded: a job that works may draw
/// all it does, one that idles the most of what it draws meanwhile.
std::vector<double> ramped_cap(std::span<const double> x, double step_s, double most) {
  const auto idle = dips_of(x, step_s);
  const double below = idle_bound(x);
  std::vector<double> cap(x.size(), *std::max_element(x.begin(), x.end()));
  const auto idles = [&](const dip& d) {
    double level = 0;
    for (size_t i = d.from; i < d.to; ++i)
      if (x[i] < below) level = std::max(level, x[i]);
    for (size_t i = d.from; i < d.to; ++i)
      if (x[i] < below) cap[i] = level;
  };
  idles(idle.begin);
  idles(idle.end);
  for (const auto& d : idle.inner) idles(d);
  for (size_t i = 1; i < cap.size(); ++i) cap[i] = std::min(cap[i], cap[i - 1] + most);
  for (size_t i = cap.size() - 1; i-- > 0;) cap[i] = std::min(cap[i], cap[i + 1] + most);
  return cap;
}

remedied ramp(std::span<const double> x, double step_s, const swing_rules& rules) {
  const double idle_w = idle_level_of(x, step_s);
  remedied out;
  out.watts = ramped_cap(x, step_s, rules.ramp_per_s * rules.tdp_w * step_s);
  for (size_t i = 0; i < x.size(); ++i) out.watts[i] = std::min(out.watts[i], x[i]);
  out.slower = slower_by(x, out.watts, idle_w);
  // The same joules of work, and the idle machine's for as much longer.
  out.more_energy = out.slower * idle_w * static_cast<double>(x.size()) / sum_of(x);
  return out;
}

/// The mean of jobs that begin `shift` samples after each other, each over and over.
std::vector<double> shifted(std::span<const double> x, size_t shift, int jobs) {
  std::vector<double> out(x.size(), 0.0);
  for (int k = 0; k < jobs; ++k) {
    size_t from = static_cast<size_t>(k) * shift % x.size();
    for (auto& w : out) {
      w += x[from] / jobs;
      if (++from == x.size()) from = 0;
    }
  }
  return out;
}

remedied shift_phase(std::span<const double> x, double step_s, const swing_rules& rules) {
  remedied out;
  out.watts.assign(x.begin(), x.end());
  const double each = static_cast<double>(x.size()) * rules.jobs;
  const auto tries =
      static_cast<size_t>(std::clamp(additions / each, double{least_shifts}, double{shifts_tried}));
  double least = greatest_swing(x, step_s);
  for (size_t k = 1; k <= tries; ++k) {
    auto tried = shifted(x, x.size() * k / (tries + 1), rules.jobs);
    const double swing = greatest_swing(tried, step_s);
    if (swing >= least) continue;
    least = swing;
    out.watts = std::move(tried);
  }
  return out;
}

remedied fill(std::span<const double> x, double step_s, const swing_rules& rules) {
  const double floor = rules.floor * rules.tdp_w;
  const double most = rules.ramp_per_s * rules.tdp_w * step_s;
  remedied out;
  out.watts.reserve(x.size());
  for (const double w : x) {
    const double falls_to = out.watts.empty() ? floor : out.watts.back() - most;
    out.watts.push_back(std::max({w, floor, falls_to}));
  }
  out.more_energy = sum_of(out.watts) / sum_of(x) - 1;
  return out;
}

bool keeps(const swings& s, const swing_rules& rules) {
  return s.swing_w() && *s.swing_w() <= rules.wanted_w() * rounding;
}

}  // namespace

status check(const swing_rules& r) {
  const auto share = [](double x) { return x > 0 && x <= 1; };
  if (!(r.tdp_w > 0 && std::isfinite(r.tdp_w)))
    return error{errc::usage, "--tdp-w is above 0", "watts that all devices may draw at most"};
  if (!share(r.most_swing) || !share(r.floor) || !share(r.ramp_per_s))
    return error{errc::usage,
                 "--most-swing, --floor and --ramp are shares of the TDP: above 0, at "
                 "most 1",
                 "e.g. 0.1 for a tenth of it"};
  if (!(r.most_filler_cost >= 0 && std::isfinite(r.most_filler_cost)))
    return error{errc::usage, "--most-filler-energy is a share of the energy: 0 or more",
                 "e.g. 0.05 for 5 % more"};
  if (!(r.longest_save_s > 0 && std::isfinite(r.longest_save_s)))
    return error{errc::usage, "--longest-save-s is above 0",
                 "seconds: a dip that lasts longer is no save"};
  if (r.jobs < 2 || r.jobs > swing_rules::most_jobs)
    return error{errc::usage, fmt::format("--jobs is from 2 to {}", swing_rules::most_jobs),
                 "so many share a feed, and need not dip together"};
  return {};
}

swings swings_of(std::span<const double> x, double step_s, double wanted_w) {
  swings out;
  if (x.empty()) return out;
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  out.least_w = *least;
  out.most_w = *most;
  out.mean_w = sum_of(x) / static_cast<double>(x.size());
  for (size_t i = 1; i < x.size(); ++i)
    out.ramp_w_per_s = std::max(out.ramp_w_per_s, std::abs(x[i] - x[i - 1]) / step_s);
  if (step_s <= swing_rules::window_s / 2 * even) {
    const auto falls = falls_of(x, step_s), rises = falls_of(reversed(x), step_s);
    out.fall_w = *std::max_element(falls.begin(), falls.end());
    out.rise_w = *std::max_element(rises.begin(), rises.end());
    out.beyond =
        times_beyond(falls, wanted_w * rounding) + times_beyond(rises, wanted_w * rounding);
  }
  out.band = share_of_band(x, step_s, swing_rules::from_hz, swing_rules::to_hz);
  return out;
}

dips dips_of(std::span<const double> x, double step_s) {
  dips out;
  if (x.empty()) return out;
  const double below = idle_bound(x);
  std::vector<double> working;
  for (const double w : x)
    if (w >= below) working.push_back(w);
  const double works = std::max(below, works_share * quantile(working, 0.5));
  std::vector<double> lengths_s;
  for (size_t i = 0; i < x.size();) {
    if (x[i] >= below) {
      ++i;
      continue;
    }
    dip d{i, i};
    while (d.from > 0 && x[d.from - 1] < works) --d.from;
    while (d.to < x.size() && x[d.to] < works) ++d.to;
    i = d.to;
    if (d.from == 0 || d.to == x.size()) {
      (d.from == 0 ? out.begin : out.end) = d;
      continue;
    }
    out.inner.push_back(d);
    lengths_s.push_back(static_cast<double>(d.to - d.from) * step_s);
  }
  if (lengths_s.empty()) return out;
  out.median_s = quantile(lengths_s, 0.5);
  out.time_share = sum_of(lengths_s) / step_s / static_cast<double>(x.size());
  return out;
}

double idle_level_of(std::span<const double> x, double step_s) {
  const auto idle = dips_of(x, step_s);
  double sum = 0;
  size_t samples = 0;
  const auto add = [&](const dip& d) {
    for (size_t i = d.from; i < d.to; ++i) sum += x[i];
    samples += d.to - d.from;
  };
  add(idle.begin);
  add(idle.end);
  for (const auto& d : idle.inner) add(d);
  return samples > 0 ? sum / static_cast<double>(samples) : *std::min_element(x.begin(), x.end());
}

remedied apply(remedy how, std::span<const double> x, double step_s, const swing_rules& rules) {
  auto out = how == remedy::asynchronous ? cut_dips(x, step_s, rules)
             : how == remedy::ramped     ? ramp(x, step_s, rules)
             : how == remedy::phase      ? shift_phase(x, step_s, rules)
                                         : fill(x, step_s, rules);
  out.now = swings_of(out.watts, step_s, rules.wanted_w());
  return out;
}

swing_plan plan_swings(std::span<const double> x, double step_s, const swing_rules& rules) {
  swing_plan out;
  out.before = swings_of(x, step_s, rules.wanted_w());
  out.idle = dips_of(x, step_s);
  out.together.watts.assign(x.begin(), x.end());
  out.together.now = out.before;
  for (size_t i = 0; i < out.alone.size(); ++i) {
    const auto how = static_cast<remedy>(i);
    out.alone[i] = apply(how, x, step_s, rules);
    auto& so_far = out.together;
    if (!so_far.now.swing_w() || keeps(so_far.now, rules)) continue;
    auto next = out.wanted.empty() ? out.alone[i] : apply(how, so_far.watts, step_s, rules);
    const double swing_w = *next.now.swing_w(), before_w = *so_far.now.swing_w();
    const bool dear = how == remedy::filler && next.more_energy > rules.most_filler_cost;  // SWG-3
    const bool better = swing_w < before_w ||
                        (next.now.beyond < so_far.now.beyond && swing_w <= before_w * rounding);
    if (dear || !better) continue;
    next.slower = (1 + so_far.slower) * (1 + next.slower) - 1;
    next.more_energy = (1 + so_far.more_energy) * (1 + next.more_energy) - 1;
    so_far = std::move(next);
    out.wanted.push_back(how);
  }
  out.kept = keeps(out.together.now, rules);
  return out;
}

double filler_cost(std::span<const std::pair<double, double>> quantiles, double mean_w,
                   double floor_w) {
  double energy = 0;
  for (size_t i = 1; i < quantiles.size(); ++i) {
    const auto [p0, w0] = quantiles[i - 1];
    const auto [p1, w1] = quantiles[i];
    const double width = p1 - p0;
    if (w1 <= floor_w) {
      energy += width * floor_w;
    } else if (w0 >= floor_w) {
      energy += width * (w0 + w1) / 2;
    } else {
      const double above = width * (w1 - floor_w) / (w1 - w0);
      energy += (width - above) * floor_w + above * (floor_w + w1) / 2;
    }
  }
  return std::max(0.0, energy / mean_w - 1);
}

}  // namespace troupe::power
