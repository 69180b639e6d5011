// Opens, locks, and looks at the name again, until they agree or nobody waits any longer.
#include "io/disk/shared_lock.hpp"

#include <cerrno>
#include <chrono>
#include <thread>

#include <sys/file.h>

namespace troupe::io {

namespace {

// A removal behind its exclusive lock, or a file that takes another's place, is some writes that
// are synced. Another user's lock may stay for ever.
constexpr int lock_tries = 20;
constexpr auto lock_pause = std::chrono::milliseconds(10);

}  // namespace

int lock_shared(int fd) {
  return ::flock(fd, LOCK_SH | LOCK_NB) == 0 ? 0 : errno;
}

lock_steps system_lock_steps() {
  return {lock_shared, [] { std::this_thread::sleep_for(lock_pause); }};
}

result<unique_fd> lock_to_read(const std::filesystem::path& file, const lock_steps& steps) {
  for (int tries_left = lock_tries - 1;; --tries_left) {
    TROUPE_TRY(fd, open_read(file));
    const int failure = steps.lock(fd.get());
    const bool is_taken = failure == EWOULDBLOCK;
    if (!is_taken && (failure != 0 || still_names(file, fd.get()))) return fd;
    if (tries_left == 0) return fd;  // RLK-2
    if (is_taken) steps.pause();
  }
}

}  // namespace troupe::io
