// The worker between a scripted stage and engine: calls, answers, refusals, what its end leaves.
#include "actors/train/worker.hpp"

#include <array>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/train/addresses.hpp"
#include "actors/train/batch_memory.hpp"
#include "tests/actors/scripted_worker.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::scripted_worker;
using troupe::train::test::worker_calls;
using troupe::train::test::worker_epoch;
using troupe::train::test::worker_job;

namespace {

const std::string worker_has_no_model = "bug: the worker has no model yet";
const std::string worker_other_epoch = "version_mismatch: ";

}  // namespace

// -- building -------------------------------------------------------------------------------------

TEST_CASE("worker: BuildStage makes the engine it describes, and is answered once that is built") {
  scripted_worker f;
  CHECK(f.status().actor == "worker/3");
  CHECK(f.status().state == "empty");
  f.script->facts = {77, 1 << 20, {"a note"}, true};
  auto b = f.description();
  b.device = "cuda:1";
  b.shared_devices = true;
  b.launch = 77;
  const auto number = f.order(b);
  CHECK(f.script->said() == worker_calls{"build"});
  CHECK(f.waits<fbs::StageReady>(number));
  CHECK(f.status().state == "building");
  REQUIRE(f.script->made.size() == 1);
  const auto& o = f.script->made[0];
  CHECK(o.at.rank == 3);
  CHECK(o.at.grid == rank_grid(2, 1, 3));
  CHECK(o.model.vocab == 300);
  CHECK(o.shape.first_layer == 2);
  CHECK(o.shape.last_layer == 4);
  CHECK(o.shape.slots == 2);
  CHECK(o.batch == 16);
  CHECK(o.seed == 5);
  CHECK(o.threads == 5);
  CHECK(o.device == "cuda:1");
  CHECK(o.shared_devices);
  CHECK(o.job == "tale");
  CHECK(o.epoch == worker_epoch);
  CHECK(o.launch == 77);
  f.complete("build");
  const auto ready = f.answer<fbs::StageReady>(number);
  CHECK(ready.rank == 3);
  CHECK(ready.parameters == 77);
  CHECK(ready.pauses);
  CHECK(ready.bytes == 1 << 20);
  CHECK(f.status().state == "ready");
}

TEST_CASE("worker: without a device's name it builds on the host") {
  scripted_worker f;
  f.build();
  CHECK(f.script->made[0].device == "host");
  CHECK_FALSE(f.script->made[0].shared_devices);
}

TEST_CASE("worker: what its streams do stands in its stats") {
  scripted_worker f;
  f.build();
  REQUIRE(f.script->probe != nullptr);
  f.script->probe->begin({pipeline_op::forward, 2});
  CHECK(f.status().state == "forward");
  CHECK(f.status().values->worker->number == 2);
}

TEST_CASE("worker: what its compute stream waits for stands there, and then what it is at again") {
  scripted_worker f;
  f.build();
  auto& probe = *f.script->probe;
  probe.begin({pipeline_op::update, 2});
  probe.waits(pipeline_op::await_copies);
  CHECK(f.status().state == "await_copies");
  probe.goes_on();
  CHECK(f.status().state == "update");
  probe.end({pipeline_op::update, 2}, 0, 0, 1);
  probe.waits(pipeline_op::await_copies);  // between two operations
  probe.goes_on();
  CHECK(f.status().state == "ready");
}

TEST_CASE("worker: a place that its job does not have is refused, and no engine made") {
  scripted_worker f;
  const auto refused = [&](auto change) {
    auto b = f.description();
    change(b);
    CHECK(f.refusal<fbs::StageReady>(f.order(b)) ==
          "bad_data: rank 3 has no place in a job of 2 x 3");
  };
  refused([](auto& b) { b.data_ranks = 0; });
  refused([](auto& b) { b.data_ranks = 3; });
  refused([](auto& b) { b.data_rank = 2; });
  refused([](auto& b) { b.pipeline_ranks = 2; });
  refused([](auto& b) { b.pipeline_rank = 3; });
  refused([](auto& b) { b.pipeline_rank = 2; });  // which rank 3 is not
  refused([](auto& b) { b.first_layer = 5; });
  CHECK(f.script->made.empty());
}

