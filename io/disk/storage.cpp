// The machine's storage, and folders with their parents.
#include "io/disk/storage.hpp"

namespace troupe::io {

namespace {

class machine final : public storage {
 public:
  file_system& files() override { return local_files(); }
  result<std::unique_ptr<disk>> open_disk(const disk_options& options) override {
    return io::open_disk(options);
  }
};

}  // namespace

storage& local_storage() {
  static machine m;
  return m;
}

status make_folders(file_system& files, const std::filesystem::path& folder) {
  if (!folder.has_filename() && folder.has_relative_path())  // "dir/"
    return make_folders(files, folder.parent_path());
  auto parent = folder.parent_path();
  if (parent.empty()) parent = ".";
  auto made = files.make_dir(folder);
  if (!made && made.error().code == errc::not_found && parent != folder && parent != ".") {
    TROUPE_CHECK(make_folders(files, parent));
    made = files.make_dir(folder);
  }
  if (!made) return made.error();
  return *made ? files.sync_dir(parent) : status{};
}

}  // namespace troupe::io
