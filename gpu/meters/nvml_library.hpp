// The part of NVIDIA's management library (NVML) that is used, declared from its public reference.
//
// Why declared here: its header comes with the driver's development files, which a machine without
// a GPU lacks, and the library itself comes with the driver. So it is loaded when somebody asks,
// and tests put a fake in its place.
//
// Source of names, values and layouts: NVML API Reference Guide, docs.nvidia.com/deploy/nvml-api.
#pragma once

#include <cstddef>

#include "io/base/result.hpp"

namespace troupe::gpu::nvml {

using device_handle = struct nvml_device_tag*;
using event_set = struct nvml_event_set_tag*;

/// nvmlReturn_t; the values that are told apart.
enum code : int {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  no_permission = 4,
  insufficient_size = 7,
  driver_not_loaded = 9,
  timed_out = 10,
  gpu_is_lost = 15,
  reset_required = 16,
  no_data = 21,
  unknown = 999,
};

enum clock_kind : int { clock_sm = 1, clock_memory = 2 };              ///< nvmlClockType_t
enum sensor_kind : int { sensor_gpu = 0 };                             ///< nvmlTemperatureSensors_t
enum error_kind : int { error_corrected = 0, error_uncorrected = 1 };  ///< nvmlMemoryErrorType_t
enum counter_kind : int { counter_volatile = 0 };                      ///< nvmlEccCounterType_t

inline constexpr unsigned long long event_xid = 0x8;  ///< nvmlEventTypeXidCriticalError
inline constexpr unsigned name_bytes = 96;            ///< NVML_DEVICE_NAME_V2_BUFFER_SIZE
inline constexpr unsigned uuid_bytes = 96;            ///< NVML_DEVICE_UUID_V2_BUFFER_SIZE
inline constexpr unsigned version_bytes = 80;         ///< NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE

/// nvmlUtilization_t: percent of the last sample period.
struct utilization {
  unsigned gpu = 0, memory = 0;
};
static_assert(sizeof(utilization) == 8);

/// nvmlMemory_v2_t, bytes. `version` is the structure's size and number, by which NVML knows it.
struct memory_v2 {
  unsigned version = 0;
  unsigned long long total = 0, reserved = 0, free = 0, used = 0;
};
static_assert(sizeof(memory_v2) == 40 && offsetof(memory_v2, total) == 8);
inline constexpr unsigned memory_version_2 = static_cast<unsigned>(sizeof(memory_v2)) | 2u << 24;

/// nvmlEventData_t. Of an Xid event `data` is the Xid, 999 if it is not known.
struct event_data {
  device_handle device = nullptr;
  unsigned long long type = 0, data = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};
static_assert(sizeof(event_data) == 32 && offsetof(event_data, data) == 16);

/// nvmlProcessInfo_t of version 3 of the functions.
struct process_info {
  unsigned pid = 0;
  unsigned long long used_bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};
static_assert(sizeof(process_info) == 24 && offsetof(process_info, gpu_instance) == 16);

/// nvmlFieldValue_t: a number by its id, with an answer of its own.
struct field_value {
  unsigned field = 0, scope = 0;  ///< scope 0: of the whole GPU
  long long at_us = 0, latency_us = 0;
  int type = 0, answer = success;
  union {
    double real;
    unsigned whole;
    unsigned long long large;
  } value = {};
};
static_assert(sizeof(field_value) == 40 && offsetof(field_value, type) == 24 &&
              offsetof(field_value, value) == 32);
inline constexpr unsigned field_power_instant = 186;  ///< NVML_FI_DEV_POWER_INSTANT, mW
inline constexpr int type_whole = 1;                  ///< NVML_VALUE_TYPE_UNSIGNED_INT

/// nvmlClocksEventReasonHwPowerBrakeSlowdown: a signal from outside the board holds it back.
inline constexpr unsigned long long reason_power_brake = 0x80;

/// The functions. From `power` on they may be null: an older driver does not have them.
struct library {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle_by_index)(unsigned, device_handle*) = nullptr;
  int (*name)(device_handle, char*, unsigned) = nullptr;
  int (*uuid)(device_handle, char*, unsigned) = nullptr;
  int (*power)(device_handle, unsigned*) = nullptr;  ///< mW; since Ampere a second's mean
  int (*field_values)(device_handle, int, field_value*) = nullptr;  ///< how many
  int (*power_limit)(device_handle, unsigned*) = nullptr;       ///< mW, the one enforced
  int (*energy)(device_handle, unsigned long long*) = nullptr;  ///< mJ since the driver's start
  int (*clock)(device_handle, int, unsigned*) = nullptr;        ///< MHz
  int (*temperature)(device_handle, int, unsigned*) = nullptr;  ///< degrees Celsius
  int (*utilization_rates)(device_handle, utilization*) = nullptr;
  int (*memory)(device_handle, memory_v2*) = nullptr;
  int (*clock_reasons)(device_handle, unsigned long long*) = nullptr;  ///< a mask
  int (*ecc_errors)(device_handle, int, int, unsigned long long*) = nullptr;
  int (*make_event_set)(event_set*) = nullptr;
  int (*free_event_set)(event_set) = nullptr;
  int (*register_events)(device_handle, unsigned long long, event_set) = nullptr;
  int (*wait_event)(event_set, event_data*, unsigned) = nullptr;  ///< at most so many ms

  // Of gpu/controls/nvml_settings.hpp alone.
  int (*mig_mode)(device_handle, unsigned*, unsigned*) = nullptr;  ///< now, after a reset
  int (*compute_processes)(device_handle, unsigned*, process_info*) = nullptr;  ///< room, used
  int (*memory_clocks)(device_handle, unsigned*, unsigned*) = nullptr;          ///< room, used; MHz
  int (*graphics_clocks)(device_handle, unsigned, unsigned*, unsigned*) = nullptr;  ///< at one
  int (*power_limits)(device_handle, unsigned*, unsigned*) = nullptr;  ///< lowest, highest mW
  int (*chosen_power_limit)(device_handle, unsigned*) = nullptr;       ///< mW
  int (*set_power_limit)(device_handle, unsigned) = nullptr;           ///< mW
  int (*lock_clocks)(device_handle, unsigned, unsigned) = nullptr;     ///< lowest, highest SM MHz
  int (*unlock_clocks)(device_handle) = nullptr;
};

/// The driver's NVML, loaded once. Fails with unavailable, saying what to install.
result<const library*> load();

}  // namespace troupe::gpu::nvml
