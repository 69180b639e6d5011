// A person's own job on virtual time: what is simulated of it, that it repeats itself, and that
// faults without effect are told of.
#include "actors/sim/persons_job.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/sim/named_faults.hpp"
#include "actors/sim/swapped_job.hpp"
#include "actors/train/memory_estimate.hpp"
#include "io/config/properties.hpp"
#include "io/file.hpp"
#include "messages/message_list.hpp"
#include "tests/io/scratch.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

/// A job of two nodes and a spare, of names of its own: two stages of two replicas.
constexpr const char* text = R"(
[model]
layers = 4
heads = 4
hidden = 64
[data]
path = "text"
[train]
steps = 8
batch = 8
micro_batch = 2
seq_len = 64
[cluster]
workers_per_node = 2
threads = 1
[[cluster.node]]
name = "alpha"
[[cluster.node]]
name = "beta"
[[cluster.node]]
name = "gamma"
spare = true
[parallel]
pipeline = 2
[checkpoint]
every = 3
)";

/// A worker whose steps of that job take some tenths of a second.
constexpr worker_pace slow_pace{1e9, 1e6, 1e7};

class file_job {
 public:
  explicit file_job(std::vector<std::string> sets = {}) {
    REQUIRE(io::write_atomic(here_ / "run.toml", text));
    REQUIRE(io::write_atomic(here_ / "text", std::string(4096, 'a')));
    sets.push_back(fmt::format("data.path=\"{}\"", (here_ / "text").string()));
    auto read = config::load({(here_ / "run.toml").string(), {}, sets});
    REQUIRE_MESSAGE(read, (read ? "" : read.error().message));
    loaded = std::move(*read);
    auto made = train::make_plan(loaded.value);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    plan = std::move(*made);
  }
  simulation_options options(int64_t steps = 0, const worker_pace& pace = slow_pace) const {
    auto o = options_of(plan, pace, steps);
    REQUIRE(o);
    return *o;
  }

  config::loaded loaded;
  train::job_plan plan;

 private:
  scratch here_;
};

simulation_outcome run(const simulation_options& o) {
  auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
  return std::move(*done);
}

fault named(const std::string& word) {
  rng chance(1);
  auto f = parse_fault(word, chance);
  REQUIRE_MESSAGE(f, (f ? "" : f.error().message));
  return *f;
}

/// Why a fault of these options has no effect; empty: it has.
std::string why_missed(simulation_options o, const std::string& word) {
  o.faults = {named(word)};
  const auto done = run(o);
  if (done.missed.empty()) return {};
  CHECK(done.missed.size() == 1);
  CHECK(done.missed.front().what.starts_with(word.substr(0, word.find('@'))));
  CHECK(!done.missed.front().hint.empty());
  return done.missed.front().why;
}

errc code_of(const file_job& job, const std::string& word) {
  rng chance(1);
  auto f = parse_fault(word, chance);
  if (!f) return f.error().code;
  const auto simulated = simulated_job(job.options());
  REQUIRE(simulated);
  const auto fits = check_fault(*f, *simulated);
  return fits ? errc::none : fits.error().code;
}

}  // namespace

TEST_CASE("persons job: the same file and seed give the same events, and all its steps") {
  const file_job job;
  auto o = job.options();
  o.faults = {named("crash_node:beta@1.5"), named("slow_device:0@0.5+1")};
  const auto first = run(o), again = run(o);
  CHECK(first.ends == std::vector<std::string>{"success"});
  CHECK(first.last_step == 8);
  CHECK(first.steps >= 8);
  CHECK(first.losses.size() == first.steps);
  CHECK(first.missed.empty());
  CHECK(first.fingerprint == again.fingerprint);
  CHECK(first.counts.events == again.counts.events);
  CHECK(first.virtual_ns == again.virtual_ns);
  REQUIRE(!first.recoveries.empty());
  CHECK(first.recoveries.front().node == "beta");
  o.seed = 2;
  CHECK(run(o).fingerprint != first.fingerprint);
}

TEST_CASE("persons job: a predictor is beside its head, unless it wants none") {
  for (const bool wanted : {true, false}) {
    auto o = file_job({wanted ? "predict.enabled=true" : "predict.enabled=false"}).options();
    size_t told = 0;
    o.sees = [&](const any_msg& m, int64_t) {
      told += m.type() == message_traits<fbs::StepTimesTaken>::id;
    };
    CHECK(run(o).ends == std::vector<std::string>{"success"});
    CHECK((told > 0) == wanted);
  }
}

