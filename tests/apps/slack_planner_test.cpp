// The plan of a job's slack: made beside its start, of a profile that fits the job.
#include "apps/up/slack_planner.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "io/file.hpp"
#include "tests/apps/pipeline_profile.hpp"
#include "tests/apps/plan_of_text.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using apps::slack_planner;

namespace {

struct planned_start {
  scratch folder;
  std::string file = (folder / "clocks.csv").string();

  planned_start() { std::ofstream(file) << pipeline_profile(); }
  result<std::shared_ptr<slack_planner>> begin(std::vector<std::string> more = {}) const {
    std::vector<std::string> sets{"power.slack=plan", "power.profile=" + file,
                                  "power.blocking_w=60", "power.control=nvml_clocks"};
    sets.insert(sets.end(), more.begin(), more.end());
    const auto plan = plan_of_text(
        "[cluster]\nworkers_per_node = 3\nthreads = 1\n[model]\nlayers = 6\nheads = 4\n"
        "hidden = 64\nvocab = 256\n[data]\npath = \"x.txt\"\n[parallel]\npipeline = 3\n"
        "[train]\nsteps = 100\nbatch = 8\nmicro_batch = 2\nseq_len = 32\n",
        sets);
    return slack_planner::begin(plan);
  }
  error why_not(std::vector<std::string> more) const {
    const auto made = begin(std::move(more));
    REQUIRE_FALSE(made);
    return made.error();
  }
};

}  // namespace

TEST_CASE("SLJ-2: slack planner: a plan comes beside the start, of the job's micro-batches") {
  const planned_start f;
  const auto made = f.begin();
  REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
  const auto look = (*made)->look();
  power::planned_slack_ptr plan;
  while (!plan) {
    plan = look();
    std::this_thread::yield();
  }
  CHECK(plan->policy->dag().stages() == 3);
  CHECK(plan->policy->dag().micro_batches() == 4);
  CHECK(plan->plan.points.size() > 1);
  CHECK(plan->set_s == power::usual_set_s);
  const auto off = f.begin({"power.slack=off"});
  REQUIRE(off);
  CHECK(*off == nullptr);
}

TEST_CASE("SLJ-2: slack planner: one that goes before its plan is made ends with its thread") {
  const planned_start f;
  power::slack_look look;
  {
    const auto made = f.begin();
    REQUIRE(made);
    look = (*made)->look();
  }
  static_cast<void>(look());  // what it looks at is still there
}

TEST_CASE("SLJ-3: slack planner: a profile that is not there is measured, written and planned by") {
  const planned_start f;
  const auto truth = power::parse_profile(pipeline_profile());
  REQUIRE(truth);
  const auto there = f.begin();
  REQUIRE(there);
  CHECK_FALSE((*there)->profiles());
  for (const bool modelled : {false, true}) {
    const auto file = (f.folder / (modelled ? "modelled.csv" : "measured.csv")).string();
    const auto made = f.begin({"power.profile=" + file});
    REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
    const auto look = (*made)->look();
    const auto order = (*made)->profiles();
    REQUIRE(order);
    CHECK(order->blocking_w == 60);
    CHECK_FALSE(look());
    order->take({*truth, modelled});
    power::planned_slack_ptr plan;
    while (!plan) {  // planning ends
      plan = look();
      std::this_thread::yield();
    }
    REQUIRE(plan->policy);
    CHECK(plan->plan.points.size() > 1);
    CHECK_FALSE(plan->warns);
    CHECK(plan->note.find(file) != std::string::npos);
    const auto text = io::read_file(file, power::clock_profile::most_bytes);
    REQUIRE(text);
    CHECK((text->find("modelled") != std::string::npos) == modelled);
    const auto reread = power::parse_profile(*text);
    REQUIRE(reread);
    CHECK(reread->stages == truth->stages);
    const auto next = f.begin({"power.profile=" + file});
    REQUIRE(next);
    CHECK_FALSE((*next)->profiles());
  }
}

