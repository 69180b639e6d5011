// kill -9 while a job recovers by itself: one node, all, a spare, the head, or the head with a
// node, at moments drawn by seed: between steps, in a save, at a commit, in a recovery, and of a
// process that has just been started in a lost one's place. The same launch comes to its end each
// time, and:
//
//   KRC-1  Each loss that is told, of a step made once or again, is the undisturbed run's.
//   KRC-2  What was told as saved is never made again (HEAL-6).
//   KRC-3  Epochs ascend; steps are told without a gap (HEAL-5), but right before an epoch that a
//          head's death began: it had not told of them yet.
//   KRC-4  What is left on the disk is whole, and the undisturbed run's (survivors.hpp).
//
//   TROUPE_RECOVERY_KILLS      kills in all layouts together (default 18; nightly 300 and more)
//   TROUPE_RECOVERY_KILL_SEED  another seed than 1
#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "tests/cluster/moments.hpp"
#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;

namespace {

constexpr int job_steps = 60;
constexpr int layouts_tried = 3;

enum class prey : uint8_t { node, all_nodes, spare, head, head_and_node };
constexpr std::string_view prey_names[] = {"one node", "all nodes", "the spare", "the head",
                                           "the head and a node"};
constexpr size_t preys = std::size(prey_names);

/// When a kill comes: at something a run without faults does, too, or at something of a recovery.
enum class phase : uint8_t { training, recovering, starting };
constexpr std::string_view phase_names[] = {"while it trains", "while it recovers",
                                            "of a process that was just started"};
constexpr size_t phases = std::size(phase_names);

/// What one job is given by seed; none of it changes a bit.
struct draw_of_job {
  bool has_spare, has_copies;
  int every;
};

class recovery_hunt {
 public:
  recovery_hunt(int data, int pipeline)
      : nodes_(data * pipeline),
        seed_(number_from("TROUPE_RECOVERY_KILL_SEED", 1)),
        random_(static_cast<uint64_t>(seed_) * 100 + static_cast<uint64_t>(data * 10 + pipeline)),
        sets_(with(layout(data, pipeline),
                   {fmt::format("train.steps={}", job_steps), "recovery.most_per_hour=1000",
                    "recovery.return_s=3600", "cluster.heartbeat_interval_ms=100",
                    "cluster.suspect_after_ms=60000", "cluster.dead_after_ms=120000"})),
        truth_(train_undisturbed(job_, with(sets_, {"checkpoint.every=1"}))),
        judge_(truth_) {}

  void run(int kills) {
    for (int number = 1; kills_ < kills; ++number) one_job(number, kills);
  }

  std::string summary() const {
    std::string out = fmt::format("{} kills (", kills_);
    for (size_t p = 0; p < preys; ++p)
      out += fmt::format("{}{} of {}", p > 0 ? ", " : "", by_prey_[p], prey_names[p]);
    for (size_t p = 0; p < phases; ++p)
      out += fmt::format("{}{} {}", p > 0 ? ", " : "; ", by_phase_[p], phase_names[p]);
    return out + fmt::format("), {} jobs, {} steps made again, {} verifications (seed {})", jobs_,
                             again_, judge_.verified(), seed_);
  }

 private:
  // -- one job -----------------------------------------------------------------------------------

