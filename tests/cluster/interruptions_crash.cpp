// A job in each of several layouts is launched again and again, and each launch is interrupted as
// persons, terminals, schedulers and the kernel do it: Ctrl-C, a second signal behind it, SIGTERM,
// SIGHUP, kill -9 of the launcher or of a node, Ctrl-Z and fg. When is drawn by seed, as an event:
// the n-th line that is said, or a moment of a save, of a copy, of a removal, of the export
// (moments.hpp). So are a second tier, a rule that removes, the export; one layout's state lives on
// a drive, and one recovers by itself: that a node is killed does not end it. All validate, and
// save every second step. After each launch:
//
//   IRP-1  The code is the one that docs/exit-codes.md states for what came, or 0: it was too late.
//          Whoever stopped it is told how to go on. A job that recovers goes on by itself once
//          it has made a step; before that it ends like others.
//   IRP-2  No process of it is left and no port; the next launch is refused nothing.
//   IRP-3  What is on the disk is whole and the undisturbed run's (launches.hpp); an orderly end
//          has saved its last step, and leaves nothing where state lived on a drive.
//   IRP-4  What the next launch tells are the losses of the undisturbed run, bit by bit.
//
//   TROUPE_INTERRUPTIONS      in all layouts together (default 15; nightly 400)
//   TROUPE_INTERRUPTION_SEED  another seed than 1; what fails says how it is played again
#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <random>

#include "tests/cluster/launches.hpp"
#include "tests/cluster/moments.hpp"
#include "tests/cluster/swapped_jobs.hpp"

using namespace troupe::cluster_test;

namespace {

constexpr int interrupted_steps = 12;
constexpr int interrupted_layouts = 5;

/// What comes to a launch from outside.
enum class blow : uint8_t {
  interrupt,
  twice,
  terminate,
  hang_up,
  kill_launcher,
  kill_node,
  suspend,
};
constexpr std::array<std::string_view, 7> blow_names{
    "SIGINT", "SIGINT and SIGTERM", "SIGTERM", "SIGHUP", "kill -9", "kill -9 of a node", "Ctrl-Z"};

std::string_view name_of(blow b) {
  return blow_names[static_cast<size_t>(b)];
}

/// IRP-1, where it did not come too late.
std::vector<int> codes_after(blow b) {
  switch (b) {
    case blow::interrupt:
      return {128 + SIGINT};
    case blow::twice:
      return {128 + SIGINT, 128 + SIGTERM};
    case blow::terminate:
      return {128 + SIGTERM};
    case blow::hang_up:
      return {128 + SIGHUP};
    case blow::kill_launcher:
      return {128 + SIGKILL};
    case blow::kill_node:
      return {69};
    case blow::suspend:
      break;
  }
  return {};
}

/// Whether a job goes on by itself where a node of it is lost, and keys of that: no node is found
/// dead by silence on a busy machine.
enum class healing : uint8_t { none, recovers };
std::vector<std::string> settings_of(healing h) {
  if (h == healing::none) return {"recovery.enabled=false"};
  return {"recovery.enabled=true", "recovery.most_per_hour=1000", "recovery.return_s=3600",
          "cluster.heartbeat_interval_ms=100", "cluster.suspect_after_ms=60000"};
}

/// When it comes: at a moment of what is done, or at a line on stderr.
struct occasion {
  std::optional<moment> at;
  int line = 0;
};

std::string render(const occasion& o) {
  return o.at ? render(*o.at) : fmt::format("after line {}", o.line);
}

class interruptions {
 public:
  /// `on_drive`: the jobs' state lives there.
  interruptions(int number, const std::string& name, size_t nodes,
                const std::vector<std::string>& layout_sets, bool on_drive = false,
                healing heals = healing::none)
      : number_(number),
        name_(name),
        nodes_(nodes),
        recovers_(heals == healing::recovers),
        seed_(number_from("TROUPE_INTERRUPTION_SEED", 1)),
        sets_(
            with(with(layout_sets, settings_of(heals)),
                 {fmt::format("train.steps={}", interrupted_steps), "data.validation_fraction=0.1",
                  "train.validate_every=3", "cluster.dead_after_ms=120000"})),
        swap_(on_drive ? swapped(job_, floor_of(job_, sets_)) : std::vector<std::string>()),
        truth_(train_undisturbed(job_, with(with(sets_, swap_), {"checkpoint.every=1"}))),
        judge_(truth_) {
    std::shuffle(blows_.begin(), blows_.end(),
                 std::mt19937_64(static_cast<uint64_t>(seed_)));  // the same in each layout
  }

