// Any bytes as a journal (selector 0), and any records of it with right sums and a torn end: what
// is read is written back to the same bytes, and of whole records none is lost.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/file.hpp"
#include "io/journal/records.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

std::string written(const std::vector<journal_record>& records) {
  uint32_t sum = 0;
  auto out = encode_journal_header(sum);
  for (const auto& r : records)
    must(bool(encode_record(out, r.kind, as_bytes(r.payload), sum)), "what is read can be written");
  return out;
}

/// Each record is a kind, a length and as many bytes of `text` as there are.
std::vector<journal_record> records_of(std::string_view text) {
  std::vector<journal_record> out;
  while (text.size() >= 2) {
    const auto length = std::min<size_t>(static_cast<uint8_t>(text[1]), text.size() - 2);
    out.push_back(
        {std::max<uint8_t>(1, static_cast<uint8_t>(text[0])), std::string(text.substr(2, length))});
    text.remove_prefix(2 + length);
  }
  return out;
}

void read_foreign(std::string_view bytes) {
  const auto read = parse_journal(as_bytes(bytes), "fuzz");
  if (!read) return;
  must(read->whole_bytes + read->dropped_bytes == bytes.size(), "each byte is read or dropped");
  must((read->dropped_bytes > 0) == (read->tear != journal_tear::none), "a tear is told");
  must(written(read->records) == bytes.substr(0, read->whole_bytes), "it is written as read");
}

void read_torn(std::string_view text, size_t torn) {
  const auto records = records_of(text);
  auto bytes = written(records);
  torn = std::min(torn, bytes.size() - journal_header_bytes);
  bytes.resize(bytes.size() - torn);
  const auto read = parse_journal(as_bytes(bytes), "fuzz");
  must(bool(read), "a journal of ours is one");
  must(read->records.size() <= records.size() &&
           std::equal(read->records.begin(), read->records.end(), records.begin()),
       "what is read was appended, in order");
  must(torn > 0 || read->records.size() == records.size(), "a whole one is read whole");
  size_t lost = 0;
  for (size_t i = read->records.size(); i < records.size(); ++i)
    lost += record_head_bytes + records[i].payload.size();
  must(lost == torn + read->dropped_bytes, "no whole record is lost");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    read_foreign(bytes);
  } else {
    read_torn(bytes, data[0] / 2);
  }
  return 0;
}
