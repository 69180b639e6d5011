// Encoding, parsing and checking of the end of a shard file.
#include "io/checkpoint/format.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

#include "io/checkpoint/schema.hpp"
#include "io/file.hpp"

namespace troupe::io::checkpoint {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

namespace {

constexpr const char* footer_identifier = "TRSF";
constexpr std::string_view shard_magic = "TRSHARD\n";

/// The trailer as it lies in the file.
struct raw_trailer {
  char magic[8];
  uint32_t version;
  uint32_t footer_crc;
  uint64_t footer_offset;
  uint64_t footer_bytes;
  uint32_t zero;
  uint32_t crc;
};
static_assert(sizeof(raw_trailer) == trailer_bytes);
constexpr size_t crc_covers = offsetof(raw_trailer, crc);

error wrong_shard(std::string_view where, std::string_view what) {
  return {errc::bad_data, fmt::format("{}: {}", where, what)};
}

error wrong_footer(std::string_view what) {
  return wrong_shard("footer", what);
}

uint32_t crc_of(const raw_trailer& raw) {
  return crc32c(std::as_bytes(std::span(&raw, 1)).first(crc_covers));
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// SF-2 for one piece.
status check_piece(const piece& p, size_t index) {
  const auto bad = [&](const error_kind<std::string_view>& kind) {
    return kind(fmt::format("piece {} ({})", index, p.tensor));
  };
  if (!is_tensor_name(p.tensor)) return tensor_unnamed(fmt::format("piece {}", index));
  const auto elements = elements_of(p.shape);
  if (!elements) return bad(shape_impossible);
  if (p.transposed && p.shape.size() != 2) return bad(piece_not_matrix);
  if (static_cast<size_t>(p.which) >= part_count || !type_of(p.type)) return bad(part_unknown);
  if (p.count == 0 || p.count > *elements || p.first > *elements - p.count)
    return bad(piece_outside);
  if (p.bytes != p.count * size_of(p.type)) return bad(piece_length_wrong);
  return {};
}

/// SF-1 for one piece, where the one before ends at `at`.
bool in_place(const footer& f, const piece& p, uint64_t at) {
  const bool begins = f.padded ? p.stream_offset >= at : p.stream_offset == at;
  return begins && p.stream_offset <= f.stream_bytes && p.bytes <= f.stream_bytes - p.stream_offset;
}

status check_numbers(const footer& f) {
  if (f.job.size() > max_name_bytes) return error{errc::bad_data, "the job's name is too long"};
  if (f.slot_bytes == 0 || f.slot_bytes % alignment != 0 || f.slot_bytes > max_slot_bytes)
    return slots_impossible(f.slot_bytes);
  if (!is_layout(f.layout) || !f.layout.holds(f.rank)) return layout_impossible();
  if (f.stream_bytes > max_stream_bytes)
    return error{errc::bad_data, "the stream is impossibly long"};
  if (const auto slots = slot_count(f.stream_bytes, f.slot_bytes);
      f.crc32c.size() != slots)  // SF-3
    return checksums_missing(f.crc32c.size(), slots);
  uint64_t at = 0;
  for (size_t i = 0; i < f.pieces.size(); ++i) {
    const auto& p = f.pieces[i];
    TROUPE_CHECK(check_piece(p, i));
    if (!in_place(f, p, at)) return piece_misplaced(i, p.tensor);
    at = p.stream_offset + p.bytes;
  }
  if (!f.padded && at != f.stream_bytes) return stream_not_filled();
  return {};
}

flatbuffers::Offset<fbs::Piece> encode(flatbuffers::FlatBufferBuilder& b, const piece& p) {
  const auto name = b.CreateSharedString(p.tensor);
  const auto shape = b.CreateVector(p.shape);
  return fbs::CreatePiece(b, name, static_cast<fbs::Part>(p.which), *type_of(p.type), shape,
                          p.transposed, p.first, p.count, p.stream_offset, p.bytes);
}

result<piece> decode(const fbs::Piece& p, size_t index) {
  const auto shape = shape_of(*p.shape());
  const auto which = part_of(p.part());
  const auto type = type_of(p.dtype());
  if (!shape || !which || !type || p.tensor()->size() > max_name_bytes)
    return wrong_footer(fmt::format("piece {} has an impossible name, shape, part or type", index));
  return piece{p.tensor()->str(), *which,   *type, *shape, p.transposed(), p.first(), p.count(),
               p.stream_offset(), p.bytes()};
}

uint32_t version_of(const footer& f) {
  return f.padded ? padded_version : packed_version;
}

}  // namespace

std::string_view to_string(part which) noexcept {
  constexpr std::string_view names[part_count] = {"master", "exp_avg", "exp_avg_sq", "weight"};
  const auto i = static_cast<size_t>(which);
  return i < part_count ? names[i] : "?";
}

std::optional<uint64_t> elements_of(std::span<const int64_t> shape) noexcept {
  constexpr uint64_t limit = uint64_t{1} << 48;
  if (shape.size() > max_dimensions) return std::nullopt;
  uint64_t product = 1;
  for (const int64_t dimension : shape) {
    if (dimension <= 0 || static_cast<uint64_t>(dimension) >= limit) return std::nullopt;
    if (product > limit / static_cast<uint64_t>(dimension)) return std::nullopt;
    product *= static_cast<uint64_t>(dimension);
  }
  return product < limit ? std::optional(product) : std::nullopt;
}

bool is_file_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == '\x7f';
         });
}

bool is_tensor_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= max_name_bytes &&
         std::none_of(name.begin(), name.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\x7f'; });
}

uint64_t slot_digest(std::span<const uint32_t> crc32c) noexcept {
  return XXH64(crc32c.data(), crc32c.size_bytes(), 0);
}

