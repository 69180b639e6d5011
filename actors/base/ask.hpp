// Asking another actor: timeout and priority are those of the call's contract
// (messages/contract.hpp), and the registry knows of it. While a request is open, the asking
// actor's stats say whom it waits for and what is to come; the wait-for graph of a stuck cluster is
// made of these.
//
// Invariants
//   ASK-1  Exactly one of `ok` and `failed` is called, once, and the wait ends before it is; but
//     see ASK-4.
//   ASK-2  Every request has the timeout of its contract, or of the job where that names a key.
//   ASK-3  An urgent request is urgent within a process alone. CAF 0.17.6 gives whatever comes over
//     a link the normal priority, its answer's number too, which then fits no question; so it
//     leaves as a normal one, and the receiver's base gives it its place (TRC-7).
//   ASK-4  What was asked in an epoch that the asking actor has left since, of a call that belongs
//     to its epoch, is not answered to it any more: neither is called, and the answer is counted.
#pragma once

#include <cassert>
#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "actors/base/context.hpp"
#include "messages/contract.hpp"

namespace troupe {

/// The contract of telling a `Handle` a T. It must have one (CON-1).
template <class Handle, class T>
const call_info& contract_of() {
  static const call_info& found = [&]() -> const call_info& {
    static_assert(!service_of<Handle>.empty(), "an actor without a service");
    const auto* call = find_call(service_of<Handle>, message_traits<T>::id);
    assert(call != nullptr);
    return *call;
  }();
  return found;
}

/// Sends a request with what travels beside it; CAF's handle of the answer.
template <class Self, class Handle, class T, class... Beside>
auto request_within(Self* self, const Handle& target, std::chrono::milliseconds patience,
                    const msg<T>& m, const Beside&... beside) {
  const bool urgent =
      contract_of<Handle, T>().high_priority && target.node() == self->node();  // ASK-3
  return urgent
             ? self->template request<caf::message_priority::high>(target, patience, m, beside...)
             : self->request(target, patience, m, beside...);
}

/// As above, within the contract's timeout (ASK-2).
template <class Self, class Handle, class T, class... Beside>
auto request(Self* self, const Handle& target, const msg<T>& m, const Beside&... beside) {
  return request_within(self, target, self->timeouts().of(contract_of<Handle, T>()), m, beside...);
}

/// Whom one waits for, and for what, in words.
struct awaited {
  std::string whom;  ///< an actor's path, e.g. "worker/3"; with * where any of a kind may answer
  std::string what;  ///< "forward of micro-batch 2"
  /// In place of the contract's timeout, where the message says how long its answer may take.
  std::optional<std::chrono::milliseconds> patience = {};
};

/// Sends a tuple of message elements; calls `done(const result<msg<R>>&, const Beside&...)`, where
/// what comes beside an answer is empty with an error.
template <class R, class... Beside, class Self, class Handle, class T, class... Rest, class Done>
void ask_either(Self* self, const Handle& target, const std::tuple<msg<T>, Rest...>& elements,
                awaited wait, Done done) {
  const auto patience =
      wait.patience.value_or(self->timeouts().of(contract_of<Handle, T>()));  // ASK-2
  const auto rule = contract_of<Handle, T>().epoch;
  const auto id = self->stats().begin_wait(std::move(wait.whom), std::move(wait.what),
                                           now_ns(*self), rule == epoch_rule::any);
  const auto over = [self, id, rule, epoch = self->epoch()](uint16_t type) {
    self->stats().end_wait(id);
    if (rule == epoch_rule::any || self->epoch() == epoch) return false;
    note_rejection(reject::stale_epoch, type, "an answer to what was asked in another epoch");
    return true;  // ASK-4
  };
  auto on_reply = [over, done](const msg<R>& r, const Beside&... beside) mutable {
    if (!over(r.type())) done(result<msg<R>>(r), beside...);
  };
  auto on_error = [over, done](const caf::error& e) mutable {
    if (!over(message_traits<R>::id)) done(result<msg<R>>(from_caf(e)), Beside()...);
  };
  std::apply(
      [&](const auto&... parts) {
        request_within(self, target, patience, parts...)
            .then(std::move(on_reply), std::move(on_error));
      },
      elements);
}

/// As above; calls `ok(const msg<R>&)` or `failed(const error&)`, which counts as a failure of the
/// one who asks.
template <class R, class Self, class Handle, class Elements, class Ok, class Failed>
void ask_with(Self* self, const Handle& target, const Elements& elements, awaited wait, Ok ok,
              Failed failed) {
  ask_either<R>(
      self, target, elements, std::move(wait),
      [self, ok = std::move(ok), failed = std::move(failed)](const result<msg<R>>& answer) mutable {
        if (answer) return ok(*answer);
        self->stats().failed(answer.error().message);
        failed(answer.error());
      });
}

/// As above, of one message.
template <class R, class Self, class Handle, class T, class Ok, class Failed>
void ask_for(Self* self, const Handle& target, const msg<T>& m, awaited wait, Ok ok,
             Failed failed) {
  ask_with<R>(self, target, std::tuple(m), std::move(wait), std::move(ok), std::move(failed));
}

}  // namespace troupe
