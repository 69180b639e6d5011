// Any bytes as a manifest: refused or read, never a crash; what was read is what would be written.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "io/formats/manifest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto files = troupe::io::parse_manifest(text);
  if (files && troupe::io::format_manifest(*files) != text) std::abort();
  return 0;
}
