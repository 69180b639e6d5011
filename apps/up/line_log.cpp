// One write a line, so that what failed is known.
#include "apps/up/line_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <optional>

#include <fmt/format.h>

namespace troupe::apps {

namespace {

/// Whether a file that is there ends within a line, of a process before or of a power cut; none:
/// that is not known. A pipe is not opened to be read: its writer would take itself for its reader.
std::optional<bool> ends_torn(int fd, const std::string& path) {
  struct stat it {};
  if (fstat(fd, &it) != 0 || !S_ISREG(it.st_mode)) return std::nullopt;
  if (it.st_size == 0) return false;
  const io::unique_fd in(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char last = '\n';
  if (!in || pread(in.get(), &last, 1, it.st_size - 1) != 1) return std::nullopt;
  return last != '\n';
}

}  // namespace

status line_log::append(std::string_view line) {
  return write(fmt::format("{}\n", line));
}

status line_log::write(std::string text) {
  if (file_ && !io::still_names(path_, file_.get())) {  // LOG-3
    file_.reset();
    torn_ = false;
  }
  if (!file_) {
    file_.reset(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!file_) return error::system("open " + path_, errno);
    torn_ = ends_torn(file_.get(), path_).value_or(torn_);  // half a line may be cut off since
  }
  if (torn_) text.insert(0, 1, '\n');  // LOG-2
  ssize_t n = 0;
  do n = ::write(file_.get(), text.data(), text.size());
  while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(text.size())) {
    torn_ = false;
    return {};
  }
  const int why = n < 0 ? errno : ENOSPC;  // a short write to a file: there was no room for more
  if (n > 0) torn_ = text[static_cast<size_t>(n) - 1] != '\n';
  file_.reset();  // by its name it may be another one next time: moved away, mounted anew
  return error::system("write " + path_, why);
}

}  // namespace troupe::apps
