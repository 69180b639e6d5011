// Making and checking manifests; their bytes are in manifest_file.cpp.
#include "io/checkpoint/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

namespace troupe::io::checkpoint {

namespace {

/// MF-5.
status check_line(const manifest_head& h) {
  if (h.line.empty()) return {};
  if (h.line.size() > max_launches) return error{errc::bad_data, "its line has too many launches"};
  const bool falls = std::adjacent_find(h.line.begin(), h.line.end(), [](auto& a, auto& b) {
                       return a.step > b.step;
                     }) != h.line.end();
  if (falls || h.line.back().step != h.step)
    return error{errc::bad_data, "the steps of its line do not lead to its own"};
  return {};
}

status check_head(const manifest_head& h) {
  if (h.job.size() > max_name_bytes) return error{errc::bad_data, "the job's name is too long"};
  if (h.slot_bytes == 0 || h.slot_bytes % alignment != 0 || h.slot_bytes > max_slot_bytes)
    return slots_impossible(h.slot_bytes);
  if (!is_layout(h.layout)) return layout_impossible();
  return check_line(h);
}

/// Whether it is one that a shard of such a rank bears: its own, or one of its chunks'.
bool names_shard(const file_entry& f) {
  if (f.slot_bytes == 0) return f.name == shard_name(f.rank);
  constexpr std::string_view chunk = ".chunk-";
  const auto at = f.name.find(chunk);
  if (at == std::string::npos) return false;
  uint32_t number = 0;
  const auto* begin = f.name.data() + at + chunk.size();
  const auto read = std::from_chars(begin, f.name.data() + f.name.size(), number);
  return read.ec == std::errc() && f.name == shard_name(f.rank, number);
}

status check_shard(const manifest& m, const file_entry& f) {
  if (!m.head.layout.holds(f.rank) || !names_shard(f)) return shard_name_wrong(f.name, f.rank);
  if (f.slot_bytes % alignment != 0 || f.slot_bytes > max_slot_bytes)
    return slots_impossible(f.slot_bytes);
  if (f.stream_bytes > max_stream_bytes || f.bytes % alignment != 0 ||
      f.bytes <= aligned(f.stream_bytes))
    return shard_length_wrong(f.name);
  return {};
}

/// MF-3.
status check_files(const manifest& m) {
  std::set<std::string_view> names{manifest_file};
  uint64_t shards = 0;
  for (const auto& f : m.files) {
    if (!is_file_name(f.name)) return file_name_invalid();
    if (!names.insert(f.name).second) return listed_twice("file", f.name);
    if (!f.shard && f.slot_bytes > 0) return slots_impossible(f.slot_bytes);
    if (!f.shard) continue;
    shards += f.slot_bytes == 0 ? 1 : 0;
    TROUPE_CHECK(check_shard(m, f));
  }
  const auto ranks = static_cast<uint64_t>(m.head.layout.ranks());
  if (shards != ranks) return shards_missing(shards, ranks);
  return {};
}

/// MF-1 for one part, and that its slices lie in shards.
status check_part(const manifest& m, const tensor_entry& t, uint64_t elements,
                  const tensor_part& p) {
  const auto bad = [&](const auto& kind, const auto&... facts) {
    return kind(fmt::format("{} of {}", to_string(p.which), t.name), facts...);
  };
  if (static_cast<size_t>(p.which) >= part_count ||
      (p.type != tensor_dtype::f32 && p.type != tensor_dtype::bf16 && p.type != tensor_dtype::f16))
    return bad(part_unknown);
  uint64_t at = 0;
  for (const auto& s : p.slices) {
    if (s.file >= m.files.size() || !m.files[s.file].shard) return bad(slice_in_no_shard);
    if (s.first < at) return bad(element_twice, s.first);
    if (s.first > at) return bad(element_missing, at);
    if (s.count == 0 || s.count > elements - at) return bad(slice_outside);
    const uint64_t bytes = s.count * size_of(p.type);
    const uint64_t stream = m.files[s.file].stream_bytes;
    if (s.stream_offset > stream || bytes > stream - s.stream_offset)
      return bad(slice_outside_shard, m.files[s.file].name);
    at += s.count;
  }
  if (at != elements) return bad(element_missing, at);
  return {};
}

status check_tensors(const manifest& m) {
  std::set<std::string_view> names;
  for (const auto& t : m.tensors) {
    if (!is_tensor_name(t.name)) return tensor_unnamed("a tensor");
    if (!names.insert(t.name).second) return listed_twice("tensor", t.name);
    const auto elements = elements_of(t.shape);
    if (!elements || (t.transposed && t.shape.size() != 2)) return shape_impossible(t.name);
    unsigned seen = 0;
    for (const auto& p : t.parts) {
      TROUPE_CHECK(check_part(m, t, *elements, p));
      const unsigned bit = 1u << static_cast<unsigned>(p.which);
      if ((seen & bit) != 0) return listed_twice(to_string(p.which), t.name);
      seen |= bit;
    }
  }
  return {};
}

/// MF-2.
status check_streams(const manifest& m) {
  const auto streams = streams_of(m);
  for (size_t f = 0; f < m.files.size(); ++f) {
    const auto& file = m.files[f];
    const bool padded = file.slot_bytes > 0;
    uint64_t at = 0;
    for (const auto& range : streams[f]) {
      const auto& tensor = m.tensors[range.tensor].name;
      if (range.offset < at) return byte_claimed_twice(file.name, tensor, range.offset);
      if (!padded && range.offset > at) return byte_before_unclaimed(file.name, tensor, at);
      at = range.offset + range.bytes;
    }
    if (file.shard && !padded && at != file.stream_bytes) return byte_unclaimed(file.name, at);
  }
  return {};
}

status of_manifest(const status& s) {
  return s ? s : status(s.error().within(manifest_file));
}

status check_all(const manifest& m) {
  TROUPE_CHECK(check_head(m.head));
  TROUPE_CHECK(check_files(m));
  TROUPE_CHECK(check_tensors(m));
  return check_streams(m);
}

/// Where assemble() gathers tensors.
class gatherer {
 public:
  status add(uint32_t file, const piece& p) {
    const auto [at, fresh] = index_.try_emplace(p.tensor, tensors_.size());
    if (fresh) tensors_.push_back({p.tensor, p.shape, p.transposed, {}});
    auto& t = tensors_[at->second];
    if (t.shape != p.shape || t.transposed != p.transposed)
      return shards_disagree("shape", p.tensor).within(manifest_file);
    auto part_at = std::find_if(t.parts.begin(), t.parts.end(),
                                [&](const auto& known) { return known.which == p.which; });
    if (part_at == t.parts.end()) part_at = t.parts.insert(t.parts.end(), {p.which, p.type, {}});
    if (part_at->type != p.type) return shards_disagree("type", p.tensor).within(manifest_file);
    part_at->slices.push_back({file, p.first, p.count, p.stream_offset});
    return {};
  }

