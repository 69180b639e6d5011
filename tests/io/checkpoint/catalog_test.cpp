// Which checkpoints there are, which is trusted, which are kept.
#include "io/checkpoint/catalog.hpp"

#include <fcntl.h>
#include <sys/inotify.h>

#include <array>

#include "io/checkpoint/retention.hpp"
#include "io/checkpoint/save.hpp"
#include "io/disk/disk.hpp"
#include "tests/errors.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/no_rename_flags.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

sample::made at_step(uint64_t step, uint64_t epoch = 3) {
  sample::made what;
  what.step = step;
  what.epoch = epoch;
  return what;
}

std::vector<std::string> names(const std::filesystem::path& dir) {
  auto all = list(dir);
  REQUIRE(all);
  std::vector<std::string> out;
  for (const auto& e : *all) out.push_back(e.path.filename().string());
  return out;
}

void damage_a_slot(const std::filesystem::path& checkpoint) {
  const auto path = checkpoint / "rank-00000.shard";
  auto bytes = sample::bytes_of(path);
  sample::flip(bytes[100], 1);
  sample::write_bytes(path, bytes);
}

/// A catalog entry for the rules alone.
catalog_entry known(uint64_t step, std::optional<double> loss = {}, bool pinned = false) {
  catalog_entry e;
  e.path = complete_name(step);
  e.name = {step, std::nullopt, folder_state::complete};
  e.head = manifest_head{};
  e.head->step = step;
  e.head->validation_loss = loss;
  if (pinned) e.holds.push_back({"PINNED", {}});
  return e;
}

/// Launch 0 goes on, and all of it is whole.
const standing all_sound{{{0, 1'000'000}}, [](const catalog_entry&) { return true; }};

std::vector<uint64_t> kept(const std::vector<catalog_entry>& catalog, const retention& rules,
                           const standing& now = all_sound) {
  const auto why = kept_because(catalog, rules, now);
  std::vector<uint64_t> out;
  for (size_t i = 0; i < catalog.size(); ++i)
    if (!why[i].empty()) out.push_back(catalog[i].name.step);
  return out;
}

using steps = std::vector<uint64_t>;

}  // namespace

TEST_CASE("names of checkpoint folders mean one thing each") {
  CHECK(complete_name(120) == "step-00000120");
  CHECK(partial_name(120, 3) == "step-00000120.e3.partial");
  CHECK(parse_folder_name("step-00000120") ==
        folder_name{120, std::nullopt, folder_state::complete});
  CHECK(parse_folder_name("step-123456789") ==
        folder_name{123456789, std::nullopt, folder_state::complete});
  CHECK(parse_folder_name("step-00000120.e3.partial") ==
        folder_name{120, 3, folder_state::partial});
  CHECK(parse_folder_name("step-00000120.partial") ==
        folder_name{120, std::nullopt, folder_state::partial});
  CHECK(parse_folder_name("step-00000120.deleting") ==
        folder_name{120, std::nullopt, folder_state::deleting});
  CHECK(aside_name(120, 2) == "step-00000120.aside-2");
  CHECK(parse_folder_name("step-00000120.aside-2") ==
        folder_name{120, std::nullopt, folder_state::aside, 2});
  for (const char* bad :
       {"", "step-", "step-120", "step-0000012x", "step-00000120.", "step-00000120.e.partial",
        "step-00000120.e03.partial", "step-000000120", "step-00000120.e3", "step-00000120.tmp",
        "xstep-00000120", "step-00000120.aside", "step-00000120.aside-", "step-00000120.aside-01",
        "step-00000120.aside-1x", "step-00000120.aside-4294967296", "step-0000000000000000001",
        "step--0000001", "step-00000120.e3.partial/"})
    CHECK_MESSAGE(!parse_folder_name(bad), bad);
}

