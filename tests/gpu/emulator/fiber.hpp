// Fibers: stacks that one thread of the CPU switches between.
//
// Why own ones: swapcontext makes two system calls a switch, and a test of an attention kernel
// switches millions of times. On x86-64 a switch is a dozen instructions; elsewhere it is
// swapcontext. The address sanitizer is told of every switch.
#pragma once

#include <cstddef>
#include <memory>

namespace troupe::gpu::cuda::emulator {

class fiber {
 public:
  static constexpr size_t stack_bytes = size_t{96} << 10;

  fiber();
  ~fiber();
  fiber(fiber&&) noexcept;
  fiber& operator=(fiber&&) noexcept;

  /// Makes the next resume() start `entry(argument)` on a fresh stack. entry must not return: its
  /// last act is leave().
  void prepare(void (*entry)(void*), void* argument);
  /// Runs the fiber until it calls leave().
  void resume();
  /// Back to whoever called resume(); `ended`: for the last time. Called on the fiber itself.
  void leave(bool ended = false);

 private:
  struct state;
  static void enter(state* self);
  std::unique_ptr<state> state_;
};

}  // namespace troupe::gpu::cuda::emulator
