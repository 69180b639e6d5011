// The worker and copies in memory: what it tells, before it has an engine too, and what it asks of
// one.
#include "actors/train/worker.hpp"

#include <doctest/doctest.h>

#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/scripted_engine.hpp"

using namespace troupe;
using namespace troupe::train;
using io::checkpoint::copy_tag;
using troupe::test::partner;
using troupe::train::test::engine_script;
using troupe::train::test::scripted_engines;

namespace {

constexpr uint32_t copies_epoch = 7;

struct copying_worker : troupe::test::actor_fixture {
  std::shared_ptr<engine_script> script = std::make_shared<engine_script>();
  partner stage = make_partner("stage");
  worker_actor target;

  copying_worker() : actor_fixture(copies_epoch) {
    script->copies = std::make_shared<io::checkpoint::memory_copies>();
    script->copies->allow(1 << 20);
    target = spawn(train::worker, spawn_record{copies_epoch, 1},
                   std::make_shared<scripted_engines>(script));
  }

  void hold(int rank, copy_tag tag) {
    const auto copy = script->copies->begin(rank, tag, {{1, 1, 1}, 4096, 1});
    REQUIRE(copy);
    script->copies->seal(*copy);
  }
  fbs::CopiesFoundT found() {
    const auto asked =
        stage.ask(target, make_msg<fbs::FindCopies>(context_of(copies_epoch), [](auto&) {}));
    const auto answer = stage.answer_of<fbs::CopiesFound>(asked);
    REQUIRE(answer);
    return answer->unpack();
  }
  void build() {
    fbs::BuildStageT b;
    b.rank = 1;
    b.data_rank = 1;
    b.data_ranks = 2;
    b.pipeline_ranks = 1;
    b.last_layer = 2;
    b.threads = 1;
    b.config_toml =
        "[job]\noutput = \"out\"\n[model]\nlayers = 2\nheads = 1\nhidden = 8\nvocab = 300\n"
        "[data]\npath = \"x\"\n[train]\nsteps = 4\nbatch = 4\nseq_len = 8\n"
        "[parallel]\ndata = 2\n[cluster]\nnodes = 2\n[checkpoint.memory]\nevery = 1\n"
        "bytes = 12345\n";
    stage.ask(target, make_msg<fbs::BuildStage>(context_of(copies_epoch), b));
    script->complete("build");
    settle();
    script->said();
  }
};

}  // namespace

TEST_CASE("a worker tells which copies its process holds, before it has an engine") {
  copying_worker f;
  CHECK(f.found().copies.empty());
  f.hold(0, {6, 11});
  f.hold(1, {6, 12});
  const auto told = f.found();
  CHECK(told.rank == 1);
  REQUIRE(told.copies.size() == 2);
  CHECK(told.copies[1]->rank == 1);
  CHECK(told.copies[1]->epoch == 6);
  CHECK(told.copies[1]->step == 12);
  CHECK(told.copies[1]->bytes == 1);
}

TEST_CASE("limits: a worker tells of only so many copies in memory") {
  copying_worker f;
  for (int rank = 0; rank < 2049; ++rank)
    for (uint64_t step : {1, 2}) f.hold(rank, {1, step});
  CHECK(f.found().copies.size() == most_copies_told);
}

TEST_CASE("a worker's engine knows its keeper, copies when told, and takes back what is named") {
  copying_worker f;
  f.build();
  REQUIRE(f.script->made.size() == 1);
  const auto& made = f.script->made.front();
  CHECK(made.keeper == 0);
  CHECK(made.keeps == std::vector<int>{0});
  CHECK(made.copies == f.script->copies);
  CHECK_FALSE(f.script->copies->begin(0, {1, 1}, {{1, 1, 1}, 4096, 12'346}));  // MC-3
  f.stage.tell(f.target, make_msg<fbs::CopyState>(f.context_of(copies_epoch),
                                                  [](auto& c) { c.step = 3; }));
  f.settle();
  CHECK(f.script->said() == std::vector<std::string>{"copy 3"});
  f.stage.ask(f.target, make_msg<fbs::SaveCheckpoint>(f.context_of(copies_epoch), [](auto& s) {
                s.step = 4;
                s.directory = "/p";
                s.copy = true;
              }));
  CHECK(f.script->said() == std::vector<std::string>{"copy 4 and", "save 4 in /p"});
  const auto load =
      f.stage.ask(f.target, make_msg<fbs::LoadCheckpoint>(f.context_of(copies_epoch), [](auto& l) {
                    l.copy_epoch = 6;
                    l.copy_step = 12;
                    l.from_keeper = true;
                  }));
  f.script->complete("take back 12 of epoch 6 from the keeper");
  f.settle();
  CHECK(f.stage.answer_of<fbs::Loaded>(load));
}
