// `troupe trace live` and `troupe trace record`: see live.cpp.
#pragma once

#include "apps/shell.hpp"

namespace troupe::apps {

/// Registers them under `trace`.
void add_trace_live(shell& sh, command* trace);
void add_trace_record(shell& sh, command* trace);

}  // namespace troupe::apps