TEST_CASE("worker: before BuildStage everything but Status is refused") {
  scripted_worker f;
  for (const auto& r : f.refusals(worker_epoch)) CHECK(r == worker_has_no_model);
  CHECK(f.script->calls.empty());
  CHECK(f.status().state == "empty");
}

TEST_CASE("worker: until its model is built only groups are dealt with") {
  scripted_worker f;
  f.order(f.description());
  f.script->said();
  CHECK(f.refusal<fbs::Ack>(f.attach()) == worker_has_no_model);
  CHECK(f.refusal<fbs::OpDone>(f.run(fbs::OpKind::begin)) == worker_has_no_model);
  CHECK(f.refusal<fbs::StepDone>(f.finish(false)) == worker_has_no_model);
  CHECK(f.refusal<fbs::StepDone>(f.finish(true)) == worker_has_no_model);
  CHECK(f.refusal<fbs::Saved>(f.save(9)) == worker_has_no_model);
  CHECK(f.refusal<fbs::Loaded>(f.ask<fbs::LoadCheckpoint>()) == worker_has_no_model);
  CHECK(f.script->said().empty());
  f.answer<fbs::DataPlaneOffer>(f.ask<fbs::OpenDataPlane>());
  f.ask<fbs::DataPlaneTable>();
  CHECK(f.script->said() == worker_calls{"open groups on 127.0.0.1", "connect"});
}

TEST_CASE("worker: another epoch's messages are refused and change nothing") {
  scripted_worker f;
  for (const auto epoch : {worker_epoch - 1, worker_epoch + 1}) {
    const auto refused = f.refusal<fbs::StageReady>(f.order(f.description(), epoch));
    CHECK(refused.starts_with(worker_other_epoch));
  }
  CHECK(f.script->made.empty());
  f.prepare();
  for (const auto epoch : {worker_epoch - 1, worker_epoch + 1})
    for (const auto& r : f.refusals(epoch)) CHECK(r.starts_with(worker_other_epoch));
  CHECK(f.script->calls.empty());
  CHECK(f.script->made.size() == 1);
}

TEST_CASE("worker: a configuration that is none or impossible is refused, and no engine made") {
  scripted_worker f;
  auto b = f.description();
  b.config_toml = "[job\n";
  CHECK(
      f.refusal<fbs::StageReady>(f.order(b)).find("bad_config: the coordinator's configuration") ==
      0);
  b.config_toml = worker_job;
  b.config_toml.replace(b.config_toml.find("[model]"), 7, "[model]\nmax_seq_len = 4");
  CHECK(f.refusal<fbs::StageReady>(f.order(b)).find("bad_config: ") == 0);
  CHECK(f.script->made.empty());
  CHECK(f.refusal<fbs::OpDone>(f.run(fbs::OpKind::begin)) == worker_has_no_model);
  CHECK(f.status().state == "empty");
}

TEST_CASE("worker: an engine that cannot be made is the answer, and one that is there stays") {
  scripted_worker f;
  const error why{errc::unavailable, "no such device"};
  f.script->refusal = why;
  CHECK(f.refusal<fbs::StageReady>(f.order(f.description())) == "unavailable: no such device");
  CHECK(f.refusal<fbs::OpDone>(f.run(fbs::OpKind::begin)) == worker_has_no_model);
  f.prepare();
  f.script->refusal = why;
  CHECK(f.refusal<fbs::StageReady>(f.order(f.description(0))) == "unavailable: no such device");
  CHECK(f.script->said().empty());
  f.run(fbs::OpKind::forward, 0, 0, 3);
  CHECK(f.script->said() == worker_calls{"forward 0 in 0 of batch 3"});
  const auto finished = f.finish(false);
  f.complete("update 9 by 0.25");
  CHECK(f.answer<fbs::StepDone>(finished).rank == 3);
}

TEST_CASE("worker: a build that fails is the answer, and nothing can be computed with it") {
  scripted_worker f;
  const auto number = f.order(f.description());
  f.complete("build", error{errc::no_memory, "9 GiB do not fit"});
  CHECK(f.refusal<fbs::StageReady>(number) == "no_memory: 9 GiB do not fit");
  CHECK(f.refusal<fbs::OpDone>(f.run(fbs::OpKind::begin)) == worker_has_no_model);
}

