// Windows of joules to paces.
#include "actors/power/job_pace_policy.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace troupe::power {

namespace {

constexpr int rise_factor = 4;
/// Of a ramp, by steps that say little.
constexpr int unsure_rise = 2;
constexpr double odd_step = 2;
constexpr size_t steps_kept = 8, steps_known = 3;
/// Of a window, in which steps must not have stood for it to say more than the least.
constexpr double least_work = 0.1;
constexpr int64_t last_try_ns = 3'600'000'000'000;
/// Smaller changes are noise: the window grows instead.
constexpr double least_rise = 0.02, least_fall = 0.005;
/// What no machine could draw, in watts, or has used, in joules, is not known: heartbeats are
/// foreign.
constexpr double odd_w = 1e9, odd_j = 1e15, odd_busy = 1e6;
/// Looks of nodes on one machine that are further apart than that are not of the same time.
constexpr int64_t same_time_ns = 10'000'000'000;
constexpr int64_t head_look_ns = 1'000'000'000;

int64_t mw(double w) {
  return std::llround(w * 1000);
}

bool known(double x, double odd) {
  return x >= 0 && x <= odd;
}

/// Of the machine's processor time; all of it where that is not known.
double own_of(const power_reading& said) {
  if (!known(said.process_busy, odd_busy) || !known(said.machine_busy, odd_busy)) return 1;
  return said.machine_busy > 0 ? std::min(1.0, said.process_busy / said.machine_busy) : 0;
}

}  // namespace

/// Of a node that does not say its machine (now): the one it said last, else itself.
void job_pace_policy::hear(const std::string& node, const std::string& its_machine,
                           const power_reading& said, int64_t now_ns) {
  if (!its_machine.empty()) {
    auto& on = machine_of_[node];
    if (on.name != its_machine || said.read_ns > on.read_ns)
      on = {its_machine, own_of(said), said.read_ns};
    if (its_machine != node) machines_.erase(node);  // known by its node until its meter spoke
  }
  const auto of_node = machine_of_.find(node);
  const auto [it, fresh] =
      machines_.try_emplace(of_node != machine_of_.end() ? of_node->second.name : node);
  auto& m = it->second;
  if (fresh) m.since_ns = now_ns;
  m.heard_ns = now_ns;
  if (m.node.empty()) m.node = node;
  if (!known(said.power_w, odd_w) || (m.last && said.read_ns <= m.last->read_ns)) return;
  const bool was_silent = is_stale(m, now_ns);
  if (m.node != node) {  // JPP-4: each meter counts joules from a moment of its own
    if (!was_silent) return;
    m.node = node;
    m.counter_j.reset();
  }
  if (was_silent) m.first.reset();  // what it used meanwhile need not be counted
  m.part.look(said.power_w, known(said.machine_busy, odd_busy) ? said.machine_busy : -1);
  const double own = own_part(it->first, said.read_ns);
  add_energy(m, said, own);
  m.last = said;
  m.last->power_w = m.part.part_w(said.power_w, own);  // JPP-8
  m.whole_w = said.power_w;
  m.own = own;
  m.last->energy_j = m.counter_j ? m.used_j : -1;
  if (!known(said.limit_w, odd_w)) m.last->limit_w = -1;
  const bool begins = !m.first || m.first->energy_j < 0;
  if (in_force_.of_1024 > 0 && begins && said.read_ns >= window_begun_ns_) m.first = m.last;
}

/// The kernel has ticks of 10 ms: looks are as far apart as a meter's.
void job_pace_policy::hear_head(const std::string& its_machine, double process_s, double machine_s,
                                int64_t now_ns) {
  if (now_ns - head_looked_ns_ < head_look_ns) return;
  head_looked_ns_ = now_ns;
  const double before_s = std::exchange(head_process_s_, process_s);
  const double all_before_s = std::exchange(head_machine_s_, machine_s);
  const double all_s = machine_s - all_before_s;
  if (before_s < 0 || all_before_s < 0 || process_s < 0 || machine_s < 0 || !(all_s > 0)) return;
  head_ = {its_machine, std::clamp((process_s - before_s) / all_s, 0.0, 1.0), now_ns};
}

/// Of all nodes of the job there, and of its head: each counts its own process.
double job_pace_policy::own_part(const std::string& its_machine, int64_t read_ns) const {
  const bool has_head = head_.name == its_machine && read_ns - head_.read_ns <= same_time_ns;
  double out = has_head ? head_.own : 0;
  for (const auto& [node, on] : machine_of_)
    if (on.name == its_machine && read_ns - on.read_ns <= same_time_ns) out += on.own;
  return std::min(1.0, out);
}