status check(const footer& f) {
  const auto sound = check_numbers(f);
  return sound ? sound : status(sound.error().within("footer"));
}

result<encoded_tail> encode_tail(const footer& f) {
  if (auto sound = check(f); !sound) return error{errc::bug, sound.error().message};
  flatbuffers::FlatBufferBuilder b(64 << 10);
  b.ForceDefaults(f.padded);  // a zero takes as much as any number
  std::vector<flatbuffers::Offset<fbs::Piece>> pieces;
  pieces.reserve(f.pieces.size());
  for (const auto& p : f.pieces) pieces.push_back(encode(b, p));
  const auto job = b.CreateString(f.job);
  const auto layout = encode(b, f.layout);
  const auto sums = b.CreateVector(f.crc32c);
  const auto list = b.CreateVector(pieces);
  b.Finish(fbs::CreateFooter(b, version_of(f), job, f.epoch, f.step, f.rank, layout, f.slot_bytes,
                             f.stream_bytes, sums, list),
           footer_identifier);
  if (b.GetSize() > max_footer_bytes)
    return error{errc::bug, fmt::format("a footer of {} bytes is too long", b.GetSize()),
                 "larger slots need fewer checksums: checkpoint.slot_bytes"};
  encoded_tail out;
  out.offset = aligned(f.stream_bytes);
  out.bytes.resize(aligned(b.GetSize() + trailer_bytes));
  out.file_bytes = out.offset + out.bytes.size();
  std::memcpy(out.bytes.data(), b.GetBufferPointer(), b.GetSize());
  out.footer_crc = crc32c(std::span(out.bytes).first(b.GetSize()));
  out.slot_digest = slot_digest(f.crc32c);
  raw_trailer raw{};
  std::memcpy(raw.magic, shard_magic.data(), shard_magic.size());
  raw.version = version_of(f);
  raw.footer_crc = out.footer_crc;
  raw.footer_offset = out.offset;
  raw.footer_bytes = b.GetSize();
  raw.crc = crc_of(raw);
  std::memcpy(out.bytes.data() + out.bytes.size() - trailer_bytes, &raw, sizeof raw);
  return out;
}

result<trailer> parse_trailer(std::span<const std::byte> end, uint64_t file_bytes) {
  if (end.size() < trailer_bytes || file_bytes < alignment || file_bytes % alignment != 0)
    return wrong_shard("trailer", "invalid shard: the file is too short");
  raw_trailer raw;
  std::memcpy(&raw, end.data() + end.size() - trailer_bytes, sizeof raw);
  if (std::memcmp(raw.magic, shard_magic.data(), shard_magic.size()) != 0)
    return wrong_shard("trailer", "the file does not end as a shard: it is cut short or damaged");
  if (raw.crc != crc_of(raw)) return wrong_shard("trailer", "it is damaged");
  if (raw.version != packed_version && raw.version != padded_version)
    return error{errc::version_mismatch, fmt::format("trailer: version {}", raw.version),
                 "it was written by another version of Troupe"};
  if (raw.zero != 0) return wrong_shard("trailer", "it is damaged");
  if (raw.footer_offset % alignment != 0 || raw.footer_offset >= file_bytes ||
      raw.footer_bytes == 0 || raw.footer_bytes > max_footer_bytes ||
      raw.footer_offset + aligned(raw.footer_bytes + trailer_bytes) != file_bytes)
    return wrong_shard("trailer", "the footer does not lie where it says");
  return trailer{raw.version, raw.footer_crc, raw.footer_offset, raw.footer_bytes};
}

result<footer> parse_footer(std::span<const std::byte> bytes) {
  std::vector<uint64_t> copy;
  const auto* root = verified_root<fbs::Footer>(bytes, footer_identifier, copy);
  if (!root) return wrong_footer("it is not readable");
  if (root->format() != packed_version && root->format() != padded_version)
    return error{errc::version_mismatch, fmt::format("footer: format {}", root->format()),
                 "it was written by another version of Troupe"};
  if (root->job()->size() > max_name_bytes) return wrong_footer("the job's name is too long");
  footer f;
  f.padded = root->format() == padded_version;
  f.job = root->job()->str();
  f.epoch = root->epoch();
  f.step = root->step();
  f.rank = root->rank();
  f.layout = layout_of(*root->layout());
  f.slot_bytes = root->slot_bytes();
  f.stream_bytes = root->stream_bytes();
  f.crc32c.assign(root->crc32c()->begin(), root->crc32c()->end());
  for (const auto* p : *root->pieces()) {
    TROUPE_TRY(one, decode(*p, f.pieces.size()));
    f.pieces.push_back(std::move(one));
  }
  TROUPE_CHECK(check(f));
  return f;
}

result<footer> parse_tail(std::span<const std::byte> tail, uint64_t file_bytes) {
  TROUPE_TRY(end, parse_trailer(tail, file_bytes));
  if (end.footer_offset + tail.size() != file_bytes)
    return wrong_shard("trailer", "the footer does not lie where it says");
  const auto body = tail.first(end.footer_bytes);
  if (crc32c(body) != end.footer_crc) return wrong_footer("it is damaged");
  if (!all_zero(tail.subspan(body.size(), tail.size() - body.size() - trailer_bytes)))
    return wrong_footer("the padding behind it is damaged");
  TROUPE_TRY(f, parse_footer(body));
  if (version_of(f) != end.version)
    return wrong_footer("it is of another version than the trailer says");
  if (aligned(f.stream_bytes) != end.footer_offset)
    return wrong_footer("it does not begin behind the stream");
  return f;
}

}  // namespace troupe::io::checkpoint
