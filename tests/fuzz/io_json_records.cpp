// Fuzzes JSON records: a stream gives the same records, or the same fault, whole and in parts.
#include "io/data/json_records.hpp"

#include <string>

#include "tests/fuzz/must.hpp"

namespace {

/// The records, one behind the other, and how the stream ended.
std::string outcome(std::string_view stream, size_t part) {
  using namespace troupe;
  io::json_records splitter("fuzz", 4096);
  std::string out;
  const auto take = [&](std::string_view record, uint64_t line) -> status {
    must(record.size() <= 4096 && record.starts_with('{'), "a record");
    out += std::to_string(line) + ":" + std::string(record) + "\n";
    if (const auto text = io::text_of_record(record, "text", "fuzz", line); !text)
      must(text.error().code == errc::bad_data, "bad data");
    return {};
  };
  for (size_t at = 0; at < stream.size(); at += part)
    if (auto fed = splitter.feed(stream.substr(at, part), take); !fed)
      return out + fed.error().message;
  if (auto ended = splitter.finish(); !ended) return out + ended.error().message;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view stream(reinterpret_cast<const char*>(data), size);
  const auto whole = outcome(stream, size + 1);
  for (size_t part : {size_t{3}, size_t{7}, size_t{64}})
    troupe::must(outcome(stream, part) == whole, "parts change nothing");
  return 0;
}
