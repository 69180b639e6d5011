// What is answered to persons is what steps use.
#include "actors/train/requests_policy.hpp"

#include <algorithm>
#include <map>
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/config/load.hpp"

using namespace troupe;
using namespace troupe::train;
using texts = std::vector<std::string>;

namespace {

config::job some_job() {
  auto job = config::parse(
      "[model]\nlayers = 1\nheads = 1\nhidden = 8\n[data]\npath = \"x\"\n"
      "[train]\nsteps = 200\nlr = 0.003\n",
      "job");
  REQUIRE(job);
  return *job;
}

std::string told(const result<reply>& r) {
  return r ? r->text : "refused: " + r.error().message;
}

}  // namespace

TEST_CASE("requests: a setting during a step is used by the next one, as the answer says (REQ-1)") {
  requests_policy p(some_job(), 114, {});
  CHECK(p.take_effect().empty());
  p.step_begins();  // 115
  CHECK(told(p.set("train.lr", "0.001")) == "train.lr = 0.001 from step 116 on");
  CHECK(p.job().train.lr == 0.003);  // what the report of step 115 says
  CHECK(p.wanted().train.lr == 0.001);
  p.step_ended();
  CHECK(p.job().train.lr == 0.003);
  CHECK(p.take_effect() == texts{"train.lr is 0.001 from step 116 on"});
  CHECK(p.job().train.lr == 0.001);
}

TEST_CASE("requests: between two steps a setting is used by the step that follows") {
  requests_policy p(some_job(), 114, {});
  p.step_begins();
  p.step_ended();  // 115, which is validated or waits for a checkpoint now
  CHECK(told(p.set("train.lr", "0.001")) == "train.lr = 0.001 from step 116 on");
  CHECK(p.take_effect() == texts{"train.lr is 0.001 from step 116 on"});
  p.step_begins();
  CHECK(p.job().train.lr == 0.001);
}

TEST_CASE("requests: pause, set and resume during one step all happen at its end (REQ-2)") {
  requests_policy p(some_job(), 114, {});
  p.step_begins();
  CHECK(told(p.pause("look")) == "pauses after step 115");
  CHECK(told(p.pause("")) == "refused: the run is paused already");
  CHECK(told(p.set("train.lr", "0.001")) == "train.lr = 0.001 from step 116 on");
  CHECK(told(p.resume()) == "continues with step 116");
  CHECK(told(p.resume()) == "refused: the run is not paused");
  CHECK_FALSE(p.paused());
  p.step_ended();
  CHECK(p.take_effect() == texts{"paused after step 115: look",
                                 "train.lr is 0.001 from step 116 on", "continues with step 116"});
  CHECK_FALSE(p.paused());
}

TEST_CASE("requests: while paused each takes effect at once") {
  requests_policy p(some_job(), 9, {});
  CHECK(told(p.pause("")) == "pauses after step 9");
  CHECK(p.take_effect() == texts{"paused after step 9: asked to"});
  CHECK(p.paused());
  CHECK(told(p.set("train.lr", "0.5")) == "train.lr = 0.5 from step 10 on");
  CHECK(p.take_effect() == texts{"train.lr is 0.5 from step 10 on"});
  CHECK(told(p.resume()) == "continues with step 10");
  CHECK(p.take_effect() == texts{"continues with step 10"});
  CHECK_FALSE(p.paused());
}

TEST_CASE("requests: what cannot be used or checked is refused, and changes nothing") {
  requests_policy p(some_job(), 199, {});
  p.step_begins();  // the last
  CHECK(told(p.set("train.lr", "1")) == "refused: no step would use it: step 200 is the last");
  CHECK(told(p.set("train.steps", "201")) == "train.steps = 201 from step 201 on");
  CHECK(told(p.set("train.lr", "1")) == "train.lr = 1.0 from step 201 on");
  CHECK(told(p.set("train.batch", "4")).starts_with("refused: train.batch cannot change"));
  const auto typo = p.set("train.step", "300"), nonsense = p.set("train.lr", "fast");
  REQUIRE_FALSE((typo || nonsense));  // both are the person's
  CHECK(typo.error().hint.starts_with("did you mean train.steps? what can: "));
  CHECK(nonsense.error().code == errc::usage);
  CHECK(told(p.set("", "4")) == "refused: a setting needs the key that it changes");
  // Ranks of a job without a budget wait for each other as at full speed.
  CHECK(told(p.set("power.budget_w", "60")).starts_with("refused: power.budget_w cannot be set"));
  auto governed = some_job();
  governed.power.budget_w = 80;
  requests_policy of_governed(governed, 114, {});
  CHECK(told(of_governed.set("power.budget_w", "0")).starts_with("refused: "));
  CHECK(told(of_governed.set("power.budget_w", "x")).starts_with("refused: "));
  CHECK(told(of_governed.set("power.budget_w", "60")) ==
        "power.budget_w = 60.0 from the next step on");
}

