// kill -9 again and again: a node, the launcher (which is the coordinator and the committer), or
// all of them, at moments drawn by seed, while every step is saved. After each kill the survivors
// are judged (survivors.hpp), the same command goes on from them, and is killed again, until the
// job is done; then the next job begins, with other settings.
//
// Between two launches of a job, by seed as well (turns.hpp): a return to an older checkpoint or to
// one that was set aside, a fresh start, damage in the first tier, or all of it gone; and while one
// launches, a second launcher of the same job. Every other job has a second tier. Which checkpoints
// must be there then, and from which the next launch goes on, is the ledger's affair (ledger.hpp).
// One layout has its state on a drive: there checkpoints are links to what it trains in.
//
//   TROUPE_KILLS      kills in all layouts together (default 36; nightly 1000 and more). From 36 on
//                     they go on until each kind of turn was taken in each layout
//   TROUPE_KILL_SEED  another seed than 1
//
// What a kill leaves is all that was written, synced or not: a cut of the power is another test's
// (power_cut_crash.cpp, tests/io/checkpoint/save_crash.cpp).
#include <csignal>
#include <optional>

#include "tests/cluster/launches.hpp"
#include "tests/cluster/moments.hpp"
#include "tests/cluster/rivals.hpp"
#include "tests/cluster/swapped_jobs.hpp"
#include "tests/cluster/turns.hpp"

using namespace troupe::cluster_test;

namespace {

constexpr int steps = 24;
constexpr int cases = 5;  // layouts

enum class target : uint8_t { node, launcher, all };
constexpr const char* target_names[] = {"one node", "the launcher", "all at once"};

/// What changes how checkpoints are written and kept, and no bit of them.
std::string draw_setting(std::mt19937_64& random) {
  constexpr const char* busy[] = {"block", "skip", "stretch"};
  return fmt::format("checkpoint.when_busy={}", busy[random() % 3]);
}

/// Where its state lives.
enum class home : uint8_t { memory, drive };

class hunt {
 public:
  hunt(int data, int pipeline, int hidden, home where)
      : nodes_(static_cast<size_t>(data * pipeline)),
        seed_(number_from("TROUPE_KILL_SEED", 1)),
        random_(static_cast<uint64_t>(seed_) * 100 + static_cast<uint64_t>(data * 10 + pipeline)),
        deck_(steps, data > 1),
        sets_(sets_of(data, pipeline, hidden, where)),
        swaps_(where == home::drive),
        truth_(train_undisturbed(job_, sets_)),
        judge_(truth_) {}

  /// Whole jobs, until so many were killed, and each kind of turn was taken if they are enough.
  void run(int kills) {
    const bool all_kinds = kills >= turn_deck::kinds;
    const auto goes_on = [&] {
      return kills_ < kills || (all_kinds && kills_ < 6 * kills && runs_ < 8 * kills &&
                                !deck_.first_round_left().empty());
    };
    for (int number = 1; number == 1 || goes_on(); ++number) {
      begin(number);
      while (!incarnation(goes_on())) continue;
      ++jobs_;
      asides_ += job_at_hand_->account().asides();
      for (const auto& folder : {output_, job_at_hand_->second()})
        if (!folder.empty()) fs::remove_all(folder);
    }
    if (all_kinds) CHECK_MESSAGE(deck_.first_round_left().empty(), deck_.first_round_left());
  }

  std::string summary() const {
    std::string out = fmt::format("{} kills (", kills_);
    for (size_t t = 0; t < 3; ++t)
      out += fmt::format("{}{} of {}", t > 0 ? ", " : "", by_target_[t], target_names[t]);
    out += fmt::format("; after");
    for (size_t s = 0; s < sights; ++s)
      if (by_sight_[s] > 0)
        out += fmt::format(" {} {}", by_sight_[s], to_string(static_cast<sight>(s)));
    out += fmt::format("), {} jobs ({} of two tiers) in {} runs, {} leftovers removed; ", jobs_,
                       two_tiers_, runs_, leftovers_);
    for (size_t k = 0; k < deeds; ++k)
      out +=
          fmt::format("{}{} {}", k > 0 ? ", " : "", by_deed_[k], to_string(static_cast<deed>(k)));
    return out + fmt::format(
                     ", {} checkpoints set aside; {} compared with the undisturbed run's, {} "
                     "verifications (seed {})",
                     asides_, judge_.compared(), judge_.verified(), seed_);
  }

 private:
  std::vector<std::string> sets_of(int data, int pipeline, int hidden, home where) const {
    const auto sets =
        with(layout(data, pipeline),
             {fmt::format("train.steps={}", steps), "checkpoint.every=1", "recovery.enabled=false",
              "cluster.dead_after_ms=120000",  // some are stopped for a while (rivals.hpp)
              fmt::format("model.hidden={}", hidden)});
    return where == home::drive ? at_floor(job_, sets) : sets;
  }

  /// Every other job has a second tier, every other one a rule that removes.
  void begin(int number) {
    const bool two = number % 2 == 1 || !deck_.first_round_left().empty();
    const bool removals = (static_cast<size_t>(number) + nodes_) % 2 == 1;
    output_ = job_ / fmt::format("job{}", number);
    const auto second = two ? job_ / fmt::format("second{}", number) : fs::path();
    job_at_hand_.emplace(judge_, output_ / "checkpoints", second, removals ? 2 : 0);
    job_sets_ = with(sets_, with(job_at_hand_->settings(),
                                 {draw_setting(random_), "job.output=" + output_.string()}));
    two_tiers_ += two ? 1 : 0;
  }

  fs::path log() const { return output_ / "log.jsonl"; }