TEST_CASE("persons job: its nodes, layout and checkpoints are the file's") {
  const file_job job;
  const auto simulated = simulated_job(job.options());
  REQUIRE(simulated);
  std::vector<std::string> names;
  for (const auto& n : simulated->cluster.node) names.push_back(n.name);
  CHECK(names == std::vector<std::string>{"alpha", "beta", "gamma"});
  CHECK(simulated->grid() == job.plan.job.grid());
  CHECK(simulated->micro_batches() == job.plan.job.micro_batches());
  CHECK(simulated->recovery == job.plan.job.recovery);
  CHECK(simulated->health == job.plan.job.health);
  CHECK(run(job.options()).checkpoints == 3);  // of steps 3, 6 and 8
  CHECK(run(file_job({"checkpoint.every=0"}).options()).checkpoints == 1);
  CHECK(run(job.options(4)).last_step == 4);
  CHECK(file_job({"train.steps=5000"}).options().steps == usual_steps);
}

TEST_CASE("PJB-2: persons job: a stage takes as long as its planned work at the pace") {
  const file_job job;
  const auto stages = train::plan_stages(job.plan);
  const auto o = job.options();
  REQUIRE(o.times.stages.size() == stages.size());
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto& t = o.times.stages[i];
    const auto planned_s = stages[i].step_flops / slow_pace.flops_s;
    const auto steps_ns = (t.forward_ns + t.backward_ns) * job.plan.micro_batches;
    CHECK(static_cast<double>(steps_ns) / 1e9 == doctest::Approx(planned_s).epsilon(1e-6));
  }
  auto half = slow_pace;
  half.flops_s /= 2;
  CHECK(job.options(0, half).times.stages[0].forward_ns ==
        doctest::Approx(2 * o.times.stages[0].forward_ns));
  CHECK(run(job.options(0, half)).virtual_ns > run(o).virtual_ns);
  const file_job again({"model.recompute=true"});
  CHECK(again.options().times.stages[0].backward_ns > o.times.stages[0].backward_ns);
}

TEST_CASE("persons job: one whose steps take a year of virtual time is refused before it begins") {
  const file_job job;
  const double step_s = static_cast<double>(job.options(1).work_ns) / 20e9;  // times_planned
  constexpr double year_s = 365.0 * 24 * 3600;
  const auto most = static_cast<int64_t>(year_s / step_s);
  const auto fits = options_of(job.plan, slow_pace, most / 2);
  REQUIRE(fits);
  CHECK(static_cast<double>(fits->work_ns) ==
        doctest::Approx(20e9 * step_s * static_cast<double>(most / 2)));
  for (const auto& pace : {worker_pace{1e-3, 1e6, 1e7}, worker_pace{1e9, 1e-9, 1e7},
                           worker_pace{1e9, 1e6, 1e-300}, worker_pace{1e-300, 1e-300, 1e-300}}) {
    const auto refused = options_of(job.plan, pace, 100'000);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::usage);
    CHECK(!refused.error().hint.empty());
  }
  const auto refused = options_of(job.plan, slow_pace, most * 2);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::usage);
}

TEST_CASE("persons job: one that its own settings fail ends so, which is no violation") {
  const file_job job({"timeouts.operation_s=1", "timeouts.step_s=1", "recovery.enabled=false"});
  const auto done = run(job.options(0, {1e6, 1e6, 1e7}));
  REQUIRE(done.ends.size() == 1);
  CHECK(done.ends.front() != "success");
}

TEST_CASE("PJB-1: persons job: each key is simulated or said not to be, with the reason") {
  for (const auto& p : config::properties()) {
    CAPTURE(p.key);
    CHECK(why_left_out(p.key) != why_left_out("none.such"));
  }
  const auto left = not_simulated(file_job({"swap.dir=/tmp", "train.lr=0.1", "train.clip_norm=0.5",
                                            "predict.store=times.jsonl"})
                                      .loaded);
  const auto told = [&](const std::string& key) {
    return std::any_of(left.begin(), left.end(), [&](const left_out& l) {
      return !l.why.empty() && std::find(l.keys.begin(), l.keys.end(), key) != l.keys.end();
    });
  };
  for (const auto* key : {"data.path", "cluster.threads", "train.lr", "predict.store"}) {
    CAPTURE(key);
    CHECK(told(key));
  }
  for (const auto* key : {"model.layers", "train.steps", "parallel.pipeline", "checkpoint.every",
                          "swap.dir", "train.clip_norm", "data.tokenizer"})  // the last: not set
    CHECK(!told(key));
  const auto in_memory = not_simulated(file_job({"train.clip_norm=0.5"}).loaded);
  CHECK(std::any_of(in_memory.begin(), in_memory.end(), [](const left_out& l) {
    return std::find(l.keys.begin(), l.keys.end(), "train.clip_norm") != l.keys.end();
  }));
}

