// Opening, verifying and reading a checkpoint.
#include "io/checkpoint/reader.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::io::checkpoint {

namespace {

constexpr size_t max_open_files = 64;
constexpr size_t max_named_tensors = 64;
constexpr size_t piece_bytes = 4 << 20;  ///< of reads of files that have no slots

error wrong(std::string text) {
  return {errc::bad_data, std::move(text), std::string(use_another)};
}

/// Reads a source's file whole.
result<std::vector<std::byte>> read_whole(const source_file& file, uint64_t max_bytes,
                                          std::string_view name) {
  if (file.size() > max_bytes)
    return wrong(fmt::format("{} has {} bytes, more than the {} expected at most", name,
                             file.size(), max_bytes));
  std::vector<std::byte> bytes(file.size());
  TROUPE_CHECK(file.read_at(0, bytes));
  return bytes;
}

/// The first bytes of a thread's buffer, which grows to have them.
std::span<std::byte> room(io_buffer& buffer, size_t bytes) {
  if (buffer.bytes().size() < bytes) buffer = io_buffer::allocate(bytes);
  return buffer.bytes().first(bytes);
}

/// CRC32C of a whole file, in pieces.
result<uint32_t> sum_of(const source_file& file, io_buffer& buffer) {
  uint32_t crc = 0;
  for (uint64_t at = 0; at < file.size();) {
    const auto bytes = room(buffer, std::min<uint64_t>(piece_bytes, file.size() - at));
    TROUPE_CHECK(file.read_at(at, bytes));
    crc = crc32c(bytes, crc);
    at += bytes.size();
  }
  return crc;
}

/// Whether an error says something of the checkpoint rather than of us.
bool is_damage(errc code) {
  return code == errc::bad_data || code == errc::io || code == errc::version_mismatch ||
         code == errc::not_found || code == errc::permission;
}

}  // namespace

std::string render(const damage& d) {
  std::string text = d.file;
  if (d.slot) text += fmt::format(", slot {}", *d.slot);
  text += fmt::format(" (bytes {} to {}): {}", d.offset, d.offset + d.bytes, d.why.message);
  constexpr size_t shown = 4;
  for (size_t i = 0; i < std::min(shown, d.tensors.size()); ++i)
    text += (i == 0 ? "; it holds " : ", ") + d.tensors[i];
  const uint64_t more = d.more_tensors + (d.tensors.size() > shown ? d.tensors.size() - shown : 0);
  if (more > 0) text += fmt::format(" and {} more", more);
  return text;
}

error as_error(const damage& d) {
  return {errc::bad_data, render(d), std::string(use_another), d.why.kind};
}

reader::reader(std::shared_ptr<const file_source> source)
    : source_(std::move(source)), cache_(std::make_shared<cache>()) {}

result<reader> reader::open(std::shared_ptr<const file_source> source) {
  reader r(std::move(source));
  TROUPE_TRY(file, r.source_->open(std::string(manifest_file)));
  TROUPE_TRY(bytes, read_whole(*file, max_manifest_bytes + piece_bytes, manifest_file));
  auto m = parse_manifest(bytes);
  if (!m) {
    auto why = m.error();
    if (why.code == errc::bad_data) why.hint = use_another;
    return why;
  }
  r.manifest_ = std::make_shared<const manifest>(std::move(*m));
  r.streams_ = streams_of(*r.manifest_);
  r.cache_->sums.resize(r.manifest_->files.size());
  for (uint32_t i = 0; i < r.manifest_->files.size(); ++i) {
    const auto& entry = r.manifest_->files[i];
    auto opened = r.file(i);
    if (!opened && opened.error().code == errc::not_found) return file_missing(entry.name);
    if (!opened) return opened.error();
    if ((*opened)->size() != entry.bytes)
      return wrong(
          fmt::format("{} has {} bytes instead of {}", entry.name, (*opened)->size(), entry.bytes));
  }
  return r;
}

result<reader> reader::open(file_system& files, const std::filesystem::path& folder) {
  auto r = open(folder_source(files, folder));
  if (!r) return r.error().within(folder.string());
  return r;
}

