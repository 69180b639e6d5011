// A governor for each device; see machine_controls.hpp.
#include "gpu/controls/machine_controls.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "gpu/controls/open_actuator.hpp"
#include "gpu/controls/seat.hpp"
#include "gpu/controls/setting_port.hpp"
#include "gpu/meters/nvml.hpp"

namespace troupe::gpu::controls {

namespace {

result<std::vector<std::string>> gpus_of_machine(const control_place& at, setting_kind word) {
  const auto functions = at.gpu_library();
  if (!functions) return no_such_setting(to_string(word), functions.error().message);
  const auto meter = nvml::gpu_meter::open(**functions);
  if (!meter) return no_such_setting(to_string(word), meter.error().message);
  std::vector<std::string> out;
  for (const auto& gpu : (*meter)->devices()) out.push_back(gpu.uuid);
  if (out.empty()) return no_such_setting(to_string(word), "the driver knows no GPU");
  return out;
}

/// MCT-8. Where there is no thread to be had it is done on this one.
template <class Work>
void on_each(size_t count, const Work& work) {
  std::vector<std::jthread> beside;
  for (size_t i = 1; i < count; ++i) {
    try {
      beside.emplace_back([&work, i] { work(i); });
    } catch (const std::system_error&) {
      work(i);
    }
  }
  if (count > 0) work(0);
}

}  // namespace

result<std::vector<device_ways>> devices_of_machine(const control_place& at,
                                                    std::span<const setting_kind> words) {
  device_ways processors, of_a_gpu;
  for (const auto word : words) (is_of_gpu(word) ? of_a_gpu : processors).push_back({word, ""});
  std::vector<device_ways> out;
  if (!processors.empty()) out.push_back(std::move(processors));
  if (of_a_gpu.empty()) return out;
  TROUPE_TRY(gpus, gpus_of_machine(at, of_a_gpu.front().kind));
  for (const auto& uuid : gpus) {
    auto& ways = out.emplace_back(of_a_gpu);
    for (auto& way : ways) way = {way.kind, uuid, true};
  }
  return out;
}

result<std::unique_ptr<machine_controls>> machine_controls::make(control_place at,
                                                                 std::vector<device_ways> devices,
                                                                 const control_owner& owner) {
  at.seat_patience = {};  // MCT-3
  std::unique_ptr<machine_controls> out(new machine_controls(std::move(at), owner));
  std::lock_guard lock(out->mutex_);
  for (auto& ways : devices) {
    auto& d = out->devices_.emplace_back(held_device{std::move(ways)});
    auto taken = out->take(d);
    if (taken || taken.error().is(setting_governed)) continue;
    for (auto& of : out->devices_)
      if (of.governor) of.governor->leave();
    return taken.error();  // MCT-4
  }
  return out;
}

/// MCT-5. Where somebody has the device by any of its ways, in their order: MCT-1.
device_ways machine_controls::ways_to_take(const held_device& d) const {
  auto out = d.ways;
  for (const auto& way : out)
    if (const auto governed = is_governed(at_, way); !governed || *governed) return out;
  std::ranges::stable_partition(out,
                                [&](const auto& way) { return is_left_to_next(at_, way, owner_); });
  return out;
}

/// MCT-1. A device that somebody else has by one way is none that another way is tried on.
status machine_controls::take(held_device& d) const {
  std::optional<error> refused;
  for (const auto& way : ways_to_take(d)) {
    auto made = setting_governor::make(at_, way, owner_);
    if (made) {
      d.governor = std::move(*made);
      d.by = way;
      d.held_at = d.governor->adopted_at().value_or(whole_pace);
      return {};
    }
    if (made.error().is(setting_governed) || !is_not_offered(made.error())) return made.error();
    add_refusal(refused, made.error());
  }
  if (!refused) return error{errc::bug, "a device is to be held by nothing"};
  return *std::move(refused);
}

/// What fails may be in force in part: then the less counts (MCT-5).
status machine_controls::set_governed(held_device& d, int pace_of_1024) const {
  auto done = d.governor->set(pace_of_1024);
  if (!done && done.error().is(setting_governed)) {
    d.governor.reset();
    d.held_at = whole_pace;
  } else if (d.governor->governs()) {
    d.held_at = done ? pace_of_1024 : std::min(d.held_at, pace_of_1024);
  }
  return done;
}

status machine_controls::set_one(held_device& d, int pace_of_1024) const {
  if (!d.governor) TROUPE_CHECK(take(d));
  auto done = set_governed(d, pace_of_1024);
  if (!done || d.governor->governs()) return done;
  TROUPE_TRY(governed, is_governed(at_, d.by));
  if (governed) return setting_governed(to_string(d.by.kind), "its lock is taken");  // MCT-2
  return setting_held_lower(to_string(d.by.kind), "what cools this machine");
}

status machine_controls::set(int pace_of_1024, bool* is_any_set) {
  std::lock_guard lock(mutex_);
  if (is_any_set) *is_any_set = false;
  if (over_) return {};
  std::vector<status> all(devices_.size());
  on_each(devices_.size(), [&](size_t i) {
    auto& d = devices_[i];
    d.granted = pace_of_1024;
    all[i] = set_one(d, std::min(pace_of_1024, d.wished));  // MCT-6
  });
  status first;
  for (auto& done : all) {
    if (is_any_set && done) *is_any_set = true;
    if (!done && first) first = std::move(done);
  }
  return first;
}

const machine_controls::held_device* machine_controls::find(const setting_target& target) const {
  const auto found = std::ranges::find_if(devices_, [&](const held_device& d) {
    const auto& first = d.ways.front();
    return is_of_gpu(first.kind) == is_of_gpu(target.kind) && first.gpu == target.gpu;
  });
  return found == devices_.end() ? nullptr : &*found;
}

result<setting_governor*> machine_controls::governor_of(const setting_target& target) const {
  const auto* d = over_ ? nullptr : find(target);
  const auto word = to_string(target.kind);
  if (!d) return setting_not_held(word, "nothing of that device");
  if (!d->governor || !d->governor->governs())
    return setting_governed(word, "the agent has not got the device, either");
  if (d->by.kind != target.kind) return setting_not_held(word, to_string(d->by.kind));
  return d->governor.get();
}

result<actuator_facts> machine_controls::facts_of(const setting_target& target) const {
  std::lock_guard lock(mutex_);
  TROUPE_TRY(governor, governor_of(target));
  return governor->facts();
}

result<std::vector<int>> machine_controls::clocks_of(const setting_target& target) const {
  std::lock_guard lock(mutex_);
  TROUPE_TRY(governor, governor_of(target));
  return governor->clocks_mhz();
}

status machine_controls::set_clock(const setting_target& target, int mhz) {
  std::lock_guard lock(mutex_);
  TROUPE_TRY(governor, governor_of(target));
  return governor->set_clock(mhz);
}

status machine_controls::check_clock(const setting_target& target) {
  std::lock_guard lock(mutex_);
  TROUPE_TRY(governor, governor_of(target));
  return governor->check_clock();
}

std::string machine_controls::take_note(const setting_target& target) {
  std::lock_guard lock(mutex_);
  const auto governor = governor_of(target);
  return governor ? (*governor)->take_note() : std::string();
}

unsigned machine_controls::given_back_to(const setting_target& target) const {
  std::lock_guard lock(mutex_);
  const auto governor = governor_of(target);
  return governor ? (*governor)->given_back_to() : 0;
}

/// MCT-6. Before a pace of all was said that of an agent before holds on.
status machine_controls::wish(const setting_target& target, int pace_of_1024) {
  std::lock_guard lock(mutex_);
  const auto word = to_string(target.kind);
  const auto* found = over_ ? nullptr : find(target);
  if (!found) return setting_not_held(word, "nothing of that device");
  auto& d = devices_[static_cast<size_t>(found - devices_.data())];
  const int of_all = d.granted    ? *d.granted
                     : d.governor ? d.governor->adopted_at().value_or(whole_pace)
                                  : whole_pace;
  d.wished = pace_of_1024;
  if (!d.governor) return setting_governed(word, "the agent has not got the device, either");
  return set_one(d, std::min(of_all, d.wished));
}

void machine_controls::stay() noexcept {
  std::lock_guard lock(mutex_);
  over_ = true;
  for (auto& d : devices_)
    if (d.governor) d.governor->stay();
}

int machine_controls::held_at() const {
  std::lock_guard lock(mutex_);
  int out = whole_pace;
  for (const auto& d : devices_) out = std::min(out, d.held_at);
  return out;
}

void machine_controls::leave() noexcept {
  {
    std::lock_guard lock(mutex_);
    for (auto& d : devices_)
      if (d.governor) d.governor->leave();
  }
  end();
}

int machine_controls::adopted_at() const {
  std::lock_guard lock(mutex_);
  int out = whole_pace;
  for (const auto& d : devices_)
    if (d.governor) out = std::min(out, d.governor->adopted_at().value_or(whole_pace));
  return out;
}

std::vector<std::string_view> machine_controls::words() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string_view> out;
  for (const auto& d : devices_) {
    const auto word = to_string(d.by.kind);
    if (d.governor && std::ranges::find(out, word) == out.end()) out.push_back(word);
  }
  return out;
}

void machine_controls::end() noexcept {
  std::lock_guard lock(mutex_);
  over_ = true;
  for (auto& d : devices_)
    if (d.governor) d.governor->end();
}

}  // namespace troupe::gpu::controls
