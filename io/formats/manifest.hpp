// MANIFEST: what a folder of files must hold, so that damage to any of them is noticed and named.
//
// Format, UTF-8 text, every line ends with "\n":
//   troupe manifest 1
//   e3069283 1234 config.json         a file: CRC-32C in 8 hex digits, length in bytes, name
//   ...                               in the order of the names
//   0a1b2c3d manifest                 CRC-32C of all lines above
//
// Invariants
//   MAN-1  One way to write it: a text is accepted only if its entries, written again, give the
//     same bytes. So every flipped bit of the manifest itself is noticed too.
//   MAN-2  Names are names, not paths: what is checked lies in the folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::io {

/// The file's name in its folder.
inline constexpr std::string_view manifest_name = "MANIFEST";

/// One file of a folder.
struct file_sum {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  bool operator==(const file_sum&) const = default;
};

/// Reads a file of the folder whole.
result<file_sum> sum_file(const std::filesystem::path& folder, const std::string& name);

/// The text of a manifest.
std::string format_manifest(std::vector<file_sum> files);

/// Foreign bytes: bad_data with what is wrong (MAN-1, MAN-2); version_mismatch for another format.
result<std::vector<file_sum>> parse_manifest(std::string_view text);

/// Writes the manifest of everything in the folder, atomically and durably. `known` are not read
/// again: whoever wrote them summed them; bad_data if one has another length.
status write_manifest(const std::filesystem::path& folder, std::vector<file_sum> known = {});

/// Checks every file of the manifest that is `wanted` (by name; all without it), whole. Files that
/// it does not list are left alone. Errors: not_found without a manifest; bad_data naming the file.
status verify_manifest(const std::filesystem::path& folder,
                       const std::function<bool(std::string_view)>& wanted = {});

}  // namespace troupe::io
