// How busy a machine's processors were, or what some of its processes used of them, seen from
// outside: samples of the kernel's count of busy processor time, and what can be said of any
// stretch of them. Modelled watts are made of that, so a budget of watts is one of processors.
//
// Invariants
//   BSY-1  Nothing that a job says of what it draws is believed.
//   BSY-2  A stretch is judged by the samples around its ends, between which time is shared evenly;
//     what lies outside of all samples is not judged.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace troupe::apps::power_bench {

/// At `t_s` of the clock on the wall what is watched had been busy for `busy_s` processor seconds.
struct draw_sample {
  double t_s = 0, busy_s = 0;
};

/// Samples in the order of time.
class draw_trace {
 public:
  explicit draw_trace(std::vector<draw_sample> samples) : samples_(std::move(samples)) {}

  /// Processors that it kept busy from one time to another; nothing where that was not seen whole.
  std::optional<double> mean(double from_s, double to_s) const;

  /// The greatest mean of any stretch of `window_s` that lies within; nothing where none does.
  std::optional<double> most(double from_s, double to_s, double window_s) const;

  /// When the first stretch of `window_s` begins that has at most `processors`, of those that lie
  /// within; nothing where none has.
  std::optional<double> first_kept(double from_s, double to_s, double window_s,
                                   double processors) const;

 private:
  std::optional<double> busy_at(double t_s) const;

  std::vector<draw_sample> samples_;
};

/// Seconds of the clock that samples have.
double clock_s();

/// Seconds of processor time so far; nothing where the kernel does not say.
using busy_counter = std::function<std::optional<double>()>;

/// Of all processors of this machine.
std::optional<double> machine_busy_s();
/// Of these processes and all that they started: of those that have ended, as far as they were
/// waited for. Looks at every process of the machine.
std::optional<double> processes_busy_s(const std::vector<pid_t>& roots);

/// A process as it is now: its own processor time, and that of those which it waited for.
struct seen_process {
  pid_t parent = 0;
  std::string name;
  double busy_s = 0;
};
/// All of the machine, by their numbers.
std::map<pid_t, seen_process> seen_processes();

/// These processes and all that they have started, as it is now.
std::vector<pid_t> processes_below(const std::vector<pid_t>& roots);
/// Of all threads of these processes alone, by the clocks that the kernel keeps of them: finer than
/// its ticks, and soon asked for. Nothing where one has ended.
std::optional<double> clocks_busy_s(const std::vector<pid_t>& processes);

/// Takes samples, `between` two of them so long: the first before its begin is over, the last at
/// its end.
class draw_watch {
 public:
  explicit draw_watch(busy_counter counter = machine_busy_s,
                      std::chrono::milliseconds between = std::chrono::milliseconds(100));
  /// Ends it.
  draw_trace take();

 private:
  void sample();

  busy_counter counter_;
  std::vector<draw_sample> samples_;
  std::jthread thread_;
};

}  // namespace troupe::apps::power_bench