TEST_CASE("the catalog lists newest first, leftovers too, and says what is unreadable") {
  scratch dir;
  CHECK(list(dir / "nothing")->empty());
  sample::make(dir.path, at_step(100));
  sample::make(dir.path, at_step(120));
  sample::make(dir.path, at_step(110));
  std::filesystem::create_directories(dir / partial_name(130, 4));
  std::filesystem::create_directories(dir / partial_name(130, 5));
  std::filesystem::create_directories(dir / deleting_name(90));
  std::filesystem::create_directories(dir / "step-00000115");
  std::filesystem::create_directories(dir / "unrelated");
  REQUIRE(write_atomic(dir / "step-00000200", "a file"));
  REQUIRE(write_atomic(dir / "step-00000110/PINNED", ""));
  CHECK(names(dir.path) == std::vector<std::string>{"step-00000130.e5.partial",
                                                    "step-00000130.e4.partial", "step-00000120",
                                                    "step-00000115", "step-00000110",
                                                    "step-00000100", "step-00000090.deleting"});
  auto all = list(dir.path);
  CHECK((*all)[3].problem->is(no_manifest));
  CHECK((*all)[2].head->job == "sample");
  CHECK((*all)[2].bytes > 4096);
  CHECK((*all)[4].holds == std::vector<hold>{{"PINNED", ""}});
  CHECK((*all)[5].holds.empty());
}

TEST_CASE("the next epoch is larger than that of every checkpoint and leftover") {
  scratch dir;
  CHECK(next_epoch(*list(dir / "absent")) == 1);
  sample::make(dir.path, at_step(9, 3));
  CHECK(next_epoch(*list(dir.path)) == 4);
  std::filesystem::create_directories(dir / partial_name(10, 7));
  CHECK(next_epoch(*list(dir.path)) == 8);
  std::filesystem::create_directories(dir / "step-00000011.deleting");
  std::filesystem::create_directories(dir / "step-00000012");  // not readable
  CHECK(next_epoch(*list(dir.path)) == 8);
}

TEST_CASE("CT-2: the newest that verifies is chosen, and those skipped are named") {
  scratch dir;
  CHECK(!newest_that_verifies(local_files(), {&dir.path, 1})->path);
  for (const uint64_t step : {100, 110, 120, 130, 140}) sample::make(dir.path, at_step(step));
  damage_a_slot(dir / "step-00000140");
  std::filesystem::remove(dir / "step-00000130/rank-00000.shard");
  REQUIRE(write_atomic(dir / "step-00000120/MANIFEST", "x"));
  auto chosen = newest_that_verifies(local_files(), {&dir.path, 1}, {2, {}});
  REQUIRE(chosen);
  CHECK(chosen->path == dir / "step-00000110");
  REQUIRE(chosen->rejected.size() == 3);
  CHECK(chosen->rejected[0].path == dir / "step-00000140");
  CHECK(is_error(chosen->rejected[0].why, checksum_wrong, "rank-00000.shard", 0));
  CHECK(is_error(chosen->rejected[1].why, file_missing, "rank-00000.shard"));
  CHECK(mentions(chosen->rejected[2].why, "MANIFEST"));
}

TEST_CASE("CT-2: of several folders the newest of all is chosen, of equals the first folder's") {
  scratch dir;
  const std::filesystem::path dirs[] = {dir / "first", dir / "second"};
  const auto chosen = [&] {
    auto found = newest_that_verifies(local_files(), dirs);
    REQUIRE(found);
    return *found;
  };
  CHECK(!chosen().path);
  for (const uint64_t step : {100, 120}) sample::make(dirs[1], at_step(step));
  CHECK(chosen().path == dirs[1] / "step-00000120");
  for (const uint64_t step : {110, 120}) sample::make(dirs[0], at_step(step));
  CHECK(chosen().path == dirs[0] / "step-00000120");
  damage_a_slot(dirs[0] / "step-00000120");
  auto one = chosen();
  CHECK(one.path == dirs[1] / "step-00000120");
  REQUIRE(one.rejected.size() == 1);
  CHECK(one.rejected[0].path == dirs[0] / "step-00000120");
  damage_a_slot(dirs[1] / "step-00000120");
  CHECK(chosen().path == dirs[0] / "step-00000110");
  CHECK(chosen().rejected.size() == 2);
  // A folder that cannot be read is named; the other is used.
  std::filesystem::remove_all(dirs[0]);
  REQUIRE(write_atomic(dirs[0], "no folder"));
  one = chosen();
  CHECK(one.path == dirs[1] / "step-00000100");
  REQUIRE(one.rejected.size() == 2);
  CHECK(one.rejected[0].path == dirs[0]);
  CHECK(!newest_that_verifies(local_files(), {&dirs[0], 1}));
}

