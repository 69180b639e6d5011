// What traced<> does that does not depend on its base.
#include "actors/base/traced.hpp"

#include <algorithm>
#include <array>
#include <typeinfo>

#include <fmt/format.h>

#include "messages/errors.hpp"
#include "messages/registry.hpp"
#include "messages/rejection.hpp"

namespace troupe {

traced_actor::traced_actor(std::shared_ptr<troupe::runtime> in)
    : runtime_(std::move(in)),
      stats_(runtime_->registry.add(current_stats() != nullptr ? current_stats()->key() : 0)) {}

}  // namespace troupe

namespace troupe::detail {

namespace {

/// The types of all messages as a set of addresses: a type has one type_info in this program.
class type_set {
 public:
  type_set() {
#define TROUPE_INSERT(domain, table, number) insert(&typeid(msg<fbs::table>));
    TROUPE_MESSAGES(TROUPE_INSERT)
#undef TROUPE_INSERT
  }

  bool holds(const std::type_info* type) const noexcept {
    for (auto at = place(type);; at = (at + 1) % slots_.size()) {
      if (slots_[at] == type) return true;
      if (slots_[at] == nullptr) return false;
    }
  }

 private:
  size_t place(const std::type_info* type) const noexcept {
    return (reinterpret_cast<uintptr_t>(type) >> 4) % slots_.size();
  }

  void insert(const std::type_info* type) {
    auto at = place(type);
    while (slots_[at] != nullptr) at = (at + 1) % slots_.size();
    slots_[at] = type;
  }

  std::array<const std::type_info*, 512> slots_{};
};

const type_set message_types;

/// An error that an actor answers with stands in its stats, but one of the person who asked for
/// what cannot be.
const bool errors_are_noted = (set_error_listener([](const error& e) {
                                 if (e.code == errc::usage) return;
                                 if (auto* stats = current_stats()) stats->failed(e.message);
                               }),
                               true);

}  // namespace

const any_msg* message_in(const caf::mailbox_element& element) noexcept {
  const auto& content = element.content();
  if (content.size() == 0) return nullptr;
  const auto [number, type] = content.type(0);
  if (number != 0 || type == nullptr || !message_types.holds(type)) return nullptr;
  const auto* m = static_cast<const any_msg*>(content.get(0));  // every msg<T> is an any_msg
  return *m ? m : nullptr;
}

handling begin_handling(runtime& in, actor_stats& stats, const caf::mailbox_element& element,
                        uint32_t left, int64_t now_ns, int64_t came_ns) {
  handling h;
  h.made = messages_made();
  auto& r = h.record;
  r.begin_ns = now_ns;
  r.actor = stats.number();
  if (element.mid.is_response())
    r.flags |= record_flag::response;
  else if (element.mid.is_request())
    r.flags |= record_flag::request;
  h.message = message_in(element);
  if (const auto* m = h.message) {
    const auto& header = m->header();
    r.span = header.span;
    r.parent = header.parent;
    r.trace = header.trace_low;
    r.sender = header.sender;
    r.bytes = header.length;
    r.type = header.type;
    r.sent_ns = header.sent_ns;
    auto waited_ns = came_ns != 0 ? now_ns - came_ns : m->received_ago_ns(now_ns);
    if (waited_ns < 0 && header.sent_ns != 0)  // made here: it was in the mailbox at once
      waited_ns = now_ns - header.sent_ns;
    r.mailbox_s = static_cast<float>(static_cast<double>(std::max<int64_t>(0, waited_ns)) * 1e-9);
    if (in.messages.is_open()) in.messages.offer(stats.number(), now_ns, r.flags, *m);
  } else {
    r.flags |= record_flag::system;
  }
  stats.handling(r.type, left, now_ns);
  in.records.here().take_up(r);
  return h;
}

void end_handling(runtime& in, actor_stats& stats, handling& h, uint32_t left,
                  int64_t now_ns) noexcept {
  stats.handled();
  auto& r = h.record;
  r.handling_s = static_cast<float>(static_cast<double>(now_ns - r.begin_ns) * 1e-9);
  r.depth = static_cast<uint16_t>(std::min<uint32_t>(left, UINT16_MAX));
  r.sent = static_cast<uint16_t>(std::min<uint64_t>(messages_made() - h.made, UINT16_MAX));
  auto& ring = in.records.here();
  ring.put_down();
  ring.push(r);
}

call_rules::call_rules(std::string_view service) {
  epochs_.fill(epoch_rule::any);
  for (const auto& info : all_messages()) {
    const auto* call = find_call(service, info.id);
    if (call == nullptr) continue;
    epochs_.at(info.id) = call->epoch;
    high_priority_.set(info.id, call->high_priority);
  }
}

bool is_of_its_epoch(epoch_rule rule, uint32_t own, const any_msg& m) noexcept {
  if (rule == epoch_rule::any || (rule == epoch_rule::if_given && m.epoch() == 0)) return true;
  if (rule == epoch_rule::not_older && m.epoch() > own) return own != 0;
  return own != 0 && m.epoch() == own;
}

void refuse_epoch(const caf::mailbox_element& element, const any_msg& m, uint32_t own,
                  caf::execution_unit* host) {
  const auto* info = find_message(m.type());
  const error why{errc::version_mismatch,
                  own == 0 ? fmt::format("{} of epoch {} is refused: its receiver has not joined",
                                         info->name, m.epoch())
                           : fmt::format("{} of epoch {} is refused: the present epoch is {}",
                                         info->name, m.epoch(), own)};
  note_rejection(reject::stale_epoch, m.type(), why.message);
  if (element.mid.is_request() && element.sender)
    element.sender->enqueue(nullptr, element.mid.response_id(), caf::make_message(to_caf(why)),
                            host);
}

void arrivals::note(const caf::mailbox_element* element, int64_t at_ns) {
  constexpr size_t most = 1u << 16;
  if (empty() || came_.size() >= most) {  // what was dropped unhandled is never taken
    came_.clear();
    first_ = 0;
  }
  came_.emplace_back(element, at_ns);
}

int64_t arrivals::take(const caf::mailbox_element* element) {
  const auto begin = came_.begin() + static_cast<ptrdiff_t>(first_);
  const auto it =
      std::find_if(begin, came_.end(), [element](const auto& c) { return c.first == element; });
  if (it == came_.end()) return 0;
  const auto at_ns = it->second;
  if (it == begin)  // mostly: in the order of their coming
    ++first_;
  else
    came_.erase(it);
  return at_ns;
}

void drop_handling(runtime& in, actor_stats& stats) noexcept {
  stats.not_handled();
  in.records.here().put_down();
}

bool is_abnormal(const caf::error& reason) {
  if (!reason) return false;
  if (reason.category() != caf::atom("exit")) return true;
  const auto why = static_cast<caf::exit_reason>(reason.code());
  return why != caf::exit_reason::normal && why != caf::exit_reason::user_shutdown &&
         why != caf::exit_reason::kill;
}

std::string text_of(const caf::error& reason) {
  return reason ? from_caf(reason).message : "normal";
}

}  // namespace troupe::detail
