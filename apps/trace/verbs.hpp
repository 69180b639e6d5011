// The verbs of `troupe trace`, and what those on finished traces share.
#pragma once

#include <string>
#include <vector>

#include "apps/shell.hpp"
#include "trace/timeline.hpp"

namespace troupe::apps {

/// Register them under `trace`.
void add_trace_live(shell& sh, command* trace);
void add_trace_record(shell& sh, command* trace);
void add_trace_export(shell& sh, command* trace);
void add_trace_stats(shell& sh, command* trace);
void add_trace_why(shell& sh, command* trace);

/// The timeline of one or more files; tells a person where a file is damaged. Errors: those of
/// trace::read_traces.
result<trace::timeline> timeline_of(const std::vector<std::string>& files);

}  // namespace troupe::apps
