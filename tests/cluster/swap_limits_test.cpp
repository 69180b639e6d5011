// A job at its floor in no more memory than that and 64 MiB, as the kernel counts it: in a control
// group of its own where one can be made, and under a limit on data (RLIMIT_DATA) everywhere. And
// what its swap files have of the page cache, which would be memory beside the budget.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "io/file.hpp"
#include "tests/cluster/job_files.hpp"
#include "tests/cluster/swapped_jobs.hpp"

using namespace troupe::cluster_test;

namespace {

constexpr int64_t beside_bytes = 64 << 20;

/// Steps of a model whose state is several times what its frames have in memory.
const std::vector<std::string> long_one =
    with(deep_endless, {"model.layers=16", "model.hidden=128", "train.clip_norm=1"});

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A control group of memory below this process's own or the hierarchy's first, which goes with the
/// object: no process may be in it by then.
class memory_group {
 public:
  explicit memory_group(int64_t bytes) {
    for (const auto& parent : parents())
      for (const char* limit : {"memory.max", "memory.limit_in_bytes"})
        if (make(parent, limit, bytes)) return;
  }
  memory_group(const memory_group&) = delete;
  memory_group& operator=(const memory_group&) = delete;
  ~memory_group() {
    if (is_made()) rmdir(at_.c_str());
  }

  bool is_made() const { return !at_.empty(); }
  /// What a shell says to become a process of it.
  std::string join() const { return fmt::format("echo $$ > '{}/cgroup.procs'", at_.string()); }
  /// How often its limit was met.
  int64_t refusals() const {
    if (fs::exists(at_ / "memory.failcnt")) return std::stoll(text_of(at_ / "memory.failcnt"));
    return figure("memory.events", "max");
  }
  /// Pages of files that its processes brought in.
  int64_t cached_bytes() const {
    const bool first = fs::exists(at_ / "memory.failcnt");  // version 1
    return figure("memory.stat", first ? "cache" : "file");
  }

 private:
  /// Where a group may be made: version 2 wants its controller passed on to children.
  static std::vector<fs::path> parents() {
    std::vector<fs::path> out;
    std::istringstream lines(text_of("/proc/self/cgroup"));
    for (std::string line; std::getline(lines, line);) {
      const auto controllers = line.find(':'), path = line.find(':', controllers + 1);
      if (path == std::string::npos) continue;
      const auto names = line.substr(controllers + 1, path - controllers - 1);
      const std::string own = line.substr(path + 1);
      if (names == "memory")
        for (const auto& at : {own, std::string("/")}) out.push_back("/sys/fs/cgroup/memory" + at);
      if (names.empty())
        for (const auto& at : {own, std::string("/")}) out.push_back("/sys/fs/cgroup" + at);
    }
    return out;
  }

  bool make(const fs::path& parent, const char* limit, int64_t bytes) {
    const auto at = parent / fmt::format("troupe-test-{}", getpid());
    std::error_code failed;
    if (!fs::is_directory(parent, failed) || mkdir(at.c_str(), 0755) != 0) return false;
    if (fs::exists(at / limit, failed)) {
      std::ofstream(at / limit) << bytes;
      std::ofstream(at / "memory.swap.max") << 0;  // where there is one
      at_ = at;
      // The kernel keeps whole pages.
      if (std::abs(std::atoll(text_of(at / limit).c_str()) - bytes) <= 4096) return true;
    }
    rmdir(at.c_str());
    at_.clear();
    return false;
  }

  int64_t figure(const char* file, const std::string& key) const {
    std::ifstream in(at_ / file);
    int64_t value = 0;
    for (std::string name; in >> name >> value;)
      if (name == key) return value;
    return -1;
  }

  fs::path at_;
};

/// Bytes of a folder's files that are in the page cache; nothing where its file system makes no
/// transfers past it. Of a job that is paused: a file may take another name yet, the folder stays.
std::optional<int64_t> cached_below(const fs::path& folder) {
  int64_t out = 0;
  size_t seen = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder, failed), end; it != end; it.increment(failed)) {
    std::error_code gone;
    const bool is_file = it->is_regular_file(gone);
    const auto bytes = is_file ? it->file_size(gone) : 0;
    if (gone || bytes < 4096) continue;
    const troupe::io::unique_fd direct(open(it->path().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (!direct && errno == EINVAL) return std::nullopt;
    if (!direct && errno == ENOENT) continue;
    REQUIRE(direct);
    ++seen;
    void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, direct.get(), 0);
    REQUIRE(at != MAP_FAILED);
    std::vector<unsigned char> pages((bytes + 4095) / 4096);
    REQUIRE(mincore(at, bytes, pages.data()) == 0);
    for (const auto page : pages) out += (page & 1) * 4096;
    munmap(at, bytes);
  }
  CHECK_FALSE(failed);
  CHECK(seen > 0);
  return out;
}

/// Trains within what `before` sets, a line of the shell.
void train_within(job_files& job, int64_t floor, const std::string& before) {
  program up(job.up(with(long_one, swapped(job, floor))), 0, {}, 0, before);
  REQUIRE(up.until_step(4));
  REQUIRE(ordered(up, "pause").code == 0);
  REQUIRE(up.until_error_has("paused after step"));
  if (const auto cached = cached_below(job / "swap"))
    CHECK(*cached == 0);
  else
    MESSAGE("SKIPPED: files here cannot be read past the page cache");
  const int last = end_soon(up, job / "run/log.jsonl", 16);
  REQUIRE(ordered(up, "resume").code == 0);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(numbers_of(up) ==
        numbers_in_memory(job, with(long_one, {fmt::format("train.steps={}", last)})));
  for (const auto& step : up.objects("step")) CHECK(step["process_peak_bytes"] <= floor);
}

}  // namespace

TEST_CASE("swap: at its floor a job fits into a control group of that and 64 MiB") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  MESSAGE("SKIPPED: sanitizers take memory of their own");
#else
  job_files job;
  const auto floor = floor_of(job, long_one);
  const memory_group group(floor + beside_bytes);
  if (!group.is_made()) {
    MESSAGE("SKIPPED: no control group of memory can be made here");
    return;
  }
  train_within(job, floor, group.join());
  CHECK(group.refusals() == 0);
  CHECK(group.cached_bytes() >= 0);
  CHECK(group.cached_bytes() < beside_bytes / 2);
#endif
}

TEST_CASE("swap: at its floor a job needs no more data than that and 64 MiB") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  MESSAGE("SKIPPED: sanitizers take memory of their own");
#else
  job_files job;
  const auto floor = floor_of(job, long_one);
  // All of a thread's stack is data, whatever of it is used: a MiB of each.
  train_within(job, floor,
               fmt::format("ulimit -s 1024 && ulimit -d {}", (floor + beside_bytes) >> 10));
#endif
}
