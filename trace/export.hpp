// Traces for other tools.
//
//   Perfetto   Chrome's JSON trace events, for ui.perfetto.dev: a process per node, a track per
//              actor, tracks for its devices and links, arrows for messages, counters for
//              mailboxes.
//              (Trace Event Format, Google, 2016; perfetto.dev/docs/getting-started/other-formats)
//   OTLP       the JSON encoding of an OTLP/HTTP trace export request, which a collector takes at
//              /v1/traces. (opentelemetry.io/docs/specs/otlp, JSON Protobuf encoding)
//   Mermaid    a sequence diagram of one trace, for docs.
//   CSV        one line a record, for everything else. (RFC 4180)
//
// Invariants
//   EXP-1  Slices of a Perfetto track nest: what overlaps goes to a track of its own.
//   EXP-2  An arrow is written only where both of its ends lie in slices.
//   EXP-3  OTLP ids are lower-case hex, 32 and 16 digits, never all zeros, and no two spans share
//     one. Records without a span (CAF's own messages) are left out and counted.
#pragma once

#include <cstdint>

#include "trace/export_text.hpp"
#include "trace/timeline.hpp"

namespace troupe::trace {

/// Errors: the sink's.
status export_perfetto(const timeline& t, text_sink sink);

struct otlp_options {
  std::string service = "troupe";  ///< service.name of the resources
};

/// Times are Unix times where the trace knows them, else times of the coordinator's clock.
/// Errors: the sink's. Gives the number of records left out (EXP-3).
result<uint64_t> export_otlp(const timeline& t, const otlp_options& options, text_sink sink);

struct mermaid_options {
  uint64_t trace = 0;  ///< whose messages; a step's span for a step
  size_t most = 200;   ///< messages shown; what is left out is noted in the diagram
};

/// Errors: the sink's; not_found where the trace id has no message.
status export_mermaid(const timeline& t, const mermaid_options& options, text_sink sink);

/// Errors: the sink's.
status export_csv(const timeline& t, text_sink sink);

}  // namespace troupe::trace
