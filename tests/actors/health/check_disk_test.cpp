// The disk's checks on disks that cannot be tried, and on ones that fail.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "actors/health/checks.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::health;
using fbs::CheckVerdict;

namespace {

using checks = std::map<std::string, fbs::CheckResultT>;

checks check(const checkup_options& options) {
  checkup_under_way c{false, options, {}};
  check_disk(c);
  checks out;
  for (auto& r : c.results) {
    judge(*r, std::nullopt, false);
    out[r->check] = *r;
  }
  return out;
}

struct on_folder {
  scratch folder;
  checkup_options options;
  on_folder() {
    options.folder = folder.path;
    options.times_budget = 100;  // how quick this machine is now is no part of these tests
  }

  /// A disk in memory, with these faults.
  checks with(const io::faulty_options& how) {
    options.open_disk = [how](const io::disk_options&) -> result<std::unique_ptr<io::disk>> {
      auto made = std::make_unique<io::faulty_disk>(io::crash_store::make(), how);
      for (const char* parent : {"/proc", "/proc/self", "/proc/self/fd"})
        REQUIRE(made->make_dir(parent));
      return std::unique_ptr<io::disk>(std::move(made));
    };
    return check(options);
  }
  checks failing(io::fault_site site, int failure) {
    io::faulty_options how;
    how.plan.push_back({site, 1, io::fault_effect::fail, failure});
    return with(how);
  }
  bool is_empty() const { return std::filesystem::is_empty(folder.path); }
};

void is_unknown(const checks& all) {
  REQUIRE(all.size() == 3);
  for (const auto& [name, c] : all) {
    CAPTURE(name);
    CHECK(c.verdict == CheckVerdict::unknown);
    CHECK_FALSE(c.text.empty());
  }
}

/// Files of this process may be so long meanwhile.
class file_limit {
 public:
  explicit file_limit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~file_limit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("EXM-2: a disk that cannot be tried is unknown: no folder, no room, no right") {
  on_folder f;
  f.options.folder = "/etc/hostname";
  is_unknown(check(f.options));
  f.options.folder = f.folder.path;
  {
    const file_limit full(1 << 20);
    is_unknown(check(f.options));
  }
  for (const int failure : {ENOSPC, EDQUOT, EROFS, EMFILE, EIO}) {
    CAPTURE(failure);
    is_unknown(f.failing(io::fault_site::open, failure));
  }
  for (const auto site : {io::fault_site::write, io::fault_site::read, io::fault_site::fdatasync})
    for (const int failure : {ENOSPC, EDQUOT, EFBIG}) {
      CAPTURE(failure);
      is_unknown(f.failing(site, failure));
    }
  CHECK(f.is_empty());
}

TEST_CASE("EXM-3: a process that is killed while it checks a disk leaves nothing") {
  on_folder f;
  f.options.open_disk = [](const io::disk_options&) -> result<std::unique_ptr<io::disk>> {
    raise(SIGKILL);
    return error{};
  };
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    check(f.options);
    _exit(0);
  }
  int how = 0;
  REQUIRE(waitpid(child, &how, 0) == child);
  CHECK(WIFSIGNALED(how));
  CHECK(f.is_empty());
}

TEST_CASE("check_disk: a disk that says that it failed is bad, whatever it was asked for") {
  on_folder f;
  for (const auto site : {io::fault_site::write, io::fault_site::read, io::fault_site::fdatasync}) {
    CAPTURE(static_cast<int>(site));
    const auto all = f.failing(site, EIO);
    CHECK(all.at("disk_pattern").verdict == CheckVerdict::bad);
    CHECK_FALSE(all.at("disk_pattern").text.empty());
  }
}

TEST_CASE("check_disk: where O_DIRECT is refused, how quick the disk reads is unknown") {
  on_folder f;
  auto all = f.with({});
  CHECK(all.at("disk_pattern").text.empty());
  CHECK(all.at("disk_read").seen > 0);
  io::faulty_options refusing;
  refusing.refuse_direct = true;
  all = f.with(refusing);
  CHECK(all.at("disk_pattern").verdict == CheckVerdict::ok);
  CHECK_FALSE(all.at("disk_pattern").text.empty());
  CHECK(all.at("disk_write").verdict == CheckVerdict::ok);
  CHECK(all.at("disk_read").verdict == CheckVerdict::unknown);
  CHECK_FALSE(all.at("disk_read").text.empty());
}
