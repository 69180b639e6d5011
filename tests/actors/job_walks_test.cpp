// The job's table against what happens: every state hears every event, and thousands of runs by
// seed, in which the world answers well or badly and persons ask for anything at any time.
//
// TROUPE_JOB_WALKS=100000 makes more of them (20,000 else), from seed TROUPE_JOB_SEED on (1).
#include "actors/train/job_policy.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/job/skipped_data.hpp"
#include "tests/actors/job_harness.hpp"
#include "tests/actors/job_picture.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::folder_of;
using troupe::train::test::job_harness;
using troupe::train::test::planned_job;
using enum troupe::train::job_state;

namespace {

uint64_t job_number_from(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

constexpr uint64_t walked_step_tokens = 16;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// From, event, to.
using job_arrow = std::tuple<size_t, size_t, size_t>;

/// All that the table allows.
std::set<job_arrow> arrows_of_table() {
  std::set<job_arrow> out;
  for (const auto& rule : job_rules())
    for (size_t from = 0; from < job_state_count; ++from)
      for (size_t to = 0; to < job_state_count; ++to)
        if (rule.is_for(static_cast<job_state>(from)) &&
            rule.may_lead_to(static_cast<job_state>(to)))
          out.emplace(from, rule.event, to);
  return out;
}

std::string text_of(const job_arrow& arrow) {
  const auto [from, event, to] = arrow;
  return fmt::format("{} --{}--> {}", to_string(static_cast<job_state>(from)), name_of_event(event),
                     to_string(static_cast<job_state>(to)));
}

/// What the job has asked of the world and not heard of yet.
struct job_asked {
  size_t event;  ///< of the good answer, its place in job_event
  uint64_t step = 0;
  start_phase phase = {};
  std::string folder = {};
  std::vector<std::string> unsound = {};
};

/// What is in the checkpoints' folder: the committer does what it is told in that order, whenever,
/// keeps the newest checkpoint and those that are held, and removes others with each commit.
class job_shelf {
 public:
  void put(uint64_t step) { there_.insert(step); }
  void asked(const todo::commit& c) { orders_.push_back({c.step, c.folder, false, false}); }
  void asked(const todo::hold& h) { orders_.push_back({h.step, "", true, h.hold}); }
  /// The next order, if there is one; a commit fails where it is not to go well.
  void work(bool well) {
    if (orders_.empty()) return;
    const auto o = orders_.front();
    orders_.pop_front();
    if (o.is_hold) return hold(o);
    outcomes_[o.folder] = well;
    if (!well) return;
    if (!o.folder.starts_with("/first/")) return void(in_second_.insert(o.step));
    there_.insert(o.step);
    std::erase_if(there_, [&](uint64_t s) { return s != *there_.rbegin() && !held_.contains(s); });
  }
  /// What came of a commit; whether it goes well where it has not come yet.
  bool outcome(const std::string& folder, bool well) {
    while (!outcomes_.contains(folder)) {
      REQUIRE_MESSAGE(!orders_.empty(), "committed more than once: " << folder);  // else no end
      work(well);
    }
    return outcomes_.extract(folder).mapped();
  }
  /// The job goes back to it: younger ones are set aside.
  void back_to(uint64_t step) {
    while (!orders_.empty()) work(true);
    there_.erase(there_.upper_bound(step), there_.end());
    there_.insert(step);  // more than one may be kept
  }

 private:
  struct order {
    uint64_t step;
    std::string folder;
    bool is_hold, hold;
  };
  void hold(const order& o) {
    if (o.hold) {
      const bool is_there = there_.contains(o.step) || in_second_.contains(o.step);
      CHECK_MESSAGE(is_there, "what is to be held is removed: step ", o.step);
      held_.insert(o.step);
    } else if (const auto at = held_.find(o.step); at != held_.end()) {
      held_.erase(at);  // another may need it still
    }
  }

  std::deque<order> orders_;
  std::map<std::string, bool> outcomes_;  ///< by the partial folder
  std::set<uint64_t> there_, in_second_;
  std::multiset<uint64_t> held_;
};

/// One run.
class job_walk {
 public:
  explicit job_walk(uint64_t seed) : rng_(seed), job_(make()) {}

  /// To its end. `seen` gains every change of state; `samples` a policy for each state.
  void run(std::set<job_arrow>& seen, std::map<job_state, job_policy>& samples) {
    while (!job_.end && chance(5)) tell(anything(), seen);
    if (job_.policy.state() == admitting && chance(2))
      tell(heard::not_admitted{{errc::timeout, "nobody came"}}, seen);
    if (job_.policy.state() == admitting && goes_on_ && chance(20))
      tell(heard::node_lost{"n1", "is gone"}, seen);
    if (job_.policy.state() == admitting) tell(job_.admitted(), seen);
    for (int turn = 0; !job_.end; ++turn) {
      REQUIRE_MESSAGE(turn < 4000, "the job does not end");
      samples.try_emplace(job_.policy.state(), job_.policy);
      const bool late = turn > 200;  // then nobody hinders it any more
      if (asked_.empty()) {
        // JOB-6: what nothing is asked for waits for somebody, by name.
        REQUIRE(job_.policy.state() == paused);
        REQUIRE_FALSE(job_.policy.pauses().empty());
      }
      if (asked_.empty() && late)
        lift(seen);
      else if (asked_.empty() || (!late && chance(30)))
        tell(anything(), seen);
      else
        answer(late, seen);
    }
    check_end();
    const auto late = std::exchange(asked_, {});
    for (const auto& what : late) {
      job_.hear(event_of(what, chance(50)));
      const bool of_save = what.event == job_event(heard::shards_saved{}).index() ||
                           what.event == job_event(heard::committed{}).index();
      if (!of_save) CHECK(job_.last.empty());
    }
  }

 private:
  uint64_t below(uint64_t n) { return rng_() % n; }
  bool chance(uint64_t percent) { return below(100) < percent; }

  job_harness make() {
    constexpr std::array busy{"block", "skip", "stretch"};
    const bool second = chance(50);
    steps_ = 1 + below(8);
    std::string checkpoint =
        fmt::format("when_busy = \"{}\"\nroom_wait_s = {}\nexport_model = {}\n", busy[below(3)],
                    chance(50) ? 0 : 30, chance(50));
    if (second)
      checkpoint +=
          fmt::format("second.dir = \"/second\"\nsecond.wait_s = {}\n", chance(80) ? 9 : 0);
    auto plan = planned_job(checkpoint, fmt::format("validate_every = {}\n", below(3)));
    plan.job.train.steps = static_cast<int64_t>(steps_);
    plan.job.cluster.node.assign(1, {});
    plan.job.cluster.node[0].name = "n1";
    plan.ranks = {rank_place{{}, 0, {0, 1}}};
    plan.job.recovery.enabled = recovers_ = chance(50);
    replicas_ = recovers_ && chance(50) ? 2 : 1;
    if (replicas_ == 2) {
      plan.job.train.micro_batch = 1;
      plan.job.parallel.data = plan.job.cluster.nodes = 2;
      plan.job.cluster.node = {{"n1", "localhost", 1}, {"n2", "localhost", 1}};
      const auto grid = plan.job.grid();
      plan.ranks = {{{grid, 0}, 0, {0, 1}}, {{grid, 1}, 1, {0, 1}}};
    }
    plan.job.recovery.most_per_hour = static_cast<int64_t>(1 + below(5));
    plan.job.recovery.on_spike = static_cast<config::spike_action>(below(3));
    plan.job.recovery.spike_steps_back = static_cast<int64_t>(below(4));
    plan.job.checkpoint.every = std::array{0, 1, 1, 2}[below(4)];
    std::optional<checkpoint::resume_point> from;
    if (chance(40)) {
      from.emplace();
      from->step = from->state.step = 1 + below(steps_);
      from->state.tokens = from->step * walked_step_tokens;
      from->path = folder_of(from->step, chance(50) ? "/first" : "/elsewhere");
      states_[from->step] = from->state;
      if (from->path.parent_path() == "/first") {
        committed_.insert(from->step);
        shelf_.put(from->step);
      }
    }
    job_harness out(std::move(plan), from, second ? "/second" : "");
    goes_on_ = recovers_ && chance(10);
    if (goes_on_) {  // for a lost head
      job_memory memory;
      memory.lost = lost_head{"was killed", 0, 0, 0};
      out.policy.remember(memory);
      out.policy.begin(out.now_ns);
    }
    return out;
  }

  void tell(const job_event& event, std::set<job_arrow>& seen) {
    const auto before = job_.policy.state();
    job_.hear(event);
    const auto after = job_.policy.state();
    if (const auto* there = std::get_if<heard::admitted>(&event); there && there->replicas > 0)
      if (before == recovering && after != ended) CHECK(job_.policy.replicas() == there->replicas);
    if (after == paused) CHECK_FALSE(job_.policy.pauses().empty());  // JOB-6
    if (before != after)
      seen.emplace(static_cast<size_t>(before), event.index(), static_cast<size_t>(after));
    for (const auto& c : job_.last) std::visit([this](const auto& what) { take(what); }, c);
  }

  /// JOB-1: the ranks do one thing at a time.
  void ask_ranks(job_asked what) {
    CHECK_FALSE(ranks_busy_);
    ranks_busy_ = true;
    asked_.push_back(std::move(what));
  }
  void take(const todo::ask& c) {
    ask_ranks({job_event(heard::phase_done{c.phase}).index(), c.at_most, c.phase, "", c.unsound});
  }
  void take(const todo::run_step& c) {
    CHECK(c.step == job_.policy.step() + 1);
    const auto& p = job_.policy;  // JOB-17: each step has its tokens, none of what is passed over
    CHECK(p.tokens() - skipped_before(p.tokens(), p.skipped()) == p.step() * walked_step_tokens);
    ask_ranks({job_event(heard::step_done{}).index(), c.step});
  }
  void take(const todo::validate& c) { ask_ranks({job_event(heard::validated{}).index(), c.step}); }
  void take(const todo::save& c) {
    CHECK_FALSE(ranks_busy_);  // JOB-7
    asked_.push_back({job_event(heard::shards_saved{}).index(), c.step, {}, c.folder});
  }
  void take(const todo::commit& c) {
    const auto state = checkpoint::parse_state(c.state);
    REQUIRE(state);
    states_[c.step] = *state;
    const auto is_commit = [](const job_asked& what) {
      return what.event == job_event(heard::committed{}).index();
    };
    CHECK(
        (job_.end.has_value() || std::none_of(asked_.begin(), asked_.end(), is_commit)));  // JOB-7
    asked_.push_back({job_event(heard::committed{}).index(), c.step, {}, c.folder});
    shelf_.asked(c);
  }
  void take(const todo::hold& h) { shelf_.asked(h); }
  void take(const todo::reopen_folder&) {
    asked_.push_back({job_event(heard::folder_open{}).index()});
  }
  void take(const todo::export_model&) { asked_.push_back({job_event(heard::exported{}).index()}); }
  void take(const todo::finish_copies& c) {
    CHECK(committed_.contains(c.step));
    asked_.push_back({job_event(heard::copied{}).index()});
  }
  /// JOB-11: of ranks and loaders nothing more is heard.
  void take(const todo::recover& c) {
    CHECK(c.epoch == ++epoch_);
    std::erase_if(asked_, [](const job_asked& what) {
      return what.event == job_event(heard::admitted{}).index() ||
             what.event == job_event(heard::phase_done{}).index() ||
             what.event == job_event(heard::step_done{}).index() ||
             what.event == job_event(heard::validated{}).index() ||
             what.event == job_event(heard::shards_saved{}).index();
    });
    ranks_busy_ = false;
    asked_.push_back({job_event(heard::admitted{}).index()});
  }
  /// JOB-13: the coordinator says that it is lost, whatever comes between.
  void take(const todo::give_up_node& c) {
    CHECK(c.name == "n1");
    asked_.push_back({job_event(heard::node_lost{}).index()});
  }
  void take(const todo::wait&) { asked_.push_back({job_event(heard::tick{}).index()}); }
  void take(const todo::copy& c) { CHECK(committed_.contains(c.step)); }
  template <class Told>
  void take(const Told&) {}

  void answer(bool well, std::set<job_arrow>& seen) {
    const auto at = static_cast<std::ptrdiff_t>(below(asked_.size()));
    const auto what = asked_[static_cast<size_t>(at)];
    asked_.erase(asked_.begin() + at);
    if (chance(40)) shelf_.work(well || chance(85));
    const auto refused = job_.policy.refused();
    const bool overtaken = what.event == job_event(heard::folder_open{}).index() &&
                           job_.policy.state() != reopening;  // by a recovery
    if (what.event == job_event(heard::tick{}).index())
      job_.now_ns = std::max(job_.now_ns, job_.waits_until_ns);
    tell(event_of(what, well || chance(85)), seen);
    // What it asked for it can hear; but a pause that somebody cut short ends in nothing.
    if (what.event != job_event(heard::tick{}).index() && !overtaken)
      CHECK(job_.policy.refused() == refused);
  }

  job_event event_of(const job_asked& what, bool well) {
    const errc code =
        std::array{errc::io, errc::io, errc::io, errc::bad_data, errc::unavailable}[below(5)];
    const error why{code, "it did not work"};
    if (what.event == job_event(heard::admitted{}).index()) {
      if (well || chance(92)) return job_.admitted(static_cast<uint32_t>(1 + below(replicas_)));
      return heard::not_admitted{{errc::timeout, "nobody came again"}};
    }
    if (what.event == job_event(heard::node_lost{}).index())
      return heard::node_lost{"n1", "is wrong", "wrong_bits"};
    if (what.event == job_event(heard::step_done{}).index() && !well && chance(50)) {
      heard::step_done done{10, 2, 1, 40, 0};
      done.weights.odd.emplace();
      done.weights.odd->differing = {0};
      if (chance(50)) done.weights.odd->ranks = {0};
      ranks_busy_ = false;
      return done;
    }
    heard::phase_done phase{what.phase, "/first", 9, 9, 9};
    if (what.phase == start_phase::choose_checkpoint) phase.chosen = older_than(what);
    const bool none_older = what.phase == start_phase::choose_checkpoint && !phase.chosen;
    const job_event good[] = {phase,
                              stepped(),
                              heard::validated{8, 2},
                              heard::shards_saved{what.step, 10},
                              committed(what),
                              heard::folder_open{},
                              heard::exported{"model", {}},
                              heard::copied{},
                              heard::tick{}};
    const auto found = std::find_if(std::begin(good), std::end(good),
                                    [&](const job_event& e) { return e.index() == what.event; });
    REQUIRE(found != std::end(good));
    const bool of_save = std::holds_alternative<heard::shards_saved>(*found) ||
                         std::holds_alternative<heard::committed>(*found);
    const bool of_ranks = !of_save && found - std::begin(good) < 3;
    if (of_ranks) ranks_busy_ = false;
    const bool is_kept = job_.saving.contains(what.step) || committed_.contains(what.step);
    if (std::holds_alternative<heard::validated>(*found) && is_kept)
      well = chance(50);  // JOB-21: the last one, which ends nothing
    else if (of_ranks && !well && chance(92))
      well = true;  // it ends the run: more rarely
    if (none_older) well = false;
    if (std::holds_alternative<heard::committed>(*found)) well = shelf_.outcome(what.folder, well);
    if (phase.chosen && well) shelf_.back_to(phase.chosen->step);
    if (phase.chosen && well)
      committed_.erase(committed_.upper_bound(phase.chosen->step), committed_.end());
    if (std::holds_alternative<heard::committed>(*found) && well) committed_.insert(what.step);
    if (of_save && (!well || std::holds_alternative<heard::committed>(*found)))
      job_.saving.erase(what.step);
    if (well) return *found;
    if (of_save) return heard::save_failed{what.step, why};
    if (of_ranks) return heard::ask_failed{why};
    if (std::holds_alternative<heard::folder_open>(*found)) return heard::folder_open{why};
    if (std::holds_alternative<heard::exported>(*found)) return heard::exported{"", why};
    if (std::holds_alternative<heard::copied>(*found)) return heard::copied{why};
    return *found;  // a tick cannot fail
  }

  heard::step_done stepped() {
    heard::step_done done{chance(3) ? not_a_number : 10, 2, 1, 40, 0};
    done.weights.compared = replicas_ == 2 && chance(50);
    return done;
  }

  /// What the committer would say.
  std::optional<checkpoint::resume_point> older_than(const job_asked& what) const {
    for (auto step = committed_.rbegin(); step != committed_.rend(); ++step) {
      const auto& all = what.unsound;
      const bool sound = std::none_of(all.begin(), all.end(), [&](const std::string& path) {
        return path == folder_of(*step) || path == folder_of(*step, "/second");
      });
      if (*step <= what.step && sound)
        return checkpoint::resume_point{folder_of(*step), *step, {}, states_.at(*step)};
    }
    return {};
  }

  static heard::committed committed(const job_asked& what) {
    const auto tier = std::filesystem::path(what.folder).parent_path().string();
    return {what.step, folder_of(what.step, tier)};
  }

  job_event anything() {
    const uint64_t request = ++job_.last_request;
    const auto cause = static_cast<pause_cause>(std::array{0, 2, 3}[below(3)]);
    const uint64_t asks = cause == pause_cause::person ? request : 0;
    switch (below(22)) {
      case 0:
        stopped_unsaved_ = true;
        return heard::stop{"at once", false};
      case 1:
        return heard::stop{"enough", true};
      case 2:
        if (recovers_ && chance(20)) {
          if (replicas_ > 1 && chance(50)) return heard::release{"", "there are more nodes", true};
          return heard::release{"n1", "is drained"};
        }
        if (chance(recovers_ ? 75 : 50)) return heard::node_lost{"n1", "is gone"};
        return heard::tick{};  // a late one
      case 3:
      case 4:
      case 5:
        unanswered_.insert(asks);
        return heard::pause{asks, cause, "for a look"};
      case 6:
      case 7:
      case 8:
      case 9:
        unanswered_.insert(asks);
        return heard::resume{asks, cause};
      case 10:
      case 11:
        unanswered_.insert(request);
        return heard::set_value{request, "train.steps", fmt::format("{}", 1 + below(9))};
      case 12:
      case 13:
        unanswered_.insert(request);
        return heard::set_value{request, "checkpoint.every", fmt::format("{}", below(3))};
      case 14:
        unanswered_.insert(request);
        return heard::set_value{request, "model.layers", "7"};
      case 15:
        unanswered_.insert(request);
        rewinds_ = true;
        return heard::rewind{request, below(steps_ + 2), below(3), "for a look"};
      default:
        unanswered_.insert(request);
        return heard::save_now{request};
    }
  }

  /// Nobody pauses it any more.
  void lift(std::set<job_arrow>& seen) {
    const auto cause = *job_.policy.pauses().begin();
    REQUIRE(cause != pause_cause::room);  // a save is under way then
    const uint64_t request = cause == pause_cause::person ? ++job_.last_request : 0;
    tell(heard::resume{request, cause}, seen);
  }

  void check_end() {
    const auto& p = job_.policy;
    for (const auto request : unanswered_)
      if (request != 0) CHECK_MESSAGE(job_.answers.contains(request), request);  // JOB-5
    const bool good =
        job_.end->code == errc::none || (job_.end->code == errc::cancelled && !stopped_unsaved_);
    if (good && p.step() > 0 && job_.end->message != "enough") CHECK(committed_.contains(p.step()));
    if (p.saved_step() > 0) CHECK(committed_.contains(p.saved_step()));
    uint64_t wanted = steps_;
    for (const auto& [request, text] : job_.answers)
      if (text.starts_with("train.steps = ")) wanted = std::stoull(text.substr(14));
    if (job_.end->code == errc::none && !rewinds_) CHECK(p.step() >= wanted);  // REQ-6
  }

  std::mt19937_64 rng_;
  uint64_t steps_ = 0;
  std::set<uint64_t> committed_;
  job_shelf shelf_;
  std::map<uint64_t, checkpoint::train_state> states_;  ///< by step, as they were saved last
  std::vector<job_asked> asked_;
  bool ranks_busy_ = false;
  uint32_t epoch_ = 7;
  bool recovers_ = false;
  uint64_t replicas_ = 1;
  bool goes_on_ = false;
  bool stopped_unsaved_ = false;
  bool rewinds_ = false;
  std::set<uint64_t> unanswered_;
  job_harness job_;
};

}  // namespace

TEST_CASE("job: the table says of each state and event what is meant") {
  // '.' refused, '=' heard and the state stays, '>' may lead on.
  const std::map<job_state, std::string> meant{
      {admitting, ">>...........>=====>."},  {opening, "..>>.........>=====>="},
      {building, "..>>.........>=====>="},   {connecting, "..>>.........>=====>="},
      {loading, "..>>.........>=====>="},    {stepping, "...>>.===....======>="},
      {validating, "...>.>===....>=====>="}, {paused, "......=>>....>=>==>>>"},
      {settling, "...=.==>>....===...>."},   {waiting, "............>>==...>."},
      {reopening, ".........>...===...>."},  {exporting, "...=.=....>..===...=."},
      {copying, "...........>.>==...=."},    {explaining, "...=.====...>======>."},
      {ended, "...=.====............"},      {recovering, ">>.....>>....>=====>."}};
  for (size_t s = 0; s < job_state_count; ++s) {
    std::string row(job_event_count, '.');
    for (const auto& rule : job_rules())
      if (rule.is_for(static_cast<job_state>(s))) {
        CHECK(row[rule.event] == '.');  // one rule for each
        row[rule.event] = rule.to == 0 ? '=' : '>';
      }
    const auto state = static_cast<job_state>(s);
    CHECK_MESSAGE(row == meant.at(state), to_string(state), " ", row);
  }
}

TEST_CASE("job: runs by seed keep what it promises, walk every arrow of the table and no other") {
  std::set<job_arrow> seen;
  std::map<job_state, job_policy> samples;
  const auto first = job_number_from("TROUPE_JOB_SEED", 1);
  const auto count = job_number_from("TROUPE_JOB_WALKS", 20000);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    job_walk(seed).run(seen, samples);
  }
  const auto allowed = arrows_of_table();
  for (const auto& arrow : seen) CHECK_MESSAGE(allowed.contains(arrow), text_of(arrow));
  if (first == 1 && count >= 20000)
    for (const auto& arrow : allowed) CHECK_MESSAGE(seen.contains(arrow), text_of(arrow));
  MESSAGE(count, " runs, ", seen.size(), " arrows");
}

