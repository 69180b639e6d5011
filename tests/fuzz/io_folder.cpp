// Any bytes as what stands in a folder that others may write to: a mark (selector 0) or the text of
// a lock. What is accepted is written as what reads the same.
#include <cstdint>
#include <string_view>

#include "io/folder/lock.hpp"
#include "io/folder/owned.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) {
    const auto mark = io::parse_mark(text);
    if (!mark) return 0;
    must(mark->names(io::mark_file), "a mark's own name is ours");
    const auto written = io::mark_text(*mark);
    if (written.size() > io::max_mark_bytes) return 0;
    const auto again = io::parse_mark(written);
    must(again && *again == *mark, "a written mark is read as it was");
  } else {
    const auto holder = io::parse_lock(text);
    if (!holder || !*holder) return 0;
    const auto again = io::parse_lock(io::lock_text(**holder));
    must(again && *again == *holder, "a written lock is read as it was");
    must(!io::is_believed(**holder, **holder), "nobody is on another host than himself");
  }
  return 0;
}
