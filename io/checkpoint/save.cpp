// The steps of a save; see the header for the order they keep.
#include "io/checkpoint/save.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/folder_claim.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/file.hpp"

namespace troupe::io::checkpoint {

namespace fs = std::filesystem;

status remove_folder(disk& d, const fs::path& folder) {
  return d.remove_folder(folder, claim_of(d, folder));
}

result<bool> make_partial(disk& d, const fs::path& partial, const std::string& job,
                          std::vector<std::string> others, durable how) {
  TROUPE_TRY(first, d.make_dir(partial));
  const auto mark = partial / mark_file;
  if (first || !d.read_small(mark, max_mark_bytes))  // who came first may have died between the two
    TROUPE_CHECK(d.write_small(mark, partial_mark(job, std::move(others)), how));
  return first;
}

// -- a rank ---------------------------------------------------------------------------------------

rank_save::rank_save(rank_plan plan) : plan_(std::move(plan)) {}

result<std::unique_ptr<rank_save>> rank_save::create(disk& d, const fs::path& partial,
                                                     const manifest_head& head, rank_plan plan,
                                                     voted done) {
  TROUPE_CHECK(make_partial(d, partial, head.job));
  std::unique_ptr<rank_save> out(new rank_save(std::move(plan)));
  auto& s = *out;
  s.captures_ = plan_capture(s.plan_, head.slot_bytes);
  s.left_ = s.captures_.fills.size();
  s.footer_ = {head.job,
               head.epoch,
               head.step,
               s.plan_.rank,
               head.layout,
               head.slot_bytes,
               s.plan_.stream_bytes,
               {},
               {}};
  for (const auto& p : s.plan_.pieces) s.footer_.pieces.push_back(p.what);
  shard_writer::options how;
  how.name = partial / shard_name(s.plan_.rank);
  how.slot_bytes = head.slot_bytes;
  how.stream_bytes = s.plan_.stream_bytes;
  how.done = [&s](const status& outcome) { s.written(outcome); };
  TROUPE_TRY(writer, shard_writer::create(d, std::move(how)));
  s.writer_ = std::move(writer);
  if (s.left_ == 0) TROUPE_CHECK(s.finish());  // more replicas than there is to share
  s.done_ = std::move(done);
  return out;
}

status rank_save::filled(slot lease, uint64_t number) {
  TROUPE_CHECK(writer_->filled(std::move(lease), number, captures_.fills[number].bytes));
  return --left_ > 0 ? status{} : finish();
}

/// All slots are handed over: the end of the file.
status rank_save::finish() {
  footer_.crc32c = writer_->crcs();
  TROUPE_TRY(tail, encode_tail(footer_));
  tail_ = std::move(tail);
  return writer_->append_tail(tail_.bytes);
}

void rank_save::written(const status& outcome) {
  if (!done_) return;  // create() answers itself
  if (!outcome) return done_(outcome.error());
  done_(shard_facts{plan_.rank, tail_.file_bytes, plan_.stream_bytes, tail_.footer_crc,
                    tail_.slot_digest, footer_.pieces});
}

// -- the root -------------------------------------------------------------------------------------

namespace {

constexpr auto read_patience = std::chrono::seconds(120);

/// Whether a complete folder is an earlier attempt of the same launch; not where nobody can tell.
bool of_the_same_launch(disk& d, const fs::path& complete, const manifest_head& head) {
  const auto text = d.read_small(complete / manifest_file, max_manifest_bytes);
  if (!text) return false;
  const auto there = parse_manifest_head(as_bytes(*text));
  return there && line_of(*there).back().launch == line_of(head).back().launch;
}

/// Whether a checkpoint's folder holds what `ours` claims and nothing else.
result<bool> holds_only(disk& d, const fs::path& complete, const claim& ours) {
  TROUPE_TRY(entries, d.list(complete));
  std::vector<folder_item> all;
  for (const auto& e : entries)
    all.push_back({e.name, e.folder ? folder_item::type::folder : folder_item::type::file});
  return removal_order(all, ours).has_value();
}

/// SV-6: gives the folder a name that is free.
status make_way(disk& d, const fs::path& complete, const std::vector<dir_entry>& names,
                uint64_t step) {
  uint32_t number = 1;
  const auto taken = [&](const dir_entry& e) { return e.name == aside_name(step, number); };
  while (std::any_of(names.begin(), names.end(), taken)) ++number;
  const auto dir = complete.parent_path();
  TROUPE_CHECK(d.rename(complete, dir / aside_name(step, number)));
  return d.sync_dir(dir);
}

/// The end of a shard of `bytes` from `at` on, as whoever opens it now sees it; by `parse`.
template <class Parse>
auto read_end(disk& d, const fs::path& shard, uint64_t at, uint64_t bytes, Parse parse)
    -> decltype(parse(std::span<const std::byte>())) {
  TROUPE_TRY(end, io_buffer::make(bytes - at));
  const auto memory = end.bytes();
  TROUPE_TRY(file, d.open(shard, {}));
  status outcome = d.read(file, at, std::move(end), 0);
  if (outcome) outcome = error{errc::timeout, shard.string() + " cannot be read"};
  decltype(parse(std::span<const std::byte>())) found = outcome.error();
  for (const auto& answer : d.wait(1, read_patience))
    if (answer.file == file) {
      if (answer.outcome)
        found = parse(std::span<const std::byte>(memory));
      else
        found = answer.outcome.error();
    }
  d.close(file);
  return found;
}

result<trailer> read_trailer(disk& d, const fs::path& shard, uint64_t bytes) {
  const uint64_t at = bytes - std::min<uint64_t>(bytes, alignment);
  return read_end(d, shard, at, bytes, [&](auto end) { return parse_trailer(end, bytes); });
}

error not_there(const fs::path& shard, uint32_t rank, const std::string& why) {
  return {errc::io,
          fmt::format("{} is not there as rank {} wrote it{}{}", shard.string(), rank,
                      why.empty() ? "" : ": ", why),
          "checkpoint.dir has to be a folder that all hosts share"};
}

/// SV-9 of one. A file that is opened is looked for anew on file systems of the net; a folder's
/// list may be of a while ago there.
status is_there(disk& d, const fs::path& shard, uint32_t rank, uint64_t bytes, uint32_t crc) {
  const auto end = read_trailer(d, shard, bytes);
  if (end && end->footer_crc == crc) return {};
  return not_there(shard, rank, end ? "" : end.error().message);
}

status all_there(disk& d, const fs::path& partial, const std::vector<shard_facts>& shards) {
  for (const auto& s : shards) {
    TROUPE_CHECK(is_there(d, partial / shard_name(s.rank), s.rank, s.bytes, s.footer_crc));
    for (const auto& c : s.chunks)
      TROUPE_CHECK(
          is_there(d, partial / shard_name(s.rank, c.chunk), s.rank, c.bytes, c.footer_crc));
  }
  return {};
}

/// The pieces that a shard says it has.
result<std::vector<piece>> pieces_of(disk& d, const fs::path& shard, uint32_t rank, uint64_t bytes,
                                     uint64_t stream_bytes, uint32_t crc) {
  const auto at = aligned(stream_bytes);
  if (at >= bytes || bytes - at > aligned(max_footer_bytes + trailer_bytes))
    return not_there(shard, rank, "its length is impossible");
  auto read = read_end(d, shard, at, bytes, [&](auto end) -> result<footer> {
    TROUPE_TRY(last, parse_trailer(end, bytes));
    if (last.footer_crc != crc) return error{errc::bad_data, "another end"};
    return parse_tail(end, bytes);
  });
  if (!read) return not_there(shard, rank, read.error().message);
  return std::move(read->pieces);
}

}  // namespace

result<uint64_t> read_pieces(disk& d, const fs::path& partial, shard_facts& facts) {
  uint64_t bytes = 0;
  const auto take = [&](auto& shard, const std::string& name) -> status {
    TROUPE_TRY(pieces, pieces_of(d, partial / name, facts.rank, shard.bytes, shard.stream_bytes,
                                 shard.footer_crc));
    shard.pieces = std::move(pieces);
    for (const auto& p : shard.pieces) bytes += p.bytes;
    return {};
  };
  TROUPE_CHECK(take(facts, shard_name(facts.rank)));
  for (auto& c : facts.chunks) TROUPE_CHECK(take(c, shard_name(facts.rank, c.chunk)));
  return bytes;
}

result<fs::path> publish(disk& d, const fs::path& partial, const manifest_head& head) {
  const auto dir = partial.parent_path();
  const auto name = complete_name(head.step);
  TROUPE_CHECK(d.sync_dir(partial));
  TROUPE_TRY(entries, d.list(dir));
  const auto there =
      std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.name == name; });
  bool again = there != entries.end();
  if (again) {
    const auto ours = there->folder ? claim_of(d, dir / name) : claim{};
    if (ours.files.empty())  // SV-7
      return error{
          errc::permission,
          (dir / name).string() + " is in the way, and is not a checkpoint of this program",
          "take it away, or name another checkpoint.dir"};
    TROUPE_TRY(alone, holds_only(d, dir / name, ours));
    if (!alone || !of_the_same_launch(d, dir / name, head)) {
      TROUPE_CHECK(make_way(d, dir / name, entries, head.step));
      again = false;
    }
  }
  TROUPE_CHECK(again ? d.exchange(partial, dir / name) : d.rename(partial, dir / name));  // SV-4
  TROUPE_CHECK(d.sync_dir(dir));
  // What is not removed now is collected as a leftover at the next start.
  if (again) (void)remove_folder(d, partial);
  return dir / name;
}

