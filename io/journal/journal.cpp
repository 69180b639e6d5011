// Appending, opening and compacting: see journal.hpp.
#include "io/journal/journal.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& name) {
  auto folder = name.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

/// Whether what lies under a name of ours is what a cut-off compaction left, to be overwritten.
status check_leftover(file_system& files, const fs::path& name) {
  TROUPE_TRY(file, files.open_source(name, pages::keep));
  std::array<std::byte, journal_header_bytes> head{};
  const auto bytes = std::span(head).first(std::min<uint64_t>(file->size(), head.size()));
  TROUPE_CHECK(file->read_at(0, bytes));
  if (begins_as_journal(bytes)) return {};
  return not_a_journal(name.string(), "it begins otherwise");
}

}  // namespace

result<journal_contents> read_journal(file_system& files, const fs::path& name) {
  TROUPE_TRY(file, files.open_source(name, pages::keep));
  if (file->size() > max_journal_bytes)
    return journal_too_long(name.string(), file->size(), max_journal_bytes);
  std::string bytes(file->size(), '\0');
  TROUPE_CHECK(file->read_at(0, std::as_writable_bytes(std::span(bytes))));
  return parse_journal(as_bytes(bytes), name.string());
}

// -- making a file --------------------------------------------------------------------------------

fs::path journal::partial() const {
  return name_.string() + ".partial";
}

result<std::unique_ptr<log_file>> journal::open_partial() {
  auto made = files_->open_log(partial(), log_open::create);
  if (made || made.error().kind != "EEXIST") return made;
  TROUPE_CHECK(check_leftover(*files_, partial()));
  return files_->open_log(partial(), log_open::replace);
}

/// A journal under the other name, durable but for that name. Where it cannot be written, it takes
/// no more disk than a name does.
result<std::unique_ptr<log_file>> journal::write_new(std::span<const journal_record> records) {
  uint32_t sum = 0;
  auto text = encode_journal_header(sum);
  for (const auto& r : records) {
    TROUPE_CHECK(encode_record(text, r.kind, as_bytes(r.payload), sum));
    if (text.size() > max_journal_bytes)
      return journal_full(name_.string(), text.size(), max_journal_bytes);
  }
  TROUPE_TRY(file, open_partial());
  auto written = file->write_at(0, as_bytes(text));
  if (written) written = file->sync();
  if (!written) {
    static_cast<void>(file->cut(0));
    return written.error();
  }
  sum_ = sum;
  end_ = compacted_ = text.size();
  room_end_ = 0;
  return file;
}

status journal::sync_name() {
  return files_->sync_dir(folder_of(name_));
}

result<journal> journal::create(file_system& files, const path& name, const options& how) {
  journal made(files, name, how);
  TROUPE_TRY(file, made.write_new({}));
  TROUPE_TRY(was_free, files.rename_to_free(made.partial(), name));  // JRN-6
  if (!was_free) return journal_exists(name.string());
  TROUPE_CHECK(made.sync_name());
  made.file_ = std::move(file);
  made.keep_room(0);
  return made;
}

result<journal::opened> journal::open(file_system& files, const path& name) {
  return open(files, name, {});
}

result<journal::opened> journal::open(file_system& files, const path& name, const options& how) {
  TROUPE_TRY(found, read_journal(files, name));
  journal made(files, name, how);
  TROUPE_TRY(file, files.open_log(name, log_open::existing));
  if (found.dropped_bytes > 0) TROUPE_CHECK(file->cut(found.whole_bytes));
  TROUPE_CHECK(file->sync());  // JRN-7: who wrote them may have been killed before
  TROUPE_CHECK(made.sync_name());
  made.file_ = std::move(file);
  made.end_ = found.whole_bytes;
  made.sum_ = found.sum;
  made.keep_room(0);
  return opened{std::move(made), std::move(found)};
}

status journal::compact(std::span<const journal_record> snapshot) {
  journal fresh(*files_, name_, options_);
  TROUPE_TRY(file, fresh.write_new(snapshot));
  if (auto renamed = files_->rename(partial(), name_); !renamed) {
    if (file->is_named(partial())) static_cast<void>(file->cut(0));  // its disk, for others
    return renamed;
  }
  fresh.file_ = std::move(file);
  *this = std::move(fresh);
  if (const auto synced = sync_name(); !synced) return close(synced.error());  // JRN-6
  keep_room(0);
  return {};
}

bool journal::is_long() const noexcept {
  return end_ >= options_.compact_bytes && end_ / 2 >= compacted_;
}

// -- appending ------------------------------------------------------------------------------------

/// JRN-8: before `bytes` are appended. Asked for in steps, so that it is not asked each time.
void journal::keep_room(uint64_t bytes) {
  if (room_end_ >= end_ + bytes + room_bytes / 2) return;
  if (file_->keep_room(end_, bytes + room_bytes)) room_end_ = end_ + bytes + room_bytes;
}

status journal::health() const {
  return closed_ ? status(journal_closed(name_.string(), closed_->message)) : status();
}

error journal::close(const error& why) {
  if (!closed_) closed_ = why;
  return health().error();
}

/// JRN-5: what a failed append may have left is cut off. A cut gives the room back, too.
error journal::take_back(const error& why) {
  room_end_ = 0;
  if (const auto cut = file_->cut(end_); !cut) return close(cut.error());
  keep_room(0);
  return why;
}

status journal::append(uint8_t kind, std::span<const std::byte> payload, durable sync) {
  TROUPE_CHECK(health());
  std::string record;
  uint32_t sum = sum_;
  TROUPE_CHECK(encode_record(record, kind, payload, sum));
  if (end_ + record.size() > max_journal_bytes)
    return journal_full(name_.string(), end_ + record.size(), max_journal_bytes);
  if (!file_->is_named(name_))  // JRN-9
    return close({errc::io, "it was moved or removed"});
  keep_room(record.size());
  if (const auto written = file_->write_at(end_, as_bytes(record)); !written)
    return take_back(written.error());
  if (sync == durable::yes)
    if (const auto synced = file_->sync(); !synced) {
      static_cast<void>(take_back(synced.error()));
      return close(synced.error());
    }
  end_ += record.size();
  sum_ = sum;
  return {};
}

}  // namespace troupe::io
