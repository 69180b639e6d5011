// The run between scripted stages, loaders, committer, replicator, reporter and coordinator, for
// tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/train/addresses.hpp"
#include "actors/train/run.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/job_harness.hpp"

namespace troupe::train::test {

using troupe::test::partner;

inline constexpr uint32_t run_epoch = 7;
inline constexpr const char* two_tiers = "second.dir = \"/second\"\n";

struct scripted_run_options {
  std::string checkpoint = {}, train = {};
  config::launch_mode launch = config::launch_mode::local;
  std::optional<checkpoint::resume_point> resume = {};
  int64_t step_s = 600;
  bool recovers = false;
  bool journal = false;
  std::optional<job_memory> memory = {};
  std::vector<config::drill_spec> drills = {};
  double budget_w = 0;
  std::string power_parent = {};
  bool predictor = false;
  int64_t steps = 4, checkpoint_every = 2;
  bool replicas_swap = false;  ///< its two ranks are replicas of one stage
  bool consumes = false;       ///< they are two stages that may take a checkpoint's files
  uint64_t first_launch = 0;   ///< of a head before
  bool slack = false;          ///< the job takes it
};

/// Two ranks, one behind the other, each on a node of its own with a loader.
inline job_plan plan_of_two(const scripted_run_options& o) {
  auto plan = planned_job(o.checkpoint, o.train);
  plan.job.parallel = {1, 2, config::pipeline_schedule::one_f_one_b, ""};
  plan.job.cluster.launch = o.launch;
  plan.job.cluster.nodes = 2;
  plan.job.cluster.node = {{"a", "localhost", 1}, {"b", "localhost", 1}};
  plan.job.model.layers = 5;
  plan.job.timeouts.step_s = o.step_s;
  plan.job.recovery.enabled = o.recovers;
  plan.job.train.steps = o.steps;
  plan.job.checkpoint.every = o.checkpoint_every;
  plan.job.inject = o.drills;
  plan.job.power.budget_w = o.budget_w;
  plan.job.power.parent = o.power_parent;
  if (o.slack) plan.job.power.slack = config::slack_source::plan;
  plan.model.vocab = 300;
  const auto grid = plan.job.grid();
  plan.ranks = {{{grid, 0}, 0, {0, 3}}, {{grid, 1}, 1, {3, 5}}};
  if (o.consumes) {
    plan.job.swap.dir = {"/swap"};
    plan.job.swap.consume = true;
  }
  if (!o.replicas_swap) return plan;
  plan.job.parallel = {2, 1, config::pipeline_schedule::one_f_one_b, ""};
  plan.job.swap.dir = {"/swap"};
  const auto replicas = plan.job.grid();
  plan.ranks = {{{replicas, 0}, 0, {0, 5}}, {{replicas, 1}, 1, {0, 5}}};
  return plan;
}

struct scripted_run : troupe::test::actor_fixture {
  partner committer = make_partner("committer"), replicator = make_partner("replicator"),
          reporter = make_partner("reporter"), coordinator = make_partner("coordinator"),
          person = make_partner("person"), journal = make_partner("journal"),
          pacer = make_partner("pacer"), predictor = make_partner("predictor"),
          monitor = make_partner("monitor");
  std::vector<partner> stages{make_partner("stage/0"), make_partner("stage/1")};
  std::vector<partner> loaders{make_partner("loader/0"), make_partner("loader/1")};
  run_actor run;
  bool answers_brakes = true;  ///< stages do, as they are admitted

  explicit scripted_run(const scripted_run_options& o = {}) : actor_fixture(run_epoch) {
    spawn_record options{run_epoch};
    options.plan = plan_of_two(o);
    options.resume = o.resume;
    options.launch = 77;
    options.first_launch = o.first_launch;
    options.memory = o.memory;
    if (o.journal) options.journal = journal.as<journal_actor>();
    options.committer = committer.as<committer_actor>();
    if (!options.plan.job.checkpoint.second.dir.empty())
      options.replicator = replicator.as<replicator_actor>();
    options.pacer = pacer.as<pacer_actor>();
    if (o.slack) options.monitor = monitor.as<monitor_actor>();
    if (o.predictor) options.predictor = predictor.as<predictor_actor>();
    options.reporter = reporter.as<reporter_actor>();
    options.coordinator = coordinator.as<coordinator_actor>();
    run = spawn(train::run, std::move(options));
  }

  // -- the coordinator --

