// What else a machine does while jobs are measured on it, and whether it leaves them enough: a
// budget is a share of what they draw without one. Where others have the machine, such a share is
// hardly more than what jobs draw that make no step, so that none would ever be made.
//
// Pure, but for the looks at /proc.
//
// Invariants
//   BOW-1  No budget is made of too little: that is told at once, with who else was busy, and not
//     after all patience with steps that cannot be made.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/draw_trace.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::power_bench {

/// A process that is not ours, and how many processors it kept busy.
struct busy_process {
  pid_t pid = 0;
  std::string name;
  double processors = 0;
};

/// What others did meanwhile.
struct other_work {
  double processors = 0;  ///< of all of them
  std::vector<busy_process> busiest = {};
};

/// "cc1plus (4711) 0.85, ninja (4700) 0.10"; empty: none was seen.
std::string text_of(const std::vector<busy_process>& busiest);

/// A job that makes no step keeps some 0.03 of a processor busy, by its messages and readings, and
/// its slowest steps want a twentieth of its thread: a job under a budget has at least so much.
inline constexpr double least_of_job = 0.1;

/// BOW-1: what both kept busy, what is wanted for that, what others had, and who they were.
inline constexpr error_kind<double, double, double, std::string_view> too_little_free{
    "too_little_free", errc::unavailable,
    "both jobs kept {:.2f} processors busy without a budget, {:.2f} are wanted for a share of that "
    "to let them make steps: others kept {:.2f} busy{}",
    "end what else runs there, or measure when it is over"};

/// Whether that share of what both jobs kept busy without a budget is one. Errors: too_little_free.
status check_free(double processors, double budget_of, const other_work& others);

/// Who kept most busy between two looks that are so many seconds apart, at most three of them, each
/// a fiftieth of a processor at least; nobody who is one of `ours`, or was started by one. Who has
/// ended counts by the process that waited for it.
std::vector<busy_process> busiest_of(const std::map<pid_t, seen_process>& before,
                                     const std::map<pid_t, seen_process>& now,
                                     const std::vector<pid_t>& ours, double seconds);

/// Of all but this process and what it started, from when it is made.
class others_watch {
 public:
  others_watch();
  other_work seen() const;

 private:
  double begun_s_;
  std::optional<double> machine_s_, ours_s_;  ///< busy so far
  std::map<pid_t, seen_process> before_;
};

}  // namespace troupe::apps::power_bench
