// Threads that take the next index until there is none.
#include "io/checkpoint/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

namespace troupe::io::checkpoint {

namespace {

/// Runs `work`, its exceptions made errors: a thread may not end by one.
status guarded(const std::function<status(unsigned, size_t)>& work, unsigned thread, size_t index) {
  try {
    return work(thread, index);
  } catch (const std::bad_alloc&) {
    return error{errc::no_memory, "out of memory while reading a checkpoint"};
  } catch (const std::exception& e) {
    return error{errc::bug, e.what()};
  }
}

}  // namespace

status byte_counter::add(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  done_ += bytes;
  if (!tell_ || tell_(done_, total_)) return {};
  return error{errc::cancelled, "stopped"};
}

unsigned threads_for(const work_options& options, size_t count) noexcept {
  const auto usual = [] { return std::clamp(std::thread::hardware_concurrency(), 4u, 8u); };
  if (count <= 1) return 1;
  const unsigned wanted = options.threads > 0 ? options.threads : usual();
  return static_cast<unsigned>(std::clamp<size_t>(count, 1, wanted));
}

status in_parallel(const work_options& options, size_t count,
                   const std::function<status(unsigned thread, size_t index)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::optional<error> first;
  const auto loop = [&](unsigned thread) {
    for (size_t i; (i = next.fetch_add(1)) < count;) {
      auto done = guarded(work, thread, i);
      if (done) continue;
      next = count;
      const std::lock_guard lock(mutex);
      if (!first) first = done.error();
    }
  };
  const unsigned threads = threads_for(options, count);
  {
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < threads; ++t) others.emplace_back(loop, t);
    loop(0);
  }
  if (first) return *first;
  return {};
}

}  // namespace troupe::io::checkpoint
