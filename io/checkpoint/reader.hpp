// The reader of a complete checkpoint: verifies every byte of it, and reads tensors by plan.
//
// Invariants
// RD-1 No byte of a tensor is handed out before the CRC32C of its whole slot was found right, that
//      checksum came from a footer that verified, and the footer was the one the manifest means.
// RD-2 Damage is named by place: the file, the slot, its bytes, and the tensors that lie there.
//
// Thread contract: const functions may be called by several threads at once.
#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/parallel.hpp"
#include "io/checkpoint/restore_plan.hpp"
#include "io/checkpoint/source.hpp"
#include "io/disk/disk.hpp"

namespace troupe::io::checkpoint {

/// Something that is not as it was written.
struct damage {
  std::string file;
  std::optional<uint64_t> slot;  ///< of a shard
  uint64_t offset = 0;           ///< the bytes of the file under the check that failed
  uint64_t bytes = 0;
  std::vector<std::string> tensors;  ///< "exp_avg of NAME", what lies there; at most 64
  uint64_t more_tensors = 0;         ///< that were left out
  error why;
};

/// "rank-00001.shard, slot 3 (bytes 12288 to 16384): its checksum is wrong; it holds master of A".
std::string render(const damage& d);
/// The same as an error of the damage's kind.
error as_error(const damage& d);

/// What is wrong with a checkpoint's bytes.
inline constexpr std::string_view use_another =
    "use another checkpoint: `troupe ckpt ls` lists them";
inline constexpr error_kind<> checksum_wrong{"checksum_wrong", errc::bad_data,
                                             "its checksum is wrong", use_another};
inline constexpr error_kind<> padding_not_zero{"padding_not_zero", errc::bad_data,
                                               "the padding behind it is not zero"};
inline constexpr error_kind<> footer_too_long{"footer_too_long", errc::bad_data,
                                              "its footer is impossibly long"};
inline constexpr error_kind<std::string_view> file_missing{"file_missing", errc::bad_data,
                                                           "{} is missing", use_another};

/// What a verification found.
struct verify_report {
  std::vector<damage> damages;  ///< by file and offset; empty: every byte is as it was written
  uint64_t bytes = 0;           ///< that were checked
};

/// Takes bytes that a plan wants. May be called by several threads at once.
using byte_sink = std::function<status(uint64_t to, std::span<const std::byte> bytes)>;

class reader {
 public:
  /// Reads MANIFEST and looks whether every file is there with its length. Errors: bad_data naming
  /// the file; version_mismatch; not_found without a manifest.
  static result<reader> open(std::shared_ptr<const file_source> source);
  /// The same of a folder; errors name it.
  static result<reader> open(file_system& files, const std::filesystem::path& folder);
  static result<reader> open(const std::filesystem::path& folder);

  const manifest& content() const noexcept { return *manifest_; }

  /// Bytes of one file under one check: what is verified, or copied, at once.
  struct unit {
    enum class kind : uint8_t {
      slot,   ///< of a shard, with the zeros behind it
      tail,   ///< of a shard: from its footer to its end
      plain,  ///< any other file, whole
    };
    kind what = kind::plain;
    uint32_t file = 0;  ///< index into content().files
    uint64_t slot = 0;  ///< of kind slot
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t summed = 0;  ///< of those, under the slot's or file's checksum
  };
  /// All units, file by file and in their order in it: every byte of every file is in one.
  std::vector<unit> units() const;
  /// Reads one into `out`, which has its length, and checks it. Errors: bad_data naming the place
  /// (RD-2); not_found where the file is gone; io.
  status read_unit(const unit& u, std::span<std::byte> out) const;

  /// Reads every byte of every file (CRC32C of slots, footers and files; zeros where zeros belong).
  /// Damage is in the report; an error is what kept it from reading, or cancelled.
  result<verify_report> verify(const work_options& options = {}) const;

  /// Carries a plan of this manifest out (RD-1). Errors: bad_data naming the place (RD-2); what the
  /// sink returned; cancelled. Each thread needs memory for one slot.
  status read(const restore_plan& plan, const byte_sink& sink,
              const work_options& options = {}) const;

  /// The same into memory: destinations are offsets into `out` (bad_data where they leave it).
  status read(std::span<const want> wants, std::span<std::byte> out,
              const work_options& options = {}) const;

  /// One part of one tensor, whole.
  result<std::vector<std::byte>> read_tensor(const std::string& tensor, part which) const;

  /// A small file of the manifest, checked; bad_data if it is longer than `max_bytes`.
  result<std::string> read_file(const std::string& name, size_t max_bytes = 64 << 20) const;

 private:
  using checksums = std::shared_ptr<const std::vector<uint32_t>>;
  struct cache {
    std::mutex mutex;
    std::vector<checksums> sums;  ///< of shards whose footer verified, by file
    std::list<std::pair<uint32_t, std::shared_ptr<const source_file>>> open;  ///< newest first
  };
  explicit reader(std::shared_ptr<const file_source> source);
  work_options settled(work_options options) const;
  result<std::shared_ptr<const source_file>> file(uint32_t index) const;
  result<checksums> sums_of(uint32_t index) const;
  result<checksums> read_footer(uint32_t index, std::span<std::byte> tail) const;
  status check_unit(const unit& u, io_buffer& buffer, verify_report& found,
                    std::mutex& mutex) const;
  status check(const unit& u, io_buffer& buffer) const;
  status check_slot(const unit& u, std::span<std::byte> out) const;
  void add_units(std::vector<unit>& to, uint32_t file) const;
  damage describe(uint32_t file, std::optional<uint64_t> slot, uint64_t offset, uint64_t bytes,
                  error why) const;

  std::shared_ptr<const file_source> source_;
  std::shared_ptr<const manifest> manifest_;
  std::vector<std::vector<stream_range>> streams_;  ///< by file
  std::shared_ptr<cache> cache_;
};

}  // namespace troupe::io::checkpoint
