// The meters of a machine behind one interface: what each of its devices draws and how warm it is.
//
// Which there are: NVIDIA's GPUs (nvml.hpp); processor packages, whose energy the kernel counts
// (RAPL, /sys/class/powercap); the sensors of the board (/sys/class/hwmon). A simulation puts its
// own behind the same interface.
//
// Invariants
//   RDR-1  What a device does not report is absent, never zero; a device that has been there once
//     stays in the list.
//   RDR-2  A reading never fails as a whole, changes nothing, and needs no right: what may not be
//     read is not there. It may block: the driver does when a device is in trouble.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/meters/nvml_library.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

/// So that powers can be added: an accelerator's and a package's are nobody else's, a sensor's may
/// contain both.
enum class metered_kind : uint8_t { accelerator, package, sensor };

/// One look at one device (RDR-1).
struct metered {
  std::string device;  ///< "gpu0", "package-1", "coretemp"; unique among the readings of a reader
  metered_kind kind = metered_kind::sensor;
  std::optional<double> power_w;        ///< watts; of an energy counter: the mean since last time
  std::optional<double> limit_w;        ///< what the power is limited to
  std::optional<double> temperature_c;  ///< degrees Celsius; of several sensors the warmest
  std::optional<double> busy_percent;   ///< of the last sample period
};

/// Reads some devices. One thread at a time.
class meter_reader {
 public:
  virtual ~meter_reader() = default;
  /// All its devices in a fixed order; `now_ns` of a clock that runs steadily.
  virtual std::vector<metered> read(int64_t now_ns) = 0;
};

/// The GPUs that NVML knows, as "gpu<index>". Errors: unavailable without a driver or a device.
result<std::unique_ptr<meter_reader>> open_gpu_reader();
result<std::unique_ptr<meter_reader>> open_gpu_reader(const nvml::library& functions);

/// The packages and memories whose energy this user may read: since Linux 5.10 root alone.
/// Errors: unavailable where there is none.
result<std::unique_ptr<meter_reader>> open_package_reader(
    const std::filesystem::path& powercap = "/sys/class/powercap");

/// The chips with a sensor of temperature or power. Errors: unavailable where there is none.
result<std::unique_ptr<meter_reader>> open_sensor_reader(
    const std::filesystem::path& hwmon = "/sys/class/hwmon");

/// All that this machine has; may be none.
std::vector<std::unique_ptr<meter_reader>> open_machine_readers();

}  // namespace troupe::gpu
