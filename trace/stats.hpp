// Statistics of a trace: how often, how much, how long on the way, in the mailbox and handled, per
// message type, per actor and per kind of work.
//
// Percentiles are exact, by nearest rank: the smallest recorded time that at least p % of all do
// not exceed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/timeline.hpp"

namespace troupe::trace {

/// Times of one group, in nanoseconds; all 0 for an empty one.
struct times {
  int64_t p50_ns = 0, p90_ns = 0, p99_ns = 0, max_ns = 0, sum_ns = 0;
};

/// The percentiles of some times; reorders them.
times times_of(std::vector<int64_t>& ns);

struct stats_row {
  std::string name;  ///< of the message type, the actor or the work
  uint64_t count = 0;
  uint64_t bytes = 0;    ///< of payload, or moved by the work
  uint64_t failed = 0;   ///< ended with an error
  uint32_t deepest = 0;  ///< most messages left in a mailbox when one had been handled
  times waiting;         ///< from sending to handling; of work: all 0
  times way;             ///< the part of it from sending to its coming into the process
  times mailbox;         ///< the rest of it
  times handling;
};

struct trace_stats {
  int64_t took_ns = 0;  ///< from the first record to the end of the last
  uint64_t records = 0;
  std::vector<stats_row> messages;   ///< by type, the longest sum of handling first
  std::vector<stats_row> actors;     ///< likewise
  std::vector<stats_row> works;      ///< likewise
  std::vector<std::string> remarks;  ///< timeline.hpp: remarks()
};

trace_stats stats_of(const timeline& t);

/// Tables for a person; `columns`: what the terminal has, 0: any. `most` rows a table, 0: all.
std::string stats_text(const trace_stats& s, int columns, size_t most);

/// One JSON object without a line end: {"type":"trace_stats","took_ns":...,"messages":[...],...}.
std::string stats_json(const trace_stats& s);

}  // namespace troupe::trace