/// A counter's joules are of all that the machine drew between two readings.
void job_pace_policy::add_energy(machine& m, const power_reading& said, double own) const {
  if (!known(said.energy_j, odd_j)) return;
  const auto used_j = m.counter_j ? said.energy_j - *m.counter_j : 0;
  const auto s = static_cast<double>(said.read_ns - m.counter_ns) / 1e9;
  if (used_j > 0 && s > 0) m.used_j += m.part.part_w(used_j / s, own) * s;
  m.counter_j = said.energy_j;
  m.counter_ns = said.read_ns;
}

/// A window is of one rule. What was judged by the other is taken for as much less, or more, as the
/// last look is by this one: a cap that comes with it binds the next step (JPP-6).
void job_pace_policy::set_shared(const std::map<std::string, uint32_t>& jobs, int64_t now_ns) {
  bool differs = false;
  for (auto& [key, m] : machines_) {
    const auto it = jobs.find(key);
    if (it != jobs.end()) m.shared_ns = now_ns;
    const bool is_kept = it == jobs.end() && now_ns - m.shared_ns < forgotten_after_ns;
    const auto count = it == jobs.end() ? 1 : std::max<uint32_t>(1, it->second);
    if (count == m.part.jobs() || is_kept) continue;
    const double before_w = m.part.part_w(m.whole_w, m.own);
    m.part.shared_by(count);
    const double factor = before_w > 0 ? m.part.part_w(m.whole_w, m.own) / before_w : 1;
    if (m.judged_w) *m.judged_w *= factor;
    if (m.drew_w) *m.drew_w *= factor;
    if (m.rested_w) *m.rested_w *= factor;
    differs = true;
  }
  if (!differs) return;
  held_since_ns_.reset();
  begin_window(now_ns);
}

std::set<std::string> job_pace_policy::machines() const {
  std::set<std::string> out;
  for (const auto& [node, on] : machine_of_) out.insert(on.name);
  return out;
}

void job_pace_policy::ranks_changed(int64_t now_ns) {
  for (auto& [key, m] : machines_) m.worked = false;
  ramp_.steps(work_pace{0}, std::nullopt, now_ns);  // JPP-10
  begin_window(now_ns);
}

/// Of steps at the pace in force, of that at full speed.
double job_pace_policy::speed() const {
  return by_root_ ? std::sqrt(in_force_.share()) : in_force_.share();
}

/// The step that ends here, and for how long it stood.
void job_pace_policy::note_step(uint64_t next_step, int64_t now_ns) {
  const auto begun_ns = std::exchange(step_begun_ns_, now_ns);
  if (watches_) return;
  if (next_step == 0 || step_ == 0 || step_ == partial_ || in_force_.of_1024 == 0) return;
  const double took_s = static_cast<double>(now_ns - begun_ns) / 1e9;
  if (took_s_.size() >= steps_known) {
    auto sorted = std::vector<double>(took_s_.begin(), took_s_.end());
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    const double median_s = *middle / speed();
    const double seen_s = static_cast<double>(now_ns - std::max(begun_ns, window_begun_ns_)) / 1e9;
    if (took_s > odd_step * median_s) stood_s_ += std::min(took_s - median_s, seen_s);
  }
  took_s_.push_back(took_s * speed());
  if (took_s_.size() > steps_kept) took_s_.pop_front();
}

void job_pace_policy::steps(uint64_t step, work_pace pace, int64_t now_ns) {
  if (rests_ && step > 0 && pace.of_1024 > 0) return rest_in(step, pace);
  if (rests_) {  // the step that rested is over, and none is made now
    rested_.reset();
    step = 0;
  }
  const work_pace now = step == 0 ? work_pace{0} : pace;
  const bool begins = step == 0 || step != step_ || in_force_.of_1024 == 0;
  if (begins) note_step(step, now_ns);
  if (begins || now != in_force_) ramp_.steps(now, work_w(now_ns), now_ns);
  if (now != in_force_) begin_pace(now, now_ns);
  in_force_ = now;
  if (step != partial_) {
    if (std::exchange(began_late_, false)) begin_window(now_ns);
    partial_ = 0;
  }
  if (step > 0 && step != partial_ && (step != step_ || begun_ == 0)) ++begun_;
  step_ = step;
  judge(begins ? moment::step_begins : moment::any, now_ns);
}

