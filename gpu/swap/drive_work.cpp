// See drive_work.hpp.
#include "gpu/swap/drive_work.hpp"

#include <utility>

#include "io/disk/disk.hpp"

namespace troupe::gpu {

result<disk_memory> make_disk_memory(device& owner, size_t bytes) {
  TROUPE_TRY(allocated, io::io_buffer::make(bytes));
  auto memory = std::make_shared<io::io_buffer>(std::move(allocated));
  disk_memory out;
  out.bytes = memory->bytes().first(bytes);
  TROUPE_TRY(pinned, owner.pin(out.bytes.data(), out.bytes.size()));
  out.pinned = std::move(pinned);
  out.owner = std::move(memory);
  return out;
}

void drive_work::enqueue(stream& s, std::function<status()> task) {
  s.host_task([this, task = std::move(task)]() -> status {
    if (failed_) return error{errc::cancelled, what_ + " has failed before"};
    auto done = task();
    note(done);
    return done;
  });
}

void drive_work::watch(stream& s) {
  s.notify([this](const status& state) { note(state); });
}

/// DWK-1.
void drive_work::note(const status& s) {
  if (s || failed_.exchange(true)) return;
  if (told_) told_(s);
}

}  // namespace troupe::gpu
