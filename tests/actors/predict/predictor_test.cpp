// The predictor between a run and whoever asks it (PRD-5).
#include "actors/predict/predictor.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <caf/send.hpp>

#include "actors/base/defaults.hpp"
#include "actors/capture/recorder.hpp"
#include "gpu/predict/fit.hpp"
#include "gpu/predict/speed_prior.hpp"
#include "io/perf/part_times.hpp"
#include "messages/rejection.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/job_harness.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/predict/fitted_prior.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::predict;
using troupe::test::partner;

namespace {

constexpr uint32_t predictor_epoch = 4;

struct predicted_job : troupe::test::actor_fixture {
  partner run = make_partner("run"), person = make_partner("person");
  predictor_actor target;
  uint64_t step = 0;
  fbs::StepOddity oddity = fbs::StepOddity::none;
  std::string second_node = "b";
  std::stop_source over;
  std::vector<std::string> said;  ///< to a person

  explicit predicted_job(const std::filesystem::path& store = {}, const std::string& named = {})
      : actor_fixture(predictor_epoch) {
    auto job = train::test::planned_job().job;
    job.parallel.data = 2;
    job.predict.store = named;
    is_called(run, "run");
    predictor_options options{job, predictor_epoch, store, over.get_token()};
    options.says = [this](const std::string& text) { said.push_back(text); };
    target = spawn(predictor, std::move(options));
  }
  /// The partner is the actor of this process that bears the path.
  void is_called(const partner& who, const std::string& path) const {
    const auto stats = runtime().registry.add(0);
    stats->set_path(path);
    stats->started(caf::actor_cast<caf::weak_actor_ptr>(who.self()), 0);
  }
  void end() {
    caf::anon_send_exit(target, caf::exit_reason::user_shutdown);
    settle();
  }
  void make_step(double forward_ms) { make_step(forward_ms, run, predictor_epoch); }
  void make_step(double forward_ms, const partner& by, uint32_t epoch) {
    by.tell(target, make_msg<fbs::StepTimes>(context_of(epoch), [&](auto& t) {
              t.step = ++step;
              t.oddity = oddity;
              t.took_ms = 2 * forward_ms;
              t.replicas = 2;
              t.dropped = 5;
              for (uint32_t rank = 0; rank < 2; ++rank) {
                auto& r = *t.ranks.emplace_back(std::make_unique<fbs::RankTimesT>());
                r.rank = rank;
                r.node = rank == 0 ? "a" : second_node;
                r.layers = r.threads = 1;
                auto& p = *r.parts.emplace_back(std::make_unique<fbs::StepPartT>());
                p.kind = "forward";
                p.busy_ms = forward_ms;
                p.work = 16;
              }
            }));
  }
  fbs::PredictorStatusT status() {
    const auto number = person.ask(target, make_msg<fbs::StatusRequest>());
    const auto answer = person.answer_of<fbs::Status>(number);
    REQUIRE(answer);
    auto all = answer->unpack();
    REQUIRE(all.values->predictor);
    return *all.values->predictor;
  }
  result<msg<fbs::Prediction>> ask(uint32_t rank) {
    const auto number =
        person.ask(target, make_msg<fbs::Predict>({}, [&](auto& p) { p.rank = rank; }));
    return person.answer_of<fbs::Prediction>(number);
  }
};

/// A machine that was probed.
msg<fbs::HwProfile> profile_of(const std::string& node, uint32_t rank) {
  return make_msg<fbs::HwProfile>(predicted_job::context_of(predictor_epoch), [&](auto& m) {
    m.node = node;
    m.place = rank;
    m.places = 2;
    m.host = "machine";
    for (const auto* name : {"gemm_gflop_s", "probe_threads", "gemm_bf16_gflop_s"}) {
      auto& f = *m.fields.emplace_back(std::make_unique<fbs::HwFieldT>());
      f.name = name;
      f.number = f.name == "probe_threads" ? 1 : 40;
    }
    auto& r = *m.ranks.emplace_back(std::make_unique<fbs::RankTimesT>());
    r.rank = rank;
    r.layers = r.threads = 1;
    auto& p = *r.parts.emplace_back(std::make_unique<fbs::StepPartT>());
    p.kind = "forward";
    p.busy_ms = 2;
    p.work = 16;
  });
}

}  // namespace

