// Lock, record, change, and back; see setting_governor.hpp.
#include "gpu/controls/setting_governor.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "gpu/controls/control_journal.hpp"
#include "gpu/controls/seat.hpp"
#include "io/file.hpp"

namespace troupe::gpu::controls {

namespace fs = std::filesystem;

namespace {

/// SGV-4. Of one that is written.
status check_setting(setting_port& port, const machine_setting& s, uint64_t value) {
  TROUPE_TRY(read, port.read_back(s.now.where, value));
  if (!is_in_force(s.range, value, read)) return setting_not_in_force(s.now.where, value, read);
  return {};
}

/// In force is what is not above `most`.
status set_setting(setting_port& port, const machine_setting& s, uint64_t value, uint64_t most) {
  TROUPE_CHECK(port.write(s.now.where, value));
  return check_setting(port, s, most);
}

/// SGV-6. Processors that are offline take no clock, and need none.
bool is_away(setting_kind kind, const error& e) {
  const bool is_gone = e.kind == "EBUSY" || e.kind == "ENODEV" || e.code == errc::not_found;
  return !is_of_gpu(kind) && is_gone;
}

status take_one_back(setting_port& port, const found_setting& s, bool is_set_in_heat) {
  const uint64_t back = s.found;
  TROUPE_CHECK(port.write(s.where, back));
  TROUPE_TRY(read, port.read_back(s.where, back));
  const bool is_held_lower = is_set_in_heat && read < s.found && port.is_held_lower();  // SGV-7
  if (read != s.found && !is_held_lower) return setting_not_in_force(s.where, back, read);
  return {};
}

/// What could not be taken back.
struct not_back {
  std::vector<found_setting> settings = {};
  status why = {};       ///< of the first
  bool are_away = true;  ///< all of them
};

/// Whoever calls it has the seat. What is taken back goes from the record with that: from then on
/// it is others' to change (SGV-6).
not_back take_back(setting_port& port, const fs::path& file, control_record r,
                   bool is_set_in_heat = true) {
  not_back out;
  for (const auto& s : r.settings) {
    auto done = take_one_back(port, s, is_set_in_heat);
    if (done) continue;
    out.settings.push_back(s);
    out.are_away = out.are_away && is_away(r.kind, done.error());
    if (out.why) out.why = std::move(done);
  }
  if (out.settings.empty()) {
    out.why = forget_record(file);
    out.are_away = false;
  } else if (out.settings.size() < r.settings.size()) {
    r.settings = out.settings;  // where it cannot be written all of it is tried again
    static_cast<void>(keep_record(file.parent_path(), device_of(target_of(r)), r));
  }
  return out;
}

/// None: there is none. Errors: no_control_record; io.
result<std::optional<control_record>> read_record(const fs::path& file) {
  const auto text = io::read_file(file, record_bytes);
  if (!text && text.error().code == errc::not_found) return std::optional<control_record>();
  if (!text) return text.error();
  TROUPE_TRY(read, parse_record(*text));
  return std::optional(std::move(read));
}

/// What another rank of the job that governs has found: who takes over while the machine is hot
/// cannot see it (SGV-7).
void learn_found(const control_place& at, const setting_target& target) {
  const auto device = device_of(target);
  if (!at.known->of(device).empty()) return;
  const auto record = read_record(record_file(at.settings, device));
  if (record && *record && (*record)->boot == boot_id(at))
    at.known->note(device, (*record)->settings);
}

/// SGV-2. Whoever calls it has the seat, so whose record it is governs no more.
result<not_back> take_back_left(const control_place& at, const fs::path& file) {
  TROUPE_TRY(read, read_record(file));
  if (!read) return not_back{};
  auto& left = *read;
  if (left.boot != boot_id(at)) {
    TROUPE_CHECK(forget_record(file));
    return not_back{};
  }
  at.known->note(device_of(target_of(left)), left.settings);
  TROUPE_TRY(port, open_setting_port(at, target_of(left)));
  return take_back(*port, file, std::move(left), at.is_set_in_heat);
}

/// SGV-8
bool stays_by(const control_record& left, const control_place& at, const setting_target& target) {
  return left.stays_at && left.kind == target.kind && left.boot == boot_id(at);
}

}  // namespace

bool is_left_to_next(const control_place& at, const setting_target& target,
                     const control_owner& owner) {
  if (!owner.is_adopted) return false;
  const auto read = read_record(record_file(at.settings, device_of(target)));
  return read && *read && stays_by(**read, at, target);
}

status undo_settings(const control_place& at, const fs::path& file, const control_record& r) {
  const auto seat = take_seat(at, target_of(r), std::string(restorer_name));
  if (!seat && seat.error().is(io::folder_in_use))
    return setting_governed(to_string(r.kind), seat.error().message);
  if (!seat) return seat.error();
  TROUPE_TRY(left, take_back_left(at, file));
  return with_remedy(left.why);
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
  if (!*seat) {
    learn_found(at_, target_);
    return false;
  }
  TROUPE_TRY(is_adopted, adopt());
  if (!is_adopted) {
    TROUPE_TRY(left, take_back_left(at_, own_record()));
    if (!left.why && !left.are_away) return with_remedy(left.why).error();
    TROUPE_CHECK(begin(left.settings));
  }
  lock_.emplace(std::move(**seat));
  settle_seat(*lock_, owner_);
  return true;
}

/// SGV-8. False: nothing is left for it. Each setting is written once more, as it is: that shows
/// that it may be.
result<bool> setting_governor::adopt() {
  if (!owner_.is_adopted) return false;
  const auto read = read_record(own_record());
  if (!read || !*read) return false;  // take_back_left() says what is wrong with it
  const auto& left = **read;
  if (!stays_by(left, at_, target_)) return false;
  at_.known->note(device_of(target_), left.settings);
  TROUPE_TRY(port, open_setting_port(at_, target_));
  auto found = port->find(left.settings);
  if (!found) return false;
  auto record = new_record(at_, owner_);
  record.kind = target_.kind;
  record.stays_at = left.stays_at;
  record.settings = left.settings;  // what is away is among them
  for (const auto& s : *found)
    if (std::ranges::find(record.settings, s.now.where, &found_setting::where) ==
        record.settings.end())
      record.settings.push_back(s.now);
  if (const auto kept = keep_record(at_.settings, device_of(target_), record); !kept)
    return setting_refused(to_string(target_.kind), kept.error().message);
  std::vector<uint64_t> in_force;
  for (const auto& s : *found) {
    const auto wanted = setting_at(target_.kind, s.range, *left.stays_at);
    const auto done = set_setting(*port, s, wanted, wanted);
    if (!done && !is_away(target_.kind, done.error()))
      return setting_refused(to_string(target_.kind), done.error().message);
    in_force.push_back(done ? wanted : 0);
  }
  port_ = std::move(port);
  record_ = std::move(record);
  settings_ = *std::move(found);
  in_force_ = std::move(in_force);
  unread_.assign(in_force_.size(), false);
  adopted_at_ = left.stays_at;
  return true;
}

/// SGV-8: before it is set.
status setting_governor::keep_pace(int pace_of_1024) {
  const int pace = std::clamp(pace_of_1024, 0, whole_pace);
  if (!record_.stays_at || *record_.stays_at == pace) return {};
  auto record = record_;
  record.stays_at = pace;
  TROUPE_CHECK(keep_record(at_.settings, device_of(target_), record));
  record_ = std::move(record);
  return {};
}

fs::path setting_governor::own_record() const {
  return record_file(at_.settings, device_of(target_));
}

/// The most of each is what was found: written once more it changes nothing, and shows that it may
/// be. `away`: what somebody before has left of what is away (SGV-6).
status setting_governor::begin(const std::vector<found_setting>& away) {
  TROUPE_TRY(port, open_setting_port(at_, target_));
  TROUPE_TRY(found, port->find({}));
  std::erase_if(found, [&](const machine_setting& s) {
    return std::ranges::any_of(away, [&](const auto& a) { return a.where == s.now.where; });
  });
  if (found.empty()) return no_such_setting(to_string(target_.kind), "all of its devices are away");
  auto record = new_record(at_, owner_);
  record.kind = target_.kind;
  if (owner_.is_adopted) record.stays_at = whole_pace;
  for (const auto& s : found) record.settings.push_back(s.now);
  record.settings.insert(record.settings.end(), away.begin(), away.end());
  const auto device = device_of(target_);
  if (const auto kept = keep_record(at_.settings, device, record); !kept)
    return setting_refused(to_string(target_.kind), kept.error().message);
  std::vector<uint64_t> in_force;
  for (const auto& s : found) {
    auto tried = port->write(s.now.where, s.range.most);
    const auto written = static_cast<ptrdiff_t>(in_force.size() + (tried ? 1 : 0));
    if (tried) tried = check_setting(*port, s, s.range.most);
    if (!tried) {  // a lock that nobody can ask about is one all the same
      const auto first = record.settings.begin();
      record.settings.erase(first + written, first + static_cast<ptrdiff_t>(found.size()));
      static_cast<void>(take_back(*port, own_record(), std::move(record)));
      return setting_refused(to_string(target_.kind), tried.error().message);
    }
    in_force.push_back(s.range.most);
  }
  at_.known->note(device, record.settings);
  port_ = std::move(port);
  record_ = std::move(record);
  settings_ = std::move(found);
  in_force_ = std::move(in_force);
  unread_.assign(in_force_.size(), false);
  return {};
}

status setting_governor::set(int pace_of_1024) {
  std::lock_guard lock(mutex_);
  if (over_) return {};
  const auto governs = govern();
  // Who does not govern yet looks again at the next step: heat passes, and ends none (SGV-7).
  if (!governs && governs.error().is(setting_held_lower)) return {};
  if (!governs) return governs.error();
  if (!*governs) return {};
  TROUPE_CHECK(keep_pace(pace_of_1024));
  pace_of_1024_ = pace_of_1024;
  bool is_any_set = false;
  status first_away;
  for (size_t i = 0; i < settings_.size(); ++i) {
    const auto wanted = wanted_of(settings_[i].range);
    if (wanted != in_force_[i] || unread_[i]) {
      const auto most = setting_at(target_.kind, settings_[i].range, pace_of_1024_);
      const auto began = std::chrono::steady_clock::now();
      auto done = set_setting(*port_, settings_[i], wanted, most);
      if (done) took_.add((std::chrono::steady_clock::now() - began) / std::chrono::nanoseconds(1));
      if (!done && !is_away(target_.kind, done.error())) return done;
      in_force_[i] = done ? wanted : 0;  // that of what is away is tried again
      unread_[i] = wanted < most;
      if (!done && first_away) first_away = std::move(done);
    }
    is_any_set = is_any_set || in_force_[i] == wanted;
  }
  return is_any_set ? status{} : first_away;
}

/// SGV-9: the lower of both. SGV-10
uint64_t setting_governor::wanted_of(const setting_range& range) const {
  const int clock_mhz = sharing_.is_shared() ? highest_clock_mhz : clock_mhz_;
  return std::min(setting_at(target_.kind, range, pace_of_1024_),
                  setting_of_clock(target_.kind, range, clock_mhz));
}

bool setting_governor::sets_clocks() const {
  std::lock_guard lock(mutex_);
  if (!lock_ || is_limit(target_.kind)) return false;
  return !target_.is_machines || port_->others() == 0;
}

std::vector<int> setting_governor::clocks_mhz() const {
  if (!sets_clocks()) return {};
  std::lock_guard lock(mutex_);
  std::vector<setting_range> ranges;
  for (const auto& s : settings_) ranges.push_back(s.range);
  return clocks_of(target_.kind, ranges);
}

status setting_governor::set_clock(int mhz) {
  std::lock_guard lock(mutex_);
  if (over_ || !lock_) return {};
  clock_mhz_ = mhz;
  return write_clock();
}

/// SGV-9: where one takes none, the others are no reason to leave as they were.
status setting_governor::write_clock() {
  status first;
  for (size_t i = 0; i < settings_.size(); ++i) {
    const auto wanted = wanted_of(settings_[i].range);
    if (wanted == in_force_[i]) continue;
    auto done = port_->write(settings_[i].now.where, wanted);
    in_force_[i] = done ? wanted : 0;
    unread_[i] = true;
    if (!done && first && !is_away(target_.kind, done.error())) first = std::move(done);
  }
  return first;
}

/// SGV-10. Where no clock is in force nobody is slowed, and nobody looked for.
status setting_governor::look_for_others() {
  if (clock_mhz_ == highest_clock_mhz && !sharing_.is_shared()) return {};
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const bool has_changed = sharing_.look(port_->others(), now / std::chrono::nanoseconds(1));
  return has_changed ? write_clock() : status{};
}

unsigned setting_governor::given_back_to() const {
  std::lock_guard lock(mutex_);
  return sharing_.others();
}

std::string setting_governor::take_note() {
  std::lock_guard lock(mutex_);
  switch (sharing_.take_news()) {
    case sharing_policy::news::shared:
      return fmt::format(
          "another process computes on {}: until it is gone operations have no "
          "clocks of their own there",
          target_.gpu);
    case sharing_policy::news::alone:
      return fmt::format("{} is this job's alone again: its operations have clocks of their own",
                         target_.gpu);
    case sharing_policy::news::none:
      break;
  }
  return {};
}

status setting_governor::check_clock() {
  std::lock_guard lock(mutex_);
  if (over_ || !lock_) return {};
  TROUPE_CHECK(look_for_others());
  for (size_t i = 0; i < settings_.size(); ++i) {
    if (in_force_[i] == 0) continue;
    auto done = check_setting(*port_, settings_[i], in_force_[i]);
    unread_[i] = !done;
    if (done) continue;
    in_force_[i] = 0;  // whatever is wanted next is written
    if (!is_away(target_.kind, done.error())) return done;
  }
  return {};
}

void setting_governor::end() noexcept {
  std::lock_guard lock(mutex_);
  if (std::exchange(over_, true) || !lock_) return;
  static_cast<void>(
      take_back(*port_, own_record(), record_));  // else the record stays, for the next one
  lock_.reset();
}

void setting_governor::leave() noexcept {
  std::lock_guard lock(mutex_);
  if (!adopted_at_ || std::exchange(over_, true)) return;
  lock_.reset();
}

void setting_governor::stay() noexcept {
  std::lock_guard lock(mutex_);
  if (std::exchange(over_, true)) return;
  lock_.reset();
}

bool setting_governor::governs() const {
  std::lock_guard lock(mutex_);
  return lock_.has_value();
}

std::optional<int> setting_governor::adopted_at() const {
  std::lock_guard lock(mutex_);
  return adopted_at_;
}

actuator_facts setting_governor::facts() const {
  std::lock_guard lock(mutex_);
  std::vector<setting_range> ranges;
  for (const auto& s : settings_) ranges.push_back(s.range);
  return with_delays(setting_facts(target_.kind, ranges), took_);
}

}  // namespace troupe::gpu::controls
