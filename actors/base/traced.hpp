// The base of every actor: counts and times what it is told, keeps its stats in the registry, and
// lets a simulation stand between sender and receiver.
//
//   using stage_pointer = traced_pointer<stage_actor, stage_state>;  // not stateful_pointer
//   stage_actor::behavior_type stage(stage_pointer self, ...);
//
// Invariants
//   TRC-1  A message that is handled adds exactly one record; one that is put back adds none.
//   TRC-2  The cost per message is one reading of the clock (fast_clock.hpp) and one record;
//     nothing is allocated. Of messages handled in a row, the end of one is the beginning of the
//     next.
//     When a message came is noted where it came from elsewhere: by the reader of the network in
//     the message itself (any_msg::received_ago_ns), by a simulated network in `arrivals`; what was
//     made in the process came when it was sent.
//   TRC-3  What a tap takes is a reference to the message, and a full tap drops (tap.hpp).
//   TRC-4  What a guest may not send never gets into the mailbox (trust.hpp).
//   TRC-5  Whoever keeps the actor's log hears all of it (actor_log.hpp); an actor whose log nobody
//     keeps pays one look at a pointer for that.
//   TRC-6  A message of another epoch than its receiver's is counted and refused, where the call's
//     contract does not say otherwise (messages/contract.hpp): no handler sees it. A request is
//     answered with version_mismatch. Only live_in() moves an actor's epoch, which never falls.
//   TRC-7  A request from another process takes the place in the mailbox that its contract gives
//     it, whatever priority it came with (ask.hpp, ASK-3).
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <caf/actor_clock.hpp>
#include <caf/actor_system.hpp>
#include <caf/invoke_message_result.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/base/runtime.hpp"
#include "actors/base/timeouts.hpp"
#include "actors/capture/fast_clock.hpp"
#include "messages/actors.hpp"

namespace troupe {

namespace detail {

/// The rules of each call of a service, found by the message's type alone.
class call_rules {
 public:
  explicit call_rules(std::string_view service);

  epoch_rule epoch(uint16_t type) const noexcept {
    return type < epochs_.size() ? epochs_[type] : epoch_rule::any;
  }
  bool high_priority(uint16_t type) const noexcept {
    return type < high_priority_.size() && high_priority_[type];
  }

 private:
  std::array<epoch_rule, 0x1000> epochs_;  ///< what the service does not take has no rule
  std::bitset<0x1000> high_priority_;
};

}  // namespace detail

/// What traced<> has that does not depend on its base.
class traced_actor {
 public:
  /// `in`: of its system.
  explicit traced_actor(std::shared_ptr<troupe::runtime> in);

  actor_stats& stats() noexcept { return *stats_; }

  /// Of its system; alive as long as the actor.
  troupe::runtime& runtime() const noexcept { return *runtime_; }

  /// The epoch it lives in; 0: none yet.
  uint32_t epoch() const noexcept { return epoch_; }
  /// TRC-6.
  void live_in(uint32_t epoch) {
    if (epoch > epoch_ && epoch_ != 0) stats_->end_waits_of_epoch();
    epoch_ = std::max(epoch_, epoch);
  }

  /// How long it waits for answers.
  const call_timeouts& timeouts() const noexcept { return timeouts_; }
  void set_timeouts(call_timeouts of_its_job) { timeouts_ = std::move(of_its_job); }

  /// Puts a message into the mailbox without asking the network of a simulation.
  virtual void deliver(caf::mailbox_element_ptr message) = 0;

  /// The actor has said its path: whoever wants its log hears it from here on.
  void begin_log() {
    log_ = runtime_->logs.begin(*stats_);
    if (log_ != nullptr) detail::current_log = log_.get();
  }

 protected:
  ~traced_actor() = default;

  const std::shared_ptr<troupe::runtime> runtime_;
  const std::shared_ptr<actor_stats> stats_;
  std::shared_ptr<actor_log> log_;  ///< nullptr: nobody keeps it