/// Where it rests it is partial once it goes on.
void job_pace_policy::begins_late() {
  began_late_ = true;
  if (in_force_.of_1024 == 0) return;
  partial_ = step_;
  begun_ = 0;
}

void job_pace_policy::rest(bool rests, int64_t now_ns) {
  if (std::exchange(rests_, rests) == rests) return;
  if (rests) {
    if (in_force_.of_1024 == 0) return;  // no step is made
    rested_ = in_force_;
    for (auto& [key, m] : machines_) m.rested_w = m.drew_w;
    begin_pace(work_pace{0}, now_ns);
    ramp_.steps(work_pace{0}, std::nullopt, now_ns);
    in_force_ = work_pace{0};
    return;
  }
  const auto pace = std::exchange(rested_, std::nullopt);
  if (!pace) return;
  begin_window(now_ns);
  ramp_.steps(*pace, work_w(now_ns), now_ns);
  in_force_ = *pace;
  for (auto& [key, m] : machines_) m.drew_w = m.rested_w;
  partial_ = step_;
}

/// None begins meanwhile: one that is told of began just before.
void job_pace_policy::rest_in(uint64_t step, work_pace pace) {
  for (auto& [key, m] : machines_) {
    if (rested_)
      scale(m, m.rested_w, *rested_, pace);
    else
      m.rested_w.reset();
  }
  rested_ = pace;
  step_ = step;
}

void job_pace_policy::begin_window(int64_t now_ns) {
  begun_ = 0;
  window_begun_ns_ = now_ns;
  stood_s_ = 0;
  for (auto& [key, m] : machines_) m.first.reset();
}

/// Until steps at the pace of now have been seen, machines draw what those before say of it.
void job_pace_policy::begin_pace(work_pace now, int64_t now_ns) {
  for (auto& [key, m] : machines_) {
    if (now.of_1024 > 0 && in_force_.of_1024 > 0)
      scale(m, m.drew_w, in_force_, now);
    else
      m.drew_w.reset();
  }
  begin_window(now_ns);
}

/// What it drew at one pace, as of another one.
void job_pace_policy::scale(machine& m, std::optional<double>& drew_w, work_pace from,
                            work_pace to) {
  if (!drew_w) return;
  const double idle_w = std::min(*m.part.idle_w(), *drew_w);
  drew_w = idle_w + (*drew_w - idle_w) * to.share() / from.share();
}

bool job_pace_policy::is_stale(const machine& m, int64_t now_ns) const {
  constexpr int64_t ticks = 3, shortest_ns = 3'000'000'000;
  if (!m.last) return true;
  return now_ns - m.last->read_ns > std::max(ticks * m.last->interval_ns, shortest_ns);
}

/// JPP-3.
void job_pace_policy::forget(int64_t now_ns) {
  std::erase_if(machines_, [&](const auto& entry) {
    const auto& m = entry.second;
    if (now_ns - m.heard_ns <= (m.last ? forgotten_after_ns : first_reading_ns)) return false;
    gone_j_ += m.used_j;
    std::erase_if(machine_of_, [&](const auto& of) { return of.second.name == entry.first; });
    return true;
  });
}

/// Whether its joules say what it draws while it works.
bool job_pace_policy::is_judged(const machine& m, int64_t now_ns) const {
  return !is_stale(m, now_ns) && m.last->energy_j >= 0;
}

/// That all machines that are judged have told of; 0: none is.
int64_t job_pace_policy::window_ns(int64_t now_ns) const {
  std::optional<int64_t> out;
  for (const auto& [key, m] : machines_) {
    if (!is_judged(m, now_ns)) continue;
    const bool began = m.first && m.first->energy_j >= 0;
    const int64_t told_ns = began ? m.last->read_ns - m.first->read_ns : 0;
    out = std::min(out.value_or(whole_window_ns), told_ns);
  }
  return out.value_or(0);
}

/// Of the window, of a machine that is judged.
double job_pace_policy::mean_w(const machine& m) {
  const auto s = static_cast<double>(m.last->read_ns - m.first->read_ns) / 1e9;
  return std::min(odd_w, (m.last->energy_j - m.first->energy_j) / s);
}

