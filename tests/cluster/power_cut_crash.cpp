// The power is cut under a run that saves: its checkpoints lie on an ext4 image, a clone of the
// image's file is the disk as it was at that instant, and after the clone's journal was replayed
// the survivors are judged against what was acknowledged before the clone began; then the job goes
// on from the clone. For root with loop devices and a file system that reflinks.
//
// Every other job has a second tier, on an ext4 of its own, and keeps two checkpoints in each. Both
// disks lose their power, one after the other: which comes first is drawn. A job has several
// launches, of which the later begin by seed (turns.hpp) at an older checkpoint, at one that was
// set aside, anew, or with a first tier that was damaged or emptied; so the power goes while
// checkpoints are set aside, copied and removed. What must be there is the ledger's affair
// (ledger.hpp). A launch is told to stop after its last cut; each cut is trained on to the job's
// end.
//
//   TROUPE_POWER_CUTS  cuts (default 6; nightly 200 and more)
//   TROUPE_KILL_SEED   another seed than 1
//
// One run after that has its state on the first disk, too, so that its checkpoints there are links
// to files that it trains in.
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

#include <csignal>
#include <cstring>
#include <optional>

#include "io/checkpoint/folder_claim.hpp"
#include "tests/cluster/launches.hpp"
#include "tests/cluster/mounts.hpp"
#include "tests/cluster/swapped_jobs.hpp"

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

/// Two ext4 images whose files can be cloned, mounted.
class cloneable_disks {
 public:
  static constexpr size_t count = 2;

  /// Makes them in a folder; why not.
  std::optional<std::string> make(const fs::path& in) {
    if (auto why = why_no_mounts()) return why;
    std::ofstream(in / "a") << "a";
    images_ = in;
    if (clone(in / "a", in / "b"))  // then on a file system that can, in memory
      if (auto why = make_reflinking(in)) return why;
    for (size_t n = 0; n < count; ++n) {
      const auto made = shell(fmt::format("truncate -s 300M '{0}' && mkfs.ext4 -q -F -b 4096 '{0}'",
                                          image("disk", n).string()));
      if (made.code != 0) return made.text;
      at_[n] = in / fmt::format("mounted{}", n);
      if (auto why = mounts_.mount_image(image("disk", n), at_[n])) return why;
    }
    return std::nullopt;
  }

  const fs::path& at(size_t n) const { return at_[n]; }

