// The power is cut under a run that saves: its checkpoints lie on an ext4 image, a clone of the
// image's file is the disk as it was at that instant, and after the clone's journal was replayed
// the survivors are judged against what was acknowledged before the clone began; then the job goes
// on from the clone. For root with loop devices and a file system that reflinks.
//
//   TROUPE_POWER_CUTS  cuts (default 6; nightly 200 and more)
//   TROUPE_KILL_SEED   another seed than 1
//
// What a clone is: FICLONE holds the file's lock, under which the kernel waits for the loop
// device's direct writes, and lets no other in. So it holds every write that the loop device has
// answered, each write under way either whole or not at all, and nothing of what ext4 had not
// written yet: data and names of which nobody asked the file system that they be on the disk. It
// is a disk without a volatile cache (or with a battery) that loses its power.
//
// What it is not: a disk that forgets what it answered before a flush, in any order, or tears a
// write. And ext4 has one journal: a sync of any file takes with it the names and lengths of all,
// so a missing sync is seen here only where no other follows it (docs/testing.md). Both are what
// tests/io/checkpoint/save_crash.cpp is for, in a model of a disk.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <cstring>

#include "tests/cluster/moments.hpp"
#include "tests/cluster/mounts.hpp"
#include "tests/cluster/survivors.hpp"

using namespace troupe;
using namespace troupe::cluster_test;

