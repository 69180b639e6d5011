// Windows of joules to paces.
#include "actors/power/job_pace_policy.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace troupe::power {

namespace {

constexpr int rise_factor = 4;
constexpr int64_t last_try_ns = 3'600'000'000'000;
/// Smaller changes are noise: the window grows instead.
constexpr double least_rise = 0.02, least_fall = 0.005;

int64_t mw(double w) {
  return std::llround(w * 1000);
}

/// What no machine could draw or use is not known: heartbeats are foreign.
bool known(double x) {
  return x >= 0 && x <= 1e15;
}

}  // namespace

void job_pace_policy::hear(const std::string& node, const std::string& machine,
                           const power_reading& said, int64_t now_ns) {
  if (!machine.empty()) machines_.erase(node);  // known by its node until its meter spoke
  const auto& key = machine.empty() ? node : machine;
  const auto [it, fresh] = machines_.try_emplace(key);
  auto& m = it->second;
  if (fresh) m.since_ns = now_ns;
  m.heard_ns = now_ns;
  if (m.node.empty()) m.node = node;
  if (!known(said.power_w) || (m.last && said.read_ns <= m.last->read_ns)) return;
  if (m.node != node) {  // JPP-4: each meter counts joules from a moment of its own
    if (!is_stale(m, now_ns)) return;
    m.node = node;
    m.counter_j.reset();
    m.first.reset();
  }
  if (known(said.energy_j)) {
    if (m.counter_j && said.energy_j > *m.counter_j) m.used_j += said.energy_j - *m.counter_j;
    m.counter_j = said.energy_j;
  }
  m.last = said;
  m.last->energy_j = m.counter_j ? m.used_j : -1;
  if (!known(said.limit_w)) m.last->limit_w = -1;
  m.idle_w = std::min(m.idle_w.value_or(said.power_w), said.power_w);
  if (in_force_.of_1024 > 0 && !m.first && said.read_ns >= window_begun_ns_) m.first = m.last;
}

void job_pace_policy::steps(uint64_t step, work_pace pace, int64_t now_ns) {
  const work_pace now = step == 0 ? work_pace{0} : pace;
  if (now != in_force_) begin_window(now_ns);
  in_force_ = now;
  if (step > 0) ++begun_;
  judge(now_ns);
}

void job_pace_policy::begin_window(int64_t now_ns) {
  begun_ = 0;
  window_begun_ns_ = now_ns;
  for (auto& [key, m] : machines_) m.first.reset();
}

bool job_pace_policy::is_stale(const machine& m, int64_t now_ns) const {
  constexpr int64_t ticks = 3, shortest_ns = 3'000'000'000;
  if (!m.last) return true;
  return now_ns - m.last->read_ns > std::max(ticks * m.last->interval_ns, shortest_ns);
}

/// JPP-3.
void job_pace_policy::forget(int64_t now_ns) {
  for (auto it = machines_.begin(); it != machines_.end();) {
    if (now_ns - it->second.heard_ns <= forgotten_after_ns) {
      ++it;
      continue;
    }
    gone_j_ += it->second.used_j;
    it = machines_.erase(it);
  }
}

int64_t job_pace_policy::window_ns() const {
  int64_t out = whole_window_ns;
  for (const auto& [key, m] : machines_)
    out = std::min(out, m.first && m.last ? m.last->read_ns - m.first->read_ns : 0);
  return machines_.empty() ? 0 : out;
}

/// Of all machines, each over its own readings; none: of one the energy is not known.
std::optional<double> job_pace_policy::window_mean_w() const {
  double out = 0;
  for (const auto& [key, m] : machines_) {
    if (!m.first || !m.last || m.first->energy_j < 0 || m.last->energy_j < 0) return {};
    const auto s = static_cast<double>(m.last->read_ns - m.first->read_ns) / 1e9;
    out += (m.last->energy_j - m.first->energy_j) / s;
  }
  return out;
}

/// JPP-2.
void job_pace_policy::judge(int64_t now_ns) {
  forget(now_ns);
  if (budget_w_ <= 0 || in_force_.of_1024 == 0 || begun_ < 2) return;
  const auto window = window_ns();
  if (window < least_window_ns) return;
  const auto mean_w = window_mean_w();
  const auto all = sum();
  if (!mean_w) return;
  const auto idle_mw = std::min(mw(all.idle_w), mw(*mean_w) - 1);
  const auto full_mw = work_pace_policy::uncapped_mw(idle_mw, mw(*mean_w), in_force_);
  if (!full_mw) return;
  full_w_ = static_cast<double>(*full_mw) / 1000;
  const machine_draw draw{idle_mw, *full_mw, mw(budget_w_ * aim)};
  const auto least = work_pace_policy::least_pace;
  change_to(work_pace_policy::pace_of(std::span(&draw, 1)).value_or(least), now_ns);
  if (window >= whole_window_ns) begin_window(now_ns);
}

