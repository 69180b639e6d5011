// Sets a device's clock beside what computes on it: a call of the driver takes some 5 to 20 ms, and
// may take seconds, so a thread of its own makes it. Of several wishes the newest counts.
//
// Invariants
//   CKS-1  wish() and is_at_least() wait for nobody, whatever a call is doing.
//   CKS-2  Of wishes that are due only the newest is set: one that comes while another is being set
//     replaces all between them. One for later replaces what was wished for later, and no other.
//   CKS-3  What was set is read back later: once no wish has come for `check_after`, and before the
//     next one where the last look is `check_every` ago. Where that fails, or a call does, the
//     device is let go, nothing is set any more, and `failed` is told of it, once.
//   CKS-5  While one is set below the highest, or is given back, it is looked at each `check_every`
//     besides, whatever is wished for: others may come to compute there, and go (SGV-10), of whom
//     `noted` is told.
//   CKS-4  As it ends, the device is let go (highest_clock_mhz).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "gpu/controls/actuator.hpp"

namespace troupe::gpu::controls {

struct clock_setter_terms {
  std::chrono::milliseconds check_after{50}, check_every{1000};
};

class clock_setter {
 public:
  /// `failed` and `noted` (actuator::take_note()) are called from its thread and wait for nothing;
  /// may be empty.
  explicit clock_setter(std::shared_ptr<actuator> control,
                        std::function<void(const error&)> failed = {},
                        const clock_setter_terms& terms = {},
                        std::function<void(const std::string&)> noted = {});
  /// Waits for the call that is made.
  ~clock_setter();
  clock_setter(const clock_setter&) = delete;
  clock_setter& operator=(const clock_setter&) = delete;

  /// In `after` from now. CKS-1, CKS-2
  void wish(int mhz, std::chrono::nanoseconds after = {});
  /// Whether the device may run at `mhz` now, as far as it was set.
  bool is_at_least(int mhz) const { return in_force_mhz_ >= mhz; }
  /// CKS-3
  bool has_failed() const { return failed_; }
  /// As actuator::given_back_to() at the last look. CKS-5
  unsigned given_back_to() const { return given_back_to_; }

 private:
  using moment = std::chrono::steady_clock::time_point;
  struct later_wish {
    int mhz = highest_clock_mhz;
    moment due;
  };

  void work();
  void note_due(moment now);
  std::optional<moment> next_look() const;
  std::optional<moment> next_visit() const;
  bool is_check_due(moment now) const;
  void set(std::unique_lock<std::mutex>& lock);
  void check(std::unique_lock<std::mutex>& lock);
  void fail(const error& why);

  const std::shared_ptr<actuator> control_;
  const std::function<void(const error&)> on_failed_;
  const std::function<void(const std::string&)> on_noted_;
  const clock_setter_terms terms_;
  std::atomic<int> in_force_mhz_ = highest_clock_mhz;
  std::atomic<bool> failed_ = false;
  std::atomic<unsigned> given_back_to_ = 0;
  std::mutex mutex_;
  std::condition_variable told_;
  // Guarded by mutex_.
  std::optional<int> due_mhz_;
  std::optional<later_wish> later_;
  bool over_ = false;
  // The thread's.
  std::optional<moment> unchecked_since_;  ///< the last clock that was set
  moment looked_ = std::chrono::steady_clock::now();
  std::thread thread_;
};

}  // namespace troupe::gpu::controls