 private:
  uint32_t epoch_ = 0;
  call_timeouts timeouts_;
};

/// The stats of an actor of this process; nullptr of another's.
template <class Handle>
const actor_stats* stats_of(const Handle& actor) {
  auto* here = dynamic_cast<traced_actor*>(caf::actor_cast<caf::abstract_actor*>(actor));
  return here != nullptr ? &here->stats() : nullptr;
}

/// What a simulation puts between all actors. Called on the sender's thread.
class simulated_network {
 public:
  virtual ~simulated_network() = default;
  /// True: it has taken the message, and delivers it later or never.
  virtual bool intercept(traced_actor& receiver, const caf::strong_actor_ptr& self,
                         caf::mailbox_element_ptr& message) = 0;
};

namespace detail {

/// The message in a mailbox element, nullptr where it holds none of ours.
const any_msg* message_in(const caf::mailbox_element& element) noexcept;

/// A record in the making: what it needs of a message is taken before the handler may move that
/// away, and shown as under the thread's hands.
struct handling {
  trace_record record;
  uint64_t made = 0;
  const any_msg* message = nullptr;  ///< until the handler has it
};

/// When the messages in a mailbox came over a simulated network, where the same message may be on
/// its way to many. One thread.
class arrivals {
 public:
  bool empty() const noexcept { return first_ == came_.size(); }
  void note(const caf::mailbox_element* element, int64_t at_ns);
  /// 0: it did not come that way.
  int64_t take(const caf::mailbox_element* element);

 private:
  std::vector<std::pair<const caf::mailbox_element*, int64_t>> came_;
  size_t first_ = 0;  ///< those before it have been taken
};

/// `left`: messages in the mailbox behind this one; `came_ns`: arrivals'.
handling begin_handling(runtime& in, actor_stats& stats, const caf::mailbox_element& element,
                        uint32_t left, int64_t now_ns, int64_t came_ns);
void end_handling(runtime& in, actor_stats& stats, handling& h, uint32_t left,
                  int64_t now_ns) noexcept;
/// The message was put back (TRC-1).
void drop_handling(runtime& in, actor_stats& stats) noexcept;

/// TRC-6: whether a message of the epoch `m` is for a receiver that lives in `own`.
bool is_of_its_epoch(epoch_rule rule, uint32_t own, const any_msg& m) noexcept;
/// Counts it and tells the sender of a request.
void refuse_epoch(const caf::mailbox_element& element, const any_msg& m, uint32_t own,
                  caf::execution_unit* host);

/// What the registry keeps of an exit reason.
std::string text_of(const caf::error& reason);
/// Whether an actor that ends for this reason died of an error, and was not told to go.
bool is_abnormal(const caf::error& reason);

}  // namespace detail

/// A scheduled actor class with stats and records.
template <class Base>
class traced : public Base, public traced_actor {
 public:
  explicit traced(caf::actor_config& config)
      : Base(config), traced_actor(shared_runtime_of(Base::home_system())) {
    this->stats_->started(caf::weak_actor_ptr(this->ctrl()), clock_ns());
  }

  /// Who speaks, whether this actor is recorded or not (ACL-2): what it is told of senders
  /// elsewhere is compared with this.
  const caf::strong_actor_ptr& current_sender() const {
    return detail::asker_behind(const_cast<traced*>(this)->Base::current_sender());
  }

  using Base::enqueue;

  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* host) override {
    auto& in = *this->runtime_;
    if (in.network != nullptr &&
        in.network->intercept(*this, caf::strong_actor_ptr(this->ctrl()), message))
      return;
    if (in.peers.knows_guests() &&
        in.peers.refuse_at_gate(*message, detail::message_in(*message), *this->stats_, host))
      return;  // TRC-4
    place(*message);
    this->stats_->message_came();
    Base::enqueue(std::move(message), host);
  }

  void deliver(caf::mailbox_element_ptr message) override {
    this->stats_->message_came();
    came_.note(message.get(), clock_ns());
    Base::enqueue(std::move(message), nullptr);
  }

  caf::resumable::resume_result resume(caf::execution_unit* host, size_t limit) override {
    const stats_scope scope(this->stats_.get());
    handled_until_ns_ = 0;
    return Base::resume(host, limit);
  }

  caf::invoke_message_result consume(caf::mailbox_element& element) override {
    if (this->log_ == nullptr) [[likely]]
      return handle(element);
    return live(element);
  }

  /// As CAF's; the actor's log hears of it.
  template <caf::message_priority P = caf::message_priority::normal, class Dest, class... Ts>
  void send(const Dest& dest, Ts&&... xs) {
    if (this->log_ != nullptr) [[unlikely]]
      this->log_->said({fbs::ActorLogKind::sent,
                        caf::actor_cast<caf::strong_actor_ptr>(dest),
                        0,
                        caf::make_message(xs...),
                        {}});
    Base::template send<P>(dest, std::forward<Ts>(xs)...);
  }

  /// As CAF's; the actor's log hears of it.
  template <caf::message_priority P = caf::message_priority::normal, class Handle, class Timeout,
            class... Ts>
  auto request(const Handle& dest, Timeout timeout, Ts&&... xs) {
    // CAF 0.17.6 forgets the priority where the time is one of std::chrono's.
    const caf::duration patience(timeout);
    if (this->log_ == nullptr) [[likely]]
      return Base::template request<P>(dest, patience, std::forward<Ts>(xs)...);
    auto content = caf::make_message(xs...);
    auto answer = Base::template request<P>(dest, patience, std::forward<Ts>(xs)...);
    this->log_->said({fbs::ActorLogKind::asked,
                      caf::actor_cast<caf::strong_actor_ptr>(dest),
                      answer.id().integer_value(),
                      std::move(content),
                      {}});
    return answer;
  }

