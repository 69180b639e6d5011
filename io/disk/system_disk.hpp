// Descriptors by plain system calls, names as local_files() has them: what uring_disk and
// thread_disk have in common.
#pragma once

#include <chrono>

#include "io/disk/disk.hpp"

namespace troupe::io {

/// How long a disk that goes waits for what the kernel still has.
inline constexpr std::chrono::seconds kernel_patience{10};

/// A limit on the size of files (RLIMIT_FSIZE) must be an error of one file, not the end of the
/// process: if nobody handles SIGXFSZ, it is ignored from now on.
void ignore_size_signal();

class system_disk : public disk {
 public:
  result<bool> make_dir(const path& name) override { return local_files().make_dir(name); }
  status rename(const path& from, const path& to) override {
    return local_files().rename(from, to);
  }
  result<bool> rename_to_free(const path& from, const path& to) override {
    return local_files().rename_to_free(from, to);
  }
  status link(const path& file, const path& name) override {
    return local_files().link(file, name);
  }
  status clone(const path& file, const path& name) override {
    return local_files().clone(file, name);
  }
  result<uint64_t> names_of(const path& file) const override {
    return local_files().names_of(file);
  }
  status exchange(const path& one, const path& other) override {
    return local_files().exchange(one, other);
  }
  status remove_folder(const path& name, const claim& ours) override {
    return local_files().remove_folder(name, ours);
  }
  status check_removal(const path& name, const claim& ours) override {
    return local_files().check_removal(name, ours);
  }
  result<std::vector<dir_entry>> list(const path& folder) override {
    return local_files().list(folder);
  }
  status sync_dir(const path& folder) override { return local_files().sync_dir(folder); }
  result<std::string> read_small(const path& name, size_t most) override {
    return local_files().read_small(name, most);
  }
  status write_small(const path& name, std::string_view content, durable sync) override {
    return local_files().write_small(name, content, sync);
  }
  result<std::shared_ptr<const source_file>> open_source(const path& name, pages behind) override {
    return local_files().open_source(name, behind);
  }
  result<std::unique_ptr<log_file>> open_log(const path& name, log_open how) override {
    return local_files().open_log(name, how);
  }
  result<file_lock> read_lock(const path& file) override { return local_files().read_lock(file); }
  result<file_lock> exclude_readers(const path& file) override {
    return local_files().exclude_readers(file);
  }
  result<folder_identity> identity(const path& folder) override {
    return local_files().identity(folder);
  }
  result<path> canonical(const path& name) override { return local_files().canonical(name); }
  status point_link(const path& link, const std::string& target,
                    const std::function<bool(const std::string&)>& is_ours) override {
    return local_files().point_link(link, target, is_ours);
  }

 protected:
  using disk::disk;

  /// The handle is the descriptor.
  result<opened> raw_open(const path& name, const open_options& options) override;
  void raw_close(int handle) override;
  int raw_look(int handle, file_facts& facts) const override;
  void raw_drop(int handle, uint64_t offset, size_t bytes) override;
};

}  // namespace troupe::io
