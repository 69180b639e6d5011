// A reader's lock on the file that a name leads to. Whoever removes that file, or puts another in
// its place (SV-10), locks it exclusively meanwhile: a reader that comes then is to have the lock
// of the file that it will read.
//
// Invariants
//   RLK-1  Once a file is locked, its name is looked at again: where that leads to another one by
//     now, the other one is opened and locked.
//   RLK-2  Nobody waits for long, and where nothing can be locked nobody waits at all: the file is
//     then open without a lock.
#pragma once

#include <filesystem>
#include <functional>

#include "io/file.hpp"

namespace troupe::io {

/// What a lock is made of.
struct lock_steps {
  std::function<int(int fd)> lock;  ///< takes it without waiting; 0, or the number of an error
  std::function<void()> pause;      ///< before it is tried again, where somebody else has it
};

/// A shared lock by flock(); 0, or errno.
int lock_shared(int fd);

/// The machine's: a try each 10 ms.
lock_steps system_lock_steps();

/// Opens a file to read it, and locks it if that can be. Errors: as of open_read().
result<unique_fd> lock_to_read(const std::filesystem::path& file, const lock_steps& steps);

}  // namespace troupe::io
