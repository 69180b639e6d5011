// What of a checkpoint's folder may be removed, by its manifest, by its mark, or by neither.
#include "io/checkpoint/folder_claim.hpp"

#include "io/checkpoint/retention.hpp"
#include "io/checkpoint/save.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

constexpr uint64_t step = 120;

/// Removes as retention does.
status remove_at(const std::filesystem::path& folder) {
  return checkpoint::remove(local_files(),
                            {folder, *parse_folder_name(folder.filename().string()), 0, "a test"});
}

}  // namespace

TEST_CASE("claim: a checkpoint goes by its manifest, with and without a mark") {
  for (const bool marked : {true, false}) {
    scratch dir;
    const auto folder = sample::make(dir.path);
    CHECK(std::filesystem::exists(folder / mark_file));
    if (!marked) std::filesystem::remove(folder / mark_file);  // as earlier versions left it
    REQUIRE(remove_at(folder));
    CHECK(tree_of(dir.path).empty());
    CHECK(remove_at(folder));  // gone already
  }
}

TEST_CASE("claim: a checkpoint with anything else in it keeps its name and all its files") {
  const auto stays = [](const std::function<void(const std::filesystem::path&)>& spoil) {
    scratch dir;
    const auto folder = sample::make(dir.path);
    put_file(dir / "mine", "mine");
    spoil(folder);
    const auto before = tree_of(dir.path);
    const auto gone = remove_at(folder);
    REQUIRE_FALSE(gone);
    CHECK(gone.error().code == errc::permission);
    CHECK(tree_of(dir.path) == before);
  };
  stays([](const auto& f) { put_file(f / "notes.txt", "mine"); });
  stays([](const auto& f) { put_file(f / pin_file, ""); });
  stays([](const auto& f) { put_file(f / "more/notes.txt", "mine"); });
  stays([](const auto& f) {
    std::filesystem::remove(f / "config.json");
    std::filesystem::create_symlink(f / "../mine", f / "config.json");
  });
  stays([](const auto& f) { put_file(f / mark_file, "my own words"); });
  stays([](const auto& f) {  // where retention would rename it to
    put_file(f.parent_path() / deleting_name(step) / "notes.txt", "mine");
  });
  stays([](const auto& f) {  // neither manifest nor mark: FC-1
    std::filesystem::remove(f / mark_file);
    put_file(f / manifest_file, "mine");
  });
}

TEST_CASE("claim: a partial folder goes by its mark, an empty mark, or when it is empty") {
  const std::vector<std::pair<const char*, std::string>> files{
      {"rank-00000.shard", "half"}, {"rank-00012.shard", ""}, {"config.json", "{}"}};
  for (const auto& mark : {partial_mark("tiny", {"words.json"}), std::string()}) {
    scratch dir;
    const auto partial = dir / partial_name(step, 3);
    for (const auto& [name, text] : files) put_file(partial / name, text);
    if (!mark.empty()) put_file(partial / "words.json", "{}");
    CHECK(remove_at(partial).error().code == errc::permission);
    put_file(partial / mark_file, mark);
    put_file(partial / "notes.txt", "mine");
    CHECK(remove_at(partial).error().code == errc::permission);
    std::filesystem::remove(partial / "notes.txt");
    REQUIRE(remove_at(partial));
    CHECK(tree_of(dir.path).empty());
  }
  scratch dir;
  std::filesystem::create_directory(dir / partial_name(step, 3));
  REQUIRE(remove_at(dir / partial_name(step, 3)));
  CHECK(tree_of(dir.path).empty());
}

TEST_CASE("RT-7: what cannot be removed does not keep the others from going") {
  scratch dir;
  for (uint64_t s : {10, 20, 30}) {
    sample::made what;
    what.step = s;
    what.line = {{7, s}};
    sample::make(dir.path, what);
  }
  put_file(dir / "step-00000010/notes.txt", "mine");
  CHECK_FALSE(caretaker({7, {}, {}}).retain(dir.path, {1, 0, 0}));
  CHECK(std::filesystem::exists(dir / "step-00000010/MANIFEST"));
  CHECK_FALSE(std::filesystem::exists(dir / "step-00000020"));
  CHECK(std::filesystem::exists(dir / "step-00000030"));
}