TEST_CASE("worker: another BuildStage begins anew: engine, batches and what is built") {
  scripted_worker f;
  f.prepare(1);
  const auto asked = f.run(fbs::OpKind::backward);
  f.script->said();
  const auto number = f.order(f.description(0));
  CHECK(f.script->said() == worker_calls{"abort", "gone", "build"});
  CHECK(f.script->made[1].at.first());
  CHECK(f.refusal<fbs::OpDone>(f.run(fbs::OpKind::begin)) == worker_has_no_model);
  f.complete("backward 0 in 0", error{errc::cancelled, "aborted"});
  CHECK(f.refusal<fbs::OpDone>(asked) == "cancelled: aborted");
  f.complete("build");
  const auto ready = f.answer<fbs::StageReady>(number);
  CHECK(ready.rank == 1);
  CHECK_FALSE(ready.pauses);
  CHECK(f.refusal<fbs::OpDone>(f.run(fbs::OpKind::forward, 0, 0, 0)) ==
        "bad_data: no batch slot 0");
  CHECK(f.script->probe->begin({pipeline_op::forward, 0}) == 0);
  CHECK(f.status().state == "forward");
}

TEST_CASE("worker: what an earlier engine still says does not pass for the newest one's build") {
  scripted_worker f;
  const auto first = f.order(f.description());
  const auto second = f.order(f.description());
  f.complete("build");
  CHECK(f.refusal<fbs::StageReady>(first) == "cancelled: another BuildStage has come meanwhile");
  CHECK(f.waits<fbs::StageReady>(second));
  CHECK(f.refusal<fbs::OpDone>(f.run(fbs::OpKind::begin)) == worker_has_no_model);
  f.complete("build");
  CHECK(f.answer<fbs::StageReady>(second).rank == 3);
  CHECK(f.answer<fbs::OpDone>(f.run(fbs::OpKind::begin)).step == 9);
}

// -- batches and groups ---------------------------------------------------------------------------

TEST_CASE("worker: AttachLoader gives its engine the loader's memory, if that is of its batches") {
  scripted_worker f;
  f.build();
  const std::string others = "bad_data: the loader's slots do not hold this rank's rows";
  CHECK(f.refusal<fbs::Ack>(f.attach(4, 17)) == others);
  CHECK(f.refusal<fbs::Ack>(f.attach(4, batch_memory::slot_bytes_of({12, 8}), 5)) == others);
  CHECK(f.script->said().empty());
  f.script->refusal = error{errc::io, "no such memory"};
  CHECK(f.refusal<fbs::Ack>(f.attach()) == "io: no such memory");
  CHECK(f.refusal<fbs::OpDone>(f.run(fbs::OpKind::forward, 0, 0, 0)) ==
        "bad_data: no batch slot 0");
  f.script->said();
  f.answer<fbs::Ack>(f.attach(2));
  CHECK(f.script->said() == worker_calls{"attach /memory: 2 of 768 bytes, from row 4"});
  CHECK(f.waits<fbs::OpDone>(f.run(fbs::OpKind::forward, 0, 0, 1)));
  CHECK(f.refusal<fbs::OpDone>(f.run(fbs::OpKind::forward, 0, 0, 2)) ==
        "bad_data: no batch slot 2");
}

TEST_CASE("worker: OpenDataPlane is answered with the ends that its engine offers, or why not") {
  scripted_worker f;
  f.build();
  f.script->offers = {{"data/1", 1, 2, {"to 0", ""}}, {"pipe/1", 1, 3, {"a", "", "c"}}};
  const auto number = f.ask<fbs::OpenDataPlane>([](auto& o) { o.host = "hosta"; });
  CHECK(f.script->said() == worker_calls{"open groups on hosta"});
  const auto offer = *f.stage.answer_of<fbs::DataPlaneOffer>(number);
  CHECK(offer->rank() == 3);
  REQUIRE(offer->groups()->size() == 2);
  const auto* pipe = offer->groups()->Get(1);
  CHECK(pipe->name()->str() == "pipe/1");
  CHECK(pipe->rank() == 1);
  CHECK(pipe->size() == 3);
  CHECK(address_list::of(pipe->addresses())->all() == worker_calls{"a", "", "c"});
  f.script->refusal = error{errc::io, "no such address"};
  CHECK(f.refusal<fbs::DataPlaneOffer>(f.ask<fbs::OpenDataPlane>()) == "io: no such address");
}

