// Folders for what others must not be able to plant or take away: of one user, whom nobody joins.
#pragma once

#include <filesystem>

#include "io/base/result.hpp"

namespace troupe::io {

/// Whether it is a folder of this user, and no link to one, that nobody else may write to.
bool is_own_folder(const std::filesystem::path& folder);

/// Makes it, of mode 0700, and the one above it, which others may read. Errors: permission where
/// another such name is there already; io.
status make_own_folder(const std::filesystem::path& folder);

}  // namespace troupe::io
