// The journal, the record and the gauges of a budget on their way to a disk; a pipe that nobody
// reads stands for one that hangs.
#include "apps/power/budget_disk.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/budget_trace.hpp"
#include "apps/power/tree_report.hpp"
#include "io/file.hpp"
#include "tests/apps/ended.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::apps::power_verb;

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds disk_patience{60};

/// What is in a pipe now.
std::string drained(int fd) {
  std::string out(65'536, '\0');
  const auto n = ::read(fd, out.data(), out.size());
  out.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return out;
}

/// A line of a journal, and such lines as a file has them.
std::string line_of(int number) {
  return stamped("{\"n\":" + std::to_string(number) + "}", 1);
}

std::string lines_of(const std::vector<int>& numbers) {
  std::string out;
  for (const int n : numbers) out += line_of(n) + "\n";
  return out;
}

/// Rows of a trace at those seconds, without and with their heading.
std::string trace_rows(const std::vector<int>& seconds) {
  std::string out;
  for (const int s : seconds) out += std::to_string(s) + ".000,61.3,70,0,0,0,0,1,1,0,0,0\n";
  return out;
}

std::string trace_with(const std::vector<int>& seconds) {
  return std::string(troupe::power::budget_trace_heading) + "\n" + trace_rows(seconds);
}

void take_ticks(budget_trace_file& trace, const std::vector<int>& seconds) {
  troupe::power::budget_trace_row row;
  row.watts = 61.3;
  row.budget_w = 70;
  for (const int s : seconds) trace.take(row, s);
  REQUIRE(trace.settle(disk_patience));
}

/// Bytes of a file that two of these lines fit, and no third.
constexpr size_t two_lines = 44;

}  // namespace

