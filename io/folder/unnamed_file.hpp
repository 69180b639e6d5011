// A file that has no name: for measuring, and for asking whether there is room. Whoever is killed
// meanwhile leaves nothing, since the kernel frees it with its last descriptor.
#pragma once

#include <filesystem>

#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::io {

/// An empty file in `folder`, to write and read. Where the file system makes none without a name
/// (O_TMPFILE), one whose name goes at once. Errors: what the system says.
result<unique_fd> unnamed_file(const std::filesystem::path& folder);

}  // namespace troupe::io
