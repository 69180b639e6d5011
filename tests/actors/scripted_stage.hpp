// A stage of one replica between scripted worker, loader and neighbours, for tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/base/actor_registry.hpp"
#include "actors/capture/recorder.hpp"
#include "actors/train/stage.hpp"
#include "messages/power_holds.hpp"
#include "tests/actors/actor_fixture.hpp"

namespace troupe::train::test {

using troupe::test::partner;
using troupe::test::told;

inline constexpr uint32_t stage_epoch = 7;
using stage_words = std::vector<std::string>;
using stage_op = fbs::OpKind;

/// As many micro-batches of one sequence.
inline std::string stage_job(uint32_t pipeline_ranks, int micro_batches) {
  return fmt::format(
      "[job]\noutput = \"out\"\n[model]\nlayers = 6\nheads = 1\nhidden = 8\nvocab = 300\n"
      "[data]\npath = \"x\"\n[train]\nsteps = 9\nbatch = {}\nmicro_batch = 1\nseq_len = 8\n"
      "[parallel]\ndata = 1\npipeline = {}\n[cluster]\nworkers_per_node = {}\n",
      micro_batches, pipeline_ranks, pipeline_ranks);
}

inline std::string word_of(const fbs::RunOp& op) {
  if (op.kind() == stage_op::begin) return "begin";
  return fmt::format("{}{} {} in {} of {}", op.last() ? "last " : "",
                     fbs::EnumNameOpKind(op.kind()), op.micro_batch(), op.slot(), op.batch_slot());
}

/// With one replica the number of a stage is its rank.
struct scripted_stage : troupe::test::actor_fixture {
  partner run = make_partner("run"), worker = make_partner("worker"),
          loader = make_partner("loader"), previous = make_partner("previous"),
          next = make_partner("next");
  record_reader records{runtime().records, false};
  std::vector<told<fbs::RunOp>> under_way;  ///< seen by given(), and not answered
  uint32_t rank, pipeline_ranks;
  int micro_batches;
  stage_actor target;

  explicit scripted_stage(uint32_t number = 0, uint32_t stages = 1, int count = 3)
      : actor_fixture(stage_epoch),
        rank(number),
        pipeline_ranks(stages),
        micro_batches(count),
        target(spawn(train::stage, spawn_record{.epoch = stage_epoch,
                                                .rank = rank,
                                                .worker = worker.as<worker_actor>()})) {}