TEST_CASE("retention: what no rule keeps goes, but for what is in use and what is being written") {
  scratch dir;
  for (const uint64_t step : {100, 110, 120}) sample::make(dir.path, at_step(step));
  std::filesystem::create_directory(dir / "step-00000130.e1.partial");
  caretaker keeper;
  REQUIRE(keeper.retain(dir.path, {}));
  CHECK(std::filesystem::exists(dir / "step-00000100"));
  const std::vector<std::string> in_use{"step-00000110"};
  REQUIRE(keeper.retain(dir.path, {1, 0, 0}, in_use));
  CHECK(!std::filesystem::exists(dir / "step-00000100"));
  CHECK(std::filesystem::exists(dir / "step-00000110"));
  REQUIRE(keeper.retain(dir.path, {1, 0, 0}));
  CHECK(!std::filesystem::exists(dir / "step-00000110"));
  CHECK(std::filesystem::exists(dir / "step-00000120"));
  CHECK(std::filesystem::exists(dir / "step-00000130.e1.partial"));
  CHECK(keeper.retain(dir / "absent", {1, 0, 0}));
}

TEST_CASE("HD-1: what somebody reads stays, is told of once, and goes when it is let go") {
  scratch dir;
  for (const uint64_t step : {100, 110}) sample::make(dir.path, at_step(step));
  caretaker keeper;
  {
    const auto held = reading::begin(dir / "step-00000100");
    REQUIRE(held);
    for (const bool told : {false, false, true, false}) {
      const auto kept = keeper.retain(dir.path, {1, 0, 0});
      CHECK(!kept == told);
      if (!kept) CHECK(kept.error().code == errc::unavailable);
    }
    CHECK(verify_all(dir / "step-00000100"));
  }
  REQUIRE(keeper.retain(dir.path, {1, 0, 0}));
  CHECK(names(dir.path) == std::vector<std::string>{"step-00000110"});
}

TEST_CASE("HD-1: a lock that is never given back keeps no reader from beginning") {
  scratch dir;
  const auto path = sample::make(dir.path, at_step(100));
  const auto kept = exclude_readers(local_files(), path);
  REQUIRE(kept);
  REQUIRE(*kept);
  CHECK(reading::begin(path));
}

TEST_CASE("a checkpoint under another step's name is not believed") {
  scratch dir;
  sample::make(dir.path, at_step(100));
  std::filesystem::rename(dir / "step-00000100", dir / "step-00000900");
  auto chosen = newest_that_verifies(local_files(), {&dir.path, 1});
  REQUIRE(chosen);
  CHECK(!chosen->path);
  REQUIRE(chosen->rejected.size() == 1);
  CHECK(is_error(chosen->rejected[0].why, of_another_step, 100));
}

