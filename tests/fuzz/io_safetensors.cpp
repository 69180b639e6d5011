// libFuzzer target: any bytes as a safetensors file; what parses must keep ST-2.
#include <cstdlib>

#include "io/formats/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto parsed = troupe::io::parse_safetensors(std::as_bytes(std::span(data, size)));
  if (!parsed) return 0;
  for (const auto& [name, view] : parsed->tensors) {
    if (troupe::io::byte_size(view.type, view.shape) != view.bytes.size()) std::abort();
    unsigned sum = 0;
    for (auto byte : view.bytes) sum += static_cast<unsigned>(byte);
    asm volatile("" : : "r"(sum));  // the bytes are really read
  }
  return 0;
}
