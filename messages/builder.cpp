// The memory of message builders and the one builder each thread keeps.
#include "messages/builder.hpp"

#include <new>

#include "messages/block_pool.hpp"

namespace troupe {

namespace {

using detail::give_memory;
using detail::take_memory;

class pool_allocator final : public flatbuffers::Allocator {
 public:
  uint8_t* allocate(size_t size) override {
    auto* memory = static_cast<uint8_t*>(take_memory(size));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void deallocate(uint8_t* memory, size_t size) override { give_memory(memory, size); }
};

}  // namespace

namespace detail {
flatbuffers::Allocator* message_allocator() noexcept {
  static pool_allocator allocator;
  return &allocator;
}
}  // namespace detail

uint8_t* message_builder::release(size_t room, size_t& capacity, size_t& offset) {
  Pad(room);
  auto used = static_cast<size_t>(GetSize());
  auto* memory = ReleaseRaw(capacity, offset);
  // Room for the scratch of a table under construction and for a message a little larger.
  auto wanted = (used + used / 16 + 512) & ~size_t{15};
  if (wanted > initial_bytes_ || wanted < initial_bytes_ / 4)
    *this = message_builder(wanted);
  else
    restart();
  return memory;
}

thread_local constinit message_builder* builder_loan::spare_ = nullptr;

message_builder* builder_loan::make() {
  struct at_thread_end {
    ~at_thread_end() {
      delete spare_;
      spare_ = nullptr;
    }
  };
  thread_local at_thread_end cleanup;
  (void)cleanup;  // naming it constructs it
  return new message_builder(4096);
}

}  // namespace troupe
