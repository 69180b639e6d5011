// System calls; see groups.hpp.
#include "gpu/controls/groups.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "gpu/controls/control_record.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"
#include "io/machine/available_memory.hpp"

namespace troupe::gpu::controls {

namespace fs = std::filesystem;

status group_files::make(const fs::path& group) {
  if (::mkdir(group.c_str(), 0755) == 0) return {};
  return error::system("make " + group.string(), errno);
}

status group_files::write(const fs::path& file, std::string_view text) {
  const io::unique_fd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()))
    return {};
  return error::system(fmt::format("write \"{}\" to {}", text, file.string()), errno);
}

status group_files::remove(const fs::path& group) {
  return io::remove_control_group(group);
}

io::unique_fd hold_group(const control_place& at, const fs::path& group) {
  io::unique_fd fd(::open(group.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // The kernel's lock has no timeout and tells nobody when it is free, so it is asked again. Held
  // for some writes at most, by those who begin or end a quota.
  const auto until = std::chrono::steady_clock::now() + at.patience;
  while (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const bool is_held = errno == EWOULDBLOCK || errno == EINTR;
    if (!is_held || std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fd;
}

std::string own_groups(const control_place& at) {
  return io::kernel_text((at.processes / "self/cgroup").string());
}

std::string boot_id(const control_place& at) {
  auto out = io::kernel_text((at.processes / "sys/kernel/random/boot_id").string());
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::string number_space(const control_place& at) {
  std::error_code code;
  return fs::read_symlink(at.processes / "self/ns/pid", code).string();
}

std::optional<uint64_t> started_ticks(const control_place& at, int64_t pid) {
  return start_ticks(io::kernel_text((at.processes / fmt::format("{}/stat", pid)).string()));
}

}  // namespace troupe::gpu::controls
