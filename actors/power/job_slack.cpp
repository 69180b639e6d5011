// Steps to the policy, its points to tables.
#include "actors/power/job_slack.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace troupe::power {

namespace {

/// Of all operations of a step, as many may come late by chance.
constexpr int late_share = 50;

double times_of(const std::vector<gpu::controls::clocked_operation>& all) {
  double lasts_s = 0, shortest_s = 0;
  for (const auto& o : all) {
    lasts_s += o.lasts_s;
    shortest_s += o.shortest_s;
  }
  return lasts_s / shortest_s;
}

bool is_finite_time(double s) {
  return std::isfinite(s) && s >= 0;
}

}  // namespace

slack_terms live_slack_terms() {
  slack_terms out;
  out.measured_steps = out.stale_steps = 5;
  out.stale = 0.02;
  out.straggles = 0.03;
  return out;
}

/// JSL-1
bool job_slack::fits(const fbs::StepMadeT& step) const {
  const auto& dag = plan_->policy->dag();
  return static_cast<uint32_t>(dag.stages()) == step.stages &&
         static_cast<uint32_t>(dag.micro_batches()) == step.micro_batches;
}

void job_slack::begin(const fbs::StepMadeT& step, uint32_t epoch) {
  epoch_ = epoch;
  replicas_ = step.replica_s.size();
  saves_energy_ = step.saves_energy;
  points_.assign(replicas_, std::nullopt);
  told_state_.clear();  // a run forgets it with its ranks
  auto terms = live_slack_terms();
  const auto operations = plan_->policy->dag().nodes().size() * replicas_;
  terms.most_late = std::max(terms.most_late, static_cast<int>(operations) / late_share);
  terms.saves_energy = saves_energy_;
  policy_.emplace(replicas_, terms);
  policy_->begin(plan_->plan);
  if (policy_->state() == slack_state::off) return;
  if (!step.sets_clocks)
    policy_->stop(slack_reason::no_clocks);
  else if (!fits(step))
    policy_->stop(slack_reason::other_job);
}

std::optional<fbs::JobClocksT> job_slack::made(const fbs::StepMadeT& step, uint32_t epoch,
                                               int64_t now_ns) {
  if (step.replica_s.empty()) return std::nullopt;
  if (!std::ranges::all_of(step.replica_s, is_finite_time)) return std::nullopt;  // JSL-5
  note_given_back(step);
  if (!plan_) plan_ = look_ ? look_() : nullptr;
  if (!plan_) return profile_ ? profile_->made(step, epoch, now_ns) : std::nullopt;
  if (!plan_->policy) return unplanned(epoch);
  if (!policy_ || epoch != epoch_ || step.replica_s.size() != replicas_ ||
      step.saves_energy != saves_energy_)
    begin(step, epoch);
  if (step.failed > 0 && policy_->state() != slack_state::off)
    policy_->stop(slack_reason::refused);  // JSL-2
  policy_->step({step.replica_s, step.paced, step.late});
  std::vector<std::optional<size_t>> points;
  for (size_t r = 0; r < replicas_; ++r) points.push_back(policy_->point_of(r));
  if (points == points_ && told_state_ == state()) return std::nullopt;
  points_ = std::move(points);
  if (told_state_ != state()) since_step_ = step.step;
  told_state_ = state();
  fbs::JobClocksT out;
  out.of_epoch = epoch;
  out.state = told_state_;
  put_notice(out);
  put_tables(out);
  return out;
}

/// JSL-6
std::optional<fbs::JobClocksT> job_slack::unplanned(uint32_t epoch) {
  if (epoch == epoch_ && told_state_ == state()) return std::nullopt;
  epoch_ = epoch;
  told_state_ = state();
  fbs::JobClocksT out;
  out.of_epoch = epoch;
  out.state = told_state_;
  out.warns = true;
  if (std::exchange(noticed_, told_state_) != told_state_) out.notice = plan_->note;
  return out;
}

