// One file, one lock, one line: see lock.hpp.
#include "io/folder/lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/folder/owned.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr int lock_version = 1;

/// Takes the kernel's lock; false where another has it.
result<bool> lock_by_kernel(int fd, const fs::path& file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_SETLK, &whole) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return error::system("lock " + file.string(), errno);
}

result<std::string> text_in(int fd, const fs::path& file) {
  std::string text(max_lock_bytes, '\0');
  const auto n = ::pread(fd, text.data(), text.size(), 0);
  if (n < 0) return error::system("read " + file.string(), errno);
  text.resize(static_cast<size_t>(n));
  return text;
}

/// The file, of which only what is ours, or new, is ever opened for writing (LCK-4).
result<unique_fd> open_lock(const fs::path& file) {
  unique_fd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
  struct stat facts {};
  if (!fd && errno != ELOOP && errno != EISDIR)
    return error::system("open " + file.string(), errno);
  if (fd && ::fstat(fd.get(), &facts) == 0 && S_ISREG(facts.st_mode)) return fd;
  return error{errc::bad_data, file.string() + " is not a lock of this program",
               "take it away, or name another folder"};
}

error busy(const fs::path& folder, const std::optional<lock_holder>& by, bool elsewhere) {
  if (!by) return folder_in_use(folder.string(), "another process", "");
  const auto who = fmt::format("job {} (process {} on {}, since {}{})", by->job, by->pid, by->host,
                               by->since, by->address.empty() ? "" : ", " + by->address);
  return folder_in_use(
      folder.string(), who,
      elsewhere ? "if that process has ended for good, the same command with --break-lock takes "
                  "the folder over"
                : "stop that job, or wait: the folder is free as soon as its process has ended");
}

result<std::optional<lock_holder>> written_in(int fd, const fs::path& file) {
  TROUPE_TRY(text, text_in(fd, file));
  auto by = parse_lock(text);
  if (!by)
    return error{errc::bad_data, fmt::format("{}: {}", file.string(), by.error().message),
                 "take it away, or name another folder"};
  return by;
}

}  // namespace

lock_holder this_process(std::string job) {
  lock_holder h;
  h.job = std::move(job);
  h.pid = ::getpid();
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) h.host = name.data();
  const unique_fd boot(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (boot)
    if (auto text = text_in(boot.get(), "boot_id")) h.boot = std::move(*text);
  while (!h.boot.empty() && h.boot.back() == '\n') h.boot.pop_back();
  h.since = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  return h;
}

