// A journal as a file: on the machine's file system and on one that fails by plan.
#include "io/journal/journal.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <optional>

#include "io/disk/faulty_disk.hpp"
#include "tests/errors.hpp"
#include "tests/io/journal/decisions.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::io;
namespace fs = std::filesystem;

namespace {

/// Calls `body` with the machine's files and with ones in memory, and an empty folder on each.
void each_files(const std::function<void(file_system&, const fs::path&)>& body) {
  scratch dir;
  body(local_files(), dir.path);
  faulty_disk d(crash_store::make(), {});
  REQUIRE(d.make_dir("/t"));
  body(d, "/t");
}

/// A journal with "one" in it, in a memory that fails by plan. So far it took two writes, two
/// syncs, one rename and one sync of its folder, and no cut.
struct failing {
  std::shared_ptr<crash_store> store = crash_store::make();
  faulty_disk d{store, {}};
  std::optional<journal> j;

  explicit failing(std::vector<planned_fault> plan = {}) {
    for (const auto& fault : plan) d.plan(fault);
    REQUIRE(d.make_dir("/t"));
    auto made = journal::create(d, "/t/journal");
    REQUIRE(made);
    j.emplace(std::move(*made));
    REQUIRE(append(*j, "one"));
  }
  std::string texts() { return texts_of(read_journal(d, "/t/journal")); }
  uint64_t dropped() { return read_journal(d, "/t/journal")->dropped_bytes; }
};

/// A limit on the size of files while it lives: writes beyond it fail, as on a full disk.
struct file_limit {
  rlimit before{};
  explicit file_limit(uint64_t bytes) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit now{bytes, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~file_limit() { ::setrlimit(RLIMIT_FSIZE, &before); }
};

}  // namespace

TEST_CASE("journal: what was appended is found by the next process, in order") {
  each_files([](file_system& files, const fs::path& dir) {
    const auto name = dir / journal_file;
    CHECK(read_journal(files, name).error().code == errc::not_found);
    CHECK(journal::open(files, name).error().code == errc::not_found);
    {
      auto made = journal::create(files, name);
      REQUIRE(made);
      CHECK(made->bytes() == journal_header_bytes);
      for (const auto& r : some_records())
        REQUIRE(made->append(r.kind, as_bytes(r.payload), durable::yes));
      CHECK(made->name() == name);
      CHECK(made->health());
    }
    auto next = journal::open(files, name);
    REQUIRE(next);
    CHECK(next->found.records == some_records());
    CHECK(next->found.dropped_bytes == 0);
    REQUIRE(append(next->writer, "more", durable::no));
    auto all = some_records();
    all.push_back({1, "more"});
    const auto read = read_journal(files, name);
    REQUIRE(read);
    CHECK(read->records == all);
    CHECK(read->whole_bytes == next->writer.bytes());
    CHECK(files.list(dir)->size() == 1);
  });
}

TEST_CASE("journal: none is made over another, nor over what is a person's") {
  each_files([](file_system& files, const fs::path& dir) {
    REQUIRE(files.write_small(dir / "journal", "mine", durable::no));
    CHECK(is_error(journal::create(files, dir / "journal"), journal_exists, dir / "journal"));
    CHECK(is_error(journal::open(files, dir / "journal"), not_a_journal, dir / "journal"));
    CHECK(*files.read_small(dir / "journal", 100) == "mine");
    REQUIRE(files.write_small(dir / "j.partial", "mine, too", durable::no));
    CHECK(is_error(journal::create(files, dir / "j"), not_a_journal, dir / "j.partial"));
    CHECK(*files.read_small(dir / "j.partial", 100) == "mine, too");
    const auto left = encoded(some_records()).substr(0, 30);  // of one that was cut off
    REQUIRE(files.write_small(dir / "j.partial", left, durable::no));
    REQUIRE(journal::create(files, dir / "j"));
    CHECK(texts_of(read_journal(files, dir / "j")).empty());
  });
}

TEST_CASE("journal: a torn tail is cut off at whatever byte, and the next record goes there") {
  const auto all = some_records();
  auto earlier = all;
  earlier.pop_back();
  const auto bytes = encoded(all), before = encoded(earlier);
  faulty_disk d(crash_store::make(), {});
  REQUIRE(d.make_dir("/t"));
  auto expected = earlier;
  expected.push_back({9, "next"});
  for (size_t cut = before.size(); cut < bytes.size(); ++cut) {
    REQUIRE(d.write_small("/t/j", bytes.substr(0, cut), durable::no));
    auto opened = journal::open(d, "/t/j");
    REQUIRE(opened);
    REQUIRE(opened->found.records == earlier);
    REQUIRE(opened->found.dropped_bytes == cut - before.size());
    REQUIRE(d.read_small("/t/j", 10000)->size() == before.size());
    REQUIRE(opened->writer.append(9, as_bytes("next"), durable::yes));
    const auto read = read_journal(d, "/t/j");
    REQUIRE(read);
    REQUIRE(read->records == expected);
    REQUIRE(read->dropped_bytes == 0);
  }
}

TEST_CASE("journal: reading changes nothing, a newer version is left as it is") {
  scratch dir;
  auto bytes = encoded(some_records());
  bytes.resize(bytes.size() - 3);
  put_file(dir / "j", bytes);
  CHECK(read_journal(local_files(), dir / "j")->dropped_bytes > 0);
  auto newer = encoded({});
  newer[8] = 2;
  const auto sum = crc32c(as_bytes(newer).first(12));
  newer.replace(12, 4, reinterpret_cast<const char*>(&sum), 4);
  put_file(dir / "newer", newer + "what nobody here knows");
  const auto before = tree_of(dir.path);
  CHECK(is_error(journal::open(local_files(), dir / "newer"), newer_journal, dir / "newer", 2, 1));
  CHECK(tree_of(dir.path) == before);
}

TEST_CASE("journal: its file is its owner's alone, a compacted one too") {
  scratch dir;
  const auto mode = [&] {
    struct stat facts {};
    REQUIRE(::stat((dir / "j").c_str(), &facts) == 0);
    return facts.st_mode & 0777;
  };
  auto made = journal::create(local_files(), dir / "j");
  REQUIRE(made);
  CHECK(mode() == 0600);
  put_file(dir / "j.partial", encoded({}));  // what another umask left
  REQUIRE(made->compact(some_records()));
  CHECK(mode() == 0600);
}

TEST_CASE("limits: a journal beyond its length is refused, and takes no record") {
  scratch dir;
  put_file(dir / "j", encoded({}));
  fs::resize_file(dir / "j", max_journal_bytes + 1);
  CHECK(read_journal(local_files(), dir / "j").error() ==
        journal_too_long((dir / "j").string(), max_journal_bytes + 1, max_journal_bytes));
  std::error_code
      refused;  // no memory is asked for what is that long, where there can be such a file
  fs::resize_file(dir / "j", uint64_t{1} << 43, refused);
  CHECK(is_error(read_journal(local_files(), dir / "j"), journal_too_long));
  const std::string most(max_record_bytes, 'm');
  auto made = journal::create(local_files(), dir / "full");
  REQUIRE(made);
  CHECK(is_error(append(*made, most + "m"), record_too_long));
  auto taken = append(*made, most, durable::no);
  while (taken) taken = append(*made, most, durable::no);
  CHECK(is_error(taken, journal_full, dir / "full", max_journal_bytes));
  CHECK(made->bytes() <= max_journal_bytes);
  CHECK(made->bytes() > max_journal_bytes - max_record_bytes - record_head_bytes);
  CHECK(append(*made, "a short one"));  // there is a place for it
  CHECK(read_journal(local_files(), dir / "full")->dropped_bytes == 0);
  const std::vector<journal_record> too_many(260, {1, most});
  CHECK(is_error(made->compact(too_many), journal_full, dir / "full"));
  CHECK(is_error(made->compact(std::vector<journal_record>{{1, most + "m"}}), record_too_long));
  CHECK(fs::file_size(dir / "full") == made->bytes());
  REQUIRE(made->compact({}));
  CHECK(append(*made, most));
}

TEST_CASE("JRN-5 journal: a full disk leaves what was, and takes records once there is room") {
  scratch dir;
  auto made = journal::create(local_files(), dir / "j");
  REQUIRE(made);
  REQUIRE(append(*made, "one"));
  const auto bytes = made->bytes();
  {
    file_limit full(bytes + 20);
    CHECK(is_error(append(*made, std::string(100, 'x')), "EFBIG", dir / "j"));
    CHECK(append(*made, "two"));  // there is room for it
    CHECK(is_error(append(*made, std::string(100, 'x')), "EFBIG"));
  }
  CHECK(made->health());
  CHECK(fs::file_size(dir / "j") == made->bytes());
  CHECK(texts_of(read_journal(local_files(), dir / "j")) == "one two ");
  CHECK(append(*made, "three"));
  const auto read = read_journal(local_files(), dir / "j");
  CHECK(texts_of(read) == "one two three ");
  CHECK(read->dropped_bytes == 0);
}

TEST_CASE("JRN-8 journal: room is kept behind its end, on the machine's file system too") {
  scratch dir;
  auto made = journal::create(local_files(), dir / "j");
  REQUIRE(made);
  if (made->room() == 0) {
    MESSAGE("SKIPPED: the file system sets nothing aside");
    return;
  }
  struct stat facts {};
  REQUIRE(::stat((dir / "j").c_str(), &facts) == 0);
  CHECK(facts.st_size == journal_header_bytes);
  CHECK(static_cast<uint64_t>(facts.st_blocks) * 512 >= journal::room_bytes);
  const std::string most(max_record_bytes, 'm');
  for (int i = 0; i < 10; ++i) {
    REQUIRE(append(*made, most, durable::no));
    CHECK(made->room() >= max_record_bytes + record_head_bytes);
  }
}

TEST_CASE("JRN-8 journal: a full disk takes the next decisions all the same") {
  failing f;
  const std::string most(max_record_bytes, 'm');
  f.store->set_outage("/t", outage::full);
  REQUIRE(append(*f.j, most));  // the longest that there is
  CHECK(f.j->room() > 0);
  int more = 0;
  status last;
  for (; more < 100 && last; ++more) last = append(*f.j, most);
  CHECK(more < 10);
  CHECK(is_error(last, "ENOSPC", "/t/journal"));
  CHECK(f.j->room() == 0);
  const auto before = f.j->bytes();
  CHECK(is_error(append(*f.j, "x"), "ENOSPC"));
  CHECK(f.j->bytes() == before);
  CHECK(is_error(f.j->compact({}), "ENOSPC"));  // a new file needs a place of its own
  CHECK(f.j->health());
  f.store->set_outage("/t", outage::none);
  CHECK(append(*f.j, "x"));
  CHECK(f.j->room() >= most.size());
  CHECK(f.dropped() == 0);
}

TEST_CASE("JRN-5 journal: half a record that a failed write left is cut off") {
  failing f({{fault_site::write, 3, fault_effect::shorten, 0, 5},
             {fault_site::write, 4, fault_effect::fail, ENOSPC}});
  CHECK(is_error(append(*f.j, "two"), "ENOSPC", "/t/journal"));
  CHECK(f.d.read_small("/t/journal", 1000)->size() == f.j->bytes());
  CHECK(f.dropped() == 0);
  CHECK(append(*f.j, "three"));
  CHECK(f.texts() == "one three ");
}

TEST_CASE("JRN-5 journal: where that cannot be cut off, it is closed until it is compacted") {
  failing f({{fault_site::write, 3, fault_effect::shorten, 0, 5},
             {fault_site::write, 4, fault_effect::fail, ENOSPC},
             {fault_site::cut, 1}});
  CHECK(is_error(append(*f.j, "two"), journal_closed, "/t/journal"));
  CHECK(is_error(append(*f.j, "three"), journal_closed, "/t/journal"));
  CHECK(is_error(f.j->health(), journal_closed));
  CHECK(f.texts() == "one ");
  CHECK(f.dropped() == 5);
  REQUIRE(f.j->compact(std::vector<journal_record>{{1, "all"}}));
  CHECK(f.j->health());
  CHECK(append(*f.j, "four"));
  CHECK(f.texts() == "all four ");
  CHECK(f.dropped() == 0);
}

TEST_CASE("JRN-5 journal: a failed sync closes it: no later one says what the disk has") {
  failing f({{fault_site::fdatasync, 3}});
  CHECK(is_error(append(*f.j, "two"), journal_closed));
  CHECK(f.texts() == "one ");
  CHECK(is_error(append(*f.j, "three", durable::no), journal_closed));
  REQUIRE(f.j->compact(std::vector<journal_record>{{1, "all"}}));
  CHECK(append(*f.j, "four"));
  CHECK(f.texts() == "all four ");
}

TEST_CASE("JRN-6 journal: compacting that fails leaves the old one, which goes on") {
  const std::vector<planned_fault> faults = {{fault_site::open, 2},
                                             {fault_site::write, 3},
                                             {fault_site::fdatasync, 3},
                                             {fault_site::rename, 2}};
  for (const auto& fault : faults) {
    CAPTURE(static_cast<int>(fault.site));
    failing f({fault});
    CHECK(is_error(f.j->compact(std::vector<journal_record>{{1, "all"}}), "EIO"));
    CHECK(f.texts() == "one ");
    CHECK(append(*f.j, "two"));
    CHECK(f.texts() == "one two ");
    const auto left = f.d.read_small("/t/journal.partial", 1000);
    CHECK((!left || left->empty()));  // its disk is for others
    CHECK(f.j->compact(std::vector<journal_record>{{1, "all"}}));
    CHECK(append(*f.j, "three"));
    CHECK(f.texts() == "all three ");
  }
}

TEST_CASE("JRN-6 journal: a new name that is not durable takes no record") {
  failing f({{fault_site::sync_dir, 2}});
  CHECK(is_error(f.j->compact(std::vector<journal_record>{{1, "all"}}), journal_closed));
  CHECK(is_error(append(*f.j, "two"), journal_closed));
  REQUIRE(f.j->compact(std::vector<journal_record>{{1, "all"}}));
  CHECK(append(*f.j, "three"));
  CHECK(f.texts() == "all three ");
}

TEST_CASE("journal: what cannot be opened whole is not opened") {
  for (const auto& fault : {planned_fault{fault_site::cut, 1},
                            {fault_site::fdatasync, 3},
                            {fault_site::sync_dir, 2},
                            {fault_site::open, 2}}) {
    CAPTURE(static_cast<int>(fault.site));
    failing f({fault});
    auto torn = *f.d.read_small("/t/journal", 1000) + "half";
    REQUIRE(f.d.write_small("/t/journal", torn, durable::no));
    CHECK(is_error(journal::open(f.d, "/t/journal"), "EIO"));
    auto opened = journal::open(f.d, "/t/journal");
    REQUIRE(opened);
    CHECK(texts_of(opened->found) == "one ");
  }
}

TEST_CASE("journal: compacted, it is what it was told to be, and as short as that") {
  each_files([](file_system& files, const fs::path& dir) {
    auto made = journal::create(files, dir / "j", {.compact_bytes = 1000});
    REQUIRE(made);
    const std::string text(100, 'x');
    int appended = 0;
    for (; !made->is_long() && appended < 100; ++appended) REQUIRE(append(*made, text));
    CHECK(appended == 10);
    const auto held = files.open_source(dir / "j", pages::keep);
    REQUIRE(held);
    const std::vector<journal_record> snapshot(8, {3, text});
    REQUIRE(made->compact(snapshot));
    CHECK_FALSE(made->is_long());
    CHECK(read_journal(files, dir / "j")->records == snapshot);
    std::string old((*held)->size(), ' ');  // who reads the old one reads it whole
    REQUIRE((*held)->read_at(0, std::as_writable_bytes(std::span(old))));
    CHECK(parsed(old)->records.size() == 10);
    for (appended = 0; !made->is_long() && appended < 100; ++appended) REQUIRE(append(*made, text));
    CHECK(appended == 9);  // twice as long as it was
    CHECK(read_journal(files, dir / "j")->records.size() == 17);
    CHECK(files.list(dir)->size() == 1);
    auto next = journal::open(files, dir / "j");
    REQUIRE(next);
    CHECK(next->found.records.size() == 17);
  });
}

TEST_CASE("JRN-9 journal: one that was moved away takes no record until it is compacted") {
  each_files([](file_system& files, const fs::path& dir) {
    auto made = journal::create(files, dir / "j");
    REQUIRE(made);
    REQUIRE(append(*made, "one"));
    REQUIRE(files.rename(dir / "j", dir / "elsewhere"));
    CHECK(is_error(append(*made, "two"), journal_closed, dir / "j"));
    CHECK(texts_of(read_journal(files, dir / "elsewhere")) == "one ");
    REQUIRE(made->compact(std::vector<journal_record>{{1, "all"}}));
    REQUIRE(append(*made, "three"));
    CHECK(texts_of(read_journal(files, dir / "j")) == "all three ");
    CHECK(texts_of(read_journal(files, dir / "elsewhere")) == "one ");
  });
}
