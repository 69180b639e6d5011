// Names, small files and locks by plain system calls, every result looked at.
#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/disk/disk.hpp"
#include "io/disk/file_system.hpp"
#include "io/disk/local_log.hpp"
#include "io/disk/shared_lock.hpp"
#include "io/disk/slots.hpp"
#include "io/file.hpp"
#include "io/folder/unnamed_file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

status checked(int answer, std::string_view doing, const fs::path& name) {
  return answer == 0 ? status{} : status{disk_error(doing, name, errno)};
}

/// FICLONE of linux/fs.h, beside which sys/mount.h does not compile with every C library.
constexpr unsigned long share_blocks = _IOW(0x94, 9, int);

/// Shorter reads are not worth a disk's time: the page cache may have them, or will.
constexpr size_t least_direct = 256 << 10;

/// The same file opened past the page cache; none where the file system cannot.
unique_fd past_cache(const unique_fd& fd) {
  const auto self = fmt::format("/proc/self/fd/{}", fd.get());
  return unique_fd(::open(self.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
}

/// Whole slots are read past the page cache: a state is larger than what the cache would keep, is
/// read once, and filling the cache costs more time than the disk.
class plain_file final : public source_file {
 public:
  plain_file(unique_fd fd, uint64_t size, std::string name, pages behind)
      : fd_(std::move(fd)),
        direct_(past_cache(fd_)),
        size_(size),
        name_(std::move(name)),
        behind_(behind) {}

  uint64_t size() const noexcept override { return size_; }

  status read_at(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t begin = offset, whole = out.size();
    if (const size_t bytes = direct_bytes(offset, out)) {
      const auto n = ::pread(direct_.get(), out.data(), bytes, static_cast<off_t>(offset));
      if (n > 0) {  // what it did not give, a plain read gives, or says why not
        offset += static_cast<uint64_t>(n);
        out = out.subspan(static_cast<size_t>(n));
      }
    }
    while (!out.empty()) {
      const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return error::system(fmt::format("read {} at {}", name_, offset), errno);
      if (n == 0) return file_ends(name_, offset);
      offset += static_cast<uint64_t>(n);
      out = out.subspan(static_cast<size_t>(n));
    }
    if (behind_ == pages::drop)  // a wish: what comes of it does not matter
      (void)::posix_fadvise(fd_.get(), static_cast<off_t>(begin), static_cast<off_t>(whole),
                            POSIX_FADV_DONTNEED);
    return {};
  }

 private:
  /// How much of a read can go past the cache: its whole blocks, if it begins with one.
  size_t direct_bytes(uint64_t offset, std::span<const std::byte> out) const {
    if (!direct_ || out.size() < least_direct || offset % disk_block != 0 ||
        reinterpret_cast<uintptr_t>(out.data()) % disk_block != 0)
      return 0;
    return out.size() / disk_block * disk_block;
  }

  unique_fd fd_;
  unique_fd direct_;
  uint64_t size_;
  std::string name_;
  pages behind_;
};

using link_test = std::function<bool(const std::string& target)>;

class local final : public file_system {
 public:
  result<bool> make_dir(const path& name) override;
  status rename(const path& from, const path& to) override;
  result<bool> rename_to_free(const path& from, const path& to) override {
    return io::rename_to_free(from, to);
  }
  status link(const path& file, const path& name) override;
  status clone(const path& file, const path& name) override;
  result<uint64_t> names_of(const path& file) const override;
  status exchange(const path& one, const path& other) override;
  status remove_folder(const path& name, const claim& ours) override;
  status check_removal(const path& name, const claim& ours) override;
  result<std::vector<dir_entry>> list(const path& folder) override;
  status sync_dir(const path& folder) override;
  result<std::string> read_small(const path& name, size_t most) override;
  status write_small(const path& name, std::string_view content, durable sync) override;
  result<std::shared_ptr<const source_file>> open_source(const path& name, pages behind) override;
  result<std::unique_ptr<log_file>> open_log(const path& name, log_open how) override {
    return open_local_log(name, how);
  }
  result<file_lock> read_lock(const path& file) override;
  result<file_lock> exclude_readers(const path& file) override;
  result<folder_identity> identity(const path& folder) override;
  result<path> canonical(const path& name) override;
  status point_link(const path& link, const std::string& target, const link_test& is_ours) override;
};

result<bool> local::make_dir(const path& name) {
  if (::mkdir(name.c_str(), 0777) == 0) return true;
  int failure = errno;
  struct stat facts {};
  if (failure == EEXIST && ::stat(name.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))
    return false;
  return disk_error("make folder", name, failure);
}

status local::rename(const path& from, const path& to) {
  return checked(::rename(from.c_str(), to.c_str()), fmt::format("rename {} to", from.string()),
                 to);
}

status local::link(const path& file, const path& name) {
  return checked(::link(file.c_str(), name.c_str()), fmt::format("link {} as", file.string()),
                 name);
}

/// Made without a name, so that nobody has to remove what came to nothing.
status local::clone(const path& file, const path& name) {
  const auto doing = fmt::format("clone {} as", file.string());
  const unique_fd from(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  if (!from || ::fstat(from.get(), &facts) != 0) return disk_error(doing, name, errno);
  TROUPE_TRY(made, unnamed_file(name.parent_path()));
  TROUPE_CHECK(checked(::ioctl(made.get(), share_blocks, from.get()), doing, name));
  TROUPE_CHECK(checked(::fchmod(made.get(), facts.st_mode & 0777), doing, name));
  TROUPE_CHECK(checked(::fsync(made.get()), doing, name));
  const auto self = fmt::format("/proc/self/fd/{}", made.get());
  return checked(::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW), doing,
                 name);
}

result<uint64_t> local::names_of(const path& file) const {
  struct stat facts {};
  TROUPE_CHECK(checked(::lstat(file.c_str(), &facts), "look at", file));
  return static_cast<uint64_t>(facts.st_nlink);
}

status local::exchange(const path& one, const path& other) {
  return checked(::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE),
                 fmt::format("exchange {} with", one.string()), other);
}

status local::remove_folder(const path& name, const claim& ours) {
  return remove_claimed(name, ours);
}

result<std::vector<dir_entry>> local::list(const path& folder) {
  std::vector<dir_entry> found;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    struct stat facts {};
    if (::lstat(at->path().c_str(), &facts) != 0) continue;  // removed meanwhile
    found.push_back({at->path().filename().string(), S_ISDIR(facts.st_mode),
                     S_ISREG(facts.st_mode) ? static_cast<uint64_t>(facts.st_size) : 0,
                     facts.st_mtim.tv_sec});
  }
  if (failure) return disk_error("list", folder, failure.value());
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

status local::sync_dir(const path& folder) {
  return fsync_directory(folder);
}

result<std::string> local::read_small(const path& name, size_t most) {
  return read_file(name, most);
}

status local::write_small(const path& name, std::string_view content, durable sync) {
  unique_fd fd{::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (!fd) return disk_error("open", name, errno);
  TROUPE_CHECK(write_all(fd.get(), as_bytes(content), name.string()));
  if (sync == durable::yes && ::fdatasync(fd.get()) != 0)
    return disk_error("fdatasync of", name, errno);
  return {};
}

status local::check_removal(const path& name, const claim& ours) {
  return check_claimed(name, ours);
}

result<std::shared_ptr<const source_file>> local::open_source(const path& name, pages behind) {
  TROUPE_TRY(fd, open_read(name));
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0)
    return error::system(fmt::format("stat {}", name.string()), errno);
  const auto size = static_cast<uint64_t>(facts.st_size);
  return std::shared_ptr<const source_file>(
      std::make_shared<plain_file>(std::move(fd), size, name.filename().string(), behind));
}

file_lock lock_of(unique_fd file) {
  return std::make_shared<unique_fd>(std::move(file));
}

result<file_lock> local::read_lock(const path& file) {
  TROUPE_TRY(fd, lock_to_read(file, system_lock_steps()));
  return lock_of(std::move(fd));
}

result<file_lock> local::exclude_readers(const path& file) {
  constexpr int how = O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  // NFS locks exclusively only what is open for writing.
  unique_fd fd(::open(file.c_str(), O_RDWR | how));
  if (!fd) fd.reset(::open(file.c_str(), O_RDONLY | how));
  if (!fd) return file_lock{};  // nobody can begin without it
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return being_read(file.parent_path().string());
  return lock_of(std::move(fd));
}

result<std::filesystem::path> local::canonical(const path& name) {
  std::error_code code;
  auto found = fs::canonical(name, code);
  if (code) return disk_error("find", name, code.value());
  return found;
}

result<folder_identity> local::identity(const path& folder) {
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0) return disk_error("look at", folder, errno);
  if (!S_ISDIR(facts.st_mode)) return disk_error("look at", folder, ENOTDIR);
  return folder_identity{facts.st_dev, facts.st_ino};
}

