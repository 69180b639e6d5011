// Writing lines.
#include "actors/trace/audit.hpp"

#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <nlohmann/json.hpp>

#include "io/base/printable.hpp"
#include "messages/actors.hpp"
#include "messages/audience.hpp"
#include "messages/registry.hpp"
#include "messages/text.hpp"

namespace troupe::trace {

namespace {

constexpr int64_t minute_ns = 60'000'000'000;
constexpr size_t name_characters = 256;

}  // namespace

speaker speaker_of(const caf::strong_actor_ptr& sender, const std::string& claim) {
  const auto holder = peer_of(sender);
  if (!holder && (!sender || sender->node() == sender->home_system->node()))
    return {"the cluster", "", claim};  // a message that was carried here: whose, stands above it
  if (!holder) return {claim, "", ""};
  return {holder->name, std::string(to_string(holder->as)), claim == holder->name ? "" : claim};
}

audit_line line_of(const refusal& r) {
  audit_line out;
  out.by = {r.who.name, std::string(to_string(r.who.as)), ""};
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
    : wall_time_(std::move(wall_time)) {
  if (!path.empty()) file_.open(path, std::ios::app);
}

void audit_log::note(const audit_line& line) {
  std::lock_guard lock(mutex_);
  write(line, 0);
}

void audit_log::note_refusal(const refusal& r, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  if (minute_ != now_ns / minute_ns) {
    minute_ = now_ns / minute_ns;
    refusals_ = 0;
  }
  if (++refusals_ > refusals_per_minute) {
    ++left_out_;
    return;
  }
  write(line_of(r), std::exchange(left_out_, 0));
}

uint64_t audit_log::failures() const {
  std::lock_guard lock(mutex_);
  return failures_;
}

void audit_log::write(const audit_line& line, uint64_t left_out) {
  if (!file_.is_open()) return;
  nlohmann::ordered_json out;
  out["time"] = wall_time_ ? wall_time_() : "";
  out["who"] = printable(line.by.who, name_characters);  // ADT-4
  if (!line.by.role.empty()) out["role"] = line.by.role;
  if (!line.by.claims.empty()) out["claims"] = printable(line.by.claims, name_characters);
  out["command"] = line.command;
  out["target"] = printable(line.target, name_characters);
  out["message"] = printable(line.message);
  out["result"] = printable(line.result);
  if (left_out > 0) out["refusals_left_out_before"] = left_out;
  file_ << out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
  if (file_) return;
  ++failures_;
  file_.clear();
}

}  // namespace troupe::trace