TEST_CASE("SV-4 SV-6: a step of the same launch is exchanged, one of another launch is set aside") {
  scratch dir;
  auto what = at_step(100);
  what.line = {{7, 100}};
  sample::make(dir.path, what);
  what.seed = 9;
  what.epoch = 4;
  const auto path = sample::make(dir.path, what);
  CHECK(names(dir.path) == std::vector<std::string>{"step-00000100"});
  auto r = reader::open(path);
  REQUIRE(r);
  CHECK(r->content().head.epoch == 4);
  CHECK(r->verify()->damages.empty());
  for (const uint64_t launch : {8u, 9u}) {
    what.line = {{7, 90}, {launch, 100}};
    sample::make(dir.path, what);
  }
  CHECK(reader::open(path)->content().head.line.back().launch == 9);
  for (const char* aside : {"step-00000100.aside-1", "step-00000100.aside-2"})
    CHECK(verify_all(dir / aside));
  CHECK(reader::open(dir / "step-00000100.aside-2")->content().head.line.back().launch == 8);
}

TEST_CASE("SV-7: what bears a step's name and is no checkpoint of ours stays, and the save fails") {
  const auto refused_by = [](const std::string& foreign) {
    scratch dir;
    const auto partial = dir / partial_name(100, 3);
    put_file(dir / foreign, "mine");
    std::filesystem::create_directory(partial);
    const auto before = tree_of(dir.path);
    auto disk = open_disk({disk_backend::threads, 2, 2, {}});
    REQUIRE(disk);
    manifest_head head;
    head.step = 100;
    const auto refused = publish(**disk, partial, head);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::permission);
    CHECK(tree_of(dir.path) == before);
  };
  refused_by("step-00000100/thesis.txt");
  refused_by("step-00000100/MANIFEST");
  refused_by("step-00000100");
}

TEST_CASE(
    "CT-4: what is set aside keeps its bytes where a file system knows no flags of a rename") {
  scratch dir;
  for (const uint64_t step : {100, 110}) sample::make(dir.path, at_step(step));
  std::filesystem::create_directory(dir / aside_name(110, 1));
  const auto all = list(dir.path);
  REQUIRE(all);
  const auto left = left_behind(*all, {});
  REQUIRE(left.size() == 2);
  result<std::vector<std::filesystem::path>> done = error{errc::bug, "not tried"};
  if (!without_rename_flags([&] { done = set_aside(local_files(), left); })) return;
  REQUIRE_MESSAGE(done, (done ? "" : render(done.error())));
  REQUIRE(done->size() == 2);
  CHECK((*done)[0] == dir / aside_name(110, 2));
  CHECK((*done)[1] == dir / aside_name(100, 1));
  for (const auto& path : *done) CHECK(verify_all(path));
}

TEST_CASE(
    "HD-1: what is removed is locked by a descriptor that NFS can lock, closed before it goes") {
  scratch dir;
  const auto path = sample::make(dir.path, at_step(100));
  {
    const auto locked = exclude_readers(local_files(), path);
    REQUIRE(locked);
    CHECK((::fcntl(static_cast<const unique_fd*>(locked->get())->get(), F_GETFL) & O_ACCMODE) ==
          O_RDWR);
  }
  const unique_fd events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  REQUIRE(events);
  REQUIRE(::inotify_add_watch(events.get(), path.c_str(), IN_OPEN | IN_CLOSE | IN_DELETE) >= 0);
  const auto all = list(dir.path);
  REQUIRE(all);
  REQUIRE(checkpoint::remove(local_files(), {path, all->front().name, 0, {}}));
  alignas(inotify_event) std::array<char, 65536> buffer{};
  const auto bytes = ::read(events.get(), buffer.data(), buffer.size());
  REQUIRE(bytes > 0);
  int open = 0, deleted = 0;
  for (ssize_t at = 0; at < bytes;) {
    const auto* e = reinterpret_cast<const inotify_event*>(buffer.data() + at);
    at += static_cast<ssize_t>(sizeof *e + e->len);
    if (e->len == 0 || std::string_view(e->name) != manifest_file) continue;
    if (e->mask & IN_OPEN) ++open;
    if (e->mask & IN_CLOSE) --open;
    if (!(e->mask & IN_DELETE)) continue;
    ++deleted;
    CHECK(open == 0);
  }
  CHECK(deleted == 1);
}

