// Files: atomic replacement leaves nothing behind, limits hold, CRC32C is the standard one.
#include "io/file.hpp"

#include <algorithm>
#include <fstream>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/io/map_pages.hpp"
#include "tests/io/no_rename_flags.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

size_t files_in(const std::filesystem::path& folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

}  // namespace

TEST_CASE("crc32c is Castagnoli with the standard inversions, and continues") {
  CHECK(crc32c(as_bytes("123456789")) == 0xE3069283U);
  CHECK(crc32c({}) == 0);
  CHECK(crc32c(as_bytes(std::string(32, '\0'))) == 0x8A9136AAU);  // RFC 3720, B.4
  CHECK(crc32c(as_bytes(std::string(32, '\xff'))) == 0x62A8AB43U);
  CHECK(crc32c(as_bytes("6789"), crc32c(as_bytes("12345"))) == 0xE3069283U);
}

TEST_CASE("read_file gives the bytes, and an error above its limit") {
  scratch dir;
  REQUIRE(write_atomic(dir / "a", "0123456789"));
  CHECK(*read_file(dir / "a", 10) == "0123456789");
  CHECK(read_file(dir / "a", 9).error().code == errc::bad_data);
  CHECK(read_file(dir / "none", 9).error().code == errc::not_found);
  CHECK(read_file(dir.path, 9).error().code == errc::bad_data);
}

TEST_CASE("FILE-1 FILE-2 an uncommitted file leaves the old one and no litter") {
  scratch dir;
  REQUIRE(write_atomic(dir / "a", "old"));
  {
    auto file = atomic_file::create(dir / "a");
    REQUIRE(file);
    REQUIRE(file->write("new"));
    CHECK(*read_file(dir / "a", 100) == "old");
  }
  CHECK(*read_file(dir / "a", 100) == "old");
  CHECK(files_in(dir.path) == 1);
  auto file = atomic_file::create(dir / "a");
  REQUIRE(file);
  REQUIRE(file->write("new"));
  auto moved = std::move(*file);
  REQUIRE(moved.commit());
  CHECK(*read_file(dir / "a", 100) == "new");
  CHECK(files_in(dir.path) == 1);
}

TEST_CASE("atomic_file buffers, counts and overwrites") {
  scratch dir;
  std::string big(3 << 20, 'x');
  auto file = atomic_file::create(dir / "big");
  REQUIRE(file);
  REQUIRE(file->write("head"));
  REQUIRE(file->write(big));
  REQUIRE(file->write("tail"));
  CHECK(file->size() == big.size() + 8);
  REQUIRE(file->overwrite(0, as_bytes("HEAD")));
  REQUIRE(file->commit());
  CHECK(*read_file(dir / "big", 10 << 20) == "HEAD" + big + "tail");
  struct stat facts {};
  REQUIRE(::stat((dir / "big").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0600) == 0600);
}

TEST_CASE("a map shows the file, also an empty one, and refuses what is no file") {
  scratch dir;
  REQUIRE(write_atomic(dir / "a", "abc"));
  auto map = mapped_file::open(dir / "a");
  REQUIRE(map);
  CHECK((*map)->bytes().size() == 3);
  CHECK((*map)->bytes()[2] == std::byte{'c'});
  REQUIRE(write_atomic(dir / "e", ""));
  CHECK((*mapped_file::open(dir / "e"))->bytes().empty());
  CHECK_FALSE(mapped_file::open(dir.path));
}

TEST_CASE("a scan of a map keeps what was read out of the process' memory") {
  constexpr size_t mib = size_t{1} << 20;
  scratch dir;
  REQUIRE(write_atomic(dir / "a", std::string(24 * mib + 5, 'x')));
  auto map = mapped_file::open(dir / "a");
  REQUIRE(map);
  const auto bytes = (*map)->bytes();
  const auto read = [&](size_t from, size_t to) {
    return std::count(bytes.begin() + static_cast<ptrdiff_t>(from),
                      bytes.begin() + static_cast<ptrdiff_t>(to), std::byte{'x'});
  };
  {
    map_scan scan(**map);
    CHECK(map_pages_of(dir / "a").read_in_order);
    for (size_t at = 0; at < bytes.size(); at += mib) {
      const auto end = std::min(at + mib, bytes.size());
      CHECK(read(at, end) == static_cast<ptrdiff_t>(end - at));
      const auto there = map_pages_of(dir / "a").resident_bytes;
      CHECK(there > 0);
      CHECK(there <= 12 * mib);
      scan.passed(end);
    }
    scan.passed(0);  // says nothing new
  }
  auto after = map_pages_of(dir / "a");
  CHECK(after.maps == 1);
  CHECK(after.resident_bytes == 0);
  CHECK_FALSE(after.read_in_order);
  CHECK(read(0, bytes.size()) == static_cast<ptrdiff_t>(bytes.size()));  // as ever
  REQUIRE(write_atomic(dir / "e", ""));
  auto empty = mapped_file::open(dir / "e");
  REQUIRE(empty);
  map_scan(**empty).passed(0);
}

TEST_CASE("writing where there is no folder is an error that names the path") {
  auto wrote = write_atomic("/no/such/folder/file", "x");
  REQUIRE_FALSE(wrote);
  CHECK(wrote.error().message.find("/no/such/folder/file") != std::string::npos);
}

TEST_CASE("rename_to_free: takes a free name only, on file systems that know no flags as well") {
  for (const bool flags : {true, false}) {
    CAPTURE(flags);
    scratch dir;
    put_file(dir / "one/file", "1");
    put_file(dir / "taken/file", "2");
    std::filesystem::create_directory(dir / "empty");
    std::filesystem::create_symlink("nowhere", dir / "link");
    std::vector<result<bool>> done;
    result<bool> exchanged = false;
    const auto all = [&] {
      for (const char* to : {"taken", "empty", "link", "free"})
        done.push_back(io::rename_to_free(dir / "one", dir / to));
      done.push_back(io::rename_to_free(dir / "one", dir / "other"));
      exchanged = io::change_places(dir / "free", dir / "taken");
    };
    if (flags)
      all();
    else if (!without_rename_flags(all))
      return;
    for (const int taken : {0, 1, 2}) CHECK(*done[taken] == false);
    CHECK(*done[3] == true);
    REQUIRE(!done[4]);
    CHECK(done[4].error().code == errc::not_found);
    REQUIRE(exchanged);
    CHECK(*exchanged == flags);
    CHECK(*io::read_file(dir / "free/file", 9) == (flags ? "2" : "1"));
  }
}

TEST_CASE("atomic: what a killed process of the same number left does not keep it from writing") {
  scratch dir;
  const auto target = dir / "file";
  // The number in a temporary's name goes up by one each time.
  std::string made;
  {
    auto file = atomic_file::create(target);
    REQUIRE(file);
    made = std::filesystem::directory_iterator(dir.path)->path().string();
  }
  const auto dash = made.rfind('-') + 1;
  const auto next = std::stoull(made.substr(dash)) + 1;
  for (const auto n : {next, next + 1})
    std::ofstream(made.substr(0, dash) + std::to_string(n)) << "half";
  CHECK(write_atomic(target, "whole"));
  CHECK(*read_file(target, 99) == "whole");
}