result<reader> reader::open(const std::filesystem::path& folder) {
  return open(local_files(), folder);
}

result<std::shared_ptr<const source_file>> reader::file(uint32_t index) const {
  {
    const std::lock_guard lock(cache_->mutex);
    auto& open = cache_->open;
    const auto known =
        std::find_if(open.begin(), open.end(), [&](const auto& o) { return o.first == index; });
    if (known != open.end()) {
      open.splice(open.begin(), open, known);
      return open.front().second;
    }
  }
  TROUPE_TRY(file, source_->open(manifest_->files[index].name));
  const std::lock_guard lock(cache_->mutex);
  cache_->open.emplace_front(index, file);
  if (cache_->open.size() > max_open_files) cache_->open.pop_back();
  return file;
}

/// `tail` takes the bytes from the footer to the end of the file.
result<reader::checksums> reader::read_footer(uint32_t index, std::span<std::byte> tail) const {
  const auto& entry = manifest_->files[index];
  TROUPE_TRY(shard, file(index));
  if (shard->size() != entry.bytes)
    return wrong(fmt::format("it has {} bytes instead of {}", shard->size(), entry.bytes));
  TROUPE_CHECK(shard->read_at(aligned(entry.stream_bytes), tail));
  TROUPE_TRY(end, parse_trailer(tail, entry.bytes));
  TROUPE_TRY(f, parse_tail(tail, entry.bytes));
  if (end.footer_crc != entry.crc32c)
    return wrong(fmt::format("its footer is not the one that {} means", manifest_file));
  TROUPE_CHECK(agrees(*manifest_, index, streams_[index], f));
  return checksums(std::make_shared<const std::vector<uint32_t>>(std::move(f.crc32c)));
}

result<reader::checksums> reader::sums_of(uint32_t index) const {
  {
    const std::lock_guard lock(cache_->mutex);
    if (cache_->sums[index]) return cache_->sums[index];
  }
  const auto& entry = manifest_->files[index];
  const uint64_t bytes = entry.bytes - aligned(entry.stream_bytes);
  if (bytes > aligned(max_footer_bytes + trailer_bytes)) return footer_too_long();
  std::vector<std::byte> tail(bytes);
  TROUPE_TRY(sums, read_footer(index, tail));
  const std::lock_guard lock(cache_->mutex);
  cache_->sums[index] = sums;
  return sums;
}

damage reader::describe(uint32_t file, std::optional<uint64_t> slot, uint64_t offset,
                        uint64_t bytes, error why) const {
  damage d{manifest_->files[file].name, slot, offset, bytes, {}, 0, std::move(why)};
  const auto& stream = streams_[file];
  // A footer that is lost takes all slots with it: nothing else knows their checksums.
  const uint64_t from = slot ? offset : 0;
  const uint64_t to = slot ? offset + bytes : UINT64_MAX;
  auto at = std::upper_bound(stream.begin(), stream.end(), from,
                             [](uint64_t x, const stream_range& r) { return x < r.offset; });
  if (at != stream.begin()) --at;
  for (; at != stream.end() && at->offset < to; ++at) {
    if (at->offset + at->bytes <= from) continue;
    if (d.tensors.size() < max_named_tensors)
      d.tensors.push_back(
          fmt::format("{} of {}", to_string(at->which), manifest_->tensors[at->tensor].name));
    else
      ++d.more_tensors;
  }
  return d;
}

// -- verify -----------------------------------------------------------------------------------

/// What is wrong with a unit, or why it could not be read.
status reader::check(const unit& u, io_buffer& buffer) const {
  if (u.what == unit::kind::tail) {
    TROUPE_TRY(sums, sums_of(u.file));
    static_cast<void>(sums);
    return {};
  }
  if (u.what == unit::kind::slot) return check_slot(u, room(buffer, u.bytes));
  TROUPE_TRY(source, file(u.file));
  TROUPE_TRY(crc, sum_of(*source, buffer));
  return crc == manifest_->files[u.file].crc32c ? status{} : checksum_wrong();
}

