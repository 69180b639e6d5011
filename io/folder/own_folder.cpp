// Modes and owners; see own_folder.hpp.
#include "io/folder/own_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace troupe::io {

bool is_own_folder(const std::filesystem::path& folder) {
  struct stat facts {};
  return lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == getuid() &&
         (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

status make_own_folder(const std::filesystem::path& folder) {
  const auto above = folder.parent_path();
  if (mkdir(above.c_str(), 0755) != 0 && errno != EEXIST)
    return error::system("make " + above.string(), errno);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return error::system("make " + folder.string(), errno);
  if (is_own_folder(folder)) return {};
  return error{errc::permission,
               folder.string() + " is not a folder of this user that nobody else may write to",
               "look what it is, and take it away"};
}

}  // namespace troupe::io
