// The meters of a machine behind one interface: what each of its devices draws and how warm it is.
//
// Which there are: NVIDIA's GPUs (nvml.hpp); processor packages, whose energy the kernel counts
// (RAPL, /sys/class/powercap); the sensors of the board (/sys/class/hwmon). Where no package can be
// read, as in most virtual machines, a model of the machine stands in if one is given: it says that
// it is one. A simulation puts its own behind the same interface.
//
// Invariants
//   RDR-1  What a device does not report is absent, never zero; a device that has been there once
//     stays in the list.
//   RDR-2  A reading never fails as a whole, changes nothing, and needs no right: what may not be
//     read is not there. It may block: the driver does when a device is in trouble.
//   RDR-3  What is calculated is marked as such, and never stands beside a measurement of the same.
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
  bool modelled = false;                ///< its power is calculated, not measured (RDR-3)
  /// Of an energy counter: joules since the reader's first look, up to the last look that had it.
  std::optional<double> energy_j = {};
  bool power_brake = false;  ///< it says that somebody's brake holds it from outside
};

/// What a machine draws besides its accelerators, of processors whose energy nobody counts.
struct power_model {
  double idle_w = 0;  ///< while no processor works
  double core_w = 0;  ///< more for each processor that works all the time
  /// Without it power is unknown.
  bool given() const { return idle_w > 0 || core_w > 0; }
};

/// Processor time since some moment, in seconds; -1: not known.
struct processor_seconds {
  double process_s = -1;  ///< of this process
  double machine_s = -1;  ///< of all
};
/// Of the machine, by the kernel's count; -1 where that cannot be read.
double machine_processor_s(const std::filesystem::path& proc = "/proc");

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

/// The machine by its model and the time its processors were busy, as "machine"; a package's kind.
/// Errors: unavailable where the kernel's counts cannot be read.
result<std::unique_ptr<meter_reader>> open_model_reader(
    const power_model& model, const std::filesystem::path& proc = "/proc");

/// All that this machine has; may be none. The model, where given, if no package and no sensor
/// says a power.
std::vector<std::unique_ptr<meter_reader>> open_machine_readers(const power_model& model = {});
/// The same of other folders (tests); `gpus` may be null.
std::vector<std::unique_ptr<meter_reader>> open_machine_readers(
    const power_model& model, std::unique_ptr<meter_reader> gpus,
    const std::filesystem::path& powercap, const std::filesystem::path& hwmon,
    const std::filesystem::path& proc);

}  // namespace troupe::gpu
