// The scheduler of a block's fibers, its barriers, and the warp's joint operations.
#include "tests/gpu/emulator/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "gpu/cuda/simt.hpp"
#include "tests/gpu/emulator/fiber.hpp"

namespace troupe::gpu::cuda::emulator {
namespace {

constexpr int warp_threads = 32;
constexpr size_t lane_bytes = 64;

struct copy {
  void* to;
  const void* from;
  bool valid;
};

/// One thread of the running block.
struct thread_state {
  fiber stack;
  int index = 0;
  bool ended = false;
  bool at_barrier = false;
  uint64_t meetings = 0;   ///< warp operations this lane has entered
  std::vector<copy> open;  ///< copies of the group that is not committed
  std::vector<std::vector<copy>> groups;
  bool fenced = true;                           ///< no copies have arrived since the last fence
  bool begun = false;                           ///< products may be enqueued
  std::vector<std::function<void()>> products;  ///< of the group that is not committed
  std::vector<std::vector<std::function<void()>>> product_groups;
};

/// What lanes of a warp gave, twice: while some still read one meeting, others enter the next.
struct warp_state {
  uint64_t meetings = 0;  ///< finished
  int arrived = 0;
  warp_operation what = warp_operation::sync;
  alignas(16) unsigned char given[2][warp_threads * lane_bytes];
};

class machine {
 public:
  void run(const grid_size& grid, int block, size_t shared_bytes,
           const std::function<void()>& body);

  void barrier();
  const unsigned char* exchange(warp_operation what, const void* mine, size_t bytes);
  thread_state& running() { return *running_; }
  bool all_fenced() const { return unfenced_ == 0; }
  /// Whether the running thread's copies that have arrived are fenced.
  void fence(bool fenced) {
    if (running_->fenced != fenced) unfenced_ += fenced ? -1 : 1;
    running_->fenced = fenced;
  }
  thread_place& place() { return place_; }
  void* shared() { return shared_; }

 private:
  static void thread_main(void* self);
  void start_block(int block, size_t shared_bytes);
  bool run_thread(int i);
  bool run_warp_of(int i);
  void finish_block(bool hasty);
  void shuffle_order(uint64_t seed);
  void yield() { running_->stack.leave(); }
  bool ready(const thread_state& t) const;
  void release_barrier();

