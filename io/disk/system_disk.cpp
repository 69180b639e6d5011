// Names and descriptors by plain system calls, every result looked at: see system_disk.hpp.
#include "io/disk/system_disk.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/disk/thread_disk.hpp"
#include "io/disk/uring_disk.hpp"
#include "io/file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

int open_flags(const open_options& options) {
  int flags = O_CLOEXEC | (options.direct ? O_DIRECT : 0);
  switch (options.mode) {
    case open_mode::read:
      return flags | O_RDONLY | O_NONBLOCK;
    case open_mode::create:
      return flags | O_RDWR | O_CREAT | O_EXCL;
    case open_mode::replace:
      return flags | O_RDWR | O_CREAT | O_TRUNC;
  }
  return flags;
}

status checked(int answer, std::string_view doing, const fs::path& name) {
  return answer == 0 ? status{} : status{disk_error(doing, name, errno)};
}

/// A limit on the size of files must be an error of one file, not the end of the process.
void ignore_size_signal() {
  struct sigaction now {};
  if (::sigaction(SIGXFSZ, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace

result<disk::opened> system_disk::raw_open(const path& name, const open_options& options) {
  int flags = open_flags(options);
  bool direct = options.direct;
  unique_fd fd{::open(name.c_str(), flags, 0666)};
  if (!fd && errno == EINVAL && direct) {  // a file system without O_DIRECT made the file already
    direct = false;
    note(fmt::format("no O_DIRECT in {}: through the page cache", name.parent_path().string()));
    fd.reset(::open(name.c_str(), flags & ~(O_DIRECT | O_EXCL), 0666));
  }
  if (!fd) return disk_error("open", name, errno);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return disk_error("stat", name, errno);
  if (!S_ISREG(facts.st_mode))
    return error{errc::bad_data, fmt::format("{} is not a regular file", name.string())};
  if (options.preallocate > 0 &&
      ::fallocate(fd.get(), 0, 0, static_cast<off_t>(options.preallocate)) != 0) {
    int failure = errno;
    if (failure != EOPNOTSUPP && failure != ENOSYS) {
      if (options.mode == open_mode::create)  // half a file is of no use
        static_cast<void>(remove_own_file(name, fd.get()));
      return disk_error(fmt::format("reserve {} bytes for", options.preallocate), name, failure);
    }
    note(fmt::format("no fallocate in {}: space is not reserved", name.parent_path().string()));
  }
  return opened{fd.release(), direct};
}

void system_disk::raw_close(int handle) {
  ::close(handle);  // what was to be durable was synced before: its answer says nothing new
}

result<bool> system_disk::make_dir(const path& name) {
  if (::mkdir(name.c_str(), 0777) == 0) return true;
  int failure = errno;
  struct stat facts {};
  if (failure == EEXIST && ::stat(name.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))
    return false;
  return disk_error("make folder", name, failure);
}

status system_disk::rename(const path& from, const path& to) {
  return checked(::rename(from.c_str(), to.c_str()), fmt::format("rename {} to", from.string()),
                 to);
}

status system_disk::exchange(const path& one, const path& other) {
  return checked(::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE),
                 fmt::format("exchange {} with", one.string()), other);
}

status system_disk::remove_folder(const path& name, const claim& ours) {
  return remove_claimed(name, ours);
}

result<std::vector<dir_entry>> system_disk::list(const path& folder) {
  std::vector<dir_entry> found;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    struct stat facts {};
    if (::lstat(at->path().c_str(), &facts) != 0) continue;  // removed meanwhile
    found.push_back({at->path().filename().string(), S_ISDIR(facts.st_mode),
                     S_ISREG(facts.st_mode) ? static_cast<uint64_t>(facts.st_size) : 0});
  }
  if (failure) return disk_error("list", folder, failure.value());
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

status system_disk::sync_dir(const path& folder) {
  return fsync_directory(folder);
}

result<std::string> system_disk::read_small(const path& name, size_t most) {
  return read_file(name, most);
}

status system_disk::write_small(const path& name, std::string_view content, durable sync) {
  unique_fd fd{::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (!fd) return disk_error("open", name, errno);
  TROUPE_CHECK(write_all(fd.get(), as_bytes(content), name.string()));
  if (sync == durable::yes && ::fdatasync(fd.get()) != 0)
    return disk_error("fdatasync of", name, errno);
  return {};
}

result<std::unique_ptr<disk>> open_disk(const disk_options& options) {
  if (options.depth < 1 || options.depth > 1024 || options.threads < 1 || options.threads > 64)
    return error{errc::bad_config,
                 fmt::format("a disk of depth {} with {} threads is impossible", options.depth,
                             options.threads),
                 "depth is 1 to 1024, threads 1 to 64"};
  ignore_size_signal();
  std::string refusal;
  if (options.backend != disk_backend::threads) {
    auto uring = uring_disk::make(options);
    if (uring) return std::unique_ptr<disk>(std::move(*uring));
    if (options.backend == disk_backend::uring) return uring.error();
    refusal = uring.error().message;
  }
  return std::unique_ptr<disk>(std::make_unique<thread_disk>(options, refusal));
}

}  // namespace troupe::io