TEST_CASE("worker: DataPlaneTable connects its groups, and is answered when they are") {
  scripted_worker f;
  f.build();
  const auto give = [&](bool whole) {
    return f.ask<fbs::DataPlaneTable>([&](auto& t) {
      auto& g = *t.groups.emplace_back(std::make_unique<fbs::GroupTableT>());
      g.name = "pipe/1";
      g.addresses = std::make_unique<fbs::AddressesT>();
      add_address(*g.addresses, "x");
      add_address(*g.addresses, "y");
      if (!whole) g.addresses->data.pop_back();
    });
  };
  CHECK(f.refusal<fbs::DataPlaneReady>(give(false)).find("bad_data: ") == 0);
  CHECK(f.script->said().empty());
  const auto number = give(true);
  CHECK(f.script->said() == worker_calls{"connect pipe/1=x,y"});
  CHECK(f.waits<fbs::DataPlaneReady>(number));
  f.complete("connect pipe/1=x,y");
  CHECK(f.answer<fbs::DataPlaneReady>(number).rank == 3);
  const auto again = give(true);
  f.complete("connect pipe/1=x,y", error{errc::timeout, "rank 2 does not connect"});
  CHECK(f.refusal<fbs::DataPlaneReady>(again) == "timeout: rank 2 does not connect");
}

// -- operations -----------------------------------------------------------------------------------

TEST_CASE("worker: operations become calls, and what only enqueues is answered at once") {
  using kind = fbs::OpKind;
  scripted_worker f;
  f.prepare();
  const auto at_once = [&](kind k, const std::string& call) {
    const auto done = f.answer<fbs::OpDone>(f.run(k, 3, 1));
    CHECK(f.script->said() == worker_calls{call});
    CHECK(done.step == 9);
    CHECK(done.kind == k);
    CHECK(done.micro_batch == 3);
  };
  at_once(kind::begin, "begin");
  at_once(kind::receive_activation, "receive_activation 3 in 1");
  at_once(kind::receive_gradient, "receive_gradient 3 in 1");
  const auto later = [&](kind k, bool last, const std::string& call) {
    const auto number = f.run(k, 3, 1, 2, last);
    CHECK(f.script->said() == worker_calls{call});
    CHECK(f.waits<fbs::OpDone>(number));
    f.complete(call);
    const auto done = f.answer<fbs::OpDone>(number);
    CHECK(done.step == 9);
    CHECK(done.kind == k);
    CHECK(done.micro_batch == 3);
    const auto failing = f.run(k, 3, 1, 2, last);
    f.complete(call, error{errc::io, "lost"});
    CHECK(f.refusal<fbs::OpDone>(failing) == "io: lost");
    f.script->said();
  };
  later(kind::forward, false, "forward 3 in 1 of batch 2");
  later(kind::backward, false, "backward 3 in 1");
  later(kind::backward, true, "last backward 3 in 1");
  later(kind::evaluate, false, "evaluate 3 in 1 of batch 2");
}

TEST_CASE("worker: an operation on what is not there is refused, and none is called") {
  using kind = fbs::OpKind;
  struct refused {
    uint32_t pipeline_rank;
    kind what;
    uint32_t micro_batch, slot;
    int32_t batch_slot;
    const char* why;
  };
  const char *no_slot = "no slot 2", *no_micro_batch = "no micro-batch 4";
  const char *no_tokens = "no batch slot, which this stage needs",
             *nobody = "no neighbour to receive from";
  const std::array cases{refused{1, kind::forward, 0, 2, 0, no_slot},
                         refused{1, kind::begin, 0, 2, 0, no_slot},
                         refused{1, kind::forward, 4, 0, 0, no_micro_batch},
                         refused{1, kind::receive_gradient, 4, 0, 0, no_micro_batch},
                         refused{1, kind::backward, 0, 0, 4, "no batch slot 4"},
                         refused{0, kind::forward, 0, 0, -1, no_tokens},
                         refused{2, kind::forward, 0, 0, -1, no_tokens},
                         refused{0, kind::evaluate, 0, 0, -1, no_tokens},
                         refused{2, kind::evaluate, 0, 0, -1, no_tokens},
                         refused{0, kind::receive_activation, 0, 0, 0, nobody},
                         refused{2, kind::receive_gradient, 0, 0, 0, nobody},
                         refused{1, static_cast<kind>(99), 0, 0, 0, "no operation 99"}};
  for (const auto& c : cases) {
    CAPTURE(c.why);
    scripted_worker f;
    f.prepare(c.pipeline_rank);
    CHECK(f.refusal<fbs::OpDone>(f.run(c.what, c.micro_batch, c.slot, c.batch_slot)) ==
          std::string("bad_data: ") + c.why);
    CHECK(f.script->said().empty());
  }
}

