// The crash dumper: a child process that writes the black box of a process which can't any more,
// because a signal ended it: a bug, the kernel short of memory, a person's kill -9.
//
// It shares the flight memory (flight_memory.hpp), and outlives its parent by writing the box
// (io/survivor.hpp).
//
// Invariants
//   KEP-2  A box appears under its name only when it is whole.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <string>
#include <utility>

#include "actors/capture/flight_memory.hpp"
#include "io/base/result.hpp"
#include "io/survivor.hpp"

namespace troupe::trace {

/// Where the box of a process that was ended lies.
std::filesystem::path last_box_path(const std::filesystem::path& folder, const std::string& node,
                                    pid_t pid);

/// Writes what `remains` holds as the black box of process `pid`; its path. Messages that were
/// under its hands stand in it as failed, their time up to `now_ns`. Errors: io.
result<std::filesystem::path> write_last_box(const flight_remains& remains, pid_t pid,
                                             int64_t now_ns);

/// The parent's side.
class crash_dumper {
 public:
  /// Reserves the flight memory and makes the child. Only while the process has one thread. Errors:
  /// no_memory, io.
  static result<crash_dumper> start();

 private:
  explicit crash_dumper(io::survivor child) : child_(std::move(child)) {}

  io::survivor child_;
};

}  // namespace troupe::trace
