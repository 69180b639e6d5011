// libFuzzer target: any bytes as a config.json; what reads must survive writing and reading again.
#include <cstdlib>

#include "io/formats/hf_config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe::io;
  auto config = parse_hf_config({reinterpret_cast<const char*>(data), size});
  if (!config) return 0;
  auto again = parse_hf_config(format_hf_config(*config));
  if (!again || !(*again == *config)) std::abort();
  return 0;
}
