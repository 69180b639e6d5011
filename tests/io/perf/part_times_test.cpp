// What parts of steps took is kept, whatever else writes, tears or fills the file.
#include "io/perf/part_times.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/perf/summed_lines.hpp"
#include "tests/errors.hpp"
#include "tests/io/full_disk.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::io::perf {

namespace {

part_time time_of(double seconds, std::string node = "a") {
  return {"backward", std::move(node), {4, 1.0 / 3, 1e9}, seconds, 3};
}

}  // namespace

TEST_CASE("part times: what was added is read, in order, with all digits") {
  const troupe::scratch here;
  const auto file = here.path / "new" / "times.jsonl";
  CHECK(read_part_times(file)->times.empty());
  const std::vector<part_time> first{time_of(0.1), time_of(1.0 / 3, "b \"\n")},
      second{{"step", "", {1}, 2, 1}};
  REQUIRE(add_part_times(file, first));
  REQUIRE(add_part_times(file, second));
  const auto read = read_part_times(file);
  REQUIRE(read);
  CHECK(read->left_out == 0);
  REQUIRE(read->times.size() == 3);
  CHECK(read->times[0] == first[0]);
  CHECK(read->times[1] == first[1]);
  CHECK(read->times[2] == second[0]);
}

TEST_CASE("part times: a line tells of its run, and one of an earlier release of none") {
  auto t = time_of(0.5);
  CHECK(part_time_line(t).find("run") == std::string::npos);
  CHECK(parse_part_time(part_time_line(t))->run == 0);
  t.run = (uint64_t{1} << 53) - 1;
  CHECK(parse_part_time(part_time_line(t)) == t);
  t.run = uint64_t{1} << 53;  // other programs read it as a double
  CHECK(parse_part_time(part_time_line(t))->run == 0);
}

TEST_CASE("part times: a line tells of which work it is, and one of an earlier release does not") {
  auto t = time_of(0.5);
  CHECK(part_time_line(t).find("work_sum") == std::string::npos);
  CHECK(parse_part_time(part_time_line(t))->work_sum == 0);
  t.work_sum = (uint64_t{1} << 34) - 1;
  CHECK(parse_part_time(part_time_line(t)) == t);
}

TEST_CASE("part times: a line tells of the node's machine, and one of an earlier release of none") {
  auto t = time_of(0.5);
  const auto without = part_time_line(t);
  CHECK(without.find("machine") == std::string::npos);
  CHECK_FALSE(parse_part_time(without)->machine.is_known());
  t.machine = {"Xeon, 8 cores, 32 GiB", ""};
  CHECK(parse_part_time(part_time_line(t)) == t);
  t.machine.gpu_ids = "0a1b2c3d";
  CHECK(parse_part_time(part_time_line(t)) == t);
}

TEST_CASE("PTM-1: a machine that no line is written of is not believed") {
  const auto is_read = [](const std::string& more) {
    return parse_part_time(summed_line(R"({"v":1,"part":"step","node":"a","seconds":1,"samples":1,)"
                                       R"("features":[1])" +
                                       more + "}"))
        .has_value();
  };
  CHECK(is_read(""));
  CHECK(is_read(R"(,"machine":"Xeon")"));
  CHECK(is_read(R"(,"machine":"Xeon","gpu_ids":"01")"));
  for (const std::string bad :
       {R"(,"machine":"")", R"(,"machine":7)", R"(,"machine":null)", R"(,"machine":["Xeon"])",
        R"(,"machine":"a\nb")", R"(,"machine":"\u00e4")", R"(,"gpu_ids":"01")",
        R"(,"machine":"Xeon","gpu_ids":1)", R"(,"machine":"Xeon","gpu_ids":"")"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_read(bad));
  }
  CHECK_FALSE(is_read(",\"machine\":\"" + std::string(print_bytes + 1, 'x') + "\""));
}

TEST_CASE("PTM-1: numbers that no part has are not believed, nor bytes that were changed") {
  for (const auto& change : std::vector<std::function<void(part_time&)>>{
           [](part_time& t) { t.seconds = 0; }, [](part_time& t) { t.seconds = std::nan(""); },
           [](part_time& t) { t.seconds = 1e300; }, [](part_time& t) { t.samples = 0; },
           [](part_time& t) { t.features[0] = 0; }, [](part_time& t) { t.features[0] = -1; },
           [](part_time& t) { t.features[0] = std::nan(""); },
           [](part_time& t) { t.features.assign(100, 1); }}) {
    auto t = time_of(1);
    REQUIRE(parse_part_time(part_time_line(t)));
    change(t);
    CHECK_FALSE(parse_part_time(part_time_line(t)));
  }
  auto long_one = time_of(1);
  long_one.features.assign(30, 1.0 / 3);
  long_one.part = long_one.node = std::string(256, 'x');
  long_one.machine = {std::string(print_bytes, 'x'), std::string(print_bytes, 'x')};
  CHECK(parse_part_time(part_time_line(long_one)));
  long_one.features.assign(30, -1.0 / 3);
  CHECK_FALSE(parse_part_time(part_time_line(long_one)));
  CHECK_FALSE(parse_part_time(summed_line(std::string(max_part_time_bytes, ' '))));
  const auto line = part_time_line(time_of(1));
  for (size_t at = 0; at < line.size(); ++at) {
    auto wrong = line;
    wrong[at] = static_cast<char>(wrong[at] ^ 1);
    CAPTURE(wrong);
    CHECK_FALSE(parse_part_time(wrong));
  }
}

