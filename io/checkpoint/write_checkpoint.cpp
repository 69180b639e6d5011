// A checkpoint from one process: every rank's shard in turn.
#include "io/checkpoint/write_checkpoint.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "io/checkpoint/catalog.hpp"
#include "io/disk/disk.hpp"

namespace troupe::io::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t source_bytes = 4 << 20;  ///< asked of a source at once, at most
constexpr int ring_slots = 4;
constexpr auto write_patience = std::chrono::seconds(120);

/// Puts a rank's stream of bytes into slots, in order, and sees them to the disk.
class shard_stream {
 public:
  shard_stream(disk& d, std::shared_ptr<slots> ring) : disk_(d), ring_(std::move(ring)) {}

  status open(const fs::path& partial, const manifest_head& head, const rank_plan& plan) {
    TROUPE_TRY(made, rank_save::create(disk_, partial, head, plan,
                                       [this](const auto& v) { vote_.emplace(v); }));
    save_ = std::move(made);
    return {};
  }

  status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (!lease_) TROUPE_CHECK(next_slot());
      const auto room = save_->captures().fills[number_].bytes - used_;
      const auto n = std::min<uint64_t>(bytes.size(), room);
      std::memcpy(lease_.bytes().data() + used_, bytes.data(), n);
      used_ += n;
      bytes = bytes.subspan(n);
      if (n == room) {
        TROUPE_CHECK(save_->filled(std::move(lease_), number_++));
        used_ = 0;
      }
    }
    return {};
  }

  /// All bytes are in: waits until they are durable.
  result<shard_facts> finish() {
    while (!vote_) TROUPE_CHECK(pump());
    return *vote_;
  }

 private:
  status next_slot() {
    for (;;) {
      if (vote_ && !*vote_) return vote_->error();
      if (auto free = ring_->try_take()) {
        lease_ = std::move(*free);
        return {};
      }
      TROUPE_CHECK(pump());
    }
  }

  status pump() {
    auto answers = disk_.wait(1, write_patience);
    if (answers.empty())
      return error{errc::timeout, "the disk answers nothing", "look at the disk and its log"};
    for (auto& answer : answers) save_->take(answer);
    return {};
  }

  disk& disk_;
  std::shared_ptr<slots> ring_;
  std::optional<result<shard_facts>> vote_;
  std::unique_ptr<rank_save> save_;
  slot lease_;
  uint64_t number_ = 0, used_ = 0;
};

/// One piece of a plan, asked of the source a few MiB at a time.
status append_piece(const planned_piece& p, uint32_t stage, const value_source& values,
                    shard_stream& to, byte_counter& counter) {
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
    TROUPE_CHECK(to.append(buffer));
    TROUPE_CHECK(counter.add(buffer.size()));
    done += count;
  }
  return {};
}

/// The disk and the ring of one import.
struct writer {
  std::shared_ptr<slots> ring;
  std::unique_ptr<disk> to;

  static result<writer> make(uint32_t slot_bytes) {
    writer out;
    TROUPE_TRY(ring, slots::make({slot_bytes, ring_slots}));
    out.ring = std::move(ring);
    disk_options options;
    options.ring = out.ring;
    TROUPE_TRY(opened, open_disk(options));
    out.to = std::move(opened);
    return out;
  }
};

result<shard_facts> write_shard(writer& w, const fs::path& partial, const manifest_head& head,
                                const rank_plan& plan, const value_source& values,
                                byte_counter& counter) {
  shard_stream stream(*w.to, w.ring);
  TROUPE_CHECK(stream.open(partial, head, plan));
  for (const auto& p : plan.pieces)
    TROUPE_CHECK(
        append_piece(p, static_cast<uint32_t>(plan.place.pipeline), values, stream, counter));
  return stream.finish();
}

}  // namespace

result<fs::path> write_checkpoint(const write_options& options, std::span<const plan_stage> stages,
                                  const value_source& values, std::span<const small_file> others) {
  auto head = options.head;
  head.layout = {options.data_ranks, 1, static_cast<int>(stages.size())};
  TROUPE_TRY(plans, plan_save(stages, {options.data_ranks, options.cut_elements}));
  if (head.slot_bytes == 0 || head.slot_bytes % alignment != 0 || head.slot_bytes > max_slot_bytes)
    return error{errc::bug, fmt::format("slots of {} bytes are impossible", head.slot_bytes)};
  std::error_code code;
  fs::create_directories(options.dir, code);
  if (code)
    return error::system(fmt::format("make the folder {}", options.dir.string()), code.value());
  TROUPE_TRY(w, writer::make(head.slot_bytes));
  const auto partial = options.dir / partial_name(head.step, head.epoch);
  if (fs::exists(partial, code))
    TROUPE_CHECK(remove_folder(*w.to, partial));  // of an attempt before
  uint64_t total = 0;
  for (const auto& p : plans) total += p.stream_bytes;
  byte_counter counter(options.progress, total);
  std::vector<shard_facts> shards;
  for (const auto& p : plans) {
    TROUPE_TRY(facts, write_shard(w, partial, head, p, values, counter));
    shards.push_back(std::move(facts));
  }
  return commit_save(*w.to, partial, head, std::move(shards), {others.begin(), others.end()});
}

}  // namespace troupe::io::checkpoint
