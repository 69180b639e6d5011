// Requests to threads, answers back: see thread_disk.hpp.
#include "io/disk/thread_disk.hpp"

#include <cerrno>
#include <thread>

#include <sys/uio.h>
#include <unistd.h>

namespace troupe::io {

ssize_t thread_disk::write_at(const raw_request& request, off_t at) {
  const iovec bytes{request.bytes.data(), request.bytes.size()};
  return ::pwritev2(request.handle, &bytes, 1, at, request.through ? RWF_DSYNC : 0);
}

thread_disk::thread_disk(const disk_options& options, const std::string& refusal)
    : system_disk(options.depth) {
  facts_.backend = "threads";
  if (!refusal.empty()) note(refusal);
  for (int i = 0; i < options.threads; ++i)
    threads_.emplace_back([with = shared_] { work(*with); });
}

thread_disk::~thread_disk() {
  bool idle = drain(kernel_patience);
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->asked.notify_all();
  for (auto& thread : threads_) {
    if (idle)
      thread.join();
    else
      thread.detach();  // TD-1
  }
}

void thread_disk::work(shared& with) {
  std::unique_lock lock(with.mutex);
  while (true) {
    with.asked.wait(lock, [&] { return with.stop || !with.requests.empty(); });
    if (with.stop) return;
    auto request = with.requests.front();
    with.requests.pop_front();
    lock.unlock();
    ssize_t moved = 0;
    auto at = static_cast<off_t>(request.offset);
    switch (request.op) {
      case disk_op::write:
        moved = write_at(request, at);
        break;
      case disk_op::read:
        moved = ::pread(request.handle, request.bytes.data(), request.bytes.size(), at);
        break;
      case disk_op::fdatasync:
        moved = ::fdatasync(request.handle);
        break;
    }
    int64_t value = moved < 0 ? -errno : moved;
    lock.lock();
    with.answers.push_back({request.id, value});
    with.answered.notify_one();
  }
}

void thread_disk::raw_submit(const raw_request& request) {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->requests.push_back(request);
  }
  shared_->asked.notify_one();
}

bool thread_disk::raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) {
  std::unique_lock lock(shared_->mutex);
  if (block) {
    auto deadline = std::chrono::steady_clock::time_point(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(until));
    shared_->answered.wait_until(lock, deadline,
                                 [&] { return shared_->woken || !shared_->answers.empty(); });
  }
  answers.insert(answers.end(), shared_->answers.begin(), shared_->answers.end());
  shared_->answers.clear();
  return std::exchange(shared_->woken, false);
}

void thread_disk::wake() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->woken = true;
  }
  shared_->answered.notify_one();
}

}  // namespace troupe::io