/// By the window that is judged next, or was last; else as it was read last. A step that goes on
/// for longer than any window hides nothing of what it drew meanwhile.
double job_pace_policy::drawn_w(const machine& m, bool is_window, int64_t now_ns) const {
  if (is_window && is_judged(m, now_ns)) return mean_w(m);
  const bool is_long = is_judged(m, now_ns) && window_ns(now_ns) >= whole_window_ns;
  if (m.drew_w) return is_long ? std::max(*m.drew_w, mean_w(m)) : *m.drew_w;
  return m.last ? m.last->power_w : -1;
}

/// The most that it can have drawn while steps did not stand, in the window.
double job_pace_policy::at_work_w(const machine& m) const {
  const auto s = static_cast<double>(m.last->read_ns - m.first->read_ns) / 1e9;
  if (stood_s_ <= 0) return mean_w(m);
  if (s - stood_s_ < least_work * s) return odd_w;
  const double drawn_j = m.last->energy_j - m.first->energy_j;
  return std::min(odd_w,
                  (drawn_j - std::min(*m.part.idle_w(), mean_w(m)) * stood_s_) / (s - stood_s_));
}

/// What each machine would draw at full speed, by its own readings: no less than the mean says, and
/// no more than that at work, which within a step nobody knows (JPP-2).
void job_pace_policy::judge_machines(moment when, int64_t now_ns) {
  for (auto& [key, m] : machines_) {
    if (!is_judged(m, now_ns)) continue;
    m.drew_w = mean_w(m);
    const auto full_w = [&, idle_w = *m.part.idle_w()](double drawn_w) {
      const auto drawn_mw = mw(drawn_w);
      const auto idle_mw = std::min(mw(idle_w), drawn_mw);
      const auto full_mw = work_pace_policy::uncapped_mw(idle_mw, drawn_mw, in_force_);
      return static_cast<double>(full_mw.value_or(drawn_mw)) / 1000;
    };
    const double least_w = full_w(*m.drew_w);
    const bool whole = when == moment::step_begins;
    const double most_w = whole ? std::max(least_w, full_w(at_work_w(m))) : odd_w;
    m.judged_w = std::clamp(m.judged_w.value_or(least_w), least_w, std::max(least_w, most_w));
    m.worked = true;
  }
}

/// Of all machines. One whose reading is missing, or that was not judged while it worked, counts
/// with its limit, where that is more, or with what the hungriest one draws where it says none.
std::optional<double> job_pace_policy::full_w(guess how, int64_t now_ns) const {
  std::optional<double> most_w;
  for (const auto& [key, m] : machines_)
    if (m.judged_w) most_w = std::max(most_w.value_or(0), *m.judged_w);
  if (!most_w) return {};
  double out = 0;
  for (const auto& [key, m] : machines_) {
    if (!m.last) return {};
    const double judged_w = m.judged_w.value_or(*m.part.idle_w());
    const double limit_w = m.last->limit_w >= 0 ? m.last->limit_w : m.worked ? 0 : *most_w;
    const bool counts = is_stale(m, now_ns) || (!m.worked && how == guess::most);
    out += counts ? std::max(judged_w, limit_w) : judged_w;
  }
  return out;
}

/// At which all machines together keep the budget; none: nothing was judged yet, or one has not
/// spoken.
std::optional<work_pace> job_pace_policy::most_pace(int64_t now_ns) const {
  const auto full = full_w(guess::most, now_ns);
  const auto idle = sum(now_ns).idle_w;
  if (!full || idle < 0) return {};
  const machine_draw draw{mw(std::min(idle, *full)), mw(*full), mw(budget_w_ * aim)};
  return work_pace_policy::pace_of(std::span(&draw, 1)).value_or(work_pace_policy::least_pace);
}

/// JPP-2, JPP-9.
void job_pace_policy::judge(moment when, int64_t now_ns) {
  forget(now_ns);
  const bool watches = watches_ || ramp_.is_on();
  if ((budget_w_ <= 0 && !watches) || in_force_.of_1024 == 0 || begun_ < 2) return;
  const auto window = window_ns(now_ns);
  if (window < least_window_ns) return;
  judge_machines(when, now_ns);
  judged_at_ = in_force_;
  if (budget_w_ <= 0)
    pace_ = in_force_;
  else if (const auto next = most_pace(now_ns))
    change_to(*next, now_ns);
  if (window >= (watches_ ? least_window_ns : whole_window_ns)) begin_window(now_ns);
}

