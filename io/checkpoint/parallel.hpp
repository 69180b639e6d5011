// A few threads over a list of work: for reads that several queues of a disk can serve at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "io/base/result.hpp"

namespace troupe::io::checkpoint {

/// Told of bytes done and in all, never by two threads at once; false cancels.
using progress = std::function<bool(uint64_t done, uint64_t total)>;

/// How long work is done.
struct work_options {
  /// 0 = as many as there are cores, 4 to 8: a disk is kept busy by more than one or two.
  unsigned threads = 0;
  checkpoint::progress progress;  ///< may be empty
};

/// Counts bytes and passes them on to a progress function.
class byte_counter {
 public:
  byte_counter(const progress& tell, uint64_t total) : tell_(tell), total_(total) {}

  /// Error cancelled if the person asked to stop.
  status add(uint64_t bytes);

 private:
  const progress& tell_;
  uint64_t total_;
  std::mutex mutex_;
  uint64_t done_ = 0;
};

/// Calls work(thread, index) for every index below `count`, in order of starting; `thread` is below
/// threads_for(options, count). After the first error no index is begun; that error is returned.
status in_parallel(const work_options& options, size_t count,
                   const std::function<status(unsigned thread, size_t index)>& work);

/// The threads that in_parallel uses.
unsigned threads_for(const work_options& options, size_t count) noexcept;

}  // namespace troupe::io::checkpoint
