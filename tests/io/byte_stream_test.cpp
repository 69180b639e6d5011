// Files read in one pass: plain, gzip, Zstandard, in members and frames, cut and damaged.
#include "io/formats/byte_stream.hpp"

#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/io/packed.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

result<std::string> content(const std::filesystem::path& path, size_t part = 1000) {
  TROUPE_TRY(stream, byte_stream::open(path));
  std::string out, piece(part, '\0');
  for (;;) {
    TROUPE_TRY(n, stream.read(piece));
    if (n == 0) break;
    out.append(piece, 0, n);
  }
  CHECK(stream.file_bytes() == std::filesystem::file_size(path));
  return out;
}

/// Words that pack, so much of them that a file is read by several pieces.
std::string words(size_t bytes) {
  std::minstd_rand draw(3);
  std::string out;
  while (out.size() < bytes) out += fmt::format("{:x} ", draw() % 65536);
  return out;
}

}  // namespace

TEST_CASE("BYS-1 what is read is the content, whatever it is packed by") {
  scratch dir;
  const auto text = words(3 << 20);
  const std::pair<const char*, std::string> rows[] = {
      {"plain", text},
      {"gzip", packed_by_gzip(text)},
      {"gzip, two members", packed_by_gzip(text.substr(0, 9)) + packed_by_gzip(text.substr(9))},
      {"zstd", packed_by_zstd(text)},
      {"zstd, two frames", packed_by_zstd(text.substr(0, 9)) + packed_by_zstd(text.substr(9))}};
  for (const auto& [name, bytes] : rows) {
    CAPTURE(name);
    REQUIRE(write_atomic(dir / "x", bytes));
    for (size_t part : {size_t{7}, size_t{4096}, size_t{8} << 20}) {
      auto got = content(dir / "x", part);
      REQUIRE(got);
      CHECK(*got == text);
    }
  }
  for (const auto& bytes : {std::string(), packed_by_gzip(""), packed_by_zstd("")}) {
    REQUIRE(write_atomic(dir / "x", bytes));
    CHECK(*content(dir / "x") == std::string());
  }
  CHECK(byte_stream::open(dir / "none").error().code == errc::not_found);
}

TEST_CASE("BYS-1 what is cut, damaged or followed by other bytes is refused") {
  scratch dir;
  const auto text = words(20'000);
  for (const auto& whole : {packed_by_gzip(text), packed_by_zstd(text, true)}) {
    const auto faulty = [&](std::string bytes) {
      REQUIRE(write_atomic(dir / "x", bytes));
      auto got = content(dir / "x");
      if (got) return *got != text;
      CHECK(got.error().code == errc::bad_data);
      CHECK(got.error().message.find((dir / "x").string()) != std::string::npos);
      return true;
    };
    REQUIRE_FALSE(faulty(whole));
    for (size_t cut = 5; cut < whole.size(); cut += 97) {
      CAPTURE(cut);
      REQUIRE(write_atomic(dir / "x", whole.substr(0, cut)));
      CHECK_FALSE(content(dir / "x"));
    }
    CHECK(faulty(whole + "rest"));
    std::minstd_rand draw(5);
    for (int i = 0; i < 200; ++i) {
      auto turned = whole;
      const size_t at = 10 + draw() % (whole.size() - 10);
      turned[at] = static_cast<char>(turned[at] ^ (1 << (draw() % 8)));
      REQUIRE(write_atomic(dir / "x", turned));
      CHECK_FALSE(content(dir / "x"));
    }
  }
}

TEST_CASE("BYS-2 a Zstandard window beyond the limit is refused") {
  scratch dir;
  // A frame header that asks for a window of 2^28 bytes: no flags, exponent 18 of 2^10.
  const std::string wide("\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00", 9);
  const std::string widest("\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00", 9);
  REQUIRE(write_atomic(dir / "x", wide));
  CHECK_FALSE(content(dir / "x"));
  REQUIRE(write_atomic(dir / "x", widest));
  CHECK(*content(dir / "x") == std::string());
}

namespace {

/// gzip -9 of a thousand times "abc".
const std::string packed(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xed\xc2\x41\x11\x00\x00\x0c\x02\xa0\xac\x6a\xff\x0e"
    "\xab\xb1\x07\x1c\xe9\xa2\xaa\xaa\xfe\x7e\x0b\x45\xb9\x2b\xb8\x0b\x00\x00",
    41);

std::string unpacked() {
  std::string out;
  for (int i = 0; i < 1000; ++i) out += "abc";
  return out;
}

/// What is wrong with a file of these bytes, without its path.
std::string fault_of(const std::string& bytes, size_t most = 1 << 20) {
  scratch dir;
  REQUIRE(write_atomic(dir / "x.gz", bytes));
  const auto made = read_unpacked(dir / "x.gz", most);
  if (made) return "";
  CHECK(made.error().code == errc::bad_data);
  const auto path = (dir / "x.gz").string() + ": ";
  CHECK(made.error().message.starts_with(path));
  return made.error().message.substr(path.size());
}

}  // namespace

TEST_CASE("gzip: members are inflated one after the other, files with or without it are read") {
  scratch dir;
  REQUIRE(write_atomic(dir / "a.gz", packed));
  REQUIRE(write_atomic(dir / "two.gz", packed + packed));
  REQUIRE(write_atomic(dir / "a", "plain"));
  CHECK(*read_unpacked(dir / "a.gz", 3000) == unpacked());
  CHECK(*read_unpacked(dir / "two.gz", 6000) == unpacked() + unpacked());
  CHECK(*read_unpacked(dir / "a", 3000) == "plain");
}

TEST_CASE(
    "gzip: what is cut, damaged, followed by anything or too long is refused with the place") {
  for (size_t n = 2; n < packed.size(); ++n) CHECK(fault_of(packed.substr(0, n)) != "");
  CHECK(fault_of(packed.substr(0, 30)) == "gzip cut short at byte 30");
  for (size_t n = 10; n < packed.size(); ++n) {
    auto hurt = packed;
    hurt[n] = static_cast<char>(hurt[n] ^ 0x10);
    CAPTURE(n);
    CHECK(fault_of(hurt) != "");
  }
  auto sum = packed;
  sum[34] = static_cast<char>(sum[34] ^ 1);
  CHECK(fault_of(sum).starts_with("gzip with a wrong checksum"));
  CHECK(fault_of(packed + "x") == "bytes behind gzip's end at byte 41");
  CHECK(fault_of(packed, 2999) == "its content is longer than 2.9 KiB");
  CHECK(fault_of(packed, 3000) == "");
}
