// Three words and a pipe.
#include "apps/up/head_words.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include <fmt/format.h>

namespace troupe::apps {

namespace {

/// The number behind a word and a blank, if the line is just that.
std::optional<uint64_t> number_after(std::string_view word, std::string_view line) {
  if (!line.starts_with(word)) return {};
  uint64_t n = 0;
  const auto number = line.substr(word.size());
  const auto [rest, wrong] = std::from_chars(number.data(), number.data() + number.size(), n);
  if (wrong != std::errc() || rest != number.data() + number.size()) return {};
  return n;
}

}  // namespace

void take_head_words(std::string& text, head_says& said) {
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const auto line = std::string_view(text).substr(begin, end - begin);
    if (line == "saved") said.saved = true;
    if (const auto n = number_after("begun ", line); n && *n <= INT64_MAX)
      said.restarts_per_hour = static_cast<int64_t>(*n);
    if (const auto n = number_after("step ", line)) {
      said.step = *n;
      said.furthest = std::max(said.furthest, *n);
    }
  }
  text.erase(0, begin);
}

head_words head_words::to_launcher() {
  head_words out;
  if (fcntl(head_words_fd, F_SETFD, FD_CLOEXEC) == 0) out.pipe_ = io::unique_fd(head_words_fd);
  return out;
}

void head_words::stepped(uint64_t step, uint64_t saved_step, int64_t restarts_per_hour) {
  if (!saved_at_begin_) {
    saved_at_begin_ = saved_step;
    say(fmt::format("begun {}\n", restarts_per_hour));
  }
  say(fmt::format("step {}\n", step));
  if (saved_ || saved_step == *saved_at_begin_) return;
  saved_ = say("saved\n");
}

/// A launcher that does not read (it stands still) misses what does not fit into the pipe; one that
/// is gone takes this process along.
bool head_words::say(std::string_view line) {
  return pipe_ && ::write(pipe_.get(), line.data(), line.size()) == std::ssize(line);
}

}  // namespace troupe::apps
