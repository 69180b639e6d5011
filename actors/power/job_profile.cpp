// Steps and joules to the policy, its clocks to tables.
#include "actors/power/job_profile.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>

namespace troupe::power {

namespace {

/// Those of each stage that are tried.
std::vector<std::vector<int>> ladders_of(const fbs::StepMadeT& step,
                                         const live_profile_terms& terms) {
  std::vector<std::vector<int>> out;
  for (const auto& l : step.ladders) {
    std::vector<int> all;
    for (const auto mhz : l->mhz)
      if (mhz <= static_cast<uint32_t>(clock_profile::mhz_ceiling))
        all.push_back(static_cast<int>(mhz));
    out.push_back(tried_clocks(std::move(all), terms));
  }
  return out;
}

bool has_choice(const std::vector<std::vector<int>>& ladders) {
  return !ladders.empty() &&
         std::ranges::none_of(ladders, [](const auto& l) { return l.empty(); }) &&
         std::ranges::any_of(ladders, [](const auto& l) { return l.size() > 1; });
}

bool is_operation_s(float s) {
  return std::isfinite(s) && s > 0;
}

/// JPR-3
bool tells_ranks(const fbs::StepMadeT& s, size_t stages, size_t replicas) {
  const auto ranks = s.rank_stage.size();
  if (ranks == 0 || !std::isfinite(s.step_s) || s.step_s <= 0) return false;
  for (const auto count : {s.rank_node.size(), s.rank_replica.size(), s.rank_forward_s.size(),
                           s.rank_backward_s.size(), s.rank_busy_s.size()})
    if (count != ranks) return false;
  return std::ranges::all_of(s.rank_stage, [&](uint32_t at) { return at < stages; }) &&
         std::ranges::all_of(s.rank_replica, [&](uint32_t at) { return at < replicas; }) &&
         std::ranges::all_of(s.rank_node, [&](uint32_t at) { return at < s.nodes.size(); }) &&
         std::ranges::all_of(s.rank_forward_s, is_operation_s) &&
         std::ranges::all_of(s.rank_backward_s, is_operation_s) &&
         std::ranges::all_of(s.rank_busy_s, is_operation_s);
}

/// One clock for all of a stage's operations, and what comes behind them.
std::unique_ptr<fbs::StageClocksT> clocks_of_stage(int mhz, uint32_t micro_batches) {
  auto out = std::make_unique<fbs::StageClocksT>();
  const auto operations = static_cast<size_t>(micro_batches) * instructions;
  out->mhz.assign(operations, static_cast<uint32_t>(mhz));
  out->lasts_s.assign(operations, 1);  // not known yet, and of equal clocks nobody asks
  out->shortest_s.assign(operations, 1);
  out->holds = true;
  return out;
}

}  // namespace

void job_profile::hear(const std::string& node, const std::string& machine, double energy_j,
                       bool modelled, int64_t at_ns) {
  if (machine.empty() || energy_j < 0) return;
  auto& of = machines_.try_emplace(machine, metered_machine{machines_.size(), {}}).first->second;
  nodes_[node] = of.number;
  if (of.node.empty()) of.node = node;
  if (policy_ && of.node == node) policy_->hear(of.number, energy_j, modelled, at_ns);  // JPR-4
}

bool job_profile::is_measuring() const {
  return off_ == slack_reason::none && policy_->now() == live_profile_policy::state::measuring;
}

/// JPR-1
bool job_profile::is_told_clocks() const {
  return is_measuring() && !paced_ && (!policy_->is_lowered() || steps_ >= warming_steps);
}

/// JPR-1
bool job_profile::fits(const fbs::StepMadeT& step) const {
  return policy_ && replicas_ == step.replica_s.size() && micro_batches_ == step.micro_batches &&
         ladders_ == ladders_of(step, order_.terms);
}

/// JPR-1, JPR-2
void job_profile::begin(const fbs::StepMadeT& step, uint32_t epoch) {
  const bool was_told = told_trial_ != 0;
  epoch_ = epoch;
  steps_ = 0;
  for (auto& [boot, machine] : machines_) machine.node.clear();
  told_trial_ = 0;
  told_state_.clear();  // a run forgets it with its ranks
  off_ = slack_reason::none;
  if (fits(step)) {
    policy_->begin_again(was_told);
  } else {
    ladders_ = ladders_of(step, order_.terms);
    replicas_ = step.replica_s.size();
    micro_batches_ = step.micro_batches;
    policy_.reset();
    if (has_choice(ladders_) && ladders_.size() == step.stages)
      policy_.emplace(ladders_, replicas_, order_.blocking_w, order_.terms);
  }
  if (!step.saves_energy)
    off_ = slack_reason::no_saving;
  else if (!step.sets_clocks || !policy_)
    off_ = slack_reason::no_clocks;
}

void job_profile::count(const fbs::StepMadeT& s, int64_t now_ns) {
  if (!tells_ranks(s, ladders_.size(), replicas_)) return;
  std::vector<rank_sample> ranks;
  for (size_t r = 0; r < s.rank_stage.size(); ++r) {
    rank_sample one{s.rank_stage[r],
                    s.rank_replica[r],
                    {},
                    static_cast<double>(s.rank_forward_s[r]),
                    static_cast<double>(s.rank_backward_s[r]),
                    static_cast<double>(s.rank_busy_s[r])};
    if (const auto it = nodes_.find(s.nodes[s.rank_node[r]]); it != nodes_.end())
      one.machine = it->second;
    ranks.push_back(one);
  }
  policy_->step({s.trial, now_ns, s.step_s, !s.paced && s.late == 0, ranks});
}

std::optional<fbs::JobClocksT> job_profile::made(const fbs::StepMadeT& step, uint32_t epoch,
                                                 int64_t now_ns) {
  using state_of = live_profile_policy::state;
  if (epoch != epoch_ || off_ == slack_reason::no_plan ||
      (off_ == slack_reason::none && !fits(step)))
    begin(step, epoch);
  paced_ = step.paced;
  if (!paced_) steps_ = std::min(steps_ + 1, warming_steps);
  if (off_ == slack_reason::none && step.failed > 0) off_ = slack_reason::refused;
  if (is_measuring()) count(step, now_ns);
  if (off_ == slack_reason::none && policy_->now() == state_of::failed)
    off_ = slack_reason::unmeasured;
  const bool is_through = off_ == slack_reason::none && policy_->now() == state_of::measured;
  if (is_through && !std::exchange(taken_, true) && order_.take)
    order_.take({policy_->profile(), policy_->is_modelled()});
  const bool is_new_trial = is_told_clocks() && told_trial_ != policy_->trial();
  if (!is_new_trial && told_state_ == state()) return std::nullopt;
  told_state_ = state();
  auto out = clocks();
  told_trial_ = out.trial;
  out.notice = notice();
  if (std::exchange(noticed_, out.notice) == out.notice) out.notice.clear();
  out.warns = off_ != slack_reason::none;
  return out;
}

fbs::JobClocksT job_profile::clocks() const {
  fbs::JobClocksT out;
  out.of_epoch = epoch_;
  out.state = told_state_;
  if (!is_told_clocks()) return out;
  out.trial = policy_->trial();
  std::map<std::vector<int>, uint32_t> places;
  for (size_t r = 0; r < replicas_; ++r) {
    std::vector<int> of_stages;
    for (size_t s = 0; s < ladders_.size(); ++s) of_stages.push_back(policy_->clock_of(s, r));
    const auto [it, is_new] =
        places.try_emplace(of_stages, static_cast<uint32_t>(out.tables.size()));
    out.of_replica.push_back(it->second);
    if (!is_new) continue;
    auto& table = *out.tables.emplace_back(std::make_unique<fbs::ReplicaClocksT>());
    for (const int mhz : of_stages) table.stages.push_back(clocks_of_stage(mhz, micro_batches_));
  }
  return out;
}

std::string job_profile::notice() const {
  if (off_ == slack_reason::unmeasured)
    return fmt::format("clocks could not be measured, all run at the highest: {}",
                       in_words(policy_->why()));
  if (off_ != slack_reason::none)
    return fmt::format("slack is not taken, all run at the highest clocks: {}", in_words(off_));
  if (policy_->now() == live_profile_policy::state::measured)
    return "its clocks are measured (power.profile)";
  return "there is no power.profile yet: the first steps measure one, some of them at lower clocks";
}

std::string job_profile::state() const {
  if (off_ != slack_reason::none) return fmt::format("off: {}", to_string(off_));
  if (!is_measuring()) return "profiled";
  if (paced_) return fmt::format("off: {}", to_string(slack_reason::paced));
  return std::string(profiling_state);
}

std::string job_profile::words() const {
  if (!is_measuring() || paced_) return state();
  return fmt::format("measures clocks: step {} of {}", policy_->steps_made(),
                     policy_->steps_in_all());
}

}  // namespace troupe::power
