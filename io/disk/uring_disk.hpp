// A disk on io_uring: one ring, used by the disk's owner alone; the slots registered as its buffers
// and the files as its files, where the system allows it (a plain user may lock 8 MiB only).
//
// Invariants
//   UD-1  Only the owner's thread touches the ring; wake() writes to an eventfd the ring polls.
//   UD-2  What is not allowed costs speed, never function: facts() says so.
#pragma once

#include <map>
#include <memory>

#include <liburing.h>

#include "io/disk/system_disk.hpp"
#include "io/file.hpp"

namespace troupe::io {

class uring_disk final : public system_disk {
 public:
  /// Error unavailable: io_uring is refused here (kernel, sysctl, seccomp), with what it said.
  static result<std::unique_ptr<uring_disk>> make(const disk_options& options);
  ~uring_disk() override;

  void wake() override;

 protected:
  result<opened> raw_open(const path& name, const open_options& options) override;
  void raw_close(int handle) override;
  void raw_submit(const raw_request& request) override;
  bool raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) override;

 private:
  explicit uring_disk(const disk_options& options) : system_disk(options.depth) {}
  status start(const disk_options& options);
  void register_ring(const std::shared_ptr<slots>& ring);
  void watch_wake();
  bool take_answers(std::vector<raw_answer>& answers);
  bool enter(bool block, nanoseconds until);

  io_uring uring_{};
  bool started_ = false;
  unique_fd wake_;
  bool watching_ = false;
  std::shared_ptr<slots> ring_;     ///< whose slots are registered, if any
  std::vector<int> free_places_;    ///< in the table of registered files
  std::map<int, int> places_;       ///< descriptor -> place
  std::vector<raw_answer> failed_;  ///< could not be given to the kernel
};

}  // namespace troupe::io
