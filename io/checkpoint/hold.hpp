// What keeps a checkpoint from retention, whatever its rules: persons by name and reason, readers
// while they read.
//
//   step-00000120/HELD.alice    the reason in words; `troupe ckpt hold` and `release`
//   step-00000120/PINNED        the same without a name; made by hand
//
// Invariants
// HD-1 A hold survives whoever made it; a reader's goes with its process, however that ends (a lock
//      of the kernel on MANIFEST). Nobody can make a reader wait for long: it then reads without.
// HD-2 Names are such that no file but a hold can be meant by one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"
#include "io/disk/file_system.hpp"

namespace troupe::io::checkpoint {

/// The file that keeps a checkpoint from retention without a name.
inline constexpr std::string_view pin_file = "PINNED";
/// What files of named holds begin with.
inline constexpr std::string_view hold_prefix = "HELD.";
/// What a reason has at most.
inline constexpr size_t max_reason_bytes = 1024;

/// Who holds a checkpoint, and why.
struct hold {
  std::string by;
  std::string reason;
  bool operator==(const hold&) const = default;
};

/// Whether a hold can be called so: 1 to 64 letters, digits, '-' and '_' (HD-2).
bool is_hold_name(std::string_view by);

/// Holds a checkpoint, durably; one by the same name is replaced. Errors: usage for an impossible
/// name or reason; not_found; io.
status add_hold(const std::filesystem::path& checkpoint, const hold& what);

/// Ends a hold. Errors: usage; not_found where there is none by that name; io.
status release_hold(const std::filesystem::path& checkpoint, std::string_view by);

/// Who holds it, by name; those that cannot be read have no reason.
std::vector<hold> holds_of(file_system& files, const std::filesystem::path& checkpoint);

/// Keeps a checkpoint there while it is read (HD-1).
class reading {
 public:
  /// Errors: not_found where there is no MANIFEST; permission; io.
  static result<reading> begin(file_system& files, const std::filesystem::path& checkpoint);
  static result<reading> begin(const std::filesystem::path& checkpoint) {
    return begin(local_files(), checkpoint);
  }

 private:
  explicit reading(file_lock lock) : lock_(std::move(lock)) {}
  file_lock lock_;
};

/// For whoever removes a checkpoint: nobody begins to read it while this lives. Nothing in it where
/// there is no MANIFEST to read. Error unavailable while somebody reads it.
result<file_lock> exclude_readers(file_system& files, const std::filesystem::path& checkpoint);

}  // namespace troupe::io::checkpoint
