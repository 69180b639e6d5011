// One walk over the line.
#include "apps/control/split_line.hpp"

#include <utility>

#include <fmt/format.h>

namespace troupe::apps {

namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

class splitter {
 public:
  explicit splitter(std::string_view line) : line_(line) {}

  std::vector<std::string> words() {
    while (at_ < line_.size()) {
      const char c = line_[at_];
      if (is_blank(c)) {
        end_word();
        ++at_;
      } else if (!any_ && (c == '{' || c == '[')) {
        any_ = true;
        json();
      } else {
        any_ = true;
        part();
      }
    }
    within_ = any_;
    end_word();
    return std::move(words_);
  }

  /// Whether the line ends within its last word.
  bool within() const { return within_; }

  /// The character that would have closed what is open at the end; 0: nothing is.
  char open() const { return open_; }

  /// Whether the line ends within JSON that no quotes are around.
  bool within_json() const { return within_json_; }

 private:
  void end_word() {
    if (std::exchange(any_, false)) words_.push_back(std::exchange(word_, {}));
  }

  /// A character, or all between two quotes (SPT-1).
  void part() {
    const char c = line_[at_++];
    if (c == '\'')
      single();
    else if (c == '"')
      doubled();
    else if (c == '\\' && at_ < line_.size())
      word_ += line_[at_++];
    else
      word_ += c;
  }

  void single() {
    open_ = '\'';
    const auto end = line_.find('\'', at_);
    word_ += line_.substr(at_, end - at_);
    if (end == std::string_view::npos) return void(at_ = line_.size());
    at_ = end + 1;
    open_ = 0;
  }

  void doubled() {
    constexpr std::string_view escaped = "\"\\$`";
    open_ = '"';
    for (; at_ < line_.size(); ++at_) {
      const char c = line_[at_];
      if (c == '"') {
        ++at_;
        open_ = 0;
        return;
      }
      const bool escapes =
          c == '\\' && at_ + 1 < line_.size() && escaped.find(line_[at_ + 1]) != escaped.npos;
      word_ += escapes ? line_[++at_] : c;
    }
  }

  /// To the bracket that closes the first (SPT-2).
  void json() {
    std::string closing;
    for (bool quoted = false; at_ < line_.size();) {
      const char c = line_[at_++];
      word_ += c;
      if (quoted && c == '\\' && at_ < line_.size())
        word_ += line_[at_++];
      else if (c == '"')
        quoted = !quoted;
      else if (!quoted && (c == '{' || c == '['))
        closing += c == '{' ? '}' : ']';
      else if (!quoted && (c == '}' || c == ']'))
        closing.pop_back();
      open_ = quoted ? '"' : closing.empty() ? '\0' : closing.back();
      if (closing.empty()) return;
    }
    within_json_ = true;
  }

  std::string_view line_;
  size_t at_ = 0;
  bool any_ = false, within_ = false, within_json_ = false;
  char open_ = 0;
  std::string word_;
  std::vector<std::string> words_;
};

}  // namespace

result<std::vector<std::string>> split_words(std::string_view line) {
  splitter s(line);
  auto words = s.words();
  const char open = s.open();
  if (open == 0) return words;
  const bool bracket = open == '}' || open == ']';
  return unclosed(bracket       ? "brackets"
                  : open == '"' ? "double quotes"
                                : "single quotes",
                  std::string_view(&open, 1));
}

unended_line words_so_far(std::string_view line) {
  splitter s(line);
  auto words = s.words();
  return {std::move(words), s.within(), s.open(), s.within_json()};
}

}  // namespace troupe::apps