TEST_CASE("PRD-5: the run hears of each step that it was taken, and of none twice") {
  predicted_job f;
  for (uint64_t step = 1; step <= 20; ++step) {
    f.make_step(4);
    CHECK(f.run.take<fbs::StepTimesTaken>()->step() == step);
    CHECK(f.run.idle());
  }
}

TEST_CASE("predictor: it says what a rank's parts and a step take, by how many measurements") {
  predicted_job f;
  CHECK(is_error(f.ask(1), rank_not_seen));
  for (int i = 0; i < 3 + 4 * 8; ++i) f.make_step(4);
  const auto said = f.ask(1);
  REQUIRE(said);
  const auto p = said->unpack();
  CHECK(p.rank == 1);
  CHECK(p.node == "b");
  REQUIRE(p.parts.size() == 1);
  CHECK(p.parts[0]->part == "forward");
  CHECK(p.parts[0]->mean_ms == doctest::Approx(4).epsilon(0.02));
  CHECK(p.parts[0]->least_ms < p.parts[0]->mean_ms);
  CHECK(p.parts[0]->most_ms > p.parts[0]->mean_ms);
  CHECK(p.parts[0]->configurations == 1);
  CHECK(p.parts[0]->outside.empty());
  REQUIRE(p.step);
  CHECK(p.step->part == "step");
  CHECK(p.step->mean_ms == doctest::Approx(8).epsilon(0.02));
  CHECK(p.samples == 4 * 3);
}

TEST_CASE("predictor: it says what an expectation is made of") {
  predicted_job f;
  const auto explain = [&](uint32_t rank, const char* node) {
    const auto number = f.person.ask(f.target, make_msg<fbs::Explain>({}, [&](auto& m) {
                                       m.rank = rank;
                                       m.node = node;
                                     }));
    return f.person.answer_of<fbs::Explanation>(number);
  };
  CHECK(is_error(explain(1, ""), rank_not_seen));
  for (int i = 0; i < 3 + 4 * 8; ++i) f.make_step(4);
  const auto said = explain(1, "");
  REQUIRE(said);
  const auto e = said->unpack();
  CHECK(e.rank == 1);
  CHECK(e.node == "b");
  CHECK(e.samples == 4 * 3);
  REQUIRE(e.parts.size() == 1);
  const auto& p = *e.parts[0];
  CHECK(p.expected->part == "forward");
  CHECK(p.expected->mean_ms == doctest::Approx(4).epsilon(0.02));
  CHECK(p.rule_ms * p.line * p.bend * p.node == doctest::Approx(p.expected->mean_ms));
  CHECK(p.node_samples == 4);
  CHECK(p.noise_percent > 0);
  CHECK(p.probed_ms == 0);
  const auto coordinator = f.make_partner("coordinator");
  f.is_called(coordinator, "coordinator");
  coordinator.tell(f.target, profile_of("b", 1));
  const auto probed = explain(1, "");
  REQUIRE(probed);
  CHECK(probed->unpack().parts.at(0)->probed_ms == doctest::Approx(3));
  CHECK(probed->unpack().parts.at(0)->probed_most_ms == doctest::Approx(8));
  CHECK(probed->unpack().parts.at(0)->expected->mean_ms == doctest::Approx(4).epsilon(0.02));
  const auto elsewhere = explain(1, "c");
  REQUIRE(elsewhere);
  CHECK(elsewhere->unpack().parts[0]->node == 1);
  CHECK(elsewhere->unpack().parts[0]->node_samples == 0);
}