  void one_job(int number, int kills) {
    const draw_of_job d{random_() % 2 == 0, random_() % 2 == 0,
                        1 + static_cast<int>(random_() % 3)};
    const auto output = job_ / fmt::format("job{}", number);
    auto sets =
        with(sets_, {"job.output=" + output.string(), fmt::format("checkpoint.every={}", d.every)});
    if (d.has_spare) sets.emplace_back("cluster.spares=1");
    if (d.has_copies) sets.emplace_back("checkpoint.memory.every=1");
    has_spare_ = d.has_spare;
    lost_.clear();
    started_.reset();
    began_recovery_ = false;
    strikes_without_step_ = steps_told_ = 0;
    heads_killed_ = 0;
    told_.clear();
    lookout watch(output / "checkpoints");
    program up(job_.up(sets));
    if (d.has_spare) REQUIRE(up.until_error_has(fmt::format("spare node{} joined", nodes_)));
    REQUIRE(up.until_step(1));
    const int most = 2 + static_cast<int>(random_() % 6);
    for (int n = 0; n < most && kills_ < kills; ++n)
      if (!strike(up, watch, d)) break;
    const int code = up.wait();
    INFO("seed ", seed_, ", job ", number, " (", d.has_spare ? "spare, " : "",
         d.has_copies ? "copies, " : "", "every ", d.every, "): ", told_, "\n", up.err());
    CHECK(code == 0);
    is_told_right(up);
    const auto folder = output / "checkpoints";
    CHECK(judge_.look(folder, acknowledged_in(up.out())) == job_steps);  // KRC-4
    CHECK(leftovers_in(folder).empty());
    CHECK(text_of(output / "model/model.safetensors") == truth_.model);
    fs::remove_all(output);
    ++jobs_;
  }

