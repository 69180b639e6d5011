// Two launchers and one folder: the second is refused by name, and takes it over once the first is
// gone, however that went.
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "io/checkpoint/hold.hpp"
#include "io/folder/lock.hpp"
#include "tests/cluster/bad_outputs.hpp"
#include "tests/cluster/job_files.hpp"
#include "tests/io/tree.hpp"

using namespace troupe::cluster_test;
using troupe::put_file;
namespace io = troupe::io;

namespace {

const io::lock_holder on_another_host{
    "t", 4711, "another-host", "another-boot", "2026-01-01T00:00:00Z", "10.0.0.9:4242"};

/// Whether a reader holds a checkpoint; to ask by a lock of one's own would keep him from it.
bool is_read(const fs::path& checkpoint) {
  struct stat facts {};
  REQUIRE(::stat((checkpoint / "MANIFEST").c_str(), &facts) == 0);
  std::ifstream locks("/proc/locks");
  const auto inode = fmt::format(":{} ", facts.st_ino);
  for (std::string line; std::getline(locks, line);)
    if (line.find("FLOCK") != std::string::npos && line.find(inode) != std::string::npos)
      return true;
  return false;
}

}  // namespace

TEST_CASE("folders: a second launcher of a job is refused with 75, and the first goes on") {
  job_files job;
  const auto sets = with(endless, {"checkpoint.every=1"});
  program first(job.up(sets));
  REQUIRE(first.until_step(3));
  const auto second = run(job.up(sets));
  INFO(second.err);
  CHECK(second.code == 75);
  CHECK(second.err.find(fmt::format("process {} ", first.pid())) != std::string::npos);
  CHECK(second.err.find("job t") != std::string::npos);
  CHECK(second.err.find(fmt::format(":{}", first.port())) != std::string::npos);
  // The check before a start says so, too.
  auto words = job.up(sets);
  words.front() = "check";
  words.insert(words.begin(), "config");
  const auto check = run(words);
  INFO(check.err);
  CHECK(check.code == 0);
  CHECK(check.err.find("`troupe up` would end with 75 now: ") != std::string::npos);
  CHECK(check.err.find(fmt::format("process {} ", first.pid())) != std::string::npos);
  CHECK(check.err.find("could start here once what holds its folders ends") != std::string::npos);
  // With another output it is refused by the lock on the checkpoints, as either tier.
  const auto elsewhere = fmt::format("job.output={}", (job / "other").string());
  const auto shared = (job / "run/checkpoints").string();
  for (const auto& tier : {"checkpoint.dir=" + shared, "checkpoint.second.dir=" + shared}) {
    const auto other = run(job.up(with(sets, {elsewhere, tier})));
    INFO(other.err);
    CHECK(other.code == 75);
    CHECK(other.err.find(shared) != std::string::npos);
  }
  const auto steps = first.objects("step").size();
  REQUIRE(first.until_step(static_cast<int64_t>(steps) + 3));
  first.signal(SIGINT);
  first.wait();
  CHECK_FALSE(fs::exists(job / "run" / io::lock_file));
  CHECK_FALSE(fs::exists(job / "run/checkpoints" / io::lock_file));
  for (const auto& e : fs::directory_iterator(job / "run/checkpoints"))
    if (!e.is_symlink()) CHECK(run({"ckpt", "verify", e.path().string()}).code == 0);
}

TEST_CASE("folders: who holds a folder is named before the port is missed that he has, too") {
  job_files job;
  const auto sets = with(endless, {free_port()});
  program first(job.up(sets));
  REQUIRE(first.until([&] { return first.port() != 0; }));
  const auto second = run(job.up(sets));
  INFO(second.err);
  CHECK(second.code == 75);
  CHECK(second.err.find(fmt::format("process {} ", first.pid())) != std::string::npos);
  first.signal(SIGKILL);
  first.wait();
}

TEST_CASE("folders: checkpoints are set aside when the start is refused no more (CAT-3)") {
  job_files job;
  REQUIRE(run(job.up({"train.steps=3"})).code == 0);
  const auto anew = run(job.up({"train.steps=2", "checkpoint.resume=never"}));
  INFO(anew.err);
  CHECK(anew.code == 0);
  const auto listens = anew.err.find("coordinator of t at "), aside = anew.err.find(".aside-1");
  REQUIRE(listens != std::string::npos);
  REQUIRE(aside != std::string::npos);
  CHECK(listens < aside);
}

