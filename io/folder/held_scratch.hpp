// A temporary folder that says which process it is of, for what may take gigabytes: a process that
// was killed leaves it, and the next one that makes such a folder beside it removes that first.
//
// Invariants
// HSC-1 Only a folder of that prefix, marked as temporary and held by nobody is removed; one that
//       is younger than a minute stays, since its process may be about to hold it. So whoever uses
//       the prefix holds his.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"
#include "io/folder/lock.hpp"
#include "io/folder/owned.hpp"

namespace troupe::io {

/// Goes with all in it when this goes.
class held_scratch {
 public:
  /// Makes `parent`/`prefix`XXXXXX. Error io.
  static result<held_scratch> make(const std::filesystem::path& parent, std::string_view prefix);

  const std::filesystem::path& path() const noexcept { return folder_.path(); }
  /// Folders of ended processes that were removed.
  const std::vector<std::filesystem::path>& removed() const noexcept { return removed_; }

 private:
  held_scratch(scratch_folder folder, folder_lock lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  scratch_folder folder_;
  folder_lock lock_;
  std::vector<std::filesystem::path> removed_;
};

/// Removes what ended processes have left (HSC-1), as far as that is possible; which.
std::vector<std::filesystem::path> remove_abandoned(const std::filesystem::path& parent,
                                                    std::string_view prefix);

}  // namespace troupe::io