TEST_CASE("part times: a torn line costs itself") {
  const troupe::scratch here;
  const auto file = here.path / "times.jsonl";
  const std::vector<part_time> one{time_of(1)}, two{time_of(2)};
  REQUIRE(add_part_times(file, one));
  const auto line = part_time_line(time_of(9));
  std::ofstream(file, std::ios::app) << line.substr(0, line.size() / 2);
  REQUIRE(add_part_times(file, two));
  const auto read = read_part_times(file);
  REQUIRE(read);
  CHECK(read->left_out == 1);
  REQUIRE(read->times.size() == 2);
  CHECK(read->times[1].seconds == 2);
}

TEST_CASE("part times: a write that a kill cut anywhere costs no line that was there before") {
  const troupe::scratch here;
  const std::vector<part_time> old{time_of(1), time_of(2)}, cut{time_of(3), time_of(4)},
      next{time_of(5)};
  const auto text = part_time_line(cut[0]) + "\n" + part_time_line(cut[1]) + "\n";
  for (size_t written = 0; written <= text.size(); ++written) {
    CAPTURE(written);
    const auto file = here.path / fmt::format("{}.jsonl", written);
    REQUIRE(add_part_times(file, old));
    std::ofstream(file, std::ios::app) << text.substr(0, written);
    REQUIRE(add_part_times(file, next));
    const auto read = read_part_times(file);
    REQUIRE(read);
    CHECK(read->left_out <= 1);
    REQUIRE(read->times.size() >= 3);
    CHECK(read->times[0] == old[0]);
    CHECK(read->times[1] == old[1]);
    CHECK(read->times.back() == next[0]);
  }
}

TEST_CASE(
    "part times: whoever is killed while it writes leaves a file that others read and add to") {
  const troupe::scratch here;
  const auto file = here.path / "times.jsonl";
  for (int killed = 0; killed < 8; ++killed) {
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
      const std::vector<part_time> many(most_part_times / 50, time_of(killed + 1));
      for (bool told = false;; told = true) {  // until it is killed; what is too much is dropped
        if (!add_part_times(file, many)) _exit(1);
        if (!told && write(pipe_ends[1], "a", 1) != 1) _exit(1);
      }
    }
    REQUIRE(child > 0);
    close(pipe_ends[1]);
    char once = 0;
    CHECK(read(pipe_ends[0], &once, 1) == 1);  // it writes on meanwhile
    REQUIRE(kill(child, SIGKILL) == 0);
    int how = 0;
    REQUIRE(waitpid(child, &how, 0) == child);
    CHECK(WIFSIGNALED(how));
    close(pipe_ends[0]);
    const auto kept = read_part_times(file);
    REQUIRE(kept);
    CHECK(kept->left_out <= static_cast<size_t>(killed) + 1);
    CHECK(kept->times.size() >= most_part_times / 50);
    const std::vector<part_time> own{time_of(0.5)};
    REQUIRE(add_part_times(file, own));
    CHECK(read_part_times(file)->times.back() == own[0]);
  }
}

TEST_CASE("PTM-2: a file that is none of ours is put aside, each under a name of its own") {
  const troupe::scratch here;
  const auto file = here.path / "times.jsonl";
  CHECK(check_part_times(file));
  for (const auto* name : {"times.jsonl.damaged", "times.jsonl.damaged2"}) {
    std::ofstream(file) << "my own\nnotes\n";
    CHECK(is_error(check_part_times(file), no_summed_lines));
    CHECK(is_error(read_part_times(file), no_summed_lines));
    const std::vector<part_time> one{time_of(1)};
    CHECK(is_error(add_part_times(file, one), no_summed_lines));
    const auto aside = put_part_times_aside(file);
    REQUIRE(aside);
    CHECK(aside->filename() == name);
    CHECK(std::filesystem::file_size(*aside) == 13);
    CHECK_FALSE(std::filesystem::exists(file));
  }
}