TEST_CASE("folders: a launcher killed with -9 holds nothing, and its job goes on") {
  job_files job;
  const auto sets = with(endless, {"checkpoint.every=1"});
  program first(job.up(sets));
  REQUIRE(first.until_step(3));
  first.signal(SIGKILL);
  first.wait();
  CHECK(fs::exists(job / "run" / io::lock_file));
  program second(job.up(sets));
  REQUIRE(second.until([&] { return !second.objects("step").empty(); }));
  CHECK(second.err().find("taken over") == std::string::npos);  // nobody was there
  second.signal(SIGINT);
  second.wait();
  CHECK_FALSE(fs::exists(job / "run" / io::lock_file));
}

TEST_CASE("folders: a holder on another host is believed until --break-lock") {
  job_files job;
  put_file(job / "run/checkpoints" / io::lock_file, io::lock_text(on_another_host));
  const auto before = troupe::tree_of(job / "run/checkpoints");
  const auto refused = run(job.up({"train.steps=2"}));
  INFO(refused.err);
  CHECK(refused.code == 75);
  CHECK(refused.err.find("another-host") != std::string::npos);
  CHECK(refused.err.find("--break-lock") != std::string::npos);
  CHECK(troupe::tree_of(job / "run/checkpoints") == before);
  auto words = job.up({"train.steps=2"});
  words.emplace_back("--break-lock");
  const auto taken = run(words);
  CHECK(taken.code == 0);
  CHECK(taken.err.find("taken over") != std::string::npos);
}

TEST_CASE("folders: a second tier that cannot be locked is read, and nothing else (FLD-3)") {
  job_files job;
  const auto second = job / "second";
  const auto sets = [&](const char* steps) {
    return job.up({steps, "checkpoint.every=1", "checkpoint.keep=1",
                   "checkpoint.second.dir=" + second.string()});
  };
  REQUIRE(run(sets("train.steps=3")).code == 0);
  REQUIRE(fs::exists(second / job.checkpoint(3).filename()));
  fs::remove_all(job / "run/checkpoints");  // all there is lies in the second
  put_file(second / io::lock_file, "a shopping list\n");
  fs::create_directory(second / (job.checkpoint(2).filename().string() + ".partial-1"));
  const auto before = troupe::tree_of(second);
  const auto done = run(sets("train.steps=5"));
  INFO(done.err);
  CHECK(done.code == 0);
  CHECK(done.err.find("warning: nothing is copied to the second tier in this run") !=
        std::string::npos);
  CHECK(done.out.find(R"("type":"step","step":4,)") != std::string::npos);
  CHECK(done.out.find(R"("type":"step","step":3,)") == std::string::npos);  // it went on from it
  CHECK(troupe::tree_of(second) == before);
  CHECK(fs::exists(job.checkpoint(5)));
  fs::remove(second / io::lock_file);
  REQUIRE(run(sets("train.steps=6")).code == 0);
  CHECK(fs::exists(second / job.checkpoint(6).filename()));
}

TEST_CASE("folders: `ckpt gc` and `ckpt import` are refused with 75 while a job holds the folder") {
  job_files job;
  job.losses({"train.steps=2", fmt::format("job.output={}", (job / "other").string())});
  const auto shared = (job / "run/checkpoints").string();
  const std::vector<std::string> gc{"ckpt", "gc", shared, "--keep-last", "1"};
  const std::vector<std::string> import{
      "ckpt", "import", (job / "other/model").string(), "--out", shared, "--slot-mb", "1"};
  program first(job.up(with(endless, {"checkpoint.every=1"})));
  REQUIRE(first.until_step(3));
  for (const auto& words : {gc, import}) {
    CAPTURE(words[1]);
    for (const auto& refused : {run(words), run(with(words, {"--break-lock"}))}) {
      INFO(refused.err);
      CHECK(refused.code == 75);
      CHECK(refused.err.find(shared) != std::string::npos);
      CHECK(refused.err.find(fmt::format("process {} ", first.pid())) != std::string::npos);
      CHECK(refused.err.find("hint: stop that job") != std::string::npos);
    }
  }
  CHECK_FALSE(fs::exists(job.checkpoint(0)));
  CHECK(run(with(gc, {"--dry-run"})).code == 0);  // to look needs no lock
  first.signal(SIGINT);
  first.wait();
  for (const auto& words : {gc, import}) {
    const auto done = run(words);
    INFO(done.err);
    CHECK(done.code == 0);
    CHECK_FALSE(fs::exists(fs::path(shared) / io::lock_file));
  }
  CHECK(fs::exists(job.checkpoint(0)));
}