  std::vector<tensor_entry> take() {
    for (auto& t : tensors_) {
      std::sort(t.parts.begin(), t.parts.end(),
                [](const auto& a, const auto& b) { return a.which < b.which; });
      for (auto& p : t.parts)
        std::sort(p.slices.begin(), p.slices.end(),
                  [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    return std::move(tensors_);
  }

 private:
  std::vector<tensor_entry> tensors_;
  std::unordered_map<std::string, size_t> index_;
};

bool same_numbers(const manifest& m, uint32_t index, const footer& f) {
  const auto& file = m.files[index];
  return f.job == m.head.job && f.step == m.head.step && f.epoch == m.head.epoch &&
         f.layout == m.head.layout && f.slot_bytes == slot_bytes_of(m, index) &&
         f.rank == file.rank && f.stream_bytes == file.stream_bytes &&
         f.padded == (file.slot_bytes > 0);
}

}  // namespace

std::string shard_name(uint32_t rank) {
  return fmt::format("rank-{:05}.shard", rank);
}

std::string shard_name(uint32_t rank, uint32_t chunk) {
  return fmt::format("rank-{:05}.chunk-{:05}.shard", rank, chunk);
}

const tensor_part* tensor_entry::find(part which) const noexcept {
  for (const auto& p : parts)
    if (p.which == which) return &p;
  return nullptr;
}

lineage line_of(const manifest_head& head) {
  return head.line.empty() ? lineage{{0, head.step}} : head.line;
}

status check(const manifest_head& h) {
  return of_manifest(check_head(h));
}

status check(const manifest& m) {
  return of_manifest(check_all(m));
}

result<manifest> assemble(const manifest_head& head, std::vector<shard_facts> shards,
                          const std::vector<file_sum>& others) {
  std::sort(shards.begin(), shards.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  manifest m{head, {}, {}};
  gatherer tensors;
  const auto add = [&](file_entry file, const std::vector<piece>& pieces) -> status {
    const auto index = static_cast<uint32_t>(m.files.size());
    m.files.push_back(std::move(file));
    for (const auto& p : pieces) TROUPE_CHECK(tensors.add(index, p));
    return {};
  };
  for (const auto& s : shards) {
    TROUPE_CHECK(add(
        {shard_name(s.rank), s.bytes, s.footer_crc, true, s.rank, s.stream_bytes, s.slot_digest},
        s.pieces));
    for (const auto& c : s.chunks)
      TROUPE_CHECK(add({shard_name(s.rank, c.chunk), c.bytes, c.footer_crc, true, s.rank,
                        c.stream_bytes, c.slot_digest, c.slot_bytes},
                       c.pieces));
  }
  for (const auto& f : others) m.files.push_back({f.name, f.bytes, f.crc32c, false, 0, 0, 0});
  m.tensors = tensors.take();
  TROUPE_CHECK(check(m));
  return m;
}

std::vector<std::vector<stream_range>> streams_of(const manifest& m) {
  std::vector<std::vector<stream_range>> streams(m.files.size());
  std::vector<size_t> counts(m.files.size());
  for (const auto& t : m.tensors)
    for (const auto& p : t.parts)
      for (const auto& s : p.slices) ++counts[s.file];
  for (size_t f = 0; f < streams.size(); ++f) streams[f].reserve(counts[f]);
  for (size_t t = 0; t < m.tensors.size(); ++t)
    for (const auto& p : m.tensors[t].parts)
      for (const auto& s : p.slices)
        streams[s.file].push_back({s.stream_offset, s.count * size_of(p.type),
                                   static_cast<uint32_t>(t), p.which, s.first, s.count});
  for (auto& stream : streams)
    std::sort(stream.begin(), stream.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return streams;
}

status agrees(const manifest& m, uint32_t file, std::span<const stream_range> stream,
              const footer& f) {
  const auto& entry = m.files[file];
  const auto differ = [&](std::string_view what) {
    return error{errc::bad_data, fmt::format("{} is not the shard that {} means: {}", entry.name,
                                             manifest_file, what)};
  };
  if (!same_numbers(m, file, f)) return differ("another job, step, epoch, rank or layout");
  if (slot_digest(f.crc32c) != entry.slot_digest) return differ("other checksums of its slots");
  if (stream.size() != f.pieces.size()) return differ("another number of pieces");
  for (size_t i = 0; i < stream.size(); ++i) {
    const auto& r = stream[i];
    const auto& p = f.pieces[i];
    const auto& t = m.tensors[r.tensor];
    if (p.tensor != t.name || p.which != r.which || p.first != r.first || p.count != r.count ||
        p.stream_offset != r.offset || p.bytes != r.bytes || p.shape != t.shape ||
        p.transposed != t.transposed)
      return differ(fmt::format("piece {} is {} of {}", i, to_string(p.which), p.tensor));
  }
  return {};
}

std::unordered_map<std::string_view, uint32_t> by_name(const manifest& m) {
  std::unordered_map<std::string_view, uint32_t> index;
  index.reserve(m.tensors.size());
  for (size_t i = 0; i < m.tensors.size(); ++i)
    index.emplace(m.tensors[i].name, static_cast<uint32_t>(i));
  return index;
}

}  // namespace troupe::io::checkpoint
