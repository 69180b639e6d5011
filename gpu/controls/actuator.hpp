// What makes the devices of a machine slower than they could be: one shape for all of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/recent_delays.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// A pace is told in so many parts (train::work_pace).
inline constexpr int whole_pace = 1024;
/// Above every clock: a device that is asked for it runs at what its pace lets it.
inline constexpr int highest_clock_mhz = 1'000'000;

/// What an actuator can do.
struct actuator_facts {
  std::string_view name;
  double least = 0, most = 1;  ///< of the whole pace
  double resolution = 0;       ///< the least difference between two settings
  bool saves_energy = false;   ///< false: the same joules, later
  /// From a command until its effect was seen, as measured last; none: nothing was set yet.
  std::optional<int64_t> p50_ns = {}, p99_ns = {};
};

/// With what was measured.
inline actuator_facts with_delays(actuator_facts facts, const recent_delays& took) {
  facts.p50_ns = took.percentile_ns(50);
  facts.p99_ns = took.percentile_ns(99);
  return facts;
}

/// For whom something is changed.
struct control_owner {
  std::string job;
  int64_t rank = 0;
  uint64_t launch = 0;  ///< drawn at random where the job is started; 0: unknown
  /// What it sets of a device stays where its process dies, for the next such owner: a budget
  /// counts on it (PWR-5).
  bool is_adopted = false;
};

/// Its calls block for as long as the kernel or a driver takes; from any thread. What it changes is
/// undone when it goes (control_record.hpp).
class actuator {
 public:
  virtual ~actuator() = default;
  /// From now on; nothing once it has ended. Success: it was read back. Errors: each one's own.
  virtual status set(int pace_of_1024) = 0;
  /// Undoes what it has changed, as far as that can be; else the record of it stays.
  virtual void end() noexcept = 0;
  virtual actuator_facts facts() const = 0;
  /// Whether what sets for it is gone, so that it sets nothing any more (agent_actuator.hpp): from
  /// then on operations are to be held back. Waits for nothing.
  virtual bool has_gone() const { return false; }
  /// Who sets for it; empty: this process.
  virtual std::string set_by() const { return {}; }

  /// Whether set_clock() does something: it governs the clocks of what its rank alone computes on.
  virtual bool sets_clocks() const { return false; }
  /// Some that set_clock() may be asked for, in MHz, highest first: the first is that of a device
  /// which nothing slows. None where it sets none.
  virtual std::vector<int> clocks_mhz() const { return {}; }
  /// A clock that is enough until the next one is asked for; of this one and the pace the lower
  /// holds. It is written, and not read back: that it is in force check_clock() says, later.
  /// Errors: each one's own.
  virtual status set_clock(int mhz) {
    (void)mhz;
    return {};
  }
  /// Errors: each one's own, where the clock is above what was set last.
  virtual status check_clock() { return {}; }
  /// What a person is to know of what check_clock() has found, that is no error; empty: nothing
  /// since it was asked last.
  virtual std::string take_note() { return {}; }
  /// Processes of others that compute there, for which clocks are given back, as check_clock() has
  /// found it last, a count; 0: they are not given back.
  virtual unsigned given_back_to() const { return 0; }
};

}  // namespace troupe::gpu::controls
