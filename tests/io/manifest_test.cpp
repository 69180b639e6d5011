// Manifests: round trip, every truncation and every flipped bit refused, every damaged file named.
#include "io/formats/manifest.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "io/file.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;
namespace fs = std::filesystem;

namespace {

void put(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

void flip_bit(const fs::path& path, size_t bit) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(bit / 8));
  const int byte = file.get() ^ (1 << bit % 8);
  file.seekp(static_cast<std::streamoff>(bit / 8));
  file.put(static_cast<char>(byte));
}

std::string message_of(const status& s) {
  return s ? "sound" : s.error().message;
}

}  // namespace

TEST_CASE("manifest: goes round, in the order of the names") {
  const std::vector<file_sum> files{{"b c", 0, 0}, {"a", UINT64_MAX, UINT32_MAX}};
  const auto text = format_manifest(files);
  CHECK(text.starts_with("troupe manifest 1\nffffffff 18446744073709551615 a\n00000000 0 b c\n"));
  auto read = parse_manifest(text);
  REQUIRE(read);
  CHECK(*read == std::vector<file_sum>{files[1], files[0]});
  CHECK(parse_manifest(format_manifest({}))->empty());
}

TEST_CASE("MAN-1: every truncation and every flipped bit is refused") {
  const auto text = format_manifest({{"model.safetensors", 123, 0xdeadbeef}, {"x", 1, 2}});
  REQUIRE(parse_manifest(text));
  for (size_t n = 0; n < text.size(); ++n) CHECK_FALSE(parse_manifest(text.substr(0, n)));
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    auto damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    CAPTURE(bit);
    CHECK_FALSE(parse_manifest(damaged));
  }
  CHECK_FALSE(parse_manifest(text + "\n"));
  CHECK_FALSE(parse_manifest(text + text));
}

TEST_CASE("MAN-1, MAN-2: what is not as it must be written is refused, whatever its checksum") {
  for (const char* name : {"", ".", "..", "a/b", "/etc/passwd", "a\nb", "a\x7f"}) {
    CAPTURE(std::string(name));
    CHECK_FALSE(parse_manifest(format_manifest({{name, 1, 1}})));
  }
  CHECK_FALSE(parse_manifest(format_manifest({{std::string(256, 'a'), 1, 1}})));
  CHECK_FALSE(parse_manifest(format_manifest({{"a", 1, 1}, {"a", 2, 2}})));
  auto summed = [](const std::string& lines) {
    char crc[16];
    std::snprintf(crc, sizeof crc, "%08x", crc32c(std::as_bytes(std::span(lines))));
    return lines + crc + " manifest\n";
  };
  CHECK(parse_manifest(summed("troupe manifest 1\n00000001 1 a\n")));
  for (const char* line : {"1 1 a", "00000001 01 a", "0000000A 1 a", "00000001 +1 a",
                           "00000001  1 a", "00000001 18446744073709551616 a", "000000001 1 a",
                           "00000001 1", "00000001 -1 a", "0x000001 1 a"}) {
    CAPTURE(std::string(line));
    CHECK_FALSE(parse_manifest(summed("troupe manifest 1\n" + std::string(line) + "\n")));
  }
  CHECK_FALSE(parse_manifest(summed("troupe manifest 1\n00000001 1 b\n00000001 1 a\n")));
  auto newer = parse_manifest("troupe manifest 2\nwhatever");
  REQUIRE_FALSE(newer);
  CHECK(newer.error().code == errc::version_mismatch);
}

TEST_CASE("manifest: a flipped bit in any file is named") {
  scratch dir;
  put(dir / "empty", "");
  put(dir / "small", "x");
  put(dir / "large", std::string(100'000, 'y'));
  REQUIRE(write_manifest(dir.path));
  CHECK(message_of(verify_manifest(dir.path)) == "sound");
  put(dir / "unlisted", "may be here");
  CHECK(message_of(verify_manifest(dir.path)) == "sound");
  for (const auto& [name, bit] :
       {std::pair{"small", 3}, {"large", 0}, {"large", 799'999}, {"large", 400'000}}) {
    flip_bit(dir / name, static_cast<size_t>(bit));
    auto found = verify_manifest(dir.path);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == errc::bad_data);
    CHECK(found.error().message.find((dir / name).string() + " is damaged") == 0);
    auto others = verify_manifest(dir.path, [&](std::string_view n) { return n != name; });
    CHECK(message_of(others) == "sound");
    flip_bit(dir / name, static_cast<size_t>(bit));
  }
  for (size_t bit = 0; bit < 8 * fs::file_size(dir / manifest_name); ++bit) {
    flip_bit(dir / manifest_name, bit);
    CHECK_FALSE(verify_manifest(dir.path));
    flip_bit(dir / manifest_name, bit);
  }
  CHECK(message_of(verify_manifest(dir.path)) == "sound");
  fs::resize_file(dir / "large", 99'999);
  CHECK(message_of(verify_manifest(dir.path)).find("has 99999 bytes instead of 100000") !=
        std::string::npos);
  fs::remove(dir / "large");
  CHECK(message_of(verify_manifest(dir.path)).find("large is missing") != std::string::npos);
  fs::remove(dir / manifest_name);
  CHECK(verify_manifest(dir.path).error().code == errc::not_found);
}

TEST_CASE("manifest: sums that are known are not taken again, but the length must fit") {
  scratch dir;
  put(dir / "a", "12345");
  auto sum = sum_file(dir.path, "a");
  REQUIRE(sum);
  flip_bit(dir / "a", 7);  // after its writer summed it
  REQUIRE(write_manifest(dir.path, {*sum}));
  CHECK(message_of(verify_manifest(dir.path)).find("a is damaged") != std::string::npos);
  sum->bytes = 4;
  CHECK_FALSE(write_manifest(dir.path, {*sum}));
  CHECK_FALSE(write_manifest(dir.path, {{"absent", 0, 0}}));
  CHECK_FALSE(write_manifest(dir.path, {{"../a", 5, 0}}));
}
