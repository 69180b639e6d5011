// A block of GPU threads on the CPU: every thread is a fiber, run until it waits for others.
//
// Why: kernels can then be tested where GPU not found: (simt.hpp). The machine is strict where
// hardware is silent: it stops the program, saying what was wrong, when a thread waits at a barrier
// that others have left for good, when lanes of a warp meet in different operations, when a thread
// ends with copies it never waited for, and when a launch exceeds what sm_90 offers.
//
// Invariants
// EM-1 Threads run in an order drawn anew for each block from its number, so that a result which
//   depends on the order differs from the reference; the same launch has the same orders. In blocks
//   of even number a warp runs as far ahead of the others as barriers let it, in the others all go
//   from one joint operation to the next together.
// EM-2 Shared memory holds NaNs when a block starts, and is exactly as large as asked for.
// EM-3 Asynchronous copies happen when they are waited for, not earlier: a missing wait shows. So
//   do the products of a group, and they read their panels then: one overwritten too early shows.
// EM-4 A product of a group is refused while copies that have arrived are not fenced, without a
//   beginning, or of panels that are not on 1,024 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "gpu/cuda/simt_types.hpp"

namespace troupe::gpu::cuda::emulator {

/// Whether the launch is one that sm_90 would take.
bool launchable(const grid_size& grid, int block, size_t shared_bytes) noexcept;

/// Runs `body` once per thread of every block, block after block, on the calling thread.
void run_grid(const grid_size& grid, int block, size_t shared_bytes,
              const std::function<void()>& body);

// -- called by the running thread -----------------------------------------------------------------

struct thread_place {
  int thread = 0, block_threads = 0, block_x = 0, block_y = 0, block_z = 0, grid_x = 0;
};

/// Where the running thread stands.
const thread_place& place() noexcept;
/// The block's shared memory.
void* shared() noexcept;
/// Waits for every thread of the block that has not ended.
void block_barrier();

/// What a warp can do together; lanes that meet must all be in the same.
enum class warp_operation : uint8_t { sync, shuffle, load_matrices, multiply, group_multiply };

/// Waits for the 32 lanes and returns what they gave, 64 bytes apart; valid until the lane's next
/// call. At most 64 bytes each.
const unsigned char* warp_exchange(warp_operation what, const void* mine, size_t bytes);

void copy_later(void* to, const void* from, bool valid);
void commit_copies();
void wait_for_copies(int groups_left);
/// The copies that this thread waited for may be read by products of groups.
void fence_copies();

void begin_products();
/// Runs `product` when it is waited for.
void multiply_later(std::function<void()> product);
void commit_products();
void wait_for_products(int groups_left);

/// Stops the program: a kernel broke a rule.
[[noreturn]] void stop(const char* what);

}  // namespace troupe::gpu::cuda::emulator
