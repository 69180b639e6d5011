// Emulated memory: blocks with guards around them, copies that know what they copy between.
//
// A device's block lies between pages that nobody may touch, ends with known bytes that are looked
// at when it is freed, and holds NaNs at first. What was freed stays untouchable for a while.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>

#include "io/base/poison.hpp"
#include "tests/gpu/emulator/runtime_state.hpp"

namespace troupe::gpu::cuda::emulator {
namespace {

constexpr size_t at_once = size_t{64} << 10;  ///< pageable bytes a copy reads before it returns
constexpr size_t kept_freed = 256;            ///< freed blocks that stay untouchable
constexpr unsigned char canary = 0xc5;

struct block {
  char* start = nullptr;
  size_t bytes = 0;
  int device = -1;          ///< -1: pinned host memory
  char* mapping = nullptr;  ///< of a device's block, guards included
  size_t mapping_bytes = 0;
  bool registered = false;  ///< pinned, not allocated: cudaHostRegister
};

struct memory_map {
  std::mutex mutex;
  std::map<const char*, block> blocks;  // guarded by mutex; by start
  std::map<const char*, block> freed;   // guarded by mutex
  std::deque<const char*> freed_order;  // guarded by mutex
  std::map<int, size_t> used;           // guarded by mutex; device -> bytes
};

memory_map& memory() {
  static auto& one = *new memory_map;  // never destroyed: statics of tests free memory at exit
  return one;
}

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

const block* find_in(const std::map<const char*, block>& blocks, const void* p) {
  auto i = blocks.upper_bound(static_cast<const char*>(p));
  if (i == blocks.begin()) return nullptr;
  const block& b = std::prev(i)->second;
  return static_cast<const char*>(p) < b.start + b.bytes ? &b : nullptr;
}

enum class place : uint8_t { pageable, pinned, device };

/// Where [p, p + bytes) lies; misuse where it was freed or reaches beyond its block.
cudaError_t locate(const void* p, size_t bytes, const char* call, place& where) {
  std::string wrong;
  {
    std::lock_guard lock(memory().mutex);
    if (const block* b = find_in(memory().blocks, p)) {
      where = b->device < 0 ? place::pinned : place::device;
      const auto offset = static_cast<size_t>(static_cast<const char*>(p) - b->start);
      if (bytes <= b->bytes - offset) return cudaSuccess;
      wrong = std::string(call) + ": " + std::to_string(bytes) + " bytes at offset " +
              std::to_string(offset) + " of a block of " + std::to_string(b->bytes);
    } else if (find_in(memory().freed, p) != nullptr) {
      wrong = std::string(call) + ": memory that was freed";
    } else {
      where = place::pageable;
      return cudaSuccess;
    }
  }
  return misuse(wrong, cudaErrorInvalidValue);
}

block map_block(size_t bytes, int device) {
  const size_t page = page_bytes();
  const size_t body = (bytes + page - 1) / page * page;
  block b;
  b.mapping_bytes = body + 2 * page;
  void* base = mmap(nullptr, b.mapping_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return {};
  b.mapping = static_cast<char*>(base);
  mprotect(b.mapping, page, PROT_NONE);
  mprotect(b.mapping + page + body, page, PROT_NONE);
  b.start = b.mapping + page;
  b.bytes = bytes;
  b.device = device;
  std::memset(b.start, 0xff, bytes);  // NaNs, in float32 and bfloat16
  std::memset(b.start + bytes, canary, body - bytes);
  poison(b.start + bytes, body - bytes);
  return b;
}

bool canary_lives(const block& b) {
  const char* end = b.mapping + b.mapping_bytes - page_bytes();
  unpoison(b.start, static_cast<size_t>(end - b.start));
  for (const char* p = b.start + b.bytes; p < end; ++p) {
    if (static_cast<unsigned char>(*p) != canary) return false;
  }
  return true;
}

/// Makes a freed block untouchable; the oldest such goes for good.
void retire(memory_map& m, const block& b) {
  mprotect(b.mapping, b.mapping_bytes, PROT_NONE);
  madvise(b.mapping, b.mapping_bytes, MADV_DONTNEED);
  m.freed[b.start] = b;
  m.freed_order.push_back(b.start);
  if (m.freed_order.size() <= kept_freed) return;
  const block oldest = m.freed[m.freed_order.front()];
  m.freed.erase(m.freed_order.front());
  m.freed_order.pop_front();
  munmap(oldest.mapping, oldest.mapping_bytes);
}

bool kind_matches(cudaMemcpyKind kind, place to, place from) {
  switch (kind) {
    case cudaMemcpyDefault:
      return true;
    case cudaMemcpyHostToHost:
      return to != place::device && from != place::device;
    case cudaMemcpyHostToDevice:
      return to == place::device && from != place::device;
    case cudaMemcpyDeviceToHost:
      return to != place::device && from == place::device;
    case cudaMemcpyDeviceToDevice:
      return to == place::device && from == place::device;
  }
  return false;
}

/// A copy of `height` rows of `width` bytes, in stream order (EMR-1).
cudaError_t copy_rows(char* to, size_t to_pitch, const char* from, size_t from_pitch, size_t width,
                      size_t height, cudaMemcpyKind kind, cudaStream_t s, const char* call) {
  if (width == 0 || height == 0) return cudaSuccess;
  place to_place{}, from_place{};
  if (auto e = locate(to, to_pitch * (height - 1) + width, call, to_place); e != cudaSuccess)
    return e;
  if (auto e = locate(from, from_pitch * (height - 1) + width, call, from_place); e != cudaSuccess)
    return e;
  if (!kind_matches(kind, to_place, from_place))
    return misuse(std::string(call) + ": the kind of copy is not what the pointers are",
                  cudaErrorInvalidMemcpyDirection);
  const auto rows = [=](const char* source, size_t pitch) {
    for (size_t i = 0; i < height; ++i) std::memcpy(to + i * to_pitch, source + i * pitch, width);
  };
  if (to_place != place::device && from_place != place::device) {
    rows(from, from_pitch);  // at once: the real runtime promises no order either
    return cudaSuccess;
  }
  const bool capturing = is_capturing(s);
  if (from_place == place::pageable && !capturing && width * height <= at_once) {
    auto staged = std::make_shared<std::vector<char>>(width * height);
    for (size_t i = 0; i < height; ++i)
      std::memcpy(staged->data() + i * width, from + i * from_pitch, width);
    push(s, {operation::kind::work, [=] { rows(staged->data(), width); }, nullptr});
    return cudaSuccess;
  }
  const bool pageable = to_place == place::pageable || from_place == place::pageable;
  if (!pageable || capturing) {
    push(s, {operation::kind::work, [=] { rows(from, from_pitch); }, nullptr});
    return cudaSuccess;
  }
  auto done = std::make_shared<counter>();
  push(s, {operation::kind::work, [=] { rows(from, from_pitch); }, nullptr});
  push(s, {operation::kind::mark, [done] { done->add(); }, nullptr});
  done->wait_for(1);
  return loss_of(s->device);
}

cudaError_t check_stream(cudaStream_t s, const char* call) {
  if (s != nullptr && knows(s)) return cudaSuccess;
  return misuse(std::string(call) + " on the default stream or one that does not exist",
                cudaErrorInvalidResourceHandle);
}

cudaError_t add_pinned(void* p, size_t bytes, bool registered) {
  block b;
  b.start = static_cast<char*>(p);
  b.bytes = bytes;
  b.registered = registered;
  std::lock_guard lock(memory().mutex);
  memory().blocks[b.start] = b;
  return cudaSuccess;
}

cudaError_t remove_pinned(void* p, bool registered, const char* call) {
  {
    std::lock_guard lock(memory().mutex);
    auto i = memory().blocks.find(static_cast<char*>(p));
    if (i != memory().blocks.end() && i->second.device < 0 && i->second.registered == registered) {
      memory().blocks.erase(i);
      return cudaSuccess;
    }
  }
  return misuse(std::string(call) + " of memory that is not pinned, or not any more",
                cudaErrorInvalidValue);
}

}  // namespace

void count_memory(live_objects& out) {
  std::lock_guard lock(memory().mutex);
  for (const auto& [start, b] : memory().blocks)
    ++(b.device < 0 ? out.pinned_blocks : out.device_blocks);
}

}  // namespace troupe::gpu::cuda::emulator

using namespace troupe::gpu::cuda::emulator;

cudaError_t cudaMalloc(void** made, size_t bytes) {
  if (auto e = enter_unsafe(__func__); e != cudaSuccess) return leave(e);
  if (bytes == 0) {
    *made = nullptr;
    return cudaSuccess;
  }
  const int device = device_of_thread();
  std::lock_guard lock(memory().mutex);
  size_t& used = memory().used[device];
  const size_t limit = memory_limit();
  if (bytes > limit || used > limit - bytes) return leave(cudaErrorMemoryAllocation);
  const block b = map_block(bytes, device);
  if (b.start == nullptr) return leave(cudaErrorMemoryAllocation);
  used += bytes;
  memory().blocks[b.start] = b;
  *made = b.start;
  return cudaSuccess;
}

cudaError_t cudaFree(void* p) {
  const auto entered = enter_unsafe(__func__);
  if (p == nullptr) return leave(entered);
  std::string wrong;
  {
    std::lock_guard lock(memory().mutex);
    auto i = memory().blocks.find(static_cast<char*>(p));
    if (i == memory().blocks.end() || i->second.device < 0) {
      wrong = "cudaFree of memory that is not the device's, or not any more";
    } else {
      const block b = i->second;
      if (!canary_lives(b)) wrong = "something wrote beyond the end of device memory";
      memory().used[b.device] -= b.bytes;
      memory().blocks.erase(i);
      retire(memory(), b);
    }
  }
  return leave(wrong.empty() ? entered : misuse(wrong, cudaErrorInvalidValue));
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  std::lock_guard lock(memory().mutex);
  const size_t used = memory().used[device_of_thread()];
  *total = memory_limit();
  *free = *total > used ? *total - used : 0;
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** made, size_t bytes, unsigned) {
  if (auto e = enter_unsafe(__func__); e != cudaSuccess) return leave(e);
  if (posix_memalign(made, 4096, bytes) != 0) return leave(cudaErrorMemoryAllocation);
  return add_pinned(*made, bytes, false);
}

cudaError_t cudaFreeHost(void* p) {
  const auto entered = enter_unsafe(__func__);
  if (p == nullptr) return leave(entered);
  if (auto e = remove_pinned(p, false, __func__); e != cudaSuccess) return leave(e);
  free(p);
  return leave(entered);
}

cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned) {
  if (auto e = enter_unsafe(__func__); e != cudaSuccess) return leave(e);
  return add_pinned(p, bytes, true);
}