TEST_CASE("requests: no step before one that has begun can be the last") {
  requests_policy p(some_job(), 137, {});
  CHECK(told(p.set("train.steps", "136")) ==
        "refused: train.steps = 136 comes too late: step 137 has begun");
  CHECK(p.set("train.steps", "137"));  // it ends before the next
  CHECK(p.set("train.steps", "139"));
  p.step_begins();  // 138
  for (const char* steps : {"130", "137"})
    CHECK(told(p.set("train.steps", steps)).ends_with(": step 138 has begun"));
  CHECK(told(p.set("train.steps", "138")) == "train.steps = 138 from step 139 on");
  CHECK(told(p.set("train.steps", "139")) == "train.steps = 139 from step 139 on");
  p.step_is_lost();
  p.go_back(120);
  CHECK(told(p.set("train.steps", "130")).ends_with(": step 137 has begun"));  // it was made
  CHECK(p.set("train.steps", "137"));
}

TEST_CASE("requests: only so many wait for a step's end (REQ-3)") {
  requests_policy p(some_job(), 0, {});
  p.step_begins();
  for (size_t i = 0; i < pending_limit; ++i) CHECK(p.set("train.lr", "0.001"));
  CHECK(told(p.set("train.lr", "0.002")).starts_with("refused: 256 requests wait"));
  CHECK(told(p.pause("")).starts_with("refused: "));
  p.step_ended();
  CHECK(p.take_effect().size() == pending_limit);
  CHECK(p.set("train.lr", "0.002"));
}

TEST_CASE("requests: changes are kept with what the file says, until they are set back to it") {
  requests_policy p(some_job(), 4, {});
  p.step_begins();
  CHECK(p.set("train.lr", "0.001"));
  CHECK(p.set("train.lr", "0.002"));
  CHECK(p.set("checkpoint.every", "7"));
  using change = checkpoint::setting_change;
  CHECK(p.changes() ==
        std::vector<change>{{"train.lr", "0.002", "0.003", 6}, {"checkpoint.every", "7", "0", 6}});
  p.step_ended();
  p.take_effect();
  CHECK(p.set("train.lr", "0.003"));
  CHECK(p.changes() == std::vector<change>{{"checkpoint.every", "7", "0", 6}});
}

TEST_CASE("requests: a step that is made again is made with the settings it had (REQ-4)") {
  requests_policy p(some_job(), 10, {});
  const auto make_step = [&] {
    p.take_effect();
    p.step_begins();
    const auto lr = p.job().train.lr;
    p.step_ended();
    return lr;
  };
  CHECK(make_step() == 0.003);  // 11
  CHECK(told(p.set("train.lr", "0.001")) == "train.lr = 0.001 from step 12 on");
  CHECK(make_step() == 0.001);  // 12
  CHECK(make_step() == 0.001);  // 13
  p.step_begins();              // 14, which does not end
  CHECK(told(p.set("train.lr", "0.002")) == "train.lr = 0.002 from step 15 on");
  p.step_is_lost();
  CHECK(p.changes().size() == 1);
  p.go_back(10);
  CHECK(p.wanted().train.lr == 0.002);
  CHECK(p.changes().empty());   // what a checkpoint of step 10 says of step 11
  CHECK(make_step() == 0.003);  // 11 again
  // REQ-2: behind what was asked for before.
  CHECK(told(p.set("train.lr", "0.004")) == "train.lr = 0.004 from step 15 on");
  for (const double lr : {0.001, 0.001, 0.001, 0.004}) {  // 12 to 15
    CHECK(make_step() == lr);
    CHECK(p.changes().at(0).value == (p.job().train.lr == 0.001 ? "0.001" : "0.004"));
  }
  p.go_back(12);
  CHECK(told(p.set("train.steps", "300")) == "train.steps = 300 from step 16 on");  // not made yet
  for (const int64_t steps : {200, 200, 200, 300}) {                                // 13 to 16
    make_step();
    CHECK(p.job().train.steps == steps);
  }
  p.go_back(13);
  CHECK(make_step() == 0.001);  // 14
  CHECK(make_step() == 0.004);  // 15
}