  void initialize() override {
    this->stats_->set_kind(this->name());
    const detail::log_scope scope(nullptr);
    Base::initialize();
    if (this->log_ != nullptr) this->log_->handled(clock_ns());
  }

  bool cleanup(caf::error&& reason, caf::execution_unit* host) override {
    const auto why = detail::text_of(reason);
    const bool abnormal = detail::is_abnormal(reason);
    if (!Base::cleanup(std::move(reason), host)) return false;
    this->stats_->ended(why, clock_ns());
    if (this->log_ != nullptr) this->log_->ended(why, clock_ns());
    this->runtime_->registry.remove(this->stats_);
    if (abnormal) this->runtime_->registry.report_death(*this->stats_, why);
    return true;
  }

 private:
  /// Handles a message while somebody listens (TRC-5).
  caf::invoke_message_result live(caf::mailbox_element& element) {
    struct told {
      traced* self;
      std::shared_ptr<actor_log> log;  // outlives the actor's death in the handler
      ~told() { log->handled(self->clock_ns()); }
    };
    this->log_->got(element, clock_ns());
    const auto request = element.mid.integer_value();
    if (element.mid.is_request() && element.sender)
      element.sender = detail::make_answer_tap(this->home_system(), std::move(element.sender),
                                               this->log_, request);
    const detail::log_scope scope(this->log_.get());
    const told at_the_end{this, this->log_};
    return handle(element);
  }

  caf::invoke_message_result handle(caf::mailbox_element& element) {
    const auto came_ns = came_.empty() ? 0 : came_.take(&element);
    auto h =
        detail::begin_handling(*this->runtime_, *this->stats_, element, left_in_mailbox(),
                               handled_until_ns_ != 0 ? handled_until_ns_ : clock_ns(), came_ns);
    auto outcome = caf::invoke_message_result::consumed;
    try {
      if (!refused(element, h.message)) outcome = Base::consume(element);
    } catch (...) {  // the actor dies of it; what it died of must stand in the black box
      h.record.flags |= record_flag::failed;
      end(h);
      throw;
    }
    if (outcome == caf::invoke_message_result::skipped) {
      detail::drop_handling(*this->runtime_, *this->stats_);
      if (came_ns != 0) came_.note(&element, came_ns);
    } else {
      end(h);
    }
    return outcome;
  }

  static const detail::call_rules& rules() {
    static const detail::call_rules found(service_of<Base>);
    return found;
  }

  /// TRC-7.
  void place(caf::mailbox_element& element) {
    if constexpr (service_of<Base>.empty()) return;
    if (!element.mid.is_request() || !element.sender || element.sender->nid == this->ctrl()->nid)
      return;
    const auto* m = detail::message_in(element);
    if (m != nullptr && rules().high_priority(m->type()))
      element.mid = element.mid.with_high_priority();
  }

  /// TRC-6.
  bool refused(const caf::mailbox_element& element, const any_msg* m) {
    if constexpr (service_of<Base>.empty()) return false;
    if (m == nullptr || element.mid.is_response() ||
        detail::is_of_its_epoch(rules().epoch(m->type()), this->epoch(), *m)) [[likely]]
      return false;
    detail::refuse_epoch(element, *m, this->epoch(), this->context());
    return true;
  }

  void end(detail::handling& h) {
    handled_until_ns_ = clock_ns();
    detail::end_handling(*this->runtime_, *this->stats_, h, left_in_mailbox(), handled_until_ns_);
  }

  /// As far as the actor has looked: it fetches what has come since after a few messages.
  uint32_t left_in_mailbox() {
    return static_cast<uint32_t>(this->get_urgent_queue().total_task_size() +
                                 this->get_normal_queue().total_task_size());
  }

  /// The actor clock; in production, which is real time, the quick way to it.
  int64_t clock_ns() {
    if (this->runtime_->network == nullptr) return fast_now_ns();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               this->home_system().clock().now().time_since_epoch())
        .count();
  }

  int64_t handled_until_ns_ = 0;  ///< 0: nothing in this turn yet
  detail::arrivals came_;
};

/// `self` of a behaviour: an actor of the typed handle `Handle` with `State`, traced.
template <class Handle, class State>
using traced_pointer = caf::stateful_actor<State, traced<typename Handle::base>>*;

}  // namespace troupe
