// A timeline: the records of all processes of a trace in one order, on the coordinator's clock,
// with names, and with the ways from a message to its cause and to what it caused.
//
// Why: records are written by each process for itself: numbers for names, its own clock, spans
// whose other end lies elsewhere. Whoever reads a trace (statistics, critical path, exports) wants
// none of that.
//
// Invariants
//   TL-1  Times are the coordinator's. Within a process the order of its own clock is kept; between
//     processes they are right to within bound_ns().
//   TL-2  Nothing is left out or made up silently: what is unknown or odd is in counts().
//   TL-3  An actor handles one message at a time: its handlings do not overlap, but for counted
//     exceptions (counts().overlaps).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/trace_file.hpp"

namespace troupe::trace {

/// An index that is none.
inline constexpr uint32_t nothing = std::numeric_limits<uint32_t>::max();

/// A process of the trace.
struct timeline_process {
  uint32_t number = 0;  ///< in keys and spans
  std::string node;     ///< its node's name; "head" is the coordinator's process
  std::string host;
  uint32_t pid = 0;
  int64_t bound_ns = -1;  ///< how wrong its times may be against the coordinator's, -1: unknown
  uint64_t lost = 0, dropped = 0;
};

/// An actor that appears in the trace.
struct timeline_actor {
  uint64_t key = 0;
  std::string path;  ///< "stage/0"; "head/#12" where no batch named it
  std::string kind;
  uint64_t parent = 0;   ///< key of the actor that spawned it, 0: none or unknown
  uint32_t process = 0;  ///< index, `nothing`: no batch came from it
  bool named = false;
};

/// A record in its place.
struct timeline_event {
  trace_record record;
  int64_t begin_ns = 0, end_ns = 0;  ///< coordinator's clock
  /// When it was sent, on the coordinator's clock; of work: its begin. May lie after begin_ns, by
  /// as much as the clocks are wrong.
  int64_t sent_ns = 0;
  /// When it came into the process of who handled it; of what was sent there, when it was sent.
  int64_t received_ns = 0;
  uint32_t actor = 0;         ///< index of who handled it or for whom the work was done
  uint32_t sender = nothing;  ///< index of who sent it; `nothing`: outside of actors, or work
  uint32_t process = 0;       ///< index
  uint32_t name = 0;          ///< index: see timeline::name()

  bool is_work() const noexcept { return record.kind == record_kind::work; }
  bool has(uint8_t flag) const noexcept { return (record.flags & flag) != 0; }
  int64_t took_ns() const noexcept { return end_ns - begin_ns; }
  /// From sending to handling: on the way, then in the mailbox.
  int64_t waited_ns() const noexcept { return std::max<int64_t>(0, begin_ns - sent_ns); }
  int64_t on_the_way_ns() const noexcept { return std::max<int64_t>(0, received_ns - sent_ns); }
  int64_t in_mailbox_ns() const noexcept { return std::max<int64_t>(0, begin_ns - received_ns); }
};

/// The value of something at a moment.
struct timeline_counter {
  int64_t at_ns = 0;   ///< coordinator's clock
  uint32_t actor = 0;  ///< index of who measured it
  uint32_t name = 0;   ///< index: see timeline::name()
  double value = 0;
};

/// One training step: the root of a causal tree.
struct timeline_step {
  uint64_t number = 0;  ///< from 1
  uint64_t span = 0;    ///< also the trace id of all that belongs to it
  uint32_t event = 0;
};

/// What is odd about a trace, in numbers.
struct timeline_counts {
  uint64_t unnamed_actors = 0;   ///< that appear but no batch names them
  uint64_t unknown_parents = 0;  ///< records whose cause has no record and is no step
  uint64_t unknown_senders = 0;  ///< records from actors of processes without a batch
  uint64_t before_sent = 0;      ///< handled before they were sent by more than the clocks' error
  uint64_t overlaps = 0;         ///< handlings that begin before the actor's last one ended
  uint64_t duplicates = 0;       ///< records that stand there twice; one of each is kept
  uint64_t lost = 0;             ///< overwritten in rings before they were read
  uint64_t dropped = 0;          ///< left out for want of room or credit
  uint64_t bad_messages = 0;     ///< payloads that did not decode
};

class timeline {
 public:
  static timeline build(trace_contents contents);

