// Which of them; see open_actuator.hpp.
#include "gpu/controls/open_actuator.hpp"

#include <utility>

#include "gpu/controls/setting_governor.hpp"
#include "gpu/controls/setting_policy.hpp"
#include "gpu/controls/setting_port.hpp"
#include "gpu/controls/thread_quota.hpp"

namespace troupe::gpu::controls {

result<std::unique_ptr<actuator>> open_actuator(const std::string& name, const control_place& at,
                                                const control_owner& owner,
                                                std::span<const int> threads,
                                                const std::string& gpu) {
  const auto kind = setting_kind_named(name);
  const bool of_gpu = kind && is_of_gpu(*kind);
  if (of_gpu && gpu.empty()) return no_such_setting(name, "this rank computes on no GPU");
  if (!of_gpu && threads.empty()) return no_computing_threads(name);
  if (name == "cgroup") {
    TROUPE_TRY(made, thread_quota::make(at, owner, threads));
    return std::unique_ptr<actuator>(std::move(made));
  }
  if (!kind) return error{errc::bug, "no such actuator: " + name};
  TROUPE_TRY(made, setting_governor::make(at, {*kind, of_gpu ? gpu : ""}, owner));
  return std::unique_ptr<actuator>(std::move(made));
}

}  // namespace troupe::gpu::controls
