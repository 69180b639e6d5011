// Lock, record, change, and back; see setting_governor.hpp.
#include "gpu/controls/setting_governor.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "gpu/controls/control_journal.hpp"
#include "gpu/controls/seat.hpp"
#include "io/file.hpp"

namespace troupe::gpu::controls {

namespace fs = std::filesystem;

namespace {

/// SGV-4
status set_setting(setting_port& port, const machine_setting& s, uint64_t value) {
  TROUPE_TRY(read, port.write(s.now.where, value));
  if (!is_in_force(s.range, value, read)) return setting_not_in_force(s.now.where, value, read);
  return {};
}

status take_one_back(setting_port& port, const found_setting& s) {
  const uint64_t back = s.found;
  TROUPE_TRY(read, port.write(s.where, back));
  if (read != s.found) return setting_not_in_force(s.where, back, read);
  return {};
}

/// Whoever calls it has the seat. The first error is told; the others are taken back all the same.
status take_back(const control_place& at, setting_port& port, const control_record& r) {
  status out;
  for (const auto& s : r.settings) {
    auto done = take_one_back(port, s);
    if (!done && out) out = std::move(done);
  }
  return out ? forget_record(record_file(at.settings, device_of(target_of(r)))) : out;
}

/// SGV-2. Whoever calls it has the seat, so whose record it is governs no more.
status take_back_left(const control_place& at, const std::string& device) {
  const auto file = record_file(at.settings, device);
  const auto text = io::read_file(file, record_bytes);
  if (!text) return text.error().code == errc::not_found ? status{} : status{text.error()};
  TROUPE_TRY(left, parse_record(*text));
  if (left.boot != boot_id(at)) return forget_record(file);
  TROUPE_TRY(port, open_setting_port(at, target_of(left)));
  return with_remedy(take_back(at, *port, left));
}

}  // namespace

status undo_settings(const control_place& at, const control_record& r) {
  const auto target = target_of(r);
  const auto seat = take_seat(at, target, std::string(restorer_name));
  if (!seat && seat.error().is(io::folder_in_use))
    return setting_governed(to_string(r.kind), seat.error().message);
  if (!seat) return seat.error();
  return take_back_left(at, device_of(target));
}

result<std::unique_ptr<setting_governor>> setting_governor::make(const control_place& at,
                                                                 const setting_target& target,
                                                                 const control_owner& owner) {
  if (at.settings.empty())
    return setting_refused(to_string(target.kind), "there is no folder for what is to be undone");
  std::unique_ptr<setting_governor> out(new setting_governor(at, target, owner));
  std::lock_guard lock(out->mutex_);
  TROUPE_CHECK(out->govern());
  return out;
}

setting_governor::~setting_governor() {
  end();
}

/// SGV-3: whether this one governs.
result<bool> setting_governor::govern() {
  if (lock_) return true;
  auto seat = wait_for_seat(at_, target_, owner_);
  if (!seat && seat.error().is(io::folder_in_use))
    return setting_governed(to_string(target_.kind), seat.error().message);
  if (!seat) return setting_refused(to_string(target_.kind), seat.error().message);
  if (!*seat) return false;
  TROUPE_CHECK(take_back_left(at_, device_of(target_)));
  TROUPE_CHECK(begin());
  lock_.emplace(std::move(**seat));
  return true;
}

/// The most of each is what was found: written once more it changes nothing, and shows that it may
/// be.
status setting_governor::begin() {
  TROUPE_TRY(port, open_setting_port(at_, target_));
  TROUPE_TRY(found, port->find());
  auto record = new_record(at_, owner_);
  record.kind = target_.kind;
  for (const auto& s : found) record.settings.push_back(s.now);
  const auto device = device_of(target_);
  if (const auto kept = keep_record(at_.settings, device, record); !kept)
    return setting_refused(to_string(target_.kind), kept.error().message);
  std::vector<uint64_t> in_force;
  for (const auto& s : found) {
    if (const auto tried = set_setting(*port, s, s.range.most); !tried) {
      const bool was_written = tried.error().is(setting_not_in_force);
      TROUPE_CHECK(was_written ? take_back(at_, *port, record)
                               : forget_record(record_file(at_.settings, device)));
      return setting_refused(to_string(target_.kind), tried.error().message);
    }
    in_force.push_back(s.range.most);
  }
  port_ = std::move(port);
  record_ = std::move(record);
  settings_ = std::move(found);
  in_force_ = std::move(in_force);
  return {};
}

status setting_governor::set(int pace_of_1024) {
  std::lock_guard lock(mutex_);
  if (over_) return {};
  TROUPE_TRY(governs, govern());
  if (!governs) return {};
  for (size_t i = 0; i < settings_.size(); ++i) {
    const auto wanted = setting_at(target_.kind, settings_[i].range, pace_of_1024);
    if (wanted == in_force_[i]) continue;
    TROUPE_CHECK(set_setting(*port_, settings_[i], wanted));
    in_force_[i] = wanted;
  }
  return {};
}

void setting_governor::end() noexcept {
  std::lock_guard lock(mutex_);
  if (std::exchange(over_, true) || !lock_) return;
  static_cast<void>(take_back(at_, *port_, record_));  // else the record stays, for the next one
  lock_.reset();
}

actuator_facts setting_governor::facts() const {
  std::lock_guard lock(mutex_);
  std::vector<setting_range> ranges;
  for (const auto& s : settings_) ranges.push_back(s.range);
  return setting_facts(target_.kind, ranges);
}

}  // namespace troupe::gpu::controls
