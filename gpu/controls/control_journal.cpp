// Written whole, removed as what was read; see control_journal.hpp.
#include "gpu/controls/control_journal.hpp"

#include <unistd.h>

#include <string>
#include <system_error>

#include "io/file.hpp"
#include "io/folder/owned.hpp"

namespace troupe::gpu::controls {

namespace fs = std::filesystem;

status with_remedy(status undone) {
  if (undone || undone.error().code != errc::permission || !undone.error().hint.empty())
    return undone;
  return undo_refused(undone.error().message);
}

control_record new_record(const control_place& at, const control_owner& owner) {
  control_record r;
  r.job = owner.job;
  r.rank = owner.rank;
  r.pid = ::getpid();
  r.started = started_ticks(at, r.pid).value_or(0);
  r.boot = boot_id(at);
  r.number_space = number_space(at);
  return r;
}

bool is_seen_here(const control_place& at, const control_record& r) {
  const auto space = number_space(at);
  return r.number_space.empty() || space.empty() || r.number_space == space;
}

status keep_record(const fs::path& folder, std::string_view name, const control_record& r) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return error::system("make " + folder.string(), code.value());
  return io::write_atomic(record_file(folder, name), record_text(r));
}

status forget_record(const fs::path& file) {
  const auto fd = io::open_read(file);
  if (!fd) return fd.error().code == errc::not_found ? status{} : status{fd.error()};
  return io::remove_own_file(file, fd->get());
}

fs::path record_file(const fs::path& folder, std::string_view name) {
  return folder / (std::string(name) + std::string(record_suffix));
}

}  // namespace troupe::gpu::controls
