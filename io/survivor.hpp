// A child process that does one thing once its parent was ended: by a signal, by the kernel short
// of memory, or since it could not end in order.
//
// It is made before the first thread, holds nothing of its parent but what it is to do, and sleeps
// until the parent's end of a pair of sockets is closed. If the parent said goodbye through it, the
// child just ends.
//
// Invariants
//   SRV-1  It ends with its parent: at once after an orderly end, else when its work is done.
//   SRV-2  It survives what ends the parent: a session of its own, no signals of the terminal.
//   SRV-3  It stays in no folder, whose disk could not be unmounted then: `work` names files by
//     absolute paths.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::io {

/// The parent's side.
class survivor {
 public:
  /// Makes the child. Only while the process has one thread. `name` says what it is, in `ps` and
  /// errors; `work` is done in the child, with the parent's id. Errors: io.
  static result<survivor> start(const std::string& name, const std::function<void(pid_t)>& work);

  survivor(survivor&& other) noexcept;
  survivor& operator=(survivor&&) = delete;
  /// Says goodbye and waits for the child's end (SRV-1).
  ~survivor();

 private:
  survivor(unique_fd goodbye, pid_t child) : goodbye_(std::move(goodbye)), child_(child) {}

  unique_fd goodbye_;
  pid_t child_;
};

}  // namespace troupe::io