TEST_CASE("PSV-3: budget disk: a journal whose disk hangs holds nobody up, and goes on") {
  const scratch folder;
  const auto file = folder / "power.jsonl";
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  budget_journal journal(file, false, 2);
  for (int i = 1; i <= 10; ++i) journal.take("{\"n\":" + std::to_string(i) + "}", i);
  CHECK_FALSE(journal.settle(std::chrono::milliseconds(1)));
  const io::unique_fd reader(open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(reader);
  REQUIRE(journal.settle(disk_patience));
  const auto text = drained(reader.get());
  const auto lines = std::count(text.begin(), text.end(), '\n');
  CHECK(text.starts_with("{\"unix_s\":1.0,\"n\":1}\n{\"unix_s\":2.0,\"n\":2}\n"));
  CHECK(lines >= 2);  // one is being written, and two wait
  CHECK(lines <= 3);
  journal.take("{\"n\":11}", 11);
  REQUIRE(journal.settle(disk_patience));
  CHECK(drained(reader.get()) == "{\"unix_s\":11.0,\"n\":11}\n");
}

TEST_CASE("JNF-1: budget disk: lines that wait for a disk have a bound in bytes, too") {
  const scratch folder;
  const auto file = folder / "power.inputs";
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  constexpr size_t line_bytes = size_t{1} << 20, given = 40;
  static_assert(given > journal_file::waiting_bytes / line_bytes);
  journal_file journal(file);
  for (size_t i = 0; i < given; ++i) journal.take(std::string(line_bytes, 'x'));
  const io::unique_fd reader(open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(reader);
  std::string text;
  while (!journal.settle(std::chrono::milliseconds(1))) text += drained(reader.get());
  for (auto rest = drained(reader.get()); !rest.empty(); rest = drained(reader.get())) text += rest;
  CHECK(std::count(text.begin(), text.end(), '\n') == journal_file::waiting_bytes / line_bytes);
  journal.take(std::string("{}"));  // and there is room again
  REQUIRE(journal.settle(disk_patience));
  CHECK(drained(reader.get()) == "{}\n");
}

TEST_CASE("JNF-2: budget disk: a journal keeps its newest files") {
  const scratch folder;
  const auto file = folder / "power.jsonl";
  const auto names = journal_names(file.string());
  REQUIRE(names.size() == journal_file::most_files);
  {
    journal_file journal(file, journal_file::waiting_lines, two_lines);
    for (int i = 1; i <= 9; ++i) journal.take(line_of(i));
    REQUIRE(journal.settle(disk_patience));
  }
  CHECK(content(names[0]) == lines_of({9}));
  CHECK(content(names[1]) == lines_of({7, 8}));
  CHECK(content(names[2]) == lines_of({5, 6}));
  CHECK(content(names[3]) == lines_of({3, 4}));
  CHECK(!fs::exists(file.string() + ".4"));
  journal_file later(file, journal_file::waiting_lines, two_lines);  // a later life goes on in it
  const auto longer = stamped(std::string(two_lines, 'x'), 1);       // has a file of its own
  later.take(line_of(10));
  later.take(longer);
  REQUIRE(later.settle(disk_patience));
  CHECK(content(names[0]) == longer + "\n");
  CHECK(content(names[1]) == lines_of({9, 10}));
}

TEST_CASE("JNF-2: budget disk: each file of a trace begins with its heading") {
  const scratch folder;
  const auto file = folder / "power.csv";
  const auto names = journal_names(file.string());
  const std::string heading(troupe::power::budget_trace_heading);
  troupe::power::budget_trace_row row;
  row.watts = 61.3;
  row.budget_w = 70;
  const auto lines = [&](std::vector<int> seconds) {
    auto out = heading + "\n";
    for (const int s : seconds) out += std::to_string(s) + ".000,61.3,70,0,0,0,0,1,1,0,0,0\n";
    return out;
  };
  {
    budget_trace_file trace(file, lines({1, 2}).size());
    for (const int s : {1, 2, 2, 3}) trace.take(row, s);
    REQUIRE(trace.settle(disk_patience));
  }
  CHECK(content(names[1]) == lines({1, 2}));
  CHECK(content(names[0]) == lines({3}));
  budget_trace_file later(file);  // a later life goes on in it
  later.take(row, 4);
  REQUIRE(later.settle(disk_patience));
  CHECK(content(names[0]) == lines({3, 4}));
  fs::rename(names[0], folder / "moved.csv");
  later.take(row, 5);
  REQUIRE(later.settle(disk_patience));
  CHECK(content(names[0]) == lines({5}));
}

TEST_CASE("JNF-4: budget disk: half a row is cut off, of a life before and of a full disk") {
  const scratch folder;
  const auto file = folder / "power.csv";
  for (const auto& torn : {std::string("3.000,61"), std::string("3")}) {
    CAPTURE(torn);
    put_file(file, trace_with({1, 2}) + torn);
    budget_trace_file trace(file);
    take_ticks(trace, {4, 5});
    CHECK(content(file) == trace_with({1, 2, 4, 5}));
  }
  for (const auto& torn : {std::string(), std::string("t_s,wat"), trace_with({})}) {
    CAPTURE(torn);
    put_file(file, torn);
    budget_trace_file trace(file);
    take_ticks(trace, {4});
    CHECK(content(file) == trace_with({4}));
  }
  budget_trace_file full(file);
  take_ticks(full, {5});
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto usual = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = trace_with({4, 5}).size() + 10;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  take_ticks(full, {6, 7});
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, usual);
  take_ticks(full, {8, 9});
  CHECK(content(file) == trace_with({4, 5, 8, 9}));
  CHECK_FALSE(fs::exists(file.string() + ".1"));
}

TEST_CASE("JNF-4: budget disk: a trace that ends later, or has other columns, is moved away") {
  const scratch folder;
  const auto file = folder / "power.csv";
  const auto names = journal_names(file.string());
  put_file(file, trace_with({1, 8}));
  {
    budget_trace_file trace(file);  // the clock was set back meanwhile
    take_ticks(trace, {5, 6});
  }
  CHECK(content(names[0]) == trace_with({5, 6}));
  CHECK(content(names[1]) == trace_with({1, 8}));
  const std::string others = "t_s,watts,budget_w,later\n1,2,3,4\n";
  put_file(file, others);
  {
    budget_trace_file trace(file);
    take_ticks(trace, {7});
  }
  CHECK(content(names[0]) == trace_with({7}));
  CHECK(content(names[1]) == others);
  CHECK(content(names[2]) == trace_with({1, 8}));
  put_file(file, trace_with({5, 9}) + "6.000,6");  // torn, and what is whole ends later
  budget_trace_file trace(file, trace_with({8, 9}).size());
  take_ticks(trace, {8, 9, 10});
  CHECK(content(names[0]) == trace_with({10}));  // one of other columns is moved on, too
  CHECK(content(names[1]) == trace_with({8, 9}));
  CHECK(content(names[2]) == trace_with({5, 9}));
  CHECK(content(names[3]) == others);
}

TEST_CASE("JNF-4: budget disk: what is no trace takes no row and stays, whatever its length") {
  const scratch folder;
  const auto file = folder / "power.csv";
  for (const auto& other :
       {std::string("t_s,watts\n0,1\n1,1\n"), std::string("notes"), trace_rows({1, 2, 3})}) {
    CAPTURE(other);
    put_file(file, other);
    budget_trace_file trace(file, 4);
    take_ticks(trace, {4, 5});
    CHECK(content(file) == other);
    CHECK_FALSE(fs::exists(file.string() + ".1"));
    fs::rename(file, folder / "mine.csv");
    take_ticks(trace, {6});
    CHECK(content(file) == trace_with({6}));
  }
  put_file(file.string() + ".1", "a person's notes\n");
  put_file(file, trace_with({8}));
  budget_trace_file trace(file);  // neither can it be moved there
  take_ticks(trace, {7});
  CHECK(content(file) == trace_with({8}));
  take_ticks(trace, {9});
  CHECK(content(file) == trace_with({8, 9}));
  CHECK(content(file.string() + ".1") == "a person's notes\n");
}

TEST_CASE("JNF-4: budget disk: a pipe is told the heading of a trace once") {
  const scratch folder;
  const auto file = folder / "power.csv";
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  const io::unique_fd reader(open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(reader);
  budget_trace_file trace(file);
  take_ticks(trace, {1, 2, 3});
  CHECK(drained(reader.get()) == trace_with({1, 2, 3}));
}

TEST_CASE("JNF-2: budget disk: a journal that cannot be moved goes on where it is") {
  const scratch folder;
  const auto file = folder / "power.jsonl";
  const auto names = journal_names(file.string());
  fs::create_directories(names.back());  // no file takes the place of a folder
  journal_file journal(file, journal_file::waiting_lines, two_lines);
  for (int i = 1; i <= 9; ++i) journal.take(line_of(i));
  REQUIRE(journal.settle(disk_patience));
  CHECK(content(names[0]) == lines_of({5, 6, 7, 8, 9}));
  CHECK(content(names[1]) == lines_of({3, 4}));
  CHECK(content(names[2]) == lines_of({1, 2}));
  CHECK(fs::is_directory(names.back()));
  fs::remove(names.back());  // it is tried again once the file has grown by its bound
  for (int i = 10; i <= 11; ++i) journal.take(line_of(i));
  REQUIRE(journal.settle(disk_patience));
  CHECK(content(names[0]) == lines_of({11}));
  CHECK(content(names[1]).starts_with(lines_of({5})));
}

TEST_CASE("JNF-3: budget disk: a journal takes the place of no file that is none, and moves none") {
  const scratch folder;
  const auto file = folder / "power.jsonl";
  const auto names = journal_names(file.string());
  std::ofstream(names[2]) << "a person's notes\n";
  {
    journal_file journal(file, journal_file::waiting_lines, two_lines);
    for (int i = 1; i <= 7; ++i) journal.take(line_of(i));
    REQUIRE(journal.settle(disk_patience));
  }
  CHECK(content(names[0]) == lines_of({1, 2, 3, 4, 5, 6, 7}));
  CHECK_FALSE(fs::exists(names[1]));
  CHECK(content(names[2]) == "a person's notes\n");
  CHECK_FALSE(fs::exists(names[3]));
}

TEST_CASE("budget disk: tasks are done in their order, those that find no room are not taken") {
  auto seen = std::make_shared<std::string>();
  {
    background tasks(3);
    for (const char c : {'a', 'b', 'c'}) REQUIRE(tasks.put([seen, c] { *seen += c; }));
    REQUIRE(tasks.settle(disk_patience));
    CHECK(*seen == "abc");
  }
  background none(0);
  CHECK_FALSE(none.put([seen] { *seen += 'x'; }));
  CHECK(none.settle(disk_patience));
  CHECK(*seen == "abc");
}

TEST_CASE("budget disk: a record is in its file when its write has ended, and a failure is told") {
  const scratch folder;
  const auto file = folder / "later" / "power.state";
  record_file keeper(file);
  CHECK(!keeper.ended());
  keeper.keep(1, "one\n");
  REQUIRE(keeper.settle(disk_patience));
  auto outcome = keeper.ended();
  REQUIRE(outcome);
  CHECK(outcome->number == 1);
  REQUIRE(outcome->why);
  CHECK(!keeper.ended());
  fs::create_directory(folder / "later");
  keeper.keep(2, "two\n");
  REQUIRE(keeper.settle(disk_patience));
  outcome = keeper.ended();
  REQUIRE(outcome);
  CHECK(outcome->number == 2);
  CHECK(!outcome->why);
  CHECK(content(file) == "two\n");
}

TEST_CASE("BDK-2: budget disk: no file is an empty record, one that is not ours is refused") {
  const scratch folder;
  const auto none = read_record(folder / "power.state");
  REQUIRE(none);
  CHECK(*none == power::budget_record{});
  for (const auto* text : {"", "{}", "{\"epoch\":1}"}) {
    CAPTURE(text);
    put_file(folder / "power.state", text);
    const auto record = read_record(folder / "power.state");
    REQUIRE_FALSE(record);
    CHECK(record.error().code == errc::bad_data);
    CHECK(mentions(record.error(), folder / "power.state"));
  }
}

TEST_CASE("BDK-3: budget disk: a file for monitoring is replaced, also once it could not be") {
  const scratch folder;
  const auto file = folder / "later" / "row0.prom";
  const auto tree_with = [](int64_t cap_mw) {
    fbs::PowerTreeT t;
    t.name = "row0";
    t.cap_mw = cap_mw;
    return t;
  };
  tree_textfile shown(file);
  shown.take(tree_with(70'000));
  REQUIRE(shown.settle(disk_patience));
  CHECK_FALSE(fs::exists(file));
  fs::create_directory(folder / "later");
  for (const int64_t cap_mw : {60'000, 55'500}) {
    shown.take(tree_with(cap_mw));
    REQUIRE(shown.settle(disk_patience));
    CHECK(content(file) == tree_prometheus(tree_with(cap_mw)));
  }
  CHECK(content(file).find("troupe_power_budget_watts{budget=\"row0\"} 55.5\n") !=
        std::string::npos);
}

TEST_CASE("BDK-4: budget disk: a file for monitoring takes no other file's place") {
  const scratch folder;
  const auto own = folder / "row0.prom", other = folder / "notes.txt", empty = folder / "empty";
  put_file(other, "# HELP wanted\n");
  put_file(empty, "");
  fs::create_directory(folder / "in");
  for (const auto& file : {own, other, empty, folder / "in"}) {
    textfile shown(file);
    for (const auto* text : {"# HELP troupe_x One.\n", "# HELP troupe_x Two.\n"}) {
      shown.take([text] { return std::string(text); });
      REQUIRE(shown.settle(disk_patience));
    }
  }
  CHECK(content(own) == "# HELP troupe_x Two.\n");
  CHECK(content(empty) == "# HELP troupe_x Two.\n");
  CHECK(content(other) == "# HELP wanted\n");
  CHECK(fs::is_empty(folder / "in"));
}
