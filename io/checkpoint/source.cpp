// A folder as a source.
#include "io/checkpoint/source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "io/checkpoint/format.hpp"
#include "io/file.hpp"

namespace troupe::io::checkpoint {

namespace {

class plain_file final : public source_file {
 public:
  plain_file(unique_fd fd, uint64_t size, std::string name, pages behind)
      : fd_(std::move(fd)), size_(size), name_(std::move(name)), behind_(behind) {}

  uint64_t size() const noexcept override { return size_; }

  status read_at(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t begin = offset, bytes = out.size();
    while (!out.empty()) {
      const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return error::system(fmt::format("read {} at {}", name_, offset), errno);
      if (n == 0) return error{errc::bad_data, fmt::format("{} ends at byte {}", name_, offset)};
      offset += static_cast<uint64_t>(n);
      out = out.subspan(static_cast<size_t>(n));
    }
    if (behind_ == pages::drop)  // a wish: what comes of it does not matter
      (void)::posix_fadvise(fd_.get(), static_cast<off_t>(begin), static_cast<off_t>(bytes),
                            POSIX_FADV_DONTNEED);
    return {};
  }

 private:
  unique_fd fd_;
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