TEST_CASE("SWJ-1: persons job: one that swaps does so, and a slower drive makes its steps longer") {
  const auto swapped = [](std::string rates) {
    return file_job({"model.layers=8", "parallel.pipeline=1", "swap.dir=/drive",
                     "swap.host_bytes=1", std::move(rates)});
  };
  const auto fast = swapped("swap.rates.read_bytes_s=4000000000").options();
  const auto slow = swapped("swap.rates.read_bytes_s=2000000").options();
  CHECK(fast.swap.layers == 8);
  CHECK(fast.swap.memory == 0);
  CHECK(fast.swap.read_bytes_per_s < 4e9);  // the simulated state is smaller than the job's
  CHECK(fast.swap.read_bytes_per_s == doctest::Approx(2000 * slow.swap.read_bytes_per_s));
  CHECK(fast.swap.write_bytes_per_s == slow.swap.write_bytes_per_s);
  const auto quick = run(fast), late = run(slow), again = run(slow);
  for (const auto* done : {&quick, &late}) {
    CHECK(done->last_step == 8);
    CHECK(done->swaps.operations > 0);
    CHECK(done->ends == std::vector<std::string>{"success"});
  }
  CHECK(late.virtual_ns > quick.virtual_ns);
  CHECK(late.fingerprint == again.fingerprint);
  const file_job unchecked({"model.layers=8", "parallel.pipeline=1", "swap.dir=/drive",
                            "swap.host_bytes=1", "health.recheck_every=0",
                            "swap.rates.read_bytes_s=4000000000"});
  CHECK(run(unchecked.options()).swaps.operations == quick.swaps.operations);
  const auto all = file_job({"model.layers=8", "parallel.pipeline=1", "swap.dir=/drive",
                             "swap.host_bytes=1000000000000"});
  CHECK(all.options().swap.memory == 1);
}

TEST_CASE(
    "SWJ-1 SWJ-2: persons job: stages that swap are cut as planned, and move as much as theirs") {
  const auto piped = [](std::vector<std::string> sets, const std::string& read_bytes_s) {
    sets.insert(sets.end(), {"model.layers=16", "model.vocab=1000", "swap.dir=/drive",
                             "swap.host_bytes=1", "swap.rates.read_bytes_s=" + read_bytes_s});
    return file_job(std::move(sets));
  };
  const auto layers_of = [](const train::job_plan& plan) {
    std::vector<int> out;
    for (const auto& rank : plan.ranks)
      if (rank.at.place().data == 0)
        out.push_back(static_cast<int>(rank.layers.last - rank.layers.first));
    return out;
  };
  const std::vector<std::string> cut{"parallel.layers=6,10"}, open;
  for (const auto& sets : {cut, open}) {
    const auto job = piped(sets, "4000000000");
    const auto o = job.options();
    CHECK(o.swap.stage_layers == layers_of(job.plan));
    const auto simulated = simulated_job(o);
    REQUIRE(simulated);
    const auto plan = train::make_plan(*simulated);
    REQUIRE(plan);
    CHECK(layers_of(*plan) == layers_of(job.plan));
    const auto small = state_parameters(*plan), whole = state_parameters(job.plan);
    REQUIRE(small.size() == 2);
    for (size_t i = 0; i < small.size(); ++i)
      CHECK(small[i] * o.swap.stage_bytes.at(i) / o.swap.read_bytes_per_s ==
            doctest::Approx(whole[i] / 4e9));
  }
  // Tables are another part of a stage than they are in the job.
  CHECK(piped(cut, "4000000000").options().swap.stage_bytes[0] > 1.01);
  const auto quick = run(piped(cut, "4000000000").options());
  const auto late = run(piped(cut, "5000000").options());
  for (const auto* done : {&quick, &late}) {
    CHECK(done->last_step == 8);
    CHECK(done->swaps.operations > 0);
    CHECK(done->ends == std::vector<std::string>{"success"});
  }
  CHECK(late.virtual_ns > quick.virtual_ns);
  CHECK(run(piped(cut, "5000000").options()).fingerprint == late.fingerprint);
}

