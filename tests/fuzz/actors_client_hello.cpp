// Any bytes as the beginning of a connection: a verdict that more bytes do not take back, and never
// a wait for more than a record.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "actors/cluster/client_hello.hpp"
#include "tests/fuzz/must.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  using namespace troupe::cluster;
  const std::string_view bytes(reinterpret_cast<const char*>(data), std::min(size, first_bytes));
  bool noise = false;
  for (size_t n = 1; n <= bytes.size(); ++n) {
    const auto seen = look_at_hello(bytes.substr(0, n));
    must(!noise || seen.noise, "noise stays noise");
    must(seen.noise == (seen.wanted_bytes == 0), "noise waits for nothing, all else does");
    must(seen.wanted_bytes <= max_hello_bytes, "nobody waits for more than a record");
    must(seen.noise || seen.wanted_bytes > n || n == first_bytes, "a wait has an end");
    noise = seen.noise;
  }
  return 0;
}
