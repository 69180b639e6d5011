// The implementations of gpu::ops that an executable tests. Every executable of the tests of
// operations (ops_*_test.cpp) links one file that says which: backends_host.cpp,
// backends_emulated.cpp, backends_cuda.cpp.
#pragma once

#include <functional>
#include <new>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/ops.hpp"

namespace troupe::gpu::testing {

/// One implementation, with what its streams are made of.
struct backend {
  std::string name;  ///< as failures show it
  gpu::ops* ops = nullptr;
  device* owner = nullptr;
  stream_options options;
  stream* compute = nullptr;  ///< one stream that all tests may use
  bool slow = false;          ///< an emulation: tests repeat and enlarge less
};

/// All that this machine can run. Where there are none, says "SKIPPED: " and why.
const std::vector<backend>& backends();

/// Memory that the host and the backends can both use, aligned to 256 bytes; contents undefined.
void* allocate_shared(size_t bytes);
void release_shared(void* p);

/// For what operations read or write.
template <class T>
struct shared_allocator {
  using value_type = T;
  shared_allocator() = default;
  template <class U>
  shared_allocator(const shared_allocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(allocate_shared(n * sizeof(T))); }
  void deallocate(T* p, size_t) { release_shared(p); }
  bool operator==(const shared_allocator&) const = default;
};
template <class T>
using shared_vector = std::vector<T, shared_allocator<T>>;

/// One value that an operation reads or writes.
template <class T>
class shared_value {
 public:
  shared_value(T value = {}) : memory_(1, value) {}  // NOLINT: stands for the value
  shared_value& operator=(T value) {
    memory_[0] = value;
    return *this;
  }
  operator T() const { return memory_[0]; }  // NOLINT: stands for the value
  T* data() { return memory_.data(); }
  const T* data() const { return memory_.data(); }

 private:
  shared_vector<T> memory_;
};

}  // namespace troupe::gpu::testing