TEST_CASE("job: the table and the picture in docs are the code's") {
  std::ifstream file(TROUPE_SOURCE_DIR "/docs/job-states.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto table = troupe::train::test::job_rules_in_words();
  const auto picture = "```mermaid\n" + troupe::train::test::job_picture() + "```\n";
  CHECK_MESSAGE(text.find(table) != std::string::npos, "docs/job-states.md lacks\n", table);
  CHECK_MESSAGE(text.find(picture) != std::string::npos, "docs/job-states.md lacks\n", picture);
}

TEST_CASE("job: what no rule is for is refused by name and changes nothing") {
  std::set<job_arrow> seen;
  std::map<job_state, job_policy> samples;
  for (uint64_t seed = 1; samples.size() + 2 < job_state_count && seed < 3000; ++seed)
    job_walk(seed).run(seen, samples);
  samples.try_emplace(admitting, planned_job(), 7, std::nullopt);
  auto over = samples.at(admitting);
  over.on(heard::stop{"enough", true}, 1);
  samples.try_emplace(ended, over);
  REQUIRE(samples.size() == job_state_count);
  const job_event events[] = {heard::admitted{},
                              heard::not_admitted{},
                              heard::phase_done{},
                              heard::ask_failed{},
                              heard::step_done{},
                              heard::validated{},
                              heard::shards_saved{999},
                              heard::committed{999, ""},
                              heard::save_failed{999, {}},
                              heard::folder_open{},
                              heard::exported{},
                              heard::copied{},
                              heard::tick{},
                              heard::stop{},
                              heard::pause{1, {}, ""},
                              heard::resume{1},
                              heard::set_value{1, "", ""},
                              heard::save_now{1},
                              heard::rewind{1},
                              heard::node_lost{},
                              heard::release{}};
  static_assert(std::size(events) == job_event_count);
  for (const auto& [state, sample] : samples)
    for (size_t e = 0; e < job_event_count; ++e) {
      REQUIRE(events[e].index() == e);
      const bool has_rule =
          std::any_of(job_rules().begin(), job_rules().end(),
                      [&, s = state](const job_rule& r) { return r.event == e && r.is_for(s); });
      const bool unknown = e >= 6 && e <= 8;  // no such step is being saved
      if (has_rule && !unknown) continue;
      auto job = sample;
      const auto commands = job.on(events[e], 1);
      CHECK(job.refused() == sample.refused() + 1);
      CHECK(job.state() == state);
      const bool by_a_person = e >= 14 && e <= 18;
      REQUIRE(commands.size() == (by_a_person ? 1 : 0));
      if (by_a_person) CHECK_FALSE(std::get<todo::answer>(commands[0]).said);
    }
}
