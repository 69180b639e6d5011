// Steps, their clocks, and what they took.
#include "actors/sim/slack_watch.hpp"

#include <algorithm>
#include <utility>

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include "actors/power/live_profile_policy.hpp"
#include "messages/message_list.hpp"
#include "messages/schemas/health_generated.h"
#include "messages/schemas/power_generated.h"
#include "messages/schemas/predict_generated.h"
#include "messages/schemas/train_generated.h"
#include "messages/text.hpp"

namespace troupe::sim {

namespace {

template <class T>
const T* seen_as(const any_msg& m) {
  return m.type() == message_traits<T>::id ? flatbuffers::GetRoot<T>(m.payload().data()) : nullptr;
}

}  // namespace

void slack_watch::begin_head() {
  begun_.clear();
  told_ = {};
  state_.clear();
  is_joules_of_step_ = false;
  longest_s_ = highest_j_ = planned_j_ = 0;
  highest_steps_ = planned_steps_ = 0;
  trial_mhz_.clear();
  trial_s_ = trial_longest_s_ = 0;
  held_since_ = 0;
}

void slack_watch::slows(int64_t until_ns) {
  slowed_ = true;
  slow_until_ns_ = std::max(slow_until_ns_, until_ns);
  held_since_ = 0;
}

std::optional<std::string> slack_watch::see(const any_msg& m, double joules, int64_t now_ns) {
  if (m.header().sender == 0) return {};  // a fault of the simulation's own
  if (seen_as<fbs::Validate>(m) != nullptr) is_joules_of_step_ = false;
  if (seen_as<fbs::RunStep>(m) != nullptr) begins(m);
  if (seen_as<fbs::StepReport>(m) != nullptr) return ends(m, joules, now_ns);
  const auto* suspect = seen_as<fbs::Suspect>(m);
  const bool names =
      (suspect != nullptr && !suspect->gone()) || seen_as<fbs::IncidentReport>(m) != nullptr;
  if (names && !ails_ && !slowed_)
    return "somebody is taken for slow or broken where only clocks came down (SIM-44)";
  return {};
}

void slack_watch::begins(const any_msg& m) {
  const auto& step = *seen_as<fbs::RunStep>(m);
  auto& of = begun_[step.step()];
  if (of.epoch != m.epoch()) of = {};  // what was begun before a recovery
  of.epoch = m.epoch();
  if (step.clocks() == nullptr) return;
  of.any = true;
  of.trial |= step.clocks()->holds();
  if (step.clocks()->mhz() != nullptr && step.clocks()->mhz()->size() > 0)
    of.mhz.push_back(step.clocks()->mhz()->Get(0));
}

std::optional<std::string> slack_watch::ends(const any_msg& m, double joules, int64_t now_ns) {
  const auto& report = *seen_as<fbs::StepReport>(m);
  const std::pair key(m.epoch(), report.step());
  if (std::exchange(told_, key) == key) return {};  // with its validation, too (JOB-21)
  const auto of = std::exchange(begun_[report.step()], {});
  begun_.erase(begun_.begin(), begun_.upper_bound(report.step()));
  const auto state = std::exchange(state_, text_of(report.slack()));
  const double took_j = joules - std::exchange(joules_, joules);
  const bool is_whole = std::exchange(is_joules_of_step_, true);
  const double s = report.step_ms() / 1000;
  if (auto wrong = judge_loss(report.step(), report.loss())) return wrong;
  if (auto wrong = judge_trial(report.step(), of, s)) return wrong;
  if (auto wrong = judge_held(report.step(), state_ == "held", now_ns)) return wrong;
  if (!is_calm(now_ns) || slowed_) return {};
  if (!of.any) {
    longest_s_ = std::max(longest_s_, s);
    if (is_whole) highest_j_ += took_j, ++highest_steps_;
    return {};
  }
  const bool is_planned = !of.trial && state == "planned" && state_ == "planned";
  return is_planned ? judge_planned(report.step(), s, is_whole ? took_j : -1) : std::nullopt;
}

/// SIM-39
std::optional<std::string> slack_watch::judge_loss(uint64_t step, double loss) {
  const auto [it, fresh] = losses_.try_emplace(step, loss);
  if (fresh || it->second == loss) return {};
  return fmt::format("step {} has a loss of {}, and had one of {} (SIM-39)", step, loss,
                     it->second);
}

/// SIM-43
std::optional<std::string> slack_watch::judge_trial(uint64_t step, const step_clocks& of,
                                                    double s) {
  auto mhz = of.trial ? of.mhz : std::vector<uint32_t>();
  std::sort(mhz.begin(), mhz.end());
  if (mhz != trial_mhz_) {
    counted_.trials += of.trial ? 1 : 0;
    trial_mhz_ = std::move(mhz);
    trial_s_ = trial_longest_s_ = 0;
  }
  if (!of.trial) return {};
  trial_s_ += s;
  trial_longest_s_ = std::max(trial_longest_s_, s);
  const power::live_profile_terms may;
  constexpr int settled_and_begun_again = 4;
  const auto most_steps = may.tried_steps + may.settling_steps + settled_and_begun_again;
  if (trial_s_ <= may.settling_s + may.tried_s + most_steps * trial_longest_s_) return {};
  return fmt::format("at step {} ranks have had a trial's clocks for {:.1f} s (SIM-43)", step,
                     trial_s_);
}

/// SIM-42
std::optional<std::string> slack_watch::judge_held(uint64_t step, bool held, int64_t now_ns) {
  if (held) ++counted_.held;
  if (!held || ails_ || terms_.unlike || !slowed_ || now_ns < slow_until_ns_) {
    counted_.returns += held_since_ > 0 && !held ? 1 : 0;
    held_since_ = 0;
    return {};
  }
  if (++held_since_ <= returns_within) return {};
  return fmt::format(
      "at step {} others have waited for {} steps for whoever is slow no more (SIM-42)", step,
      held_since_);
}

/// SIM-40, SIM-41
std::optional<std::string> slack_watch::judge_planned(uint64_t step, double s, double joules) {
  ++counted_.planned;
  if (longest_s_ > 0) {
    ++counted_.lengths;
    if (s > longest_s_ * (1 + terms_.uneven))
      return fmt::format(
          "step {} is {:.4f} s long at planned clocks, and none was longer than {:.4f} s at the "
          "highest (SIM-40)",
          step, s, longest_s_);
  }
  if (joules < 0) return {};
  planned_j_ += joules;
  if (++planned_steps_ < judged_steps || highest_steps_ < 3) return {};
  ++counted_.joules;
  const double highest_j = highest_j_ / static_cast<double>(highest_steps_);
  const double planned_j = planned_j_ / static_cast<double>(planned_steps_);
  counted_.highest_j = highest_j;
  counted_.planned_j = planned_j;
  if (planned_j <= highest_j * (1 + terms_.uneven)) return {};
  return fmt::format(
      "at step {} the mean at planned clocks is {:.1f} J a step, and {:.1f} J at the highest "
      "(SIM-41)",
      step, planned_j, highest_j);
}

}  // namespace troupe::sim
