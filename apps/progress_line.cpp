// One line, written over.
#include "apps/progress_line.hpp"

#include <unistd.h>

#include "apps/talk.hpp"

namespace troupe::apps {

progress_line::progress_line() : terminal_(isatty(STDERR_FILENO) == 1) {}

progress_line::~progress_line() {
  clear();
}

bool progress_line::due() const {
  return terminal_ && std::chrono::steady_clock::now() - last_ >= std::chrono::milliseconds(100);
}

void progress_line::tell(const std::string& what) {
  if (!terminal_) return;
  last_ = std::chrono::steady_clock::now();
  say_as_is("\r\x1b[K" + what);
}

void progress_line::clear() const {
  if (terminal_) say_as_is("\r\x1b[K");
}

}  // namespace troupe::apps
