// The book of peers and the gate.
#include "actors/base/trust.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <caf/mailbox_element.hpp>
#include <caf/message.hpp>

#include "actors/base/actor_registry.hpp"
#include "messages/contract.hpp"
#include "messages/errors.hpp"
#include "messages/registry.hpp"
#include "messages/rejection.hpp"

namespace troupe {

namespace {

constexpr size_t most_remembered = 65'536;
/// Between two looks through the whole book: a flood of connections does not pay for one each.
constexpr int64_t look_pause_ns = 1'000'000'000;

}  // namespace

void peer_book::forget_the_gone(int64_t now_ns) {
  if (looked_ns_ && now_ns - *looked_ns_ < look_pause_ns) return;
  looked_ns_ = now_ns;
  std::erase_if(peers_, [&](const auto& p) { return p.second.forgotten(now_ns); });
}

bool peer_book::bind(const caf::node_id& process, const peer& who, int64_t now_ns,
                     const std::string& from) {
  std::unique_lock lock(mutex_);
  auto it = peers_.find(process);
  if (it == peers_.end() || it->second.forgotten(now_ns)) {
    if (peers_.size() >= most_remembered / 2) forget_the_gone(now_ns);
    if (peers_.size() >= most_remembered) return false;
    it = peers_.insert_or_assign(process, entry{who, 0, 0}).first;
  } else if (it->second.who != who) {
    return false;  // TRU-1
  }
  ++it->second.connections;
  if (!from.empty()) it->second.from = from;
  if (who.guest()) guests_known_ = true;
  return true;
}

void peer_book::release(const caf::node_id& process, int64_t now_ns) {
  std::unique_lock lock(mutex_);
  const auto it = peers_.find(process);
  if (it == peers_.end() || it->second.connections == 0) return;
  if (--it->second.connections == 0) it->second.gone_ns = now_ns;
}

std::optional<peer> peer_book::find(const caf::node_id& process) const {
  std::shared_lock lock(mutex_);
  const auto it = peers_.find(process);
  return it != peers_.end() ? std::optional(it->second.who) : std::nullopt;
}

std::optional<peer> peer_book::find(const caf::strong_actor_ptr& sender) const {
  return sender ? find(sender->node()) : std::nullopt;
}

std::string peer_book::place_of(const caf::strong_actor_ptr& sender) const {
  if (!sender) return {};
  std::shared_lock lock(mutex_);
  const auto it = peers_.find(sender->node());
  return it != peers_.end() ? it->second.from : std::string();
}

void peer_book::set_refusal_listener(std::function<void(const refusal&)> listener) {
  std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

void peer_book::tell_listener(const refusal& r) {
  std::lock_guard lock(listener_mutex_);
  if (listener_) listener_(r);
}

namespace {

bool is_in(const peer& who, audience wanted) {
  switch (who.as) {
    case tls::role::node:
      return true;
    case tls::role::operator_:
      return wanted == audience::operator_ || wanted == audience::reader;
    case tls::role::reader:
      return wanted == audience::reader;
    case tls::role::power:
      return wanted == audience::power;
  }
  return false;
}

}  // namespace

status may_send(const peer& who, const any_msg& m) {
  if (!who.guest()) return {};
  const auto wanted = audience_of(m);
  if (is_in(who, wanted)) return {};
  const auto said = carried_by(m);
  const auto* info = find_message(said ? said.type() : m.type());
  const std::string_view name = info != nullptr ? info->name : "what cannot be read";
  if (wanted == audience::node)
    return error{errc::permission,
                 fmt::format("{} may not send {}: only nodes may", who.name, name)};
  if (wanted == audience::power)
    return error{errc::permission,
                 fmt::format("{} may not send {}: its role is {}, and only a job that the power "
                             "budget knows by a key or a certificate may",
                             who.name, name, to_string(who.as)),
                 "`troupe key --role power --name JOB --budget NAME --out FILE` makes such a key; "
                 "where the budget has certificates, set cluster.tls to those of the job"};
  if (who.as == tls::role::power)
    return error{errc::permission,
                 fmt::format("{} may not send {}: its role is power, and it may only report to a "
                             "power budget",
                             who.name, name),
                 "`troupe key --role reader` makes a key that may look"};
  return error{errc::permission,
               fmt::format("{} may only look: its role is reader, and {} changes things",
                           who.name, name),
               "an operator may: `troupe certs DIR --operator NAME`, or `troupe key --role "
               "operator` where there are no certificates"};
}

bool peer_book::refuse_at_gate(const caf::mailbox_element& element, const any_msg* message,
                               const actor_stats& receiver, caf::execution_unit* host) {
  if (message == nullptr || !element.sender) return false;
  const auto who = find(element.sender);
  if (!who) return false;  // TRU-3
  const bool power = who->as == tls::role::power;
  if (power && element.mid.is_response() && answers_power(message->type())) return false;
  const auto allowed = may_send(*who, *message);
  if (allowed) return false;
  const auto actor = receiver.path();
  note_rejection(reject::forbidden, message->type(),
                 fmt::format("{} ({}) to {}", who->name, to_string(who->as), actor));
  tell_listener({*who, actor, *message, place_of(element.sender)});
  if (element.mid.is_request())
    element.sender->enqueue(nullptr, element.mid.response_id(),
                            caf::make_message(to_caf(allowed.error())), host);
  return true;
}

}  // namespace troupe
