// Drawing the bar.
#include "apps/ckpt/progress_bar.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "apps/ckpt/verbs.hpp"
#include "apps/talk.hpp"
#include "io/base/text.hpp"

namespace troupe::apps::ckpt {

progress_bar::progress_bar(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) == 1) {}

progress_bar::~progress_bar() {
  if (terminal_) say_as_is("\r\x1b[K");
}

io::checkpoint::progress progress_bar::callback() {
  return [this](uint64_t done, uint64_t total) {
    draw(done, total);
    return true;
  };
}

void progress_bar::draw(uint64_t done, uint64_t total) {
  const auto now = clock::now();
  if (!terminal_ || (now - last_ < std::chrono::milliseconds(100) && done < total)) return;
  last_ = now;
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0;
  const double seconds = std::max(1e-3, std::chrono::duration<double>(now - began_).count());
  const auto width =
      static_cast<size_t>(std::clamp(terminal_columns(STDERR_FILENO, 80) - 50, 10, 40));
  const auto full = static_cast<size_t>(share * static_cast<double>(width));
  say_as_is(fmt::format("\r\x1b[K{} [{}{}] {} of {}  {:.1f} GB/s", what_, std::string(full, '#'),
                        std::string(width - std::min(width, full), '-'), bytes_text(done),
                        bytes_text(total), static_cast<double>(done) / seconds / 1e9));
}

}  // namespace troupe::apps::ckpt