TEST_CASE("requests: pause and resume name the step that follows, be it one that is made again") {
  requests_policy p(some_job(), 45, {});
  p.step_begins();
  p.go_back(41);
  p.hold("rule 2 holds it");
  CHECK(p.take_effect() == texts{"paused after step 41: rule 2 holds it"});
  CHECK(told(p.resume()) == "continues with step 42");
  CHECK(p.take_effect() == texts{"continues with step 42"});
  CHECK(told(p.pause("")) == "pauses after step 41");
  CHECK(told(p.set("train.lr", "0.001")) == "train.lr = 0.001 from step 46 on");  // REQ-4
}

TEST_CASE("requests: the job's own pause is not refused, however many requests wait (REQ-3)") {
  requests_policy p(some_job(), 10, {});
  p.step_begins();
  for (size_t i = 0; i < pending_limit; ++i) REQUIRE(p.set("train.lr", "0.001"));
  CHECK_FALSE(p.pause("a person's"));
  p.hold("rule 1 holds it");
  p.hold("rule 1 holds it");
  p.step_ended();
  const auto said = p.take_effect();
  CHECK(p.paused());
  CHECK(said.size() == pending_limit + 1);
}

TEST_CASE("requests: a pause is not kept for a step that is made again") {
  requests_policy p(some_job(), 10, {});
  p.take_effect();
  p.step_begins();
  CHECK(told(p.set("train.lr", "0.001")) == "train.lr = 0.001 from step 12 on");
  CHECK(told(p.pause("")) == "pauses after step 11");
  p.go_back(4);
  CHECK(p.take_effect() == texts{"paused after step 4: asked to"});
  CHECK(p.paused());
}

TEST_CASE("REQ-7: a pause that no step follows is void, should steps be made again") {
  requests_policy p(some_job(), 10, {});
  p.step_begins();
  CHECK(told(p.pause("")) == "pauses after step 11");
  p.step_ended();
  CHECK(p.no_step_follows());
  CHECK_FALSE(p.memory().paused);
  p.go_back(4);
  CHECK(p.take_effect().empty());
  CHECK_FALSE(p.paused());
  CHECK_FALSE(p.no_step_follows());
  CHECK(told(p.pause("")) == "pauses after step 4");
}

TEST_CASE("REQ-5: who takes over pauses before its first step, and keeps each setting's step") {
  requests_policy before(some_job(), 110, {});
  CHECK(before.memory() == job_memory{});
  const auto make_step = [](requests_policy& p) {
    p.take_effect();
    p.step_begins();
    p.step_ended();
  };
  make_step(before);  // 111
  REQUIRE(before.set("train.lr", "0.001"));
  make_step(before);  // 112, with it
  before.take_effect();
  before.step_begins();  // 113
  REQUIRE(before.set("train.lr", "0.002"));
  REQUIRE(before.pause("maintenance"));
  const auto memory = before.memory();
  CHECK(memory.paused);
  REQUIRE(memory.settings.size() == 2);
  CHECK(memory.settings[0] == checkpoint::setting_change{"train.lr", "0.001", "0.003", 112});
  CHECK(memory.settings[1] == checkpoint::setting_change{"train.lr", "0.002", "0.003", 114});

  requests_policy after(some_job(), 110, {});
  CHECK(after.remember(memory).empty());
  CHECK(after.memory() == memory);
  CHECK(after.take_effect() == texts{"paused after step 110: maintenance"});
  CHECK(after.paused());
  REQUIRE(after.resume());
  after.take_effect();
  CHECK_FALSE(after.memory().paused);
  for (const double lr : {0.003, 0.001, 0.001, 0.002}) {  // 111 to 114
    after.take_effect();
    after.step_begins();
    CHECK(after.job().train.lr == lr);
    after.step_ended();
  }
  REQUIRE(after.changes().size() == 1);
  CHECK(after.changes()[0] == checkpoint::setting_change{"train.lr", "0.002", "0.003", 114});
}

