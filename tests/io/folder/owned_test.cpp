// Only what carries our mark is removed, and nothing that lies in it beside what the mark names.
#include "io/folder/owned.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::io;
namespace fs = std::filesystem;

namespace {

const claim model{folder_kind::model, "tiny", {"model-#-of-#.safetensors", "config.json"}};

/// A model's folder as an export leaves it.
fs::path model_in(const fs::path& folder) {
  REQUIRE(make_owned(folder, model));
  put_file(folder / "config.json", "{}");
  put_file(folder / "model-00001-of-00002.safetensors", "1");
  put_file(folder / "model-00002-of-00002.safetensors", "2");
  return folder;
}

/// The working folder of a scope.
struct working_folder {
  fs::path before = fs::current_path();
  explicit working_folder(const fs::path& now) { fs::current_path(now); }
  ~working_folder() { fs::current_path(before); }
};

}  // namespace

TEST_CASE("owned: a mark says what it said, and what is none is refused") {
  for (const auto kind :
       {folder_kind::output, folder_kind::checkpoint, folder_kind::model, folder_kind::scratch}) {
    const claim c{kind, "a \"job\"", {"x", "rank-#.shard"}};
    const auto again = parse_mark(mark_text(c));
    REQUIRE(again);
    CHECK(*again == c);
  }
  for (const char* text :
       {"", "{", "[]", "{}", R"({"troupe-owned":1})", R"({"troupe-owned":1,"kind":"house"})",
        R"({"troupe-owned":1,"kind":7})", R"({"troupe-owned":1,"kind":"model","job":[]})",
        R"({"troupe-owned":1,"kind":"model","files":"x"})",
        R"({"troupe-owned":1,"kind":"model","files":["../x"]})",
        R"({"troupe-owned":1,"kind":"model","files":[".."]})",
        R"({"troupe-owned":1,"kind":"model","files":[""]})",
        R"({"troupe-owned":1,"kind":"model","files":[1]})"}) {
    CAPTURE(text);
    REQUIRE_FALSE(parse_mark(text));
    CHECK(parse_mark(text).error().code == errc::bad_data);
  }
  CHECK(parse_mark(R"({"troupe-owned":2,"kind":"model"})").error().code == errc::version_mismatch);
  CHECK_FALSE(parse_mark(std::string(max_mark_bytes + 1, ' ')));
}

TEST_CASE("owned: what a claim names") {
  const claim c{folder_kind::model, {}, {"config.json", "model-#-of-#.safetensors", "a#b"}};
  for (const char* name : {"config.json", "model-1-of-22.safetensors", "config.json.tmp-12-0",
                           "model-1-of-1.safetensors.tmp-1-2", "a#b", "a77b", ".troupe-owned"})
    CHECK_MESSAGE(c.names(name), name);
  for (const char* name : {"", "config.jso", "config.json2", "model--of-1.safetensors", "ab",
                           "config.json.tmp-", "config.json.tmp-a-1", "model-1-of-1.safetensor"})
    CHECK_MESSAGE(!c.names(name), name);
}

TEST_CASE("owned: removed in the claim's order, the mark last, or refused by name") {
  using type = folder_item::type;
  const claim c{folder_kind::checkpoint, {}, {"b", "rank-#.shard", "a"}};
  const auto order =
      removal_order(std::vector<folder_item>{{".troupe-owned"}, {"a"}, {"rank-1.shard"}, {"b"}}, c);
  REQUIRE(order);
  CHECK(*order == std::vector<std::string>{"rank-1.shard", "b", "a", ".troupe-owned"});
  for (const folder_item& foreign : {folder_item{"NOTES"},
                                     {"a", type::folder},
                                     {"a", type::other},
                                     {"rank-1.shard", type::other}}) {
    const auto refused = removal_order(std::vector<folder_item>{{"b"}, foreign}, c);
    REQUIRE_FALSE(refused);
    CHECK(is_error(refused, not_ours, foreign.name));
  }
  CHECK_FALSE(removal_order({}, {folder_kind::output, {}, {}}));
}

TEST_CASE("owned: a folder of ours goes, and asking again says that there is none") {
  scratch dir;
  const auto made = model_in(dir / "model");
  CHECK(is_owned(made, folder_kind::model));
  CHECK(*read_mark(made) == model);
  put_file(made / "config.json.tmp-12-3", "of a writer that died");
  CHECK(check_claimed(made, model));
  REQUIRE(remove_owned(made, folder_kind::model));
  CHECK(tree_of(dir.path).empty());
  CHECK(remove_owned(made, folder_kind::model).error().code == errc::not_found);
}