TEST_CASE(
    "persons job: several heads stand by for each other, without what they are not simulated "
    "with") {
  const std::string heads =
      R"(cluster.heads=["127.0.0.1:29401","127.0.0.1:29402","127.0.0.1:29403"])";
  const file_job job({heads, "checkpoint.second.dir=/far", "train.steps=60"});
  auto o = job.options();
  CHECK(o.heads == 3);
  CHECK_FALSE(o.second);
  CHECK(run(o).last_step == 60);
  rng lot(mix(7));
  o.faults = draw_faults(lot, {fault_kind::crash_head}, 2, 5'000'000'000);
  const auto done = run(o);
  CHECK(done.last_step == 60);
  CHECK(done.takeovers > 0);
  const auto left = not_simulated(job.loaded);
  CHECK(std::any_of(left.begin(), left.end(), [](const left_out& l) {
    return l.keys == std::vector<std::string>{"checkpoint.second.dir"};
  }));
}

TEST_CASE("PJB-2: a pipeline that is cut by hand is simulated as it is cut") {
  const file_job even({"parallel.layers=2,2"}), late({"parallel.layers=1,3"});
  const auto first = [](const file_job& job) {
    return job.options().times.stages.at(0).forward_ns;
  };
  CHECK(2 * first(late) <= first(even) + 2);
  CHECK(run(late.options()).last_step == 8);
}

TEST_CASE("FRC-1: faults without effect are told of by name") {
  const auto o = file_job().options();
  CHECK(why_missed(o, "crash_node:beta@1.5").empty());
  CHECK(!why_missed(o, "crash_node:gamma@1.5").empty());  // the spare
  CHECK(!why_missed(o, "save_now@5000").empty());
  CHECK(!why_missed(o, "kill_actor:stage/0@0").empty());  // nothing has started
  CHECK(!why_missed(o, "freeze_head@1.5+1").empty());     // of several heads
  auto twice = o;
  twice.faults = {named("tier_out:1@1+60"), named("tier_out:1@2+1")};
  const auto done = run(twice);
  CHECK(done.faults.size() == 1);
  REQUIRE(done.missed.size() == 1);
  CHECK(done.missed.front().at_s == doctest::Approx(2));
}

TEST_CASE("named faults: spelled they are the same word again, to the nanosecond") {
  for (const auto* word :
       {"crash_node@0", "crash_node:node1@12.5", "slow_device:3@1.000000001+1000000",
        "save_now@1234567.123456789", "pause_run@999999999.999999999+0.000000001",
        "tier_out:2@1000000000+1000000000"}) {
    CAPTURE(word);
    const auto f = named(word), again = named(spelled(f));
    CHECK(spelled(f) == word);
    CHECK(again.at_ns == f.at_ns);
    CHECK(again.lasts_ns == f.lasts_ns);
  }
  CHECK(named("save_now@999999999.999999999").at_ns == 999'999'999'999'999'999);
  CHECK(spelled(named("slow_device@1e3")) == "slow_device@1000+5");
}

TEST_CASE("named faults: whom the job does not have is an error before it begins") {
  const file_job job;
  for (const auto* sound : {"crash_node:alpha@1", "slow_device:3@1+2", "kill_actor:worker/3@1",
                            "kill_actor:node/beta@1", "kill_actor:run@1", "tier_out:1@0+1",
                            "partition@1+2", "crash_node@1", "slow_section:alpha/update@1",
                            "slow_section:beta@1+2", "slow_all@1+2", "decay:beta@1", "spikes@1"}) {
    CAPTURE(sound);
    CHECK(code_of(job, sound) == errc::none);
    CHECK(spelled(named(spelled(named(sound)))) == spelled(named(sound)));
  }
  for (const auto* bad : {"crash_node:delta@1",
                          "slow_device:4@1",
                          "slow_section:alpha/norm@1",
                          "slow_section:delta/update@1",
                          "slow_all:alpha@1",
                          "decay:alpha/update@1",
                          "slow_device:x@1",
                          "kill_actor:worker/4@1",
                          "kill_actor:node/delta@1",
                          "kill_actor:nobody@1",
                          "tier_out:2@1",
                          "slow_disk@1",
                          "meter_silent@1",
                          "lose_governor@1+5",
                          "freeze_head@1",
                          "second_launcher@1",
                          "crash_nod@1",
                          "crash_node:alpha",
                          "crash_node:@1",
                          "save_now:alpha@1",
                          "crash_node@-1",
                          "crash_node@x",
                          "crash_node@1+5",
                          "slow_device@1+x",
                          "crash_node@1e300"}) {
    CAPTURE(bad);
    CHECK(code_of(job, bad) == errc::usage);
  }
}

TEST_CASE("persons job: one that takes slack does so by its simulated devices, or says why not") {
  const std::vector<std::string> slack{"power.slack=plan", "power.blocking_w=84",
                                       "power.control=[\"nvml_clocks\"]"};
  const auto with = [&](const std::string& more) {
    auto sets = slack;
    if (!more.empty()) sets.push_back(more);
    return file_job(sets);
  };
  const auto is_left_out = [](const file_job& job) {
    const auto left = not_simulated(job.loaded);
    return std::any_of(left.begin(), left.end(), [](const left_out& l) {
      return std::find(l.keys.begin(), l.keys.end(), "power.slack") != l.keys.end();
    });
  };
  CHECK(!file_job().options().slack);
  const auto measures = with("");
  CHECK(measures.options().slack);
  CHECK(measures.options().slack_by == slack_from::measured);
  CHECK(!is_left_out(measures));
  CHECK(with("power.profile=clocks.csv").options().slack_by == slack_from::profile);
  const auto large = with("train.batch=2048");
  CHECK(!large.options().slack);
  CHECK(is_left_out(large));
}
