// What the GPUs of this machine do: power, clocks, heat, memory, errors. Read only; what changes a
// device is apart (gpu/controls/nvml_settings.hpp).
//
// Invariants
//   NVM-1  What a device does not report is absent, never zero.
//   NVM-2  A lost device is an error of that device alone; the others are read on.
//   NVM-3  Nothing here changes a device or needs a right to.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/meters/nvml_library.hpp"
#include "io/base/error_kind.hpp"

namespace troupe::gpu::nvml {

/// A device that has gone (NVM-2): which, in which call.
inline constexpr troupe::error_kind<std::string_view> gpu_lost{
    "gpu_lost", errc::unavailable, "{}",
    "the GPU fell off the bus: replace the node, or restart it"};

/// The library, initialised for as long as somebody uses it.
class session {
 public:
  static result<std::shared_ptr<const session>> open(const library& functions);
  ~session() { (void)functions_.shutdown(); }
  session(const session&) = delete;

  const library& functions() const noexcept { return functions_; }
  /// Null: there is no such device, or it fell off the bus before the session.
  device_handle handle(unsigned index) const;
  unsigned count() const noexcept { return static_cast<unsigned>(handles_.size()); }

  /// The failure of a call; `subject` e.g. "GPU 3". success: none.
  status explain(const std::string& subject, const char* call, int answer) const;

 private:
  explicit session(const library& functions) : functions_(functions) {}
  const library& functions_;
  std::vector<device_handle> handles_;  ///< null: lost
};

/// Which device it is.
struct gpu_identity {
  unsigned index = 0;  ///< NVML's: by bus address, not CUDA's order
  std::string name;    ///< e.g. "NVIDIA H200"; empty if it does not answer
  std::string uuid;    ///< e.g. "GPU-1f3c...", the same in CUDA
};

/// One look at a device (NVM-1).
struct gpu_reading {
  std::optional<uint64_t> power_mw;  ///< at this moment, where the device says that
  std::optional<uint64_t> power_limit_mw;
  std::optional<uint64_t> energy_mj;  ///< since the driver was loaded
  std::optional<uint64_t> sm_mhz;
  std::optional<uint64_t> memory_mhz;
  std::optional<int64_t> temperature_c;
  std::optional<uint64_t> busy_percent;         ///< of time, some kernel was running
  std::optional<uint64_t> memory_busy_percent;  ///< of time, memory was read or written
  std::optional<uint64_t> memory_used_bytes;
  std::optional<uint64_t> memory_total_bytes;
  std::optional<uint64_t> ecc_corrected;    ///< since the driver was loaded
  std::optional<uint64_t> ecc_uncorrected;  ///< the same
  /// Why the clocks are not at their highest, in words; empty: they are.
  std::optional<std::vector<std::string>> slowed_by;
  bool power_brake = false;  ///< one of these: somebody's brake holds the board from outside
};

/// The words of a mask of clock event reasons; a bit without a word is shown as a number.
std::vector<std::string> clock_reasons(uint64_t mask);

/// The driver reports a device's trouble by numbers: docs.nvidia.com/deploy/xid-errors.
struct xid_event {
  unsigned index = 0;  ///< of the device
  uint64_t xid = 0;    ///< 999: not known
};

class gpu_meter {
 public:
  /// Fails with unavailable without a driver or a device.
  static result<std::unique_ptr<gpu_meter>> open();
  /// The same with the functions given; they outlive the meter.
  static result<std::unique_ptr<gpu_meter>> open(const library& functions);
  ~gpu_meter();
  gpu_meter(const gpu_meter&) = delete;

  const std::string& driver_version() const noexcept { return driver_version_; }
  const std::vector<gpu_identity>& devices() const noexcept { return devices_; }

  /// Fails with unavailable when the device is lost or needs a reset (NVM-2).
  result<gpu_reading> read(unsigned index) const;

  /// Waits for the next Xid of any device, at most so long; nothing: there was none. From one
  /// thread. Fails with unavailable where the devices do not report events.
  result<std::optional<xid_event>> wait_xid(std::chrono::milliseconds at_most);

 private:
  explicit gpu_meter(std::shared_ptr<const session> s) : session_(std::move(s)) {}
  status listen();

  std::shared_ptr<const session> session_;
  std::string driver_version_;
  std::vector<gpu_identity> devices_;
  event_set events_ = nullptr;
};

}  // namespace troupe::gpu::nvml