TEST_CASE(
    "PRD-8: step times of another than the run, and of an epoch that is over, teach nothing") {
  predicted_job f;
  const auto stranger = f.make_partner("node");
  const auto before = counts().of(reject::forbidden);
  for (int i = 0; i < 3 + 8; ++i) f.make_step(400, stranger, predictor_epoch);
  CHECK(counts().of(reject::forbidden) == before + 3 + 8);
  CHECK(stranger.idle());
  CHECK(f.status().steps == 0);
  f.make_step(400, stranger, UINT32_MAX);  // nor is it of a later epoch for that
  f.make_step(4);
  CHECK(f.status().steps == 1);
  f.run.take<fbs::StepTimesTaken>();
  f.make_step(4, f.run, predictor_epoch + 1);
  CHECK(f.status().steps == 2);
  f.run.take<fbs::StepTimesTaken>();
  f.make_step(4);
  CHECK(f.status().steps == 2);
  CHECK(f.run.idle());
}

TEST_CASE(
    "PRD-9: what somebody watches a trace of, or did since the step before, teaches nothing") {
  predicted_job f;
  const auto gateway = f.runtime().registry.add(0);
  gateway->set_path("gateway");
  const auto steps_with = [&](uint32_t views, int steps) {
    gateway->publish([&](fbs::StatusValuesT& v) {
      v.gateway = std::make_unique<fbs::GatewayStatusT>();
      v.gateway->views = views;
    });
    for (int i = 0; i < steps; ++i) f.make_step(4);
  };
  steps_with(0, 3 + 1);
  CHECK(f.status().odd_steps == 3);
  steps_with(2, 5);
  CHECK(f.status().odd_steps == 3 + 5);
  steps_with(0, 1);
  CHECK(f.status().odd_steps == 3 + 6);
  steps_with(0, 6);
  CHECK(f.status().odd_steps == 3 + 6);
  CHECK(f.status().samples == 0);
  steps_with(0, 1);
  CHECK(f.status().samples == 3);
}

TEST_CASE("PRD-7: once the head ends nothing is fitted any more, and what was learned is kept") {
  const scratch here;
  const auto file = here.path / "times.jsonl";
  predicted_job f(file);
  for (int i = 0; i < 3 + 7; ++i) f.make_step(4);
  f.over.request_stop();
  for (int i = 0; i < 9; ++i) f.make_step(4);
  CHECK(f.run.take_all<fbs::StepTimesTaken>().size() == 3 + 7 + 9);
  CHECK(f.status().samples == 2 * 3);
  CHECK(f.status().fits == 0);
  f.end();
  CHECK(io::perf::read_part_times(file)->times.size() == 3);
}

