// Checkpoints that cannot be written where they belong: training goes on, the first is warned of by
// its step, those that fail alike are counted, what was saved before stays, and the next run goes
// on from the newest whole one.
#include <fcntl.h>

#include <cstdio>
#include <regex>
#include <string>

#include "tests/cluster/mounts.hpp"
#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;

namespace {

bool warns_of(const program& p, int step) {
  return p.err().find(fmt::format("warning: checkpoint of step {} failed", step)) !=
         std::string::npos;
}

/// Checkpoints that failed: those that are warned of by their step, and those that are counted.
int failed_saves(const program& p, int steps) {
  int n = 0;
  for (int step = 1; step <= steps; ++step) n += warns_of(p, step) ? 1 : 0;
  const std::string said = p.err();
  static const std::regex number("([0-9]+) (before it did|further checkpoints? failed)");
  for (std::sregex_iterator at(said.begin(), said.end(), number), end; at != end; ++at)
    n += std::stoi((*at)[1]);
  return n;
}

/// A small file system in the job's folder; nothing, and why it is skipped, where that cannot be.
std::optional<fs::path> small_disk(const job_files& job, mounts& all, int mib) {
  const auto disk = job / "disk";
  auto why = why_no_mounts();
  if (!why) why = all.mount(fmt::format("-t tmpfs -o size={}m none", mib), disk);
  if (!why) return disk;
  MESSAGE("SKIPPED: ", *why);
  return std::nullopt;
}

/// How often a person reads it.
int times_said(const program& p, std::string_view text) {
  int n = 0;
  for (size_t at = 0; (at = p.err().find(text, at)) != std::string::npos; ++at) ++n;
  return n;
}

/// Puts a file in the place of a folder, at once: what is gone for a moment is made again.
void put_file_in_place_of(const fs::path& folder, const fs::path& aside) {
  std::ofstream(aside) << "not a folder";
  REQUIRE(::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, aside.c_str(), RENAME_EXCHANGE) == 0);
}

/// A run whose steps take long enough that the test can do something between two.
const std::vector<std::string> slow_steps =
    with(layout(2, 1), {"checkpoint.every=1", "train.batch=128", "train.schedule=constant"});

std::string of_steps(int steps) {
  return fmt::format("train.steps={}", steps);
}

/// Its settings without an end: it is given one once the test has done what it is to do.
std::vector<std::string> slow_without_end(const std::vector<std::string>& more = {}) {
  return with(with(slow_steps, endless), more);
}

}  // namespace

TEST_CASE("faults: a file where the checkpoints were: training goes on, and the next run resumes") {
  job_files job;
  const auto folder = job / "run/checkpoints", aside = job / "aside";
  program up(job.up(slow_without_end({"checkpoint.room_wait_s=0"})));
  REQUIRE(until_saved(up, 1));
  put_file_in_place_of(folder, aside);
  const int last = end_soon(up, job / "run/log.jsonl");
  CHECK(up.wait() == 74);
  INFO(up.err());
  CHECK(up.objects("step").size() == static_cast<size_t>(last));
  fs::remove(folder);
  fs::rename(aside, folder);
  const auto truth = train_undisturbed(job, with(slow_steps, {of_steps(last)}));
  judge j(truth);
  const int newest = j.look(folder, acknowledged_in(up.out()));
  CHECK(newest >= 1);
  CHECK(newest < last);
  CHECK(warns_of(up, last));
  CHECK(failed_saves(up, last) >= last - newest);
  program again(job.up(with(slow_steps, {of_steps(last)})));
  CHECK(again.wait() == 0);
  CHECK(again.objects("step").size() == static_cast<size_t>(last - newest));
  j.follow(again.objects("step"), newest);
  CHECK(j.look(folder, last) == last);
  CHECK(leftovers_in(folder).empty());
}

