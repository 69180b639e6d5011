// Lines that begin with a mark, found by their first letters.
#include "io/data/gutenberg.hpp"

#include <algorithm>

namespace troupe::io {

namespace {

constexpr size_t near_the_end_bytes = 1024;  // GUT-1

/// Where the first line from `from` on begins that begins with `mark`, or npos.
size_t find_line(std::string_view text, std::string_view mark, size_t from) {
  for (size_t at = from; (at = text.find(mark, at)) != text.npos; ++at)
    if (at == 0 || text[at - 1] == '\n' || text[at - 1] == '\r') return at;
  return text.npos;
}

/// The same for a START or END line, whose "***" may stand alone or not.
size_t find_mark(std::string_view text, std::string_view word, size_t from) {
  for (size_t at = from; (at = find_line(text, "***", at)) != text.npos; ++at) {
    auto rest = text.substr(at + 3);
    if (rest.starts_with(' ')) rest.remove_prefix(1);
    if (!rest.starts_with(word)) continue;
    rest.remove_prefix(word.size());
    for (std::string_view which :
         {" OF THE PROJECT GUTENBERG EBOOK", " OF THIS PROJECT GUTENBERG EBOOK"})
      if (rest.starts_with(which)) return at;
  }
  return text.npos;
}

/// Where the line after the one at `at` begins.
size_t next_line(std::string_view text, size_t at) {
  const auto end = text.find_first_of("\r\n", at);
  if (end == text.npos) return text.size();
  return end + (text.substr(end).starts_with("\r\n") ? 2 : 1);
}

/// Where a book that is followed by an END line at `end` ends.
size_t book_end(std::string_view text, size_t begin, size_t end) {
  const auto from = std::max(begin, end - std::min(end, near_the_end_bytes));
  for (std::string_view words : {"End of the Project Gutenberg", "End of Project Gutenberg"})
    end = std::min(end, find_line(text.substr(0, end), words, from));
  return end;
}

}  // namespace

std::vector<std::string_view> gutenberg_books(std::string_view text) {
  std::vector<std::string_view> books;
  auto start = find_mark(text, "START", 0);
  if (start == text.npos) return {text};  // GUT-2
  while (start != text.npos) {
    const auto begin = next_line(text, start);
    start = find_mark(text, "START", begin);
    const auto mark = find_mark(text.substr(0, start), "END", begin);
    const auto end =
        mark != text.npos ? book_end(text, begin, mark) : std::min(start, text.size());  // GUT-3
    books.push_back(text.substr(begin, end - begin));
  }
  return books;
}

}  // namespace troupe::io
