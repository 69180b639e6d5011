// Names of element types: the one table.
#include "gpu/device.hpp"

namespace troupe::gpu {

std::string_view to_string(dtype type) noexcept {
  switch (type) {
    case dtype::f32: return "f32";
    case dtype::bf16: return "bf16";
    case dtype::i32: return "i32";
  }
  return "?";
}

}  // namespace troupe::gpu
