// Drills between the run and its stages: who is told what, when, and what is left after a recovery.
#include <doctest/doctest.h>

#include "actors/train/drill_policy.hpp"
#include "actors/train/run_drills.hpp"
#include "io/config/load.hpp"
#include "messages/text.hpp"
#include "tests/actors/scripted_run.hpp"

using namespace troupe;
using namespace troupe::train;
using config::drill_kind;
using config::drill_spec;
using troupe::train::test::job_of_two_replicas;
using troupe::train::test::run_epoch;
using troupe::train::test::scripted_run;
using troupe::train::test::scripted_run_options;

namespace {

const drill_spec once{"rank 1", drill_kind::fail, 2, 0, 0};
const drill_spec often{"a", drill_kind::hang, 2, 3, 0};

struct drilled_run : scripted_run {
  static scripted_run_options options(std::optional<job_memory> memory) {
    scripted_run_options o;
    o.recovers = true;
    o.drills = {once, often, {"c", drill_kind::drop, 3, 0, 0}};
    o.memory = std::move(memory);
    return o;
  }
  explicit drilled_run(std::optional<job_memory> memory = {})
      : scripted_run(options(std::move(memory))) {}

  /// What the stages are built from; the start goes on behind it.
  std::vector<std::vector<drill_spec>> built() {
    for (const auto p : {start_phase::open_folder, start_phase::open_data}) pass_phase(p);
    std::vector<std::vector<drill_spec>> out;
    for (auto& stage : stages) {
      const auto order = stage.take<fbs::BuildStage>();
      const auto job = config::parse(text_of(order->config_toml()), "sent");
      REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
      out.push_back(job->inject);
      order.answer<fbs::StageReady>();
    }
    for (auto p = start_phase::attach_loaders; p <= start_phase::connect_data_plane;
         p = static_cast<start_phase>(static_cast<int>(p) + 1))
      pass_phase(p);
    return out;
  }
};

using drills_of_ranks = std::vector<std::vector<drill_spec>>;

}  // namespace

TEST_CASE("DRL-3: drills: a rank is built with its own, and a person is told when they act") {
  drilled_run f;
  f.admit();
  CHECK(f.built() == drills_of_ranks{{often}, {once}});
  CHECK(f.warnings().empty());
  f.step();
  CHECK(f.warnings() ==
        std::vector<std::string>{"drill 1 acts in step 2: the process of rank 1 is killed",
                                 "drill 2 acts in step 2: a hangs"});
  f.step();
  CHECK(f.warnings() == std::vector<std::string>{"drill 3 does nothing in step 3: c has no ranks"});
}

TEST_CASE("DRL-1: drills: what acted in an epoch is left out of the next, the rest is not") {
  drilled_run f;
  f.admit();
  f.built();
  f.step();  // step 2 is under way
  f.warnings();
  f.lose("b");
  f.coordinator.take<fbs::Recover>();
  for (auto& stage : f.stages) stage.take_all<fbs::RunStep>();
  f.admit(f.crew(), f.crew_handles(), run_epoch + 1);
  auto later = often;
  later.from_step = 5;
  CHECK(f.built() == drills_of_ranks{{later}, {}});
  f.warnings();
  for (int step = 1; step <= 2; ++step) f.step();
  for (const auto& w : f.warnings()) CHECK(w.find("drill 1") == std::string::npos);
}

TEST_CASE("DRL-1: drills: a head that goes on for a lost one makes no drill again") {
  job_memory memory;
  memory.lost = lost_head{"was killed", 1, 1, 0};  // step 2 may have been ordered
  drilled_run f(memory);
  f.admit();
  auto later = often;
  later.from_step = 5;
  CHECK(f.built() == drills_of_ranks{{later}, {}});
}

TEST_CASE("DRL-3: drills: in a job of fewer replicas a rank has its own, those that can be found") {
  auto plan = job_of_two_replicas();
  plan.job.inject = {{"n1", drill_kind::fail, 2, 0, 0},
                     {"rank 0", drill_kind::wrong_bit, 3, 0, 0},
                     {"rank 1", drill_kind::hang, 2, 0, 0}};
  run_state st;
  st.drills = drill_policy(plan.job.inject);
  st.job = job_policy(plan, run_epoch, {});
  st.crew.nodes = {"n1"};  // it has the first place
  st.job.on(heard::admitted{st.crew.nodes, 1}, 0);
  const auto job = config::parse(configuration_for(st, 0), "sent");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  CHECK(job->parallel.data == 1);
  CHECK(job->inject == std::vector<drill_spec>{{"rank 0", drill_kind::fail, 2, 0, 0}});
}
