// Error codes, system errors and results: names, exit codes, hints, pass-through.
#include "io/base/error_kind.hpp"

#include <cerrno>
#include <cstring>

#include <doctest/doctest.h>

#include "io/base/result.hpp"
#include "tests/errors.hpp"

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
  CHECK(is_error(e, "ENOSPC", "model.safetensors"));
  CHECK(mentions(e, std::strerror(ENOSPC)));
  CHECK(e.hint != "");
  CHECK(error::system("open x", ENOENT).code == errc::not_found);
}

TEST_CASE(
    "an error of a kind is told apart by its name, has its facts, and keeps both on its way") {
  constexpr error_kind<std::string_view, int> too_long{"too_long", errc::bad_config,
                                                       "{} is {} long", "name {0} anew"};
  constexpr error_kind<> other{"other", errc::bad_config, "another"};
  const auto e = too_long("x", 7);
  CHECK(e == error(errc::bad_config, "x is 7 long", "name x anew", "too_long"));
  CHECK(e.within("here").is(too_long));
  CHECK(e.within("here") ==
        error(errc::bad_config, "here: x is 7 long", "name x anew", "too_long"));
  CHECK_FALSE(e.is(other));
  CHECK_FALSE(error(errc::bad_config, "x is 7 long").is(too_long));
  CHECK(is_error(e, too_long, "x", 7));
  CHECK_FALSE(is_error(e, too_long, 8));
  CHECK_FALSE(is_error(e, too_long, "lon"));  // no word
  CHECK_FALSE(is_error(e, other));
  CHECK_FALSE(is_error(result<int>(1), too_long));
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
  CHECK(quarter(6).error() == error(errc::bad_data, "odd"));
}
