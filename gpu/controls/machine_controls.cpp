// A governor for each device; see machine_controls.hpp.
#include "gpu/controls/machine_controls.hpp"

#include <utility>

#include "gpu/controls/seat.hpp"
#include "gpu/controls/setting_port.hpp"
#include "gpu/meters/nvml.hpp"

namespace troupe::gpu::controls {

result<std::vector<setting_target>> targets_of_machine(const control_place& at, setting_kind kind) {
  if (!is_of_gpu(kind)) return std::vector<setting_target>{{kind, ""}};
  const auto functions = at.gpu_library();
  if (!functions) return no_such_setting(to_string(kind), functions.error().message);
  const auto meter = nvml::gpu_meter::open(**functions);
  if (!meter) return no_such_setting(to_string(kind), meter.error().message);
  std::vector<setting_target> out;
  for (const auto& gpu : (*meter)->devices()) out.push_back({kind, gpu.uuid, true});
  return out;
}

result<std::unique_ptr<machine_controls>> machine_controls::make(
    control_place at, std::vector<setting_target> targets, const control_owner& owner) {
  at.seat_patience = {};  // MCT-3
  std::unique_ptr<machine_controls> out(new machine_controls(std::move(at), owner));
  std::lock_guard lock(out->mutex_);
  for (auto& target : targets) {
    auto& d = out->devices_.emplace_back(held_device{std::move(target), nullptr});
    auto taken = out->take(d);
    if (!taken && !taken.error().is(setting_governed)) return taken.error();
  }
  return out;
}

/// MCT-1
status machine_controls::take(held_device& d) const {
  auto made = setting_governor::make(at_, d.target, owner_);
  if (!made) return made.error();
  d.governor = std::move(*made);
  return {};
}

status machine_controls::set_one(held_device& d, int pace_of_1024) const {
  if (!d.governor) TROUPE_CHECK(take(d));
  auto done = d.governor->set(pace_of_1024);
  if (!done && done.error().is(setting_governed)) d.governor.reset();
  if (!done || d.governor->governs()) return done;
  TROUPE_TRY(governed, is_governed(at_, d.target));
  if (governed) return setting_governed(to_string(d.target.kind), "its lock is taken");  // MCT-2
  return setting_held_lower(to_string(d.target.kind), "what cools this machine");
}

status machine_controls::set(int pace_of_1024, bool* is_any_set) {
  std::lock_guard lock(mutex_);
  if (is_any_set) *is_any_set = false;
  status first;
  if (over_) return first;
  for (auto& d : devices_) {
    auto done = set_one(d, pace_of_1024);
    if (is_any_set && done) *is_any_set = true;
    if (!done && first) first = std::move(done);
  }
  return first;
}

void machine_controls::end() noexcept {
  std::lock_guard lock(mutex_);
  over_ = true;
  for (auto& d : devices_)
    if (d.governor) d.governor->end();
}

}  // namespace troupe::gpu::controls