TEST_CASE("REQ-5: what the checkpoint has is not remembered twice, what does not fit is left out") {
  requests_policy before(some_job(), 110, {});
  before.take_effect();
  before.step_begins();
  before.step_ended();  // 111
  REQUIRE(before.set("train.lr", "0.001"));
  before.take_effect();
  before.step_begins();
  before.step_ended();                          // 112
  CHECK(before.memory().settings.size() == 1);  // an older checkpoint may be the next one's start

  requests_policy after(some_job(), 112, {});
  const auto left_out = after.remember(
      {false, "", {{"train.lr", "0.001", "0.003", 112}, {"train.lr", "fast", "0.003", 113}}});
  CHECK(left_out.size() == 1);
  CHECK(after.memory().settings.size() == 1);  // an older checkpoint may not have it
  CHECK(after.job().train.lr == 0.003);
}

TEST_CASE("REQ-4: what is set after a lost head holds from the first step that nobody has made") {
  requests_policy p(some_job(), 110, {});
  job_memory memory;
  memory.lost = lost_head{"was killed", 112, 117, 1};
  CHECK(p.remember(memory).empty());
  CHECK(told(p.set("train.lr", "0.001")) == "train.lr = 0.001 from step 118 on");
}

TEST_CASE("limits: of more settings than are kept the oldest cannot be gone back behind") {
  auto job = some_job();
  job.train.steps = 1000;
  requests_policy p(job, 3, {});
  CHECK_FALSE(p.can_go_back(2));  // another run's
  const auto set_and_step = [&](size_t i) {
    REQUIRE(p.set("train.lr", fmt::format("{}", 0.001 + static_cast<double>(i) / 1e6)));
    p.take_effect();
    p.step_begins();
    p.step_ended();
  };
  for (size_t i = 0; i < in_force_limit; ++i) set_and_step(i);
  CHECK(p.can_go_back(3));
  auto unsaved = p;
  p.is_saved(200);
  set_and_step(in_force_limit);
  CHECK_FALSE(p.can_go_back(2));
  CHECK(p.can_go_back(3));  // the first setting holds from step 4 on
  set_and_step(in_force_limit + 1);
  CHECK_FALSE(p.can_go_back(3));
  CHECK(p.memory().settings.size() == in_force_limit);
  p.go_back(4);
  p.take_effect();
  CHECK(p.job().train.lr == doctest::Approx(0.001001));  // step 5's

  p = unsaved;  // what no checkpoint has is kept, however much it is
  for (size_t i = in_force_limit; i < in_force_limit + 9; ++i) set_and_step(i);
  CHECK(p.can_go_back(3));
  p.go_back(3);
  p.take_effect();
  CHECK(p.job().train.lr == doctest::Approx(0.001));  // step 4's
}

namespace {

/// A run by seed: steps, words of persons, commits, returns to the newest checkpoint or, where
/// newer ones are damaged, to an older one, and heads that begin anew from it with what the one
/// before left. Each step has one rate, however often it is made and by whom, until an answer names
/// it.
class life {
 public:
  explicit life(uint32_t seed) : rng_(seed) {}

  void go() {
    for (int turn = 0; turn < 80; ++turn) {
      switch (rng_() % 11) {
        case 0:
          static_cast<void>(policy_.pause("look"));
          break;
        case 1:
          static_cast<void>(policy_.resume());
          break;
        case 2:
          set();
          break;
        case 3:
          commit();
          break;
        case 4:
          next_head();
          break;
        case 5:
          go_back();
          break;
        case 6:
          if (rng_() % 3 == 0) rewind();
          break;
        default:
          step();
          break;
      }
    }
  }

