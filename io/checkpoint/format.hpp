// The shard file: what one rank writes of a checkpoint, and how its end is encoded and parsed.
//
//   shard   := slots | zeros to 4096 | footer | zeros | trailer      its length a multiple of 4096
//   slots   := the byte stream of all pieces, cut into slot_bytes (the last is shorter)
//   footer  := FlatBuffer Footer (checkpoint.fbs), at the first multiple of 4096 after the stream
//   trailer := the last 40 bytes, little-endian:
//     u64 magic "TRSHARD\n" | u32 version | u32 crc32c(footer) | u64 footer offset |
//     u64 footer bytes | u32 zero | u32 crc32c(the 36 bytes before)
//
// Why: the writer streams slots by O_DIRECT and knows their checksums only at the end; nothing has
// to be cut off afterwards, and a file whose end is missing is not a shard.
//
// Versions: in 1 the pieces are packed. In 2 zeros may lie between them, so that arrays begin where
// O_DIRECT can read them: a swap file is such a shard (io/swap/chunk_shard.hpp), which a checkpoint
// takes by a link. A shard is written in the lowest version that can tell of it.
//
// Invariants of a footer that was parsed
// SF-1 The pieces lie in the stream in order; none overlaps another, or is empty. In version 1 each
//      begins where the one before ends, and they fill the stream.
// SF-2 Every piece lies in its tensor; bytes = count * size of an element.
// SF-3 There is one CRC32C per slot; with the zeros, which must be zeros, every byte of the file is
//      under some check.
// SF-4 Foreign bytes give an error with the place, never undefined behaviour; nothing is allocated
//      by an unchecked count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/rank_grid.hpp"
#include "io/base/result.hpp"
#include "io/formats/safetensors.hpp"