TEST_CASE("owned: a folder with anything else in it, or of another kind, stays whole") {
  scratch dir;
  const auto made = model_in(dir / "model");
  const auto stays = [&](folder_kind kind) {
    const auto before = tree_of(dir.path);
    const auto gone = remove_owned(made, kind);
    REQUIRE_FALSE(gone);
    CHECK_MESSAGE(gone.error().code == errc::permission, render(gone.error()));
    CHECK(tree_of(dir.path) == before);
  };
  stays(folder_kind::checkpoint);
  stays(folder_kind::scratch);
  put_file(made / "notes.txt", "mine");
  stays(folder_kind::model);
  fs::remove(made / "notes.txt");
  fs::remove(made / "config.json");
  fs::create_directory(made / "config.json");
  stays(folder_kind::model);
  fs::remove(made / "config.json");
  put_file(dir / "elsewhere", "mine");
  fs::create_symlink(dir / "elsewhere", made / "config.json");
  stays(folder_kind::model);
  fs::remove(made / "config.json");
  fs::remove(made / mark_file);
  stays(folder_kind::model);
  stays(folder_kind::scratch);
  fs::create_symlink(dir / "elsewhere", made / mark_file);
  CHECK_FALSE(remove_owned(made, folder_kind::model));
  put_file(dir / "elsewhere", mark_text(model));
  CHECK_FALSE(remove_owned(made, folder_kind::model));  // a mark is no link
  CHECK(fs::exists(made / "model-00001-of-00002.safetensors"));
}

TEST_CASE("owned: a link, a file, the working folder, the home and what is above stay") {
  scratch dir;
  fs::create_directory(dir / "a");
  const auto made = model_in(dir / "a/b");
  fs::create_directory_symlink(made, dir / "link");
  put_file(dir / "file", "mine");
  const auto before = tree_of(dir.path);
  CHECK(remove_owned(dir / "link", folder_kind::model).error().code == errc::permission);
  CHECK(remove_owned(dir / "link/", folder_kind::model).error().code == errc::permission);
  CHECK(remove_owned(dir / "file", folder_kind::model).error().code == errc::permission);
  CHECK_FALSE(remove_owned("/", folder_kind::scratch));
  CHECK_FALSE(remove_owned("", folder_kind::scratch));
  CHECK_FALSE(remove_owned("/proc", folder_kind::scratch));
  const char* home_before = std::getenv("HOME");
  const std::string home = home_before ? home_before : "/";
  ::setenv("HOME", made.c_str(), 1);
  CHECK(remove_owned(made, folder_kind::model).error().code == errc::permission);
  ::setenv("HOME", home.c_str(), 1);
  {
    working_folder here(made);
    for (const fs::path& name : {fs::path("."), fs::path("../b"), made, dir / "a"})
      CHECK(remove_owned(name, folder_kind::model).error().code == errc::permission);
  }
  CHECK(tree_of(dir.path) == before);
  REQUIRE(remove_owned(dir / "link/../a/b/", folder_kind::model));
}

TEST_CASE("owned: a mount point is not entered") {
  scratch dir;
  const auto made = model_in(dir / "model");
  auto mine = scratch_folder::make(dir.path, "temporary-");
  REQUIRE(mine);
  fs::create_directory(mine->path() / "mounted");
  if (::geteuid() != 0 ||
      ::mount(made.c_str(), (mine->path() / "mounted").c_str(), "", MS_BIND, nullptr) != 0) {
    MESSAGE("SKIPPED: only who may mount can try this");
    return;
  }
  const auto over = mine->path() / "mounted";
  CHECK(remove_owned(over, folder_kind::model).error().code == errc::permission);
  CHECK(remove_owned(mine->path(), folder_kind::scratch).error().code == errc::permission);
  CHECK(fs::exists(made / "config.json"));
  REQUIRE(::umount(over.c_str()) == 0);
}

TEST_CASE("owned: a removal that was cut off anywhere goes on when asked again") {
  for (int kept = 0; kept <= 4; ++kept) {
    scratch dir;
    const auto made = model_in(dir / "model");
    const auto order = removal_order(std::vector<folder_item>{{"config.json"},
                                                              {"model-00001-of-00002.safetensors"},
                                                              {"model-00002-of-00002.safetensors"},
                                                              {std::string(mark_file)}},
                                     model);
    REQUIRE(order);
    for (int i = 0; i < kept; ++i) fs::remove(made / (*order)[static_cast<size_t>(i)]);
    CAPTURE(kept);
    REQUIRE(remove_owned(made, folder_kind::model));
    CHECK_FALSE(fs::exists(made));
  }
}

