// What every actor does the same way: stamping its messages, telling the registry how it is,
// answering Status.
//
// Time comes from the actor clock and spans from a counter, so that a simulated run repeats itself
// exactly.
#pragma once

#include <chrono>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/local_actor.hpp>

#include "actors/base/traced.hpp"
#include "actors/capture/identities.hpp"
#include "messages/actors.hpp"
#include "messages/errors.hpp"
#include "messages/receive.hpp"
#include "messages/rejection.hpp"
#include "messages/status_rows.hpp"

namespace troupe {

inline constexpr int64_t ns_per_ms = 1'000'000;

/// A time as the actor clock counts it.
constexpr int64_t ns_of(std::chrono::nanoseconds time) {
  return time.count();
}

/// The actor clock, nanoseconds. Virtual in simulation; what was recorded in a replay.
inline int64_t now_ns(caf::local_actor& self) {
  const int64_t ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(self.clock().now().time_since_epoch())
          .count();
  auto* kept = detail::current_log;
  return kept == nullptr ? ns : kept->read_clock(ns);
}

/// The key of the actor whose code runs, 0 outside of traced actors.
inline uint64_t own_key() noexcept {
  const auto* stats = current_stats();
  return stats != nullptr ? stats->key() : 0;
}

/// The context of a message that starts something: the first of a new trace.
inline message_context context_of(caf::local_actor& self, uint32_t epoch) {
  message_context c;
  c.span = c.trace_low = next_span();
  c.sender = own_key();
  c.now_ns = now_ns(self);
  c.epoch = epoch;
  count_message_made();
  return c;
}

/// The context of a message caused by one with the header `cause`: same trace, same epoch.
inline message_context context_of(caf::local_actor& self, const message_header& cause) {
  auto c = message_context::caused_by(cause, next_span());
  c.sender = own_key();
  c.now_ns = now_ns(self);
  count_message_made();
  return c;
}

/// The context of a message that is part of some work with a span of its own (a step): `root` is
/// that span, and its trace.
inline message_context context_within(caf::local_actor& self, uint32_t epoch, uint64_t root) {
  auto c = context_of(self, epoch);
  c.trace_low = c.parent = root;
  return c;
}

/// Tells the registry who this is: "stage/3", and in which epoch it lives (0: none yet). First in a
/// behaviour.
template <class Self>
void introduce(Self* self, std::string path, uint32_t epoch = 0) {
  self->live_in(epoch);
  self->stats().set_path(std::move(path));
  self->begin_log();
}

namespace detail {
template <class Change, class T>
T changed_by(void (Change::*)(T&) const);
}

/// Tells the registry how this actor is, in one word.
template <class Self>
void publish(Self* self, std::string state) {
  self->stats().publish(std::move(state), now_ns(*self));
}

/// Tells the registry what this actor says of itself: `change` sets values of its kind, e.g.
/// `[&](fbs::LoaderStatusT& s) { s.filled = 3; }`; the others stay.
template <class Self, class Change>
void publish_values(Self* self, Change change) {
  using kind = decltype(detail::changed_by(&Change::operator()));
  self->stats().publish([&](fbs::StatusValuesT& values) { change(values_of<kind>(values)); });
}

/// Both.
template <class Self, class Change>
void publish(Self* self, std::string state, Change change) {
  publish(self, std::move(state));
  publish_values(self, std::move(change));
}

/// The handler of StatusRequest: the actor's own stats, as the observer would show it.
template <class Self>
auto status_handler(Self* self) {
  return [self](const msg<fbs::StatusRequest>& m) {
    const auto context = context_of(*self, m.header());
    auto info = info_of(self->stats().view(), now_ns(*self));
    return make_msg<fbs::Status>(context, [&](fbs::StatusT& s) {
      s.actor = info->path;
      s.state = info->state;
      s.since_ns = info->state_for_ns;
      s.values = std::move(info->values);
      s.handled = info->handled;
      s.failed = info->failed;
      s.waits = std::move(info->waits);
    });
  };
}

}  // namespace troupe
