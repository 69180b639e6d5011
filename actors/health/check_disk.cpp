// A file that is written, synced, read back and compared, through the disk that checkpoints use.
#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <cstring>

#include "actors/health/checks.hpp"
#include "io/base/error_kind.hpp"
#include "io/disk/disk.hpp"
#include "io/folder/unnamed_file.hpp"

namespace troupe::health {

namespace {

constexpr size_t chunk_bytes = size_t{1} << 20;
constexpr size_t depth = 4;

/// The disk says of a write, a read or a sync that it failed: not that there is no room for it.
constexpr error_kind<std::string_view> disk_fails{"disk_fails", errc::io, "{}"};

struct disk_seen {
  uint64_t wrong = 0;
  bool past_cache = false;
  double write_bytes_s = 0, read_bytes_s = 0;
};

void fill(std::span<std::byte> bytes, uint64_t chunk) {
  uint64_t at = chunk * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i + sizeof at <= bytes.size(); i += sizeof at) {
    at = at * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(bytes.data() + i, &at, sizeof at);
  }
}

status answered(const io::completion& d) {
  if (d.outcome || d.outcome.error().kind != "EIO") return d.outcome;
  return disk_fails(d.outcome.error().message);
}

/// Moves all chunks one way, some at once; whoever reads looks at each.
template <class Each>
status move_all(io::disk& on, io::file_id file, io::disk_op op, uint64_t chunks,
                const deadline& until, std::chrono::milliseconds patience, Each each) {
  uint64_t asked = 0;
  while (asked < chunks || on.under_way() > 0) {
    while (asked < chunks && on.under_way() < depth) {
      auto buffer = io::io_buffer::allocate(chunk_bytes);
      if (op == io::disk_op::write) fill(buffer.bytes(), asked);
      TROUPE_CHECK(op == io::disk_op::write
                       ? on.write(file, asked * chunk_bytes, std::move(buffer), asked)
                       : on.read(file, asked * chunk_bytes, std::move(buffer), asked));
      ++asked;
    }
    const auto done = on.wait(1, patience);
    if (done.empty()) return error{errc::timeout, "the disk does not answer"};
    for (const auto& d : done) {
      TROUPE_CHECK(answered(d));
      each(d);
    }
    if (until.over()) return error{errc::timeout, "the disk needs longer than this check may take"};
  }
  return {};
}

status write_and_read(checkup_under_way& c, io::disk& on, io::file_id file, uint64_t chunks,
                      disk_seen& out) {
  const std::chrono::milliseconds patience(static_cast<int64_t>(1e3 * c.budget_s("disk_write")));
  const deadline until(c, "disk_write");
  const auto bytes = static_cast<double>(chunks * chunk_bytes);
  const double begin = gpu::seconds_now(gpu::time_kind::wall);
  TROUPE_CHECK(
      move_all(on, file, io::disk_op::write, chunks, until, patience, [](const auto&) {}));
  TROUPE_CHECK(on.fdatasync(file, 0));
  const auto synced = on.wait(1, patience);
  if (synced.empty()) return error{errc::timeout, "the disk does not answer"};
  TROUPE_CHECK(answered(synced.front()));
  const double written = gpu::seconds_now(gpu::time_kind::wall);
  std::vector<std::byte> wanted(chunk_bytes);
  double looking = 0;
  const deadline until_read(c, "disk_read");
  const auto compare = [&](const auto& d) {
    const double from = gpu::seconds_now(gpu::time_kind::wall);
    fill(wanted, d.tag);
    const auto got = d.buffer.bytes();
    out.wrong += std::equal(got.begin(), got.end(), wanted.begin(), wanted.end()) ? 0 : 1;
    looking += gpu::seconds_now(gpu::time_kind::wall) - from;
  };
  TROUPE_CHECK(move_all(on, file, io::disk_op::read, chunks, until_read, patience, compare));
  const double read = gpu::seconds_now(gpu::time_kind::wall) - written - looking;
  out.write_bytes_s = bytes / std::max(written - begin, 1e-9);
  out.read_bytes_s = bytes / std::max(read, 1e-9);
  return {};
}

status look_at(checkup_under_way& c, uint64_t chunks, disk_seen& out) {
  io::disk_options how;
  how.depth = depth;
  TROUPE_TRY(unnamed, io::unnamed_file(c.options.folder));  // EXM-3
  TROUPE_TRY(on, c.options.open_disk ? c.options.open_disk(how) : io::open_disk(how));
  io::open_options opened;
  opened.mode = io::open_mode::replace;
  opened.direct = true;
  opened.preallocate = chunks * chunk_bytes;
  TROUPE_TRY(file, on->open(fmt::format("/proc/self/fd/{}", unnamed.get()), opened));
  out.past_cache = on->direct(file);
  return write_and_read(c, *on, file, chunks, out);
}

}  // namespace

/// EXM-2: bad is what the disk itself got wrong; where it cannot be tried, nothing is known of it.
void check_disk(checkup_under_way& c) {
  if (c.options.folder.empty()) return;
  disk_seen seen;
  const auto tried = look_at(c, c.deep ? 128 : 8, seen);
  auto& pattern = c.add("disk_pattern", c.deep ? "128 MiB" : "8 MiB");
  if (!tried) {
    pattern.text = tried.error().within(c.options.folder.string()).message;
    const auto failed = seen.wrong + (tried.error().is(disk_fails) ? 1 : 0);
    if (failed > 0) pattern.seen = static_cast<double>(failed);
    const auto why = pattern.text;
    for (const char* speed : {"disk_write", "disk_read"}) c.add(speed).text = why;
    return;
  }
  pattern.seen = static_cast<double>(seen.wrong);
  c.add("disk_write").seen = seen.write_bytes_s;
  auto& read = c.add("disk_read");
  if (seen.past_cache) {
    read.seen = seen.read_bytes_s;
    return;
  }
  pattern.text = read.text = "the file system refuses O_DIRECT: what is read may come from memory";
}

}  // namespace troupe::health
