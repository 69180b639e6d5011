// The book of peers and the gate.
#include "actors/base/trust.hpp"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

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

struct entry {
  peer who;
  size_t connections = 0;
  int64_t gone_ns = 0;  ///< when the last of them ended
};

struct book {
  std::shared_mutex mutex;
  std::unordered_map<caf::node_id, entry> peers;
  std::optional<int64_t> looked_ns;  ///< when forgotten ones were last looked for
  std::mutex listener_mutex;
  std::function<void(const refusal&)> listener;
};

book& the_book() {
  static book b;
  return b;
}

bool forgotten(const entry& e, int64_t now_ns) {
  return e.connections == 0 && now_ns - e.gone_ns >= peer_memory_ns;
}

void forget_the_gone(book& b, int64_t now_ns) {
  if (b.looked_ns && now_ns - *b.looked_ns < look_pause_ns) return;
  b.looked_ns = now_ns;
  std::erase_if(b.peers, [&](const auto& p) { return forgotten(p.second, now_ns); });
}

void tell_listener(const refusal& r) {
  auto& b = the_book();
  std::lock_guard lock(b.listener_mutex);
  if (b.listener) b.listener(r);
}

}  // namespace

bool bind_peer(const caf::node_id& process, const peer& who, int64_t now_ns) {
  auto& b = the_book();
  std::unique_lock lock(b.mutex);
  auto it = b.peers.find(process);
  if (it == b.peers.end() || forgotten(it->second, now_ns)) {
    if (b.peers.size() >= most_remembered / 2) forget_the_gone(b, now_ns);
    if (b.peers.size() >= most_remembered) return false;
    it = b.peers.insert_or_assign(process, entry{who, 0, 0}).first;
  } else if (it->second.who != who) {
    return false;  // TRU-1
  }
  ++it->second.connections;
  if (who.guest()) detail::guests_known = true;
  return true;
}

void release_peer(const caf::node_id& process, int64_t now_ns) {
  auto& b = the_book();
  std::unique_lock lock(b.mutex);
  const auto it = b.peers.find(process);
  if (it == b.peers.end() || it->second.connections == 0) return;
  if (--it->second.connections == 0) it->second.gone_ns = now_ns;
}

std::optional<peer> peer_of(const caf::node_id& process) {
  auto& b = the_book();
  std::shared_lock lock(b.mutex);
  const auto it = b.peers.find(process);
  return it != b.peers.end() ? std::optional(it->second.who) : std::nullopt;
}

std::optional<peer> peer_of(const caf::strong_actor_ptr& sender) {
  return sender ? peer_of(sender->node()) : std::nullopt;
}

void set_refusal_listener(std::function<void(const refusal&)> listener) {
  auto& b = the_book();
  std::lock_guard lock(b.listener_mutex);
  b.listener = std::move(listener);
}

status may_send(const peer& who, const any_msg& m) {
  if (!who.guest()) return {};
  const auto wanted = audience_of(m);
  if (wanted == audience::reader) return {};
  if (wanted == audience::operator_ && who.as == tls::role::operator_) return {};
  const auto said = carried_by(m);
  const auto* info = find_message(said ? said.type() : m.type());
  const std::string_view name = info != nullptr ? info->name : "what cannot be read";
  if (wanted == audience::node)
    return error{errc::permission,
                 fmt::format("{} may not send {}: only nodes may", who.name, name)};
  return error{errc::permission,
               fmt::format("{} may only look: its role is reader, and {} changes things",
                           who.name, name),
               "an operator may: `troupe certs DIR --operator NAME`, or `troupe key --role "
               "operator` where there are no certificates"};
}

namespace detail {

bool refuse_at_gate(const caf::mailbox_element& element, const any_msg* message,
                    const actor_stats& receiver, caf::execution_unit* host) {
  if (message == nullptr || !element.sender) return false;
  const auto who = peer_of(element.sender);
  if (!who) return false;  // TRU-3
  const auto allowed = may_send(*who, *message);
  if (allowed) return false;
  const auto actor = receiver.path();
  note_rejection(reject::forbidden, message->type(),
                 fmt::format("{} ({}) to {}", who->name, to_string(who->as), actor));
  tell_listener({*who, actor, *message});
  if (element.mid.is_request())
    element.sender->enqueue(nullptr, element.mid.response_id(),
                            caf::make_message(to_caf(allowed.error())), host);
  return true;
}

}  // namespace detail

}  // namespace troupe
