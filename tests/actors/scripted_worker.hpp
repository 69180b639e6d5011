// A worker between a scripted stage and a scripted engine, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/train/batch_memory.hpp"
#include "actors/train/worker.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/scripted_engine.hpp"

namespace troupe::train::test {

inline constexpr uint32_t worker_epoch = 7;
using worker_calls = std::vector<std::string>;

/// Two replicas of three stages; four micro-batches of two for each replica.
inline constexpr const char* worker_job =
    "[job]\noutput = \"out\"\nname = \"tale\"\nseed = 5\n"
    "[model]\nlayers = 6\nheads = 1\nhidden = 8\nvocab = 300\n"
    "[train]\nsteps = 4\nbatch = 16\nmicro_batch = 2\nseq_len = 8\n"
    "[parallel]\ndata = 2\npipeline = 3\n"
    "[cluster]\nworkers_per_node = 6\n"
    "[data]\npath = \"x\"\n";

struct scripted_worker : troupe::test::actor_fixture {
  std::shared_ptr<engine_script> script = std::make_shared<engine_script>();
  std::string more_data;  ///< keys of [data]
  troupe::test::partner stage = make_partner("stage");
  worker_actor target;

  scripted_worker() : actor_fixture(worker_epoch) {
    target = spawn(train::worker, spawn_record{worker_epoch, 3},
                   std::make_shared<scripted_engines>(script));
  }

  template <class T, class Fill>
  uint64_t ask(Fill fill, uint32_t epoch = worker_epoch) {
    return stage.ask(target, make_msg<T>(context_of(epoch), fill));
  }
  template <class T>
  uint64_t ask(uint32_t epoch = worker_epoch) {
    return ask<T>([](auto&) {}, epoch);
  }
  /// "timeout: no answer" while there is none.
  template <class R>
  std::string refusal(uint64_t request) const {
    const auto a = stage.answer_of<R>(request);
    return a ? "" : fmt::format("{}: {}", to_string(a.error().code), a.error().message);
  }
  template <class R>
  bool waits(uint64_t request) const {
    return refusal<R>(request) == "timeout: no answer";
  }
  template <class R>
  typename R::NativeTableType answer(uint64_t request) const {
    const auto a = stage.answer_of<R>(request);
    REQUIRE_MESSAGE(a, refusal<R>(request));
    CHECK(a->epoch() == worker_epoch);
    return a->unpack();
  }
  void complete(const std::string& call, const status& how = {}) {
    script->complete(call, how);
    settle();
  }
  fbs::StatusT status() { return answer<fbs::Status>(ask<fbs::StatusRequest>()); }

  static fbs::BuildStageT description(uint32_t pipeline_rank = 1) {
    fbs::BuildStageT b;
    b.rank = pipeline_rank * 2 + 1;
    b.data_rank = 1;
    b.data_ranks = 2;
    b.pipeline_rank = pipeline_rank;
    b.pipeline_ranks = 3;
    b.first_layer = 2;
    b.last_layer = 4;
    b.threads = 5;
    b.config_toml = worker_job;
    return b;
  }
  uint64_t order(const fbs::BuildStageT& b, uint32_t epoch = worker_epoch) {
    return stage.ask(target, make_msg<fbs::BuildStage>(context_of(epoch), b));
  }
  /// With a model of that stage; nothing is said of it.
  void build(uint32_t pipeline_rank = 1) {
    auto stage_here = description(pipeline_rank);
    stage_here.config_toml += more_data;
    const auto number = order(stage_here);
    complete("build");
    REQUIRE(refusal<fbs::StageReady>(number).empty());
    script->said();
  }
  /// Its replica's rows are the last eight of a slot of twelve.
  uint64_t attach(uint32_t slots = 4, uint64_t bytes = batch_memory::slot_bytes_of({12, 8}),
                  uint32_t first_row = 4) {
    return ask<fbs::AttachLoader>([&](auto& a) {
      a.shared_memory = "/memory";
      a.slot_bytes = bytes;
      a.slots = slots;
      a.rows = 12;
      a.first_row = first_row;
    });
  }
  /// With a model and batches.
  void prepare(uint32_t pipeline_rank = 1) {
    build(pipeline_rank);
    answer<fbs::Ack>(attach());
    script->said();
  }
  uint64_t run(fbs::OpKind kind, uint32_t micro_batch = 0, uint32_t slot = 0,
               int32_t batch_slot = -1, bool last = false) {
    return ask<fbs::RunOp>([&](auto& op) {
      op.step = 9;
      op.kind = kind;
      op.micro_batch = micro_batch;
      op.slot = slot;
      op.batch_slot = batch_slot;
      op.last = last;
    });
  }
  uint64_t save(uint64_t step, bool last = false) {
    return ask<fbs::SaveCheckpoint>([&](auto& s) {
      s.step = step;
      s.last = last;
      s.directory = "/partial";
    });
  }
  uint64_t finish(bool evaluation, bool held = false) {
    return ask<fbs::FinishStep>([&](auto& f) {
      f.step = 9;
      f.lr = 0.25;
      f.evaluation = evaluation;
      f.held = held;
    });
  }

  /// What each message but BuildStage and Status is refused with.
  std::vector<std::string> refusals(uint32_t epoch) {
    return {refusal<fbs::Ack>(ask<fbs::AttachLoader>(epoch)),
            refusal<fbs::DataPlaneOffer>(ask<fbs::OpenDataPlane>(epoch)),
            refusal<fbs::DataPlaneReady>(ask<fbs::DataPlaneTable>(epoch)),
            refusal<fbs::OpDone>(ask<fbs::RunOp>(epoch)),
            refusal<fbs::StepDone>(ask<fbs::FinishStep>(epoch)),
            refusal<fbs::Saved>(ask<fbs::SaveCheckpoint>(epoch)),
            refusal<fbs::Loaded>(ask<fbs::LoadCheckpoint>(epoch))};
  }
};

}  // namespace troupe::train::test