  std::vector<thread_state> threads_;
  std::vector<warp_state> warps_;
  std::vector<int> order_;
  std::unique_ptr<unsigned char, void (*)(void*)> memory_{nullptr, std::free};
  size_t memory_bytes_ = 0;
  void* shared_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  thread_state* running_ = nullptr;
  thread_place place_;
  int alive_ = 0, waiting_ = 0;
  int unfenced_ = 0;  ///< threads, ended ones too: every product asks whether there are any
};

thread_local machine* current = nullptr;

machine& here() {
  if (current == nullptr) stop("called outside a kernel");
  return *current;
}

void machine::thread_main(void* self) {
  auto& m = *static_cast<machine*>(self);
  thread_state& t = *m.running_;
  try {
    (*m.body_)();
  } catch (const std::exception& e) {
    stop(e.what());
  }
  if (!t.open.empty() || !t.groups.empty()) stop("a thread ended with copies it never waited for");
  if (!t.products.empty() || !t.product_groups.empty())
    stop("a thread ended with products it never waited for");
  t.ended = true;
  --m.alive_;
  t.stack.leave(true);
}

/// Another order for every block (EM-1): a shuffle by SplitMix64.
void machine::shuffle_order(uint64_t seed) {
  for (size_t i = order_.size(); i > 1; --i) {
    uint64_t z = seed += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    std::swap(order_[i - 1], order_[(z ^ (z >> 31)) % i]);
  }
}

void machine::start_block(int block, size_t shared_bytes) {
  if (threads_.size() < static_cast<size_t>(block)) threads_.resize(static_cast<size_t>(block));
  warps_.assign(static_cast<size_t>(block / warp_threads), {});
  order_.resize(static_cast<size_t>(block));
  for (int i = 0; i < block; ++i) {
    thread_state& t = threads_[static_cast<size_t>(i)];
    t.index = i;
    t.ended = t.at_barrier = t.begun = false;
    t.fenced = true;
    t.meetings = 0;
    t.stack.prepare(thread_main, this);
    order_[static_cast<size_t>(i)] = i;
  }
  alive_ = block;
  waiting_ = unfenced_ = 0;
  // Exactly as large as asked for (EM-2): the address sanitizer sees the first byte too many. The
  // blocks of a launch have it one after the other.
  if (!memory_ || memory_bytes_ != shared_bytes) {
    void* fresh = nullptr;
    if (posix_memalign(&fresh, 1024, std::max(shared_bytes, size_t{1})) != 0) stop("out of memory");
    memory_.reset(static_cast<unsigned char*>(fresh));
    memory_bytes_ = shared_bytes;
  }
  std::memset(memory_.get(), 0xff, shared_bytes);
  shared_ = memory_.get();
}

bool machine::ready(const thread_state& t) const {
  if (t.ended || t.at_barrier) return false;
  return warps_[static_cast<size_t>(t.index / warp_threads)].meetings == t.meetings;
}

void machine::release_barrier() {
  for (auto& t : threads_) t.at_barrier = false;
  waiting_ = 0;
}

/// Runs the fiber until it waits, unless it does.
bool machine::run_thread(int i) {
  thread_state& t = threads_[static_cast<size_t>(i)];
  if (!ready(t)) return false;
  running_ = &t;
  place_.thread = i;
  t.stack.resume();
  if (waiting_ > 0 && waiting_ == alive_) release_barrier();
  return true;
}

/// Runs the fiber's whole warp for as long as it does not wait for others.
bool machine::run_warp_of(int i) {
  const int first = i / warp_threads * warp_threads;
  bool moved = false;
  for (bool again = true; again; moved = moved || again) {
    again = false;
    for (int lane = 0; lane < warp_threads; ++lane) again = run_thread(first + lane) || again;
  }
  return moved;
}

/// Runs the fibers until all have ended: in rounds, or (hasty) a warp as far as it gets, then the
/// next.
void machine::finish_block(bool hasty) {
  while (alive_ > 0) {
    bool moved = false;
    for (const int i : order_) moved = (hasty ? run_warp_of(i) : run_thread(i)) || moved;
    if (!moved) stop("threads wait for each other for ever: some at a barrier, some in a shuffle");
  }
}

void machine::run(const grid_size& grid, int block, size_t shared_bytes,
                  const std::function<void()>& body) {
  body_ = &body;
  uint64_t number = 0;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        place_ = {0,
                  block,
                  static_cast<int>(x),
                  static_cast<int>(y),
                  static_cast<int>(z),
                  static_cast<int>(grid.x)};
        start_block(block, shared_bytes);
        shuffle_order(number);
        finish_block(number++ % 2 == 0);
      }
    }
  }
}

void machine::barrier() {
  running_->at_barrier = true;
  ++waiting_;
  yield();
}

const unsigned char* machine::exchange(warp_operation what, const void* mine, size_t bytes) {
  if (bytes > lane_bytes) stop("a lane gives more than 64 bytes");
  thread_state& t = *running_;
  warp_state& w = warps_[static_cast<size_t>(t.index / warp_threads)];
  unsigned char* given = w.given[t.meetings & 1];
  if (w.arrived == 0) w.what = what;
  if (w.what != what) stop("lanes of a warp are in different operations");
  if (bytes > 0)
    std::memcpy(given + static_cast<size_t>(t.index % warp_threads) * lane_bytes, mine, bytes);
  ++t.meetings;
  if (++w.arrived == warp_threads) {
    w.arrived = 0;
    ++w.meetings;
  } else {
    yield();
  }
  return given;
}

}  // namespace

bool launchable(const grid_size& grid, int block, size_t shared_bytes) noexcept {
  return block > 0 && block <= 1024 && block % warp_threads == 0 && grid.y <= 65535 &&
         grid.z <= 65535 && grid.x <= 0x7fffffffu && shared_bytes <= max_shared_bytes;
}

void run_grid(const grid_size& grid, int block, size_t shared_bytes,
              const std::function<void()>& body) {
  thread_local machine one;  // its stacks are used again by the next launch
  current = &one;
  one.run(grid, block, shared_bytes, body);
  current = nullptr;
}

const thread_place& place() noexcept {
  return here().place();
}

void* shared() noexcept {
  return here().shared();
}

void block_barrier() {
  here().barrier();
}

const unsigned char* warp_exchange(warp_operation what, const void* mine, size_t bytes) {
  return here().exchange(what, mine, bytes);
}

void copy_later(void* to, const void* from, bool valid) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0 ||
      (valid && reinterpret_cast<uintptr_t>(from) % 16 != 0))
    stop("an asynchronous copy of 16 bytes is not aligned to 16");
  here().running().open.push_back({to, from, valid});
}

void commit_copies() {
  thread_state& t = here().running();
  t.groups.push_back(std::move(t.open));
  t.open.clear();
}