TEST_CASE("owned: made where nothing is, where nothing lies in it, or over its own kind") {
  scratch dir;
  REQUIRE(make_owned(dir / "new", model));
  fs::create_directory(dir / "empty");
  REQUIRE(make_owned(dir / "empty", model));
  auto longer = model;
  longer.files.emplace_back("tokenizer.json");
  REQUIRE(make_owned(dir / "new", longer));
  CHECK(*read_mark(dir / "new") == longer);
  put_file(dir / "mine/weights", "1");
  CHECK(make_owned(dir / "mine", model).error().code == errc::permission);
  CHECK(make_owned(dir / "new", {folder_kind::checkpoint, {}, {}}).error().code ==
        errc::permission);
  CHECK_FALSE(make_owned(dir / "no/parent", model));
  CHECK(tree_of(dir / "mine").size() == 1);
  // What is only worked in is marked whatever lies there, and never removed.
  REQUIRE(mark_output(dir / "mine", "tiny"));
  CHECK(remove_owned(dir / "mine", folder_kind::output).error().code == errc::permission);
  CHECK(tree_of(dir / "mine").size() == 2);
  CHECK(mark_output(dir / "empty", "tiny").error().code == errc::permission);
}

TEST_CASE("owned: a folder whose maker was killed at its mark is made again, or goes") {
  scratch dir;
  const auto half = dir / "model.partial", temporary = half / ".troupe-owned.tmp-4711-0";
  put_file(temporary, "{\"troupe");
  CHECK(check_claimed(half, {folder_kind::model, {}, {}}));
  CHECK(make_owned(half, model));
  CHECK(remove_owned(half, folder_kind::model));
  CHECK_FALSE(fs::exists(half));
  put_file(temporary, "");
  CHECK(remove_owned(half, folder_kind::model));
  CHECK_FALSE(fs::exists(half));
}

TEST_CASE("owned: a scratch folder goes with all in it, and links in it lead nowhere") {
  scratch dir;
  put_file(dir / "mine/weights", "1");
  fs::path gone, kept;
  {
    auto made = scratch_folder::make(dir.path, "bench-");
    REQUIRE(made);
    gone = made->path();
    put_file(gone / "a/b/c", "x");
    put_file(gone / "d", "y");
    fs::create_directory_symlink(dir / "mine", gone / "link");
    REQUIRE(remove_from_scratch(gone, "link"));
    fs::create_directory_symlink(dir / "mine", gone / "a/link");
    REQUIRE(remove_from_scratch(gone, "d"));
    CHECK_FALSE(fs::exists(gone / "d"));
    REQUIRE(remove_from_scratch(gone, "d"));
    for (const char* name : {"", ".", "..", "a/b", "../mine", ".troupe-owned"})
      CHECK_FALSE(remove_from_scratch(gone, name));
    CHECK_FALSE(remove_from_scratch(dir / "mine", "weights"));
    auto other = scratch_folder::make(dir.path, "bench-");
    REQUIRE(other);
    kept = other->path();
    other->keep();
  }
  CHECK_FALSE(fs::exists(gone));
  CHECK(fs::exists(kept));
  CHECK(tree_of(dir / "mine") == std::map<std::string, std::string>{{"weights", "file 1"}});
  CHECK(remove_empty(dir / "mine").error().code == errc::permission);
  fs::create_directory(dir / "nothing");
  CHECK(remove_empty(dir / "nothing"));
  CHECK_FALSE(fs::exists(dir / "nothing"));
}

TEST_CASE("owned: a file goes while its name leads to what is open, and not after") {
  scratch dir;
  put_file(dir / "a", "ours");
  unique_fd fd(::open((dir / "a").c_str(), O_RDONLY | O_CLOEXEC));
  fs::rename(dir / "a", dir / "b");
  put_file(dir / "a", "another's");
  REQUIRE(remove_own_file(dir / "a", fd.get()));
  CHECK(fs::exists(dir / "a"));
  REQUIRE(remove_own_file(dir / "b", fd.get()));
  CHECK_FALSE(fs::exists(dir / "b"));
  REQUIRE(remove_own_file(dir / "b", fd.get()));
  fs::create_symlink(dir / "a", dir / "link");
  unique_fd target(::open((dir / "a").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(remove_own_file(dir / "link", target.get()));
  CHECK(fs::is_symlink(dir / "link"));
}
