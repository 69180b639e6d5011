// A bar of bytes done for whoever waits at a terminal.
#pragma once

#include <chrono>
#include <string>

#include "io/checkpoint/parallel.hpp"

namespace troupe::apps::ckpt {

/// Draws "verify  [#####-----]  1.2 of 4.0 GiB  2.3 GB/s" on stderr, at most ten times a second and
/// only on a terminal; gone when it is destroyed.
class progress_bar {
 public:
  explicit progress_bar(std::string what);
  ~progress_bar();
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  /// What io/checkpoint tells; valid as long as the bar.
  io::checkpoint::progress callback();

 private:
  using clock = std::chrono::steady_clock;
  void draw(uint64_t done, uint64_t total);

  std::string what_;
  bool terminal_;
  clock::time_point began_ = clock::now();
  clock::time_point last_ = {};
};

}  // namespace troupe::apps::ckpt