  static fbs::ClusterReadyT crew() {
    fbs::ClusterReadyT r;
    r.devices = {"cuda:0", "cuda:1"};
    r.shared_devices = true;
    for (uint32_t i = 0; i < 2; ++i) {
      auto& n = *r.nodes.emplace_back(std::make_unique<fbs::ReadyNodeT>());
      n.node = i == 0 ? "a" : "b";
      n.host = fmt::format("host{}", i);
      n.threads = 3 + i;
      n.loader_ranks = {i};
    }
    return r;
  }
  std::vector<caf::strong_actor_ptr> crew_handles() const {
    return {stages[0].self(), stages[1].self(), loaders[0].self(), loaders[1].self()};
  }
  void admit(const fbs::ClusterReadyT& r, const std::vector<caf::strong_actor_ptr>& handles,
             uint32_t epoch = run_epoch) {
    coordinator.tell(run, make_msg<fbs::ClusterReady>(context_of(epoch), r), handles);
    if (answers_brakes) hear_brakes();
  }
  /// What stages are told of the brake since this was asked last, which they answer: "0 on".
  std::vector<std::string> hear_brakes() {
    std::vector<std::string> out;
    for (size_t i = 0; i < stages.size(); ++i)
      for (const auto& asked : stages[i].take_all<fbs::Brake>()) {
        out.push_back(fmt::format("{} {}", i, asked->on() ? "on" : "off"));
        asked.answer<fbs::Ack>();
      }
    return out;
  }
  void admit() { admit(crew(), crew_handles()); }

  void lose(const char* node, uint32_t epoch = run_epoch) {
    coordinator.tell(run, make_msg<fbs::NodeLost>(context_of(epoch), [&](auto& l) {
                       l.node = node;
                       l.how = "is gone";
                     }));
  }
  void stop(bool save, uint32_t epoch = run_epoch) {
    coordinator.tell(run, make_msg<fbs::StopTraining>(context_of(epoch), [&](auto& s) {
                       s.reason = "enough";
                       s.save = save;
                     }));
  }

  /// The only word of the end so far.
  fbs::RunEndedT ended() {
    const auto m = coordinator.take<fbs::RunEnded>();
    CHECK(coordinator.idle());
    CHECK(m.m.epoch() == run_epoch);
    return m.m.unpack();
  }

  // -- the start --