  /// What was held back since this was asked last: "held_by_pace 50 for 100 ms".
  stage_words held_back() {
    stage_words out;
    const auto names = work_names();
    for (const auto& r : records.read(100'000))
      if (r.kind == record_kind::work && power::is_power_hold(names.at(r.type - 1)))
        out.push_back(fmt::format("{} {} for {:.0f} ms", names.at(r.type - 1), r.sender,
                                  static_cast<double>(r.handling_s) * 1e3));
    return out;
  }

  template <class T, class Fill>
  uint64_t ask(Fill fill, uint32_t epoch = stage_epoch) {
    return run.ask(target, make_msg<T>(context_of(epoch), fill));
  }
  template <class T>
  uint64_t ask(uint32_t epoch = stage_epoch) {
    return ask<T>([](auto&) {}, epoch);
  }
  /// "timeout: no answer" while there is none.
  template <class R>
  std::string refusal(uint64_t request) const {
    const auto a = run.answer_of<R>(request);
    return a ? "" : fmt::format("{}: {}", to_string(a.error().code), a.error().message);
  }
  template <class R>
  bool waits(uint64_t request) const {
    return refusal<R>(request) == "timeout: no answer";
  }
  template <class R>
  typename R::NativeTableType answer(uint64_t request) const {
    const auto a = run.answer_of<R>(request);
    REQUIRE_MESSAGE(a, refusal<R>(request));
    CHECK(a->epoch() == stage_epoch);
    return a->unpack();
  }

  // -- the start --

  fbs::BuildStageT description() const {
    fbs::BuildStageT b;
    b.rank = rank;
    b.data_ranks = 1;
    b.pipeline_rank = rank;
    b.pipeline_ranks = pipeline_ranks;
    b.config_toml = stage_job(pipeline_ranks, micro_batches);
    return b;
  }
  uint64_t order(const fbs::BuildStageT& b, uint32_t epoch = stage_epoch) {
    return run.ask(target, make_msg<fbs::BuildStage>(context_of(epoch), b));
  }
  uint64_t attach(uint32_t epoch = stage_epoch) {
    return run.ask(target,
                   make_msg<fbs::AttachLoader>(context_of(epoch),
                                               [](auto& a) { a.shared_memory = "/memory"; }),
                   loader.self());
  }
  uint64_t introduce(uint32_t epoch = stage_epoch) {
    return run.ask(target,
                   make_msg<fbs::Neighbours>(context_of(epoch),
                                             [this](auto& n) {
                                               n.previous_rank = static_cast<int>(rank) - 1;
                                               n.next_rank = static_cast<int>(rank) + 1;
                                             }),
                   previous.self(), next.self());
  }
  /// To where a pass may begin.
  void start() {
    order(description());
    worker.take<fbs::BuildStage>().answer<fbs::StageReady>();
    attach();
    worker.take<fbs::AttachLoader>().answer<fbs::Ack>();
    answer<fbs::Ack>(introduce());
  }

  // -- passes --

  uint64_t train(uint64_t step) {
    return ask<fbs::RunStep>([&](auto& r) {
      r.step = step;
      r.lr = 0.25;
    });
  }
  uint64_t validate(uint64_t step, uint32_t batches) {
    return ask<fbs::Validate>([&](auto& v) {
      v.step = step;
      v.batches = batches;
    });
  }
  void give_tokens(int32_t slot = 2) {
    loader.take<fbs::BatchRequest>().answer<fbs::BatchReady>(
        [&](auto& b) { b.slot = static_cast<uint32_t>(slot); });
  }
  /// What the worker was told to do since this was asked last.
  stage_words given() {
    stage_words out;
    for (const auto& op : worker.take_all<fbs::RunOp>()) {
      out.push_back(word_of(*op.m));
      under_way.push_back(op);
    }
    return out;
  }
  told<fbs::RunOp> find(const std::string& word) {
    given();
    const auto it = std::find_if(under_way.begin(), under_way.end(),
                                 [&](const auto& op) { return word_of(*op.m) == word; });
    REQUIRE_MESSAGE(it != under_way.end(), (word + " is not under way"));
    const auto op = *it;
    under_way.erase(it);
    return op;
  }
  void done(const std::string& word) {
    const auto op = find(word);
    op.answer<fbs::OpDone>([&](auto& d) {
      d.step = op->step();
      d.kind = op->kind();
      d.micro_batch = op->micro_batch();
    });
  }
  /// All that is under way is done, in its order, and what follows from that.
  void all_done() {
    for (given(); !under_way.empty(); given()) done(word_of(*under_way.front().m));
  }
  bool loses_control = false;  ///< the worker says so as it ends a pass
  /// The worker ends the pass; returns how it was told to.
  fbs::FinishStepT finish() {
    const auto asked = worker.take<fbs::FinishStep>();
    asked.answer<fbs::StepDone>([&](auto& d) {
      d.step = asked->step();
      d.rank = rank;
      d.loss_sum = 12;
      d.target_count = 8;
      d.grad_norm = 0.5;
      d.pauses = loses_control;
      d.parts = to_message(std::vector<step_part>{{pipeline_op::update, 30, 0, 0}});
    });
    return asked.m.unpack();
  }
  void announce(const partner& from, fbs::OpKind kind, uint64_t step, uint32_t micro_batch,
                uint32_t epoch = stage_epoch) {
    from.tell(target, make_msg<fbs::ActivationReady>(context_of(epoch), [&](auto& a) {
                a.step = step;
                a.micro_batch = micro_batch;
                a.kind = kind;
              }));
  }
  /// What a neighbour was told since this was asked last: "forward 0 of step 4".
  stage_words announced(const partner& to) const {
    stage_words out;
    for (const auto& a : to.take_all<fbs::ActivationReady>()) {
      CHECK(a->from_rank() == rank);
      out.push_back(fmt::format("{} {} of step {}", fbs::EnumNameOpKind(a->kind()),
                                a->micro_batch(), a->step()));
    }
    return out;
  }

  // -- what it shows --

  fbs::StatusT status() { return answer<fbs::Status>(ask<fbs::StatusRequest>()); }
  /// Whom it waits for: "worker/0: begin of micro-batch 0".
  stage_words awaited() const {
    stage_words out;
    for (const auto& w : runtime().registry.find(fmt::format("stage/{}", rank))->view().waits)
      out.push_back(w.whom + ": " + w.what);
    return out;
  }
};

}  // namespace troupe::train::test
