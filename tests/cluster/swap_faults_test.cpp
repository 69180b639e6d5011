// What a job whose state lives on a drive does where the drive lies, loses bytes or fills up: wrong
// bytes end it and are named, what can be made again is made again, and no loss is another one.
//
// Files are touched while the job is paused and has saved: then the drive has all of the last step,
// nothing is under way, and every run meets the same fault.
#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/cluster/job_files.hpp"
#include "tests/cluster/mounts.hpp"
#include "tests/cluster/swapped_jobs.hpp"

using namespace troupe::cluster_test;

namespace {

int told(program& up, const std::string& command) {
  return ordered(up, command).code;
}

std::string to_step(int step) {
  return fmt::format("train.steps={}", step);
}

bool pauses(program& up) {
  return up.until_step(3) && told(up, "pause") == 0 && up.until_error_has("paused after step");
}

int times_paused(const program& up) {
  int n = 0;
  for (size_t at = 0; (at = up.err().find("paused after step", at)) != std::string::npos; ++at) ++n;
  return n;
}

/// Between two steps, with all of the last one on the drive.
bool settles(program& up) {
  return pauses(up) && told(up, "checkpoint now") == 0;
}

/// All files of a chunk below a swap folder, of whatever version.
std::vector<fs::path> files_of(const fs::path& folder, const std::string& chunk) {
  std::vector<fs::path> out;
  for (const auto& file : fs::recursive_directory_iterator(folder))
    if (file.is_regular_file() && file.path().filename() == chunk) out.push_back(file.path());
  return out;
}

/// A bit of every block turns.
void turn_bits(const fs::path& file) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  for (uintmax_t at = 100; at < fs::file_size(file); at += 4096) {
    bytes.seekg(static_cast<std::streamoff>(at));
    const auto b = static_cast<char>(bytes.get() ^ 4);
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put(b);
  }
  REQUIRE(bytes.good());
}

/// A job whose files of a chunk are changed while it is paused, and how it ends.
void ends_naming(void (*damage)(const fs::path&)) {
  job_files job;
  const auto& sets = deep_endless;
  program up(job.up(with(sets, swapped(job, floor_of(job, sets)))));
  REQUIRE(settles(up));
  const auto files = files_of(job / "swap", "chunk-0003");
  REQUIRE_FALSE(files.empty());
  for (const auto& file : files) damage(file);
  const int last = end_soon(up, job / "run/log.jsonl");
  told(up, "resume");  // 1 where what is read ahead meanwhile has ended it already
  CHECK(up.wait() == 65);
  INFO(up.err());
  CHECK(std::any_of(files.begin(), files.end(), [&](const fs::path& file) {
    return up.err().find(file.string()) != std::string::npos;
  }));
  CHECK(follows(up, numbers_in_memory(job, with(sets, {to_step(last)}))));
  CHECK(up.objects("step").size() < static_cast<size_t>(last));
}

/// An ext4 of some MiB in the job's folder, for its run and its swap files; why not.
struct drive_of_its_own {
  mounts all;
  fs::path image;
  std::vector<std::string> sets;
  std::optional<std::string> why_not;

  drive_of_its_own(const job_files& job, int mib) : image(job / "image") {
    if ((why_not = why_no_mounts())) return;
    const auto made = shell(
        fmt::format("truncate -s {}M '{}' && mkfs.ext4 -q -F -b 4096 -m 0 -O ^has_journal '{}'",
                    mib, image.string(), image.string()));
    why_not = made.code != 0 ? made.text : all.mount_image(image, job / "disk");
    sets = {"swap.dir=" + (job / "disk/swap").string()};
    if (why_not) MESSAGE("SKIPPED: ", *why_not);
  }
};

}  // namespace

TEST_CASE("swap: bits that turned on the drive end a job, with the file's name") {
  ends_naming(turn_bits);
}

TEST_CASE("swap: a file that is shorter than it was ends a job, with the file's name") {
  ends_naming([](const fs::path& file) { fs::resize_file(file, 8192); });
}

TEST_CASE("swap: where the drive cannot be read a job goes on from its checkpoint") {
  job_files job;
  drive_of_its_own drive(job, 24);
  if (drive.why_not) return;
  const auto& sets = deep_endless;
  program up(job.up(with(with(sets, swapped(job, floor_of(job, sets))), drive.sets)));
  REQUIRE(settles(up));
  const int last = end_soon(up, job / "run/log.jsonl");
  // The device has no bytes any more beyond the first ones, until they are written.
  REQUIRE(shell("sync -f '" + (job / "disk").string() + "'").code == 0);
  fs::resize_file(drive.image, 1 << 20);
  REQUIRE(told(up, "resume") == 0);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find((job / "disk/swap").string()) != std::string::npos);
  CHECK(up.objects("summary").at(0)["recoveries"] == 1);
  CHECK(follows(up, numbers_in_memory(job, with(sets, {to_step(last)}))));
  CHECK(up.objects("step").back()["step"] == last);
}

TEST_CASE("swap: a drive without room costs checkpoints, and where there is room again none") {
  job_files job;
  drive_of_its_own drive(job, 80);
  if (drive.why_not) return;
  const auto sets = with(deep_endless, {"checkpoint.every=4"});
  drive.sets.push_back("job.output=" + (job / "disk/run").string());
  program up(job.up(with(with(sets, swapped(job, floor_of(job, sets))), drive.sets)));
  REQUIRE(pauses(up));
  const auto ballast = job / "disk/ballast";
  CHECK(shell("dd if=/dev/zero bs=1M of='" + ballast.string() + "'").code != 0);
  REQUIRE(told(up, "resume") == 0);
  REQUIRE(up.until_error_has("No space left on device"));
  REQUIRE(told(up, "pause") == 0);
  REQUIRE(up.until([&] { return times_paused(up) == 2; }));
  fs::remove(ballast);
  const int last = end_soon(up, job / "disk/run/log.jsonl");
  REQUIRE(told(up, "resume") == 0);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find((job / "disk/swap").string()) != std::string::npos);
  CHECK(numbers_of(up) == numbers_in_memory(job, with(sets, {to_step(last)})));
  for (const int step : {last - 1 - (last - 1) % 4, last})
    CHECK(run({"ckpt", "diff", job.checkpoint(step, "memory").string(),
               job.checkpoint(step, "disk/run").string()})
              .code == 0);
  CHECK_FALSE(has_entry(job / "disk/swap"));
}

TEST_CASE("swap: a job goes on in memory and on a drive again, with the losses of one in memory") {
  job_files job;
  const auto sets = with(deep, {"model.dtype=bf16", "train.clip_norm=1"});
  const auto until = [](int steps) { return "train.steps=" + std::to_string(steps); };
  const auto on_drive = with(sets, swapped(job, floor_of(job, sets)));
  step_numbers truth, seen;
  for (const int steps : {6, 12, 18}) {
    const auto some = numbers_in_memory(job, with(sets, {until(steps)}));
    truth.insert(truth.end(), some.begin(), some.end());
    const auto same = numbers(job, with(steps == 12 ? sets : on_drive, {until(steps)}));
    seen.insert(seen.end(), same.begin(), same.end());
    CHECK(run({"ckpt", "diff", job.checkpoint(steps, "memory").string(),
               job.checkpoint(steps).string()})
              .code == 0);
  }
  CHECK(truth.size() == 18);
  CHECK(seen == truth);
}