status reader::check_slot(const unit& u, std::span<std::byte> out) const {
  TROUPE_TRY(source, file(u.file));
  TROUPE_TRY(sums, sums_of(u.file));
  TROUPE_CHECK(source->read_at(u.offset, out));
  const std::span<const std::byte> all(out);
  if (crc32c(all.first(u.summed)) != (*sums)[u.slot]) return checksum_wrong();
  const auto zeros = all.subspan(u.summed);
  if (std::any_of(zeros.begin(), zeros.end(), [](std::byte b) { return b != std::byte{0}; }))
    return padding_not_zero();
  return {};
}

status reader::check_unit(const unit& u, io_buffer& buffer, verify_report& found,
                          std::mutex& mutex) const {
  const auto sound = check(u, buffer);
  if (!sound && !is_damage(sound.error().code)) return sound;
  const std::lock_guard lock(mutex);
  found.bytes += u.bytes;
  if (sound) return {};
  const auto slot = u.what == unit::kind::slot ? std::optional(u.slot) : std::nullopt;
  found.damages.push_back(describe(u.file, slot, u.offset, u.bytes, sound.error()));
  return {};
}

/// The slots of a shard, or a plain file.
void reader::add_units(std::vector<unit>& to, uint32_t file) const {
  const auto& f = manifest_->files[file];
  if (!f.shard) return to.push_back({unit::kind::plain, file, 0, 0, f.bytes, f.bytes});
  const uint64_t slot_bytes = slot_bytes_of(*manifest_, file);
  for (uint64_t at = 0; at < f.stream_bytes; at += slot_bytes) {
    const uint64_t summed = std::min(slot_bytes, f.stream_bytes - at);
    to.push_back({unit::kind::slot, file, at / slot_bytes, at, aligned(summed), summed});
  }
}

std::vector<reader::unit> reader::units() const {
  std::vector<unit> all;
  for (uint32_t i = 0; i < manifest_->files.size(); ++i) {
    add_units(all, i);
    const auto& f = manifest_->files[i];
    const uint64_t offset = aligned(f.stream_bytes);
    if (f.shard) all.push_back({unit::kind::tail, i, 0, offset, f.bytes - offset, 0});
  }
  return all;
}

status reader::read_unit(const unit& u, std::span<std::byte> out) const {
  const auto outcome = [&]() -> status {
    if (u.what == unit::kind::slot) return check_slot(u, out);
    if (u.what == unit::kind::tail) {
      TROUPE_CHECK(read_footer(u.file, out));
      return {};
    }
    TROUPE_TRY(source, file(u.file));
    TROUPE_CHECK(source->read_at(u.offset, out));
    return crc32c(out) == manifest_->files[u.file].crc32c ? status{} : checksum_wrong();
  }();
  if (outcome || outcome.error().code != errc::bad_data) return outcome;
  const auto slot = u.what == unit::kind::slot ? std::optional(u.slot) : std::nullopt;
  return as_error(describe(u.file, slot, u.offset, u.bytes, outcome.error()));
}

/// As many threads as the source is quickest with, where nobody says how many.
work_options reader::settled(work_options options) const {
  if (options.threads == 0) options.threads = source_->reads_at_once();
  return options;
}

