// A job's side of a lease of watts: what its machines may draw by the power budget above it, and
// which lesser cap its run has come to keep.
//
// A job keeps a cap by the pace of its steps (job_pace_policy.hpp), and a step that has begun keeps
// the pace it began with. So what is read back is the cap under which the pace of the step that is
// being made was decided, or that of any word of a pace which the run may follow in a step that it
// has begun unheard. Words are numbered, and the run says which one it follows: no time decides.
//
// Pure: it is told answers, decisions and steps, and handed the time.
//
// Invariants
//   JLP-1  Before the first lease of a job's life its cap is 0: nothing of it computes (PWR-3).
//   JLP-2  A lesser cap is told as in force once the run makes a step, or none, by a word that was
//     decided under it, or under less; not before, however long that takes. A word of a pace that
//     is no more than what is decided now keeps the cap of now.
//   JLP-3  A static share that the parent changes raises nothing.
//   JLP-4  While the parent hears a later process of this job, or knows none of its name, it makes
//     no step: what it draws is counted no more.
//   JLP-5  The brake is on as the last sound answer says, whether or not a lease is in it, and no
//     longer than the lease that is held. Its static share binds the next step then, as it does any
//     child of a parent that is not heard: the rest of the step that was held goes on at its pace.
//   JLP-6  A machine whose work is others' begins with its static share, and tells that as in
//     force: the work is there already, and the budget counts that much of who was never heard of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/power/lease_policy.hpp"
#include "actors/train/work_pace_policy.hpp"

namespace troupe::power {

using train::work_pace;

/// Why no step of a job may begin.
enum class lease_hold : uint8_t {
  none,      ///< steps may
  replaced,  ///< another process works as this job (JLP-4)
  no_child,  ///< the parent has no child of its name (JLP-4)
  no_lease,  ///< none was granted yet (JLP-1)
  no_watts,  ///< the cap is 0
  shed,      ///< the parent wants the work paused
  brake,     ///< the parent holds it
};

class job_lease_policy {
 public:
  /// `incarnation` is greater than that of any head before that acted for this job.
  explicit job_lease_policy(uint64_t incarnation) : incarnation_(incarnation) {}

  /// The work is others', JLP-6; before the first answer. `share_mw`: its static share, where that
  /// is known already.
  void begin_with_share(std::optional<int64_t> share_mw);
  /// `taken`: the answer is to this process and sound, whether or not a lease is in it.
  grant_verdict hear(const power_answer& a, int64_t now_ns);
  /// The parent hears this process no more, until it answers it again. JLP-4
  void refused(lease_hold why) { refused_ = why; }
  /// Once a tick and after an answer: what to keep from now on.
  int64_t tick(int64_t now_ns);
  /// That pace is right under cap_mw(), whether or not the run is to be told; 0: no step may begin.
  void decided(work_pace pace);
  /// The run is told what was decided last. Numbers grow, from 1.
  void told(uint64_t number);
  /// The run begins a step at that pace, or still makes it, by the word of that number; step 0: it
  /// makes none, and has heard that word.
  void steps(uint64_t step, work_pace pace, uint64_t follows);

  /// As of the last tick; 0: nothing may compute.
  int64_t cap_mw() const { return cap_mw_; }
  /// The most that it may draw by what the run follows, and by what is told (LSE-1).
  int64_t in_force_mw() const { return lease_ ? lease_->in_force_mw() : 0; }
  /// What it begins with, JLP-6; none: it is not known yet, or the work is the job's own.
  std::optional<int64_t> begun_with_mw() const {
    return begins_with_share_ && lease_ ? std::optional(begun_with_mw_) : std::nullopt;
  }
  lease_hold hold() const;
  /// As of the last tick. JLP-5
  bool is_braked() const { return is_braked_; }
  /// Whether a lease was ever held.
  bool was_leased() const { return order().epoch > 0; }
  /// Of the lease that was held last; its epoch is 0 before the first one.
  lease_order order() const { return lease_ ? lease_->order() : lease_order{}; }
  bool is_leased(int64_t now_ns) const { return lease_ && lease_->is_leased(now_ns); }
  int64_t left_ns(int64_t now_ns) const { return lease_ ? lease_->left_ns(now_ns) : 0; }

  power_report report(int64_t now_ns, std::optional<int64_t> drawn_mw, int64_t wish_mw) const;

 private:
  /// Beyond it the two oldest count as one, the greater in both.
  static constexpr size_t words_kept = 16;
  /// What the run was told.
  struct word {
    uint64_t number = 0;  ///< of several that say the same the last
    work_pace pace;
    int64_t cap_mw = 0;  ///< under which that is right
  };
  void begin(int64_t share_mw);
  int64_t followed_mw() const;
  void read_back();

  uint64_t incarnation_;
  std::optional<lease_policy> lease_;  ///< none: the static share is not known yet
  lease_hold refused_ = lease_hold::none;
  bool told_brake_ = false, is_braked_ = false;
  bool begins_with_share_ = false;
  int64_t begun_with_mw_ = 0, cap_mw_ = 0;
  work_pace decided_{0}, step_pace_{0};
  uint64_t step_ = 0;    ///< 0: none is made
  int64_t step_mw_ = 0;  ///< under which its pace was decided, at most
  std::vector<word> words_;  ///< that the run may follow in a step that is not heard of; by number
};

}  // namespace troupe::power