namespace troupe::io::checkpoint {

/// The versions of footers, trailers and manifests that this program writes and reads: the first,
/// and the one that has what is said of version 2.
inline constexpr uint32_t packed_version = 1;
inline constexpr uint32_t padded_version = 2;
/// O_DIRECT's unit: offsets of footers and lengths of shards are multiples of it, in bytes.
inline constexpr uint64_t alignment = 4096;

/// Which array of a parameter is meant. `weight` is stored only where it is not the rounding of
/// master.
enum class part : uint8_t { master, exp_avg, exp_avg_sq, weight };
inline constexpr size_t part_count = 4;

/// "master", "exp_avg", "exp_avg_sq", "weight".
std::string_view to_string(part which) noexcept;

/// A contiguous range of elements of one part of one tensor, and its place in a shard's stream.
struct piece {
  std::string tensor;  ///< full Hugging Face name
  part which = part::master;
  tensor_dtype type = tensor_dtype::f32;  ///< f32, bf16 or f16
  std::vector<int64_t> shape;             ///< of the whole tensor in the store: [out, in] or [n]
  bool transposed = false;                ///< a Hugging Face file holds it as [in, out]
  uint64_t first = 0;                     ///< element in the row-major whole tensor
  uint64_t count = 0;                     ///< elements
  uint64_t stream_offset = 0;
  uint64_t bytes = 0;
  bool operator==(const piece&) const = default;
};

/// What a shard says of itself.
struct footer {
  std::string job;
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t rank = 0;
  rank_grid layout;              ///< of the ranks that wrote the checkpoint
  uint32_t slot_bytes = 0;       ///< a multiple of 4096, up to 1 GiB
  uint64_t stream_bytes = 0;     ///< of the pieces and of what is between them
  std::vector<uint32_t> crc32c;  ///< one per slot; of the last without its padding
  std::vector<piece> pieces;     ///< SF-1
  bool padded = false;           ///< zeros may lie between the pieces: version 2
  bool operator==(const footer&) const = default;
};

/// The last bytes of a shard.
struct trailer {
  uint32_t version = packed_version;
  uint32_t footer_crc = 0;
  uint64_t footer_offset = 0;
  uint64_t footer_bytes = 0;
  bool operator==(const trailer&) const = default;
};
inline constexpr size_t trailer_bytes = 40;

/// Limits of what is believed of a file, and kept when writing.
inline constexpr size_t max_name_bytes = 512;
inline constexpr uint64_t max_footer_bytes = uint64_t{256} << 20;
inline constexpr uint32_t max_slot_bytes = uint32_t{1} << 30;
inline constexpr uint64_t max_stream_bytes = uint64_t{1} << 50;
inline constexpr uint32_t max_ranks = 1 << 20;
inline constexpr size_t max_dimensions = 8;

/// Whether footers and manifests can tell of such ranks: they have no place for tensor ranks yet.
inline bool is_layout(const rank_grid& ranks) noexcept {
  return ranks.tensor == 1 && ranks.possible(max_ranks);
}

/// `bytes` rounded up to a multiple of `alignment`.
constexpr uint64_t aligned(uint64_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Number of slots of a stream.
constexpr uint64_t slot_count(uint64_t stream_bytes, uint32_t slot_bytes) noexcept {
  return stream_bytes / slot_bytes + (stream_bytes % slot_bytes != 0 ? 1 : 0);
}

/// Elements of a shape, if every dimension is positive, there are at most max_dimensions, and the
/// product is below 2^48.
std::optional<uint64_t> elements_of(std::span<const int64_t> shape) noexcept;

/// Numbers that no shard has, of footers and manifests; the first word says whose they are.
inline constexpr error_kind<uint32_t> slots_impossible{"slots_impossible", errc::bad_data,
                                                       "slots of {} bytes are impossible"};
inline constexpr error_kind<> layout_impossible{"layout_impossible", errc::bad_data,
                                                "its rank or layout is impossible"};
inline constexpr error_kind<std::string_view> shape_impossible{"shape_impossible", errc::bad_data,
                                                               "{}: its shape is impossible"};
inline constexpr error_kind<std::string_view> part_unknown{"part_unknown", errc::bad_data,
                                                           "{}: unknown part or type"};
inline constexpr error_kind<std::string_view> tensor_unnamed{"tensor_unnamed", errc::bad_data,
                                                             "{} has no name, or an invalid one"};
/// Pieces that break SF-1..SF-3: the piece's number and its tensor's name.
inline constexpr error_kind<size_t, size_t> checksums_missing{"checksums_missing", errc::bad_data,
                                                              "{} checksums for {} slots"};
inline constexpr error_kind<size_t, std::string_view> piece_misplaced{
    "piece_misplaced", errc::bad_data, "piece {} ({}) is out of its place"};
inline constexpr error_kind<> stream_not_filled{"stream_not_filled", errc::bad_data,
                                                "the pieces do not fill the stream"};
inline constexpr error_kind<std::string_view> piece_not_matrix{
    "piece_not_matrix", errc::bad_data, "{}: only a matrix can be transposed"};
inline constexpr error_kind<std::string_view> piece_outside{"piece_outside", errc::bad_data,
                                                            "{}: it does not lie in its tensor"};
inline constexpr error_kind<std::string_view> piece_length_wrong{
    "piece_length_wrong", errc::bad_data, "{}: its length does not fit its elements"};

/// Whether the pieces and numbers keep SF-1..SF-3.
status check(const footer& f);

/// What goes behind the slots, and what the rank's vote says of it.
struct encoded_tail {
  std::vector<std::byte> bytes;  ///< a multiple of 4096; belongs at `offset`
  uint64_t offset = 0;           ///< aligned(stream_bytes): zeros fill the gap
  uint64_t file_bytes = 0;       ///< length of the finished shard
  uint32_t footer_crc = 0;       ///< for the manifest
  uint64_t slot_digest = 0;      ///< for the manifest
};

/// Encodes footer, padding and trailer. Error bug if `f` does not pass check(). How long that is
/// depends on the pieces, the job's name and the number of slots alone where `f` is padded.
result<encoded_tail> encode_tail(const footer& f);

/// Parses the last trailer_bytes of a file of `file_bytes` (bad_data; version_mismatch).
result<trailer> parse_trailer(std::span<const std::byte> end, uint64_t file_bytes);

/// Parses the FlatBuffer alone, without its checksum.
result<footer> parse_footer(std::span<const std::byte> bytes);

/// Parses everything from the footer's offset to the end of a file of `file_bytes`: trailer,
/// padding, checksum, footer, and that they fit each other.
result<footer> parse_tail(std::span<const std::byte> tail, uint64_t file_bytes);

/// XXH64 over the slots' checksums: ties a manifest to every slot of a shard.
uint64_t slot_digest(std::span<const uint32_t> crc32c) noexcept;

/// A name that is not a path, printable, not "." or "..", at most 255 bytes.
bool is_file_name(std::string_view name) noexcept;
/// A tensor's name: 1 to max_name_bytes, no control characters.
bool is_tensor_name(std::string_view name) noexcept;

}  // namespace troupe::io::checkpoint
