// Slots out of a file, each checked: see shard_reader.hpp.
#include "io/disk/shard_reader.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::io {

result<std::unique_ptr<shard_reader>> shard_reader::open(disk& from, std::shared_ptr<slots> ring,
                                                         options how) {
  auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  for (const auto& p : how.pieces)
    if (p.bytes == 0 || p.bytes > ring->slot_bytes() || p.offset % disk_block != 0 ||
        p.offset > most - ring->slot_bytes())
      return error{errc::bad_data, fmt::format("piece {} of {}, {} bytes at {}, fits no slot",
                                               p.piece, how.name.string(), p.bytes, p.offset)};
  open_options options;
  options.direct = how.direct;
  TROUPE_TRY(file, from.open(how.name, options));
  return std::unique_ptr<shard_reader>(
      new shard_reader(from, std::move(ring), std::move(how), file));
}

shard_reader::shard_reader(disk& from, std::shared_ptr<slots> ring, options how, file_id file)
    : disk_(from), ring_(std::move(ring)), how_(std::move(how)), file_(file) {
  how_.depth = std::max<size_t>(how_.depth, 1);
}

shard_reader::~shard_reader() {
  disk_.close(file_);
}

bool shard_reader::pump() {
  if (!finished_ && how_.pieces.empty()) finish({});
  while (!finished_ && next_ < how_.pieces.size() && reading_ < how_.depth) {  // SR-3
    auto lease = ring_->try_take();
    if (!lease) return reading_ > 0;
    const auto& piece = how_.pieces[next_];
    auto outcome =
        disk_.read(file_, piece.offset, io_buffer(std::move(*lease), block_up(piece.bytes)), next_);
    if (!outcome) {
      finish(outcome);
      return true;
    }
    ++next_;
    ++reading_;
  }
  return true;
}

bool shard_reader::take(completion& answer) {
  if (answer.file != file_) return false;
  auto used = std::move(answer);  // its slot goes back to the ring, unless delivered
  --reading_;
  if (finished_) return true;
  if (auto outcome = use(used); !outcome) {
    finish(outcome);
  } else if (++done_ == how_.pieces.size()) {
    finish({});
  } else {
    pump();
  }
  return true;
}

status shard_reader::use(completion& answer) {
  TROUPE_CHECK(answer.outcome);
  const auto& piece = how_.pieces[answer.tag];
  auto lease = answer.buffer.take_lease();
  uint32_t crc = crc32c(lease.bytes().first(piece.bytes));
  if (crc != piece.crc)  // SR-1
    return piece_damaged(how_.name.string(), piece.piece, piece.offset, piece.offset + piece.bytes,
                         crc, piece.crc);
  TROUPE_CHECK(how_.deliver(piece, std::move(lease)));
  delivered_ += piece.bytes;
  return {};
}

void shard_reader::give_up(const error& why) {
  finish(why);
}

void shard_reader::finish(const status& outcome) {
  if (std::exchange(finished_, true)) return;  // SR-2
  disk_.close(file_);
  if (how_.done) how_.done(outcome);
}

}  // namespace troupe::io
