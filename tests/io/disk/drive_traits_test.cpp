// What file systems cannot do is told before bytes go there, and what goes through the page cache
// leaves it.
#include "io/disk/drive_traits.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "io/file.hpp"
#include "tests/io/disk/backends.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

constexpr size_t moved_bytes = size_t{4} << 20;

bool is_memory(const std::filesystem::path& folder) {
  struct statfs facts {};
  REQUIRE(::statfs(folder.c_str(), &facts) == 0);
  return facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC;
}

/// Pages of a file of moved_bytes that are in memory.
size_t cached_pages(const std::filesystem::path& name) {
  const unique_fd fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd);
  void* at = ::mmap(nullptr, moved_bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  REQUIRE(at != MAP_FAILED);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> in(moved_bytes / page);
  CHECK(::mincore(at, moved_bytes, in.data()) == 0);
  ::munmap(at, moved_bytes);
  return static_cast<size_t>(
      std::count_if(in.begin(), in.end(), [](unsigned char c) { return (c & 1) != 0; }));
}

/// Pages that are in memory when it was written, and when it was read.
std::pair<size_t, size_t> pages_left(disk& d, const std::filesystem::path& name, bool drop) {
  open_options how;
  how.mode = open_mode::replace;
  how.drop_pages = drop;
  const auto file = d.open(name, how);
  REQUIRE(file);
  const auto text = noise(moved_bytes, 1);
  REQUIRE(d.write(*file, 0, text_of(text), 1));
  CHECK(answer_of(d).outcome);
  const auto written = cached_pages(name);
  REQUIRE(d.read(*file, 0, io_buffer::allocate(moved_bytes), 2));
  const auto answer = answer_of(d);
  CHECK(answer.outcome);
  CHECK(text_in(answer.buffer) == text);
  d.close(*file);
  return {written, cached_pages(name)};
}

}  // namespace

TEST_CASE("DK-7: what is written and read without O_DIRECT leaves the page cache where asked") {
  for (const auto backend : {disk_backend::uring, disk_backend::threads}) {
    const scratch dir;
    if (is_memory(dir.path)) return;  // its files have no other place
    disk_options options;
    options.backend = backend;
    auto made = open_disk(options);
    if (!made && made.error().code == errc::unavailable) continue;
    REQUIRE(made);
    CAPTURE((*made)->facts().backend);
    const auto kept = pages_left(**made, dir / "kept", false);
    CHECK(kept.first > 0);
    CHECK(kept.second > 0);
    const auto dropped = pages_left(**made, dir / "dropped", true);
    CHECK(dropped.first == 0);
    CHECK(dropped.second == 0);
  }
}

TEST_CASE("every disk: what O_DIRECT is refused of is a warning, not a note alone") {
  faulty_options options;
  options.refuse_direct = true;
  faulty_disk d(crash_store::make(), options);
  const auto file = opened(d, "/a", open_mode::create, true);
  CHECK_FALSE(d.direct(file));
  CHECK(d.facts().warnings.size() == 1);
  CHECK(d.facts().notes == d.facts().warnings);
}

TEST_CASE("a drive's traits are what its files then show, and looking leaves nothing") {
  const scratch dir;
  const auto traits = traits_of(dir.path);
  CHECK(std::filesystem::is_empty(dir.path));
  auto made = open_disk({});
  REQUIRE(made);
  open_options how;
  how.mode = open_mode::create;
  how.direct = how.drop_pages = true;
  how.preallocate = disk_block;
  const auto file = (*made)->open(dir / "a", how);
  REQUIRE(file);
  CHECK((*made)->direct(*file) == traits.direct);
  CHECK((*made)->facts().warnings.size() == remarks_on(dir.path, traits).size());
  CHECK(traits_of(dir / "not there").network.empty());
}

TEST_CASE("a network file system, and what a file system cannot do, are remarks") {
  CHECK(network_name(0x6969) == "NFS");
  CHECK(network_name(static_cast<int32_t>(0xFF534D42)) == "CIFS");  // as some machines have it
  CHECK(network_name(EXT4_SUPER_MAGIC).empty());
  CHECK(network_name(TMPFS_MAGIC).empty());
  CHECK(remarks_on("/swap", {}).empty());
  CHECK(remarks_on("/swap", {"NFS", true, true}).size() == 1);
  CHECK(remarks_on("/swap", {"NFS", false, false}).size() == 3);
}