  /// In the order of begin_ns.
  const std::vector<timeline_event>& events() const noexcept { return events_; }
  const timeline_event& event(uint32_t index) const { return events_[index]; }
  const std::vector<timeline_process>& processes() const noexcept { return processes_; }
  const std::vector<timeline_actor>& actors() const noexcept { return actors_; }
  const timeline_counts& counts() const noexcept { return counts_; }
  /// In the order of their numbers.
  const std::vector<timeline_step>& steps() const noexcept { return steps_; }
  /// In the order of at_ns.
  const std::vector<timeline_counter>& counters() const noexcept { return counters_; }

  /// First begin and last end; 0, 0 without records.
  int64_t begin_ns() const noexcept { return begin_ns_; }
  int64_t end_ns() const noexcept { return end_ns_; }
  /// How wrong times of different processes may be against each other: the sum of the two largest
  /// bounds; nothing where one is unknown.
  std::optional<int64_t> bound_ns() const;
  /// What to add to the coordinator's clock to have Unix time.
  std::optional<int64_t> unix_offset_ns() const noexcept { return unix_offset_ns_; }

  /// "RunStep", "forward", "system" for CAF's own, "0x0a01" for an unknown message.
  const std::string& name(const timeline_event& e) const { return names_[e.name]; }
  /// "gpu0 W".
  const std::string& name(const timeline_counter& c) const { return names_[c.name]; }
  /// The path of an actor; "outside" for `nothing`.
  const std::string& path(uint32_t actor) const;

  // -- ways; all give indices of events, in the order of begin_ns ---------------------------------

  /// Records with this span: one, or several where a message was passed on as it was.
  std::vector<uint32_t> with_span(uint64_t span) const;
  /// Records whose parent is this span.
  std::vector<uint32_t> caused_by(uint64_t span) const;
  /// Records of a trace id.
  std::vector<uint32_t> of_trace(uint64_t trace) const;
  /// What an actor handled, and the work done for it.
  const std::vector<uint32_t>& handled_by(uint32_t actor) const { return handled_[actor]; }
  const std::vector<uint32_t>& work_of(uint32_t actor) const { return work_[actor]; }

  /// The handling of `actor` in which `at_ns` lies, give or take `within_ns`; `nothing` if none.
  uint32_t handling_at(uint32_t actor, int64_t at_ns, int64_t within_ns) const;
  /// The handling in which a message was sent; `nothing` where it has no record.
  uint32_t sent_in(const timeline_event& e) const;
  /// How far the clocks of a process's threads differ (FCK-1), and a duration is rounded.
  static constexpr int64_t slack_ns = 1'000;

 private:
  friend class timeline_builder;

  using key_index = std::vector<std::pair<uint64_t, uint32_t>>;  // sorted
  static std::vector<uint32_t> look_up(const key_index& index, uint64_t key);

  std::vector<timeline_event> events_;
  std::vector<timeline_process> processes_;
  std::vector<timeline_actor> actors_;
  std::vector<timeline_step> steps_;
  std::vector<timeline_counter> counters_;
  std::vector<std::string> names_;
  std::vector<std::vector<uint32_t>> handled_, work_;  // by actor
  key_index by_span_, by_parent_, by_trace_;
  timeline_counts counts_;
  int64_t begin_ns_ = 0, end_ns_ = 0;
  std::optional<int64_t> unix_offset_ns_;
};

/// Says in a sentence or two how far a trace can be believed: clocks, losses, oddities. One line
/// each.
std::vector<std::string> remarks(const timeline& t);

/// One process's clock against the coordinator's over time: straight lines between what its batches
/// say. Keeps the order of times (TL-1).
class clock_line {
 public:
  /// At `at_ns` of the process's clock this was to add.
  void add(int64_t at_ns, int64_t offset_ns, int64_t bound_ns);
  /// As add(), where it is not known when; used where nothing better is.
  void suppose(int64_t offset_ns, int64_t bound_ns);
  /// After the last add().
  void finish();
  /// The coordinator's time.
  int64_t map(int64_t at_ns) const;
  /// The largest bound of the anchors in use, -1: unknown.
  int64_t bound_ns() const noexcept { return bound_ns_; }

 private:
  struct anchor {
    int64_t at_ns, mapped_ns, bound_ns;
  };
  std::vector<anchor> anchors_;
  std::optional<anchor> supposed_;
  int64_t bound_ns_ = -1;
};

}  // namespace troupe::trace
