// A queue between two steps.
#include "actors/train/requests_policy.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/text.hpp"
#include "io/config/load.hpp"
#include "io/config/properties.hpp"

namespace troupe::train {

namespace {

constexpr std::string_view budget_key = "power.budget_w", steps_key = "train.steps";
constexpr std::array<std::string_view, 6> changeable{
    "train.lr",         steps_key, "train.validate_every", "train.validate_batches",
    "checkpoint.every", budget_key};

/// A value that a person said: where it is impossible that is the person's error.
result<config::job> with_value(const config::job& job, std::string_view key,
                               const std::string& value) {
  auto with = config::amend(job, fmt::format("{}={}", key, value));
  if (with) return with;
  auto e = with.error();
  e.code = errc::usage;
  return e;
}

}  // namespace

std::span<const std::string_view> changeable_settings() {
  return changeable;
}

requests_policy::requests_policy(config::job job, uint64_t finished_step,
                                 std::vector<checkpoint::setting_change> changes)
    : job_(job),
      wanted_(job),
      has_budget_(job.power.is_budgeted()),
      finished_(finished_step),
      furthest_(finished_step),
      known_from_(finished_step),
      first_(std::move(job)),
      changes_(changes),
      first_changes_(std::move(changes)) {}

const std::vector<checkpoint::setting_change>& requests_policy::changes() const noexcept {
  if (later_.empty()) return changes_;
  return in_force_.empty() ? first_changes_ : in_force_.back().changes;
}

uint64_t requests_policy::own_next() const noexcept {
  return finished_ + (in_step_ ? 2 : 1);
}

uint64_t requests_policy::next() const noexcept {
  const auto last = later_.empty() ? 0 : later_.back().step;
  return std::max({own_next(), furthest_ + 1, last});
}

bool requests_policy::no_step_follows() {
  const bool will_pause = std::exchange(will_pause_, false);
  paused_ = false;
  std::erase_if(pending_, [](const request& r) { return r.what != kind::set; });
  return will_pause;
}

void requests_policy::go_back(uint64_t finished_step) {
  in_step_ = false;
  finished_ = finished_step;
  std::deque<request> others;
  for (auto& asked : pending_)  // none of them has been used by a step that ended
    (asked.step > finished_ + 1 ? later_ : others).push_back(std::move(asked));
  pending_ = std::move(others);
  for (; !in_force_.empty() && in_force_.back().step > finished_ + 1; in_force_.pop_back())
    later_.push_front(std::move(in_force_.back()));
  job_ = in_force_.empty() ? first_ : in_force_.back().job;
}

std::vector<std::string> requests_policy::rewind(
    uint64_t finished_step, const std::vector<checkpoint::setting_change>& changes) {
  std::vector<std::string> said;
  auto job = wanted_;
  const auto put = [&](const std::string& key, const std::string& value) {
    if (auto with = config::amend(job, fmt::format("{}={}", key, value))) job = std::move(*with);
  };
  for (const auto& c : changes_) {
    put(c.key, c.was);
    if (std::find(changes.begin(), changes.end(), c) == changes.end())
      said.push_back(
          fmt::format("{} = {} from step {} on holds no more: the run goes back to step {}", c.key,
                      c.value, c.step, finished_step));
  }
  for (const auto& c : changes) put(c.key, c.value);
  std::erase_if(pending_, [](const request& r) { return r.what == kind::set; });
  for (const auto& r : in_force_) earlier_.push_back(r.change);  // the next head's (REQ-5)
  std::erase_if(earlier_, [&](const auto& c) { return c.step > finished_step; });
  for (const auto& c : changes)
    if (std::find(earlier_.begin(), earlier_.end(), c) == earlier_.end()) earlier_.push_back(c);
  std::stable_sort(earlier_.begin(), earlier_.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  while (earlier_.size() > in_force_limit) earlier_.pop_front();
  in_force_.clear();
  later_.clear();
  in_step_ = false;
  finished_ = furthest_ = known_from_ = finished_step;
  saved_ = std::min(saved_, finished_step);
  job_ = wanted_ = first_ = std::move(job);
  changes_ = first_changes_ = changes;
  return said;
}

void requests_policy::lay_out(const config::job& job) {
  const auto take = [&](config::job& into) {
    into.parallel = job.parallel;
    into.cluster = job.cluster;
    into.inject = job.inject;
  };
  for (auto* own : {&job_, &wanted_, &first_}) take(*own);
  for (auto* requests : {&pending_, &in_force_, &later_})
    for (auto& r : *requests) take(r.job);
}

std::string requests_policy::put_in_force(request& setting) {
  while (in_force_.size() >= in_force_limit && in_force_.front().step <= saved_ + 1) {
    auto& oldest = in_force_.front();
    first_ = std::move(oldest.job);
    first_changes_ = std::move(oldest.changes);
    known_from_ = oldest.step - 1;
    in_force_.pop_front();
  }
  job_ = setting.job;
  auto said = setting.text;
  in_force_.push_back(std::move(setting));
  return said;
}

void requests_policy::step_ended() noexcept {
  in_step_ = false;
  ++finished_;
  furthest_ = std::max(furthest_, finished_);
}

status requests_policy::room() const {
  if (pending_.size() + later_.size() < pending_limit) return {};
  return error{errc::unavailable,
               fmt::format("{} requests wait for the end of step {} already", pending_.size(),
                           finished_ + 1),
               "say it again after the step"};  // REQ-3
}

result<reply> requests_policy::pause(std::string reason) {
  if (will_pause_) return error{errc::usage, "the run is paused already", "say resume"};
  TROUPE_CHECK(room());
  hold(reason.empty() ? "asked to" : std::move(reason));
  return reply{fmt::format("pauses after step {}", own_next() - 1)};
}

void requests_policy::hold(std::string reason) {
  if (std::exchange(will_pause_, true)) return;
  pause_reason_ = reason;
  pending_.push_back({kind::pause, std::move(reason), {}, 0});
}

result<reply> requests_policy::resume() {
  if (!will_pause_) return error{errc::usage, "the run is not paused", ""};
  TROUPE_CHECK(room());
  will_pause_ = false;
  pending_.push_back({kind::resume, "", {}, 0});
  return reply{fmt::format("continues with step {}", own_next())};
}

result<reply> requests_policy::set(const std::string& key, const std::string& value) {
  if (key.empty())
    return error{errc::usage, "a setting needs the key that it changes",
                 fmt::format("what can: {}", fmt::join(changeable, ", "))};
  if (std::find(changeable.begin(), changeable.end(), key) == changeable.end()) {
    const auto near = nearest(key, changeable);
    return error{
        errc::usage, fmt::format("{} cannot change during a run", key),
        fmt::format("{}what can: {}", near.empty() ? "" : fmt::format("did you mean {}? ", near),
                    fmt::join(changeable, ", "))};
  }
  if (key == budget_key) return set_budget(value);
  TROUPE_CHECK(room());
  TROUPE_TRY(job, with_value(wanted_, key, value));
  const auto last = static_cast<uint64_t>(job.train.steps);
  if (const auto begun = std::max(own_next() - 1, furthest_); key == steps_key && last < begun)
    return error{errc::usage,
                 fmt::format("train.steps = {} comes too late: step {} has begun", last, begun),
                 "say stop to end the run after the step under way"};
  if (next() > last && key != steps_key)
    return error{errc::usage, fmt::format("no step would use it: step {} is the last", last),
                 "raise train.steps first"};
  const auto step = next();
  auto setting = setting_of(key, std::move(job), step);
  reply said{fmt::format("{} = {} from step {} on", key, setting.change.value, step), step};
  (step > own_next() ? later_ : pending_).push_back(std::move(setting));
  return said;
}

/// What machines may draw is no number of a step: it holds at once, and for steps that are made
/// again.
result<reply> requests_policy::set_budget(const std::string& value) {
  if (!has_budget_)  // its ranks wait for each other as at full speed
    return error{errc::usage, "power.budget_w cannot be set in a job that began without one",
                 "start it with a budget: one that is never reached holds nothing back"};
  TROUPE_TRY(with, with_value(wanted_, budget_key, value));
  const auto budget_w = with.power.budget_w;
  if (budget_w <= 0)
    return error{errc::usage, "power.budget_w cannot become 0 during a run",
                 "one that is never reached holds nothing back"};
  for (auto* own : {&job_, &wanted_, &first_}) own->power.budget_w = budget_w;
  for (auto* requests : {&pending_, &in_force_, &later_})
    for (auto& r : *requests) r.job.power.budget_w = budget_w;
  const auto text = config::value_text(std::string(budget_key), wanted_);
  budget_ = checkpoint::setting_change{std::string(budget_key), text, "", own_next()};
  return reply{fmt::format("{} = {} from the next step on", budget_key, text)};
}

/// The request by which `wanted_` becomes `with`.
requests_policy::request requests_policy::setting_of(const std::string& key, config::job with,
                                                     uint64_t step) {
  const auto value = config::value_text(key, with);
  auto change = note_change(key, value, step);
  wanted_ = with;
  return {kind::set, fmt::format("{} is {} from step {} on", key, value, step), std::move(with),
          step,      changes_, std::move(change)};
}

/// Keeps what the file says, which rules again where it is set back to that.
checkpoint::setting_change requests_policy::note_change(const std::string& key,
                                                        const std::string& value, uint64_t step) {
  const auto known = std::find_if(changes_.begin(), changes_.end(),
                                  [&](const auto& change) { return change.key == key; });
  const auto was = known == changes_.end() ? config::value_text(key, wanted_) : known->was;
  checkpoint::setting_change change{key, value, was, step};
  if (known != changes_.end()) changes_.erase(known);
  if (value != was) changes_.push_back(change);
  return change;
}

job_memory requests_policy::memory() const {
  job_memory out{will_pause_, will_pause_ ? pause_reason_ : "", {earlier_.begin(), earlier_.end()}};
  for (const auto* all : {&in_force_, &pending_, &later_})
    for (const auto& r : *all)
      if (r.what == kind::set) out.settings.push_back(r.change);
  if (budget_) out.settings.push_back(*budget_);
  return out;
}

std::vector<std::string> requests_policy::remember(const job_memory& memory) {
  std::vector<std::string> out;
  if (memory.lost) furthest_ = std::max(furthest_, memory.lost->furthest_step);
  for (const auto& s : memory.settings) {
    if (s.key == budget_key) {
      if (const auto held = set_budget(s.value); !held) out.push_back(held.error().message);
      continue;
    }
    if (s.step <= finished_) {  // the checkpoint has it; an older one may not
      earlier_.push_back(s);
      if (earlier_.size() > in_force_limit) earlier_.pop_front();
      continue;
    }
    auto job = config::amend(wanted_, fmt::format("{}={}", s.key, s.value));
    if (job)
      later_.push_back(setting_of(s.key, std::move(*job), s.step));
    else
      out.push_back(fmt::format("{} = {} from step {} on is left out: {}", s.key, s.value, s.step,
                                job.error().message));
  }
  if (memory.paused) hold(memory.pause_reason);
  return out;
}

std::vector<std::string> requests_policy::take_effect() {
  std::vector<std::string> said;
  for (; !later_.empty() && later_.front().step <= finished_ + 1; later_.pop_front())  // REQ-4
    said.push_back(put_in_force(later_.front()));
  for (; !pending_.empty(); pending_.pop_front()) {  // REQ-2
    auto& asked = pending_.front();
    switch (asked.what) {
      case kind::pause:
        paused_ = true;
        said.push_back(fmt::format("paused after step {}: {}", finished_, asked.text));
        break;
      case kind::resume:
        paused_ = false;
        said.push_back(fmt::format("continues with step {}", finished_ + 1));
        break;
      case kind::set:
        said.push_back(put_in_force(asked));
        break;
    }
  }
  return said;
}

}  // namespace troupe::train
