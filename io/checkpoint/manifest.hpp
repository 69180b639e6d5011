// MANIFEST: what a checkpoint's folder holds, and where every element of every tensor lies in it.
//
//   MANIFEST := "TRMANIF\n" | u32 version | u32 crc32c(u32 version, u64 bytes, body) | u64 bytes |
//               body (FlatBuffer Manifest, checkpoint.fbs); nothing behind it
//
// Why: a checkpoint is restored by other ranks than wrote it. So the manifest speaks of whole
// tensors, and of the files only as places where their elements are.
//
// A rank has a shard of its own, and perhaps one more for each chunk that lives in a file of its
// own (io/swap): in version 2 alone, and such a manifest is written as that.
//
// Invariants of a manifest that was parsed or assembled
// MF-1 The slices of each part of each tensor cover every element exactly once, in order.
// MF-2 The slices in each shard do not overlap; those of a rank's own fill its stream exactly.
// MF-3 There is one shard per rank of the layout, under its name, and any number of its chunks',
//      under theirs; names are names, not paths.
// MF-4 Foreign bytes give an error, never undefined behaviour; nothing is allocated by an unchecked
//      count.
// MF-5 A line is no longer than max_launches, its steps never fall, and it ends with the
//      checkpoint's own (LN-2).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/format.hpp"
#include "io/checkpoint/line.hpp"

namespace troupe::io::checkpoint {

/// The file's name in its folder.
inline constexpr std::string_view manifest_file = "MANIFEST";
/// What is read of a manifest at most.
inline constexpr uint64_t max_manifest_bytes = uint64_t{256} << 20;

/// "rank-00012.shard".
std::string shard_name(uint32_t rank);
/// "rank-00012.chunk-00003.shard".
std::string shard_name(uint32_t rank, uint32_t chunk);

/// A contiguous range of one part of a tensor in a shard.
struct slice {
  uint32_t file = 0;   ///< index into manifest::files
  uint64_t first = 0;  ///< element of the row-major whole tensor
  uint64_t count = 0;  ///< elements
  uint64_t stream_offset = 0;
  bool operator==(const slice&) const = default;
};

/// One array of a parameter.
struct tensor_part {
  part which = part::master;
  tensor_dtype type = tensor_dtype::f32;
  std::vector<slice> slices;  ///< by first element (MF-1)
  bool operator==(const tensor_part&) const = default;
};

/// One tensor of the model.
struct tensor_entry {
  std::string name;            ///< full Hugging Face name
  std::vector<int64_t> shape;  ///< in the store: [out, in] or [n]
  bool transposed = false;     ///< a Hugging Face file holds it as [in, out]
  std::vector<tensor_part> parts;