TEST_CASE("worker: where rows hold several documents, a stage in the midst needs batches, too") {
  scripted_worker f;
  f.more_data = "reset_attention = true\ndocument_end = 1\n";
  f.build();
  const uint64_t four_arrays = batch_memory::slot_bytes_of({12, 8, true});
  CHECK(f.refusal<fbs::Ack>(f.attach()) ==
        "bad_data: the loader's slots do not hold this rank's rows");
  f.answer<fbs::Ack>(f.attach(4, four_arrays));
  for (const auto what : {fbs::OpKind::forward, fbs::OpKind::evaluate})
    CHECK(f.refusal<fbs::OpDone>(f.run(what, 0, 0, -1)) ==
          "bad_data: no batch slot, which this stage needs");
}

TEST_CASE("worker: several micro-batches at once are for who does them layer by layer") {
  for (const bool by_layer : {false, true}) {
    CAPTURE(by_layer);
    scripted_worker f;
    auto b = f.description(0);
    b.pipeline_ranks = b.data_ranks = 1;
    b.rank = b.data_rank = 0;
    b.first_layer = 0, b.last_layer = 6;
    b.config_toml = "[job]\noutput = \"out\"\nname = \"tale\"\n"
                    "[model]\nlayers = 6\nheads = 1\nhidden = 8\nvocab = 300\n"
                    "[data]\npath = \"x\"\n"
                    "[train]\nsteps = 4\nbatch = 8\nmicro_batch = 2\nseq_len = 8\n"
                    "[cluster]\nnodes = 1\n";
    if (by_layer) b.config_toml += "[parallel]\nschedule = \"by_layer\"\n";
    const auto built = f.order(b);
    f.complete("build");
    REQUIRE(f.refusal<fbs::StageReady>(built).empty());
    f.answer<fbs::Ack>(f.attach());
    f.script->said();
    const auto order = [&](uint32_t count) {
      return f.ask<fbs::RunOp>([&](auto& op) {
        op.kind = fbs::OpKind::forward;
        op.batch_slot = 0;
        op.micro_batches = count;
      });
    };
    CHECK(f.refusal<fbs::OpDone>(order(0)) == "bad_data: no operation on 0 micro-batches at once");
    const auto all = order(4);
    CHECK(f.waits<fbs::OpDone>(all) == by_layer);
    CHECK(f.script->said().empty() != by_layer);
  }
}

TEST_CASE("worker: between its neighbours a stage computes without tokens") {
  scripted_worker f;
  f.build();
  f.run(fbs::OpKind::forward);
  f.run(fbs::OpKind::evaluate);
  CHECK(f.script->said() ==
        worker_calls{"forward 0 in 0 of batch -1", "evaluate 0 in 0 of batch -1"});
}

TEST_CASE("worker: its engine is told where weights are digested as backward leaves them") {
  scripted_worker f;
  f.prepare();
  f.ask<fbs::RunOp>([](auto& op) {
    op.step = 9;
    op.kind = fbs::OpKind::backward;
    op.last = op.digest = true;
  });
  CHECK(f.script->said() == worker_calls{"last backward 0 in 0 with digests"});
}

