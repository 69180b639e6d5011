// What of a checkpoint's folder is ours, so that it may be removed (io/folder/owned.hpp).
//
// While a checkpoint is made its folder carries a mark, which the first rank leaves there before
// its shard; it stays when the folder gets its final name. From then on the manifest says which
// files are the checkpoint's, for folders of before marks as well. PINNED, notes and all else that
// somebody put there are nobody's to remove: a folder with such a file stays whole.
//
// Invariants
// FC-1 A folder without a manifest that verifies and without a mark is not ours, whatever its name.
// FC-2 The mark is not synced: a power cut may leave it empty, and then it claims the names that
//      every checkpoint has; or it may be gone, and then a leftover stays until a person takes it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/base/result.hpp"
#include "io/disk/file_system.hpp"
#include "io/folder/owned.hpp"

namespace troupe::io::checkpoint {

/// The mark of a checkpoint that is being made, with the small files it will have.
std::string partial_mark(const std::string& job, std::vector<std::string> others);

/// What a folder's manifest and mark claim, each as it was read.
claim claim_of(const result<std::string>& manifest, const result<std::string>& mark);
/// The same, read from the folder.
claim claim_of(file_system& files, const std::filesystem::path& folder);

}  // namespace troupe::io::checkpoint