  uint64_t elements() const noexcept { return elements_of(shape).value_or(0); }
  /// The part, or null.
  const tensor_part* find(part which) const noexcept;
  bool operator==(const tensor_entry&) const = default;
};

/// One file of the folder.
struct file_entry {
  std::string name;
  uint64_t bytes = 0;   ///< whole length
  uint32_t crc32c = 0;  ///< of a shard's footer; of the whole file else
  bool shard = false;   ///< the rest is of shards only
  uint32_t rank = 0;
  uint64_t stream_bytes = 0;
  uint64_t slot_digest = 0;
  uint32_t slot_bytes = 0;  ///< of a chunk's shard; 0: of a rank's own, whose are the head's
  bool operator==(const file_entry&) const = default;
};

/// What is said of a checkpoint besides its files and tensors.
struct manifest_head {
  std::string job;
  uint64_t step = 0;
  uint64_t epoch = 0;
  rank_grid layout;  ///< of the ranks that wrote it
  uint32_t slot_bytes = 0;
  uint64_t tokens = 0;
  double loss = 0;  ///< nats a token, of the last step
  std::optional<double> validation_loss;
  uint64_t wall_time_ms = 0;  ///< since 1970 UTC
  lineage line = {};          ///< as written; ends with this step (LN-2)
  bool operator==(const manifest_head&) const = default;
};

struct manifest {
  manifest_head head;
  std::vector<file_entry> files;
  std::vector<tensor_entry> tensors;
  bool operator==(const manifest&) const = default;
};

/// A plain file of a checkpoint, as whoever wrote it summed it.
struct file_sum {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  bool operator==(const file_sum&) const = default;
};

/// A shard of one chunk of a rank.
struct chunk_shard {
  uint32_t chunk = 0;         ///< its number in the rank's stage
  uint64_t bytes = 0;         ///< encoded_tail::file_bytes
  uint64_t stream_bytes = 0;  ///< footer::stream_bytes
  uint32_t slot_bytes = 0;    ///< footer::slot_bytes
  uint32_t footer_crc = 0;
  uint64_t slot_digest = 0;
  std::vector<piece> pieces = {};  ///< in stream order
};

/// A rank's shards as its vote and plan tell of them.
struct shard_facts {
  uint32_t rank = 0;
  uint64_t bytes = 0;         ///< encoded_tail::file_bytes
  uint64_t stream_bytes = 0;  ///< footer::stream_bytes
  uint32_t footer_crc = 0;
  uint64_t slot_digest = 0;
  std::vector<piece> pieces;             ///< in stream order
  std::vector<chunk_shard> chunks = {};  ///< what its own does not have
};

/// Slices that do not cover their part of a tensor ("master of NAME") exactly once (MF-1).
inline constexpr error_kind<std::string_view, uint64_t> element_missing{
    "element_missing", errc::bad_data, "{}: element {} is missing"};
inline constexpr error_kind<std::string_view, uint64_t> element_twice{
    "element_twice", errc::bad_data, "{}: duplicate element {}"};
inline constexpr error_kind<std::string_view> slice_outside{"slice_outside", errc::bad_data,
                                                            "{}: a slice leaves the tensor"};
inline constexpr error_kind<std::string_view> slice_in_no_shard{"slice_in_no_shard", errc::bad_data,
                                                                "{}: a slice is in no shard"};
inline constexpr error_kind<std::string_view, std::string_view> slice_outside_shard{
    "slice_outside_shard", errc::bad_data, "{}: a slice leaves {}"};
/// Bytes of a shard's stream that slices claim twice or not at all (MF-2): the shard, the byte.
inline constexpr error_kind<std::string_view, std::string_view, uint64_t> byte_claimed_twice{
    "byte_claimed_twice", errc::bad_data, "{}: {} claims again byte {} of its stream"};
inline constexpr error_kind<std::string_view, std::string_view, uint64_t> byte_before_unclaimed{
    "byte_before_unclaimed", errc::bad_data, "{}: {} leaves a hole before byte {} of its stream"};
inline constexpr error_kind<std::string_view, uint64_t> byte_unclaimed{
    "byte_unclaimed", errc::bad_data, "{}: nothing claims byte {} of its stream"};
/// Names and files that cannot be (MF-3), and shards that do not agree.
inline constexpr error_kind<std::string_view, std::string_view> listed_twice{
    "listed_twice", errc::bad_data, "duplicate {} {}"};
inline constexpr error_kind<> file_name_invalid{"file_name_invalid", errc::bad_data,
                                                "invalid file name"};
inline constexpr error_kind<std::string_view, uint32_t> shard_name_wrong{
    "shard_name_wrong", errc::bad_data, "{} is not the name of a shard of rank {}"};
inline constexpr error_kind<std::string_view> shard_length_wrong{
    "shard_length_wrong", errc::bad_data, "{}: its length is impossible"};
inline constexpr error_kind<uint64_t, uint64_t> shards_missing{"shards_missing", errc::bad_data,
                                                               "{} shards for {} ranks"};
inline constexpr error_kind<std::string_view, std::string_view> shards_disagree{
    "shards_disagree", errc::bad_data, "the shards disagree on the {} of {}"};

/// Makes the manifest of shards and plain files; tensors in the order in which the shards, by rank,
/// first name them. Errors: those of check(); shards_disagree.
result<manifest> assemble(const manifest_head& head, std::vector<shard_facts> shards,
                          const std::vector<file_sum>& others);

/// Whether MF-1..MF-3 and MF-5 hold.
status check(const manifest& m);
/// The same for what a head says by itself.
status check(const manifest_head& head);

/// The length of a shard's slots, in bytes.
inline uint64_t slot_bytes_of(const manifest& m, uint32_t file) {
  const auto own = m.files[file].slot_bytes;
  return own == 0 ? m.head.slot_bytes : own;
}

/// Its line; the one of launch 0 where none was written.
lineage line_of(const manifest_head& head);

/// The file's bytes. Error bug if `m` does not pass check() or is too long.
result<std::string> encode_manifest(const manifest& m);

/// Foreign bytes: bad_data with what is wrong; version_mismatch for another format.
result<manifest> parse_manifest(std::span<const std::byte> bytes);
/// The head alone, for those who look at many: errors as there, but files and tensors are neither
/// read nor judged by MF-1..MF-3.
result<manifest_head> parse_manifest_head(std::span<const std::byte> bytes);

/// A range of a shard's stream and what lies there.
struct stream_range {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t tensor = 0;  ///< index into manifest::tensors
  part which = part::master;
  uint64_t first = 0;  ///< element
  uint64_t count = 0;  ///< elements
};

/// What lies in the stream of each shard, in order, by index into manifest::files; empty for other
/// files.
std::vector<std::vector<stream_range>> streams_of(const manifest& m);

/// bad_data naming the first thing in which a shard's footer differs from the manifest.
/// `stream` is the shard's of streams_of().
status agrees(const manifest& m, uint32_t file, std::span<const stream_range> stream,
              const footer& f);

/// Tensors by name; views into `m`.
std::unordered_map<std::string_view, uint32_t> by_name(const manifest& m);

}  // namespace troupe::io::checkpoint
