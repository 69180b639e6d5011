// The views of an observer: subscriptions to records, and the black box. See observer.hpp for the
// invariants.
#pragma once

#include "actors/control/observer.hpp"

namespace troupe::trace {

using observer_pointer = traced_pointer<observer_actor, observer_state>;

/// Tells the registry how it is.
void show(observer_pointer self);

caf::result<msg<fbs::TraceStarted>> begin_view(observer_pointer self, const msg<fbs::TraceStart>& m,
                                               const caf::strong_actor_ptr& viewer);
void grant(observer_pointer self, const msg<fbs::TraceMore>& m);
/// `why` empty: the viewer wanted it and is told nothing.
void end_view(observer_pointer self, uint64_t subscription, const std::string& why);
void viewer_gone(observer_pointer self, const caf::actor_addr& who);
/// Reads the recorder and sends what fits.
void look(observer_pointer self);

/// Writes a black box when an actor of the process dies of an error (OBS-4).
void watch_deaths(observer_pointer self);

/// Everything the rings hold, as a file; its path.
result<std::string> write_black_box(observer_pointer self, const std::string& reason);
/// The same for a message; answers with the path.
caf::result<msg<fbs::Ack>> dump_black_box(observer_pointer self, const msg<fbs::DumpBlackBox>& m);

}  // namespace troupe::trace
