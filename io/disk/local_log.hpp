// A log on the machine's own file systems, by plain system calls: what file_system::open_log()
// gives there.
#pragma once

#include <filesystem>
#include <memory>

#include "io/disk/file_system.hpp"

namespace troupe::io {

/// As file_system::open_log().
result<std::unique_ptr<log_file>> open_local_log(const std::filesystem::path& name, log_open how);

}  // namespace troupe::io
