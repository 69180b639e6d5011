// A job's part of what its machine draws, where other jobs work on it, too.
//
// What the machine draws without work is divided by heads. What work makes it draw above that goes
// by processor time: the job's part is that of its own processes, in the same look in which the
// machine's draw was read. So no word of another is needed, a job that begins, pauses or falls
// silent beside it changes nothing but the machine's draw, and what they report is together no more
// than it draws. What strangers do there is nobody's.
//
// What the machine draws without work is seldom seen where somebody always works. It is where the
// line through the least and the most busy look meets no work. Where these are alike nothing is
// known of it, and all goes by processor time: what another's steady work draws would else hold who
// has just begun.
//
// Accelerators go by processor time, too, for want of a count of who uses them: their sum is right,
// whose it is is rough.
//
// Pure: it is told looks.
//
// Invariants
//   MPT-1  The parts of all that share a machine are together at most what it draws.
//   MPT-2  A job that has its machine alone has all of it, whoever else works there: the breaker
//     carries that, too. So has one of which the processor time is not known.
#pragma once

#include <cstdint>
#include <optional>

namespace troupe::power {

class machine_part_policy {
 public:
  /// So many jobs work on the machine; 1: this one alone.
  void shared_by(uint32_t jobs) { jobs_ = jobs < 1 ? 1 : jobs; }
  uint32_t jobs() const { return jobs_; }

  /// The machine drew so much while its processors were busy for `busy` seconds a second; below 0:
  /// that is not known.
  void look(double power_w, double busy);
  /// Of what it draws: `own` is the part of its processor time that the job used, of 0 to 1.
  double part_w(double power_w, double own) const;
  /// What it draws without this job, as far as that is the job's; none: nothing was seen yet.
  std::optional<double> idle_w() const;

 private:
  struct seen {
    double power_w, busy;
  };
  double without_work_w() const;

  uint32_t jobs_ = 1;
  std::optional<double> least_w_;        ///< that it drew
  std::optional<seen> rested_, worked_;  ///< the least and the most busy look
};

}  // namespace troupe::power
