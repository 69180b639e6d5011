// What the file system of a folder can do for files that are moved past the page cache, looked at
// without leaving anything there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::io {

struct drive_traits {
  std::string_view network = {};  ///< its name, "NFS"; empty: it is no network file system
  bool direct = true;             ///< O_DIRECT; also where that is not known
  bool reserves = true;           ///< fallocate; also where that is not known
};

/// By the magic number of statfs; empty: of no network file system that is known here. FUSE counts:
/// what is behind it nobody knows.
std::string_view network_name(int64_t magic);

/// The network file system that an open file or a folder is on; empty: none.
std::string_view network_of(int descriptor);

/// Of a folder that is there. Tried with a file that never has a name, where such can be made.
drive_traits traits_of(const std::filesystem::path& folder);

/// What a person should know of it before gigabytes go there, a sentence each.
std::vector<std::string> remarks_on(const std::filesystem::path& folder, const drive_traits& t);

}  // namespace troupe::io
