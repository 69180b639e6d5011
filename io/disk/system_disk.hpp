// Names and descriptors by plain system calls: what uring_disk and thread_disk have in common.
#pragma once

#include <chrono>

#include "io/disk/disk.hpp"

namespace troupe::io {

/// How long a disk that goes waits for what the kernel still has.
inline constexpr std::chrono::seconds kernel_patience{10};

class system_disk : public disk {
 public:
  result<bool> make_dir(const path& name) override;
  status rename(const path& from, const path& to) override;
  status exchange(const path& one, const path& other) override;
  status remove_folder(const path& name, const claim& ours) override;
  result<std::vector<dir_entry>> list(const path& folder) override;
  status sync_dir(const path& folder) override;
  result<std::string> read_small(const path& name, size_t most) override;
  status write_small(const path& name, std::string_view content, durable sync) override;

 protected:
  using disk::disk;

  /// The handle is the descriptor.
  result<opened> raw_open(const path& name, const open_options& options) override;
  void raw_close(int handle) override;
};

}  // namespace troupe::io
