// Names in data.path that stand for nothing that can be read: each is told with what to do.
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "io/data/data_files.hpp"
#include "io/data/text_source.hpp"
#include "io/data/token_file.hpp"
#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;
namespace fs = std::filesystem;

namespace {

/// Why a name is not read as text; none: it is.
error refusal_of_name(const fs::path& name) {
  const std::vector<fs::path> paths{name};
  const auto opened = text_source::open(paths, {});
  return opened ? error{errc::none, ""} : opened.error();
}

}  // namespace

TEST_CASE("DFL-2 a name that nothing has is told with what to do, text and tokens alike") {
  const scratch dir;
  fs::create_symlink("nowhere", dir / "dangling");
  for (const fs::path& name : {fs::path("no-such-file.txt"), fs::path("https://example.org/a.txt"),
                               fs::path("~/a.txt"), dir / "dangling"}) {
    CAPTURE(name.string());
    const auto why = refusal_of_name(name);
    CHECK(why.code == errc::not_found);
    CHECK(mentions(why, name));
    CHECK_FALSE(why.hint.empty());
    const std::vector<fs::path> paths{name};
    const auto tokens = token_files::open(paths, token_format::automatic);
    REQUIRE_FALSE(tokens);
    CHECK(tokens.error().hint == why.hint);
  }
  const auto whole = refusal_of_name(dir / "absent.txt");
  CHECK(whole.code == errc::not_found);
  CHECK(whole.hint.empty());
}

TEST_CASE("DFL-2 what is no file is refused at once, with what to do: pipes, devices, loops") {
  const scratch dir;
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("loop", dir / "loop");
  for (const fs::path& name : {dir / "pipe", fs::path("/dev/zero")}) {
    CAPTURE(name.string());
    const auto why = refusal_of_name(name);
    CHECK(why.code == errc::bad_data);
    CHECK(mentions(why, name));
    CHECK_FALSE(why.hint.empty());
  }
  CHECK(mentions(refusal_of_name(dir / "loop"), dir / "loop"));
  REQUIRE(write_atomic(dir / "text.txt", "text"));  // beside a pipe, which nobody opens
  CHECK(refusal_of_name(dir.path).code == errc::none);
}

TEST_CASE("DFL-2 a folder without text is named") {
  const scratch dir;
  fs::create_directory(dir / "empty");
  CHECK(refusal_of_name(dir / "empty") == no_text_found((dir / "empty").string()));
}

TEST_CASE("DFL-2 a pattern that no file has, in a folder that is there or not") {
  const scratch dir;
  REQUIRE(write_atomic(dir / "a.txt", "text"));
  CHECK(is_error(data_files_of(dir / "*.jsonl"), no_file_matches, dir / "*.jsonl"));
  CHECK(is_error(data_files_of(dir / "none/*.txt"), no_file_matches));
}

TEST_CASE("DFL-2 a pattern in a folder that may not be read is no pattern without files") {
  const scratch dir;
  REQUIRE(write_atomic(dir / "a.txt", "text"));
  if (::geteuid() == 0) {
    MESSAGE("SKIPPED: root may read everywhere");
    return;
  }
  fs::permissions(dir.path, fs::perms::none);
  const auto found = data_files_of(dir / "*.txt");
  fs::permissions(dir.path, fs::perms::owner_all);
  REQUIRE_FALSE(found);
  CHECK(found.error().code == errc::permission);
}
