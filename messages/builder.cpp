// The memory of message builders and the one builder each thread keeps.
#include "messages/builder.hpp"

#include <cstdlib>
#include <memory>
#include <new>

namespace troupe {

namespace {

class malloc_allocator final : public flatbuffers::Allocator {
 public:
  uint8_t* allocate(size_t size) override {
    auto* memory = static_cast<uint8_t*>(std::malloc(size));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void deallocate(uint8_t* memory, size_t) override { std::free(memory); }
};

struct thread_builder {
  message_builder builder{4096};
  bool lent = false;
};

thread_builder& of_this_thread() {
  thread_local thread_builder mine;
  return mine;
}

}  // namespace

namespace detail {
flatbuffers::Allocator* message_allocator() noexcept {
  static malloc_allocator allocator;
  return &allocator;
}
}  // namespace detail

builder_loan::builder_loan() {
  auto& mine = of_this_thread();
  owned_ = mine.lent;
  builder_ = owned_ ? std::make_unique<message_builder>().release() : &mine.builder;
  if (!owned_) mine.lent = true;
}

builder_loan::~builder_loan() {
  if (owned_) {
    delete builder_;
    return;
  }
  builder_->restart();
  of_this_thread().lent = false;
}

}  // namespace troupe
