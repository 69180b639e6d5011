// Records for tests of journals, and the small words they are appended and looked at by.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/file.hpp"
#include "io/journal/journal.hpp"

namespace troupe::io {

/// A few kinds and lengths, an empty payload and one longer than a block among them.
inline std::vector<journal_record> some_records() {
  std::string long_one(5000, '\0');
  for (size_t i = 0; i < long_one.size(); ++i) long_one[i] = static_cast<char>(i * 131 + i / 256);
  return {{1, "a plan"}, {7, ""}, {255, std::string("\0\n\xff", 3)}, {2, long_one}, {1, "the end"}};
}

inline std::string encoded(const std::vector<journal_record>& records) {
  uint32_t sum = 0;
  auto out = encode_journal_header(sum);
  for (const auto& r : records)
    if (!encode_record(out, r.kind, as_bytes(r.payload), sum)) return {};
  return out;
}

inline result<journal_contents> parsed(std::string_view bytes) {
  return parse_journal(as_bytes(bytes), "j");
}

inline status append(journal& to, std::string_view text, durable sync = durable::yes) {
  return to.append(1, as_bytes(text), sync);
}

/// Its payloads, each with a blank behind it; or what is wrong.
inline std::string texts_of(const result<journal_contents>& read) {
  if (!read) return render(read.error());
  std::string out;
  for (const auto& r : read->records) out += r.payload + " ";
  return out;
}

}  // namespace troupe::io