void job_pace_policy::change_to(work_pace next, int64_t now_ns) {
  const double change = next.share() / in_force_.share() - 1;
  const bool rises = change > least_rise || (change > 0 && next == work_pace{});
  const bool blind =
      std::ranges::any_of(machines_, [&](const auto& m) { return is_stale(m.second, now_ns); });
  if (change < -least_fall)
    pace_ = next;
  else if (rises && !blind)  // JPP-3
    pace_ = std::min(next, work_pace{in_force_.of_1024 * rise_factor});
  else
    pace_ = in_force_;
}

/// Which machine says nothing although it could have by now; empty: none.
std::string job_pace_policy::unknown(int64_t now_ns) const {
  for (const auto& [key, m] : machines_)
    if (!m.last && now_ns - m.since_ns > first_reading_ns) return m.node;
  return "";
}

/// JPP-1.
work_pace job_pace_policy::first_pace() const {
  const auto all = sum();
  const machine_draw draw{mw(all.idle_w), mw(all.limit_w), mw(budget_w_ * aim)};
  const auto known = all.idle_w >= 0 && all.limit_w >= 0;
  return (known ? work_pace_policy::pace_of(std::span(&draw, 1)) : std::nullopt)
      .value_or(work_pace_policy::least_pace);
}

job_pace_policy::verdict job_pace_policy::decide(int64_t now_ns) {
  judge(now_ns);
  if (budget_w_ <= 0) return {};  // JPP-5
  const auto pace = pace_.value_or(first_pace());
  if (const auto node = unknown(now_ns); !node.empty())
    return {pace, true,
            fmt::format("nothing says what the machine of {} draws, so a budget of {:.4g} W "
                        "cannot be kept (power.model_idle_w and power.model_core_w say it where "
                        "no meter does)",
                        node, budget_w_)};
  const bool all_known =
      std::ranges::all_of(machines_, [](const auto& m) { return m.second.last.has_value(); });
  complete_ = complete_ || (all_known && !machines_.empty());
  if (!complete_) return {pace, true};  // JPP-1
  const auto all = sum();
  if (all.idle_w >= budget_w_ * aim)
    return {pace, true,
            fmt::format("the machines draw {:.4g} W without steps, the budget is {:.4g} W",
                        all.idle_w, budget_w_)};
  if (!full_w_) return {pace};
  const double least_w =
      all.idle_w + (*full_w_ - all.idle_w) * work_pace_policy::least_pace.share();
  if (least_w <= budget_w_) {
    held_since_ns_.reset();
    return {pace};
  }
  // What others did on the machine meanwhile may have been taken for the job's: it is tried again.
  if (!held_since_ns_) held_since_ns_ = now_ns;
  if (now_ns - *held_since_ns_ > tried_again_ns_) {
    tried_again_ns_ = std::min(2 * tried_again_ns_, last_try_ns);
    held_since_ns_.reset();
    full_w_.reset();
    pace_ = work_pace_policy::least_pace;
    return {*pace_};
  }
  return {
      pace, true,
      fmt::format("the slowest steps want {:.4g} W, the budget is {:.4g} W", least_w, budget_w_)};
}

job_pace_policy::totals job_pace_policy::sum() const {
  totals out{0, 0, false, 0, full_w_.value_or(-1), 0, static_cast<int>(machines_.size())};
  const auto add = [](double& to, double x) { to = to < 0 || x < 0 ? -1 : to + x; };
  for (const auto& [key, m] : machines_) {
    add(out.power_w, m.last ? m.last->power_w : -1);
    add(out.energy_j, m.last ? m.last->energy_j : -1);
    add(out.idle_w, m.idle_w.value_or(-1));
    add(out.limit_w, m.last ? m.last->limit_w : -1);
    out.modelled = out.modelled || (m.last && m.last->modelled);
  }
  if (machines_.empty()) out.power_w = out.energy_j = out.idle_w = out.limit_w = -1;
  if (out.energy_j >= 0) out.energy_j += gone_j_;
  return out;
}

}  // namespace troupe::power
