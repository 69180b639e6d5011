// NVML's functions from the driver's library.
#include "gpu/meters/nvml_library.hpp"

#include "gpu/cuda/shared_library.hpp"

namespace troupe::gpu::nvml {

namespace {

using cuda::shared_library;

/// Null where this driver's library has no such function.
template <class Function>
void find_optional(const shared_library& from, Function& function, const char* name) {
  if (!from.find(function, name)) function = nullptr;
}

void find_readers(const shared_library& from, library& n) {
  find_optional(from, n.power, "nvmlDeviceGetPowerUsage");
  find_optional(from, n.field_values, "nvmlDeviceGetFieldValues");
  find_optional(from, n.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  find_optional(from, n.energy, "nvmlDeviceGetTotalEnergyConsumption");
  find_optional(from, n.clock, "nvmlDeviceGetClockInfo");
  find_optional(from, n.temperature, "nvmlDeviceGetTemperature");
  find_optional(from, n.utilization_rates, "nvmlDeviceGetUtilizationRates");
  find_optional(from, n.memory, "nvmlDeviceGetMemoryInfo_v2");
  find_optional(from, n.clock_reasons, "nvmlDeviceGetCurrentClocksEventReasons");
  if (!n.clock_reasons)  // its name until driver 535
    find_optional(from, n.clock_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  find_optional(from, n.ecc_errors, "nvmlDeviceGetTotalEccErrors");
  find_optional(from, n.make_event_set, "nvmlEventSetCreate");
  find_optional(from, n.free_event_set, "nvmlEventSetFree");
  find_optional(from, n.register_events, "nvmlDeviceRegisterEvents");
  find_optional(from, n.wait_event, "nvmlEventSetWait_v2");
}

void find_writers(const shared_library& from, library& n) {
  find_optional(from, n.mig_mode, "nvmlDeviceGetMigMode");
  find_optional(from, n.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  find_optional(from, n.memory_clocks, "nvmlDeviceGetSupportedMemoryClocks");
  find_optional(from, n.graphics_clocks, "nvmlDeviceGetSupportedGraphicsClocks");
  find_optional(from, n.power_limits, "nvmlDeviceGetPowerManagementLimitConstraints");
  find_optional(from, n.chosen_power_limit, "nvmlDeviceGetPowerManagementLimit");
  find_optional(from, n.set_power_limit, "nvmlDeviceSetPowerManagementLimit");
  find_optional(from, n.lock_clocks, "nvmlDeviceSetGpuLockedClocks");
  find_optional(from, n.unlock_clocks, "nvmlDeviceResetGpuLockedClocks");
}

result<library> find_all() {
  TROUPE_TRY(from, shared_library::open({"libnvidia-ml.so.1"},
                                        "it comes with NVIDIA's driver: this machine has none, or "
                                        "a container was started without it (--gpus all)"));
  library n;
  TROUPE_CHECK(from.find(n.init, "nvmlInit_v2"));
  TROUPE_CHECK(from.find(n.shutdown, "nvmlShutdown"));
  TROUPE_CHECK(from.find(n.error_string, "nvmlErrorString"));
  TROUPE_CHECK(from.find(n.driver_version, "nvmlSystemGetDriverVersion"));
  TROUPE_CHECK(from.find(n.count, "nvmlDeviceGetCount_v2"));
  TROUPE_CHECK(from.find(n.handle_by_index, "nvmlDeviceGetHandleByIndex_v2"));
  TROUPE_CHECK(from.find(n.name, "nvmlDeviceGetName"));
  TROUPE_CHECK(from.find(n.uuid, "nvmlDeviceGetUUID"));
  find_readers(from, n);
  find_writers(from, n);
  return n;
}

}  // namespace

result<const library*> load() {
  static const auto loaded = find_all();
  if (!loaded) return loaded.error();
  return &*loaded;
}

}  // namespace troupe::gpu::nvml
