// File systems of a test's own, for root: mounted where nobody else sees them, and gone with the
// process, however it ends.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::cluster_test {

/// A command of the shell.
struct spoken {
  int code = 0;
  std::string text;  ///< both outputs
};
spoken shell(const std::string& command);

/// Why this process cannot mount anything; nothing if it can. Then, from the first call on, it has
/// a mount namespace of its own.
std::optional<std::string> why_no_mounts();

/// Mounts that end with the object, the last one first.
class mounts {
 public:
  mounts() = default;
  mounts(const mounts&) = delete;
  mounts& operator=(const mounts&) = delete;
  ~mounts();

  /// `mount ARGUMENTS at`, made if it is missing; what it said if it failed.
  std::optional<std::string> mount(const std::string& arguments, const std::filesystem::path& at);
  /// The same of a file with a file system in it, through a loop device past the page cache. The
  /// device goes when nobody uses it any more.
  std::optional<std::string> mount_image(const std::filesystem::path& image,
                                         const std::filesystem::path& at);
  /// What was mounted there last; what lay under it is seen again.
  void unmount(const std::filesystem::path& at);

 private:
  std::vector<std::filesystem::path> at_;
};

}  // namespace troupe::cluster_test
