// `troupe trace live` and `troupe trace record`, and a look for other verbs: see live.cpp.
#pragma once

#include "apps/control/session.hpp"
#include "apps/shell.hpp"
#include "trace/timeline.hpp"

namespace troupe::apps {

/// Registers them under `trace`.
void add_trace_live(shell& sh, command* trace);
void add_trace_record(shell& sh, command* trace);

/// What happens in the running cluster for so long, or until a person or the cluster ends it.
result<trace::timeline> timeline_of_cluster(const connect_options& connect, double seconds);

}  // namespace troupe::apps
