// `troupe bench checkpoint`, and `troupe-bench checkpoint` with the field's ways, through the built
// programs, tiny: rows, finite numbers, no files left.
// Timing decides nothing here.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

namespace fs = std::filesystem;
using namespace troupe;

namespace {

/// Runs a script for bash in a folder; $T is `troupe bench checkpoint`, $R the one with rivals.
ended bash(const fs::path& in, const std::string& script) {
  std::ofstream(in / "script") << "T=\"" TROUPE_PROGRAM " bench checkpoint\"\n"
                               << "R=\"" TROUPE_RIVALS " checkpoint\"\n"
                               << script << "\n";
  return run_in(in, "XDG_CACHE_HOME='" + in.string() + "/cache' bash script");
}

/// Numbers anywhere below that are not finite: JSON writes them as null, so null where a number
/// belongs counts too.
void check_spread(const nlohmann::json& row, const char* key, bool there) {
  CAPTURE(row["way"]);
  CAPTURE(key);
  REQUIRE(row.contains(key));
  CHECK(row[key].is_object() == there);
  if (!row[key].is_object()) return;
  for (const char* which : {"median", "least", "most"}) {
    REQUIRE(row[key][which].is_number());
    CHECK(std::isfinite(row[key][which].get<double>()));
    CHECK(row[key][which] >= 0);
  }
  CHECK(row[key]["least"] <= row[key]["median"]);
  CHECK(row[key]["median"] <= row[key]["most"]);
}

}  // namespace

TEST_CASE("bench checkpoint: a row a way, finite numbers, every byte restored, no file left") {
  scratch dir;
  fs::create_directory(dir / "disk");
  std::ofstream(dir / "torch.py")
      << "def rand(n): return bytes(4 * n)\n"
         "def save(state, file): file.write(b''.join(state.values()))\n";
  const auto done =
      bash(dir.path,
           "PYTHONPATH=. $R --gib 0.004 --rounds 2 --iterations 2 --iteration-ms 500 --ring-mib 8 "
           "--dir disk --json "
           "--ways sync,checkfreq,chunked-fsync,chunked,datastates,ours,torch");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  REQUIRE(j["sizes"].size() == 1);
  const auto& size = j["sizes"][0];
  CHECK(size["bytes"] > 3'000'000);
  CHECK(size["bytes"] < 6'000'000);
  CHECK(size["wrong_bytes"] == 0);
  CHECK(size["iteration_s"] == 0.5);
  std::set<std::string> ways;
  for (const auto& row : size["ways"]) {
    const std::string way = row["way"];
    ways.insert(way);
    for (const char* key : {"blocked_s", "slowdown"}) check_spread(row, key, true);
    check_spread(row, "finished_s", way != "none");
    check_spread(row, "over_raw_write", row["durable"]);
    for (const char* key : {"restore_s", "over_raw_read"}) check_spread(row, key, way == "ours");
  }
  CHECK(ways == std::set<std::string>{"none", "sync", "checkfreq", "chunked-fsync", "chunked",
                                      "datastates", "ours", "torch"});
  REQUIRE(size["aims"].size() == 4);
  for (const auto& aim : size["aims"]) CHECK(aim.contains("met") != aim.contains("not_judged"));
  CHECK(fs::is_empty(dir / "disk"));
}

TEST_CASE("bench checkpoint: the program that is installed measures its own way alone") {
  scratch dir;
  const auto done = bash(dir.path, "$T --gib 0.004 --rounds 1 --iterations 1 --iteration-ms 500");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  CHECK(done.out.find("\nours ") != std::string::npos);
  CHECK(done.out.find("wrong bytes") != std::string::npos);
  const auto own = content(TROUPE_PROGRAM), beside = content(TROUPE_RIVALS);
  for (const char* rival : {"(CheckFreq)", "(TorchSnapshot)", "(DataStates)", "torch.save"}) {
    CAPTURE(rival);
    CHECK(own.find(rival) == std::string::npos);
    CHECK(beside.find(rival) != std::string::npos);
  }
  CHECK(bash(dir.path, "$T --ways ours").code == 64);
}

TEST_CASE("bench checkpoint: an interrupt ends it with 130, and its files are gone") {
  scratch dir;
  const auto done = bash(dir.path, R"(
mkfifo talk
$T --gib 0.004 --iteration-ms 600000 --dir made/here 2>talk &
while read -r line; do
  case "$line" in *"iterations of"*) kill -INT $!;; esac
  echo "$line" >&2
done <talk
wait $!)");
  CHECK_MESSAGE(done.code == 130, done.talk);
  CHECK(done.talk.find("interrupted") != std::string::npos);
  CHECK(fs::is_empty(dir / "made"));
}

TEST_CASE("bench checkpoint: what does not fit is refused with what it needs") {
  scratch dir;
  const auto done = bash(dir.path, "$T --gib 1024");
  CHECK((done.code == 70 || done.code == 74));
  CHECK(done.talk.find("1024 GiB of state need") != std::string::npos);
  CHECK(done.talk.find("--gib") != std::string::npos);
  const auto short_time = bash(dir.path, "$T --gib 0.004 --iteration-ms 0.0001");
  CHECK(short_time.code == 64);
  CHECK(bash(dir.path, "$R --ways fastest").code == 64);
}
