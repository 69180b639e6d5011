// Calls of the driver's library; see nvml_settings.hpp.
#include "gpu/controls/nvml_settings.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>

#include <fmt/format.h>

namespace troupe::gpu::controls {

namespace {

/// Of a GPU, in `uuid_bytes` at most; empty: it does not answer.
std::string uuid_text(const nvml::library& n, nvml::device_handle device) {
  std::string text(nvml::uuid_bytes, '\0');
  if (n.uuid(device, text.data(), nvml::uuid_bytes) != nvml::success) return {};
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

/// Processes beside one, or as many as the list has room for.
unsigned others_on(const nvml::library& n, nvml::device_handle device) {
  std::array<nvml::process_info, 64> room{};
  constexpr auto most = static_cast<unsigned>(room.size());
  auto count = most;
  if (!n.compute_processes) return 0;
  const int answer = n.compute_processes(device, &count, room.data());
  if (answer == nvml::insufficient_size) return most;
  return answer == nvml::success && count > 1 ? count - 1 : 0;
}

}  // namespace

result<std::unique_ptr<nvml_settings>> nvml_settings::open(const control_place& at,
                                                           const setting_target& target) {
  const auto kind = to_string(target.kind);
  const auto functions = at.gpu_library();
  if (!functions) return no_such_setting(kind, functions.error().message);
  auto session = nvml::session::open(**functions);
  if (!session) return no_such_setting(kind, session.error().message);
  for (unsigned i = 0; i < (*session)->count(); ++i)
    if (const auto device = (*session)->handle(i))
      if (uuid_text(**functions, device) == target.gpu)
        return std::unique_ptr<nvml_settings>(
            new nvml_settings(at, target, std::move(*session), device));
  return no_such_setting(kind, "the driver knows no GPU " + target.gpu);
}

template <class Function, class... Values>
status nvml_settings::call(const char* name, Function* function, Values... values) const {
  return session_->explain(target_.gpu, name,
                           function ? function(device_, values...) : int{nvml::not_supported});
}

/// NVS-1
status nvml_settings::check_unshared() const {
  const auto& n = session_->functions();
  unsigned now = 0, later = 0;
  const bool in_parts =
      n.mig_mode && n.mig_mode(device_, &now, &later) == nvml::success && now != 0;
  if (in_parts) return shared_device(to_string(target_.kind), target_.gpu + " is in parts (MIG)");
  if (target_.is_machines) return {};
  // Of a process that was killed the driver may know for a moment more.
  const auto until = std::chrono::steady_clock::now() + at_.patience;
  while (others_on(n, device_) > 0) {
    if (std::chrono::steady_clock::now() >= until)
      return shared_device(to_string(target_.kind), "several processes compute on " + target_.gpu);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return {};
}

unsigned nvml_settings::others() const {
  return others_on(session_->functions(), device_);
}

result<machine_setting> nvml_settings::clocks() {
  const auto& n = session_->functions();
  std::array<unsigned, 64> memory{};
  auto memory_count = static_cast<unsigned>(memory.size());
  TROUPE_CHECK(
      call("nvmlDeviceGetSupportedMemoryClocks", n.memory_clocks, &memory_count, memory.data()));
  const auto fastest = *std::max_element(memory.begin(), memory.end());
  std::array<unsigned, 512> listed{};
  auto count = static_cast<unsigned>(listed.size());
  TROUPE_CHECK(call("nvmlDeviceGetSupportedGraphicsClocks", n.graphics_clocks, fastest, &count,
                    listed.data()));
  std::vector<uint64_t> all(listed.begin(),
                            listed.begin() + std::min<size_t>(count, listed.size()));
  if (all.empty()) return no_such_setting(to_string(target_.kind), target_.gpu + " lists no clock");
  auto range = lock_range(std::move(all));
  least_mhz_ = static_cast<unsigned>(range.least);
  return machine_setting{{target_.gpu, 0}, std::move(range)};
}

result<machine_setting> nvml_settings::limit(const std::vector<found_setting>& before) const {
  const auto& n = session_->functions();
  unsigned lowest = 0, highest = 0, chosen = 0;
  TROUPE_CHECK(
      call("nvmlDeviceGetPowerManagementLimitConstraints", n.power_limits, &lowest, &highest));
  TROUPE_CHECK(call("nvmlDeviceGetPowerManagementLimit", n.chosen_power_limit, &chosen));
  const auto found = before.empty() ? uint64_t{chosen} : before.front().found;
  return machine_setting{{target_.gpu, found}, gpu_limit_range(lowest, found)};
}

result<std::vector<machine_setting>> nvml_settings::find(const std::vector<found_setting>& before) {
  TROUPE_CHECK(check_unshared());
  auto one = target_.kind == setting_kind::nvml_clocks ? clocks() : limit(before);
  if (!one) return no_such_setting(to_string(target_.kind), one.error().message);
  return std::vector{std::move(*one)};
}

/// NVS-2. The library tells nobody when a clock has followed, so it is asked again.
result<uint64_t> nvml_settings::locked_clock(uint64_t highest_mhz) const {
  const auto& n = session_->functions();
  const auto until = std::chrono::steady_clock::now() + at_.patience;
  for (;;) {
    unsigned now = 0;
    TROUPE_CHECK(call("nvmlDeviceGetClockInfo", n.clock, int{nvml::clock_sm}, &now));
    if (now <= highest_mhz || std::chrono::steady_clock::now() >= until) return now;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

status nvml_settings::write(const std::string&, uint64_t value) {
  const auto& n = session_->functions();
  const auto wanted = static_cast<unsigned>(value);
  if (target_.kind == setting_kind::nvml_limit)
    return call("nvmlDeviceSetPowerManagementLimit", n.set_power_limit, wanted);
  if (value == 0) return call("nvmlDeviceResetGpuLockedClocks", n.unlock_clocks);
  return call("nvmlDeviceSetGpuLockedClocks", n.lock_clocks, least_mhz_, wanted);
}

result<uint64_t> nvml_settings::read_back(const std::string&, uint64_t written) {
  const auto& n = session_->functions();
  if (target_.kind == setting_kind::nvml_clocks)
    return written > 0 ? locked_clock(written) : result<uint64_t>(written);
  unsigned now = 0;
  TROUPE_CHECK(call("nvmlDeviceGetPowerManagementLimit", n.chosen_power_limit, &now));
  return now;
}

}  // namespace troupe::gpu::controls
