// A disk of a few threads that each do one pread, pwrite or fdatasync at a time: for systems that
// refuse io_uring (old kernels, containers), with the same promises.
//
// Invariant
//   TD-1  A thread that hangs in the kernel keeps nothing of the disk alive but the shared queue;
//         the disk can go without it, its buffer is then never reused (SL-4).
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "io/disk/system_disk.hpp"

namespace troupe::io {

class thread_disk : public system_disk {
 public:
  /// `refusal`: why it is not io_uring, empty when asked for.
  thread_disk(const disk_options& options, const std::string& refusal);
  ~thread_disk() override;

  void wake() override;

 protected:
  void raw_submit(const raw_request& request) override;
  bool raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) override;

 private:
  struct shared {
    std::mutex mutex;
    std::condition_variable asked;
    std::condition_variable answered;
    std::deque<raw_request> requests;
    std::vector<raw_answer> answers;
    bool woken = false;
    bool stop = false;
  };
  static void work(shared& with);
  /// As ::pwrite.
  static ssize_t write_at(const raw_request& request, off_t at);

  std::shared_ptr<shared> shared_ = std::make_shared<shared>();
  std::vector<std::thread> threads_;
};

}  // namespace troupe::io