// -- links ----------------------------------------------------------------------------------------

/// Whether a name is free or a link of ours.
bool may_point(const fs::path& link, const link_test& is_ours) {
  std::error_code code;
  const auto there = fs::symlink_status(link, code);
  if (there.type() == fs::file_type::not_found) return true;
  if (!fs::is_symlink(there)) return false;
  const auto target = fs::read_symlink(link, code);
  return !code && is_ours(target.string());
}

/// The link itself, whatever it points to.
unique_fd open_link(const fs::path& link) {
  return unique_fd(::open(link.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

/// Makes a link under its temporary name. One of that name was left by a process that was killed in
/// between and had our number: containers give the same one at each start.
status make_link(const std::string& target, const fs::path& made, const link_test& is_ours) {
  if (::symlink(target.c_str(), made.c_str()) == 0) return {};
  const int failure = errno;
  if (failure != EEXIST || !may_point(made, is_ours)) return disk_error("make link", made, failure);
  if (const auto left = open_link(made)) TROUPE_CHECK(remove_own_file(made, left.get()));
  return checked(::symlink(target.c_str(), made.c_str()), "make link", made);
}

status local::point_link(const path& link, const std::string& target, const link_test& is_ours) {
  if (!may_point(link, is_ours))
    return error{errc::permission,
                 fmt::format("{} is not this program's: it stays", link.string())};
  const auto made =
      link.parent_path() / fmt::format(".{}.tmp-{}", link.filename().string(), ::getpid());
  TROUPE_CHECK(make_link(target, made, is_ours));
  const auto ours = open_link(made);
  const auto done =
      checked(::rename(made.c_str(), link.c_str()), fmt::format("point to {} by", target), link);
  if (!done && ours) static_cast<void>(remove_own_file(made, ours.get()));
  return done;
}

}  // namespace

file_system& local_files() {
  static local files;
  return files;
}

}  // namespace troupe::io