  /// What they hold is on them, whenever the power goes from now on.
  void settle() const {
    for (const auto& at : at_) {
      const io::unique_fd fd(open(at.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      REQUIRE((fd && syncfs(fd.get()) == 0));
    }
  }

  /// The power of both goes, of `first` before the other's.
  void cut(const std::string& name, size_t first) const {
    for (const size_t n : {first, count - 1 - first}) {
      const auto failed = clone(image("disk", n), image(name, n));
      INFO(failed.value_or(""));
      REQUIRE_FALSE(failed);
    }
  }
  /// Mounts what a cut left over the disks themselves; then those are seen again, and it is gone.
  void show(const std::string& name) {
    for (size_t n = 0; n < count; ++n) {
      const auto failed = mounts_.mount_image(image(name, n), at_[n]);
      INFO(failed.value_or(""));
      REQUIRE_FALSE(failed);
    }
  }
  void hide(const std::string& name) {
    for (size_t n = 0; n < count; ++n) {
      mounts_.unmount(at_[n]);
      fs::remove(image(name, n));
    }
  }

 private:
  fs::path image(const std::string& name, size_t n) const {
    return images_ / fmt::format("{}{}", name, n);
  }

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

  mounts mounts_;
  fs::path images_;
  std::array<fs::path, count> at_;
};

/// One instant at which the power went.
struct power_cut {
  std::string image;
  std::set<int> acknowledged;  ///< in that launch
  std::string when;
};

class cutter {
 public:
  /// `swaps`: with the state on the first disk.
  cutter(cloneable_disks& disks, bool swaps)
      : disks_(disks),
        seed_(number_from("TROUPE_KILL_SEED", 1)),
        random_(static_cast<uint64_t>(seed_)),
        deck_(steps, false),
        swaps_(swaps),
        sets_(sets_of(swaps)),
        truth_(train_undisturbed(files_, with(sets_, {"checkpoint.every=1"}))),
        judge_(truth_) {}

  void run(int cuts) {
    while (done_ < cuts) {
      begin(++jobs_);
      for (int n = 0; n < lives_of_a_job && done_ < cuts; ++n)
        live(std::min(cuts - done_, cuts_of_a_launch));
      asides_ += job_->account().asides();
      for (const auto& folder : {output_, job_->first(), job_->second()})
        if (!folder.empty()) fs::remove_all(folder);
    }
  }

  std::string summary() const {
    std::string out = fmt::format("{} cuts in {} runs of {} jobs ({} of two tiers); after", done_,
                                  runs_, jobs_, two_tiers_);
    for (size_t s = 0; s < sights; ++s)
      if (by_sight_[s] > 0)
        out += fmt::format(" {} {}", by_sight_[s], to_string(static_cast<sight>(s)));
    out += fmt::format("; {} left interrupted saves, {} a newer checkpoint than was acknowledged; ",
                       with_leftovers_, newer_);
    for (size_t k = 0; k < deeds; ++k)
      if (by_deed_[k] > 0)
        out += fmt::format("{} {}, ", by_deed_[k], to_string(static_cast<deed>(k)));
    return out + fmt::format(
                     "{} checkpoints set aside; {} compared with the undisturbed run's, {} "
                     "verifications; each cut was trained on from (seed {})",
                     asides_, judge_.compared(), judge_.verified(), seed_);
  }

 private:
  /// Replicas, or one rank that swaps.
  std::vector<std::string> sets_of(bool swaps) const {
    const std::vector<std::string> sets{fmt::format("train.steps={}", steps), "train.batch=32"};
    return swaps ? at_floor(files_, sets) : with(layout(2, 1), sets);
  }

  /// Every other job has a second tier; those, and every other one of the rest, remove.
  void begin(int number) {
    const bool two = number % 2 == 1;
    output_ = files_ / fmt::format("job{}", number);
    job_.emplace(judge_, disks_.at(0) / "checkpoints",
                 two ? disks_.at(1) / "checkpoints" : fs::path(), two || number % 4 == 0 ? 2 : 0);
    two_tiers_ += two ? 1 : 0;
  }

  /// A launch of the job, at most so many cuts in it, and what follows from each.
  void live(int most) {
    auto t = deck_.draw(random_, job_->account(), job_->has_second());
    t.who = rival::none;
    make_folders();  // of the first launch
    const auto start = job_->begin(t, deck_, random_);
    disks_.settle();
    const auto begun = *job_;
    INFO("seed ", seed_, ", job ", jobs_, ", ", render(t), ", from step ", job_->from());
    const auto cuts = train_and_cut(start, t.at, most);
    for (const auto& cut : cuts) judge_cut(begun, cut);
    deck_.taken(t);
    for (const auto d : deeds_of(t)) ++by_deed_[static_cast<size_t>(d)];
  }

  /// A cut may be before they were on the disk.
  void make_folders() const {
    for (const auto& dir : {job_->first(), job_->second()})
      if (!dir.empty()) fs::create_directories(dir);
  }

  /// Saves every other step, so that for a step's time nothing is synced after an acknowledgement.
  std::vector<std::string> up(const launches& job, const std::string& start,
                              const fs::path& output) const {
    auto sets = with(with(sets_, job.settings()),
                     {start, "checkpoint.every=2", "job.output=" + output.string()});
    if (swaps_) sets.push_back("swap.dir=" + (disks_.at(0) / "swap").string());
    return files_.up(sets);
  }

  std::vector<power_cut> train_and_cut(const std::string& start, std::optional<sight> at,
                                       int most) {
    std::vector<power_cut> out;
    lookout watch(job_->first(), job_->second());
    program p(up(*job_, start, output_));
    ++runs_;
    bool lives_on = true;
    while (lives_on && static_cast<int>(out.size()) < most) {
      const auto when = next_moment(std::exchange(at, std::nullopt));
      lives_on = watch.await_next(p, when);
      if (!lives_on) break;
      p.listen();
      out.push_back(
          {fmt::format("cut{}-", out.size()), all_acknowledged_in(p.out()), render(when)});
      disks_.cut(out.back().image, random_() % disks_.count);
      ++by_sight_[static_cast<size_t>(when.what)];
    }
    if (lives_on) p.signal(SIGTERM);
    const int code = p.wait();
    INFO(p.err());
    CHECK((code == 0 || (lives_on && code == 128 + SIGTERM)));
    job_->end(p, all_acknowledged_in(p.out()), false);
    return out;
  }

  /// Where the turn says so at what only some launches do, else at a moment of a save or of a copy.
  moment next_moment(std::optional<sight> at) {
    if (at == sight::publish) at = std::nullopt;  // the model is on no disk that is cut
    if (!at && job_->has_second() && random_() % 3 == 0)
      at = random_() % 2 == 0 ? sight::copy : sight::copied;
    if (at) return draw_moment_of(random_, *at);
    auto when = draw_moment(random_, job_->removes());
    if (when.what == sight::launched || when.what == sight::open) when.what = sight::step;
    return when;
  }

  /// `begun`: the job as the launch began that the power was cut under.
  void judge_cut(launches begun, const power_cut& cut) {
    INFO(cut.image, " ", cut.when, ", acknowledged in its launch: ",
         cut.acknowledged.empty() ? 0 : *cut.acknowledged.rbegin());
    disks_.show(cut.image);
    judge_.forget();  // the same names, on other disks
    make_folders();
    with_leftovers_ += begun.leftovers().empty() ? 0 : 1;
    begun.account().end(cut.acknowledged, true);
    const int newest = begun.account().step_of(begun.account().expected());
    if (!cut.acknowledged.empty()) newer_ += newest > *cut.acknowledged.rbegin() ? 1 : 0;
    go_on(begun);
    disks_.hide(cut.image);
    judge_.forget();
    ++done_;
  }

  void go_on(launches& job) {
    const auto output = files_ / "after";
    program p(up(job, job.begin({}, deck_, random_), output));
    const int code = p.wait();
    INFO(p.err());
    CHECK(code == 0);
    job.end(p, all_acknowledged_in(p.out()), true);
    job.check_done(steps);
    for (const auto& path : job.leftovers())  // FC-2
      CHECK_MESSAGE(io::checkpoint::claim_of(io::local_files(), path).files.empty(), path.string(),
                    " is still there");
    CHECK(text_of(output / "model/model.safetensors") == truth_.model);
    fs::remove_all(output);
  }

  static constexpr int steps = 24;
  static constexpr int lives_of_a_job = 3, cuts_of_a_launch = 2;

  cloneable_disks& disks_;
  job_files files_;
  int seed_;
  std::mt19937_64 random_;
  turn_deck deck_;
  bool swaps_;
  std::vector<std::string> sets_;
  undisturbed truth_;
  judge judge_;
  // of the job at hand
  fs::path output_;
  std::optional<launches> job_;
  // of all
  int done_ = 0, runs_ = 0, jobs_ = 0, two_tiers_ = 0, with_leftovers_ = 0, newer_ = 0, asides_ = 0;
  std::array<int, sights> by_sight_{};
  std::array<int, deeds> by_deed_{};
};

}  // namespace

namespace {

void cut_the_power(bool swaps, int cuts) {
  scratch folder;
  cloneable_disks disks;
  if (const auto why = disks.make(folder.path)) {
    MESSAGE("SKIPPED: ", *why);
    return;
  }
  cutter c(disks, swaps);
  c.run(cuts);
  MESSAGE(c.summary());
}

}  // namespace

TEST_CASE("power cut: what ext4 holds at that instant is whole, acknowledged and goes on") {
  cut_the_power(false, number_from("TROUPE_POWER_CUTS", 6));
}

TEST_CASE("power cut: the same of checkpoints that are links to what a run trains in") {
  cut_the_power(true, (number_from("TROUPE_POWER_CUTS", 6) + 1) / 2);
}
