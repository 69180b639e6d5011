// How the steps of jobs under one budget begin against each other. A synchronous job draws much
// while it computes and little where its ranks wait for each other, once a step; jobs whose steps
// take as long and begin together draw much together, and what they share swings by the sum (0.1
// to 20 Hz, which turbines and breakers mind). Begun evenly apart they fill each other's dips.
//
// A job can only be held back, never pushed on: one step of it begins later, by less than a step.
// So of all ways to stand apart the one is taken that holds the jobs back least together. Nothing
// is remembered of where they were put: what counts is where they are. So a life of the budget
// that has just begun finds them apart, and a job that was not reached, or has drifted, is put
// right by the next look.
//
// Pure: it is told beats, and handed the time (nanoseconds of one monotonic clock).
//
// Invariants
//   PHS-1  A job is held back by less than a step of its own. One alone never is, and of several
//     one at least is not.
//   PHS-2  Jobs are alike where they drift apart by a third of a step at most until they are looked
//     at again: others are let be, for a hold of theirs would be lost before the next.
//   PHS-3  Who has begun to beat, beats otherwise, or is of a group that was shifted, is let be for
//     a settle time: settle_steps steps and settle_ns at least. So no more than one step in
//     settle_steps is held back, whatever is told.
//   PHS-4  Where work is held, shed or not known nothing is decided, what was decided is void, and
//     the settle time begins anew.
//   PHS-5  Who stands apart by what noise allows is let be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::power {

/// When steps begin: each `period_ns`, one of them at `began_ns`, which may lie ahead.
struct step_beat {
  int64_t period_ns = 0;
  int64_t began_ns = 0;
  bool operator==(const step_beat&) const = default;
};

/// One step of a job is to be held back.
struct phase_order {
  uint64_t number = 0;    ///< in a life of the budget, from 1: the same one is the same order
  int64_t offset_ns = 0;  ///< above 0, and less than a step
  bool operator==(const phase_order&) const = default;
};

/// Steps of 20 to 0.1 Hz: what is faster no machine's supply sees.
inline constexpr int64_t fastest_beat_ns = 50'000'000, slowest_beat_ns = 10'000'000'000;
/// A step that takes longer than so many stands, and is no beat.
inline constexpr int64_t beats_of_standing = 2;

/// Of a message: what is longer is no step, and no number that could run over.
int64_t phase_ns_of(uint64_t us);
/// Of a message; 0 where it is below.
uint64_t phase_us_of(int64_t ns);

/// Whether a beat can be one, as of now.
bool is_sound(const step_beat& beat, int64_t now_ns);

class phase_policy {
 public:
  static constexpr int settle_steps = 32;
  static constexpr int64_t settle_ns = 30'000'000'000;
  /// A report that was heard so long ago says nothing of the beat of now.
  static constexpr int64_t fresh_ns = 5'000'000'000;
  /// An order is repeated for so long: an answer may be lost.
  static constexpr int64_t told_for_ns = 5'000'000'000;

  phase_policy() = default;
  explicit phase_policy(size_t children) : children_(children) {}

  /// A child's report. None: it does not take part, makes no even steps, or is held. `incarnation`:
  /// its process.
  void hear(size_t child, uint64_t incarnation, const std::optional<step_beat>& beat,
            int64_t now_ns);
  /// Once a tick: whom to hold back from now on, those that were not told before. `quiet`: nothing
  /// is held or shed, and it is known what everybody has (PHS-4).
  std::vector<size_t> tick(bool quiet, int64_t now_ns);

  /// What an answer to the child is to say; none: nothing.
  std::optional<phase_order> order_of(size_t child, int64_t now_ns) const;
  /// For a person: what it beats, if that counts.
  std::optional<int64_t> period_ns(size_t child, int64_t now_ns) const;
  struct shift {
    phase_order order;
    int64_t at_ns = 0;
  };
  /// What it was told last in this life.
  const std::optional<shift>& last(size_t child) const { return children_[child].last; }

 private:
  struct account {
    uint64_t incarnation = 0;
    std::optional<step_beat> beat = {};
    int64_t heard_ns = 0;
    int64_t since_ns = 0;         ///< it settles since then
    int64_t since_period_ns = 0;  ///< its beat was that then
    std::optional<shift> last = {};
    bool stands = false;  ///< that order
  };
  static int64_t settles_ns(int64_t period_ns);
  bool is_ready(const account& c, int64_t now_ns) const;
  bool are_alike(size_t shorter, size_t longer) const;
  void spread(const std::vector<size_t>& group, int64_t now_ns, std::vector<size_t>& out);

  std::vector<account> children_;
  uint64_t numbers_ = 0;
};

}  // namespace troupe::power