  /// Whole jobs, until so many launches were interrupted; and, of those that recover, until one has
  /// had to.
  void run(int most) {
    asked_ = most_ = most;
    for (int job = 1; job == 1 || done_ < most_; ++job) {
      one_job(job);
      if (recovers_ && recovered_ == 0 && done_ == most_ && job < 20) ++most_;
    }
    MESSAGE(name_, ": ", summary());
    if (recovers_) CHECK(recovered_ > 0);
  }

 private:
  void one_job(int job) {
    random_.seed(static_cast<uint64_t>(seed_ * interrupted_layouts + number_) * 1000 +
                 static_cast<uint64_t>(job));
    const auto output = job_ / fmt::format("job{}", job);
    const auto second = random_() % 2 == 0 ? job_ / fmt::format("second{}", job) : fs::path();
    const int keep = random_() % 2 == 0 ? 2 : 0;
    is_exported_ = random_() % 2 == 0;
    output_ = output;
    launches_.emplace(judge_, output / "checkpoints", second, keep);
    job_sets_ = with(
        with(sets_, swap_),
        with(launches_->settings(), {"job.output=" + output.string(), "checkpoint.every=2",
                                     fmt::format("checkpoint.export_model={}", is_exported_)}));
    for (int launch = 0; launch < 3 && done_ < most_; ++launch)
      if (interrupted_launch()) return clear();
    undisturbed_launch();
    clear();
  }

  void clear() {
    for (const auto& folder : {output_, launches_->second()})
      if (!folder.empty()) fs::remove_all(folder);
  }

  occasion draw_occasion() {
    if (random_() % 3 == 0) return {.at = {}, .line = 1 + static_cast<int>(random_() % 7)};
    const auto kind = random_() % 6;
    if (kind == 0 && is_exported_) return {.at = draw_moment_of(random_, sight::publish)};
    if (kind == 1 && launches_->has_second()) return {.at = draw_moment_of(random_, sight::copy)};
    return {.at = draw_moment(random_, launches_->removes())};
  }

  /// Of a job that recovers a node is killed every second time, and it is there by then.
  occasion draw_occasion_of(blow what) {
    auto when = draw_occasion();
    while (recovers_ && what == blow::kill_node && !has_nodes_at(when)) when = draw_occasion();
    return when;
  }

  static bool has_nodes_at(const occasion& when) {
    return when.at && when.at->what != sight::launched && when.at->what != sight::open;
  }

  blow next_blow() const {
    if (recovers_ && done_ % 2 == 0) return blow::kill_node;
    return blows_[static_cast<size_t>(number_ * asked_ + done_) % blows_.size()];
  }

  std::string replay() const {
    return fmt::format(
        "TROUPE_INTERRUPTION_SEED={} TROUPE_INTERRUPTIONS={} test_cluster_crash "
        "-tc='interruptions: {}'",
        seed_, asked_ * interrupted_layouts, name_);
  }

