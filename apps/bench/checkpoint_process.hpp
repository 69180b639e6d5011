// What `troupe bench checkpoint` asks of the system: its own processor time and memory, and other
// programs to compare with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::apps::ckpt_bench {

/// Seconds of processor time of this process, all threads, user and system.
double processor_s();
/// Bytes of this process in memory now.
uint64_t resident_bytes();
/// Forgets the highest of resident_bytes(); false where the system does not let us.
bool forget_peak();
/// The highest of resident_bytes() since.
uint64_t peak_bytes();
/// Bytes that could be allocated without swapping; 0 if unknown.
uint64_t available_bytes();

/// Another program, spoken with by its standard input and output, a line at a time. Ended with
/// SIGKILL, and what it started with it, if it still runs when this goes.
class child_process {
 public:
  /// Errors: not_found where there is no such program.
  static result<std::unique_ptr<child_process>> start(const std::vector<std::string>& command);
  ~child_process();
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  pid_t pid() const { return pid_; }
  status say(const std::string& line);
  /// The next line without its end; nothing after the last, after `timeout_s`, or once it is long.
  std::optional<std::string> hear(double timeout_s);
  /// Nothing more will come: hear() has come to the end.
  bool has_ended() const { return ended_; }
  /// Everything until it ends; at most 16 MiB.
  std::string read_all();

 private:
  child_process(pid_t pid, io::unique_fd in, io::unique_fd out)
      : pid_(pid), in_(std::move(in)), out_(std::move(out)) {}
  pid_t pid_;
  io::unique_fd in_, out_;
  std::string heard_;
  bool ended_ = false;
};

}  // namespace troupe::apps::ckpt_bench
