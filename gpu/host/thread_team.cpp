// The waiting and waking of a thread team; see thread_team.hpp.
#include "gpu/host/thread_team.hpp"

#include <pthread.h>

#include <cassert>

namespace troupe::gpu::host {

void name_this_thread(const std::string& name) noexcept {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

thread_team::thread_team(int threads, const std::string& name) : threads_(threads) {
  assert(threads >= 1);
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int member = 1; member < threads; ++member) {
    workers_.emplace_back([this, member, name] {
      name_this_thread(name.substr(0, 12) + "/" + std::to_string(member));
      work(member);
    });
  }
}

thread_team::~thread_team() {
  stop_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void thread_team::run_all(entry function, void* argument) {
  function_ = function;
  argument_ = argument;
  remaining_.store(threads_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  function(argument, 0, threads_);
  for (int spin = 0; spin < 4 * spin_limit; ++spin) {
    if (remaining_.load(std::memory_order_acquire) == 0) return;  // TEAM-2
    cpu_relax();
  }
  for (int left; (left = remaining_.load(std::memory_order_acquire)) != 0;) remaining_.wait(left);
}

void thread_team::work(int member) {
  int seen = 0;
  while (true) {
    for (int spin = 0; spin < spin_limit; ++spin) {
      if (generation_.load(std::memory_order_acquire) != seen) break;
      cpu_relax();
    }
    generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_) return;
    function_(argument_, member, threads_);
    if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) remaining_.notify_one();
  }
}

}  // namespace troupe::gpu::host
