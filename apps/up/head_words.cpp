// Two words and a pipe.
#include "apps/up/head_words.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>

#include <fmt/format.h>

namespace troupe::apps {

head_says parse_head_words(std::string_view text) {
  constexpr std::string_view begun = "begun ";
  head_says out;
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    const auto line = text.substr(0, end);
    if (line == "saved") out.saved = true;
    if (!line.starts_with(begun)) continue;
    int64_t n = 0;
    const auto number = line.substr(begun.size());
    const auto [rest, wrong] = std::from_chars(number.data(), number.data() + number.size(), n);
    if (wrong == std::errc() && rest == number.data() + number.size() && n >= 0)
      out.restarts_per_hour = n;
  }
  return out;
}

head_words head_words::to_launcher() {
  head_words out;
  if (fcntl(head_words_fd, F_SETFD, FD_CLOEXEC) == 0) out.pipe_ = io::unique_fd(head_words_fd);
  return out;
}

void head_words::stepped(uint64_t saved_step, int64_t restarts_per_hour) {
  if (!saved_at_begin_) {
    saved_at_begin_ = saved_step;
    say(fmt::format("begun {}\n", restarts_per_hour));
  }
  if (saved_ || saved_step == *saved_at_begin_) return;
  saved_ = true;
  say("saved\n");
}

/// A few bytes fit into any pipe; a launcher that is gone takes this process along.
void head_words::say(std::string_view line) {
  if (!pipe_) return;
  [[maybe_unused]] const auto n = ::write(pipe_.get(), line.data(), line.size());
}

}  // namespace troupe::apps
