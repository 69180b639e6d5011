// A queue between two steps.
#include "actors/train/requests_policy.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/config/load.hpp"
#include "io/config/properties.hpp"

namespace troupe::train {

namespace {

constexpr std::array<std::string_view, 5> changeable{"train.lr", "train.steps",
                                                     "train.validate_every",
                                                     "train.validate_batches", "checkpoint.every"};

}  // namespace

std::span<const std::string_view> changeable_settings() {
  return changeable;
}

requests_policy::requests_policy(config::job job, uint64_t finished_step,
                                 std::vector<checkpoint::setting_change> changes)
    : job_(job), wanted_(std::move(job)), finished_(finished_step), changes_(std::move(changes)) {}

void requests_policy::step_ended() noexcept {
  in_step_ = false;
  ++finished_;
}

status requests_policy::room() const {
  if (pending_.size() < pending_limit) return {};
  return error{errc::unavailable,
               fmt::format("{} requests wait for the end of step {} already", pending_.size(),
                           finished_ + 1),
               "say it again after the step"};  // REQ-3
}

result<std::string> requests_policy::pause(std::string reason) {
  if (will_pause_) return error{errc::usage, "the run is paused already", "say resume"};
  TROUPE_CHECK(room());
  will_pause_ = true;
  pending_.push_back({kind::pause, reason.empty() ? "asked to" : std::move(reason), {}});
  return fmt::format("pauses after step {}", next() - 1);
}

result<std::string> requests_policy::resume() {
  if (!will_pause_) return error{errc::usage, "the run is not paused", ""};
  TROUPE_CHECK(room());
  will_pause_ = false;
  pending_.push_back({kind::resume, "", {}});
  return fmt::format("continues with step {}", next());
}

result<std::string> requests_policy::set(const std::string& key, const std::string& value) {
  if (std::find(changeable.begin(), changeable.end(), key) == changeable.end())
    return error{errc::usage, fmt::format("{} cannot change during a run", key),
                 fmt::format("what can: {}", fmt::join(changeable, ", "))};
  TROUPE_CHECK(room());
  TROUPE_TRY(job, config::amend(wanted_, fmt::format("{}={}", key, value)));
  const auto last = static_cast<uint64_t>(job.train.steps);
  if (next() > last && key != "train.steps")
    return error{errc::usage, fmt::format("no step would use it: step {} is the last", last),
                 "raise train.steps first"};
  remember(key, config::value_text(key, job));
  wanted_ = job;
  pending_.push_back(
      {kind::set,
       fmt::format("{} is {} from step {} on", key, config::value_text(key, job), next()), job});
  return fmt::format("{} = {} from step {} on", key, config::value_text(key, job), next());
}

/// Keeps what the file says, which rules again where it is set back to that.
void requests_policy::remember(const std::string& key, const std::string& value) {
  const auto known = std::find_if(changes_.begin(), changes_.end(),
                                  [&](const auto& change) { return change.key == key; });
  const auto was = known == changes_.end() ? config::value_text(key, wanted_) : known->was;
  if (known != changes_.end()) changes_.erase(known);
  if (value != was) changes_.push_back({key, value, was, next()});
}

std::vector<std::string> requests_policy::take_effect() {
  std::vector<std::string> said;
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
        job_ = std::move(asked.job);
        said.push_back(std::move(asked.text));
        break;
    }
  }
  return said;
}

}  // namespace troupe::train