std::string job_slack::state() const {
  if (plan_ && !plan_->policy) return fmt::format("off: {}", to_string(slack_reason::unmeasured));
  if (!plan_ && profile_) return profile_->state();
  if (!policy_) return "off: no_plan";
  const auto s = policy_->state();
  if (s != slack_state::off) return std::string(to_string(s));
  return fmt::format("off: {}", to_string(policy_->reason()));
}

/// JSL-7. It is foreign, and counts for words alone.
void job_slack::note_given_back(const fbs::StepMadeT& step) {
  if (step.given_back > 0 && given_back_ == 0) given_back_since_ = step.step;
  ranks_ = step.ranks;
  given_back_ = step.given_back;
  given_back_to_ = step.given_back_to;
}

/// Whether ranks are told of any that could be given back.
bool job_slack::has_clocks() const {
  if (!plan_ && profile_) return profile_->state() == profiling_state;
  return plan_ && plan_->policy && policy_ &&
         std::ranges::any_of(points_, [](const auto& p) { return p.has_value(); });
}

/// JSL-7
std::string job_slack::words() const {
  const auto taken = taken_words();
  if (given_back_ == 0 || !has_clocks()) return taken;
  const auto back = fmt::format(
      "given back at {} of {} ranks since step {}: {} compute{} on their devices", given_back_,
      ranks_, given_back_since_,
      given_back_to_ == 1 ? "1 other process" : fmt::format("{} other processes", given_back_to_),
      given_back_to_ == 1 ? "s" : "");
  return given_back_ < ranks_ ? fmt::format("{}; {}", taken, back)
                              : fmt::format("{}; {}", back, taken);
}

std::string job_slack::taken_words() const {
  if (!plan_ && profile_) return profile_->words();
  if (!policy_) return state();
  auto out = state();
  if (policy_->target_s() > 0) out += fmt::format(", for steps of {:.4g} s", policy_->target_s());
  return out + fmt::format(", since step {}", since_step_);
}

/// JSL-2. A plan is said once, as is where its profile was written, and a reason each time that it
/// is another one than the last.
void job_slack::put_notice(fbs::JobClocksT& into) {
  if (!std::exchange(is_note_told_, true) && !plan_->note.empty()) {
    into.notice = plan_->note;
    into.warns = plan_->warns;
    if (policy_->state() != slack_state::off) return;
  }
  const bool is_off = policy_->state() == slack_state::off;
  if (policy_->state() == slack_state::measuring || policy_->state() == slack_state::held) return;
  const auto why = in_words(policy_->reason());
  if (is_off && why.empty()) return;
  if (std::exchange(noticed_, told_state_) == told_state_) return;
  into.warns = is_off;
  into.notice = is_off ? fmt::format("slack is not taken, all run at the highest clocks: {}", why)
                       : "operations that delay nobody run at lower clocks now (power.slack)";
}

std::unique_ptr<fbs::ReplicaClocksT> job_slack::clocks_at(size_t point) const {
  const auto& of = *plan_->policy;
  const auto& plan = plan_->plan;
  const auto all = clocks_by_stage(of.dag(), of.profile(), plan.points[point].clocks);
  auto out = std::make_unique<fbs::ReplicaClocksT>();
  for (size_t s = 0; s < all.size(); ++s) {
    auto& stage = *out->stages.emplace_back(std::make_unique<fbs::StageClocksT>());
    stage.set_s = static_cast<float>(plan_->set_s);
    stage.times = static_cast<float>(times_of(all[s]));  // JSL-4
    for (const auto& o : all[s]) {
      stage.mhz.push_back(static_cast<uint32_t>(o.mhz));
      stage.lasts_s.push_back(static_cast<float>(o.lasts_s));
      stage.shortest_s.push_back(static_cast<float>(o.shortest_s));
    }
  }
  return out;
}

void job_slack::put_tables(fbs::JobClocksT& into) const {
  std::map<size_t, uint32_t> places;
  for (const auto& p : points_) {
    if (!p) return;  // all of them, or none (SLT-2)
    const auto [it, is_new] = places.try_emplace(*p, static_cast<uint32_t>(into.tables.size()));
    if (is_new) into.tables.push_back(clocks_at(*p));
    into.of_replica.push_back(it->second);
  }
}

}  // namespace troupe::power
