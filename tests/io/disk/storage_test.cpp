// A host's storage, and folders that are made with their parents.
#include "io/disk/storage.hpp"

#include <doctest/doctest.h>

#include "io/disk/faulty_disk.hpp"
#include "io/file.hpp"
#include "tests/io/disk/backends.hpp"

using namespace troupe;
using namespace troupe::io;

namespace fs = std::filesystem;

TEST_CASE("make_folders: the folder and the parents it lacks, each name durable") {
  auto store = crash_store::make();
  faulty_disk d(store, {});
  REQUIRE(d.make_dir("/old"));
  REQUIRE(d.sync_dir("/"));
  const auto before = store->syncs();
  REQUIRE(make_folders(d, "/old/one/two"));
  CHECK(store->durable("/old/one/two", 0));
  CHECK(store->syncs() == before + 2);  // of the folders that got a name, and no other
  REQUIRE(make_folders(d, "/old/one/two"));
  CHECK(store->syncs() == before + 2);
  REQUIRE(make_folders(d, "/old/three/"));
  CHECK(store->durable("/old/three", 0));
}

TEST_CASE("make_folders: what is in the way stays, and a failing sync is told") {
  auto store = crash_store::make();
  faulty_disk d(store, {});
  REQUIRE(d.write_small("/file", "mine", durable::yes));
  CHECK_FALSE(make_folders(d, "/file"));
  CHECK_FALSE(make_folders(d, "/file/below"));
  CHECK(*d.read_small("/file", 10) == "mine");
  d.plan({.site = fault_site::sync_dir});
  CHECK(make_folders(d, "/a/b").error().code == errc::io);
}

TEST_CASE("make_folders: on this machine, through links and by names that are not whole") {
  const auto where = scratch_folder::make(fs::temp_directory_path(), "troupe-storage-");
  REQUIRE(where);
  const auto dir = where->path();
  auto& files = local_storage().files();
  REQUIRE(make_folders(files, dir / "a/b/c/"));
  fs::create_directory_symlink("a", dir / "link");
  REQUIRE(make_folders(files, dir / "link/b/d"));
  CHECK(fs::is_directory(dir / "a/b/d"));
  REQUIRE(make_folders(files, dir / "link"));
  const auto before = fs::current_path();
  fs::current_path(dir);
  CHECK(make_folders(files, "relative/folder"));
  fs::current_path(before);
  CHECK(fs::is_directory(dir / "relative/folder"));
}

TEST_CASE("storage: this machine's gives its files and disks") {
  auto disk = local_storage().open_disk({disk_backend::threads, 1, 1, {}});
  REQUIRE(disk);
  CHECK((*disk)->facts().backend == "threads");
  CHECK(local_storage().open_disk({disk_backend::threads, 0, 1, {}}).error().code ==
        errc::bad_config);
}
