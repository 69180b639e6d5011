// What every actor does the same way: stamping its messages, talking of its errors, answering
// Status.
//
// Time comes from the actor clock and spans from a counter, so that a simulated run repeats itself
// exactly.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/local_actor.hpp>

#include "messages/actors.hpp"
#include "messages/errors.hpp"
#include "messages/receive.hpp"
#include "messages/rejection.hpp"

namespace troupe {

/// A new span id: unique in the process, never 0.
inline uint64_t next_span() noexcept {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

/// The actor clock, nanoseconds. Virtual in simulation.
inline int64_t now_ns(caf::local_actor& self) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(self.clock().now().time_since_epoch())
      .count();
}

/// The context of a message that starts something.
inline message_context context_of(caf::local_actor& self, uint32_t epoch) {
  message_context c;
  c.span = next_span();
  c.sender = self.id();
  c.now_ns = now_ns(self);
  c.epoch = epoch;
  return c;
}

/// The context of a message caused by one with the header `cause`: same trace, same epoch.
inline message_context context_of(caf::local_actor& self, const message_header& cause) {
  auto c = message_context::caused_by(cause, next_span());
  c.sender = self.id();
  c.now_ns = now_ns(self);
  return c;
}

/// The answer to StatusRequest. `detail` is JSON text.
inline msg<fbs::Status> status_of(caf::local_actor& self, const msg<fbs::StatusRequest>& request,
                                  std::string actor, std::string state, std::string detail,
                                  int64_t since_ns) {
  return make_msg<fbs::Status>(context_of(self, request.header()), [&](fbs::StatusT& s) {
    s.actor = std::move(actor);
    s.state = std::move(state);
    s.detail = std::move(detail);
    s.since_ns = since_ns == 0 ? 0 : now_ns(self) - since_ns;
  });
}

}  // namespace troupe
