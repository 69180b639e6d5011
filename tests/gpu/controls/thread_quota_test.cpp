// A quota of threads on a made tree of control groups: what is changed, in which order, and back.
#include "gpu/controls/thread_quota.hpp"

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "gpu/controls/restore.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::gpu::controls;

namespace fs = std::filesystem;

namespace {

using changes = std::vector<std::string>;

void put(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

/// Groups as folders; notes each change as "GROUP/FILE=TEXT" below the mount.
class made_groups final : public group_files {
 public:
  made_groups(fs::path mount, fs::path records)
      : mount_(std::move(mount)), records_(std::move(records)) {}

  status make(const fs::path& group) override {
    was_recorded = fs::exists(records_ / (group.filename().string() + std::string(record_suffix)));
    done.push_back("make " + name_of(group));
    fs::create_directory(group);
    note_held(group.parent_path());
    return {};
  }
  status write(const fs::path& file, std::string_view text) override {
    if (!refused.empty() && file.filename() == refused) return refusal;
    done.push_back(fmt::format("{}={}", name_of(file), text));
    if (!fs::exists(file.parent_path())) return error::system("write", ENOENT);
    if (file.filename() == "cpu.max" && !lists(cpu_of(file), "cpu"))
      return error::system("write", ENOENT);
    if (file.filename() == "cgroup.threads" || file.filename() == "tasks") moves(file, text);
    if (file.filename() == "cgroup.subtree_control") {
      note_held(file.parent_path());
      put(file, text == "+cpu" ? "cpu" : "");
    }
    return {};
  }
  status remove(const fs::path& group) override {
    if (is_busy || is_in_use(group)) return error::system("remove", EBUSY);
    done.push_back("remove " + name_of(group));
    note_held(group.parent_path());
    fs::remove_all(group);
    return {};
  }

  /// A thread of the group starts another one, 13, which is in the same.
  void starts(const fs::path& list) const { std::ofstream(list, std::ios::app) << "13\n"; }

  changes done;
  std::string refused;  ///< a file that takes nothing
  error refusal{errc::permission, "nobody may write that"};
  bool is_busy = false, was_recorded = false;
  int alone = 0, beside = 0;  ///< changes while who makes them holds the group, and while not

 private:
  /// Where version 2 has the controller of a group's files.
  static std::string cpu_of(const fs::path& file) {
    std::ifstream in(file.parent_path().parent_path() / "cgroup.subtree_control");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void note_held(const fs::path& group) {
    const io::unique_fd fd(::open(group.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ++(::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK ? alone : beside);
  }
  static bool is_in_use(const fs::path& group) {
    std::error_code none;
    for (const char* list : {"cgroup.threads", "tasks"})
      if (fs::file_size(group / list, none) > 0 && !none) return true;
    return false;
  }
  /// A thread is in one group at a time.
  void moves(const fs::path& list, std::string_view thread) const {
    for (const auto& entry : fs::recursive_directory_iterator(mount_)) {
      if (entry.path().filename() != list.filename()) continue;
      std::ifstream in(entry.path());
      std::string others;
      for (std::string one; std::getline(in, one);)
        if (one != thread) others += one + "\n";
      in.close();
      put(entry.path(), others);
    }
    std::ofstream(list, std::ios::app) << thread << "\n";
  }
  std::string name_of(const fs::path& p) const { return p.lexically_relative(mount_).string(); }

  fs::path mount_, records_;
};

/// A machine with version 2, on which this process is in job.slice.
struct made_machine {
  scratch folder;
  std::shared_ptr<made_groups> groups;
  control_place at;
  fs::path own;

  explicit made_machine(cgroup_version version = cgroup_version::two) {
    const bool two = version == cgroup_version::two;
    at.mount = folder / "cgroup";
    at.processes = folder / "proc";
    at.records = folder / "records";
    groups = std::make_shared<made_groups>(at.mount, at.records);
    at.groups = groups;
    own = at.mount / (two ? "job.slice" : "cpu/job.slice");
    put(at.processes / "self/cgroup", two ? "0::/job.slice\n" : "1:cpu:/job.slice\n0::/\n");
    put(at.processes / "sys/kernel/random/boot_id", "boot-1\n");
    lives(::getpid(), 500);
    if (two) {
      put(own / "cgroup.controllers", "cpu io\n");
      put(own / "cgroup.subtree_control", "");
    } else {
      put(own / "cpu.cfs_quota_us", "-1\n");
    }
  }
  void lives(int64_t pid, uint64_t started) const {
    put(at.processes / fmt::format("{}/stat", pid),
        fmt::format("{} (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 {} 7\n", pid, started));
  }
  std::unique_ptr<thread_quota> quota() const {
    auto made = thread_quota::make(at, {"tiny", 0}, std::vector{11, 12});
    REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
    return std::move(*made);
  }
  /// The record of a process, and the group that it has made.
  control_record left_by(int64_t pid, uint64_t started, const std::string& boot = "boot-1") const {
    const auto name = group_name(pid, 0);
    const control_record r{
        cgroup_version::two, (own / name).string(), false, "old", 0, pid, started, boot};
    put(at.records / (name + std::string(record_suffix)), record_text(r));
    fs::create_directories(own / name);
    return r;
  }
  size_t record_count() const {
    const auto files = fs::directory_iterator(at.records);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
};

/// "job.slice/troupe-PID-N", by the first change.
std::string group_in(const changes& done) {
  REQUIRE_FALSE(done.empty());
  REQUIRE(done.front().starts_with("make "));
  return done.front().substr(5);
}

}  // namespace

TEST_CASE("CTQ-2: thread quota: named threads are in a threaded group, and out of it at its end") {
  const made_machine m;
  auto quota = m.quota();
  const auto group = group_in(m.groups->done);
  CHECK(m.groups->done == changes{"make " + group, group + "/cgroup.type=threaded",
                                  "job.slice/cgroup.subtree_control=+cpu",
                                  group + "/cgroup.threads=11", group + "/cgroup.threads=12",
                                  group + "/cpu.max=199804 100000"});
  m.groups->done.clear();
  REQUIRE(quota->set(512));
  REQUIRE(quota->set(512));  // it is set
  REQUIRE(quota->set(1024));
  CHECK(m.groups->done == changes{group + "/cpu.max=100000 100000", group + "/cpu.max=max 100000"});
  m.groups->done.clear();
  quota->end();
  CHECK(m.groups->done == changes{group + "/cpu.max=max 100000", "job.slice/cgroup.threads=11",
                                  "job.slice/cgroup.threads=12", "remove " + group,
                                  "job.slice/cgroup.subtree_control=-cpu"});
  CHECK(m.record_count() == 0);
  REQUIRE(quota->set(100));  // it has ended
  quota.reset();
  CHECK(m.groups->done.size() == 5);
}

TEST_CASE(
    "thread quota: version 1 has a group of the cpu controller, and a quota of its own file") {
  const made_machine m(cgroup_version::one);
  auto quota = m.quota();
  const auto group = group_in(m.groups->done);
  REQUIRE(quota->set(256));
  CHECK(m.groups->done == changes{"make " + group, group + "/cpu.cfs_period_us=100000",
                                  group + "/tasks=11", group + "/tasks=12",
                                  group + "/cpu.cfs_quota_us=199804",
                                  group + "/cpu.cfs_quota_us=50000"});
  m.groups->done.clear();
  quota.reset();
  CHECK(m.groups->done == changes{group + "/cpu.cfs_quota_us=-1", "cpu/job.slice/tasks=11",
                                  "cpu/job.slice/tasks=12", "remove " + group});
  CHECK(m.record_count() == 0);
}

TEST_CASE("CGP-3: thread quota: version 1 has no quota above the limit of a group above") {
  const made_machine m(cgroup_version::one);
  put(m.own / "cpu.cfs_quota_us", "40000\n");
  put(m.own / "cpu.cfs_period_us", "50000\n");
  put(m.at.mount / "cpu/cpu.cfs_quota_us", "150000\n");
  put(m.at.mount / "cpu/cpu.cfs_period_us", "100000\n");
  const auto quota = m.quota();
  const auto written = group_in(m.groups->done) + "/cpu.cfs_quota_us=";
  CHECK(m.groups->done.back() == written + "80000");
  m.groups->done.clear();
  REQUIRE(quota->set(512));
  REQUIRE(quota->set(256));
  REQUIRE(quota->set(1024));
  CHECK(m.groups->done == changes{written + "80000", written + "50000", written + "-1"});
}

TEST_CASE("thread quota: a limit that is not seen ends it before the first step, with a remedy") {
  const made_machine m(cgroup_version::one);
  m.groups->refused = "cpu.cfs_quota_us";
  m.groups->refusal = error::system("write it", EINVAL);
  const auto made = thread_quota::make(m.at, {"tiny", 0}, std::vector{11});
  REQUIRE_FALSE(made);
  CHECK(made.error().is(quota_over_limit));
  CHECK_FALSE(fs::exists(m.at.mount / group_in(m.groups->done)));
  CHECK(m.record_count() == 0);
}

TEST_CASE("CTQ-1: thread quota: what is changed is on the disk before, else nothing is changed") {
  const made_machine m;
  {
    const auto quota = m.quota();
    CHECK(m.groups->was_recorded);
    CHECK(m.record_count() == 1);
  }
  m.groups->done.clear();
  auto at = m.at;
  put(m.folder / "file", "");
  for (const auto& nowhere : {m.folder / "file/records", fs::path{}}) {
    at.records = nowhere;
    const auto made = thread_quota::make(at, {"tiny", 0}, std::vector{11});
    REQUIRE_FALSE(made);
    CHECK(made.error().is(quota_refused));
  }
  CHECK(m.groups->done.empty());
}

TEST_CASE("thread quota: where it is refused all is as it was, and the reason has a remedy") {
  for (const char* refused :
       {"cgroup.type", "cgroup.subtree_control", "cgroup.threads", "cpu.max"}) {
    CAPTURE(refused);
    const made_machine m;
    m.groups->refused = refused;
    const auto made = thread_quota::make(m.at, {"tiny", 0}, std::vector{11});
    REQUIRE_FALSE(made);
    CHECK(made.error().is(quota_refused));
    CHECK_FALSE(made.error().hint.empty());
    CHECK_FALSE(fs::exists(m.at.mount / group_in(m.groups->done)));
  }
  const made_machine m;
  put(m.own / "cgroup.controllers", "io\n");
  CHECK(thread_quota::make(m.at, {"tiny", 0}, std::vector{11}).error().is(no_cpu_controller));
  put(m.at.processes / "self/cgroup", "");
  CHECK(thread_quota::make(m.at, {"tiny", 0}, std::vector{11}).error().is(no_cpu_controller));
  CHECK(thread_quota::make(m.at, {"tiny", 0}, {}).error().is(no_computing_threads));
  CHECK(m.groups->done.empty());
}

TEST_CASE("CTQ-2: thread quota: what a dead process left goes with the next one") {
  const made_machine m;
  const auto left = m.left_by(77, 400);
  const auto quota = m.quota();
  CHECK_FALSE(fs::exists(left.group));
  CHECK(m.record_count() == 1);  // its own
}

TEST_CASE("CTQ-2: thread quota: what named threads have started is let go with them") {
  for (const auto version : {cgroup_version::one, cgroup_version::two}) {
    CAPTURE(static_cast<int>(version));
    const made_machine m(version);
    auto quota = m.quota();
    const auto group = m.at.mount / group_in(m.groups->done);
    m.groups->starts(group / threads_file(version));
    quota.reset();
    CHECK_FALSE(fs::exists(group));
    CHECK(m.record_count() == 0);
    std::ifstream in(m.own / threads_file(version));
    CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == "11\n12\n13\n");
  }
}

TEST_CASE("CTQ-2: thread quota: a group that cannot be removed holds nobody") {
  const made_machine m;
  auto quota = m.quota();
  const auto group = group_in(m.groups->done);
  REQUIRE(quota->set(102));
  m.groups->done.clear();
  m.groups->is_busy = true;
  quota.reset();
  CHECK(m.groups->done.front() == group + "/cpu.max=max 100000");
  CHECK(m.record_count() == 1);
}

TEST_CASE("thread quota: the controller is turned off with the last group that needs it") {
  const made_machine m;
  auto one = m.quota();
  auto two = m.quota();
  one.reset();
  CHECK(std::ranges::count(m.groups->done, "job.slice/cgroup.subtree_control=-cpu") == 0);
  two.reset();
  CHECK(m.groups->done.back() == "job.slice/cgroup.subtree_control=-cpu");
}

TEST_CASE("CTQ-4: thread quota: who makes a group or looks for the last one is alone") {
  const made_machine m;
  m.left_by(77, 400);
  m.quota().reset();  // removes, makes, turns on; removes, turns off
  CHECK(m.groups->alone == 5);
  CHECK(m.groups->beside == 0);
}

TEST_CASE("CTQ-4: thread quota: who keeps the group above holds nobody up for ever") {
  made_machine m;
  const auto held = hold_group(m.at, m.own);
  m.at.patience = {};
  m.quota().reset();
  CHECK(m.groups->done.back() == "job.slice/cgroup.subtree_control=-cpu");
}

TEST_CASE("CTQ-4: thread quota: a controller that somebody took away is turned on again") {
  const made_machine m;
  auto quota = m.quota();
  const auto written = group_in(m.groups->done) + "/cpu.max=";
  put(m.own / "cgroup.subtree_control", "");
  m.groups->done.clear();
  REQUIRE(quota->set(512));
  CHECK(m.groups->done == changes{written + "100000 100000",
                                  "job.slice/cgroup.subtree_control=+cpu",
                                  written + "100000 100000"});
}

TEST_CASE("thread quota: a controller that was on before stays on") {
  const made_machine m;
  put(m.own / "cgroup.subtree_control", "cpu\n");
  m.quota().reset();
  for (const auto& change : m.groups->done) CHECK(change.find("subtree_control") == change.npos);
}

TEST_CASE("CTQ-3: restore: of dead processes alone, and a trial run does nothing") {
  const made_machine m;
  const auto dead = m.left_by(70, 400);
  const auto living = m.left_by(71, 400);
  m.lives(71, 400);
  const auto reborn = m.left_by(72, 400);
  m.lives(72, 401);
  const auto earlier = m.left_by(73, 400, "boot-0");
  put(m.at.records / "troupe-9-0.control", "junk");
  put(m.at.records / "else", "not looked at");
  for (const bool trial : {true, false}) {
    CAPTURE(trial);
    const auto all = restore(m.at, trial);
    REQUIRE(all);
    REQUIRE(all->size() == 5);
    CHECK((*all)[0].verdict == record_verdict::undo);
    CHECK((*all)[1].verdict == record_verdict::in_use);
    CHECK((*all)[2].verdict == record_verdict::undo);
    CHECK((*all)[3].verdict == record_verdict::forget);
    for (size_t i = 0; i < 4; ++i) CHECK((*all)[i].outcome);
    CHECK((*all)[0].record == dead);
    REQUIRE_FALSE((*all)[4].outcome);
    CHECK((*all)[4].outcome.error().is(no_control_record));
    if (trial) CHECK(m.groups->done.empty());
  }
  CHECK(m.groups->done ==
        changes{"job.slice/troupe-70-0/cpu.max=max 100000", "remove job.slice/troupe-70-0",
                "job.slice/troupe-72-0/cpu.max=max 100000", "remove job.slice/troupe-72-0"});
  CHECK(fs::exists(living.group));
  CHECK(fs::exists(earlier.group));  // whoever has that name now is not its process
  CHECK_FALSE(fs::exists(reborn.group));
  CHECK(m.record_count() == 3);  // the living one's, the junk, the other file
}

TEST_CASE("CTQ-3: restore: of another container's process its threads tell whether it lives") {
  const made_machine m;
  fs::create_directories(m.at.processes / "self/ns");
  fs::create_symlink("pid:[2]", m.at.processes / "self/ns/pid");
  auto r = m.left_by(70, 400);
  r.number_space = "pid:[1]";
  put(m.at.records / "troupe-70-0.control", record_text(r));
  m.lives(70, 400);  // another one: numbers and ticks may be the same
  put(fs::path(r.group) / "cgroup.threads", "0\n");
  const auto living = restore(m.at, false);
  REQUIRE((living && living->size() == 1));
  CHECK(living->front().verdict == record_verdict::in_use);
  CHECK(living->front().record == r);
  CHECK(m.groups->done.empty());
  put(fs::path(r.group) / "cgroup.threads", "");
  const auto dead = restore(m.at, false);
  REQUIRE((dead && dead->size() == 1));
  CHECK(dead->front().verdict == record_verdict::undo);
  CHECK(dead->front().outcome);
  CHECK_FALSE(fs::exists(r.group));
}

TEST_CASE("CTQ-3: restore: version 1 shows no threads of another container, and keeps its group") {
  const made_machine m(cgroup_version::one);
  fs::create_directories(m.at.processes / "self/ns");
  fs::create_symlink("pid:[2]", m.at.processes / "self/ns/pid");
  auto r = m.left_by(70, 400);
  r.version = cgroup_version::one;
  r.number_space = "pid:[1]";
  put(m.at.records / "troupe-70-0.control", record_text(r));
  m.groups->is_busy = true;
  const auto living = restore(m.at, false);
  REQUIRE((living && living->size() == 1));
  CHECK(living->front().verdict == record_verdict::in_use);
  CHECK(living->front().outcome);
  CHECK(m.groups->done.empty());  // its threads are held as they were
  CHECK(m.record_count() == 1);
  m.groups->is_busy = false;
  const auto dead = restore(m.at, false);
  REQUIRE((dead && dead->size() == 1));
  CHECK(dead->front().verdict == record_verdict::undo);
  CHECK(dead->front().outcome);
  CHECK_FALSE(fs::exists(r.group));
  CHECK(m.record_count() == 0);
}

TEST_CASE("CTQ-3: restore: nothing is removed outside the mount, and what is busy is kept") {
  const made_machine m;
  const auto r = m.left_by(70, 400);
  auto elsewhere = m.at;
  elsewhere.mount = m.folder / "other";
  REQUIRE(restore(elsewhere, false));
  CHECK(restore(elsewhere, false)->front().outcome.error().code == errc::permission);
  CHECK(fs::exists(r.group));
  m.groups->is_busy = true;
  CHECK_FALSE(restore(m.at, false)->front().outcome);
  CHECK(m.record_count() == 1);
  m.groups->is_busy = false;
  CHECK(restore(m.at, false)->front().outcome);
  CHECK(m.record_count() == 0);
  CHECK(restore(m.at, false)->empty());
}