result<verify_report> reader::verify(const work_options& asked) const {
  const auto options = settled(asked);
  std::vector<unit> tails;
  uint64_t total = 0;
  for (uint32_t i = 0; i < manifest_->files.size(); ++i) {
    const auto& f = manifest_->files[i];
    total += f.bytes;
    const uint64_t offset = aligned(f.stream_bytes);
    if (f.shard) tails.push_back({unit::kind::tail, i, 0, offset, f.bytes - offset, 0});
  }
  verify_report report;
  std::mutex mutex;
  byte_counter counter(options.progress, total);
  const auto run = [&](const std::vector<unit>& units) {
    std::vector<io_buffer> buffers(threads_for(options, units.size()));
    return in_parallel(options, units.size(), [&](unsigned thread, size_t i) -> status {
      TROUPE_CHECK(check_unit(units[i], buffers[thread], report, mutex));
      return counter.add(units[i].bytes);
    });
  };
  {  // footers are read anew: a verification believes nothing that was read before
    const std::lock_guard lock(cache_->mutex);
    std::fill(cache_->sums.begin(), cache_->sums.end(), nullptr);
  }
  TROUPE_CHECK(run(tails));
  std::vector<unit> others;  // of shards whose footer is not sound, no slot can be checked
  for (uint32_t i = 0; i < manifest_->files.size(); ++i)
    if (!manifest_->files[i].shard || cache_->sums[i]) add_units(others, i);
  TROUPE_CHECK(run(others));
  std::sort(report.damages.begin(), report.damages.end(), [](const auto& a, const auto& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  return report;
}

// -- read -------------------------------------------------------------------------------------

status reader::read(const restore_plan& plan, const byte_sink& sink,
                    const work_options& asked) const {
  const auto options = settled(asked);
  std::set<uint32_t> shards;
  for (const auto& r : plan.reads) shards.insert(r.file);
  const std::vector<uint32_t> list(shards.begin(), shards.end());
  TROUPE_CHECK(in_parallel(options, list.size(), [&](unsigned, size_t i) -> status {
    auto sums = sums_of(list[i]);
    if (sums) return {};
    if (!is_damage(sums.error().code)) return sums.error();
    const auto& f = manifest_->files[list[i]];
    const uint64_t offset = aligned(f.stream_bytes);
    return as_error(describe(list[i], std::nullopt, offset, f.bytes - offset, sums.error()));
  }));
  byte_counter counter(options.progress, plan.read_bytes);
  std::vector<io_buffer> buffers(threads_for(options, plan.reads.size()));
  return in_parallel(options, plan.reads.size(), [&](unsigned thread, size_t i) -> status {
    const auto& r = plan.reads[i];
    const unit u{unit::kind::slot, r.file, r.slot, r.offset, r.bytes, r.bytes};
    auto& buffer = buffers[thread];
    const auto sound = check(u, buffer);  // RD-1
    if (!sound && !is_damage(sound.error().code)) return sound;
    if (!sound) return as_error(describe(r.file, r.slot, r.offset, r.bytes, sound.error()));
    const std::span<const std::byte> bytes = buffer.bytes().first(r.bytes);
    for (size_t c = r.copies_begin; c < r.copies_end; ++c) {
      const auto& copy = plan.copies[c];
      TROUPE_CHECK(sink(copy.to, bytes.subspan(copy.from, copy.bytes)));
    }
    return counter.add(r.bytes);
  });
}

status reader::read(std::span<const want> wants, std::span<std::byte> out,
                    const work_options& options) const {
  TROUPE_TRY(plan, plan_restore(*manifest_, wants));
  for (const auto& c : plan.copies)
    if (c.to > out.size() || c.bytes > out.size() - c.to)
      return error{errc::bad_data, "a wanted tensor does not fit where it shall go"};
  return read(
      plan,
      [&](uint64_t to, std::span<const std::byte> bytes) -> status {
        std::memcpy(out.data() + to, bytes.data(), bytes.size());
        return {};
      },
      options);
}

result<std::vector<std::byte>> reader::read_tensor(const std::string& tensor, part which) const {
  for (const auto& t : manifest_->tensors) {
    const auto* p = t.name == tensor ? t.find(which) : nullptr;
    if (!p) continue;
    std::vector<std::byte> out(t.elements() * size_of(p->type));
    const want all{tensor, which, 0, t.elements(), 0};
    TROUPE_CHECK(read(std::span(&all, 1), out));
    return out;
  }
  return error{errc::not_found,
               fmt::format("the checkpoint has no {} of {}", to_string(which), tensor)};
}

result<std::string> reader::read_file(const std::string& name, size_t max_bytes) const {
  for (uint32_t i = 0; i < manifest_->files.size(); ++i) {
    const auto& entry = manifest_->files[i];
    if (entry.name != name || entry.shard) continue;
    TROUPE_TRY(source, file(i));
    TROUPE_TRY(bytes, read_whole(*source, max_bytes, name));
    if (bytes.size() != entry.bytes || crc32c(bytes) != entry.crc32c)
      return checksum_wrong().within(fmt::format("{} is damaged", name));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return error{errc::not_found, fmt::format("the checkpoint has no {}", name)};
}

}  // namespace troupe::io::checkpoint
