// What persons ask of a run while it goes on, and the step from which each request holds.
//
// Pure: the run tells when a step begins and ends, and does what the policy says between two steps.
//
// Invariants
//   REQ-1  What is answered is what happens: a setting is used first by the step that the answer
//     names. The step under way has taken its settings already.
//   REQ-2  Requests take effect in the order in which they came, between two steps: "pause; set;
//     resume" during a step pauses, sets and goes on at its end.
//   REQ-3  At most pending_limit requests wait for a step's end; more are refused.
//   REQ-4  A step that is made again is made with the settings it had: those that were set for a
//     later one wait for it, and what is set meanwhile holds from the first new one on.
//   REQ-5  Who begins with what memory() said holds to all of it: it pauses before its first step,
//     and each setting is used first by the step that the answer named.
//   REQ-6  Who goes back by order has the settings of that state: those that were made since hold
//     no more, each of them is said, and new ones hold from the next step on.
//   REQ-7  A pause that waits for the end of a step which no other follows is void: requests are
//     refused from then on, so nobody could end it where a recovery makes steps again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/job/job_memory.hpp"
#include "actors/job/train_state.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::train {

/// Requests that wait for a step's end, at most.
constexpr size_t pending_limit = 256;
/// Settings that are kept for steps behind the newest checkpoint, at most: they may be made again
/// where that is damaged.
constexpr size_t in_force_limit = 256;

/// Keys of the settings that a run can take on between two steps.
std::span<const std::string_view> changeable_settings();

/// What a person is answered.
struct reply {
  std::string text;
  uint64_t first_step = 0;  ///< that uses what he has set; 0: none is named
};

class requests_policy {
 public:
  requests_policy() = default;
  /// `job`: with `changes`, made in earlier runs, in it.
  requests_policy(config::job job, uint64_t finished_step,
                  std::vector<checkpoint::setting_change> changes);

  /// What the step under way uses, or the last one used.
  const config::job& job() const noexcept { return job_; }
  /// The same after all requests that wait.
  const config::job& wanted() const noexcept { return wanted_; }
  /// What was set and not set back, those that the next step begins with included: what a
  /// checkpoint tells of it.
  const std::vector<checkpoint::setting_change>& changes() const noexcept;
  /// Whether no step may begin now.
  bool paused() const noexcept { return paused_; }

  void step_begins() noexcept { in_step_ = true; }
  void step_ended() noexcept;
  /// The step under way, if any, will not end.
  void step_is_lost() noexcept { in_step_ = false; }
  /// The last step is made (REQ-7). Whether a pause was asked for in it.
  bool no_step_follows();
  /// The steps behind `finished_step` are made again (REQ-4).
  void go_back(uint64_t finished_step);
  /// The job goes back by order to a state that has these settings (REQ-6). A sentence for each
  /// that holds no more.
  std::vector<std::string> rewind(uint64_t finished_step,
                                  const std::vector<checkpoint::setting_change>& changes);
  /// A checkpoint of that step is there: where more settings are kept than in_force_limit, those
  /// behind it need not be.
  void is_saved(uint64_t finished_step) { saved_ = std::max(saved_, finished_step); }
  /// Whether it is known what the step after that one used: as long as it is not before the first
  /// step of this run, nor before what was given up.
  bool can_go_back(uint64_t finished_step) const noexcept { return finished_step >= known_from_; }

  /// The job has other ranks from now on, those of `job`: replicas, nodes and drills.
  void lay_out(const config::job& job);

  /// Answers to a person: what will happen and when, or why not.
  result<reply> pause(std::string reason);
  /// The job itself pauses, whatever waits (REQ-3): there is one such pause at most.
  void hold(std::string reason);
  result<reply> resume();
  result<reply> set(const std::string& key, const std::string& value);

  /// What has been said and still holds (REQ-5).
  job_memory memory() const;
  /// Takes over what another run's memory() said; before the first step. What does not fit the job
  /// any more is left out, a sentence for each.
  std::vector<std::string> remember(const job_memory& memory);

  /// Between two steps, before the next begins, and after each request while paused: lets all that
  /// was asked for take effect. A sentence for each.
  std::vector<std::string> take_effect();

 private:
  enum class kind : uint8_t { pause, resume, set };
  struct request {
    kind what;
    std::string text;   ///< the reason, or the sentence about the setting
    config::job job;    ///< of a setting: with it
    uint64_t step = 0;  ///< of a setting: the first that uses it
    std::vector<checkpoint::setting_change> changes = {};  ///< of a setting: with it
    checkpoint::setting_change change = {};                ///< the setting
  };

  /// The first step that has not begun.
  uint64_t own_next() const noexcept;
  /// The same, of those that are new and not before one that a setting waits for (REQ-2, REQ-4).
  uint64_t next() const noexcept;
  status room() const;
  result<reply> set_budget(const std::string& value);
  std::string put_in_force(request& setting);
  checkpoint::setting_change note_change(const std::string& key, const std::string& value,
                                         uint64_t step);
  request setting_of(const std::string& key, config::job with, uint64_t step);

  config::job job_, wanted_;
  bool has_budget_ = false;  ///< the job began with a power budget
  /// The one that a person has set: it holds from then on, whichever steps are made again.
  std::optional<checkpoint::setting_change> budget_;
  uint64_t finished_ = 0;
  uint64_t furthest_ = 0;  ///< the last step that was ever finished
  bool in_step_ = false;
  bool paused_ = false;      ///< now
  bool will_pause_ = false;  ///< after all requests that wait
  std::string pause_reason_;
  std::deque<request> pending_;
  uint64_t saved_ = 0;            ///< the newest checkpoint's step
  uint64_t known_from_ = 0;       ///< the finished step before the first that may be made again
  config::job first_;             ///< what that one used
  std::deque<request> in_force_;  ///< settings that steps have used since, in order
  std::deque<checkpoint::setting_change> earlier_;  ///< of the runs before: for the next one alone
  std::deque<request> later_;     ///< settings that have been in force and will be again (REQ-4)
  std::vector<checkpoint::setting_change> changes_, first_changes_;  ///< of wanted_, of first_
};

}  // namespace troupe::train
