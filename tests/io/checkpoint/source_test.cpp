// Reads at an offset, past the page cache or through it: the same bytes, the same errors.
#include "io/checkpoint/source.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "io/disk/disk.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io::checkpoint;

namespace {

/// What byte `at` of the file is.
std::byte expected(uint64_t at) {
  return static_cast<std::byte>((at * 2654435761u) >> 13);
}

}  // namespace

TEST_CASE("a folder's file gives the same bytes at any offset, address and length") {
  scratch dir;
  constexpr uint64_t size = (3 << 20) + 5000;  // long reads go past the cache; the end is no block
  {
    std::vector<char> content(size);
    for (uint64_t i = 0; i < size; ++i) content[i] = static_cast<char>(expected(i));
    std::ofstream(dir / "shard", std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(size));
  }
  auto file = folder_source(io::local_files(), dir.path)->open("shard");
  REQUIRE(file);
  REQUIRE((*file)->size() == size);
  auto memory = io::io_buffer::allocate(size + 4096);
  for (uint64_t offset : {uint64_t{0}, uint64_t{4096}, uint64_t{4097}, uint64_t{1 << 20}})
    for (size_t skew : {0u, 1u, 512u})
      for (uint64_t bytes : {uint64_t{1}, uint64_t{300} << 10, uint64_t{1} << 20, size - offset}) {
        CAPTURE(offset);
        CAPTURE(skew);
        CAPTURE(bytes);
        std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{0x5a});
        const auto out = memory.bytes().subspan(skew, bytes);
        REQUIRE((*file)->read_at(offset, out));
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < bytes; ++i) wrong += out[i] != expected(offset + i);
        CHECK(wrong == 0);
        CHECK(memory.bytes()[skew + bytes] == std::byte{0x5a});
      }
}

TEST_CASE("a file that ends before the last byte asked for is bad data, with the place") {
  scratch dir;
  std::ofstream(dir / "shard") << std::string(2 << 20, 'x');
  auto file = folder_source(io::local_files(), dir.path)->open("shard");
  REQUIRE(file);
  auto memory = io::io_buffer::allocate(2 << 20);
  CHECK((*file)->read_at(0, memory.bytes()));
  CHECK((*file)->read_at(4096, memory.bytes()).error().code == errc::bad_data);
  std::filesystem::resize_file(dir / "shard", 1'000'000);  // cut while it is open
  const auto cut = (*file)->read_at(0, memory.bytes());
  REQUIRE_FALSE(cut);
  CHECK(cut.error() == io::file_ends("shard", 1'000'000));
}
