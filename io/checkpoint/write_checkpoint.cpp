// A checkpoint from one process: every rank's shard in turn.
#include "io/checkpoint/write_checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "io/checkpoint/catalog.hpp"
#include "io/file.hpp"

namespace troupe::io::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t source_bytes = 4 << 20;  ///< asked of a source at once, at most

/// Cuts a stream of bytes into slots, sums and writes them.
class shard_file {
 public:
  shard_file(unique_fd fd, std::string name, uint32_t slot_bytes)
      : fd_(std::move(fd)), name_(std::move(name)), slot_bytes_(slot_bytes) {}

  status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const size_t n = std::min<size_t>(bytes.size(), slot_bytes_ - slot_.size());
      slot_.insert(slot_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
      bytes = bytes.subspan(n);
      if (slot_.size() == slot_bytes_) TROUPE_CHECK(flush());
    }
    return {};
  }

  /// Writes the rest of the stream, the footer made of `f`, and syncs the file.
  result<encoded_tail> finish(footer f) {
    TROUPE_CHECK(flush());
    f.crc32c = sums_;
    TROUPE_TRY(tail, encode_tail(f));
    TROUPE_CHECK(write_all(fd_.get(), tail.bytes, name_));
    if (::fsync(fd_.get()) != 0) return error::system(fmt::format("fsync {}", name_), errno);
    return tail;
  }

 private:
  status flush() {
    if (slot_.empty()) return {};
    sums_.push_back(crc32c(slot_));
    slot_.resize(aligned(slot_.size()));
    TROUPE_CHECK(write_all(fd_.get(), slot_, name_));
    slot_.clear();
    return {};
  }

  unique_fd fd_;
  std::string name_;
  uint32_t slot_bytes_;
  std::vector<std::byte> slot_;
  std::vector<uint32_t> sums_;
};

/// One piece of a plan, asked of the source a few MiB at a time.
status append_piece(const planned_piece& p, uint32_t stage, const value_source& values,
                    shard_file& file, byte_counter& counter) {
  const uint64_t width = size_of(p.what.type);
  std::vector<std::byte> buffer;
  for (uint64_t done = 0; done < p.what.count;) {
    const uint64_t count = std::min(p.what.count - done, source_bytes / width);
    auto range = p;
    range.what.first += done;
    range.what.count = count;
    range.what.stream_offset += done * width;
    range.what.bytes = count * width;
    range.chunk_first += done;
    buffer.resize(range.what.bytes);
    TROUPE_CHECK(values(stage, range, buffer));
    TROUPE_CHECK(file.append(buffer));
    TROUPE_CHECK(counter.add(buffer.size()));
    done += count;
  }
  return {};
}

result<shard_facts> write_shard(const fs::path& folder, const manifest_head& head,
                                const rank_plan& plan, const value_source& values,
                                byte_counter& counter) {
  const auto name = shard_name(plan.rank);
  unique_fd fd{::open((folder / name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  if (!fd) return error::system(fmt::format("create {}", (folder / name).string()), errno);
  shard_file file(std::move(fd), (folder / name).string(), head.slot_bytes);
  footer f{head.job,        head.epoch,        head.step, plan.rank, head.layout,
           head.slot_bytes, plan.stream_bytes, {},        {}};
  for (const auto& p : plan.pieces) {
    TROUPE_CHECK(append_piece(p, plan.pipeline_rank, values, file, counter));
    f.pieces.push_back(p.what);
  }
  TROUPE_TRY(tail, file.finish(f));
  return shard_facts{plan.rank,       tail.file_bytes,  plan.stream_bytes,
                     tail.footer_crc, tail.slot_digest, std::move(f.pieces)};
}

}  // namespace

result<fs::path> write_checkpoint(const write_options& options, std::span<const plan_stage> stages,
                                  const value_source& values, std::span<const small_file> others) {
  auto head = options.head;
  head.layout = {options.data_ranks, static_cast<uint32_t>(stages.size())};
  TROUPE_TRY(plans, plan_save(stages, {options.data_ranks, options.cut_elements, {}}));
  if (head.slot_bytes == 0 || head.slot_bytes % alignment != 0 || head.slot_bytes > max_slot_bytes)
    return error{errc::bug, fmt::format("slots of {} bytes are impossible", head.slot_bytes)};
  std::error_code code;
  fs::create_directories(options.dir, code);
  if (code)
    return error::system(fmt::format("make the folder {}", options.dir.string()), code.value());
  TROUPE_TRY(d, open_disk({disk_backend::threads, 1, 1, {}}));
  TROUPE_TRY(partial, begin_save(*d, options.dir, head.step, head.epoch));
  uint64_t total = 0;
  for (const auto& p : plans) total += p.stream_bytes;
  byte_counter counter(options.progress, total);
  std::vector<shard_facts> shards;
  for (const auto& p : plans) {
    TROUPE_TRY(facts, write_shard(partial, head, p, values, counter));
    shards.push_back(std::move(facts));
  }
  return commit_save(*d, partial, head, std::move(shards), {others.begin(), others.end()});
}

}  // namespace troupe::io::checkpoint
