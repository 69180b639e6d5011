// Changing devices through NVML, and changing them back.
#include "gpu/meters/nvml_controls.hpp"

#include <limits>

#include <fmt/format.h>

namespace troupe::gpu::nvml {

namespace {

/// NVML counts in unsigned.
result<unsigned> small(uint64_t value, const char* what) {
  if (value <= std::numeric_limits<unsigned>::max()) return static_cast<unsigned>(value);
  return error{errc::bad_config, fmt::format("{} of {} is out of any device's range", what, value)};
}

}  // namespace

result<std::unique_ptr<gpu_controls>> gpu_controls::open(const gpu_meter& meter,
                                                         gpu_access access) {
  if (access != gpu_access::control)
    return error{errc::permission, "the configuration lets nobody change GPUs",
                 "they are read only unless the configuration says otherwise"};
  return std::unique_ptr<gpu_controls>(new gpu_controls(meter.shared_session()));
}

gpu_controls::~gpu_controls() {
  for (unsigned i = 0; i < changed_.size(); ++i) (void)reset(i);  // NVC-2
}

template <class Function, class... Values>
status gpu_controls::call(unsigned index, const char* name, Function* function,
                          Values... values) const {
  const auto subject = fmt::format("GPU {}", index);
  const auto device = session_->handle(index);
  if (index >= session_->count())
    return error{errc::not_found, fmt::format("GPU not found: {}", index)};
  if (!device) return session_->explain(subject, name, gpu_is_lost);
  return session_->explain(subject, name, function ? function(device, values...) : not_supported);
}

result<gpu_controls::limits> gpu_controls::power_limits(unsigned index) const {
  const auto& n = session_->functions();
  unsigned lowest = 0, highest = 0;
  TROUPE_CHECK(call(index, "nvmlDeviceGetPowerManagementLimitConstraints", n.power_limits, &lowest,
                    &highest));
  return limits{lowest, highest};
}

status gpu_controls::set_power_limit(unsigned index, uint64_t mw) {
  TROUPE_TRY(allowed, power_limits(index));
  if (mw < allowed.lowest_mw || mw > allowed.highest_mw)
    return error{errc::bad_config, fmt::format("GPU {} takes no power limit of {} mW", index, mw),
                 fmt::format("from {} to {} mW", allowed.lowest_mw, allowed.highest_mw)};
  const auto& n = session_->functions();
  auto& before = changed_[index].power_limit_before;
  unsigned current = 0;
  TROUPE_CHECK(call(index, "nvmlDeviceGetPowerManagementLimit", n.chosen_power_limit, &current));
  TROUPE_CHECK(call(index, "nvmlDeviceSetPowerManagementLimit", n.set_power_limit,
                    static_cast<unsigned>(mw)));
  if (!before) before = current;
  return {};
}

status gpu_controls::lock_clocks(unsigned index, uint64_t lowest_mhz, uint64_t highest_mhz) {
  if (lowest_mhz > highest_mhz)
    return error{errc::bad_config,
                 fmt::format("clocks from {} to {} MHz: the lowest is above the highest",
                             lowest_mhz, highest_mhz)};
  TROUPE_TRY(lowest, small(lowest_mhz, "a clock"));
  TROUPE_TRY(highest, small(highest_mhz, "a clock"));
  TROUPE_CHECK(call(index, "nvmlDeviceSetGpuLockedClocks", session_->functions().lock_clocks,
                    lowest, highest));
  changed_[index].clocks = true;
  return {};
}

status gpu_controls::reset(unsigned index) {
  if (index >= changed_.size())
    return error{errc::not_found, fmt::format("GPU not found: {}", index)};
  const auto& n = session_->functions();
  auto& changed = changed_[index];
  if (changed.clocks) {
    TROUPE_CHECK(call(index, "nvmlDeviceResetGpuLockedClocks", n.unlock_clocks));
    changed.clocks = false;
  }
  if (changed.power_limit_before) {
    TROUPE_CHECK(call(index, "nvmlDeviceSetPowerManagementLimit", n.set_power_limit,
                      *changed.power_limit_before));
    changed.power_limit_before.reset();
  }
  return {};
}

}  // namespace troupe::gpu::nvml
