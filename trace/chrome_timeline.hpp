// Timelines of other trainers: Chrome's trace events as ByteDance's ndtimeline writes them, with
// the layout of the job beside them (the format of ByteDance-Seed/StragglerAnalysis:
// timeline-*.json, meta-*.yaml).
//
//   timeline := [ event* ]  or  {"traceEvents": [ event* ], ...}
//   event    := {"ph": "X", "name": operation, "pid": data rank, "tid": stream, "ts": us,
//                "dur": us, "args": {"step": n, "mb_id": n, "model_chunk": n, "seq_id": n}}
//             | {"ph": "M", "name": "thread_name", "pid": data rank, "tid": stream,
//                "args": {"name": "PP rank 1, TP rank 0, compute"}}
//             | anything of another ph or name, which is passed over
//   operation := forward-compute, backward-compute, forward-send, forward-recv, backward-send,
//                backward-recv, params-all-gather, grads-reduce-scatter,
//                layernorm-grads-all-reduce, embedding-grads-all-reduce,
//                optimizer-clip-main-grad, optimizer, gc
//
// Sends and receives do not say of which micro-batch they are: the k-th receive of a stage, in the
// order of begin, is of the k-th computation that has something to receive.
//
// Invariants
//   CHT-1  Nothing is kept of a document but numbers that are within their bounds; how long and how
//     deep it is, is bounded.
//   CHT-2  What is said of a damaged timeline names the event, counted from 1, or the line; of a
//     layout the line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"
#include "trace/whatif_graph.hpp"

namespace troupe::trace {

/// The longest timeline, inflated.
inline constexpr size_t max_chrome_bytes = size_t{1} << 31;

/// The longest layout.
inline constexpr size_t max_layout_bytes = 64 << 10;

/// How deep a timeline's JSON nests at most.
inline constexpr int max_chrome_depth = 8;

/// How many ranks there are on each axis, and parts of the model on each.
struct chrome_layout {
  int data = 1, pipeline = 1, chunks = 1;
};

/// Of "key: value" lines: dp_size, pp_size and vpp_size are needed; dsp_size, tp_size and
/// world_size, where given, must be numbers; trial_name and run_id are passed over. Errors:
/// bad_data (CHT-2).
result<chrome_layout> parse_chrome_layout(std::string_view yaml);

/// The operations of a timeline. Errors: bad_data (CHT-2).
result<std::vector<whatif_span>> parse_chrome_timeline(std::string_view json,
                                                       const chrome_layout& layout);

/// As the above, of files; the timeline may be gzip's. Errors: those, and of io::read_file.
result<chrome_layout> read_chrome_layout(const std::filesystem::path& path);
result<std::vector<whatif_span>> read_chrome_timeline(const std::filesystem::path& path,
                                                      const chrome_layout& layout);

}  // namespace troupe::trace
