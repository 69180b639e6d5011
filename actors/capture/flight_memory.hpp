// Flight memory: where the flight recorder writes when somebody shall read it after our death.
//
// A process that a signal ends writes nothing any more. So its rings, and what one needs to
// understand them (the names of actors and of work, the clock), lie in memory shared with a crash
// dumper (crash_dumper.hpp): a child made before the first thread, which outlives it.
//
// Invariants
//   FLT-1  It is reserved once, before the first record and the first thread. Without it the rings
//     lie on the heap and nothing else changes.
//   FLT-2  Writing to it never waits and never fails: what has no room is left out.
//   FLT-3  A reader believes nothing: the writer may have died within any of its words. Numbers
//     are bounded, texts end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/capture/recorder.hpp"
#include "io/base/result.hpp"

namespace troupe {

/// Reserves it for this process: address space, of which only what is written becomes memory.
/// Errors: no_memory. A second call does nothing.
status reserve_flight_memory();

namespace detail {

/// Zeroed memory of one ring; nullptr without flight memory, and when all of it is taken.
uint64_t* take_flight_ring() noexcept;

void note_actor(uint32_t number, uint64_t parent, std::string_view path,
                std::string_view kind) noexcept;
void note_work_name(uint16_t number, std::string_view name) noexcept;
void note_clock(clock_relation now) noexcept;
void note_process(uint32_t tag) noexcept;

}  // namespace detail

/// Whose it is and where a black box belongs. Any time after the reservation.
void sign_flight_memory(std::string_view node, std::string_view host, std::string_view folder);

/// What a process left.
struct flight_remains {
  struct actor {
    uint32_t number = 0;
    uint64_t parent = 0;
    std::string path, kind;
  };
  std::string node, host, folder;
  uint32_t process = 0;  ///< its process_tag()
  clock_relation clock;
  std::vector<trace_record> records;  ///< in the order of their begin
  /// The messages that its threads had under their hands, without an end. Whoever died, died of one
  /// of these or outside of all actors.
  std::vector<trace_record> unfinished;
  std::vector<actor> actors;
  std::vector<std::string> works;  ///< from number 1
  uint64_t lost = 0;               ///< records that had been overwritten
};

/// Reads it, in this process or in a child of it (FLT-3). Empty without flight memory.
flight_remains read_flight_memory();

}  // namespace troupe
