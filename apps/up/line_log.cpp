// One write a line, so that what failed is known.
#include "apps/up/line_log.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>

#include <fmt/format.h>

namespace troupe::apps {

status line_log::append(std::string_view line) {
  return write(fmt::format("{}{}\n", torn_ ? "\n" : "", line));  // LOG-2
}

status line_log::write(std::string text) {
  if (file_ && !io::still_names(path_, file_.get())) {  // LOG-3
    file_.reset();
    torn_ = false;
  }
  if (!file_) file_.reset(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file_) return error::system("open " + path_, errno);
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