/// The nodes on machines that say nothing, with commas.
std::string job_pace_policy::silent(int64_t now_ns) const {
  std::string out;
  for (const auto& [key, m] : machines_)
    if (is_stale(m, now_ns)) out += (out.empty() ? "" : ", ") + m.node;
  return out;
}

/// The same of those that were not judged since ranks were given out.
std::string job_pace_policy::fresh() const {
  std::string out;
  for (const auto& [key, m] : machines_)
    if (!m.worked) out += (out.empty() ? "" : ", ") + m.node;
  return out;
}

void job_pace_policy::change_to(work_pace next, int64_t now_ns) {
  const double change = next.share() / in_force_.share() - 1;
  const bool rises = change > least_rise || (change > 0 && next == work_pace{});
  if (change < -least_fall)
    pace_ = next;
  else if (rises && silent(now_ns).empty())  // JPP-3
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
  double idle_w = 0, limit_w = 0;
  for (const auto& [key, m] : machines_) {
    if (!m.last || m.last->limit_w < 0) return work_pace_policy::least_pace;
    idle_w += *m.part.idle_w();
    limit_w += m.last->limit_w;
  }
  const machine_draw draw{mw(idle_w), mw(limit_w), mw(budget_w_ * aim)};
  return work_pace_policy::pace_of(std::span(&draw, 1)).value_or(work_pace_policy::least_pace);
}

work_pace job_pace_policy::next_pace() const {
  if (pace_) return *pace_;
  return watches_ && in_force_.of_1024 > 0 ? in_force_ : first_pace();  // JPP-9
}

/// Beside what machines drew in the last steps.
std::string job_pace_policy::what_counts(int64_t now_ns) const {
  if (const auto who = silent(now_ns); !who.empty())
    return fmt::format("the meters of {} are silent", who);
  if (const auto who = fresh(); !who.empty())
    return fmt::format("what {} draws at work is not known yet", who);
  return "by what it drew";
}

job_pace_policy::verdict job_pace_policy::at(work_pace next, const std::string& why,
                                             int64_t now_ns) {
  if (next != std::exchange(told_, next) && pace_)
    decided_ = fmt::format(
        "to {:.3g} % of full speed, which would draw {:.4g} W, for a budget of {:.4g} W ({})",
        100 * next.share(), sum(now_ns).full_w, budget_w_, why);
  return {next};
}

/// Slow steps say little of full speed, and what draws no more than no steps do says nothing.
bool job_pace_policy::is_work_known(const totals& all) const {
  return judged_at_.of_1024 >= work_pace::whole / rise_factor && all.full_w > all.idle_w;
}

/// What steps draw at full speed, above what is drawn without any: until that is known no less than
/// machines' limits allow.
std::optional<double> job_pace_policy::work_w(int64_t now_ns) const {
  const auto all = sum(now_ns);
  const double full_w = is_work_known(all) ? all.full_w : std::max(all.full_w, all.limit_w);
  if (full_w < 0 || all.idle_w < 0) return {};
  return std::max(0.0, full_w - all.idle_w);
}

/// As far as a ramp may rise before steps are judged again.
work_pace job_pace_policy::most_of_ramp(int64_t now_ns) const {
  const auto all = sum(now_ns);
  if (all.limit_w > all.idle_w || is_work_known(all)) return {};
  const int next = all.full_w < 0 ? 0 : judged_at_.of_1024 * unsure_rise;
  return {std::clamp(next, work_pace_policy::least_pace.of_1024, work_pace::whole)};
}

/// JPP-10
void job_pace_policy::ramp(verdict& wanted, int64_t now_ns) {
  ramping_.clear();
  if (!ramp_.is_on() || wanted.holds) return;
  const auto work = work_w(now_ns);
  const auto to = wanted.pace;
  const auto most = std::max(in_force_, most_of_ramp(now_ns));
  wanted.pace = ramp_.next(std::min(to, most), work, now_ns);
  if (wanted.pace == to) return;
  wanted.ramps_to = to;
  const auto there_ns = most < to ? std::nullopt : ramp_.reaches_ns(to, work, now_ns);
  if (there_ns) wanted.ramp_ns = *there_ns - now_ns;
  ramping_ = fmt::format("from {:.3g} % of full speed by {:.4g} W a second, to {:.3g} % {}",
                         100 * wanted.pace.share(), ramp_.slope_w_s(), 100 * to.share(),
                         wanted.ramp_ns ? fmt::format("in {:.0f} s at the earliest",
                                                      static_cast<double>(*wanted.ramp_ns) / 1e9)
                                        : "once it is known what steps draw");
}

