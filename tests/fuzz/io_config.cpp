// Any bytes as a configuration: refused or read, never a crash; what was read survives its own
// text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "io/config/load.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe::config;
  auto job = parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!job) return 0;
  auto again = parse(to_toml(*job), "again");
  if (!again || !(*again == *job)) std::abort();
  return 0;
}