  /// True when the job is done.
  bool interrupted_launch() {
    auto& job = *launches_;
    auto what = next_blow();
    const auto when = draw_occasion_of(what);
    const auto which = static_cast<size_t>(random_() % nodes_);
    const auto start = job.begin({}, deck_, random_);
    INFO(replay(), ": ", std::string(name_of(what)), " ", render(when), ", from step ", job.from());
    was_tidy_ = !has_entry(job_ / "swap");
    lookout watch(job.first(), job.second(), output_);
    program up(job_.up(with(job_sets_, {start})));
    ++runs_;
    std::vector<watched> nodes;
    if (has_nodes_at(when)) {
      if (!up.until([&] { return up.port() != 0; })) return finish(up);
      left_ += job.check_leftovers(up);
      nodes = nodes_when_there(up, nodes_);
    }
    if (!await(up, watch, when)) return finish(up);
    if (what == blow::kill_node && nodes.empty()) what = blow::kill_launcher;  // nobody else is
    if (what == blow::suspend) {
      suspend(up);
      count(what);
      return finish(up);
    }
    up.listen();
    trained_ = times(up.out(), R"("type":"step")") > 0;
    strike(up, what, nodes, which);
    count(what);
    return look_after(up, what, nodes);
  }

  void count(blow what) {
    ++done_;
    ++by_blow_[static_cast<size_t>(what)];
  }

  static bool await(program& up, lookout& watch, const occasion& when) {
    if (when.at) return watch.await(up, *when.at);
    return up.until([&] { return times(up.err(), "\n") >= when.line; });
  }