TEST_CASE("faults: a folder that was taken away is made again, and the run ends well") {
  job_files job;
  const auto folder = job / "run/checkpoints", away = job / "away";
  program up(job.up(slow_without_end()));
  REQUIRE(until_saved(up, 1));
  fs::rename(folder, away);
  const int last = end_soon(up, job / "run/log.jsonl");
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.objects("step").size() == static_cast<size_t>(last));
  const auto truth = train_undisturbed(job, with(slow_steps, {of_steps(last)}));
  judge j(truth);
  CHECK(j.look(folder, acknowledged_in(up.out())) == last);
}

TEST_CASE("faults: a commit that fails leaves nothing of its checkpoint, and costs no other one") {
  job_files job;
  const auto folder = job / "run/checkpoints";
  fs::create_directories(folder / "step-00000012");
  std::ofstream(folder / "step-00000012/notes.txt") << "mine";
  program up(job.up(with(slow_steps, {"checkpoint.resume=never"})));
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(warns_of(up, 12));
  CHECK(failed_saves(up, 20) == 1);
  CHECK(fs::exists(folder / "step-00000012/notes.txt"));
  CHECK(leftovers_in(folder).empty());
}

TEST_CASE("faults: a full file system keeps what it has, and room is all the next run needs") {
  job_files job;
  mounts all;
  const auto disk = small_disk(job, all, 8);
  if (!disk) return;
  const auto truth = train_undisturbed(job, slow_steps);
  const auto folder = *disk / "checkpoints";
  const auto sets = with(slow_steps, {"checkpoint.dir=" + folder.string()});
  program up(job.up(with(sets, {"checkpoint.room_wait_s=0"})));
  CHECK(up.wait() == 74);
  INFO(up.err());
  CHECK(up.objects("step").size() == 20);
  CHECK(warns_of(up, 20));
  CHECK(up.err().find("No space left on device") != std::string::npos);
  judge j(truth);
  const int newest = j.look(folder, acknowledged_in(up.out()));
  CHECK(newest >= 2);
  CHECK(newest < 20);
  CHECK(complete_in(folder).size() + static_cast<size_t>(failed_saves(up, 20)) == 20);
  REQUIRE(shell("mount -o remount,size=64m '" + disk->string() + "'").code == 0);
  program again(job.up(sets));
  CHECK(again.wait() == 0);
  j.follow(again.objects("step"), newest);
  CHECK(j.look(folder, 20) == 20);
  CHECK(leftovers_in(folder).empty());
}

TEST_CASE("faults: the last save of a run waits for room, and says so") {
  job_files job;
  mounts all;
  const auto disk = small_disk(job, all, 1);
  if (!disk) return;
  const auto folder = *disk / "checkpoints";
  program up(job.up({"train.steps=3", "checkpoint.dir=" + folder.string()}));
  REQUIRE(up.until_error_has("of step 3, waits for room"));
  REQUIRE(shell("mount -o remount,size=64m '" + disk->string() + "'").code == 0);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find("the last checkpoint, of step 3, is saved: ") != std::string::npos);
  CHECK(run({"ckpt", "verify", (folder / "step-00000003").string()}).code == 0);
}

TEST_CASE("faults: what the last save waits for is said once, however often it is tried") {
  job_files job;
  program up(job.up({"train.steps=3", "checkpoint.room_wait_s=11"}), 100 << 10);
  CHECK(up.wait() == 74);
  INFO(up.err());
  CHECK(times_said(up, "of step 3, waits for room in ") == 1);
  CHECK(times_said(up, "checkpoint of step 3 failed: ") == 1);
  CHECK(times_said(up, ", is saved: ") == 0);
}

TEST_CASE("faults: where the first tier has no room, the last save goes into the second") {
  job_files job;
  const auto folder = job / "run/checkpoints", second = job / "shared";
  program up(job.up(slow_without_end({"checkpoint.second.dir=" + second.string()})));
  REQUIRE(until_saved(up, 1));
  put_file_in_place_of(folder, job / "away");
  const int last = end_soon(up, job / "run/log.jsonl");
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(run({"ckpt", "verify", (second / fmt::format("step-{:08}", last)).string()}).code == 0);
}