TEST_CASE("worker: each operation is answered when it completes, in whatever order they do") {
  scripted_worker f;
  f.prepare();
  const auto first = f.run(fbs::OpKind::forward, 0, 0, 0);
  const auto second = f.run(fbs::OpKind::forward, 1, 1, 0);
  const auto third = f.run(fbs::OpKind::backward, 0, 0);
  f.complete("forward 1 in 1 of batch 0");
  CHECK(f.answer<fbs::OpDone>(second).micro_batch == 1);
  CHECK(f.waits<fbs::OpDone>(first));
  CHECK(f.waits<fbs::OpDone>(third));
  // Two at once: what waits is answered in the order of their ends.
  f.script->complete("backward 0 in 0", error{errc::io, "lost"});
  f.script->complete("forward 0 in 0 of batch 0");
  CHECK(f.waits<fbs::OpDone>(third));
  f.settle();
  CHECK(f.refusal<fbs::OpDone>(third) == "io: lost");
  CHECK(f.answer<fbs::OpDone>(first).kind == fbs::OpKind::forward);
}

TEST_CASE("worker: what completes on another thread is answered on the worker's") {
  scripted_worker f;
  f.prepare();
  const auto done = f.run(fbs::OpKind::forward, 2, 0, 0);
  const auto finished = f.finish(false);
  const auto saved = f.save(9);
  std::thread([&] {
    f.script->complete("forward 2 in 0 of batch 0");
    f.script->complete("update 9 by 0.25");
    f.script->complete("save 9 in /partial");
  }).join();
  CHECK(f.waits<fbs::OpDone>(done));
  CHECK(f.waits<fbs::StepDone>(finished));
  CHECK(f.waits<fbs::Saved>(saved));
  f.settle();
  CHECK(f.answer<fbs::OpDone>(done).micro_batch == 2);
  CHECK(f.answer<fbs::StepDone>(finished).step == 9);
  CHECK(f.answer<fbs::Saved>(saved).step == 9);
}

TEST_CASE("worker: its engine knows the message that it is called for") {
  scripted_worker f;
  f.prepare();
  auto cause = f.context();
  cause.span = 41;
  cause.trace_low = 43;
  const auto number = f.stage.ask(f.target, make_msg<fbs::RunOp>(cause, [](auto& op) {
                                    op.kind = fbs::OpKind::begin;
                                    op.batch_slot = -1;
                                  }));
  CHECK(f.script->span == 41);
  CHECK(f.script->trace == 43);
  CHECK(f.stage.answer_of<fbs::OpDone>(number)->header().parent == 41);
  CHECK(f.stage.answer_of<fbs::OpDone>(number)->header().trace_low == 43);
}

TEST_CASE("worker: FinishStep updates, or ends an evaluation, and tells what its engine tells") {
  scripted_worker f;
  f.prepare(2);
  f.script->outcome = {
      12, 0.5, {{pipeline_op::forward, 3, 1, 64}, {pipeline_op::await_copies, 0, 2, 0}}};
  f.script->outcome.document_pairs = 98;
  f.script->outcome.process_peak_bytes = 150 << 20;
  f.script->outcome.actuation_p50_ns = 1'500'000;
  f.script->outcome.actuation_p99_ns = 2'500'000;
  const auto update = f.finish(false);
  CHECK(f.script->said() == worker_calls{"update 9 by 0.25"});
  CHECK(f.waits<fbs::StepDone>(update));
  f.complete("update 9 by 0.25");
  const auto done = f.answer<fbs::StepDone>(update);
  CHECK(done.step == 9);
  CHECK(done.rank == 5);
  CHECK(done.loss_sum == 12);
  CHECK(done.target_count == 64);  // 8 of 16 sequences, 8 tokens each
  CHECK(done.grad_norm == 0.5);
  CHECK(done.document_pairs == 98);
  REQUIRE(done.parts.size() == 2);
  CHECK(done.parts[0]->kind == "forward");
  CHECK(done.parts[0]->busy_ms == 3);
  CHECK(done.parts[0]->waited_ms == 1);
  CHECK(done.parts[0]->work == 64);
  CHECK(done.parts[1]->kind == "await_copies");
  CHECK(done.parts[1]->waited_ms == 2);
  const auto check_shown = [&] {
    const auto shown = std::move(f.status().values->worker);
    CHECK(shown->step == 9);
    CHECK(shown->process_peak_bytes == 150 << 20);
    CHECK(shown->threads == 5);
    CHECK(shown->actuation_p50_ms == 1.5);
    CHECK(shown->actuation_p99_ms == 2.5);
    REQUIRE(shown->parts.size() == 2);
    CHECK(shown->parts[0]->kind == "forward");
    CHECK(shown->parts[0]->work == 64);
    CHECK(shown->parts[1]->waited_ms == 2);
  };
  check_shown();
  f.script->outcome.parts.clear();
  const auto evaluated = f.finish(true, true);
  CHECK(f.script->said() == worker_calls{"finish evaluation"});
  f.complete("finish evaluation");
  CHECK(f.answer<fbs::StepDone>(evaluated).loss_sum == 12);
  check_shown();  // of the last step, which an evaluation is not
  const auto failing = f.finish(false, true);
  CHECK(f.script->said() == worker_calls{"were held", "update 9 by 0.25"});
  f.complete("update 9 by 0.25", error{errc::training, "the norm is not finite"});
  CHECK(f.refusal<fbs::StepDone>(failing) == "training: the norm is not finite");
}