std::string lock_text(const lock_holder& h) {
  nlohmann::ordered_json j;
  j["troupe-lock"] = lock_version;
  j["job"] = h.job;
  j["pid"] = h.pid;
  j["host"] = h.host;
  j["boot"] = h.boot;
  j["since"] = h.since;
  if (!h.address.empty()) j["address"] = h.address;
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

result<std::optional<lock_holder>> parse_lock(std::string_view text) {
  if (text.find_first_not_of('\0') == text.npos) return std::optional<lock_holder>{};
  const error wrong{errc::bad_data, "it is not a lock of this program"};
  // Behind the line may be the end of a longer one, of a holder before.
  const auto j = nlohmann::json::parse(text.substr(0, text.find('\n')), nullptr, false);
  if (!j.is_object() || !j.contains("troupe-lock")) return wrong;
  if (j["troupe-lock"] != lock_version)
    return error{errc::version_mismatch, "the lock is of another version"};
  lock_holder h;
  for (const auto& [key, into] : {std::pair{"job", &h.job},
                                  {"host", &h.host},
                                  {"boot", &h.boot},
                                  {"since", &h.since},
                                  {"address", &h.address}}) {
    if (!j.contains(key) && into == &h.address) continue;
    if (!j.contains(key) || !j[key].is_string()) return wrong;
    *into = j[key].get<std::string>();
  }
  if (!j.contains("pid") || !j["pid"].is_number_integer()) return wrong;
  h.pid = j["pid"].get<int64_t>();
  return std::optional(std::move(h));
}

bool is_believed(const std::optional<lock_holder>& written, const lock_holder& self) {
  return written && written->host != self.host && written->boot != self.boot;
}

result<folder_lock> folder_lock::take(const fs::path& folder, const lock_holder& self,
                                      bool break_lock) {
  return take(folder, self, break_lock, false);
}

result<folder_lock> folder_lock::depose(const fs::path& folder, const lock_holder& self) {
  return take(folder, self, true, true);
}

result<folder_lock> folder_lock::take(const fs::path& folder, const lock_holder& self,
                                      bool break_lock, bool deposes) {
  const auto file = folder / lock_file;
  std::optional<lock_holder> deposed;
  for (;;) {
    TROUPE_TRY(fd, open_lock(file));
    TROUPE_TRY(free, lock_by_kernel(fd.get(), file));
    if (!free) {
      const auto by = written_in(fd.get(), file);
      if (!deposes || !by) return busy(folder, by ? *by : std::nullopt, false);  // LCK-1
      deposed = *by;
      TROUPE_CHECK(remove_own_file(file, fd.get()));  // LCK-2
      continue;
    }
    if (!still_names(file, fd.get())) continue;
    TROUPE_TRY(by, written_in(fd.get(), file));  // LCK-4
    const bool believed = is_believed(by, self);
    if (believed && !break_lock) return busy(folder, by, true);  // LCK-2
    folder_lock out(std::move(fd), folder, self);
    if (believed) out.broken_ = std::move(by);
    if (deposed) out.broken_ = std::move(deposed);
    TROUPE_CHECK(out.write());
    return out;
  }
}

status folder_lock::write() const {
  const auto text = lock_text(self_);
  const auto file = folder_ / lock_file;
  // In this order: a full disk, or a kill between the two, leaves a line that says who holds it. A
  // power cut leaves no length without its line: ext4 writes the one down before the other.
  const auto size = static_cast<ssize_t>(text.size());
  if (::pwrite(fd_.get(), text.data(), text.size(), 0) != size)
    return error::system("write " + file.string(), errno);
  static_cast<void>(::fdatasync(fd_.get()));  // where that fails, the lock holds all the same
  if (::ftruncate(fd_.get(), size) != 0) return error::system("write " + file.string(), errno);
  return {};
}

status folder_lock::say_address(const std::string& address) {
  self_.address = address;
  return write();
}

status folder_lock::say_job(const std::string& job) {
  self_.job = job;
  return write();
}

folder_lock::~folder_lock() {
  // Who has it open already sees that the name leads elsewhere, and begins anew.
  if (fd_) static_cast<void>(remove_own_file(folder_ / lock_file, fd_.get()));
}

namespace {

/// What a look at a lock shows: what is written in it, and whether the kernel says it is held.
struct lock_sight {
  std::optional<lock_holder> written;
  bool held = false;
};

result<lock_sight> look_at_lock(const fs::path& folder) {
  const auto file = folder / lock_file;
  unique_fd fd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && errno == ENOENT) return lock_sight{};
  if (!fd) return error::system("open " + file.string(), errno);
  TROUPE_TRY(by, written_in(fd.get(), file));
  struct flock whole {};
  whole.l_type = F_RDLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_OFD_GETLK, &whole) != 0)
    return error::system("look at the lock " + file.string(), errno);
  return lock_sight{std::move(by), whole.l_type != F_UNLCK};
}

}  // namespace

result<std::optional<lock_holder>> holder_of(const fs::path& folder) {
  TROUPE_TRY(seen, look_at_lock(folder));
  if (seen.held) return seen.written ? seen.written : std::optional(lock_holder{});
  return is_believed(seen.written, this_process({})) ? seen.written : std::optional<lock_holder>{};
}

status check_free(const fs::path& folder, bool break_lock) {
  TROUPE_TRY(seen, look_at_lock(folder));
  if (seen.held) return busy(folder, seen.written, false);
  if (!break_lock && is_believed(seen.written, this_process({})))
    return busy(folder, seen.written, true);
  return {};
}

}  // namespace troupe::io
