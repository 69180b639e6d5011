// What changes a GPU: its power limit and its clocks.
//
// Why apart from the meter: a change outlives the process that made it and is everybody's who uses
// the machine. So an object of its own must be asked for, and is refused unless the configuration
// says that devices may be changed.
//
// Invariants
//   NVC-1  Without the configuration's word there are no controls.
//   NVC-2  What was changed is undone when the controls go, as far as the device still answers: the
//     power limit is what it was before, clocks are free.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gpu/meters/nvml.hpp"

namespace troupe::gpu::nvml {

/// What the configuration says of changing devices.
enum class gpu_access : uint8_t { read_only, control };

class gpu_controls {
 public:
  /// Fails with permission if `access` is read_only (NVC-1).
  static result<std::unique_ptr<gpu_controls>> open(const gpu_meter& meter, gpu_access access);
  ~gpu_controls();
  gpu_controls(const gpu_controls&) = delete;

  /// The limits that the device takes, mW.
  struct limits {
    uint64_t lowest_mw = 0, highest_mw = 0;
  };
  result<limits> power_limits(unsigned index) const;

  /// Fails with bad_config outside power_limits(), with permission for who is not root.
  status set_power_limit(unsigned index, uint64_t mw);
  /// Keeps the SM clock between two frequencies.
  status lock_clocks(unsigned index, uint64_t lowest_mhz, uint64_t highest_mhz);
  /// Undoes the changes made through these controls (NVC-2).
  status reset(unsigned index);

 private:
  struct changes {
    std::optional<unsigned> power_limit_before;
    bool clocks = false;
  };
  explicit gpu_controls(std::shared_ptr<const session> s)
      : session_(std::move(s)), changed_(session_->count()) {}
  template <class Function, class... Values>
  status call(unsigned index, const char* name, Function* function, Values... values) const;

  std::shared_ptr<const session> session_;
  std::vector<changes> changed_;  ///< by device
};

}  // namespace troupe::gpu::nvml