 private:
  void set() {
    const auto said = policy_.set("train.lr", fmt::format("0.{:04}", 1 + rng_() % 9998));
    if (!said) return;
    const auto from = said->first_step;
    CHECK(said->text.ends_with(fmt::format(" from step {} on", from)));
    CHECK(from > furthest_);
    rates_.erase(rates_.lower_bound(from), rates_.end());
  }
  void step() {
    policy_.take_effect();
    if (policy_.paused()) return;
    policy_.step_begins();
    const auto [first, fresh] = rates_.emplace(finished_ + 1, policy_.job().train.lr);
    CAPTURE(finished_ + 1);
    if (!fresh) CHECK(first->second == policy_.job().train.lr);
    if (rng_() % 4 == 0) set();
    policy_.step_ended();
    furthest_ = std::max(furthest_, ++finished_);
  }
  void commit() {
    saved_[finished_] = policy_.changes();
    policy_.is_saved(finished_);
  }
  /// To the newest one that is not damaged.
  void choose() {
    while (saved_.size() > 1 && rng_() % 4 == 0) saved_.erase(std::prev(saved_.end()));
  }
  void go_back() {
    auto known = saved_;
    choose();
    if (!policy_.can_go_back(saved_.rbegin()->first)) saved_ = known;
    finished_ = saved_.rbegin()->first;
    policy_.go_back(finished_);
  }
  /// REQ-6: by order, to any checkpoint; what was set since might never have been.
  void rewind() {
    auto to = saved_.begin();
    std::advance(to, static_cast<long>(rng_() % saved_.size()));
    saved_.erase(std::next(to), saved_.end());
    static_cast<void>(policy_.rewind(to->first, to->second));
    auto wanted = some_job().train.lr;
    for (const auto& c : to->second) wanted = std::stod(c.value);
    CHECK(policy_.job().train.lr == wanted);
    CHECK(policy_.changes() == to->second);
    finished_ = furthest_ = to->first;
    rates_.erase(rates_.upper_bound(finished_), rates_.end());
  }
  void next_head() {
    const auto memory = policy_.memory();
    auto job = some_job();
    choose();
    const auto& [saved, changes] = *saved_.rbegin();
    for (const auto& c : changes) job = *config::amend(job, fmt::format("{}={}", c.key, c.value));
    policy_ = requests_policy(job, saved, changes);
    CHECK(policy_.remember(memory).empty());
    CHECK(policy_.memory().paused == memory.paused);
    finished_ = furthest_ = saved;  // how far the one before came it does not know
  }

  std::minstd_rand rng_;
  requests_policy policy_{some_job(), 0, {}};
  uint64_t finished_ = 0;
  uint64_t furthest_ = 0;  ///< that this head has made
  std::map<uint64_t, std::vector<checkpoint::setting_change>> saved_{{0, {}}};  ///< by step
  std::map<uint64_t, double> rates_;                                            ///< by step
};

}  // namespace

TEST_CASE("REQ-4 REQ-5: whoever makes a step, and however often, it has one rate, by seed") {
  for (uint32_t seed = 1; seed <= 1000; ++seed) {
    CAPTURE(seed);
    life(seed).go();
  }
}

TEST_CASE("requests: a power budget holds for steps that are made again, and for the next head") {
  auto governed = some_job();
  governed.power.budget_w = 80;
  requests_policy p(governed, 114, {});
  for (int i = 0; i < 3; ++i) {
    p.take_effect();
    p.step_begins();
    if (i == 1) CHECK(told(p.set("train.lr", "0.001")) == "train.lr = 0.001 from step 117 on");
    p.step_ended();
  }
  REQUIRE(p.set("power.budget_w", "44"));
  p.go_back(114);
  p.take_effect();
  CHECK(p.job().train.lr == 0.003);
  CHECK(p.job().power.budget_w == 44);
  REQUIRE(p.set("power.budget_w", "50"));  // while step 115 is made again
  p.take_effect();
  CHECK(p.job().power.budget_w == 50);
  p.rewind(110, {});
  CHECK(p.job().power.budget_w == 50);
  CHECK(p.changes().empty());
  requests_policy next(governed, 100, {});
  CHECK(next.remember(p.memory()).empty());
  CHECK(next.job().power.budget_w == 50);
}
