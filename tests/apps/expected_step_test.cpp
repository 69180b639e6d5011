// How long a step should take: the schedule's time, turns on too few cores, and a better cut.
#include "apps/expected_step.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/counted_expectation.hpp"
#include "apps/kept_expectation.hpp"
#include "apps/past_steps.hpp"
#include "apps/report/report.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "tests/apps/plan_of_text.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using apps::measured_worker;
using apps::pipeline_seconds;
using train::stage_seconds;

namespace {

/// Of four layers over two stages, four micro-batches each.
train::job_plan planned_job(const std::vector<std::string>& sets = {}) {
  return plan_of_text(
      "[cluster]\nnodes = 2\nthreads = 1\n[model]\nlayers = 4\nheads = 4\nhidden = 64\n"
      "vocab = 256\n[data]\npath = \"x.txt\"\n[parallel]\npipeline = 2\n"
      "[train]\nsteps = 100\nbatch = 8\nmicro_batch = 2\nseq_len = 32\n",
      sets);
}

measured_worker worker_of(double flops_s, double updates_s, double spread, int64_t cores) {
  return {{flops_s, updates_s, "a layer", spread}, 1, cores};
}

apps::expected_step expect(const train::job_plan& plan, const measured_worker& worker) {
  return apps::expect_step(plan, train::plan_stages(plan), worker);
}

train::machine roomy_machine() {
  train::machine m;
  m.memory_bytes = uint64_t{64} << 30;
  m.memory_whose = "this machine";
  m.cores = 8;
  return m;
}

}  // namespace

