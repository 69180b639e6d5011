// The verbs of `troupe trace`, and what they share.
#pragma once

#include <string>
#include <vector>

#include "apps/control/session.hpp"
#include "apps/shell.hpp"
#include "trace/timeline.hpp"

namespace troupe::apps {

/// Register them under `trace`.
void add_trace_live(shell& sh, command* trace);
void add_trace_record(shell& sh, command* trace);
void add_trace_export(shell& sh, command* trace);
void add_trace_stats(shell& sh, command* trace);
void add_trace_stragglers(shell& sh, command* trace);
void add_trace_why(shell& sh, command* trace);

/// What happens in the running cluster for so long, or until a person or the cluster ends it.
result<trace::timeline> timeline_of_cluster(const connect_options& connect, double seconds);

/// The timeline of one or more files; tells a person where a file is damaged. Errors: those of
/// trace::read_traces.
result<trace::timeline> timeline_of(const std::vector<std::string>& files);

}  // namespace troupe::apps
