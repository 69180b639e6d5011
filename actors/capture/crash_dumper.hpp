// The crash dumper: a child process that writes the black box of a process which can't any more,
// because a signal ended it: a bug, the kernel short of memory, a person's kill -9.
//
// It is made before the first thread, shares the flight memory (flight_memory.hpp), holds
// nothing else of its parent, and sleeps until the parent's end of a pipe is closed. If the parent
// said goodbye through it, the crash dumper just ends.
//
// Invariants
//   KEP-1  It ends with its parent: at once after an orderly end, else when the box is written.
//   KEP-2  A box appears under its name only when it is whole.
//   KEP-3  It survives what ends the parent: a session of its own, no signals of the terminal.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <string>

#include "actors/capture/flight_memory.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"

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

  crash_dumper(crash_dumper&& other) noexcept;
  crash_dumper& operator=(crash_dumper&&) = delete;
  /// Says goodbye and waits for the child's end (KEP-1).
  ~crash_dumper();

 private:
  crash_dumper(io::unique_fd goodbye, pid_t child) : goodbye_(std::move(goodbye)), child_(child) {}

  io::unique_fd goodbye_;
  pid_t child_;
};

}  // namespace troupe::trace
