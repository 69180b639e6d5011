// Error codes, system errors and results: names, exit codes, hints, pass-through.
#include "io/base/error.hpp"
#include "io/base/one_line.hpp"

#include <cerrno>

#include <doctest/doctest.h>

#include "io/base/result.hpp"

using namespace troupe;

TEST_CASE("every errc has a name and a sysexits code of its family") {
  struct row {
    errc code;
    int exit;
  };
  for (auto [code, exit] : {row{errc::usage, 64},
                            {errc::bad_data, 65},
                            {errc::unavailable, 69},
                            {errc::bug, 70},
                            {errc::io, 74},
                            {errc::timeout, 75},
                            {errc::bad_config, 78},
                            {errc::training, 1},
                            {errc::cancelled, 130}}) {
    CAPTURE(to_string(code));
    CHECK(exit_code(code) == exit);
    CHECK(to_string(code) != "");
  }
}

TEST_CASE("a system error keeps the reason and hints at a full disk") {
  auto e = error::system("write model.safetensors", ENOSPC);
  CHECK(e.code == errc::io);
  CHECK(render(e).find("No space left") != std::string::npos);
  CHECK(render(e).find("hint: ") != std::string::npos);
  CHECK(error::system("open x", ENOENT).code == errc::not_found);
}

TEST_CASE("a result is a value or an error and passes errors through") {
  auto half = [](int x) -> result<int> {
    if (x % 2) return error{errc::bad_data, "odd"};
    return x / 2;
  };
  auto quarter = [&](int x) -> result<int> {
    TROUPE_TRY(h, half(x));
    return half(h);
  };
  CHECK(*quarter(8) == 2);
  CHECK(quarter(6).error().message == "odd");
}

TEST_CASE("foreign text stays on one line and shows what it hides") {
  CHECK(one_line("plain é 漢 text") == "plain é 漢 text");
  CHECK(one_line("a\nb\tc\r\"\\") == "a\\nb\\tc\\r\\\"\\\\");
  CHECK(one_line("\x1b[2J\x7f") == "\\x1b[2J\\x7f");
  CHECK(one_line("\xc2\x9b") == "\\u009b");      // C1's CSI
  CHECK(one_line("\xe2\x80\xae") == "\\u202e");  // right-to-left override
  CHECK(one_line("\xff\xc3") == "\\xff\\xc3");   // no UTF-8
  CHECK(one_line("\xc0\x80 \xed\xa0\x80") == "\\xc0\\x80 \\xed\\xa0\\x80");
  CHECK(one_line(std::string(100, 'x'), 3) == "xxx...");
  CHECK(one_line("xyz", 3) == "xyz");
  CHECK(one_line("") == "");
}