  /// As a terminal does it; it goes on before anybody takes it for dead.
  void suspend(const program& up) {
    REQUIRE(kill(up.pid(), SIGSTOP) == 0);
    const pid_t head = head_of(up.pid());  // none before it was started, and at the end
    if (head > 0) kill(head, SIGSTOP);
    spin(draw_spin(random_, 100'000));
    if (head > 0) kill(head, SIGCONT);
    REQUIRE(kill(up.pid(), SIGCONT) == 0);
  }

  void strike(const program& up, blow what, const std::vector<watched>& nodes, size_t which) {
    switch (what) {
      case blow::interrupt:
        return up.signal(SIGINT);
      case blow::twice:
        up.signal(SIGINT);
        spin(draw_spin(random_, 30'000));
        return up.signal(SIGTERM);  // a second SIGINT within a second would be the same
      case blow::terminate:
        return up.signal(SIGTERM);
      case blow::hang_up:
        return up.signal(SIGHUP);
      case blow::kill_launcher:
        return up.signal(SIGKILL);
      case blow::kill_node:
        return nodes[which].signal(SIGKILL);
      case blow::suspend:
        break;
    }
  }

  /// True when the job was done before.
  bool look_after(program& up, blow what, const std::vector<watched>& nodes) {
    const int code = up.wait();
    INFO(up.err());
    const bool heals = recovers_ && what == blow::kill_node;
    const auto codes = heals && trained_ ? std::vector<int>() : codes_after(what);
    CHECK_MESSAGE((code == 0 || std::find(codes.begin(), codes.end(), code) != codes.end()),
                  "it ended with ", code);
    if (heals && times(up.err(), ": recovery ") > 0) ++recovered_;
    check_gone(up, nodes);
    const bool orderly = up.objects("summary").size() == 1;
    const auto steps = up.objects("step");
    if (code != 0 && orderly) {
      if (!steps.empty()) CHECK(fs::exists(launches_->first() / step_name(steps.back()["step"])));
      // What was killed left its files to whoever comes to open the folder next.
      if (was_tidy_ || !steps.empty()) CHECK_FALSE(has_entry(job_ / "swap"));
    }
    // Whoever was killed, or ended before it listened to signals, says nothing.
    if (code > 128 && code != 128 + SIGKILL && up.port() != 0)
      CHECK(up.err().find("the same command") != std::string::npos);
    launches_->end(up, all_acknowledged_in(up.out()), code == 0, recovers_);
    launches_->note_leftovers();
    if (code != 0) return false;
    check_done();
    return true;
  }

  static std::string step_name(int step) { return fmt::format("step-{:08}", step); }

  /// IRP-2.
  static void check_gone(const program& up, const std::vector<watched>& nodes) {
    for (const auto& node : nodes) {
      CHECK(node.gone());
      CHECK(eventually([&] { return crash_dumper_of(node.pid()) < 0; }));
    }
    CHECK(eventually([&] { return head_of(up.pid()) < 0; }));
    if (up.port() == 0) return;
    CHECK(eventually([&] { return nodes_of(up.port()).empty() && !is_listening(up.port()); }));
  }

  void undisturbed_launch() {
    const auto start = launches_->begin({}, deck_, random_);
    INFO(replay(), ": nobody, from step ", launches_->from());
    program up(job_.up(with(job_sets_, {start})));
    ++runs_;
    if (!up.until([&] { return up.port() != 0; })) return static_cast<void>(finish(up));
    left_ += launches_->check_leftovers(up);
    finish(up);
  }

  /// Nobody ends it.
  bool finish(program& up) {
    const int code = up.wait();
    INFO(up.err());
    CHECK(code == 0);
    check_gone(up, {});
    launches_->end(up, all_acknowledged_in(up.out()), true, recovers_);
    check_done();
    return true;
  }

  void check_done() const {
    launches_->check_done(interrupted_steps);
    CHECK(launches_->leftovers().empty());
    const auto last = launches_->first() / step_name(interrupted_steps);
    CHECK(troupe::cluster_test::run({"ckpt", "verify", last.string()}).code == 0);
    if (is_exported_) CHECK(text_of(output_ / "model/model.safetensors") == truth_.model);
    if (!swap_.empty()) CHECK_FALSE(has_entry(job_ / "swap"));
  }

  std::string summary() const {
    std::string out = fmt::format("{} interruptions in {} launches (", done_, runs_);
    for (size_t b = 0; b < by_blow_.size(); ++b)
      if (by_blow_[b] > 0)
        out += fmt::format("{}{} {}", out.ends_with('(') ? "" : ", ", by_blow_[b], blow_names[b]);
    if (recovers_) out += fmt::format("; {} recovered", recovered_);
    return out + fmt::format("), {} leftovers removed, {} verifications (seed {})", left_,
                             judge_.verified(), seed_);
  }

  int number_;  ///< of the layout
  std::string name_;
  size_t nodes_;
  bool recovers_;
  int seed_;
  job_files job_;
  std::vector<std::string> sets_, swap_;
  undisturbed truth_;
  judge judge_;
  turn_deck deck_{interrupted_steps, false};
  std::array<blow, 7> blows_{blow::interrupt,     blow::twice,     blow::terminate, blow::hang_up,
                             blow::kill_launcher, blow::kill_node, blow::suspend};
  std::mt19937_64 random_;
  int asked_ = 0, most_ = 0;
  // of the job at hand
  fs::path output_;
  bool is_exported_ = false;
  bool was_tidy_ = true;  ///< the folder of state, before the launch at hand
  bool trained_ = false;  ///< that launch had told of a step when it was interrupted
  std::vector<std::string> job_sets_;
  std::optional<launches> launches_;
  // of all
  int done_ = 0, runs_ = 0, left_ = 0;
  int recovered_ = 0;  ///< jobs that went on after a node was killed
  std::array<int, 7> by_blow_{};
};

int interruptions_each() {
  return (number_from("TROUPE_INTERRUPTIONS", 15 / slowness) + interrupted_layouts - 1) /
         interrupted_layouts;
}

}  // namespace

TEST_CASE("interruptions: one rank") {
  interruptions(0, "one rank", 1, layout(1, 1)).run(interruptions_each());
}
TEST_CASE("interruptions: two replicas") {
  interruptions(1, "two replicas", 2, layout(2, 1)).run(interruptions_each());
}
TEST_CASE("interruptions: two stages") {
  interruptions(2, "two stages", 2, layout(1, 2)).run(interruptions_each());
}
TEST_CASE("interruptions: state on a drive") {
  interruptions(3, "state on a drive", 1, deep, true).run(interruptions_each());
}
TEST_CASE("interruptions: two replicas that recover") {
  interruptions(4, "two replicas that recover", 2, layout(2, 1), false, healing::recovers)
      .run(interruptions_each());
}
