// Unit by unit from a reader to a disk, one write behind the next read.
#include "io/checkpoint/copy.hpp"

#include <chrono>
#include <new>

#include <fmt/format.h>

#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/save.hpp"
#include "io/file.hpp"

namespace troupe::io::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr size_t most_writes = 2;  ///< under way at a time: one while the next is read
constexpr auto copy_patience = std::chrono::seconds(120);

/// A manifest's bytes as they are.
result<std::string> manifest_of(const file_source& from) {
  TROUPE_TRY(file, from.open(std::string(manifest_file)));
  if (file->size() > max_manifest_bytes + alignment)
    return error{errc::bad_data, fmt::format("{} has {} bytes", manifest_file, file->size())};
  std::string text(file->size(), '\0');
  TROUPE_CHECK(file->read_at(0, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  return text;
}

/// What is not found where the copy goes is a failure, not a source that is gone.
error of_target(error e) {
  if (e.code == errc::not_found) e.code = errc::io;
  return e.within("write the copy");
}

status into_target(const status& outcome) {
  return outcome ? outcome : status(of_target(outcome.error()));
}

/// `e`, or not_found where the source is no longer what it was (CY-4).
error of_source(const file_source& from, const std::string& manifest, const error& e) {
  const auto now = manifest_of(from);
  if (now && *now == manifest) return e.within("copy a checkpoint");
  return {errc::not_found, "the checkpoint was removed or replaced while it was copied"};
}

}  // namespace

result<std::unique_ptr<copier>> copier::begin(disk& to, std::shared_ptr<const file_source> from,
                                              const fs::path& dir) {
  TROUPE_TRY(text, manifest_of(*from));
  auto opened = reader::open(from);
  if (!opened) return checkpoint::of_source(*from, text, opened.error());
  auto meant = parse_manifest(as_bytes(text));
  if (!meant || !(*meant == opened->content()))
    return checkpoint::of_source(*from, text, {errc::bad_data, "its manifest changes"});
  std::unique_ptr<copier> out(
      new copier(to, std::move(from), std::move(*opened), std::move(text), dir));
  for (const auto& u : out->units_)
    if (u.bytes > max_slot_bytes)
      return error{errc::bad_data,
                   fmt::format("{} has {} bytes under one check, which is too much to copy",
                               out->reader_.content().files[u.file].name, u.bytes)};
  std::vector<std::string> others;
  for (const auto& f : out->reader_.content().files)
    if (!f.shard) others.push_back(f.name);
  auto made = to.make_dir(out->partial_);
  if (made && !*made) TROUPE_CHECK(into_target(remove_folder(to, out->partial_)));  // of before
  if (made)
    made = make_partial(to, out->partial_, out->head().job, std::move(others), durable::yes);
  if (!made) return of_target(made.error());
  // The mark before any other file: without it nobody knows whose a torn copy is.
  TROUPE_CHECK(into_target(to.sync_dir(out->partial_)));
  return out;
}

copier::copier(disk& to, std::shared_ptr<const file_source> from, reader opened,
               std::string manifest, const fs::path& dir)
    : disk_(to),
      from_(std::move(from)),
      reader_(std::move(opened)),
      manifest_(std::move(manifest)),
      units_(reader_.units()) {
  const auto& head = reader_.content().head;
  folder_ = dir / complete_name(head.step);
  partial_ = dir / partial_name(head.step, head.epoch);
  progress_.total = manifest_.size();
  for (const auto& u : units_) progress_.total += u.bytes;
}

copier::~copier() {
  if (file_ != file_id::none) disk_.close(file_);
  if (!finished_) (void)remove_folder(disk_, partial_);  // else it is a leftover (CY-3)
}

result<uint64_t> copier::advance() {
  try {
    if (next_ < units_.size()) return move(units_[next_++]);
    TROUPE_CHECK(into_target(commit()));
    return uint64_t{manifest_.size()};
  } catch (const std::bad_alloc&) {
    return error{errc::no_memory, "out of memory while copying a checkpoint"};
  }
}

result<uint64_t> copier::move(const reader::unit& u) {
  const bool shard = u.what != reader::unit::kind::plain;
  auto buffer = io_buffer::allocate(u.bytes);
  if (auto read = reader_.read_unit(u, buffer.bytes()); !read) return of_source(read.error());
  if (shard && file_ == file_id::none) TROUPE_CHECK(into_target(open(u.file)));
  TROUPE_CHECK(into_target(write(u, std::move(buffer))));
  // A shard ends with its tail.
  if (u.what == reader::unit::kind::tail) TROUPE_CHECK(into_target(sync_and_close()));
  return u.bytes;
}

status copier::open(uint32_t file) {
  const auto& entry = reader_.content().files[file];
  TROUPE_TRY(opened,
             disk_.open(partial_ / entry.name, {open_mode::create, /*direct=*/true, entry.bytes}));
  file_ = opened;
  return {};
}

status copier::write(const reader::unit& u, io_buffer buffer) {
  const auto bytes = buffer.bytes();
  if (u.what == reader::unit::kind::plain) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    TROUPE_CHECK(
        disk_.write_small(partial_ / reader_.content().files[u.file].name, text, durable::yes));
    progress_.written += u.bytes;
    progress_.durable += u.bytes;
    return {};
  }
  TROUPE_CHECK(disk_.write(file_, u.offset, std::move(buffer), 0));
  ++under_way_;
  while (under_way_ >= most_writes) TROUPE_CHECK(take_answers());
  return {};
}

/// Waits for at least one answer of the disk.
status copier::take_answers() {
  auto answers = disk_.wait(1, copy_patience);
  if (answers.empty())
    return error{errc::timeout, "the disk answers nothing", "look at the disk and its log"};
  for (const auto& a : answers) {
    if (a.file != file_) continue;
    --under_way_;
    if (!a.outcome && health_) health_ = a.outcome;
    if (a.op == disk_op::write) progress_.written += a.bytes;
  }
  return health_;
}

status copier::sync_and_close() {
  while (under_way_ > 0) TROUPE_CHECK(take_answers());
  TROUPE_CHECK(disk_.fdatasync(file_, 0));
  ++under_way_;
  while (under_way_ > 0) TROUPE_CHECK(take_answers());
  disk_.close(std::exchange(file_, file_id::none));
  progress_.durable = progress_.written;
  return {};
}

status copier::commit() {
  TROUPE_CHECK(disk_.write_small(partial_ / manifest_file, manifest_, durable::yes));
  TROUPE_CHECK(publish(disk_, partial_, reader_.content().head));
  finished_ = true;
  progress_.written = progress_.durable = progress_.total;
  return {};
}

error copier::of_source(const error& e) const {
  return checkpoint::of_source(*from_, manifest_, e);
}

bool holds_copy(file_system& files, const fs::path& dir, const file_source& from) {
  const auto text = manifest_of(from);
  if (!text) return false;
  const auto meant = parse_manifest(as_bytes(*text));
  if (!meant) return false;
  const auto there = folder_source(files, dir / complete_name(meant->head.step));
  const auto copied = manifest_of(*there);
  return copied && *copied == *text && reader::open(there);
}

}  // namespace troupe::io::checkpoint