namespace {

/// Copies a file by reference; nothing, or why not.
std::optional<std::string> clone(const fs::path& from, const fs::path& to) {
  const io::unique_fd in(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  const io::unique_fd out(open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!in || !out || ioctl(out.get(), FICLONE, in.get()) != 0)
    return fmt::format("{} cannot be cloned: {}", from.string(), strerror(errno));
  return std::nullopt;
}

/// An ext4 image whose file can be cloned, mounted.
class cloneable_disk {
 public:
  /// Makes it in a folder; why not.
  std::optional<std::string> make(const fs::path& in) {
    if (auto why = why_no_mounts()) return why;
    std::ofstream(in / "a") << "a";
    images_ = in;
    if (clone(in / "a", in / "b"))  // then on a file system that can, in memory
      if (auto why = make_reflinking(in)) return why;
    const auto made = shell(fmt::format("truncate -s 300M '{0}' && mkfs.ext4 -q -F -b 4096 '{0}'",
                                        (images_ / "disk").string()));
    if (made.code != 0) return made.text;
    at_ = in / "mounted";
    return mounts_.mount_image(images_ / "disk", at_);
  }

  const fs::path& at() const { return at_; }
  fs::path image(const std::string& name) const { return images_ / name; }
  std::optional<std::string> cut(const std::string& name) const {
    return clone(images_ / "disk", image(name));
  }
  class mounts& mounts() {
    return mounts_;
  }

 private:
  std::optional<std::string> make_reflinking(const fs::path& in) {
    if (shell("command -v mkfs.xfs").code != 0) return "there is no mkfs.xfs (package xfsprogs)";
    if (auto why = mounts_.mount("-t tmpfs -o size=1200m none", in / "memory")) return why;
    const auto image = in / "memory/xfs";
    const auto made = shell(
        fmt::format("truncate -s 1100M '{0}' && mkfs.xfs -q -m reflink=1 '{0}'", image.string()));
    if (made.code != 0) return made.text;
    images_ = in / "reflinking";
    return mounts_.mount_image(image, images_);
  }

  class mounts mounts_;
  fs::path images_, at_;
};

/// One instant at which the power went.
struct power_cut {
  std::string image;
  int acknowledged = 0;
  std::string when;
};

class cutter {
 public:
  explicit cutter(cloneable_disk& disk)
      : disk_(disk),
        seed_(number_from("TROUPE_KILL_SEED", 1)),
        random_(static_cast<uint64_t>(seed_)),
        truth_(train_undisturbed(job_, with(sets_, {"checkpoint.every=1"}))) {}

  void run(int cuts) {
    while (static_cast<int>(done_) < cuts) {
      for (const auto& cut : train_and_cut(cuts - done_)) judge_cut(cut);
      fs::remove_all(folder());
    }
  }

  std::string summary() const {
    return fmt::format(
        "{} cuts in {} runs; {} left interrupted saves, {} a newer checkpoint than was "
        "acknowledged; checkpoints: {} verified and compared with the undisturbed run's; each cut "
        "was trained on from (seed {})",
        done_, runs_, with_leftovers_, newer_, compared_, seed_);
  }

 private:
  fs::path folder() const { return disk_.at() / "checkpoints"; }

  /// A whole run, and the instants in it, at most so many.
  std::vector<power_cut> train_and_cut(int most) {
    std::vector<power_cut> out;
    lookout watch(folder());
    // Every other step, so that for a step's time nothing is synced after an acknowledgement.
    program up(
        job_.up(with(sets_, {"checkpoint.every=2", "checkpoint.dir=" + folder().string(),
                             "job.output=" + (job_ / fmt::format("run{}", ++runs_)).string()})));
    while (static_cast<int>(out.size()) < std::min(most, 8)) {
      auto when = draw_moment(random_, false);
      if (when.what == sight::launched || when.what == sight::open) when.what = sight::step;
      if (!watch.await_next(up, when)) break;
      up.listen();
      power_cut cut{fmt::format("cut{}", out.size()), acknowledged_in(up.out()), render(when)};
      const auto failed = disk_.cut(cut.image);
      INFO(failed.value_or(""));
      REQUIRE_FALSE(failed);
      out.push_back(cut);
    }
    const int code = up.wait();
    INFO(up.err());
    REQUIRE(code == 0);
    return out;
  }

  void judge_cut(const power_cut& cut) {
    INFO("seed ", seed_, ", run ", runs_, ", ", cut.image, " ", cut.when, ", acknowledged ",
         cut.acknowledged);
    const auto at = job_ / "after";
    const auto failed = disk_.mounts().mount_image(disk_.image(cut.image), at);
    INFO(failed.value_or(""));
    REQUIRE_FALSE(failed);
    const auto survivors = at / "checkpoints";
    fs::create_directories(survivors);  // the first cuts may be before it was on the disk
    judge j(truth_);
    const int newest = j.look(survivors, cut.acknowledged);
    with_leftovers_ += leftovers_in(survivors).empty() ? 0 : 1;
    newer_ += newest > cut.acknowledged ? 1 : 0;
    go_on(j, survivors, newest);
    compared_ += j.compared();
    disk_.mounts().unmount(at);
    fs::remove(disk_.image(cut.image));
    ++done_;
  }

  void go_on(judge& j, const fs::path& survivors, int newest) {
    program up(job_.up(with(sets_, {"checkpoint.every=2", "checkpoint.dir=" + survivors.string(),
                                    "job.output=" + (job_ / "after-run").string()})));
    const int code = up.wait();
    INFO(up.err());
    CHECK(code == 0);
    j.follow(up.objects("step"), newest);
    CHECK(j.look(survivors, steps) == steps);
    CHECK(leftovers_in(survivors).empty());
  }

  static constexpr int steps = 24;

  cloneable_disk& disk_;
  job_files job_;
  int seed_;
  std::mt19937_64 random_;
  std::vector<std::string> sets_ =
      with(layout(2, 1), {fmt::format("train.steps={}", steps), "train.batch=32"});
  undisturbed truth_;
  int done_ = 0, runs_ = 0, with_leftovers_ = 0, newer_ = 0, compared_ = 0;
};

}  // namespace

TEST_CASE("power cut: what ext4 holds at that instant is whole, acknowledged and goes on") {
  scratch folder;
  cloneable_disk disk;
  if (const auto why = disk.make(folder.path)) {
    MESSAGE("SKIPPED: ", *why);
    return;
  }
  cutter c(disk);
  c.run(number_from("TROUPE_POWER_CUTS", 6));
  MESSAGE(c.summary());
}
