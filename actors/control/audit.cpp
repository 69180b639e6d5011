// Writing lines.
#include "actors/control/audit.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/base/printable.hpp"
#include "messages/actors.hpp"
#include "messages/contract.hpp"
#include "messages/registry.hpp"
#include "messages/text.hpp"

namespace troupe::trace {

namespace {

constexpr int64_t minute_ns = 60'000'000'000;
constexpr size_t result_bytes = 512;  ///< kept free in a line for a result that is longer

off_t offset_of(const audit_place& place) {
  return static_cast<off_t>(place.offset);
}
constexpr size_t name_characters = 256;

}  // namespace

principal principal_of(const peer_book& peers, const caf::strong_actor_ptr& sender,
                       const std::string& claim) {
  const auto holder = peers.find(sender);
  if (!holder && (!sender || sender->node() == sender->home_system->node()))
    return {"the cluster", "", claim};  // a message that was carried here: whose, stands above it
  if (!holder) return {"unknown", "", claim};
  return {holder->name, std::string(to_string(holder->as)), claim == holder->name ? "" : claim,
          peers.place_of(sender)};
}

audit_line line_of(const refusal& r) {
  audit_line out;
  out.by = {r.who.name, std::string(to_string(r.who.as)), "", r.from};
  out.target = r.actor;
  std::string claim;
  if (const auto call = cast<fbs::CallActor>(r.message)) {
    out.target = text_of(call->actor());
    claim = text_of(call->who());
  } else if (const auto kill = cast<fbs::KillActor>(r.message)) {
    out.target = text_of(kill->actor());
    claim = text_of(kill->who());
  }
  if (claim != out.by.who) out.by.claims = claim;
  const auto said = carried_by(r.message);
  const auto* info = find_message(said ? said.type() : r.message.type());
  out.command = info != nullptr ? std::string(info->name) : "";
  out.message = said ? to_json(said) : "";
  const auto why = may_send(r.who, r.message);
  out.result = "refused: " + (why ? std::string() : why.error().message);
  return out;
}

audit_log::audit_log(const std::string& path, std::function<std::string()> wall_time)
    : path_(path), wall_time_(std::move(wall_time)) {
  if (path_.empty()) return;
  if (const auto ready = make_room(0); !ready) remember(ready.error());
}

result<audit_place> audit_log::begin(audit_line line, bool from_reserve) {
  std::lock_guard lock(mutex_);
  line.result = "asked";
  auto text = text_of_line(line, 0);
  text.append(result_bytes, ' ');  // for what is written over it
  if (!from_reserve)
    if (const auto room = make_room(text.size()); !room) return remember(room.error());
  auto place = append(std::move(text));
  if (!place) return remember(place.error());
  trouble_.clear();
  return place;
}

void audit_log::finish(const audit_place& place, audit_line line) {
  std::lock_guard lock(mutex_);
  auto text = text_of_line(line, 0);
  struct stat facts {};
  const bool there = place.bytes > 0 && place.file == files_ && fstat(file_.get(), &facts) == 0 &&
                     place.offset + place.bytes <= static_cast<uint64_t>(facts.st_size);
  if (!there) {  // it could not be written before, or the file was cut or replaced meanwhile
    if (const auto late = append(std::move(text)); !late) remember(late.error());
    return;
  }
  while (text.size() > place.bytes && !line.result.empty()) {
    line.result.resize(line.result.size() / 2);
    text = text_of_line(line, 0);
  }
  text.resize(place.bytes, ' ');
  const auto written = pwrite(file_.get(), text.data(), text.size(), offset_of(place));
  if (written != static_cast<ssize_t>(text.size()))
    remember(error::system("write the audit log", written < 0 ? errno : ENOSPC));
}

void audit_log::note(const audit_line& line) {
  std::lock_guard lock(mutex_);
  if (const auto place = append(text_of_line(line, 0)); !place) remember(place.error());
}

bool audit_log::note_refusal(const refusal& r, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  if (minute_ != now_ns / minute_ns) {
    minute_ = now_ns / minute_ns;
    refusals_ = 0;
  }
  if (++refusals_ > refusals_per_minute) {
    ++left_out_;
    return false;
  }
  auto text = text_of_line(line_of(r), std::exchange(left_out_, 0));
  if (const auto room = make_room(text.size()); !room) {
    remember(room.error());
    return false;
  }
  const auto place = append(std::move(text));
  if (!place) remember(place.error());
  return static_cast<bool>(place);
}

uint64_t audit_log::failures() const {
  std::lock_guard lock(mutex_);
  return failures_;
}

std::string audit_log::trouble() const {
  std::lock_guard lock(mutex_);
  return trouble_;
}

std::string audit_log::text_of_line(const audit_line& line, uint64_t left_out) const {
  nlohmann::ordered_json out;
  out["time"] = wall_time_ ? wall_time_() : "";
  out["who"] = printable(line.by.who, name_characters);  // ADT-4
  if (!line.by.role.empty()) out["role"] = line.by.role;
  if (!line.by.claims.empty()) out["claims"] = printable(line.by.claims, name_characters);
  if (!line.by.from.empty()) out["from"] = printable(line.by.from, name_characters);
  out["command"] = line.command;
  out["target"] = printable(line.target, name_characters);
  out["message"] = printable(line.message);
  out["result"] = printable(line.result);
  if (left_out > 0) out["refusals_left_out_before"] = left_out;
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The file, if it is not open yet or its name leads elsewhere by now (ADT-6).
status audit_log::open_file() {
  if (file_ && io::still_names(path_, file_.get())) return {};
  torn_ = false;
  ++files_;
  file_ = io::unique_fd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  return file_ ? status() : error::system(fmt::format("open {}", path_), errno);
}

/// ADT-5. Where a file system cannot set room aside, writing the line tells whether there is any.
status audit_log::make_room(uint64_t bytes) {
  if (path_.empty()) return {};
  TROUPE_CHECK(open_file());
  struct stat facts {};
  if (fstat(file_.get(), &facts) != 0) return error::system("look at the audit log", errno);
  if (fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, facts.st_size,
                static_cast<off_t>(reserve_bytes + bytes)) == 0)
    return {};
  if (errno != ENOSPC && errno != EDQUOT) return {};
  return error::system("set room aside for the audit log", errno);
}

/// At the end of the file, whoever cut it meanwhile (a rotation of logs).
result<audit_place> audit_log::append(std::string text) {
  if (path_.empty()) return audit_place{};
  TROUPE_CHECK(open_file());
  struct stat facts {};
  if (fstat(file_.get(), &facts) != 0) return error::system("look at the audit log", errno);
  const audit_place all{files_, static_cast<uint64_t>(facts.st_size), text.size()};
  if (torn_) text.insert(0, 1, '\n');
  text += '\n';
  const auto written = pwrite(file_.get(), text.data(), text.size(), offset_of(all));
  const bool whole = written == static_cast<ssize_t>(text.size());
  const bool after_torn = std::exchange(torn_, torn_ ? !whole : written > 0 && !whole);
  if (whole) return audit_place{files_, all.offset + (after_torn ? 1 : 0), all.bytes};
  return error::system("write the audit log", written < 0 ? errno : ENOSPC);
}

/// Counts and keeps what went wrong.
error audit_log::remember(error why) {
  ++failures_;
  trouble_ = why.message;
  return why;
}

}  // namespace troupe::trace
