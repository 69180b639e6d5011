// Programs of the shell that stand in for others of their name: put their folder first in PATH.
#pragma once

#include <filesystem>
#include <string>

#include "tests/io/tree.hpp"

namespace troupe {

/// A script of bash at `file`, or of what its first line names.
inline void put_fake(const std::filesystem::path& file, const std::string& body) {
  put_file(file, body.starts_with("#!") ? body : "#!/bin/bash\n" + body);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
}

}  // namespace troupe