  /// False when the run was over before.
  bool strike(program& up, lookout& watch, const draw_of_job& d) {
    const auto when = draw_phase();
    if (when == phase::training && !watch.await_next(up, draw_moment_of_training())) return false;
    if (when == phase::recovering) spin(draw_spin(random_, 1'000'000));
    if (when == phase::starting) {
      if (!await_start(up)) return false;
      spin(draw_spin(random_, 300'000));
    }
    const auto whom = when == phase::starting ? prey::node : draw_prey(d);
    up.listen();
    const int before = faults_told(up);
    const int steps = times(up.out(), R"("type":"step")");
    strikes_without_step_ = steps > steps_told_ ? 0 : strikes_without_step_ + 1;
    steps_told_ = steps;
    const auto names = hit(up, whom, when);
    told_ += fmt::format(" [{}: {}]", phase_names[static_cast<size_t>(when)],
                         names.empty() ? "nobody was there" : names);
    phase_before_ = names.empty() ? phase::training : when;
    began_recovery_ = false;
    if (names.empty()) return true;
    ++kills_;
    ++by_prey_[static_cast<size_t>(whom)];
    ++by_phase_[static_cast<size_t>(when)];
    if (whom == prey::spare) return true;
    began_recovery_ = up.until([&] { return faults_told(up) > before; });
    return began_recovery_;
  }

  static int faults_told(const program& up) {
    return times(up.err(), ": recovery ") + times(up.err(), "warning: the head was killed");
  }

  /// Of a recovery, or of a process in a lost one's place, only right after a kill that begot one.
  phase draw_phase() {
    const auto of = random_() % 6;
    if (!began_recovery_ || of < 2 || strikes_without_step_ >= 2) return phase::training;
    const bool may_start = started_.has_value() && phase_before_ != phase::starting;
    return of < 4 || !may_start ? phase::recovering : phase::starting;
  }

  moment draw_moment_of_training() {
    constexpr sight of[] = {sight::step,  sight::partial,  sight::shard,
                            sight::write, sight::manifest, sight::commit};
    const auto what = of[random_() % std::size(of)];
    return {what, 1 + static_cast<int>(random_() % 3), draw_spin(random_, 30'000)};
  }

  prey draw_prey(const draw_of_job& d) {
    const auto whom = static_cast<prey>(random_() % preys);
    return whom == prey::spare && !d.has_spare ? prey::node : whom;
  }

  /// The process that was started in the place of the last node that was killed.
  bool await_start(program& up) {
    bool there = false;
    eventually([&] {
      up.listen();
      const auto pid = node_named(up.port(), started_->first);
      there = pid > 0 && pid != started_->second;
      return there || head_of(up.pid()) < 0;
    });
    return there;
  }

  /// Who was killed. With a spare no node is lost twice: it would be evicted, and the job would go
  /// on with fewer replicas, which have other bits.
  std::string hit(const program& up, prey whom, phase when) {
    std::vector<std::pair<std::string, pid_t>> at;
    const auto add = [&](const std::string& name) {
      if (const auto pid = node_named(up.port(), name); pid > 0) at.emplace_back(name, pid);
    };
    if (when == phase::starting) {
      add(started_->first);
    } else if (whom == prey::spare) {
      add(fmt::format("node{}", nodes_));
    } else {
      const auto first = static_cast<int>(random_() % static_cast<uint64_t>(nodes_));
      const int many = whom == prey::all_nodes ? nodes_ : whom == prey::head ? 0 : 1;
      for (int n = 0; n < many; ++n) {
        const auto name = fmt::format("node{}", (first + n) % nodes_);
        if (!has_spare_ || lost_.insert(name).second) add(name);
      }
    }
    if (whom == prey::head || whom == prey::head_and_node)
      if (const auto pid = head_of(up.pid()); pid > 0) at.emplace_back("head", pid);
    std::string names;
    for (const auto& [name, pid] : at) {
      kill(pid, SIGKILL);
      names += (names.empty() ? "" : ", ") + name;
      if (name == "head")
        ++heads_killed_;
      else
        started_ = {name, pid};
    }
    return names;
  }

  // -- judging -----------------------------------------------------------------------------------

  /// The epochs that a head's death began, as their heads say: "the head ...: recovery 1 begins
  /// (epoch 1 -> 2)".
  static std::vector<int64_t> epochs_of_lost_heads(const program& up) {
    std::vector<int64_t> out;
    std::istringstream lines(up.err());
    for (std::string line; std::getline(lines, line);) {
      if (line.find("the head was killed") == std::string::npos) continue;
      if (const auto to = line.find(" -> "); to != std::string::npos)
        out.push_back(std::stoll(line.substr(to + 4)));
    }
    return out;
  }

  void is_told_right(const program& up) {
    int64_t epoch = 0;
    int last = 0, saved = 0;
    const auto of_heads = epochs_of_lost_heads(up);
    const auto head_died_between = [&](int64_t before, int64_t now) {
      return std::any_of(of_heads.begin(), of_heads.end(),
                         [&](int64_t e) { return e > before && e <= now; });
    };
    for (const auto& step : up.objects("step")) {
      const int number = step["step"];
      CAPTURE(number);
      CHECK(step["loss"].get<double>() == truth_.losses.at(static_cast<size_t>(number) - 1));
      CHECK(number > saved);          // KRC-2
      CHECK(step["epoch"] >= epoch);  // KRC-3
      if (step["epoch"] == epoch) CHECK(number > last);
      if (number > last + 1) CHECK(head_died_between(epoch, step["epoch"]));  // KRC-3
      again_ += number <= last ? 1 : 0;
      last = number;
      epoch = step["epoch"];
      saved = std::max(saved, step.value("saved_step", 0));
    }
    if (last < job_steps) CHECK(heads_killed_ > 0);
  }

  job_files job_;
  int nodes_, seed_;
  std::mt19937_64 random_;
  std::vector<std::string> sets_;
  undisturbed truth_;
  judge judge_;
  // of the job at hand
  std::string told_;  ///< the kills so far
  bool has_spare_ = false;
  std::set<std::string> lost_;
  std::optional<std::pair<std::string, pid_t>> started_;  ///< the last node killed, and who it was
  phase phase_before_ = phase::training;
  bool began_recovery_ = false;
  /// A node, or a head, that comes to no step time and again ends the job (RCV-4, HRS-3).
  int strikes_without_step_ = 0, steps_told_ = 0;
  int heads_killed_ = 0;
  // of all
  int kills_ = 0, jobs_ = 0, again_ = 0;
  std::array<int, preys> by_prey_{};
  std::array<int, phases> by_phase_{};
};

void hunt_recoveries_in(int data, int pipeline) {
  recovery_hunt h(data, pipeline);
  h.run((number_from("TROUPE_RECOVERY_KILLS", 18 / slowness) + layouts_tried - 1) / layouts_tried);
  MESSAGE(data, "x", pipeline, ": ", h.summary());
}

}  // namespace

TEST_CASE("kill -9 in recoveries: two replicas") {
  hunt_recoveries_in(2, 1);
}
TEST_CASE("kill -9 in recoveries: two stages") {
  hunt_recoveries_in(1, 2);
}
TEST_CASE("kill -9 in recoveries: two replicas of two stages") {
  hunt_recoveries_in(2, 2);
}
