// Error codes, system errors and results: names, exit codes, hints, pass-through.
#include "io/base/error.hpp"

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
