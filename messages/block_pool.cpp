// The free lists of block_pool.hpp: for each thread and class of sizes a stack of pieces.
#include "messages/block_pool.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <new>

#include "io/base/poison.hpp"

namespace troupe::detail {

namespace {

// Four classes in each power of two from 128 bytes to 64 KiB, and one below.
constexpr size_t smallest_bytes = 128;
constexpr size_t class_count = 37;

constexpr size_t class_of(size_t bytes) {
  if (bytes <= smallest_bytes) return 0;
  auto octave = static_cast<size_t>(std::bit_width(bytes - 1)) - 1;  // 2^octave < bytes
  auto quarter = (bytes - 1) >> (octave - 2);                        // 4 to 7
  return (octave - 7) * 4 + quarter - 4 + 1;
}

constexpr size_t bytes_of(size_t index) {
  if (index == 0) return smallest_bytes;
  auto octave = (index - 1) / 4 + 7;
  auto quarter = (index - 1) % 4;
  return (quarter + 5) << (octave - 2);
}

static_assert(class_of(largest_kept_bytes) == class_count - 1);
static_assert(bytes_of(class_of(129)) == 160 && bytes_of(class_of(160)) == 160);
static_assert(bytes_of(class_of(161)) == 192 && bytes_of(class_of(256)) == 256);
static_assert(bytes_of(class_of(largest_kept_bytes)) == largest_kept_bytes);

struct piece {
  piece* next;
};

struct free_list {
  piece* first = nullptr;
  size_t pieces = 0;
};

using free_lists = std::array<free_list, class_count>;

constexpr size_t most_pieces(size_t index) {  // BP-2
  return std::clamp<size_t>(keep_bytes / bytes_of(index), 2, 64);
}

// nullptr before a thread's first message and after its end.
thread_local constinit free_lists* mine = nullptr;
thread_local constinit bool ended = false;

struct owner {
  owner() : lists(new (std::nothrow) free_lists) { mine = lists; }
  ~owner() {
    mine = nullptr;
    ended = true;
    if (lists == nullptr) return;
    for (auto& list : *lists)
      while (list.first != nullptr) {
        unpoison(list.first, sizeof(piece));
        auto* next = list.first->next;
        std::free(list.first);
        list.first = next;
      }
    delete lists;
  }
  owner(const owner&) = delete;
  owner& operator=(const owner&) = delete;

  free_lists* lists;
};

free_lists* lists_of_this_thread() noexcept {
  if (mine == nullptr && !ended) {
    thread_local owner of_thread;
    return of_thread.lists;
  }
  return mine;
}

}  // namespace

void* take_memory(size_t bytes) noexcept {
  if (bytes > largest_kept_bytes) return std::malloc(bytes);
  auto index = class_of(bytes);
  if (mine != nullptr) {
    auto& list = (*mine)[index];
    if (auto* piece = list.first; piece != nullptr) {
      unpoison(piece, std::max(bytes, sizeof(*piece)));  // what is handed out, no more
      list.first = piece->next;
      --list.pieces;
      return piece;
    }
  }
  return std::malloc(bytes_of(index));  // BP-1
}

void give_memory(void* memory, size_t bytes) noexcept {
  auto* lists = bytes > largest_kept_bytes ? nullptr : lists_of_this_thread();
  if (lists == nullptr) return std::free(memory);
  auto index = class_of(bytes);
  auto& list = (*lists)[index];
  if (list.pieces >= most_pieces(index)) return std::free(memory);
  list.first = new (memory) piece{list.first};
  ++list.pieces;
  poison(memory, bytes_of(index));
}

size_t kept_memory() noexcept {
  size_t out = 0;
  if (mine != nullptr)
    for (size_t i = 0; i < class_count; ++i) out += (*mine)[i].pieces * bytes_of(i);
  return out;
}

}  // namespace troupe::detail