  /// One start of the command, with a kill unless the job is to be finished; true when it is done.
  bool incarnation(bool strike) {
    auto& job = *job_at_hand_;
    const auto t = strike ? deck_.draw(random_, job.account(), job.has_second()) : turn{};
    const auto when = moment_of(t);
    auto whom = static_cast<target>(random_() % 3);
    const auto which = static_cast<size_t>(random_() % nodes_);
    auto sets = with(job_sets_, {job.begin(t, deck_, random_)});
    // So that a copy is under way; the last one is waited for where a node alone is killed.
    if (t.who == rival::running) sets.emplace_back("checkpoint.second.bytes_per_second=500000");
    INFO("seed ", seed_, ", kill ", kills_ + 1, " of ",
         std::string(strike ? target_names[static_cast<size_t>(whom)] : "nobody"), " ",
         render(when), "; ", render(t), ", from step ", job.from());
    lookout watch(job.first(), job.second(), output_);
    logged_ = fs::exists(log()) ? fs::file_size(log()) : 0;
    program up(job_.up(sets));
    ++runs_;
    if (!strike) return finish(up);
    std::vector<watched> nodes;
    if (when.what == sight::launched || when.what == sight::open) whom = target::launcher;
    if (when.what == sight::aside) whom = target::launcher;  // before there are nodes
    if (when.what != sight::launched && when.what != sight::aside) {
      if (!up.until([&] { return up.port() != 0; })) return finish(up);
      leftovers_ += job.check_leftovers(up);
      if (when.what != sight::open) nodes = nodes_when_there(up, nodes_);
    }
    if (!watch.await(up, when)) return finish(up);
    if (t.who != rival::none && !challenge(up, nodes, t.who)) return finish(up);
    hit(up, whom, nodes, which);
    if (look_after(up, whom, nodes)) return true;
    ++kills_;
    ++by_target_[static_cast<size_t>(whom)];
    ++by_sight_[static_cast<size_t>(when.what)];
    deck_.taken(t);
    for (const auto d : deeds_of(t)) ++by_deed_[static_cast<size_t>(d)];
    return false;
  }

  moment moment_of(const turn& t) {
    if (t.at) return draw_moment_of(random_, *t.at);
    const bool removals = job_at_hand_->removes();
    auto when = draw_moment(random_, removals);
    while (t.who != rival::none && (when.what == sight::launched || when.what == sight::open))
      when = draw_moment(random_, removals);
    return when;
  }

  /// Another launcher of the job; false when the first had its end meanwhile.
  bool challenge(program& up, const std::vector<watched>& nodes, rival who) {
    std::vector<fs::path> folders{output_};
    if (job_at_hand_->has_second()) folders.push_back(job_at_hand_->second());
    if (who == rival::frozen)
      challenge_frozen(up, nodes, job_.up(with(job_sets_, {"checkpoint.resume=never"})), folders);
    return who == rival::frozen || challenge_running(up, job_.up(job_sets_));
  }

  void hit(const program& up, target whom, const std::vector<watched>& nodes, size_t which) {
    if (whom == target::all)
      for (const auto& node : nodes) node.signal(SIGKILL);
    if (whom == target::node)
      nodes[which].signal(SIGKILL);
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
      CHECK(eventually([&] { return crash_dumper_of(node.pid()) < 0; }));
    }
    if (nodes.empty() && up.port() != 0)
      CHECK(eventually([&] { return nodes_of(up.port()).empty(); }));
    judge_survivors(up, code == 0);
    job_at_hand_->note_leftovers();
    for (const auto& e : fs::directory_iterator(output_))
      if (e.path().filename().string().starts_with("blackbox-")) fs::remove(e.path());
    return code == 0 && finished();
  }

  void judge_survivors(const program& up, bool last) {
    auto acknowledged = all_acknowledged_in(up.out());
    acknowledged.merge(all_acknowledged_in(text_of(log()).substr(logged_)));
    job_at_hand_->end(up, acknowledged, last);
  }

  /// Nobody kills it: it comes to its end.
  bool finish(program& up) {
    const int code = up.wait();
    INFO(up.err());
    CHECK(code == 0);
    judge_survivors(up, true);
    return finished();
  }

  bool finished() const {
    job_at_hand_->check_done(steps);
    CHECK(job_at_hand_->leftovers().empty());
    CHECK(text_of(output_ / "model/model.safetensors") == truth_.model);
    const auto linked =
        names_with(job_at_hand_->first() / fmt::format("step-{:08}", steps), ".chunk-");
    CHECK(linked.empty() == !swaps_);
    return true;
  }

  job_files job_;
  size_t nodes_;
  int seed_;
  std::mt19937_64 random_;
  turn_deck deck_;
  std::vector<std::string> sets_;
  bool swaps_;
  undisturbed truth_;
  judge judge_;
  // of the job at hand
  fs::path output_;
  std::vector<std::string> job_sets_;
  std::optional<launches> job_at_hand_;
  uint64_t logged_ = 0;  ///< bytes of the log before this launch
  // of all
  int kills_ = 0, runs_ = 0, jobs_ = 0, two_tiers_ = 0, leftovers_ = 0, asides_ = 0;
  std::array<int, 3> by_target_{};
  std::array<int, sights> by_sight_{};
  std::array<int, deeds> by_deed_{};
};

void hunt_in(int data, int pipeline, int hidden, home where = home::memory) {
  hunt h(data, pipeline, hidden, where);
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
TEST_CASE("kill -9: one rank whose state is on a drive, and is saved by links") {
  hunt_in(1, 1, 64, home::drive);
}
