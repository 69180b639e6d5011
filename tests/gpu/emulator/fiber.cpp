// Switching stacks: twelve instructions on x86-64, swapcontext elsewhere.
#include "tests/gpu/emulator/fiber.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
extern "C" void troupe_switch_stacks(void** save_here, void* go_there);
// Saves what the calling convention says a callee keeps, changes stacks, restores the other's.
asm(R"(
.text
.globl troupe_switch_stacks
.hidden troupe_switch_stacks
.type troupe_switch_stacks, @function
troupe_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size troupe_switch_stacks, .-troupe_switch_stacks
)");
#endif

namespace troupe::gpu::cuda::emulator {

struct fiber::state {
  // Not cleared, so that of a stack the pages alone are there that a kernel comes to: mostly one.
  std::unique_ptr<unsigned char[]> stack =
      std::make_unique_for_overwrite<unsigned char[]>(stack_bytes);
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
#if defined(__x86_64__)
  void* inside = nullptr;   // stack pointer of the fiber while it does not run
  void* outside = nullptr;  // stack pointer of whoever resumed it
#else
  ucontext_t inside, outside;
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* fake_inside = nullptr;
  void* fake_outside = nullptr;
  const void* caller_stack = nullptr;
  size_t caller_bytes = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan_inside = nullptr;
  void* tsan_outside = nullptr;
#endif
};

fiber::fiber() : state_(std::make_unique<state>()) {}
fiber::fiber(fiber&&) noexcept = default;
fiber& fiber::operator=(fiber&&) noexcept = default;

fiber::~fiber() {
#if defined(__SANITIZE_THREAD__)
  if (state_ && state_->tsan_inside) __tsan_destroy_fiber(state_->tsan_inside);
#endif
}

/// The first frame of a fiber.
void fiber::enter(state* self) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_stack, &self->caller_bytes);
#endif
  self->entry(self->argument);
  __builtin_trap();  // entry never returns
}

void fiber::prepare(void (*entry)(void*), void* argument) {
  state& s = *state_;
  s.entry = entry;
  s.argument = argument;
#if defined(__SANITIZE_ADDRESS__)
  // The last run left for good amid its frames, whose red zones are still marked.
  __asan_unpoison_memory_region(s.stack.get(), stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  if (!s.tsan_inside) s.tsan_inside = __tsan_create_fiber(0);
#endif
#if defined(__x86_64__)
  // A frame as troupe_switch_stacks leaves it: six registers, then where to return to. The fiber
  // starts in a trampoline that hands on rbx; the stack is 16-byte aligned before its call.
  struct frame {
    uint64_t r15, r14, r13, r12, rbx, rbp;
    void (*start)();
    uint64_t none;
  };
  auto top = reinterpret_cast<uintptr_t>(s.stack.get() + stack_bytes) & ~uintptr_t{15};
  auto* f = reinterpret_cast<frame*>(top - sizeof(frame));
  *f = {};
  f->rbx = reinterpret_cast<uint64_t>(&s);
  f->start = [] {
    state* self;
    asm volatile("movq %%rbx, %0" : "=r"(self));
    enter(self);
  };
  s.inside = f;
#else
  getcontext(&s.inside);
  s.inside.uc_stack.ss_sp = s.stack.get();
  s.inside.uc_stack.ss_size = stack_bytes;
  s.inside.uc_link = nullptr;
  const auto address = reinterpret_cast<uintptr_t>(&s);
  makecontext(&s.inside, reinterpret_cast<void (*)()>(+[](unsigned high, unsigned low) {
    enter(reinterpret_cast<state*>(static_cast<uintptr_t>(high) << 32 | low));
  }),
              2, static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
#endif
}

void fiber::resume() {
  state& s = *state_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&s.fake_outside, s.stack.get(), stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  s.tsan_outside = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(s.tsan_inside, 0);
#endif
#if defined(__x86_64__)
  troupe_switch_stacks(&s.outside, s.inside);
#else
  swapcontext(&s.outside, &s.inside);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(s.fake_outside, nullptr, nullptr);
#endif
}

void fiber::leave([[maybe_unused]] bool ended) {
  state& s = *state_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(ended ? nullptr : &s.fake_inside, s.caller_stack, s.caller_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(s.tsan_outside, 0);
#endif
#if defined(__x86_64__)
  troupe_switch_stacks(&s.inside, s.outside);
#else
  swapcontext(&s.inside, &s.outside);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(s.fake_inside, &s.caller_stack, &s.caller_bytes);
#endif
}

}  // namespace troupe::gpu::cuda::emulator
