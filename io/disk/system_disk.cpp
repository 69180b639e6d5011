// Descriptors by plain system calls, every result looked at: see system_disk.hpp.
#include "io/disk/system_disk.hpp"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/disk/drive_traits.hpp"
#include "io/disk/thread_disk.hpp"
#include "io/disk/uring_disk.hpp"
#include "io/file.hpp"

namespace troupe::io {

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
    case open_mode::update:
      return flags | O_RDWR;
  }
  return flags;
}

}  // namespace

void ignore_size_signal() {
  struct sigaction now {};
  if (::sigaction(SIGXFSZ, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    std::signal(SIGXFSZ, SIG_IGN);
}

result<disk::opened> system_disk::raw_open(const path& name, const open_options& options) {
  int flags = open_flags(options);
  bool direct = options.direct;
  unique_fd fd{::open(name.c_str(), flags, 0666)};
  if (!fd && errno == EINVAL && direct) {  // a file system without O_DIRECT made the file already
    direct = false;
    warn(fmt::format("no O_DIRECT in {}: through the page cache", name.parent_path().string()));
    fd.reset(::open(name.c_str(), flags & ~(O_DIRECT | O_EXCL), 0666));
  }
  if (!fd) return disk_error("open", name, errno);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return disk_error("stat", name, errno);
  if (!S_ISREG(facts.st_mode))
    return error{errc::bad_data, fmt::format("{} is not a regular file", name.string())};
  if (options.drop_pages)
    if (const auto network = network_of(fd.get()); !network.empty())
      warn(fmt::format("{} is on a network file system ({}), which is no local drive",
                       name.parent_path().string(), network));
  if (options.preallocate > 0 &&
      ::fallocate(fd.get(), 0, 0, static_cast<off_t>(options.preallocate)) != 0) {
    int failure = errno;
    if (failure != EOPNOTSUPP && failure != ENOSYS) {
      if (options.mode == open_mode::create)  // half a file is of no use
        static_cast<void>(remove_own_file(name, fd.get()));
      return disk_error(fmt::format("reserve {} bytes for", options.preallocate), name, failure);
    }
    warn(fmt::format("no fallocate in {}: space is not reserved", name.parent_path().string()));
  }
  return opened{fd.release(), direct};
}

void system_disk::raw_close(int handle) {
  ::close(handle);  // what was to be durable was synced before: its answer says nothing new
}

int system_disk::raw_look(int handle, file_facts& facts) const {
  constexpr uint64_t unit = 512;  // of st_blocks, whatever the file system's are
  struct stat found {};
  if (::fstat(handle, &found) != 0) return errno;
  facts.names = static_cast<uint64_t>(found.st_nlink);
  facts.bytes = static_cast<uint64_t>(found.st_size);
  facts.taken_bytes = static_cast<uint64_t>(found.st_blocks) * unit;
  return 0;
}

void system_disk::raw_drop(int handle, uint64_t offset, size_t bytes) {
  static_cast<void>(::posix_fadvise(handle, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                                    POSIX_FADV_DONTNEED));
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
