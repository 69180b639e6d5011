// What every receiving actor does before its handlers: refuse what cannot be handled, drop what is
// out of date.
//
//   guard_mailbox(self);                        // when the actor starts
//   if (!self->state.epoch.accepts(m)) return;  // first in a handler
//
// RC-1  A message no handler matches is counted and answered with an error; it never ends the
//       actor.
// RC-2  A message of an older epoch than the receiver's is counted and dropped; one of a newer
//       epoch is accepted, since the news of it may travel by another path.
#pragma once

#include <cstdint>

#include <caf/message.hpp>
#include <caf/message_view.hpp>
#include <caf/result.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/type_erased_tuple.hpp>

#include "messages/any_msg.hpp"
#include "messages/errors.hpp"

namespace troupe {

/// Counts a message that no handler took and says what to answer (RC-1). An empty one could not be
/// decoded.
error refuse_unhandled(caf::actor_system& system, const caf::type_erased_tuple& content);

/// Makes an actor refuse what it has no handler for instead of printing it.
template <class Self>
void guard_mailbox(Self* self) {
  self->set_default_handler(
      [](caf::scheduled_actor* me, caf::message_view& view) -> caf::result<caf::message> {
        return to_caf(refuse_unhandled(me->system(), view.content()));
      });
}

/// The epoch a receiver lives in.
class epoch_gate {
 public:
  explicit epoch_gate(uint32_t epoch = 0) : epoch_(epoch) {}

  /// The receiver's epoch.
  uint32_t epoch() const { return epoch_; }

  /// Moves on to an epoch; an epoch never falls.
  void advance(uint32_t epoch) {
    if (epoch > epoch_) epoch_ = epoch;
  }

  /// False for a message of an epoch that has ended, which is counted (RC-2). `type` is for the log
  /// line.
  bool accepts(uint32_t epoch, uint16_t type = 0) const;

  /// False for a message of an epoch that has ended, which is counted (RC-2). The message must not
  /// be empty.
  bool accepts(const any_msg& m) const { return accepts(m.epoch(), m.type()); }

 private:
  uint32_t epoch_;
};

}  // namespace troupe
