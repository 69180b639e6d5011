// A folder as a source.
#include "io/checkpoint/source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "io/checkpoint/format.hpp"
#include "io/disk/slots.hpp"
#include "io/file.hpp"

namespace troupe::io::checkpoint {

namespace {

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
      if (n == 0) return error{errc::bad_data, fmt::format("{} ends at byte {}", name_, offset)};
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

class plain_folder final : public file_source {
 public:
  plain_folder(std::filesystem::path folder, pages behind)
      : folder_(std::move(folder)), behind_(behind) {}

  result<std::shared_ptr<const source_file>> open(const std::string& name) const override {
    if (!is_file_name(name)) return error{errc::bad_data, "a file's name is none"};
    TROUPE_TRY(fd, open_read(folder_ / name));
    struct stat facts {};
    if (::fstat(fd.get(), &facts) != 0) return error::system(fmt::format("stat {}", name), errno);
    const auto size = static_cast<uint64_t>(facts.st_size);
    return std::shared_ptr<const source_file>(
        std::make_shared<plain_file>(std::move(fd), size, name, behind_));
  }

 private:
  std::filesystem::path folder_;
  pages behind_;
};

}  // namespace

std::shared_ptr<const file_source> folder_source(std::filesystem::path folder, pages behind) {
  return std::make_shared<plain_folder>(std::move(folder), behind);
}

}  // namespace troupe::io::checkpoint
