// Words and numbers.
#include "apps/up/head_words.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace troupe::apps {

namespace {

/// The field behind the word, if it is a number and there is no other.
std::optional<uint64_t> number_of(const packet& words) {
  if (words.size() != 2) return {};
  const auto& text = words[1];
  uint64_t n = 0;
  const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (wrong != std::errc() || rest != text.data() + text.size()) return {};
  return n;
}

}  // namespace

bool take_head_words(const packet& words, head_says& said) {
  const std::string_view word = words.empty() ? std::string_view() : words.front();
  const auto n = number_of(words);
  if (word == "saved") said.saved = true;
  if (word == "begun" && n && *n <= INT64_MAX) said.restarts_per_hour = static_cast<int64_t>(*n);
  if (word == "port" && n && *n <= UINT16_MAX) said.port = static_cast<uint16_t>(*n);
  if (word == "step" && n) {
    said.step = *n;
    said.furthest = std::max(said.furthest, *n);
  }
  return word == "saved" || word == "begun" || word == "port" || word == "step";
}

void head_words::stepped(uint64_t step, uint64_t saved_step, int64_t restarts_per_hour) {
  if (!saved_at_begin_) {
    saved_at_begin_ = saved_step;
    line_->tell({"begun", std::to_string(restarts_per_hour)});
  }
  line_->tell({"step", std::to_string(step)});
  if (saved_ || saved_step == *saved_at_begin_) return;
  saved_ = line_->tell({"saved"});
}

}  // namespace troupe::apps
