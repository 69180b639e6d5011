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

/// Bytes at the end of `text` that begin a character which is not whole.
inline size_t cut_character_bytes(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    return back < io::utf8_length(static_cast<char>(byte)) ? back : 0;
  }
  return 0;
}

/// Bytes at the end of `text` that may yet become others: those that begin a character, and U+FFFD,
/// as which SentencePiece shows one that is not whole.
inline size_t unsettled(std::string_view text) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  size_t settled = text.size();
  while (text.substr(0, settled).ends_with(replacement)) settled -= replacement.size();
  return text.size() - settled + cut_character_bytes(text.substr(0, settled));
}

/// Shows a text that grows, without what may yet become other.
class growing_text {
 public:
  explicit growing_text(const std::function<void(std::string_view)>& show) : show_(show) {}

  void is_now(std::string_view text) { show(text.substr(0, text.size() - unsettled(text))); }
  /// The last token may have cut a character, which is left out: no bytes of it are text.
  void is_whole(std::string_view text) {
    show(text.substr(0, text.size() - cut_character_bytes(text)));
  }

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
