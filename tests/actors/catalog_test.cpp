// Where a run starts: state files, damaged checkpoints, leftovers; hostile ones among them.
#include "actors/job/catalog.hpp"

#include <fstream>
#include <limits>

#include <doctest/doctest.h>

#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/folder_claim.hpp"
#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
namespace cp = troupe::io::checkpoint;
namespace fs = std::filesystem;

namespace {

fs::path make(const scratch& dir, uint64_t step) {
  cp::sample::made what;
  what.step = step;
  return cp::sample::make(dir.path, what);
}

void flip_middle(const fs::path& file) {
  auto bytes = cp::sample::bytes_of(file);
  cp::sample::flip(bytes[bytes.size() / 2], 3);
  cp::sample::write_bytes(file, bytes);
}

}  // namespace

TEST_CASE("catalog: state files go round") {
  const train_state state{std::numeric_limits<uint64_t>::max(), 12345678901234567u, 0.1,
                          "[job]\nname = \"\xc3\xa9\"\n"};
  auto read = parse_state(format_state(state));
  REQUIRE(read);
  CHECK(read->step == state.step);
  CHECK(read->tokens == state.tokens);
  CHECK(read->loss == state.loss);
  CHECK(read->config_toml == state.config_toml);
}

TEST_CASE("catalog: hostile state files are refused") {
  const auto good = format_state({9, 9 * 128, 1.5, "[job]\n"});
  for (size_t n = 0; n < good.size(); ++n) CHECK_FALSE(parse_state(good.substr(0, n)));
  for (const char* bad :
       {"", "null", "[]", "1", "{}", R"({"format":1})", R"({"format":"1","step":1,"tokens":1})",
        R"({"format":1,"step":-1,"tokens":1,"config":""})",
        R"({"format":1,"step":1.5,"tokens":1,"config":""})",
        R"({"format":1,"step":1e400,"tokens":1,"config":""})",
        R"({"format":1,"step":99999999999999999999999,"tokens":1,"config":""})",
        R"({"format":1,"step":1,"tokens":null,"config":""})",
        R"({"format":1,"step":1,"tokens":1,"config":7})", R"({"format":1,"step":1,"tokens":1})"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_state(bad));
  }
  auto other = parse_state(R"({"format":2,"step":1,"tokens":1,"config":""})");
  REQUIRE_FALSE(other);
  CHECK(other.error().code == errc::version_mismatch);
  CHECK_FALSE(parse_state(std::string(100'000, '[')));
}

TEST_CASE("limits: a state of training with too many settings is refused") {
  train_state state{9, 9 * 128, 1.5, "[job]\n"};
  state.set.assign(256, setting_change{"train.lr", "0.001", "0.002", 3});
  CHECK(parse_state(format_state(state)));
  state.set.push_back(state.set.front());
  CHECK_FALSE(parse_state(format_state(state)));
}

TEST_CASE("limits: a state of training with too many skipped parts is refused") {
  train_state state{9, 9 * 128, 1.5, "[job]\n"};
  for (uint64_t i = 0; i < skipped_limit; ++i) state.skipped.push_back({i * 10, 5});
  CHECK(parse_state(format_state(state))->skipped == state.skipped);
  state.skipped.push_back({9999, 1});
  CHECK_FALSE(parse_state(format_state(state)));
}

TEST_CASE("catalog: what checkpoint.resume means") {
  scratch dir;
  for (const char* word : {"auto", "never"}) {
    auto none = resume_from(word, dir / "absent");
    REQUIRE(none);
    CHECK_FALSE(none->from);
  }
  for (uint64_t step : {5u, 10u}) make(dir, step);
  auto newest = resume_from("auto", dir.path);
  REQUIRE(newest);
  REQUIRE(newest->from);
  CHECK(newest->from->step == 10);
  CHECK(newest->passed_over.empty());
  CHECK_FALSE(resume_from("never", dir.path)->from);
  auto named = resume_from((dir / cp::complete_name(5)).string(), dir / "elsewhere");
  REQUIRE(named);
  REQUIRE(named->from);
  CHECK(named->from->step == 5);
  auto absent = resume_from((dir / "absent").string(), dir.path);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == errc::not_found);
  CHECK_FALSE(absent.error().hint.empty());
}

TEST_CASE("catalog: one in a tier has the tier's path, however it was named") {
  scratch dir;
  const auto made = make(dir, 5);
  fs::create_directory(dir / "other");
  fs::create_directory_symlink(made, dir / "latest");
  for (const auto& named : {made.string(), made.string() + "/", (dir / "latest").string(),
                            (dir / "other/.." / made.filename()).string()}) {
    CAPTURE(named);
    CHECK(resume_from(named, dir.path)->from->path == made);
    CHECK(resume_from(named, dir / "absent", dir.path)->from->path == made);
    CHECK(resume_from(named, dir / "other")->from->path == named);
  }
}

TEST_CASE("CAT-1 CAT-2 a damaged checkpoint is named and skipped, by name it is refused") {
  scratch dir;
  const auto older = make(dir, 5), newest = make(dir, 10);
  for (const auto& item : fs::directory_iterator(newest)) {
    const auto name = item.path().filename().string();
    if (name == io::mark_file) continue;  // of the folder, not of the checkpoint
    CAPTURE(name);
    const auto whole = cp::sample::bytes_of(item.path());
    for (bool gone : {false, true}) {
      if (gone)
        fs::remove(item.path());
      else
        flip_middle(item.path());
      auto found = resume_from("auto", dir.path);
      REQUIRE(found);
      REQUIRE(found->from);
      CHECK(found->from->path == older);
      REQUIRE(found->passed_over.size() == 1);
      CHECK(found->passed_over[0].find(newest.filename().string()) != std::string::npos);
      auto named = resume_from(newest.string(), dir.path);
      REQUIRE_FALSE(named);
      CHECK(named.error().code != errc::bug);
      CHECK(named.error().hint.size() > 0);
      if (!gone) CHECK(mentions(named.error(), name));
      cp::sample::write_bytes(item.path(), whole);
    }
  }
  CHECK(resume_from("auto", dir.path)->from->path == newest);
}

TEST_CASE("catalog: a run goes on from the newest whole checkpoint of both tiers") {
  scratch dir;
  const auto first = dir / "first", second = dir / "second";
  const auto into = [](const fs::path& where, uint64_t step) {
    cp::sample::made what;
    what.step = step;
    return cp::sample::make(where, what);
  };
  CHECK_FALSE(resume_from("auto", first, second)->from);
  into(second, 10);
  CHECK(resume_from("auto", first, second)->from->path == second / cp::complete_name(10));
  CHECK(resume_from("auto", first, second)->from->step == 10);
  CHECK_FALSE(resume_from("auto", first)->from);
  CHECK_FALSE(resume_from("never", first, second)->from);
  const auto local = into(first, 10);
  CHECK(resume_from("auto", first, second)->from->path == local);
  flip_middle(local / "rank-00000.shard");
  auto found = resume_from("auto", first, second);
  REQUIRE(found);
  CHECK(found->from->path == second / cp::complete_name(10));
  REQUIRE(found->passed_over.size() == 1);
  CHECK(found->passed_over[0].find(local.string()) != std::string::npos);
  flip_middle(second / cp::complete_name(10) / "rank-00000.shard");
  found = resume_from("auto", first, second);
  REQUIRE_FALSE(found);
  CHECK(mentions(found.error(), second));
}

TEST_CASE("CAT-2 where checkpoints are and none is sound, nothing starts from nothing") {
  scratch dir;
  for (uint64_t step : {5u, 10u}) flip_middle(make(dir, step) / "rank-00000.shard");
  auto found = resume_from("auto", dir.path);
  REQUIRE_FALSE(found);
  CHECK(found.error().code == errc::bad_data);
  CHECK(mentions(found.error(), "rank-00000.shard"));
  CHECK(found.error().hint.find("never") != std::string::npos);
  CHECK(resume_from("never", dir.path));
}

TEST_CASE("catalog: what is ours, and what is anybody's folder") {
  scratch dir;
  CHECK_FALSE(is_checkpoint(""));
  CHECK_FALSE(is_checkpoint(dir / "absent"));
  std::ofstream(dir / "config.json") << "{}";
  CHECK_FALSE(is_checkpoint(dir.path));
  const auto made = make(dir, 1);
  CHECK(is_checkpoint(made));
  CHECK(verify(made));
  fs::remove(made / "MANIFEST");
  CHECK(is_checkpoint(made));  // damaged, but ours
  CHECK_FALSE(verify(made));
}

TEST_CASE("catalog: what interrupted saves left is removed, and nothing else") {
  scratch dir;
  CHECK(remove_leftovers(io::local_files(), dir / "absent")->removed.empty());
  make(dir, 1);
  for (const char* name : {"step-00000003.e1.partial", "step-00000002.partial",
                           "step-00000004.deleting", "mine.partial", "step-1.partial"}) {
    fs::create_directories(dir / name);
    std::ofstream(dir / name / "rank-00000.shard") << "half";
    std::ofstream(dir / name / io::mark_file) << cp::partial_mark("tiny", {});
  }
  fs::create_directories(dir / "step-00000005.e1.partial");  // of another's making
  std::ofstream(dir / "step-00000005.e1.partial/rank-00000.shard") << "mine";
  auto removed = remove_leftovers(io::local_files(), dir.path);
  REQUIRE(removed);
  CHECK(removed->removed ==
        std::vector<std::string>{"step-00000002.partial", "step-00000003.e1.partial",
                                 "step-00000004.deleting"});
  for (const auto& name : removed->removed) CHECK_FALSE(fs::exists(dir / name));
  for (const char* kept : {"step-00000001", "mine.partial", "step-1.partial",
                           "step-00000005.e1.partial/rank-00000.shard"})
    CHECK(fs::exists(dir / kept));
  REQUIRE(removed->kept.size() == 1);
  CHECK(removed->kept[0].find("step-00000005.e1.partial") != std::string::npos);
}

namespace {

/// What launch 7, which began from step 2 of launch 3, saved; and what is not its.
struct run_folder {
  scratch dir;
  fs::path first = dir / "first", second = dir / "second";
  cp::lineage from{{3, 2}};
  cp::origin launch{7, from, first / cp::complete_name(2)};

  fs::path add(const fs::path& where, uint64_t step, const cp::lineage& line) const {
    cp::sample::made what;
    what.step = step;
    what.line = line;
    return cp::sample::make(where, what);
  }
  fs::path own(uint64_t step, bool in_second = false, uint64_t epoch = 3) const {
    cp::sample::made what;
    what.step = step;
    what.line = launch.at(step);
    what.epoch = epoch;
    return cp::sample::make(in_second ? second : first, what);
  }
  result<older_choice> choose(const std::vector<std::string>& unsound, uint64_t at_most) const {
    const std::vector<fs::path> tiers{first, second};
    return choose_older(io::local_files(), tiers, launch, unsound, at_most);
  }
};

}  // namespace

TEST_CASE("CAT-4 a run goes back to the one before a damaged checkpoint, which is set aside") {
  const run_folder f;
  const auto begun = f.add(f.first, 2, f.from), older = f.own(4), newest = f.own(6);
  f.add(f.first, 5, {{9, 5}});  // of another line
  flip_middle(newest / "rank-00000.shard");
  const auto chosen = f.choose({newest.string()}, 6);
  REQUIRE_MESSAGE(chosen, (chosen ? "" : render(chosen.error())));
  CHECK(chosen->from.path == older);
  CHECK(chosen->from.step == 4);
  CHECK(chosen->from.line == f.launch.at(4));
  CHECK(chosen->told.size() == 2);
  CHECK_FALSE(fs::exists(newest));
  CHECK(fs::exists(f.first / cp::aside_name(6, 1)));
  CHECK(fs::exists(begun));
  // The next start comes to the same.
  CHECK(resume_from("auto", f.first)->from->path == older);
  // Asked again, after a node was lost meanwhile.
  const auto again = f.choose({newest.string()}, 6);
  REQUIRE(again);
  CHECK(again->from.path == older);
  CHECK(again->told.empty());
}

TEST_CASE("CAT-4 no whole checkpoint is set aside on a rank's word") {
  const run_folder f;
  f.own(4);
  const auto newest = f.own(6);
  const auto chosen = f.choose({newest.string()}, 6);
  REQUIRE_FALSE(chosen);
  CHECK(chosen.error().code == errc::unavailable);
  CHECK(fs::exists(newest));
}

TEST_CASE("CAT-4 what is younger than may be believed is left, whole as it is") {
  const run_folder f;
  const auto older = f.own(4), newest = f.own(6);
  const auto chosen = f.choose({}, 5);
  REQUIRE(chosen);
  CHECK(chosen->from.path == older);
  CHECK_FALSE(fs::exists(newest));
}

TEST_CASE("CAT-4 the second tier's copy of a damaged checkpoint is as good") {
  const run_folder f;
  f.own(4);
  const auto damaged = f.own(6), copy = f.own(6, true);
  flip_middle(damaged / "rank-00000.shard");
  const auto chosen = f.choose({damaged.string()}, 6);
  REQUIRE(chosen);
  CHECK(chosen->from.path == copy);
  CHECK(fs::exists(copy));
  flip_middle(copy / "rank-00000.shard");
  const auto both = f.choose({damaged.string(), copy.string()}, 6);
  REQUIRE(both);
  CHECK(both->from.step == 4);
  CHECK_FALSE(fs::exists(copy));
  CHECK_FALSE(fs::exists(damaged));
}

TEST_CASE("CAT-4 a run does not go behind where it began, nor to what is damaged at sight") {
  const run_folder f;
  f.add(f.first, 1, {{3, 1}});
  const auto begun = f.add(f.first, 2, f.from), own = f.own(4), newest = f.own(6);
  flip_middle(newest / "rank-00000.shard");
  fs::remove(own / "rank-00000.shard");
  const auto chosen = f.choose({newest.string()}, 6);
  REQUIRE(chosen);
  CHECK(chosen->from.path == begun);
  CHECK(chosen->from.line == f.from);
  flip_middle(begun / "rank-00000.shard");
  const auto none = f.choose({begun.string()}, 6);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::bad_data);
}

TEST_CASE("CT-3 CAT-4 what a run saved again after it had left it is the next start's") {
  const run_folder f;
  const auto older = f.own(4), left = f.own(6);
  f.own(6, true);
  REQUIRE(f.choose({}, 5));
  CHECK_FALSE(fs::exists(left));
  const auto again = f.own(6, false, 4);
  const auto start = resume_from("auto", f.first, f.second);
  REQUIRE(start);
  CHECK(start->from->path == again);
  CHECK(start->passed_over.empty());
}

TEST_CASE("CAT-4 a second tier that cannot be changed does not keep a run from going back") {
  const run_folder f;
  const auto older = f.own(4), damaged = f.own(6);
  flip_middle(damaged / "rank-00000.shard");
  std::ofstream(f.second) << "no folder";
  const auto chosen = f.choose({damaged.string()}, 6);
  REQUIRE(chosen);
  CHECK(chosen->from.path == older);
  CHECK(chosen->told.size() == 2);
}

TEST_CASE("CAT-4 one that failed before and is whole now keeps nobody from an older one") {
  const run_folder f;
  const auto oldest = f.own(3), once = f.own(4), damaged = f.own(6);
  flip_middle(damaged / "rank-00000.shard");
  const auto chosen = f.choose({once.string(), damaged.string()}, 6);
  REQUIRE(chosen);
  CHECK(chosen->from.path == oldest);
}
