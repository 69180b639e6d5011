// Records into files, and out of those that they lie in: see spill_files.hpp.
#include "gpu/swap/spill_files.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::gpu {

namespace {

std::vector<std::filesystem::path> folders_of(const std::vector<std::filesystem::path>& names) {
  std::vector<std::filesystem::path> out;
  for (const auto& n : names) out.push_back(n.parent_path());
  return out;
}

}  // namespace

spill_files::spill_files(std::shared_ptr<io::swap_io> io, std::vector<place> records,
                         uint64_t record_bytes, options how)
    : io_(std::move(io)),
      records_(std::move(records)),
      record_bytes_(record_bytes),
      options_(std::move(how)),
      retry_(io_, folders_of(options_.names), options_.wait),
      sums_(records_.size()),
      has_(records_.size()) {}

uint64_t spill_files::file_bytes(size_t number) const {
  return spill_layout::records_of(number, options_.names.size(), records_.size()) * record_bytes_;
}

status spill_files::make() {
  for (size_t i = 0; i < options_.names.size() && file_bytes(i) > 0; ++i) {
    TROUPE_TRY(made, io_->create(options_.names[i], file_bytes(i)));
    files_.push_back(std::make_shared<file>(file{{options_.names[i], made, i}}));
  }
  return {};
}

/// SPF-1
spill_files::file_ptr spill_files::file_of(int record) {
  std::lock_guard lock(mutex_);
  return has_[static_cast<size_t>(record)];
}

/// `in`: null where it has not. What had it before may be unneeded by then (SPF-2).
void spill_files::note_written(int record, file_ptr in) {
  file_ptr before;
  {
    std::lock_guard lock(mutex_);
    before = std::exchange(has_[static_cast<size_t>(record)], std::move(in));
  }
  if (before) drop_if_unneeded(before);
}

/// SPF-2. Nobody reads or writes there any more, nor will; a drive that is broken may refuse to
/// forget the name: the file goes with the folder then.
void spill_files::drop_if_unneeded(const file_ptr& f) {
  {
    std::lock_guard lock(mutex_);
    const auto is_it = [&f](const file_ptr& other) { return other == f; };
    if (std::any_of(files_.begin(), files_.end(), is_it)) return;
    if (std::any_of(has_.begin(), has_.end(), is_it)) return;
    if (std::exchange(f->dropped, true)) return;  // by the other thread
  }
  static_cast<void>(io_->change([&](io::disk& d) -> status {
    d.close(f->on.id);
    if (f->reader != io::file_id::none) d.close(f->reader);
    return drop_file(d, retry_.folder(f->on.place), f->on.name);
  }));
}

// -- the thread that writes -----------------------------------------------------------------------

status spill_files::write(int record, std::span<std::byte> memory,
                          const std::shared_ptr<void>& owner) {
  const auto number = number_of_file(record);
  note_written(record, nullptr);  // until all of it is there
  if (options_.verify) sum_of(record) = io::crc32c(memory);
  const io::swap_io::range one{files_[number]->on.id, offset_of(record), memory};
  auto written = io_->write({&one, 1}, owner);
  if (write_retry::may_be_tried(written)) written = write_again(record, memory, owner);
  if (written) note_written(record, files_[number]);
  return written;
}

status spill_files::write_again(int record, std::span<std::byte> memory,
                                const std::shared_ptr<void>& owner) {
  const auto number = number_of_file(record);
  write_retry::failed_write w;
  w.file = [this, number] { return files_[number]->on; };
  w.offset = offset_of(record);
  w.memory = memory;
  w.file_bytes = file_bytes(number);
  w.move = [this, number](size_t place, const status& why) { return move(number, place, why); };
  return retry_.write(w, owner, retry_.patience_ends());
}

/// SPF-2: nothing is copied. Where the new file was not made it is gone.
write_retry::attempt spill_files::move(size_t number, size_t place, const status& why) {
  const auto base = options_.names[number].filename().string();
  const auto folder = retry_.folder(place) / "moved-activations";
  const auto name = fmt::format("{}.{}", base, ++moves_);
  auto into = std::make_shared<file>();
  into->on = {retry_.folder(place) / name, io::file_id::none, place};
  const auto made = [&]() -> status {
    TROUPE_CHECK(io_->change([&](io::disk& d) -> status {
      TROUPE_TRY(there, d.make_dir(folder));
      static_cast<void>(there);
      return {};
    }));
    TROUPE_TRY(id, io_->create(folder / name, file_bytes(number)));
    into->on.id = id;
    return io_->change([&](io::disk& d) { return d.rename(folder / name, into->on.name); });
  }();
  if (!made) {
    auto out = retry_.not_moved(made, into->on.id);
    static_cast<void>(io_->change([&](io::disk& d) -> status {
      if (into->on.there()) d.close(into->on.id);
      return d.remove_folder(folder, {io::folder_kind::scratch, {}, {}});
    }));
    return out;
  }
  retry_.tell(fmt::format("{}: it goes on in {}", why.error().message, into->on.name.string()));
  file_ptr before;
  {
    std::lock_guard lock(mutex_);
    before = std::exchange(files_[number], std::move(into));
  }
  drop_if_unneeded(before);
  return {{}, false};
}

// -- the thread that reads ------------------------------------------------------------------------

/// SPR-1. Backward uses what is read, and nothing reads it again.
status spill_files::read(int record, std::span<std::byte> memory,
                         const std::shared_ptr<void>& owner) {
  const auto& of = this->record(record);
  const auto f = file_of(record);
  if (!f) return spill_not_written(of.layer, of.slot);
  for (int tries = 0; tries < 2; ++tries) {
    TROUPE_CHECK(read_once(*f, offset_of(record), memory, owner));
    if (options_.verify && io::crc32c(memory) != sum_of(record)) continue;
    note_written(record, nullptr);
    return {};
  }
  return spill_damaged(of.layer, of.slot);
}

/// Where a write to the file has failed, perhaps meanwhile, it is opened anew.
status spill_files::read_once(file& f, uint64_t offset, std::span<std::byte> memory,
                              const std::shared_ptr<void>& owner) {
  if (f.reader == io::file_id::none) {
    const io::swap_io::range one{f.on.id, offset, memory};
    const auto got = io_->read({&one, 1}, owner);
    if (!write_retry::may_be_tried(got) || retry_.health_of(f.on.id)) return got;
    TROUPE_CHECK(io_->change([&](io::disk& d) -> status {
      TROUPE_TRY(opened, d.open(f.on.name, {io::open_mode::read, true, 0, true}));
      f.reader = opened;
      return {};
    }));
  }
  const io::swap_io::range one{f.reader, offset, memory};
  return io_->read({&one, 1}, owner);
}

}  // namespace troupe::gpu
