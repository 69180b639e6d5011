// kill -9 again and again: a node, the launcher (which is the coordinator and the archive), or all
// of them, at moments drawn by seed, while every step is saved. After each kill the survivors are
// judged (survivors.hpp), the same command goes on from them, and is killed again, until the job
// is done; then the next job begins, with other settings.
//
//   TROUPE_KILLS      kills in all layouts together (default 36; nightly 1000 and more)
//   TROUPE_KILL_SEED  another seed than 1
//
// What a kill leaves is all that was written, synced or not: a cut of the power is another test's
// (power_cut_crash.cpp, tests/io/checkpoint/save_crash.cpp).
#include <fcntl.h>
#include <sys/stat.h>

#include <csignal>
#include <optional>

#include "tests/cluster/moments.hpp"
#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;

namespace {

constexpr int steps = 24;
constexpr int cases = 4;  // layouts

enum class target : uint8_t { node, launcher, all };
constexpr const char* target_names[] = {"one node", "the launcher", "all at once"};

/// What changes how checkpoints are written and kept, and no bit of them.
std::vector<std::string> draw_settings(std::mt19937_64& random, bool removals) {
  constexpr const char* busy[] = {"block", "skip", "stretch"};
  return {fmt::format("checkpoint.keep={}", removals ? 2 : 0),
          fmt::format("checkpoint.when_busy={}", busy[random() % 3])};
}

/// When a folder was made, if its file system knows, since 1970; within a tick of the kernel.
std::optional<int64_t> born_ns(const fs::path& folder) {
  struct statx facts {};
  if (statx(AT_FDCWD, folder.c_str(), 0, STATX_BTIME, &facts) != 0 ||
      (facts.stx_mask & STATX_BTIME) == 0)
    return std::nullopt;
  return facts.stx_btime.tv_sec * int64_t{1'000'000'000} + facts.stx_btime.tv_nsec;
}

/// Now, less a tick.
int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count() - 10'000'000;
}

class hunt {
 public:
  hunt(int data, int pipeline, int hidden)
      : nodes_(static_cast<size_t>(data * pipeline)),
        seed_(number_from("TROUPE_KILL_SEED", 1)),
        random_(static_cast<uint64_t>(seed_) * 100 + static_cast<uint64_t>(data * 10 + pipeline)),
        sets_(with(layout(data, pipeline),
                   {fmt::format("train.steps={}", steps), "checkpoint.every=1",
                    fmt::format("model.hidden={}", hidden)})),
        truth_(train_undisturbed(job_, sets_)),
        judge_(truth_) {}

  /// Whole jobs, until so many were killed.
  void run(int kills) {
    for (int number = 1; kills_ < kills || number == 1; ++number) {
      const auto output = job_ / fmt::format("job{}", number);
      begin(output, (static_cast<size_t>(number) + nodes_) % 2 == 1);
      while (!incarnation(kills_ < kills)) continue;
      ++jobs_;
      fs::remove_all(output);
    }
  }

  std::string summary() const {
    std::string out = fmt::format("{} kills (", kills_);
    for (size_t t = 0; t < 3; ++t)
      out += fmt::format("{}{} of {}", t > 0 ? ", " : "", by_target_[t], target_names[t]);
    out += fmt::format("; after");
    for (size_t s = 0; s < sights; ++s)
      if (by_sight_[s] > 0)
        out += fmt::format(" {} {}", by_sight_[s], to_string(static_cast<sight>(s)));
    return out + fmt::format(
                     "), {} jobs in {} runs, {} leftovers removed; checkpoints: {} compared "
                     "with the undisturbed run's, {} verifications (seed {})",
                     jobs_, runs_, leftovers_, judge_.compared(), judge_.verified(), seed_);
  }

 private:
  void begin(const fs::path& output, bool removals) {
    removals_ = removals;
    output_ = output;
    job_sets_ =
        with(sets_, with(draw_settings(random_, removals), {"job.output=" + output.string()}));
    saved_ = acknowledged_ = 0;
    left_.clear();
  }

  fs::path folder() const { return output_ / "checkpoints"; }

  /// One start of the command, with a kill unless the job is to be finished; true when it is done.
  bool incarnation(bool strike) {
    const auto when = draw_moment(random_, removals_);
    auto whom = static_cast<target>(random_() % 3);
    const auto which = static_cast<size_t>(random_() % nodes_);
    INFO("seed ", seed_, ", kill ", kills_ + 1, " of ",
         std::string(strike ? target_names[static_cast<size_t>(whom)] : "nobody"), " ",
         render(when));
    lookout watch(folder());
    started_ns_ = now_ns();
    program up(job_.up(job_sets_));
    ++runs_;
    if (!strike) return finish(up);
    std::vector<watched> nodes;
    if (when.what == sight::launched || when.what == sight::open) whom = target::launcher;
    if (when.what != sight::launched) {
      if (!up.until([&] { return up.port() != 0; })) return finish(up);
      check_start(up);
      if (when.what != sight::open) nodes = nodes_when_there(up);
    }
    if (!watch.await(up, when)) return finish(up);
    hit(up, whom, nodes, which);
    if (look_after(up, whom, nodes)) return true;
    ++kills_;
    ++by_target_[static_cast<size_t>(whom)];
    ++by_sight_[static_cast<size_t>(when.what)];
    return false;
  }