TEST_CASE("folders: `ckpt gc` and `ckpt import` believe a holder on another host, too") {
  job_files job;
  job.losses({"train.steps=2"});
  const auto shared = (job / "run/checkpoints").string();
  const std::vector<std::string> gc{"ckpt", "gc", shared, "--keep-last", "1"};
  const std::vector<std::string> import{
      "ckpt", "import", (job / "run/model").string(), "--out", shared, "--slot-mb", "1"};
  for (const auto& words : {gc, import}) {
    CAPTURE(words[1]);
    put_file(fs::path(shared) / io::lock_file, io::lock_text(on_another_host));
    const auto before = troupe::tree_of(shared);
    const auto refused = run(words);
    INFO(refused.err);
    CHECK(refused.code == 75);
    CHECK(refused.err.find("another-host") != std::string::npos);
    CHECK(refused.err.find("--break-lock") != std::string::npos);
    CHECK(troupe::tree_of(shared) == before);
    const auto taken = run(with(words, {"--break-lock"}));
    CHECK(taken.code == 0);
    CHECK(taken.err.find("taken over") != std::string::npos);
    CHECK_FALSE(fs::exists(fs::path(shared) / io::lock_file));
  }
}

TEST_CASE("folders: of three launchers at once one trains, and kill -9 hands the folder on") {
  job_files job;
  const auto sets = with(endless, {"checkpoint.every=1", "checkpoint.keep=2"});
  const auto saved = [&] {
    std::error_code none;
    for (const auto& e : fs::directory_iterator(job / "run/checkpoints", none))
      if (!e.is_symlink() && e.path().filename().string().find('.') == std::string::npos)
        return true;
    return false;
  };
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    std::vector<std::unique_ptr<program>> launchers;
    for (int i = 0; i < 3; ++i) launchers.push_back(std::make_unique<program>(job.up(sets)));
    std::vector<program*> training;
    for (auto& p : launchers) {
      if (p->until([&] { return p->objects("step").size() >= 2 && saved(); })) {
        training.push_back(p.get());
        continue;
      }
      const int code = p->wait();
      INFO(p->err());
      CHECK(code == 75);
    }
    REQUIRE(training.size() == 1);
    training[0]->signal(SIGKILL);
    training[0]->wait();
  }
  int complete = 0;
  for (const auto& e : fs::directory_iterator(job / "run/checkpoints")) {
    const auto name = e.path().filename().string();
    if (e.is_symlink() || name.find('.') != std::string::npos) continue;
    CHECK(run({"ckpt", "verify", e.path().string()}).code == 0);
    ++complete;
  }
  CHECK(complete >= 1);
}

TEST_CASE(
    "folders: what `ckpt verify` and `ckpt diff` read stays until they end, however they do") {
  job_files job;
  job.losses({"train.steps=2", "checkpoint.every=1", "checkpoint.keep=0"});
  const auto older = job.checkpoint(1), newer = job.checkpoint(2);
  const auto checkpoints = (job / "run/checkpoints").string();
  const std::vector<std::vector<std::string>> readers{
      {"ckpt", "verify", older.string(), "--json"},
      {"ckpt", "diff", older.string(), newer.string(), "--json"},
      {"ckpt", "diff", newer.string(), older.string(), "--json"}};
  for (const auto& words : readers) {
    CAPTURE(words[1]);
    opened_pipe unread;
    unread.fill();
    program reader(words, 0, {.out = unread.in.get()});
    REQUIRE(eventually([&] { return is_read(older); }));
    const auto kept = run({"ckpt", "gc", checkpoints, "--keep-last", "1"});
    CHECK(kept.code == 0);
    CHECK(kept.out.find("is being read") != std::string::npos);
    CHECK(fs::exists(older));
    reader.signal(SIGINT);
    CHECK(reader.wait() == 128 + SIGINT);
    CHECK(io::checkpoint::exclude_readers(io::local_files(), older));
  }
}