job_pace_policy::verdict job_pace_policy::decide(int64_t now_ns) {
  auto out = wanted(now_ns);
  ramp(out, now_ns);
  return out;
}

std::string job_pace_policy::cannot_be_kept() const {
  return budget_w_ > 0
             ? fmt::format("a budget of {:.4g} W cannot be kept", budget_w_)
             : fmt::format("a ramp of {:.4g} W a second cannot be kept", ramp_.slope_w_s());
}

/// But for the ramp.
job_pace_policy::verdict job_pace_policy::wanted(int64_t now_ns) {
  judge(moment::any, now_ns);
  if (!held_.empty()) return {next_pace(), true, held_};  // JPP-7
  if (budget_w_ <= 0 && !ramp_.is_on()) return {};        // JPP-5
  const auto pace = next_pace();
  if (const auto node = unknown(now_ns); !node.empty())
    return {pace, true,
            fmt::format("nothing says what the machine of {} draws, so {} (power.model_idle_w and "
                        "power.model_core_w say it where no meter does)",
                        node, cannot_be_kept())};
  const bool all_known =
      std::ranges::all_of(machines_, [](const auto& m) { return m.second.last.has_value(); });
  if (!all_known || machines_.empty()) return {pace, true};  // JPP-1
  if (budget_w_ <= 0) return {};
  const auto idle_w = sum(now_ns).idle_w;
  if (idle_w >= budget_w_ * aim)
    return {pace, true,
            fmt::format("the machines draw {:.4g} W without steps, the budget is {:.4g} W", idle_w,
                        budget_w_)};
  return held_or_at(pace, now_ns);
}

/// By what full speed would draw, if anything says it.
job_pace_policy::verdict job_pace_policy::held_or_at(work_pace next, int64_t now_ns) {
  const auto full = full_w(guess::least, now_ns);
  if (!full) return at(next, "", now_ns);
  const auto idle_w = sum(now_ns).idle_w;
  const double least_w = idle_w + (*full - idle_w) * work_pace_policy::least_pace.share();
  if (least_w <= budget_w_) {
    held_since_ns_.reset();
    const auto most = most_pace(now_ns);
    if (most && most->share() < next.share() * (1 - least_fall))  // JPP-6
      return at(*most, what_counts(now_ns), now_ns);
    return at(next, what_counts(now_ns), now_ns);
  }
  // What others did on the machine meanwhile may have been taken for the job's: it is tried again.
  if (!held_since_ns_) held_since_ns_ = now_ns;
  if (now_ns - *held_since_ns_ > tried_again_ns_) {
    tried_again_ns_ = std::min(2 * tried_again_ns_, last_try_ns);
    held_since_ns_.reset();
    for (auto& [key, m] : machines_) m.judged_w.reset();
    pace_ = work_pace_policy::least_pace;
    return at(*pace_, "it is tried again", now_ns);
  }
  return {
      next, true,
      fmt::format("the slowest steps want {:.4g} W, the budget is {:.4g} W", least_w, budget_w_)};
}

job_pace_policy::totals job_pace_policy::sum(int64_t now_ns) const {
  totals out{0, 0,
             0, false,
             0, full_w(guess::most, now_ns).value_or(-1),
             0, static_cast<int>(machines_.size())};
  const bool is_window = begun_ >= 2 && window_ns(now_ns) >= least_window_ns;
  const auto add = [](double& to, double x) { to = to < 0 || x < 0 ? -1 : to + x; };
  for (const auto& [key, m] : machines_) {
    add(out.power_w, m.last ? m.last->power_w : -1);
    add(out.mean_w, drawn_w(m, is_window, now_ns));
    add(out.energy_j, m.last ? m.last->energy_j : -1);
    add(out.idle_w, m.part.idle_w().value_or(-1));
    add(out.limit_w, m.last ? m.last->limit_w : -1);
    out.modelled = out.modelled || (m.last && m.last->modelled);
    out.is_stale = out.is_stale || is_stale(m, now_ns);
  }
  if (machines_.empty()) out.power_w = out.mean_w = out.energy_j = out.idle_w = out.limit_w = -1;
  if (out.energy_j >= 0) out.energy_j += gone_j_;
  return out;
}

}  // namespace troupe::power
