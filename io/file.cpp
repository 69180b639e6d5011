// Files: see file.hpp. Every system call's result is looked at; EINTR is retried.
#include "io/file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <isa-l/crc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "io/folder/owned.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr size_t buffer_bytes = 1 << 20;

error failed(std::string_view what, const fs::path& path) {
  int code = errno;
  return error::system(fmt::format("{} {}", what, path.string()), code);
}

result<uint64_t> file_size(int fd, const fs::path& path) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return failed("stat", path);
  if (!S_ISREG(facts.st_mode))
    return error{errc::bad_data, fmt::format("{} is not a regular file", path.string())};
  return static_cast<uint64_t>(facts.st_size);
}

}  // namespace

void unique_fd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

result<unique_fd> open_read(const fs::path& path) {
  unique_fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!fd) return failed("open", path);
  TROUPE_TRY(size, file_size(fd.get(), path));
  static_cast<void>(size);
  return fd;
}

result<std::string> read_file(const fs::path& path, size_t max_bytes) {
  TROUPE_TRY(fd, open_read(path));
  TROUPE_TRY(size, file_size(fd.get(), path));
  if (size > max_bytes)
    return error{errc::bad_data, fmt::format("{} has {} bytes, more than the {} expected at most",
                                             path.string(), size, max_bytes)};
  std::string text(size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t n = ::read(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("read", path);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
}

status write_all(int fd, std::span<const std::byte> bytes, std::string_view what) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error::system(fmt::format("write {}", what), errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

bool still_names(const fs::path& path, int fd) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

status fsync_directory(const fs::path& path) {
  unique_fd fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd) return failed("open folder", path);
  if (::fsync(fd.get()) != 0) return failed("fsync folder", path);
  return {};
}

namespace {

/// What a file system says that knows no flags of a rename.
bool knows_no_flags(int failure) {
  return failure == EINVAL || failure == ENOSYS || failure == EOPNOTSUPP;
}

}  // namespace

result<bool> rename_to_free(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  if (!knows_no_flags(errno)) return failed("rename", from);
  struct stat there {};
  if (::lstat(to.c_str(), &there) == 0) return false;
  if (errno != ENOENT) return failed("look at", to);
  if (::rename(from.c_str(), to.c_str()) != 0) return failed("rename", from);
  return true;
}

result<bool> change_places(const fs::path& one, const fs::path& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0)
    return true;
  if (knows_no_flags(errno)) return false;
  return failed("rename to", other);
}

status write_atomic(const fs::path& path, std::string_view content) {
  TROUPE_TRY(file, atomic_file::create(path));
  TROUPE_CHECK(file.write(content));
  return file.commit();
}

// -- mapped_file ------------------------------------------------------------------------------

result<std::shared_ptr<const mapped_file>> mapped_file::open(const fs::path& path) {
  TROUPE_TRY(fd, open_read(path));
  TROUPE_TRY(size, file_size(fd.get(), path));
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) return failed("map", path);
  }
  return std::shared_ptr<const mapped_file>(
      new mapped_file(path, static_cast<const std::byte*>(data), size));
}

mapped_file::~mapped_file() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

// -- map_scan ---------------------------------------------------------------------------------

namespace {

/// Rarely enough that it costs nothing; a multiple of every size of a page.
constexpr size_t scanned_bytes = size_t{4} << 20;

/// Where the system does not take the advice all works, in more memory.
void advise(std::span<const std::byte> part, int advice) noexcept {
  if (!part.empty()) ::madvise(const_cast<std::byte*>(part.data()), part.size(), advice);
}

}  // namespace

map_scan::map_scan(const mapped_file& map) noexcept : all_(map.bytes()) {
  advise(all_, MADV_SEQUENTIAL);
}

/// Of all: a fault maps pages around it, also some that had been passed.
map_scan::~map_scan() {
  advise(all_, MADV_DONTNEED);
  advise(all_, MADV_NORMAL);
}

void map_scan::passed(size_t end) noexcept {
  if (end < left_ + scanned_bytes) return;
  const size_t whole = end - end % scanned_bytes;
  advise(all_.subspan(left_, whole - left_), MADV_DONTNEED);
  left_ = whole;
}

// -- atomic_file ------------------------------------------------------------------------------

atomic_file::atomic_file(unique_fd fd, fs::path target, fs::path temporary)
    : fd_(std::move(fd)), target_(std::move(target)), temporary_(std::move(temporary)) {}

atomic_file::atomic_file(atomic_file&& other) noexcept
    : fd_(std::move(other.fd_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      buffer_(std::move(other.buffer_)),
      size_(other.size_) {}

atomic_file::~atomic_file() {
  if (!temporary_.empty())
    static_cast<void>(remove_own_file(temporary_, fd_.get()));  // FILE-2
}

result<atomic_file> atomic_file::create(const fs::path& path) {
  // A name of our own, so that two writers of one target never share a temporary.
  static std::atomic<uint64_t> counter{0};
  // In a container the process has the same number each time, and what a kill left is there.
  constexpr int most_names = 100;
  for (int tries = 1;; ++tries) {
    auto name = fmt::format("{}.tmp-{}-{}", path.string(), ::getpid(), counter++);
    unique_fd fd{::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    if (fd) return atomic_file(std::move(fd), path, name);
    if (errno != EEXIST || tries == most_names) return failed("create", path);
  }
}

status atomic_file::flush() {
  TROUPE_CHECK(write_all(fd_.get(), as_bytes(buffer_), temporary_.string()));
  buffer_.clear();
  return {};
}

status atomic_file::write(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > buffer_bytes) TROUPE_CHECK(flush());
  if (bytes.size() >= buffer_bytes) return write_all(fd_.get(), bytes, temporary_.string());
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {};
}

status atomic_file::write(std::string_view text) {
  return write(as_bytes(text));
}

status atomic_file::overwrite(uint64_t offset, std::span<const std::byte> bytes) {
  assert(offset <= size_ && bytes.size() <= size_ - offset);
  TROUPE_CHECK(flush());
  while (!bytes.empty()) {
    ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write", temporary_);
    offset += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

status atomic_file::commit() {
  TROUPE_CHECK(flush());
  if (::fsync(fd_.get()) != 0) return failed("fsync", temporary_);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return failed("rename to", target_);
  temporary_.clear();
  fd_.reset();
  auto folder = target_.parent_path();
  return fsync_directory(folder.empty() ? fs::path(".") : folder);  // FILE-1
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous) noexcept {
  // isa-l neither inverts its start nor its result; the standard does both. Its length is an int.
  constexpr size_t piece = 1 << 30;
  uint32_t crc = ~previous;
  while (!bytes.empty()) {
    size_t n = std::min(bytes.size(), piece);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    crc = crc32_iscsi(data, static_cast<int>(n), crc);
    bytes = bytes.subspan(n);
  }
  return ~crc;
}

}  // namespace troupe::io