TEST_CASE("what retention keeps") {
  const std::vector<catalog_entry> all = {known(60, 2.0),      known(50, 1.0),
                                          known(40, 1.5),      known(30, 3.0),
                                          known(20, {}, true), known(10, std::nan(""))};
  struct row {
    retention rules;
    steps expected;
  };
  const std::vector<row> rows = {
      {{0, 0, 0, 0}, {60, 50, 40, 30, 20, 10}},
      {{1, 0, 0, 0}, {60, 20}},
      {{3, 0, 0, 0}, {60, 50, 40, 20}},
      {{9, 0, 0, 0}, {60, 50, 40, 30, 20, 10}},
      {{0, 30, 0, 0}, {60, 30, 20}},
      {{0, 7, 0, 0}, {60, 20}},  // RT-1
      {{0, 0, 1, 0}, {60, 50, 20}},
      {{0, 0, 2, 0}, {60, 50, 40, 20}},
      {{0, 0, 9, 0}, {60, 50, 40, 30, 20}},
      {{2, 30, 1, 0}, {60, 50, 30, 20}},
  };
  for (const auto& r : rows) {
    CAPTURE(r.rules.keep_last);
    CAPTURE(r.rules.keep_every);
    CAPTURE(r.rules.keep_best);
    CHECK(kept(all, r.rules) == r.expected);
    auto shuffled = all;
    std::reverse(shuffled.begin(), shuffled.end());
    auto same = kept(shuffled, r.rules);
    std::reverse(same.begin(), same.end());
    CHECK(same == r.expected);
  }
  auto unreadable = all;  // RT-2: not counted, not removed
  unreadable[0].head.reset();
  CHECK(kept(unreadable, {1, 0, 0, 0}) == steps{60, 50, 20});
}

TEST_CASE("removal: oldest first, leftovers when they are old, never what is in use") {
  std::vector<catalog_entry> all = {known(60), known(50), known(40)};
  const auto leftover = [](std::string name, int64_t changed) {
    catalog_entry e;
    e.name = *parse_folder_name(name);
    e.path = name;
    e.changed_s = changed;
    return e;
  };
  all.insert(all.begin(), leftover("step-00000070.e3.partial", 1000));
  all.push_back(leftover("step-00000030.e3.partial", 100));
  all.push_back(leftover("step-00000020.deleting", 1000));
  const retention rules{1, 0, 0, 500};
  const auto doomed_names = [&](const std::vector<std::string>& in_use) {
    std::vector<std::string> out;
    for (const auto& d : plan_removal(all, rules, all_sound, 1000, in_use)) {
      CHECK(!d.why.empty());
      out.push_back(d.path.string());
    }
    return out;
  };
  CHECK(doomed_names({}) == std::vector<std::string>{"step-00000020.deleting",
                                                     "step-00000030.e3.partial", "step-00000040",
                                                     "step-00000050"});
  CHECK(doomed_names({"step-00000040", "step-00000030.e3.partial"}) ==
        std::vector<std::string>{"step-00000020.deleting", "step-00000050"});
}

TEST_CASE("RT-3: a removal that was interrupted is finished later, nothing reads it meanwhile") {
  scratch dir;
  sample::make(dir.path, at_step(100));
  sample::make(dir.path, at_step(110));
  std::filesystem::rename(dir / "step-00000100", dir / deleting_name(100));
  CHECK(newest_that_verifies(local_files(), {&dir.path, 1})->path == dir / "step-00000110");
  sample::make(dir.path, at_step(100));  // saved again: its removal meets the old leftover
  auto all = list(dir.path);
  REQUIRE(all);
  for (const auto& d : plan_removal(*all, {1, 0, 0, 0}, all_sound, 0))
    REQUIRE(checkpoint::remove(local_files(), d));
  CHECK(names(dir.path) == std::vector<std::string>{"step-00000110"});
}