cudaError_t cudaHostUnregister(void* p) {
  const auto entered = enter_unsafe(__func__);
  if (auto e = remove_pinned(p, true, __func__); e != cudaSuccess) return leave(e);
  return leave(entered);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* p) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  std::memset(out, 0, sizeof *out);
  out->device = -1;
  std::lock_guard lock(memory().mutex);
  if (const block* b = find_in(memory().blocks, p)) {
    out->type = b->device < 0 ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    out->device = b->device < 0 ? device_of_thread() : b->device;
    out->devicePointer = const_cast<void*>(p);
    if (b->device < 0) out->hostPointer = const_cast<void*>(p);
  } else {
    out->type = cudaMemoryTypeUnregistered;
    out->hostPointer = const_cast<void*>(p);
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (auto e = check_stream(s, __func__); e != cudaSuccess) return leave(e);
  return leave(copy_rows(static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes,
                         bytes, 1, kind, s, __func__));
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t s) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (auto e = check_stream(s, __func__); e != cudaSuccess) return leave(e);
  if (width > to_pitch || width > from_pitch) return leave(cudaErrorInvalidPitchValue);
  return leave(copy_rows(static_cast<char*>(to), to_pitch, static_cast<const char*>(from),
                         from_pitch, width, height, kind, s, __func__));
}

cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t s) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (auto e = check_stream(s, __func__); e != cudaSuccess) return leave(e);
  place where{};
  if (auto e = locate(p, bytes, __func__, where); e != cudaSuccess) return leave(e);
  if (where == place::pageable)
    return leave(misuse("cudaMemsetAsync of pageable memory", cudaErrorInvalidValue));
  push(s, {operation::kind::work, [=] { std::memset(p, value, bytes); }, nullptr});
  return cudaSuccess;
}