TEST_CASE("SML-3: a file of one whole line is a person's own, unless it has its sum") {
  const troupe::scratch here;
  const auto file = here.path / "config.json";
  const std::string text = "{\"mine\": true}\n";
  std::ofstream(file) << text;
  const std::vector<part_time> one{time_of(1)};
  CHECK(is_error(read_part_times(file), no_summed_lines));
  CHECK(is_error(add_part_times(file, one), no_summed_lines));
  CHECK(std::filesystem::file_size(file) == text.size());
  for (const std::string own : {"all words of one line", "{\"mine\": true}", "[1,"}) {
    CAPTURE(own);  // whose last line has no end
    const auto other = here.path / "own";
    std::ofstream(other) << own << std::flush;
    CHECK(is_error(read_part_times(other), no_summed_lines));
    CHECK(is_error(add_part_times(other, one), no_summed_lines));
    CHECK(std::filesystem::file_size(other) == own.size());
  }
  // A line that was torn is no whole one.
  const auto torn = here.path / "torn.jsonl";
  std::ofstream(torn) << part_time_line(time_of(9)).substr(0, 20);
  REQUIRE(add_part_times(torn, one));
  const auto read = read_part_times(torn);
  REQUIRE(read);
  CHECK(read->left_out == 1);
  CHECK(read->times.size() == 1);
}

TEST_CASE("SML-1: of what a full disk does not take nothing stays") {
  const troupe::scratch here;
  const auto file = here.path / "times.jsonl";
  const std::vector<part_time> one{time_of(1)}, two{time_of(2), time_of(3)};
  REQUIRE(add_part_times(file, one));
  const auto before = std::filesystem::file_size(file);
  const auto added = [&] {
    const troupe::full_disk disk(before + before / 2);
    return add_part_times(file, two);
  }();
  CHECK_FALSE(added);
  CHECK(std::filesystem::file_size(file) == before);
  REQUIRE(add_part_times(file, two));
  CHECK(read_part_times(file)->times.size() == 3);
  CHECK(read_part_times(file)->left_out == 0);
}

TEST_CASE("part times: a node's are forgotten, and no other line of the file is touched") {
  const troupe::scratch here;
  const auto file = here.path / "times.jsonl";
  CHECK(*forget_part_times(file, "b") == 0);
  CHECK_FALSE(std::filesystem::exists(file));
  const std::vector<part_time> all{time_of(1), time_of(2, "b"), time_of(3), time_of(4, "b")};
  REQUIRE(add_part_times(file, all));
  std::ofstream(file, std::ios::app) << "torn";
  CHECK(*forget_part_times(file, "c") == 0);
  CHECK(*forget_part_times(file, "b") == 2);
  const auto read = read_part_times(file);
  REQUIRE(read);
  CHECK(read->times == std::vector<part_time>{all[0], all[2]});
  CHECK(read->left_out == 1);
  CHECK(*forget_part_times(file, "a") == 2);
  REQUIRE(read_part_times(file));  // of what was left no line has a sum
  CHECK(read_part_times(file)->times.empty());
  REQUIRE(add_part_times(file, all));
  const auto own = here.path / "notes";
  std::ofstream(own) << "my own\nnotes\n";
  CHECK(is_error(forget_part_times(own, "a"), no_summed_lines));
}

TEST_CASE("part times: nothing is forgotten of a file of which nobody can tell what it holds") {
  const troupe::scratch here;
  const auto file = here.path / "times.jsonl";
  std::filesystem::create_symlink("times.jsonl", file);  // in a circle
  const auto forgotten = forget_part_times(file, "a");
  REQUIRE_FALSE(forgotten);
  CHECK(forgotten.error().code == errc::io);
  CHECK(*forget_part_times(here.path / "gone" / "times.jsonl", "a") == 0);
}

TEST_CASE("limits: part times: of more than are kept the newest stay") {
  const troupe::scratch here;
  const auto file = here.path / "times.jsonl";
  const std::vector<part_time> many(most_part_times * 3 / 2, time_of(1));
  REQUIRE(add_part_times(file, many));
  CHECK(read_part_times(file)->times.size() == many.size());
  const std::vector<part_time> one{time_of(2)};
  REQUIRE(add_part_times(file, one));
  const auto read = read_part_times(file);
  REQUIRE(read);
  CHECK(read->times.size() == most_part_times);
  CHECK(read->times.back().seconds == 2);
}

TEST_CASE("SML-1: jobs that add at the same time lose nothing") {
  const troupe::scratch here;
  const auto file = here.path / "times.jsonl";
  const auto add = [&](const char* node) {
    for (int i = 1; i <= 20; ++i) {
      const std::vector<part_time> two{time_of(i, node), time_of(i + 0.5, node)};
      CHECK(add_part_times(file, two));
    }
  };
  std::thread other([&] { add("b"); });
  add("a");
  other.join();
  const auto read = read_part_times(file);
  REQUIRE(read);
  CHECK(read->left_out == 0);
  CHECK(read->times.size() == 2 * 20 * 2);
}

}  // namespace troupe::io::perf
