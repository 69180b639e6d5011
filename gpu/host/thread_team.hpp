// A team of threads that runs one function at a time, all of them at once.
//
// Why not OpenMP: several processes share few cores here, and libgomp's waiting threads spin for
// milliseconds unless the environment was set before the process started; its teams also look
// like races to ThreadSanitizer. This team spins for some microseconds (operations of a step
// follow each other at once) and then sleeps.
//
// Invariants
//   TEAM-1  With one thread there is no other thread: run() is a plain call.
//   TEAM-2  run() returns after every member has finished; what they wrote is visible to the
//           caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace troupe::gpu::host {

/// A moment of politeness inside a spinning loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins tried before sleeping: about 20 microseconds.
inline constexpr int spin_limit = 400;

class thread_team {
 public:
  /// `threads` >= 1, the calling thread counted. Names of threads start with `name` (15
  /// characters kept).
  thread_team(int threads, const std::string& name);
  ~thread_team();
  thread_team(const thread_team&) = delete;
  thread_team& operator=(const thread_team&) = delete;

  int threads() const noexcept { return threads_; }

  /// Calls f(member, members) once per member, in parallel; member 0 is the caller. f must not
  /// throw.
  template <class F>
  void run(F&& f) {
    if (threads_ == 1) return f(0, 1);  // TEAM-1
    using body = std::remove_reference_t<F>;
    run_all([](void* p, int i, int n) { (*static_cast<body*>(p))(i, n); },
            const_cast<void*>(static_cast<const void*>(&f)));
  }

  /// Calls f(item, member) for every item of [0, items), handed out in order to whoever is free.
  template <class F>
  void for_each(int64_t items, F&& f) {
    if (threads_ == 1 || items <= 1) {
      for (int64_t i = 0; i < items; ++i) f(i, 0);
      return;
    }
    std::atomic<int64_t> next{0};
    run([&](int member, int) {
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;) f(i, member);
    });
  }

  /// Calls f(begin, end, member) with the member's contiguous share of [0, items), cut at
  /// multiples of `grain`; the same share every time (DEV-5). Members whose share is empty are
  /// not called.
  template <class F>
  void split(int64_t items, int64_t grain, F&& f) {
    if (threads_ == 1 || items <= grain) {
      if (items > 0) f(int64_t{0}, items, 0);
      return;
    }
    run([&](int member, int members) {
      const int64_t blocks = (items + grain - 1) / grain;
      const int64_t begin = blocks * member / members * grain;
      int64_t end = blocks * (member + 1) / members * grain;
      if (end > items) end = items;
      if (begin < end) f(begin, end, member);
    });
  }

 private:
  using entry = void (*)(void*, int, int);
  void run_all(entry function, void* argument);
  void work(int member);

  const int threads_;
  std::vector<std::thread> workers_;
  entry function_ = nullptr;
  void* argument_ = nullptr;
  bool stop_ = false;
  std::atomic<int> generation_{0};
  std::atomic<int> remaining_{0};
};

/// Names the calling thread for debuggers and traces (15 characters are kept).
void name_this_thread(const std::string& name) noexcept;

}  // namespace troupe::gpu::host
