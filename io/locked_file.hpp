// A file that processes take turns with, by its lock (flock).
//
// Why here: whoever holds the lock may replace the file by a rename; who waited for it then holds
// the lock of what nobody reads any more, and has to ask again.
//
// Invariants
//   LKF-1  Of those who open it so, one at a time holds what the name leads to.
#pragma once

#include <chrono>
#include <filesystem>

#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::io {

/// What a name leads to, through links; itself where that cannot be told. Whoever holds the lock of
/// a name replaces that: a rename to the name would replace the link.
std::filesystem::path behind_links(const std::filesystem::path& file);

/// The file, made where it is not there, to be read and appended to; locked as long as the
/// descriptor is open. One that owns nothing where others have held it for all of `patience`. A
/// file system without locks keeps nobody out. Errors: not_found, permission, io.
result<unique_fd> open_locked(const std::filesystem::path& file,
                              std::chrono::milliseconds patience);

}  // namespace troupe::io