result<fs::path> commit_save(disk& d, const fs::path& partial, const manifest_head& head,
                             std::vector<shard_facts> shards,
                             const std::vector<small_file>& others) {
  TROUPE_CHECK(all_there(d, partial, shards));
  std::vector<file_sum> sums;
  std::vector<std::string> names;
  for (const auto& f : others) names.push_back(f.name);
  TROUPE_CHECK(
      d.write_small(partial / mark_file, partial_mark(head.job, std::move(names)), durable::no));
  for (const auto& f : others) {
    if (!is_file_name(f.name)) return error{errc::bug, "invalid name of a small file: " + f.name};
    TROUPE_CHECK(d.write_small(partial / f.name, f.content, durable::yes));
    sums.push_back({f.name, f.content.size(), crc32c(as_bytes(f.content))});
  }
  TROUPE_TRY(m, assemble(head, std::move(shards), sums));
  TROUPE_TRY(text, encode_manifest(m));
  TROUPE_CHECK(d.write_small(partial / manifest_file, text, durable::yes));
  return publish(d, partial, head);
}

status amend_loss(file_system& files, const fs::path& complete, double validation_loss) {
  TROUPE_TRY(nobody_reads, exclude_readers(files, complete));
  const auto file = complete / manifest_file;
  TROUPE_TRY(text, files.read_small(file, max_manifest_bytes));
  TROUPE_TRY(m, parse_manifest(as_bytes(text)));
  m.head.validation_loss = validation_loss;
  TROUPE_TRY(amended, encode_manifest(m));
  auto next = file;
  next += ".tmp-0-0";  // claimed with the manifest: a cut-off one goes with the folder
  TROUPE_CHECK(files.write_small(next, amended, durable::yes));
  TROUPE_CHECK(files.rename(next, file));
  return files.sync_dir(complete);
}

}  // namespace troupe::io::checkpoint
