// gzip from outside: whole, in members, cut, damaged, longer than it may be.
#include "io/formats/gzip.hpp"

#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using namespace troupe;

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

std::string gzip_fault(const std::string& bytes, size_t most = 1 << 20) {
  const auto made = io::inflate_gzip(bytes, most, "x.gz");
  if (made) return "";
  CHECK(made.error().code == errc::bad_data);
  return made.error().message;
}

}  // namespace

TEST_CASE("gzip: members are inflated one after the other, files with or without it are read") {
  auto made = io::inflate_gzip(packed, 3000, "x.gz");
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  CHECK(*made == unpacked());
  made = io::inflate_gzip(packed + packed, 6000, "x.gz");
  REQUIRE(made);
  CHECK(*made == unpacked() + unpacked());
  scratch dir;
  std::ofstream(dir / "a.gz", std::ios::binary) << packed;
  std::ofstream(dir / "a") << "plain";
  CHECK(*io::read_maybe_gzip(dir / "a.gz", 3000) == unpacked());
  CHECK(*io::read_maybe_gzip(dir / "a", 3000) == "plain");
}

TEST_CASE(
    "gzip: what is cut, damaged, followed by anything or too long is refused with the place") {
  for (size_t n = 2; n < packed.size(); ++n)
    CHECK(gzip_fault(packed.substr(0, n)).starts_with("x.gz: "));
  CHECK(gzip_fault(packed.substr(0, 30)) == "x.gz: gzip cut short at byte 30");
  for (size_t n = 10; n < packed.size(); ++n) {
    auto hurt = packed;
    hurt[n] = static_cast<char>(hurt[n] ^ 0x10);
    CAPTURE(n);
    CHECK(gzip_fault(hurt) != "");
  }
  auto sum = packed;
  sum[34] = static_cast<char>(sum[34] ^ 1);
  CHECK(gzip_fault(sum).starts_with("x.gz: gzip with a wrong checksum"));
  CHECK(gzip_fault("plain") == "x.gz: not gzip at byte 0");
  CHECK(gzip_fault(packed + "x") == "x.gz: bytes behind gzip's end at byte 41");
  CHECK(gzip_fault(packed, 2999) == "x.gz: its content is longer than 2.9 KiB");
}
