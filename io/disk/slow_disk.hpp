// A disk that answers writes and fdatasyncs later than they were done: a drill ([[inject]]), in
// which a person sees what a slow disk does to his job. Every byte is as the disk beneath has it.
//
// Invariants
//   SLD-1  What took t is answered factor * t after it was submitted, by the factor of the time
//     when it was done; reads are answered at once.
//   SLD-2  A disk that closes waits for the kernel alone.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "io/disk/thread_disk.hpp"

namespace troupe::io {

/// Of threads: who asks for slowness does not ask for io_uring.
class slow_disk final : public thread_disk {
 public:
  /// `factor` may change at any time; at most 1: nothing is slow.
  slow_disk(const disk_options& options, std::shared_ptr<const std::atomic<double>> factor);
  ~slow_disk() override;

 protected:
  void raw_submit(const raw_request& request) override;
  bool raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) override;

 private:
  struct held {
    nanoseconds until;
    raw_answer answer;
  };
  void take(std::vector<raw_answer>& answers);

  std::shared_ptr<const std::atomic<double>> factor_;
  std::map<uint64_t, nanoseconds> submitted_;  ///< by id: when; writes and fdatasyncs
  std::vector<raw_answer> fresh_;              ///< what the disk beneath has answered last
  std::vector<held> held_;
  bool closing_ = false;
};

}  // namespace troupe::io
