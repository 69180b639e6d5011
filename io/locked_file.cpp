// Asked for again and again: the kernel's lock has no timeout. See locked_file.hpp.
#include "io/locked_file.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include <fmt/format.h>

namespace troupe::io {

std::filesystem::path behind_links(const std::filesystem::path& file) {
  std::error_code code;
  auto out = std::filesystem::canonical(file, code);
  return code ? file : out;
}

result<unique_fd> open_locked(const std::filesystem::path& file,
                              std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds pause{10};
  for (auto waited = pause * 0;; waited += pause) {
    unique_fd fd{::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666)};
    if (!fd) return error::system(fmt::format("open {}", file.string()), errno);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      if (still_names(behind_links(file), fd.get())) return fd;  // LKF-1
    } else if (errno == ENOSYS || errno == ENOLCK || errno == EOPNOTSUPP) {
      return fd;
    } else if (errno != EINTR && errno != EWOULDBLOCK) {
      return error::system(fmt::format("lock {}", file.string()), errno);
    }
    if (waited >= patience) return unique_fd{};
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace troupe::io