TEST_CASE("worker: a step whose updates were dropped is updated once more before it is told") {
  scripted_worker f;
  f.prepare(2);
  f.script->outcome.again = true;
  const auto update = f.finish(false);
  CHECK(f.script->said() == worker_calls{"update 9 by 0.25"});
  f.complete("update 9 by 0.25");
  CHECK(f.waits<fbs::StepDone>(update));
  CHECK(f.script->said() == worker_calls{"update 9 by 0.25"});
  f.script->outcome = {12};
  f.complete("update 9 by 0.25");
  CHECK(f.answer<fbs::StepDone>(update).loss_sum == 12);
  CHECK(f.script->said().empty());
}

TEST_CASE("worker: a stage without a head counts no targets") {
  scripted_worker f;
  f.prepare(1);
  const auto update = f.finish(false);
  f.complete("update 9 by 0.25");
  CHECK(f.answer<fbs::StepDone>(update).target_count == 0);
}

// -- state ----------------------------------------------------------------------------------------

TEST_CASE("worker: SaveCheckpoint is answered with the vote once there is one, or with why not") {
  scripted_worker f;
  f.prepare();
  f.script->vote.rank = 3;
  f.script->vote.bytes = 100;
  f.script->vote.stream_bytes = 90;
  f.script->vote.footer_crc = 17;
  f.script->vote.slot_digest = 18;
  const auto yes = f.save(9), no = f.save(10);
  CHECK(f.script->said() == worker_calls{"save 9 in /partial", "save 10 in /partial"});
  // The training goes on meanwhile.
  CHECK(f.answer<fbs::OpDone>(f.run(fbs::OpKind::begin)).step == 9);
  CHECK(f.waits<fbs::Saved>(yes));
  f.complete("save 10 in /partial", error{errc::io, "no space left"});
  CHECK(f.refusal<fbs::Saved>(no) == "io: no space left");
  CHECK(f.waits<fbs::Saved>(yes));
  f.complete("save 9 in /partial");
  const auto vote = f.answer<fbs::Saved>(yes);
  CHECK(vote.step == 9);
  CHECK(vote.rank == 3);
  CHECK(vote.bytes == 100);
  CHECK(vote.stream_bytes == 90);
  CHECK(vote.footer_crc32c == 17);
  CHECK(vote.slot_digest == 18);
  CHECK(vote.chunks.empty());
}

TEST_CASE("worker: a vote tells of the shards of chunks, and the last save is known as that") {
  scripted_worker f;
  f.prepare();
  f.script->vote.chunks = {{4, 8192, 4096, 4096, 7, 8}, {5, 16384, 8192, 4096, 9, 10}};
  const auto asked = f.save(9, true);
  f.complete("save 9 in /partial, the last");
  const auto vote = f.answer<fbs::Saved>(asked);
  REQUIRE(vote.chunks.size() == 2);
  const auto& second = *vote.chunks[1];
  CHECK(second.chunk == 5);
  CHECK(second.bytes == 16384);
  CHECK(second.stream_bytes == 8192);
  CHECK(second.slot_bytes == 4096);
  CHECK(second.footer_crc32c == 9);
  CHECK(second.slot_digest == 10);
}