TEST_CASE("expected step: equal stages stand idle as 1F1B says, however many micro-batches") {
  for (const int64_t stages : {1, 2, 5, 300})
    for (const int64_t micro_batches : {1, 2, 8, 1'000, 1'000'000}) {
      CAPTURE(stages);
      CAPTURE(micro_batches);
      const std::vector<stage_seconds> equal(static_cast<size_t>(stages), {1, 2, 0});
      CHECK(pipeline_seconds(equal, micro_batches) ==
            doctest::Approx(3.0 * static_cast<double>(micro_batches + stages - 1)));
    }
}

TEST_CASE("expected step: a pipeline goes at the pace of its slowest stage") {
  const std::vector<stage_seconds> stages{{1, 2, 0}, {2, 4, 0}, {1, 2, 0}};
  for (const int64_t micro_batches : {1, 3, 10, 40'000}) {
    CAPTURE(micro_batches);
    const auto slowest = 6.0 * static_cast<double>(micro_batches);
    CHECK(pipeline_seconds(stages, micro_batches) >= slowest);
    CHECK(pipeline_seconds(stages, micro_batches) <= slowest + 3 + 3);
  }
  CHECK(pipeline_seconds(stages, 1) == 12);
}

TEST_CASE("expected step: work over pace, update behind it, and what follows from that") {
  const auto plan = planned_job();
  const auto stages = train::plan_stages(plan);
  const auto e = expect(plan, worker_of(1e9, 1e6, 1, 8));
  REQUIRE(e.stages.size() == 2);
  for (size_t s = 0; s < 2; ++s) {
    CHECK(4 * (e.stages[s].forward + e.stages[s].backward) ==
          doctest::Approx(stages[s].step_flops / 1e9));
    CHECK(e.stages[s].backward == doctest::Approx(2 * e.stages[s].forward));
    CHECK(e.stages[s].update == doctest::Approx(static_cast<double>(stages[s].parameters) / 1e6));
  }
  CHECK(e.step_s == doctest::Approx(pipeline_seconds(e.stages, 4) +
                                    std::max(e.stages[0].update, e.stages[1].update)));
  CHECK(e.least_s < e.step_s);
  CHECK(e.step_s < e.most_s);
  CHECK(e.tokens_s == doctest::Approx(8 * 32 / e.step_s));
  CHECK(e.run_s == doctest::Approx(100 * e.step_s));
  CHECK(e.idle_share > 0);
  CHECK(e.idle_share < 1);
  // Who keeps no activations makes them again.
  const auto again = expect(planned_job({"model.recompute=true"}), worker_of(1e9, 1e6, 1, 8));
  CHECK(again.stages[0].backward == doctest::Approx(3 * again.stages[0].forward));
  // Where tries varied, steps are as the median, and the quickest says what they hardly fall below.
  const auto varied = expect(plan, worker_of(1e9, 1e6, 1.5, 8));
  CHECK(varied.stages[0].forward == doctest::Approx(1.5 * e.stages[0].forward));
  CHECK(varied.least_s / varied.step_s < e.least_s / e.step_s);
}

TEST_CASE("expected step: ranks without processors of their own take turns") {
  const auto plan = planned_job();
  const auto alone = expect(plan, worker_of(1e9, 1e6, 1, 1));
  double work = 0;
  for (const auto& s : alone.stages) work += 4 * (s.forward + s.backward) + s.update;
  CHECK(alone.step_s == doctest::Approx(work));
  CHECK(alone.step_s > expect(plan, worker_of(1e9, 1e6, 1, 2)).step_s);
}

TEST_CASE("expected step: a cut by hand that is slower is told the better one, others nothing") {
  const auto worker = worker_of(1e9, 1e9, 1, 8);
  const auto better_than = [&](const train::job_plan& plan) {
    return apps::better_cut_of(plan, expect(plan, worker), worker, roomy_machine());
  };
  const auto late = planned_job({"parallel.layers=1,3"});
  const auto better = better_than(late);
  REQUIRE(better);
  CHECK(better->layers == train::stage_layers_text(planned_job()));
  CHECK(better->expected.step_s < expect(late, worker).step_s);
  CHECK_FALSE(better_than(planned_job()));
  CHECK_FALSE(better_than(planned_job({"cluster.nodes=1", "parallel.pipeline=1"})));
  auto small = roomy_machine();
  small.memory_bytes = 1 << 20;
  CHECK_FALSE(apps::better_cut_of(late, expect(late, worker), worker, small));
}

TEST_CASE("expected step: a better cut stands in place of layers, or of their measuring") {
  apps::better_cut better{"1,3", {}};
  better.expected.step_s = 3;
  apps::expected_step now;
  now.step_s = 4;
  CHECK(apps::better_cut_text(planned_job({"parallel.layers=3,1"}), better, now) ==
        "  parallel.layers = \"1,3\" in place of \"3,1\": about 75 % of that\n");
  CHECK(apps::better_cut_text(planned_job({"parallel.placement=measured"}), better, now) ==
        "  parallel.layers = \"1,3\" in place of parallel.placement: about 75 % of that\n");
}

TEST_CASE("expected step: of a large layer a part is measured that is still a model's") {
  train::engine_options o;
  o.model = model_config::of(model_family::llama);
  o.model.layers = 80;
  o.model.hidden = 8192;
  o.model.heads = 64;
  o.model.kv_heads = 8;
  o.model.head_width = 128;
  o.model.ffn = 28672;
  o.model.vocab = 128256;
  o.model.max_positions = 8192;
  o.shape.micro_batch = 4;
  o.shape.seq = 8192;
  const auto part = train::measured_part(o, train::flops_of_try(100e9));
  const auto shape =
      gpu::whole_model(part.model, part.shape.micro_batch, part.shape.seq, gpu::dtype::f32);
  CHECK(gpu::check(part.model, shape));
  CHECK(part.model.hidden == part.model.heads * part.model.head_width);
  CHECK(part.model.matrix_parameters() < 64 << 20);
  CHECK(gpu::layer_flops(part.model, part.shape.seq) * static_cast<double>(shape.tokens()) < 2e10);
  o.model.hidden = o.model.ffn = 64;
  o.model.heads = o.model.kv_heads = 4;
  o.model.head_width = 16;
  o.shape.micro_batch = 2;
  o.shape.seq = 32;
  const auto whole = train::measured_part(o, 12e9);  // a small one is measured as it is
  CHECK(whole.model.hidden == 64);
  CHECK(whole.shape.micro_batch == 2);
  CHECK(whole.shape.seq == 32);
}

TEST_CASE("expected step: of a core so slow that a try would take long less is measured") {
  CHECK(train::flops_of_try(20e9) == train::flops_of_try(100e9));
  CHECK(train::flops_of_try(0.3e9) == 0.6e9);
  CHECK(train::flops_of_try(1e3) > 1e8);  // a pace of nothing is none
  train::engine_options o;
  o.model = planned_job().model;
  o.shape.micro_batch = 64;
  o.shape.seq = 32;
  const auto tokens = [&](double flops) {
    const auto part = train::measured_part(o, flops);
    return part.shape.micro_batch * part.shape.seq;
  };
  const double layer = gpu::layer_flops(o.model, o.shape.seq) * 64 * 32;
  CHECK(tokens(layer) == 64 * 32);
  CHECK(tokens(layer / 4) == 64 * 32 / 4);
}

TEST_CASE("expected step: kept for the job that was planned, and for no other") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const auto job = planned_job().job;
  CHECK_FALSE(apps::kept_expectation(job, store));
  apps::keep_expectation(job, {318, 279, 477}, store);
  auto kept = apps::kept_expectation(job, store);
  REQUIRE(kept);
  CHECK(kept->step == 318);
  CHECK(kept->least == 279);
  CHECK(kept->most == 477);
  CHECK(apps::kept_expectation(planned_job({"train.steps=7", "train.lr=0.1"}).job, store));
  for (const auto* other : {"model.hidden=128", "train.batch=16", "parallel.layers=1,3",
                            "train.seq_len=16", "cluster.threads=2"}) {
    CAPTURE(other);
    CHECK_FALSE(apps::kept_expectation(planned_job({other}).job, store));
  }
  // Plan and start have the same words for one whose layers nodes measure later (RSM-6).
  const auto open = planned_job({"parallel.placement=measured"});
  CHECK(train::recorded_job(open) == open.job);
  CHECK(train::recorded_job(planned_job()).parallel.layers ==
        train::stage_layers_text(planned_job()));
  apps::keep_expectation(train::recorded_job(open), {318, 279, 477}, store);
  CHECK(apps::kept_expectation(open.job, store));
  apps::keep_expectation(job, {-1, 279, 477}, store);
  CHECK_FALSE(apps::kept_expectation(job, store));
}

namespace {

size_t times_in(const std::string& text, const std::string& word) {
  size_t out = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++out;
  return out;
}

apps::past_expectation past_of(io::perf::past_basis basis) {
  apps::past_expectation out;
  out.step.step_s = 0.4, out.step.least_s = 0.3, out.step.most_s = 0.5;
  out.step.basis = basis;
  out.step.runs = 3, out.step.steps = 60;
  return out;
}

}  // namespace

TEST_CASE("CEX-1: what past runs took counts before a layer, which is shown beside it") {
  using enum io::perf::past_basis;
  const auto plan = planned_job();
  const auto worker = worker_of(2e9, 1e6, 1, 8);
  const auto step = expect(plan, worker);
  for (const auto basis : {same_work, other_work}) {
    const apps::known_expectations both{past_of(basis), apps::layer_expectation{step, worker}};
    const auto text = apps::counted_text(plan, both);
    CAPTURE(text);
    CHECK(text.find("expected: 400 ms a step (300 ms to 500 ms), by 60 steps") == 0);
    CHECK(times_in(text, "expected") == 1);
    CHECK(times_in(text, "this counts, as ") == 1);
    CHECK(text.find("\n  beside it, by a layer alone, roughly: ") != text.npos);
    CHECK(text.find("\n    stage 1: forward ") != text.npos);
    CHECK(text.find("\n    by a layer measured just now: ") != text.npos);
    CHECK((text.find("work like it") != text.npos) == (basis == other_work));
    const auto j = apps::counted_json(plan, both);
    CHECK(j.at("counts") == "past");
    CHECK_FALSE(j.at("why").get<std::string>().empty());
    CHECK(j.at("step_s") == 0.4);
    CHECK(j.at("least_s") == 0.3);
    CHECK(j.at("most_s") == 0.5);
    CHECK(j.at("run_s").get<double>() == doctest::Approx(40));
    CHECK(j.at("past").at("runs") == 3);
    CHECK(j.at("layer").at("step_s").get<double>() == doctest::Approx(step.step_s).epsilon(1e-3));
    CHECK(j.at("stages").size() == 2);
  }
  const apps::known_expectations alone{past_of(same_work), {}};
  CHECK(apps::counted_text(plan, alone).find("beside it") == std::string::npos);
  CHECK_FALSE(apps::counted_json(plan, alone).contains("layer"));
  const apps::known_expectations none{{}, apps::layer_expectation{step, worker}};
  const auto text = apps::counted_text(plan, none);
  CHECK(text.find("expected here, roughly: ") == 0);
  CHECK(times_in(text, "this counts, as no run of such work is remembered here\n") == 1);
  const auto j = apps::counted_json(plan, none);
  CHECK(j.at("counts") == "layer");
  CHECK(j.at("step_s").get<double>() == doctest::Approx(step.step_s).epsilon(1e-3));
}

TEST_CASE("CEX-1: a start says what past runs took, else what `plan` said, else nothing") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const auto plan = planned_job();
  const double flops = train::flops_of_step(plan);
  CHECK_FALSE(apps::expected_at_start(plan.job, flops, store));
  apps::keep_expectation(plan.job, {318, 279, 477}, store);
  const auto planned = apps::expected_at_start(plan.job, flops, store);
  REQUIRE(planned);
  CHECK(planned->is.step == 318);
  CHECK(planned->text.find("318 ms a step (279 ms to 477 ms), by a layer that `plan` measured") ==
        0);
  apps::step_times times;
  report::step_report took;
  took.step_ms = 400;
  for (int i = 0; i < 20; ++i) times.hear(took, flops);
  const auto run = times.run_of(plan.job, std::nullopt);
  REQUIRE(run);
  REQUIRE(apps::remember_run(*run, store));
  const auto past = apps::expected_at_start(plan.job, flops, store);
  REQUIRE(past);
  CHECK(past->is.step == doctest::Approx(400));
  CHECK(past->text == apps::past_text(*apps::expect_by_past(plan.job, flops, store)));
}

