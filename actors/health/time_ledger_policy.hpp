// What the wall time of a run went into: each nanosecond is exactly one of eleven things.
//
//   time_ledger_policy ledger;
//   ledger.begin(now_ns);                        // start
//   ledger.step_began(1, epoch, now_ns);         // what follows is useful, if the step ends
//   ledger.step_ended(1, epoch, now_ns);
//   ledger.noticed(last_sign_ns, now_ns);        // detect since the last sign of life, diagnose
//   ledger.named(now_ns);                        // re-form
//   ledger.connected(now_ns);                    // restore
//   ledger.restored(0, epoch + 1, now_ns);       // steps above are to be made again: repeated
//
// Pure: it is told what happened, and when. An event that makes no sense where the run is (a step
// of an epoch that has ended, a name where nothing was noticed) changes nothing but that time went
// on; one that bears an earlier time than the last counts as of the last.
//
// What is only known later is settled backwards: the time since a lost node's last sign of life
// becomes detection, the step that was under way then is repeated work, and so are, once it is
// known where the run goes on, the steps that it makes again. A step that is made again is useful:
// it was its first time that was in vain.
//
// Invariants
//   HEAL-7  The entries sum to the wall time, to the nanosecond, after every event, whatever the
//     order of events; so do those of the hours that are kept, each to its part of the wall time.
//   TLG-1  Memory is bounded: `spans_kept` spans, and those that a settlement splits until the next
//     one is added, can still be settled backwards (neighbouring
//     steps share one where they must, and are then thought to have taken the same time each), and
//     `hours_kept` hours are told apart. What is older stays as it is.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string_view>

namespace troupe::health {

/// What time goes into.
enum class time_use : uint8_t {
  useful,             ///< steps that stand
  repeated,           ///< steps, and parts of steps, that a fault took back
  start,              ///< from the run's begin to its first step
  detect,             ///< from a fault to the moment when it was noticed
  diagnose,           ///< until it was known who or what it was
  re_form,            ///< ranks end, processes start, ranks are given out, groups connect
  restore,            ///< the state is read back
  checkpoint_stall,   ///< steps wait for a save
  paused,             ///< a person, or the power governor, holds the run
  waiting_for_nodes,  ///< there are too few
  head_away,          ///< nobody leads
};
inline constexpr size_t time_uses = 11;

/// The stable name of an entry, as in JSON: re_form.
std::string_view to_string(time_use use);

/// Nanoseconds by entry.
class time_entries {
 public:
  int64_t& operator[](time_use use) noexcept { return ns_[static_cast<size_t>(use)]; }
  int64_t operator[](time_use use) const noexcept { return ns_[static_cast<size_t>(use)]; }
  int64_t wall_ns() const noexcept;
  /// Useful of wall, 0 to 1; 1 where no time has gone.
  double effective() const noexcept;
  time_entries& operator+=(const time_entries& other) noexcept;
  bool operator==(const time_entries&) const = default;

 private:
  std::array<int64_t, time_uses> ns_{};
};

class time_ledger_policy {
 public:
  static constexpr size_t spans_kept = 4096;
  static constexpr size_t hours_kept = 2048;

  /// The run begins: `start` until its first step. Before it nothing is counted.
  void begin(int64_t now_ns);
  /// A run goes on that another ledger kept the time of, up to now: it re-forms, and what that had
  /// made up to `last_step` and this makes again is repeated. Hours are told of this one alone.
  void begin_after(const time_entries& before, uint64_t steps_repeated, uint64_t last_step,
                   int64_t now_ns);
  void step_began(uint64_t step, uint32_t epoch, int64_t now_ns);
  void step_ended(uint64_t step, uint32_t epoch, int64_t now_ns);

  /// A fault is noticed. It is thought to have happened at `last_sign_ns`, but not before the last
  /// step that ended, which everybody has made.
  void noticed(int64_t last_sign_ns, int64_t now_ns);
  /// It is known who or what it was: the run re-forms.
  void named(int64_t now_ns);
  /// There are too few nodes, at the start or in a recovery.
  void hold(int64_t now_ns);
  /// All nodes are there.
  void members_there(int64_t now_ns);
  void connected(int64_t now_ns);
  /// The run goes on after `step`, in this epoch: what it had made above it is repeated.
  void restored(uint64_t step, uint32_t epoch, int64_t now_ns);
  /// So much of what begin_after() was told as repeated need not be made again.
  void was_of_use(int64_t ns);

  /// Steps waited for a save between these two moments, of which the second is not in the future.
  void save_blocked(int64_t from_ns, int64_t to_ns);
  void pause(int64_t now_ns);
  void resume(int64_t now_ns);
  /// Nobody led since then; somebody does again.
  void head_was_away(int64_t since_ns, int64_t now_ns);
  /// The run is over: what comes later changes nothing.
  void end(int64_t now_ns);

  /// All of it, as of the last event.
  const time_entries& whole() const noexcept { return whole_; }
  /// Of the last hour, by minutes of the run: the last one and the sixty before.
  time_entries last_hour() const;
  /// Each hour since the run's begin, the oldest that is kept first; the last one goes on.
  const std::deque<time_entries>& hours() const noexcept { return hours_; }
  /// The number of the oldest hour that is kept, from 0.
  uint64_t first_hour() const noexcept { return first_hour_; }
  uint64_t steps_repeated() const noexcept { return steps_repeated_; }

 private:
  enum class phase : uint8_t { idle, starting, training, diagnosing, re_forming, restoring, over };

  /// Time that went into one thing, without a gap to its neighbours. Of useful time also: into
  /// which steps, where they have ended.
  struct span {
    int64_t from_ns = 0, to_ns = 0;
    time_use use{};
    uint64_t first_step = 0, last_step = 0;  ///< 0: none, or under way
    bool operator==(const span&) const = default;
  };

  bool recovers() const noexcept;
  time_use use_now() const noexcept;
  void advance(int64_t now_ns);
  void append(const span& s);
  void count(int64_t from_ns, int64_t to_ns, time_use use, int64_t sign);
  template <class F>
  void repaint(int64_t from_ns, int64_t to_ns, time_use into, F from_these);
  void split_at(int64_t at_ns);
  void take_back_steps(uint64_t above);
  void settle_under_way(time_use use, uint64_t step);
  void merge();

  phase phase_ = phase::idle;
  bool paused_ = false;
  bool holds_ = false;
  bool under_way_ = false;  ///< a step
  uint32_t epoch_ = 0;
  uint64_t last_step_ = 0;  ///< that ended and was not taken back
  int64_t begun_ns_ = 0;
  int64_t last_ns_ = 0;
  int64_t step_ended_ns_ = 0;  ///< the last one
  uint64_t steps_repeated_ = 0;
  std::deque<span> spans_;
  time_entries whole_;
  std::deque<time_entries> hours_, minutes_;
  uint64_t first_hour_ = 0, first_minute_ = 0;
};

}  // namespace troupe::health
