// Threads that compute in a control group of this machine: held, alone, and let go however their
// process ends. Left out where this user may write no cpu controller.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpu/controls/thread_quota.hpp"
#include "tests/cluster/constant_watts.hpp"

using namespace troupe::cluster_test;
using troupe::gpu::controls::control_place;
using troupe::gpu::controls::control_record;

namespace {

int own_thread() {
  return static_cast<int>(::syscall(SYS_gettid));
}

/// Whether the test is to be left out here, which is said.
bool is_without_groups() {
  const troupe::scratch records;
  control_place at;
  at.records = records.path;
  const auto made =
      troupe::gpu::controls::thread_quota::make(at, {"probe", 0}, std::vector{own_thread()});
  if (!made) MESSAGE(("skipped: " + made.error().message));
  return !made;
}

double thread_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Processor time that this thread gets in about a second of wanting all of it.
double seconds_of_work() {
  const auto begun = std::chrono::steady_clock::now();
  const double before = thread_seconds();
  while (std::chrono::steady_clock::now() - begun < std::chrono::seconds(1)) {
  }
  return thread_seconds() - before;
}

fs::path records_folder() {
  return fs::path(std::getenv("XDG_RUNTIME_DIR")) / "troupe" / "controls";
}

std::vector<control_record> records_here() {
  std::vector<control_record> out;
  std::error_code none;
  for (const auto& file : fs::directory_iterator(records_folder(), none)) {
    const auto text = troupe::io::read_file(file.path(), troupe::gpu::controls::record_bytes);
    REQUIRE(text);
    const auto record = troupe::gpu::controls::parse_record(*text);
    REQUIRE(record);
    out.push_back(*record);
  }
  return out;
}

/// Names of the threads in a group.
std::vector<std::string> threads_in(const control_record& r) {
  std::vector<std::string> out;
  std::ifstream in(fs::path(r.group) / troupe::gpu::controls::threads_file(r.version));
  for (std::string thread; in >> thread;) {
    std::string name = "of another process";
    std::ifstream comm(fmt::format("/proc/{}/task/{}/comm", r.pid, thread));
    std::getline(comm, name);
    out.push_back(name);
  }
  return out;
}

std::vector<std::string> by_quota() {
  return with(constant_watts, with(layout(1, 1), {"power.budget_w=70", "power.control=cgroup"}));
}

}  // namespace

TEST_CASE("control: a quota holds the thread that it names, and no other, until it ends") {
  if (is_without_groups()) return;
  const troupe::scratch records;
  control_place at;
  at.records = records.path;
  double held_s = 0;
  bool is_made = false;
  std::thread([&] {
    const auto quota =
        troupe::gpu::controls::thread_quota::make(at, {"test", 0}, std::vector{own_thread()});
    is_made = quota && (*quota)->set(102);
    held_s = seconds_of_work();
  }).join();
  REQUIRE(is_made);
  CHECK(held_s < 0.5);  // a tenth, and what a machine at work adds to the second
  CHECK(fs::is_empty(records.path));
}

TEST_CASE("PWR-5: a job whose pace is a quota holds its compute threads, and leaves nothing") {
  if (is_metered_here() || is_without_groups()) return;
  job_files job;
  control_record left;
  {
    program up(job.up(with(by_quota(), with(endless, {"recovery.enabled=false"}))));
    REQUIRE(up.until_step(2));
    const auto all = records_here();
    REQUIRE(all.size() == 1);
    left = all.front();
    CHECK(left.job == "t");
    const auto held = threads_in(left);
    CHECK_MESSAGE(held == std::vector<std::string>{"compute"},
                  fmt::format("{}", fmt::join(held, ", ")));
    CHECK(run({"power", "restore"}).code == 0);
    CHECK(fs::exists(left.group));  // its process lives
    const watched node(static_cast<pid_t>(left.pid));
    node.signal(SIGKILL);
    CHECK(up.wait() != 0);
    REQUIRE(node.gone());
  }
  REQUIRE(fs::exists(left.group));
  CHECK(threads_in(left).empty());
  const auto trial = run({"power", "restore", "--dry-run", "--json"});
  CHECK(trial.code == 0);
  INFO(trial.out, trial.err);
  const auto said = nlohmann::json::parse(trial.out, nullptr, false);
  REQUIRE(said.is_object());
  REQUIRE(said["changes"].size() == 1);
  CHECK(said["changes"][0]["verdict"] == "undo");
  CHECK(said["changes"][0]["group"] == left.group);
  REQUIRE(fs::exists(left.group));
  CHECK(run({"power", "restore"}).code == 0);
  CHECK_FALSE(fs::exists(left.group));
  CHECK(records_here().empty());

  const auto plain = job.losses(with(constant_watts, with(layout(1, 1), {"power.model_idle_w=0"})));
  CHECK(job.losses(by_quota()) == plain);
  CHECK(records_here().empty());
}
