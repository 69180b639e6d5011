// One read a record.
#include "io/logs/kernel_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace troupe::io {

std::optional<std::string_view> kernel_record_text(std::string_view record) {
  const auto head = record.find(';');
  if (head == record.npos) return std::nullopt;
  const auto text = record.substr(head + 1);
  return text.substr(0, text.find('\n'));
}

std::optional<kernel_log> kernel_log::open() {
  unique_fd records(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!records || lseek(records.get(), 0, SEEK_END) < 0) return std::nullopt;
  return kernel_log(std::move(records));
}

log_piece kernel_log::look(size_t room_bytes) {
  log_piece out;
  std::array<char, 16 << 10> record;  // the kernel makes none of more than 8 KiB
  for (size_t i = 0; i < most_records_a_look && out.bytes.size() < room_bytes; ++i) {
    const auto n = read(records_.get(), record.data(), record.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) {  // overwritten before it was read
      out.gap = true;
      continue;
    }
    if (n <= 0) break;
    if (const auto text = kernel_record_text({record.data(), static_cast<size_t>(n)}))
      out.bytes.append(*text).append("\n");
  }
  return out;
}

}  // namespace troupe::io
