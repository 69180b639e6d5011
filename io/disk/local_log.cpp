// Appending to a file by plain system calls, every result looked at: see local_log.hpp.
#include "io/disk/local_log.hpp"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/disk/disk.hpp"
#include "io/disk/system_disk.hpp"
#include "io/file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

class local_log final : public log_file {
 public:
  local_log(unique_fd fd, fs::path name) : fd_(std::move(fd)), name_(std::move(name)) {}

  status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return disk_error("write", name_, n < 0 ? errno : ENOSPC);
      offset += static_cast<uint64_t>(n);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  status cut(uint64_t bytes) override {
    return checked(::ftruncate(fd_.get(), static_cast<off_t>(bytes)), "cut");
  }

  status sync() override { return checked(::fdatasync(fd_.get()), "fdatasync of"); }

  status keep_room(uint64_t offset, uint64_t bytes) override {
    return checked(::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                               static_cast<off_t>(bytes)),
                   "set room aside for");
  }

  bool is_named(const fs::path& name) const override { return still_names(name, fd_.get()); }

 private:
  status checked(int answer, std::string_view doing) const {
    return answer == 0 ? status{} : status{disk_error(doing, name_, errno)};
  }

  unique_fd fd_;
  fs::path name_;  ///< when it was opened
};

int flags_of(log_open how) {
  constexpr int all = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  switch (how) {
    case log_open::existing:
      return all;
    case log_open::create:
      return all | O_CREAT | O_EXCL;
    case log_open::replace:
      return all | O_CREAT | O_TRUNC;
  }
  return all;
}

}  // namespace

result<std::unique_ptr<log_file>> open_local_log(const fs::path& name, log_open how) {
  ignore_size_signal();
  constexpr mode_t owner_alone = 0600;
  unique_fd fd(::open(name.c_str(), flags_of(how), owner_alone));
  if (!fd) return disk_error("open", name, errno);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return disk_error("look at", name, errno);
  if (!S_ISREG(facts.st_mode))
    return error{errc::bad_data, fmt::format("{} is not a regular file", name.string())};
  if (how == log_open::replace && ::fchmod(fd.get(), owner_alone) != 0)
    return disk_error("set the mode of", name, errno);
  return std::unique_ptr<log_file>(std::make_unique<local_log>(std::move(fd), name));
}

}  // namespace troupe::io