void wait_for_copies(int groups_left) {
  auto& groups = here().running().groups;
  while (groups.size() > static_cast<size_t>(groups_left)) {
    for (const copy& c : groups.front()) {
      if (c.valid) {
        std::memcpy(c.to, c.from, 16);
      } else {
        std::memset(c.to, 0, 16);
      }
      here().fence(false);
    }
    groups.erase(groups.begin());
  }
}

void fence_copies() {
  here().fence(true);
}

void begin_products() {
  here().running().begun = true;
}

void multiply_later(std::function<void()> product) {
  thread_state& t = here().running();
  if (!t.begun) stop("a product of a group without group_products_begin()");
  if (!here().all_fenced()) stop("a product of a group reads copies that were not fenced");
  t.products.push_back(std::move(product));
}

void commit_products() {
  thread_state& t = here().running();
  t.product_groups.push_back(std::move(t.products));
  t.products.clear();
}

void wait_for_products(int groups_left) {
  auto& groups = here().running().product_groups;
  here().running().begun = false;
  while (groups.size() > static_cast<size_t>(groups_left)) {
    for (const auto& product : groups.front()) product();
    groups.erase(groups.begin());
  }
}

void stop(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s", what);
  if (current != nullptr) {
    const thread_place& p = current->place();
    std::fprintf(stderr, " (block %d,%d,%d, thread %d of %d)", p.block_x, p.block_y, p.block_z,
                 p.thread, p.block_threads);
  }
  std::fprintf(stderr, "\n");
  std::abort();
}

}  // namespace troupe::gpu::cuda::emulator

// -- the tensor cores' instructions ---------------------------------------------------------------

namespace troupe::gpu::cuda {
namespace {

using emulator::warp_exchange;
using emulator::warp_operation;

/// The rows' addresses that the 32 lanes gave.
template <class Pick>
void load(uint32_t (&r)[4], const void* shared_row, const Pick& pick) {
  if (reinterpret_cast<uintptr_t>(shared_row) % 16 != 0)
    emulator::stop("ldmatrix of unaligned row");
  const auto* all = warp_exchange(warp_operation::load_matrices, &shared_row, sizeof shared_row);
  for (int matrix = 0; matrix < 4; ++matrix) {
    uint16_t two[2];
    for (int i = 0; i < 2; ++i) {
      const auto [row, column] = pick(i);
      const uint16_t* from;
      std::memcpy(&from, all + 64 * (matrix * 8 + row), sizeof from);
      two[i] = from[column];
    }
    r[matrix] = two[0] | static_cast<uint32_t>(two[1]) << 16;
  }
}

float half_of(uint32_t pair, int which) {
  return bits_to_float((which ? pair >> 16 : pair & 0xffff) << 16);
}

}  // namespace

void load_matrices(uint32_t (&r)[4], const void* shared_row) {
  const int l = thread_index() & 31;
  load(r, shared_row, [l](int i) { return std::pair{l / 4, 2 * (l % 4) + i}; });
}

void load_matrices_transposed(uint32_t (&r)[4], const void* shared_row) {
  const int l = thread_index() & 31;
  load(r, shared_row, [l](int i) { return std::pair{2 * (l % 4) + i, l / 4}; });
}

void multiply_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  struct fragments {
    uint32_t a[4], b[2];
  } mine;
  std::memcpy(mine.a, a, sizeof mine.a);
  std::memcpy(mine.b, b, sizeof mine.b);
  const auto* all = warp_exchange(warp_operation::multiply, &mine, sizeof mine);
  const auto word = [all](int lane, int nth) {
    uint32_t pair;
    std::memcpy(&pair, all + 64 * lane + 4 * nth, sizeof pair);
    return pair;
  };
  const int g = (thread_index() & 31) / 4, t = thread_index() & 3;
  // Row r of a lies with the four lanes of group r % 8; column c of b with those of group c. A word
  // has two terms, and each sum takes its sixteen in their order.
  float sums[4] = {};
  for (int half = 0; half < 2; ++half) {
    for (int pair = 0; pair < 4; ++pair) {
      const uint32_t rows[2] = {word(4 * g + pair, 2 * half), word(4 * g + pair, 2 * half + 1)};
      const uint32_t columns[2] = {word(8 * t + pair, 4 + half), word(8 * t + 4 + pair, 4 + half)};
      for (int which = 0; which < 2; ++which)
        for (int i = 0; i < 4; ++i)
          sums[i] += half_of(rows[i / 2], which) * half_of(columns[i % 2], which);
    }
  }
  for (int i = 0; i < 4; ++i) d[i] += sums[i];
}

}  // namespace troupe::gpu::cuda