  /// The old leftovers are gone and were named; what is partial now is this run's own.
  void check_start(const program& up) {
    for (const auto& name : left_)
      CHECK_MESSAGE(up.err().find(name + ", left by an interrupted save") != std::string::npos,
                    name, " was not said to be removed");
    leftovers_ += static_cast<int>(left_.size());
    for (const auto& name : leftovers_in(folder()))
      CHECK_MESSAGE(born_ns(folder() / name).value_or(INT64_MAX) >= started_ns_, name,
                    " is still there");
  }

  std::vector<watched> nodes_when_there(const program& up) const {
    std::vector<pid_t> pids;
    REQUIRE(eventually([&] {
      pids = nodes_of(up.port());
      return pids.size() == nodes_;
    }));
    std::vector<watched> out;
    for (pid_t pid : pids) out.emplace_back(pid);
    return out;
  }

  void hit(const program& up, target whom, const std::vector<watched>& nodes, size_t which) {
    if (whom == target::all)
      for (const auto& node : nodes) kill(node.pid(), SIGKILL);
    if (whom == target::node)
      kill(nodes[which].pid(), SIGKILL);
    else
      up.signal(SIGKILL);
  }

  /// After the kill: everybody is gone, and what is left is judged. True if the run was over
  /// before.
  bool look_after(program& up, target whom, const std::vector<watched>& nodes) {
    const int code = up.wait();
    INFO(up.err());
    CHECK((code == 0 || code == (whom == target::node ? 69 : 128 + SIGKILL)));
    for (const auto& node : nodes) {
      CHECK(node.gone());
      CHECK(eventually([&] { return keeper_of(node.pid()) < 0; }));
    }
    if (nodes.empty() && up.port() != 0)
      CHECK(eventually([&] { return nodes_of(up.port()).empty(); }));
    judge_survivors(up);
    left_ = leftovers_in(folder());
    for (const auto& e : fs::directory_iterator(output_))
      if (e.path().filename().string().starts_with("blackbox-")) fs::remove(e.path());
    return code == 0 && finished();
  }

  void judge_survivors(const program& up) {
    judge_.follow(up.objects("step"), saved_);
    acknowledged_ = std::max({acknowledged_, acknowledged_in(up.out()),
                              acknowledged_in(text_of(output_ / "log.jsonl"))});
    saved_ = judge_.look(folder(), acknowledged_);
  }

  /// Nobody kills it: it comes to its end.
  bool finish(program& up) {
    const int code = up.wait();
    INFO(up.err());
    CHECK(code == 0);
    judge_survivors(up);
    return finished();
  }

  bool finished() const {
    CHECK(saved_ == steps);
    CHECK(leftovers_in(folder()).empty());
    CHECK(text_of(output_ / "model/model.safetensors") == truth_.model);
    return true;
  }

  job_files job_;
  size_t nodes_;
  int seed_;
  std::mt19937_64 random_;
  std::vector<std::string> sets_;
  undisturbed truth_;
  judge judge_;
  // of the job at hand
  fs::path output_;
  std::vector<std::string> job_sets_;
  bool removals_ = false;
  int64_t started_ns_ = 0;
  int saved_ = 0, acknowledged_ = 0;
  std::vector<std::string> left_;
  // of all
  int kills_ = 0, runs_ = 0, jobs_ = 0, leftovers_ = 0;
  std::array<int, 3> by_target_{};
  std::array<int, sights> by_sight_{};
};

void hunt_in(int data, int pipeline, int hidden) {
  hunt h(data, pipeline, hidden);
  h.run((number_from("TROUPE_KILLS", 36 / slowness) + cases - 1) / cases);
  MESSAGE(data, "x", pipeline, ": ", h.summary());
}

}  // namespace

TEST_CASE("kill -9: one rank, a shard of three slots") {
  hunt_in(1, 1, 192);
}
TEST_CASE("kill -9: two replicas") {
  hunt_in(2, 1, 64);
}
TEST_CASE("kill -9: two stages") {
  hunt_in(1, 2, 64);
}
TEST_CASE("kill -9: two replicas of two stages") {
  hunt_in(2, 2, 64);
}