TEST_CASE("predictor: of a node's name as much is known as is kept") {
  predicted_job f;
  f.second_node.assign(10'000, 'b');
  for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
  const auto said = f.ask(1);
  REQUIRE(said);
  CHECK(said->unpack().node == std::string(io::perf::part_name_bytes, 'b'));
}

TEST_CASE("predictor: its status says what it was told, what it has learned, and its fits") {
  predicted_job f;
  CHECK(f.status().steps == 0);
  for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
  f.oddity = fbs::StepOddity::validates;
  for (int i = 0; i < 4; ++i) f.make_step(9);
  const auto s = f.status();
  CHECK(s.steps == 3 + 8 + 4);
  CHECK(s.odd_steps == 3 + 4);
  CHECK(s.dropped_steps == 5);
  CHECK(s.samples == 3);
  CHECK(s.refused_samples == 0);
  CHECK(s.parts == 2);
  CHECK(s.configurations == 1);
  CHECK(s.fits == 2);
  CHECK(s.fit_s >= 0);
  CHECK(s.nodes == 2);
  CHECK(s.judged_windows == 0);
  CHECK(s.median_error_percent == -1);
  f.oddity = fbs::StepOddity::none;
  for (int i = 0; i < 8; ++i) f.make_step(5);
  const auto after = f.status();
  CHECK(after.judged_windows == 1);
  CHECK(after.median_error_percent == doctest::Approx(25).epsilon(0.05));
  CHECK(after.worst_error_percent == after.median_error_percent);
}

TEST_CASE("predictor: traces have its fits and answers, and what each node should take and takes") {
  predicted_job f;
  record_reader records(f.runtime().records, false);
  std::vector<trace_record> all;
  const auto seen = [&](record_kind kind, std::string_view name) {
    const auto names = work_names();
    return std::ranges::count_if(all, [&](const trace_record& r) {
      return r.kind == kind && r.type > 0 && names.at(r.type - 1) == name;
    });
  };
  for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
  all = records.read(100'000);
  CHECK(seen(record_kind::work, "predict-fit") == 1);
  CHECK(seen(record_kind::counter, "a seen ms") == 0);
  for (int i = 0; i < 8; ++i) f.make_step(4);
  CHECK(f.ask(1));
  all = records.read(100'000);
  CHECK(seen(record_kind::work, "predict-ask") == 1);
  for (const auto* name : {"a expected ms", "a seen ms", "b expected ms", "b seen ms"})
    CHECK(seen(record_kind::counter, name) == 1);
}

TEST_CASE("predictor: of a job that saves each step it learns what that takes") {
  predicted_job f;
  f.oddity = fbs::StepOddity::beside_save;
  for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
  CHECK(f.status().samples == 3);
  CHECK(f.ask(1));
}

TEST_CASE("predictor: a node is forgotten by an operator's word, in the file as well") {
  const scratch here;
  const auto file = here.path / "times.jsonl";
  {
    predicted_job first(file);
    for (int i = 0; i < 3 + 8; ++i) first.make_step(4);
    first.end();
  }
  predicted_job f(file);
  CHECK(f.status().recalled_samples == 3);
  const auto forget = [&](const char* node) {
    const auto number =
        f.person.ask(f.target, make_msg<fbs::ForgetNode>({}, [&](auto& m) { m.node = node; }));
    return f.person.answer_of<fbs::Ack>(number);
  };
  CHECK(is_error(forget("c"), learned_node_unknown));
  CHECK(is_error(forget(""), learned_node_unknown));  // what no node took is nobody's
  CHECK(forget("b"));
  CHECK(is_error(forget("b"), learned_node_unknown));
  const auto kept = io::perf::read_part_times(file);
  REQUIRE(kept);
  REQUIRE(kept->times.size() == 2);
  for (const auto& t : kept->times) CHECK(t.node != "b");
}

TEST_CASE("PRD-6: what was learned is kept at the end, behind what others keep, and known again") {
  const scratch here;
  const auto file = here.path / "out" / "times.jsonl";
  for (uint64_t start = 0; start < 2; ++start) {
    predicted_job f(file);
    CHECK(f.status().recalled_samples == start * 3);
    CHECK(f.status().store_problem.empty());
    for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
    f.end();
    const auto kept = io::perf::read_part_times(file);
    REQUIRE(kept);
    CHECK(kept->left_out == 0);
    CHECK(kept->times.size() == (start + 1) * 3);
  }
}

TEST_CASE("PRD-7: of models that are due one is fitted a step, at the start as later") {
  const scratch here;
  const auto file = here.path / "times.jsonl";
  {
    predicted_job f(file);
    for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
    CHECK(f.status().parts == 2);
    CHECK(f.status().fits == 1);
    f.make_step(4);
    CHECK(f.status().fits == 2);
    f.make_step(4);
    CHECK(f.status().fits == 2);
    f.end();
  }
  predicted_job next(file);
  CHECK(next.status().recalled_samples == 3);
  for (uint64_t fits = 0; fits <= 2; ++fits) {
    CHECK(next.status().fits == fits);
    next.make_step(4);
  }
  CHECK(next.status().fits == 2);
}

TEST_CASE("PRD-6: while it trains, what was learned is kept ever less often") {
  const scratch here;
  const auto file = here.path / "times.jsonl";
  predicted_job f(file);
  const auto kept = [&] { return io::perf::read_part_times(file)->times.size(); };
  for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
  CHECK(kept() == 0);
  f.pass(defaults::predictor_keeps);
  f.make_step(4);
  CHECK(kept() == 3);
  for (int i = 0; i < 8; ++i) f.make_step(4);
  f.pass(defaults::predictor_keeps);
  f.make_step(4);
  CHECK(kept() == 3);
  f.pass(defaults::predictor_keeps);
  f.make_step(4);
  CHECK(kept() == 6);
}

TEST_CASE("PRD-6: what could not be kept is tried again, and then no problem any more") {
  const scratch here;
  const auto file = here.path / "times.jsonl";
  predicted_job f(file);
  for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
  std::filesystem::create_directory(file);  // nothing is added to a folder
  f.pass(defaults::predictor_keeps);
  f.make_step(4);
  CHECK_FALSE(f.status().store_problem.empty());
  std::filesystem::remove(file);
  f.pass(defaults::predictor_keeps);
  f.make_step(4);
  CHECK(f.status().store_problem.empty());
  CHECK(io::perf::read_part_times(file)->times.size() == 3);
}

TEST_CASE("PRD-6: a file that is none of ours is put aside and named, lines of it are left out") {
  const scratch here;
  const auto file = here.path / "times.jsonl";
  std::ofstream(file) << "my own\nnotes\n";
  {
    predicted_job f(file);
    CHECK(f.status().store_problem.find("times.jsonl.damaged") != std::string::npos);
    CHECK(f.status().recalled_samples == 0);
    for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
    f.end();
  }
  CHECK(std::filesystem::exists(here.path / "times.jsonl.damaged"));
  std::ofstream(file, std::ios::app) << "half a li";
  predicted_job f(file);
  CHECK(f.status().recalled_samples == 3);
  CHECK(f.status().store_problem.find(file.string()) != std::string::npos);
}

TEST_CASE("PRD-6: times of a release that told of other numbers are left out, and that is said") {
  const scratch here;
  const auto file = here.path / "times.jsonl";
  {
    predicted_job f(file);
    for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
    f.end();
  }
  const auto kept = io::perf::read_part_times(file);
  REQUIRE(kept);
  auto older = kept->times;
  for (auto& t : older) t.features.pop_back();
  REQUIRE(io::perf::add_part_times(file, older));
  predicted_job f(file);
  CHECK(f.status().recalled_samples == 3);
  CHECK(f.status().store_problem.find(file.string()) != std::string::npos);
}

TEST_CASE("PRD-6: a file that a person named and that is none of ours stays as it is") {
  const scratch here;
  const auto file = here.path / "run.toml";
  const std::string text = "[job]\nname = \"t\"\n";
  std::ofstream(file) << text;
  predicted_job f(file, file.string());
  CHECK(f.status().store_problem.find(file.string()) != std::string::npos);
  for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
  f.end();
  CHECK(std::filesystem::file_size(file) == text.size());
  CHECK_FALSE(std::filesystem::exists(here.path / "run.toml.damaged"));
}

// -- what machines were probed to do --------------------------------------------------------------

TEST_CASE("predictor: before any step it says what probes let expect, and afterwards what is") {
  predicted_job f;
  auto coordinator = f.make_partner("coordinator");
  f.is_called(coordinator, "coordinator");
  coordinator.tell(f.target, profile_of("b", 1));
  auto said = f.ask(1);
  REQUIRE(said);
  auto p = said->unpack();
  CHECK(p.node == "b");
  REQUIRE(p.parts.size() == 1);
  CHECK(p.parts[0]->by_probes);
  CHECK(p.parts[0]->mean_ms == doctest::Approx(3));
  CHECK(p.parts[0]->most_ms == doctest::Approx(8));
  CHECK(p.samples == 0);
  const auto why = f.person.ask(f.target, make_msg<fbs::Explain>({}, [](auto& m) { m.rank = 1; }));
  CHECK(is_error(f.person.answer_of<fbs::Explanation>(why), rank_not_seen));  // no step was learned
  const auto elsewhere = f.person.ask(
      f.target, make_msg<fbs::Predict>({}, [](auto& m) {
        m.rank = 1;
        m.profile = std::make_unique<fbs::HwProfileT>();
        for (const auto* name : {"gemm_gflop_s", "probe_threads", "gemm_bf16_gflop_s"}) {
          auto& field = *m.profile->fields.emplace_back(std::make_unique<fbs::HwFieldT>());
          field.name = name;
          field.number = field.name == "probe_threads" ? 1 : 10;
        }
      }));
  const auto there = f.person.answer_of<fbs::Prediction>(elsewhere);
  REQUIRE(there);
  REQUIRE(there->unpack().parts.size() == 1);
  CHECK(there->unpack().parts[0]->mean_ms == doctest::Approx(4 * 3));
  for (int i = 0; i < 3 + 4 * 8; ++i) f.make_step(4);
  said = f.ask(1);
  REQUIRE(said);
  p = said->unpack();
  REQUIRE(p.parts.size() == 1);
  CHECK_FALSE(p.parts[0]->by_probes);
  CHECK(p.parts[0]->mean_ms == doctest::Approx(4).epsilon(0.02));
}

namespace {

/// By which a machine's threads are as quick as its clock.
std::shared_ptr<gpu::predict::speed_prior> prior_of_clocks() {
  using enum io::perf::feature_kind;
  io::perf::perf_table t{"fleet",
                         {{"cpus", "cpu", "1", log_number}, {"base_mhz", "cpu", "MHz", log_number}},
                         {"tokens_per_s"},
                         {}};
  for (int i = 0; i < 60; ++i) {
    io::perf::perf_row r;
    r.id = "r" + std::to_string(100 + i);
    r.numbers = {2.0 + i % 30, 2000.0 + 100 * (i * 7 % 20)};
    r.words = {"", ""};
    r.labels = {r.numbers[0] * r.numbers[1]};
    t.rows.push_back(std::move(r));
  }
  return std::make_shared<gpu::predict::speed_prior>(gpu::predict::testing::fitted_prior(t));
}

/// A machine that tells its clock; probed, its rank's forward is a roofline of 2 ms.
msg<fbs::HwProfile> profile_by_clock(const std::string& node, uint32_t rank, double mhz,
                                     bool probed) {
  return make_msg<fbs::HwProfile>(predicted_job::context_of(predictor_epoch), [&](auto& m) {
    m.node = node;
    m.place = rank;
    m.places = 2;
    const auto add = [&](const std::string& name, double number) {
      auto& f = *m.fields.emplace_back(std::make_unique<fbs::HwFieldT>());
      f.name = name;
      f.number = number;
    };
    add("cpus", 4);
    add("base_mhz", mhz);
    auto& r = *m.ranks.emplace_back(std::make_unique<fbs::RankTimesT>());
    r.rank = rank;
    r.layers = r.threads = 1;
    if (!probed) return;
    add("probe_threads", 4);
    add("gemm_gflop_s", 40);
    add("gemm_bf16_gflop_s", 40);
    auto& p = *r.parts.emplace_back(std::make_unique<fbs::StepPartT>());
    p.kind = "forward";
    p.busy_ms = 2;
    p.work = 16;
  });
}

}  // namespace

TEST_CASE("predictor: of a node that was not probed it says what a prior makes of one that was") {
  predicted_job f;
  auto coordinator = f.make_partner("coordinator");
  f.is_called(coordinator, "coordinator");
  auto job = train::test::planned_job().job;
  job.parallel.data = 2;
  job.predict.prior = "fleet.tpm";
  predictor_options options{job, predictor_epoch};
  options.prior = prior_of_clocks();
  f.target = f.spawn(predictor, std::move(options));
  coordinator.tell(f.target, profile_by_clock("a", 0, 3600, true));
  coordinator.tell(f.target, profile_by_clock("b", 1, 2400, false));
  const auto said = f.ask(1);
  REQUIRE(said);
  const auto p = said->unpack();
  CHECK(p.node == "b");
  REQUIRE(p.parts.size() == 1);
  CHECK(p.parts[0]->by_prior);
  CHECK_FALSE(p.parts[0]->by_probes);
  CHECK(p.parts[0]->mean_ms == doctest::Approx(1.5 * 2 * 1.5).epsilon(0.05));
  coordinator.tell(f.target, profile_by_clock("b", 1, 2400, true));  // probes outrank it
  const auto probed = f.ask(1);
  REQUIRE(probed);
  CHECK(probed->unpack().parts.at(0)->by_probes);
  CHECK_FALSE(probed->unpack().parts.at(0)->by_prior);
}

TEST_CASE("PRD-8: a machine's profile counts from the coordinator of its process alone") {
  predicted_job f;
  f.run.tell(f.target, profile_of("b", 1));
  f.person.tell(f.target, profile_of("b", 1));
  CHECK(is_error(f.ask(1), rank_not_seen));
}

namespace {

msg<fbs::HwProfile> machine_of(const std::string& node, const std::string& kind) {
  return make_msg<fbs::HwProfile>(predicted_job::context_of(predictor_epoch), [&](auto& m) {
    m.node = node;
    m.kind = kind;
  });
}

}  // namespace

TEST_CASE("LRN-9: a node that is another machine begins anew, which a person is told once") {
  const scratch here;
  const auto file = here.path / "times.jsonl";
  const auto begin = [](predicted_job& f, const std::string& kind) {
    auto coordinator = f.make_partner("coordinator");
    f.is_called(coordinator, "coordinator");
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const auto* node : {"a", "b"})
        coordinator.tell(f.target, machine_of(node, node[0] == 'a' ? "old" : kind));
    return coordinator;
  };
  {
    predicted_job first(file);
    const auto coordinator = begin(first, "old");
    CHECK(is_error(first.ask(1), rank_not_seen));  // it was not probed
    for (int i = 0; i < 3 + 8; ++i) first.make_step(4);
    first.end();
    CHECK(first.said.empty());
  }
  for (const auto& t : io::perf::read_part_times(file)->times) CHECK(t.machine.kind == "old");
  predicted_job f(file);
  const auto coordinator = begin(f, "new");
  REQUIRE(f.said.size() == 1);
  for (const auto* part : {"node b ", "(new; was old)"})
    CHECK(f.said[0].find(part) != std::string::npos);
  for (int i = 0; i < 3 + 4 * 8; ++i) f.make_step(12);
  CHECK(f.status().suspects == 1);  // of a, which was quicker
  const auto expected = f.ask(1);
  REQUIRE(expected);
  CHECK(expected->unpack().parts.at(0)->mean_ms == doctest::Approx(12).epsilon(0.05));
  f.end();
  size_t renewed = 0;
  for (const auto& t : io::perf::read_part_times(file)->times) renewed += t.machine.kind == "new";
  CHECK(renewed == 1);
}

TEST_CASE("LRN-9, PRD-8: of machines the coordinator of its process alone is heard") {
  const scratch here;
  const auto file = here.path / "times.jsonl";
  predicted_job f(file);
  f.run.tell(f.target, machine_of("b", "new"));
  f.person.tell(f.target, machine_of("b", "new"));
  for (int i = 0; i < 3 + 8; ++i) f.make_step(4);
  f.end();
  for (const auto& t : io::perf::read_part_times(file)->times) CHECK_FALSE(t.machine.is_known());
}
