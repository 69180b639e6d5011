// Names of element types: the one table; what most devices need not do.
#include "gpu/device.hpp"

#include <memory>
#include <utility>

namespace troupe::gpu {

std::string_view to_string(dtype type) noexcept {
  switch (type) {
    case dtype::f32:
      return "f32";
    case dtype::bf16:
      return "bf16";
    case dtype::i32:
      return "i32";
  }
  return "?";
}

void stream::measure(const std::function<void()>& enqueue, std::function<void(double)> done,
                     time_kind clock) {
  auto began = std::make_shared<double>(0);
  notify([began, clock](const status&) { *began = seconds_now(clock); });
  enqueue();
  notify(
      [began, clock, done = std::move(done)](const status&) { done(seconds_now(clock) - *began); });
}

void stream::stamp(std::function<void(double)> fn) {
  notify([fn = std::move(fn)](const status&) { fn(1e3 * seconds_now(time_kind::wall)); });
}

void stream::replay(uint64_t, const std::function<void()>& enqueue) {
  enqueue();
}

result<std::shared_ptr<void>> device::pin(void*, size_t) {
  return std::shared_ptr<void>{};
}

}  // namespace troupe::gpu