TEST_CASE("expected step: a summary says what was expected beside what came") {
  report::summary s;
  s.steps = 10;
  s.seconds = 3.01;
  CHECK(report::summary_text(s, {40, 3, false}).find("expected") == std::string::npos);
  s.expected = report::expected_ms{318, 279, 477};
  CHECK(report::summary_text(s, {40, 3, false})
            .find("expected    318 ms a step (279 ms to 477 ms), seen 301 ms\n") !=
        std::string::npos);
  const auto j = nlohmann::json::parse(report::summary_json(s));
  CHECK(j.at("expected_step_ms") == 318);
  CHECK(j.at("seen_step_ms").get<double>() == doctest::Approx(301));
  s.steps = 0;
  CHECK(report::summary_text(s, {40, 3, false}).find("expected") == std::string::npos);
}

TEST_CASE("expected step: programs are told what persons are") {
  const auto plan = planned_job();
  const auto worker = worker_of(2e9, 1e6, 1, 8);
  const auto e = expect(plan, worker);
  const auto j = apps::expected_json(e, worker);
  CHECK(j.at("step_s").get<double>() == doctest::Approx(e.step_s).epsilon(1e-3));
  CHECK(j.at("least_s") < j.at("step_s"));
  CHECK(j.at("step_s") < j.at("most_s"));
  CHECK(j.at("stages").size() == 2);
  CHECK(j.at("measured").at("flops_s") == 2e9);
  const auto text = apps::expected_text(plan, e, worker);
  CHECK(text.back() == '\n');
  CHECK(text.find("stage 1: forward ") != std::string::npos);
}
