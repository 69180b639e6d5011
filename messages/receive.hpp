// What every receiving actor does with what it has no handler for: refuse it.
//
//   guard_mailbox(self);  // when the actor starts
//
// RC-1  A message no handler matches is counted and answered with an error; it never ends the
//       actor.
#pragma once

#include <caf/message.hpp>
#include <caf/message_view.hpp>
#include <caf/result.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/type_erased_tuple.hpp>

#include "io/base/error_kind.hpp"
#include "messages/any_msg.hpp"
#include "messages/errors.hpp"

namespace troupe {

/// What a message that no handler took is answered: its types, or that it could not be decoded.
inline constexpr error_kind<std::string_view> no_handler{"no_handler", errc::bad_data,
                                                         "no handler for ({})"};
inline constexpr error_kind<> undecodable_message{"undecodable_message", errc::bad_data,
                                                  "the message could not be decoded",
                                                  "both sides must run the same version"};

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

}  // namespace troupe