TEST_CASE("worker: its status shows how it saves: at an order, at progress, at the vote") {
  scripted_worker f;
  f.script->saver.emplace();
  f.script->saver->share_bytes = 4321;
  f.prepare();
  const auto shown = [&] { return std::move(f.status().values->worker->checkpoint); };
  CHECK(shown()->share_bytes == 4321);
  CHECK(shown()->saves.empty());
  f.script->saver->flusher.saves.resize(1);
  f.script->saver->flusher.saves[0].step = 9;
  f.script->probe->begin({pipeline_op::forward, 2});
  f.save(9);
  REQUIRE(shown()->saves.size() == 1);
  CHECK(shown()->saves[0]->step == 9);
  CHECK(f.status().state == "forward");  // beside the training
  CHECK(f.status().values->worker->number == 2);
  f.script->saver->flusher.saves[0].bytes.written = 12;
  std::thread(f.script->made[0].on_save_progress).join();
  CHECK(shown()->saves[0]->written == 12);
  f.script->saver->flusher.durable_saves = 1;
  f.script->saver->flusher.saves.clear();
  f.complete("save 9 in /partial");
  CHECK(shown()->saves.empty());
  CHECK(shown()->durable == 1);
}

TEST_CASE("worker: LoadCheckpoint is answered when its engine has the state, or with why not") {
  scripted_worker f;
  f.build();
  const auto load = [&](bool optimizer) {
    return f.ask<fbs::LoadCheckpoint>([&](auto& l) {
      l.directory = "/first/step-2";
      l.optimizer = optimizer;
    });
  };
  const auto whole = load(true);
  CHECK(f.script->said() == worker_calls{"load /first/step-2 with moments"});
  CHECK(f.waits<fbs::Loaded>(whole));
  f.script->takes_files = true;
  f.complete("load /first/step-2 with moments");
  CHECK(f.answer<fbs::Loaded>(whole).rank == 3);
  CHECK(f.answer<fbs::Loaded>(whole).takes_files);
  const auto weights = load(false);
  CHECK(f.script->said() == worker_calls{"load /first/step-2"});
  f.complete("load /first/step-2", error{errc::bad_data, "damaged"});
  CHECK(f.refusal<fbs::Loaded>(weights) == "bad_data: damaged");
}

TEST_CASE("worker: its engine hears the pace of a pass, and what holds it") {
  scripted_worker f;
  f.prepare();
  CHECK(f.script->made.back().control.empty());
  f.answer<fbs::OpDone>(f.ask<fbs::RunOp>([](auto& op) {
    op.kind = fbs::OpKind::begin;
    op.pace_of_1024 = 512;
  }));
  CHECK(f.script->pace == work_pace{512});
  f.answer<fbs::OpDone>(f.ask<fbs::RunOp>([](auto& op) {
    op.kind = fbs::OpKind::begin;
    op.pace_of_1024 = 4'000'000'000;
  }));
  CHECK(f.script->pace == work_pace{});
  auto governed = f.description();
  governed.config_toml += "[power]\nbudget_w = 40\ncontrol = [\"cgroup\"]\n";
  f.order(governed);
  CHECK(f.script->made.back().control == std::vector<std::string>{"cgroup"});
}

// -- its end --------------------------------------------------------------------------------------

TEST_CASE("worker: its end aborts the engine, and what completes later is dropped") {
  scripted_worker f;
  f.prepare();
  const auto running = f.run(fbs::OpKind::forward, 0, 0, 0), posted = f.run(fbs::OpKind::backward);
  const auto finished = f.finish(false), saved = f.save(9);
  f.script->said();
  caf::anon_send_exit(f.target, caf::exit_reason::user_shutdown);
  f.script->complete("backward 0 in 0");  // it waits for the worker, which goes before it looks
  f.settle();
  CHECK_FALSE(f.lives(f.target));
  CHECK(f.script->said() == worker_calls{"abort", "gone"});
  f.complete("forward 0 in 0 of batch 0");
  f.complete("update 9 by 0.25", error{errc::cancelled, "aborted"});
  std::thread([&] { f.script->complete("save 9 in /partial"); }).join();
  f.script->made[0].on_save_progress();
  f.settle();
  CHECK(f.waits<fbs::OpDone>(posted));
  CHECK(f.waits<fbs::OpDone>(running));
  CHECK(f.waits<fbs::StepDone>(finished));
  CHECK(f.waits<fbs::Saved>(saved));
}
