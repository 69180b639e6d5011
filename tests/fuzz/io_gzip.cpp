// Fuzzes gzip: any bytes are inflated to no more than was asked for, or refused with their name.
#include "io/formats/gzip.hpp"

#include "tests/fuzz/must.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  constexpr size_t most = 1 << 16;
  const auto made = io::inflate_gzip({reinterpret_cast<const char*>(data), size}, most, "fuzz");
  if (made)
    must(made->size() <= most, "no longer than asked for");
  else
    must(made.error().message.starts_with("fuzz:"), "the name is told");
  return 0;
}