  /// The partner that was asked last in a phase, with those before it answered: all but the last
  /// in a phase answer where `all` is not set.
  partner pass_phase(start_phase phase, bool all = true) {
    const auto last_loader = all ? 2u : 1u, last_stage = last_loader;
    switch (phase) {
      case start_phase::open_folder:
        if (all) give_folder(committer.take<fbs::OpenFolder>(), "/first");
        return committer;
      case start_phase::open_data:
        for (size_t i = 0; i < last_loader; ++i)
          loaders[i].take<fbs::OpenLoader>().answer<fbs::LoaderReady>(
              [&](auto& r) { r = data_of(i); });
        return loaders[1];
      case start_phase::build_stages:
        for (size_t i = 0; i < last_stage; ++i)
          stages[i].take<fbs::BuildStage>().answer<fbs::StageReady>(
              [&](auto& r) { r.bytes = (3 + i) << 20; });
        return stages[1];
      case start_phase::attach_loaders:
        return acknowledge<fbs::AttachLoader, fbs::Ack>(last_stage);
      case start_phase::introduce_stages:
        return acknowledge<fbs::Neighbours, fbs::Ack>(last_stage);
      case start_phase::open_data_plane:
        for (size_t i = 0; i < last_stage; ++i)
          stages[i].take<fbs::OpenDataPlane>().answer<fbs::DataPlaneOffer>(
              [&](auto& o) { offer(o, i); });
        return stages[1];
      case start_phase::connect_data_plane:
        return acknowledge<fbs::DataPlaneTable, fbs::DataPlaneReady>(last_stage);
      case start_phase::load_weights:
        return acknowledge<fbs::LoadCheckpoint, fbs::Loaded>(last_stage);
      case start_phase::find_copies:
        return acknowledge<fbs::FindCopies, fbs::CopiesFound>(last_stage);
      case start_phase::choose_checkpoint:
        if (all) committer.take<fbs::ChooseCheckpoint>().answer<fbs::CheckpointChosen>();
        return committer;
    }
    return {};
  }
  /// The first n stages answer.
  template <class Question, class Answer>
  partner acknowledge(size_t n) {
    for (size_t i = 0; i < n; ++i) stages[i].take<Question>().template answer<Answer>();
    return stages[1];
  }
  /// To the first step.
  void start() {
    admit();
    for (int p = 0; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
      pass_phase(static_cast<start_phase>(p));
  }

  static fbs::LoaderReadyT data_of(size_t loader) {
    fbs::LoaderReadyT r;
    r.tokens = 1000;
    r.train_windows = 100;
    r.validation_windows = 3;
    r.shared_memory = fmt::format("/memory{}", loader);
    r.slot_bytes = 64 + loader;
    r.slots = static_cast<uint32_t>(4 + loader);
    r.rows = static_cast<uint32_t>(6 + loader);
    r.data_ranks = {0};
    return r;
  }
  static void offer(fbs::DataPlaneOfferT& o, size_t rank) {
    o.rank = static_cast<uint32_t>(rank);
    auto& g = *o.groups.emplace_back(std::make_unique<fbs::GroupOfferT>());
    g.name = "pipe/0";
    g.rank = o.rank;
    g.size = 2;
    g.addresses = std::make_unique<fbs::AddressesT>();
    for (size_t to = 0; to < 2; ++to)
      add_address(*g.addresses, fmt::format("from {} to {}", rank, to));
  }
  template <class T>
  static void give_folder(const troupe::test::told<T>& asked, const std::string& folder) {
    asked.template answer<fbs::CheckpointFolder>([&](auto& f) { f.directory = folder; });
  }

  // -- steps and checkpoints --

  static void end_step(const troupe::test::told<fbs::RunStep>& asked, size_t rank) {
    asked.answer<fbs::StepDone>([&](auto& d) {
      d.step = asked->step();
      d.rank = static_cast<uint32_t>(rank);
      d.loss_sum = rank == 1 ? 12 : 0;
      d.target_count = rank == 1 ? 4 : 0;
      d.grad_norm = 0.5;
      const auto waited_ms = 2 + static_cast<double>(rank);
      std::vector<step_part> parts{{pipeline_op::forward, 10 * waited_ms, 0, 8},
                                   {pipeline_op::await_copies, 0, waited_ms, 0}};
      if (rank == 0)
        parts.push_back({pipeline_op::send_activation, 4, 0, 100});
      else  // which was there 5 ms earlier
        parts.push_back({pipeline_op::receive_activation, 9, 0, 100});
      d.parts = to_message(parts);
    });
  }
  void step() {
    for (size_t i = 0; i < 2; ++i) end_step(stages[i].take<fbs::RunStep>(), i);
  }
  static void vote(const troupe::test::told<fbs::SaveCheckpoint>& asked, size_t rank) {
    asked.answer<fbs::Saved>([&](auto& s) {
      s.step = asked->step();
      s.rank = static_cast<uint32_t>(rank);
      s.bytes = 100 + rank;
      s.stream_bytes = 50 + rank;
      s.footer_crc32c = static_cast<uint32_t>(9 + rank);
      s.slot_digest = 90 + rank;
    });
  }
  /// Both ranks have written; the last one's vote comes first.
  void vote() {
    for (const size_t i : {1, 0}) {
      const auto asked = stages[i].take_all<fbs::SaveCheckpoint>();
      REQUIRE(asked.size() == 1);
      vote(asked[0], i);
    }
  }
  /// Two steps more, behind which both ranks have written their shards of this one.
  void save_step(uint64_t at) {
    step();
    step();
    vote();
    CHECK(std::ranges::count(status().values->run->saving, at) == 1);
  }
  void commit(uint64_t step, const std::string& tier = "/first") {
    vote();
    const auto order = committer.take<fbs::CommitCheckpoint>();
    CHECK(order->step() == step);
    give_folder(order, folder_of(step, tier));
  }
  /// Steps 1 to n; checkpoints that are due are committed.
  void train(uint64_t n) {
    for (uint64_t s = 1; s <= n; ++s) {
      step();
      if (s % 2 == 0) commit(s);
    }
  }

  /// Both ranks have validated: the loss is 3.
  void validate() {
    for (const auto& stage : stages)
      stage.take<fbs::Validate>().answer<fbs::ValidationDone>([](auto& d) {
        d.loss_sum = 6;
        d.target_count = 2;
      });
  }

  // -- persons --

  template <class T, class Fill>
  uint64_t ask(Fill fill, uint32_t epoch = 0) {
    return person.ask(run, make_msg<T>(context_of(epoch), fill));
  }
  template <class T>
  uint64_t ask() {
    return ask<T>([](auto&) {});
  }
  /// The text of an answer, or "refused: ...".
  std::string answer_of(uint64_t request) const {
    const auto a = person.answer_of<fbs::Ack>(request);
    return a ? (*a)->text()->str() : "refused: " + a.error().message;
  }
  std::vector<std::string> warnings() {
    std::vector<std::string> out;
    for (const auto& n : reporter.take_all<fbs::Notice>())
      if (n->level() == fbs::NoticeLevel::warning) out.push_back(n->text()->str());
    return out;
  }
  std::vector<std::string> said() {
    std::vector<std::string> out;
    for (const auto& n : reporter.take_all<fbs::Notice>())
      if (n->level() == fbs::NoticeLevel::info) out.push_back(n->text()->str());
    return out;
  }
  fbs::StatusT status() {
    const auto number = person.ask(run, make_msg<fbs::StatusRequest>());
    const auto answer = person.answer_of<fbs::Status>(number);
    REQUIRE(answer);
    return answer->unpack();
  }
};

/// What a job goes on from.
inline checkpoint::resume_point begun_before() {
  checkpoint::resume_point e;
  e.path = folder_of(2);
  e.step = 2;
  e.state.step = 2;
  e.state.tokens = 32;
  e.state.loss = 4;
  return e;
}

inline bool any_has(const std::vector<std::string>& sentences, const std::string& what) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const auto& s) { return s.find(what) != std::string::npos; });
}

}  // namespace troupe::train::test
