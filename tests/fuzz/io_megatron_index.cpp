// Fuzzes Megatron's index: what is read adds up, all else is refused with its name.
#include "io/data/megatron_index.hpp"

#include <algorithm>

#include "tests/fuzz/must.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  const auto read =
      io::parse_megatron_index({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!read) {
    must(read.error().message.starts_with("fuzz:"), "the name is told");
    return 0;
  }
  must(std::is_sorted(read->document_ends.begin(), read->document_ends.end()), "in order");
  must(read->document_ends.empty() ? read->tokens == 0 : read->document_ends.back() == read->tokens,
       "documents hold all tokens");
  return 0;
}