TEST_CASE("SLJ-5: slack planner: what was measured with other micro-batches is not planned by") {
  const planned_start f;
  const auto file = "power.profile=" + (f.folder / "measured.csv").string();
  {
    const auto made = f.begin({file});
    REQUIRE(made);
    (*made)->profiles()->take({*power::parse_profile(pipeline_profile()), false});
    while (!(*made)->look()()) std::this_thread::yield();  // planning ends
  }
  const auto same = f.begin({file, "train.batch=16"});  // twice as many of the same size
  REQUIRE_MESSAGE(same, (same ? "" : render(same.error())));
  CHECK(f.why_not({file, "train.micro_batch=4"}).is(apps::profile_unfit));
  CHECK(f.why_not({file, "train.seq_len=64"}).is(apps::profile_unfit));
  const auto old = f.begin({"train.micro_batch=4"});  // a file that does not say of which it is
  REQUIRE_MESSAGE(old, (old ? "" : render(old.error())));
  CHECK_FALSE((*old)->profiles());
}

TEST_CASE("SLJ-3: slack planner: what is measured and cannot be kept is planned by, and said") {
  const planned_start f;
  std::filesystem::create_directory(f.folder / "gone");
  const auto made = f.begin({"power.profile=" + (f.folder / "gone" / "new.csv").string()});
  REQUIRE(made);
  std::filesystem::remove(f.folder / "gone");
  const auto order = (*made)->profiles();
  REQUIRE(order);
  order->take({*power::parse_profile(pipeline_profile()), false});
  power::planned_slack_ptr plan;
  while (!plan) {  // planning ends
    plan = (*made)->look()();
    std::this_thread::yield();
  }
  CHECK(plan->policy);
  CHECK(plan->warns);
  CHECK_FALSE(plan->note.empty());
}

TEST_CASE("SLJ-3: slack planner: measured rows that no plan can be made of make none") {
  const planned_start f;
  const auto made = f.begin({"power.profile=" + (f.folder / "new.csv").string()});
  REQUIRE(made);
  auto low = *power::parse_profile(pipeline_profile());
  for (auto& stage : low.stages)
    for (auto& rows : stage)
      for (auto& r : rows) r.energy_j = 50 * r.time_s;  // less than what waits draws
  (*made)->profiles()->take({low, false});
  power::planned_slack_ptr plan;
  while (!plan) {  // as soon as that is found
    plan = (*made)->look()();
    std::this_thread::yield();
  }
  CHECK_FALSE(plan->policy);
  CHECK(plan->warns);
  CHECK_FALSE(plan->note.empty());
  CHECK_FALSE(std::filesystem::exists(f.folder / "new.csv"));
  const auto next = f.begin({"power.profile=" + (f.folder / "new.csv").string()});
  REQUIRE(next);  // and measures again
  CHECK((*next)->profiles());
}

TEST_CASE("SLJ-4: slack planner: without power.profile it is in the job's output") {
  const planned_start f;
  const auto output = f.folder / "out";
  std::filesystem::create_directory(output);
  const std::vector<std::string> sets{"power.profile=", "job.output=" + output.string()};
  const auto made = f.begin(sets);
  REQUIRE(made);
  CHECK((*made)->profiles());
  std::ofstream(output / "clocks.csv") << pipeline_profile();
  const auto next = f.begin(sets);
  REQUIRE(next);
  CHECK_FALSE((*next)->profiles());
}

TEST_CASE("SLJ-1: slack planner: a profile that is none, or of another job, is refused at once") {
  const planned_start f;
  CHECK(f.why_not({"power.profile=" + (f.folder / "nowhere" / "new.csv").string()}).code ==
        errc::not_found);
  CHECK(f.why_not({"power.blocking_w=2000"}).is(apps::profile_unfit));
  CHECK(f.why_not({"parallel.pipeline=2", "cluster.workers_per_node=2"}).is(apps::profile_unfit));
  std::ofstream(f.file) << "stage,instruction,frequency,time,energy\n0,forward,1410,x,1\n";
  CHECK(f.why_not({}).is(power::bad_profile));
}

TEST_CASE("SLJ-1: slack planner: a job that is too large to be planned is refused, not measured") {
  const planned_start f;
  const std::vector<std::string> large{"train.batch=4096", "train.micro_batch=2",
                                       "power.profile=" + (f.folder / "new.csv").string()};
  CHECK(f.why_not(large).is(apps::slack_too_large));
}
