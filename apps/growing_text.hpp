// A text that is shown while it grows.
//
// Why: what the first tokens of a text mean may change with the next one. A character of several
// bytes is a lone byte first, or, with SentencePiece, U+FFFD for each of its bytes.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "io/tokenizer/utf8.hpp"

namespace troupe::apps {

/// Bytes at the end of `text` that may yet become others: those that begin a character, and U+FFFD,
/// as which SentencePiece shows one that is not whole.
inline size_t unsettled(std::string_view text) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  size_t settled = text.size();
  while (text.substr(0, settled).ends_with(replacement)) settled -= replacement.size();
  for (size_t back = 1; back <= std::min<size_t>(3, settled); ++back) {
    const auto byte = static_cast<unsigned char>(text[settled - back]);
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    if (back < io::utf8_length(static_cast<char>(byte))) settled -= back;
    break;
  }
  return text.size() - settled;
}

/// Shows a text that grows, without what may yet become other.
class growing_text {
 public:
  explicit growing_text(const std::function<void(std::string_view)>& show) : show_(show) {}

  void is_now(std::string_view text) { show(text.substr(0, text.size() - unsettled(text))); }
  void is_whole(std::string_view text) { show(text); }

 private:
  void show(std::string_view text) {
    const auto [mine, theirs] =
        std::mismatch(shown_.begin(), shown_.end(), text.begin(), text.end());
    if (!show_ || theirs == text.end()) return;
    const auto rest = text.substr(static_cast<size_t>(theirs - text.begin()));
    show_(rest);
    shown_.erase(mine, shown_.end());
    shown_ += rest;
  }

  const std::function<void(std::string_view)>& show_;
  std::string shown_;
};

}  // namespace troupe::apps
