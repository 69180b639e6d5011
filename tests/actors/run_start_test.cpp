// The run's start: what it asks of whom, phase by phase, and what it makes of refusals, deaths and
// silence in each.
#include <array>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/train/addresses.hpp"
#include "io/checkpoint/retention.hpp"
#include "messages/errors.hpp"
#include "tests/actors/scripted_run.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::train;
using namespace std::chrono_literals;
using troupe::test::partner;
using troupe::train::test::any_has;
using troupe::train::test::begun_before;
using troupe::train::test::folder_of;
using troupe::train::test::run_epoch;
using troupe::train::test::scripted_run;
using troupe::train::test::scripted_run_options;

namespace {

struct phase_of_start {
  start_phase phase;
  std::chrono::minutes patience;
  const char* words;  ///< in what it fails with
};
constexpr std::array phases_of_start{
    phase_of_start{start_phase::open_folder, 10min, "open the checkpoint folder: "},
    phase_of_start{start_phase::open_data, 30min, "open the data: "},
    phase_of_start{start_phase::build_stages, 30min, "build the stages: "},
    phase_of_start{start_phase::attach_loaders, 1min, "attach the loaders: "},
    phase_of_start{start_phase::introduce_stages, 1min, "introduce the stages: "},
    phase_of_start{start_phase::open_data_plane, 1min, "open the data plane: "},
    phase_of_start{start_phase::connect_data_plane, 1min, "connect the data plane: rank 1 (b): "},
    phase_of_start{start_phase::load_weights, 30min, "load /first/step-00000002: "}};

/// One whose phases before this have passed; all but the last partner have answered in it.
struct run_in_phase : scripted_run {
  partner asked;

  run_in_phase(const phase_of_start& at, config::launch_mode launch)
      : scripted_run({"", "", launch, begun_before()}) {
    admit();
    for (const auto& before : phases_of_start)
      if (before.phase < at.phase) pass_phase(before.phase);
    asked = pass_phase(at.phase, false);
  }
  void refuse(start_phase phase, const error& why) {
    switch (phase) {
      case start_phase::open_folder:
        return asked.take<fbs::OpenFolder>().refuse(why);
      case start_phase::open_data:
        return asked.take<fbs::OpenLoader>().refuse(why);
      case start_phase::build_stages:
        return asked.take<fbs::BuildStage>().refuse(why);
      case start_phase::attach_loaders:
        return asked.take<fbs::AttachLoader>().refuse(why);
      case start_phase::introduce_stages:
        return asked.take<fbs::Neighbours>().refuse(why);
      case start_phase::open_data_plane:
        return asked.take<fbs::OpenDataPlane>().refuse(why);
      case start_phase::connect_data_plane:
        return asked.take<fbs::DataPlaneTable>().refuse(why);
      case start_phase::load_weights:
        return asked.take<fbs::LoadCheckpoint>().refuse(why);
      case start_phase::find_copies:
        return asked.take<fbs::FindCopies>().refuse(why);
      case start_phase::choose_checkpoint:
        return asked.take<fbs::ChooseCheckpoint>().refuse(why);
    }
  }
};

}  // namespace

TEST_CASE("run: the start asks committer, loaders and stages for what the plan and the crew say") {
  scripted_run f;
  f.admit();
  auto committer = f.committer.take<fbs::OpenFolder>();
  CHECK(committer.m.epoch() == run_epoch);
  CHECK(f.loaders[0].idle());  // what cannot be saved need not be trained
  f.give_folder(committer, "/first");
  for (size_t i = 0; i < 2; ++i) {
    const auto open = f.loaders[i].take<fbs::OpenLoader>();
    const auto m = open.m.unpack();
    CHECK(m.vocab == 300);
    CHECK(m.consumers == std::vector{static_cast<uint32_t>(i)});
    CHECK(m.first_step == 1);
    CHECK(m.first_row == 0);
    CHECK(m.tells_progress);
    CHECK(m.config_toml.find("steps = 4") != std::string::npos);
    CHECK(f.stages[0].idle());  // all loaders are waited for
    open.answer<fbs::LoaderReady>([&](auto& r) { r = f.data_of(i); });
  }
  for (size_t i = 0; i < 2; ++i) {
    const auto build = f.stages[i].take<fbs::BuildStage>();
    const auto m = build.m.unpack();
    CHECK(m.rank == i);
    CHECK(m.data_rank == 0);
    CHECK(m.data_ranks == 1);
    CHECK(m.pipeline_rank == i);
    CHECK(m.pipeline_ranks == 2);
    CHECK(m.launch == 77);
    CHECK(m.first_layer == (i == 0 ? 0 : 3));
    CHECK(m.last_layer == (i == 0 ? 3 : 5));
    CHECK(m.threads == 3 + i);
    CHECK(m.device == fmt::format("cuda:{}", i));
    CHECK(m.shared_devices);
    CHECK(m.device_ranks == 1);  // each machine has its own
    build.answer<fbs::StageReady>([&](auto& r) { r.bytes = (5 - i) << 20; });
  }
  CHECK_FALSE(f.stages[0].idle());
  const auto said = f.said();
  CHECK(any_has(said, "data: 1000 tokens, 100 training windows"));
  CHECK(any_has(said, "5 MiB on the largest"));
}

TEST_CASE("run: ranks are told how many of the job share their GPU, and none shares a host so") {
  for (const auto* name : {"cuda:0", "host"}) {
    CAPTURE(name);
    scripted_run f;
    auto crew = scripted_run::crew();
    crew.devices = {name, name};
    crew.nodes[1]->host = crew.nodes[0]->host;
    f.admit(crew, f.crew_handles());
    f.pass_phase(start_phase::open_folder);
    f.pass_phase(start_phase::open_data);
    for (const auto& stage : f.stages)
      CHECK(stage.take<fbs::BuildStage>()->device_ranks() == (name[0] == 'c' ? 2 : 0));
  }
}

TEST_CASE("SUC-2: run: ranks of a head that goes on for another are of the launch of the first") {
  scripted_run_options options;
  options.first_launch = 5;
  scripted_run f(options);
  f.admit();
  f.pass_phase(start_phase::open_folder);
  f.pass_phase(start_phase::open_data);
  for (const auto& stage : f.stages) CHECK(stage.take<fbs::BuildStage>()->launch() == 5);
}

TEST_CASE("run: ENG-8: replicas that swap are built for the least memory that one is left") {
  scripted_run_options options;
  options.replicas_swap = true;
  scripted_run f(options);
  f.admit();
  f.pass_phase(start_phase::open_folder);
  f.pass_phase(start_phase::open_data);
  for (size_t i = 0; i < 2; ++i) {
    const auto asked = f.stages[i].take<fbs::BuildStage>();
    CHECK(asked->only_asks());
    CHECK(asked->swap_bytes() == 0);
    CHECK(f.stages[0].idle());  // both are waited for
    CHECK(asked->swap_device_bytes() == 0);
    asked.answer<fbs::StageReady>([&](auto& r) {
      r.swap_bytes = (5 - i) << 20;
      r.swap_device_bytes = (6 + i) << 20;
    });
  }
  for (size_t i = 0; i < 2; ++i) {
    const auto build = f.stages[i].take<fbs::BuildStage>();
    CHECK_FALSE(build->only_asks());
    CHECK(build->swap_bytes() == 4 << 20);
    CHECK(build->swap_device_bytes() == 6 << 20);
    CHECK(build->data_rank() == i);
    CHECK(build->threads() == 3 + i);
    build.answer<fbs::StageReady>([&](auto& r) { r.bytes = 4 << 20; });
  }
  CHECK(any_has(f.said(), "4 MiB on the largest"));
}

TEST_CASE("ENG-11: run: replicas have a second version where the drives of all have room for it") {
  for (const size_t lacking : {0u, 1u, 2u}) {
    CAPTURE(lacking);
    scripted_run_options options;
    options.replicas_swap = true;
    scripted_run f(options);
    f.admit();
    f.pass_phase(start_phase::open_folder);
    f.pass_phase(start_phase::open_data);
    for (size_t i = 0; i < 2; ++i) {
      const auto asked = f.stages[i].take<fbs::BuildStage>();
      CHECK_FALSE(asked->swap_second_version());
      asked.answer<fbs::StageReady>([&](auto& r) {
        r.swap_bytes = 1 << 20;
        r.swap_second_version = i != lacking;
      });
    }
    for (const auto& stage : f.stages)  // one answer, whatever it said itself
      CHECK(stage.take<fbs::BuildStage>()->swap_second_version() == (lacking == 2));
  }
}

TEST_CASE(
    "JOB-22: run: ranks take a checkpoint's files where a drive has no room for all of theirs") {
  for (const bool replicas : {false, true})
    for (const uint64_t room : {9u, 10u}) {
      CAPTURE(replicas);
      CAPTURE(room);
      scripted_run_options options;
      options.consumes = true;
      options.replicas_swap = replicas;
      scripted_run f(options);
      f.admit();
      f.pass_phase(start_phase::open_folder);
      f.pass_phase(start_phase::open_data);
      for (size_t i = 0; i < 2; ++i) {
        const auto asked = f.stages[i].take<fbs::BuildStage>();
        CHECK(asked->only_asks());
        CHECK_FALSE(asked->swap_consumes());
        CHECK(f.stages[0].idle());  // both are waited for
        asked.answer<fbs::StageReady>([&](auto& r) {
          r.swap_bytes = 1 << 20;
          r.swap_file_bytes = 4 + 2 * i;  // room for either
          r.swap_free_bytes = room;
        });
      }
      for (const auto& stage : f.stages) {
        const auto build = stage.take<fbs::BuildStage>();
        CHECK_FALSE(build->only_asks());
        CHECK(build->swap_consumes() == (room == 9));
      }
    }
}

TEST_CASE("run: a replica that says that its memory is too small ends the start") {
  scripted_run_options options;
  options.replicas_swap = true;
  scripted_run f(options);
  f.admit();
  f.pass_phase(start_phase::open_folder);
  f.pass_phase(start_phase::open_data);
  f.stages[0].take<fbs::BuildStage>().answer<fbs::StageReady>([](auto& r) { r.swap_bytes = 1; });
  f.stages[1].take<fbs::BuildStage>().refuse({errc::bad_config, "a rank has 1 MiB"});
  const auto end = f.ended();
  CHECK(end.code == static_cast<uint8_t>(errc::bad_config));
  CHECK(f.stages[0].take_all<fbs::BuildStage>().empty());
}

TEST_CASE("run: the stages meet their loaders, their neighbours and each other, and step") {
  scripted_run f;
  f.admit();
  for (int p = 0; p < static_cast<int>(start_phase::attach_loaders); ++p)
    f.pass_phase(static_cast<start_phase>(p));
  for (size_t i = 0; i < 2; ++i) {
    const auto attach = f.stages[i].take<fbs::AttachLoader>();
    CHECK(attach->shared_memory()->str() == fmt::format("/memory{}", i));
    CHECK(attach->slot_bytes() == 64 + i);
    CHECK(attach->slots() == 4 + i);
    CHECK(attach->rows() == 6 + i);
    CHECK(attach->first_row() == 0);
    CHECK(attach.handle(1) == f.loaders[i].self());
    attach.answer<fbs::Ack>();
  }
  const auto first = f.stages[0].take<fbs::Neighbours>();
  CHECK(first->previous_rank() == -1);
  CHECK(first->next_rank() == 1);
  CHECK(first.handle(1) == nullptr);
  CHECK(first.handle(2) == f.stages[1].self());
  first.answer<fbs::Ack>();
  const auto second = f.stages[1].take<fbs::Neighbours>();
  CHECK(second->previous_rank() == 0);
  CHECK(second->next_rank() == -1);
  CHECK(second.handle(1) == f.stages[0].self());
  CHECK(second.handle(2) == nullptr);
  second.answer<fbs::Ack>();
  for (size_t i = 0; i < 2; ++i) {
    const auto open = f.stages[i].take<fbs::OpenDataPlane>();
    CHECK(open->host()->str() == fmt::format("host{}", i));
    open.answer<fbs::DataPlaneOffer>([&](auto& o) { f.offer(o, i); });
  }
  for (size_t i = 0; i < 2; ++i) {
    const auto table = f.stages[i].take<fbs::DataPlaneTable>();
    REQUIRE(table->groups()->size() == 1);
    const auto list = address_list::of(table->groups()->Get(0)->addresses());
    REQUIRE(list);
    CHECK(list->all() ==
          std::vector{fmt::format("from 0 to {}", i), fmt::format("from 1 to {}", i)});
    table.answer<fbs::DataPlaneReady>();
  }
  for (const auto& stage : f.stages) {
    const auto run_step = stage.take<fbs::RunStep>();
    CHECK(run_step->step() == 1);
    CHECK(run_step->lr() > 0);
    CHECK(run_step.m.header().parent == run_step.m.header().trace_low);  // the step's root
  }
  CHECK(f.status().state == "training");
  CHECK(f.coordinator.idle());
}

TEST_CASE(
    "RUN-7: run: data that take long are waited for while a loader tells how far it has come") {
  scripted_run f;
  f.admit();
  f.pass_phase(start_phase::open_folder);
  const auto tokenises = [&] {
    f.loaders[0].tell(f.run, f.make<fbs::Notice>([](auto& n) { n.text = "tokenising"; }));
  };
  for (const auto& loader : f.loaders) loader.take<fbs::OpenLoader>();  // and does not answer
  for (int again = 0; again < 3; ++again) {
    f.pass(29min);
    tokenises();
    f.pass(1min - 1ms);
    CHECK(f.loaders[1].idle());
    f.pass(1ms);
    CHECK_FALSE(f.loaders[0].take<fbs::OpenLoader>()->tells_progress());  // the first one does
    CHECK_FALSE(f.loaders[1].idle());
    if (again < 2) f.loaders[1].take<fbs::OpenLoader>();
  }
  f.committer.tell(f.run, f.make<fbs::Notice>([](auto& n) { n.text = "of something else"; }));
  f.pass(30min);
  CHECK(is_error(error_of(f.ended()), no_answer, "start_s"));
}

TEST_CASE(
    "RUN-7: run: a loader that is slower than the first is waited for, and a person hears one") {
  scripted_run f;
  f.admit();
  f.pass_phase(start_phase::open_folder);
  const auto tells = [&](size_t loader, const char* text) {
    f.loaders[loader].tell(f.run, f.make<fbs::Notice>([&](auto& n) { n.text = text; }));
  };
  tells(0, "the first one");
  f.loaders[0].take<fbs::OpenLoader>().answer<fbs::LoaderReady>([&](auto& r) { r = f.data_of(0); });
  tells(1, "the second one");
  const auto slow = f.loaders[1].take<fbs::OpenLoader>();
  f.pass(30min);
  tells(1, "the second one");
  f.pass(30min);
  const auto said = f.said();
  CHECK(any_has(said, "the first one"));
  CHECK_FALSE(any_has(said, "the second one"));
  CHECK(f.coordinator.take_all<fbs::RunEnded>().empty());
  f.loaders[0].take<fbs::OpenLoader>();
  f.loaders[0].take<fbs::OpenLoader>().answer<fbs::LoaderReady>([&](auto& r) { r = f.data_of(0); });
  f.loaders[1].take<fbs::OpenLoader>();
  f.loaders[1].take<fbs::OpenLoader>().answer<fbs::LoaderReady>([&](auto& r) { r = f.data_of(1); });
  CHECK_FALSE(f.stages[0].idle());  // which are built now
}

TEST_CASE("RUN-7: run: in a recovery data are waited for as in a start, of which no person hears") {
  scripted_run f({.recovers = true});
  f.start();
  for (const auto& stage : f.stages) stage.take<fbs::RunStep>();
  f.lose("b");
  f.coordinator.take<fbs::Recover>();
  f.admit(f.crew(), f.crew_handles(), run_epoch + 1);
  f.pass_phase(start_phase::open_folder);
  for (const auto& loader : f.loaders) CHECK(loader.take<fbs::OpenLoader>()->tells_progress());
  f.loaders[0].tell(f.run, make_msg<fbs::Notice>(f.context_of(run_epoch + 1),
                                                 [](auto& n) { n.text = "tokenising"; }));
  f.pass(30min);
  for (const auto& loader : f.loaders) {
    REQUIRE_FALSE(loader.idle());
    CHECK_FALSE(loader.take<fbs::OpenLoader>()->tells_progress());
  }
  CHECK(f.coordinator.idle());
  CHECK_FALSE(any_has(f.said(), "tokenising"));
}

TEST_CASE("run: what it goes on from is loaded by every stage, and the data begin behind it") {
  scripted_run f({"", "", {}, begun_before()});
  f.admit();
  f.pass_phase(start_phase::open_folder);
  for (const auto& loader : f.loaders) {
    const auto open = loader.take<fbs::OpenLoader>();
    CHECK(open->first_step() == 3);
    CHECK(open->first_row() == 4);  // 32 tokens in rows of 8
    open.answer<fbs::LoaderReady>([&](auto& r) { r = f.data_of(0); });
  }
  for (int p = 2; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
    f.pass_phase(static_cast<start_phase>(p));
  for (const auto& stage : f.stages) {
    const auto load = stage.take<fbs::LoadCheckpoint>();
    CHECK(load->directory()->str() == folder_of(2));
    CHECK(load->optimizer());
    CHECK(f.stages[1].take_all<fbs::RunStep>().empty());
    load.answer<fbs::Loaded>();
  }
  CHECK(f.stages[1].take<fbs::RunStep>()->step() == 3);
}

namespace {

/// One whose ranks have loaded what it goes on from; the last of them has its files as its state.
struct run_in_files : scripted_run {
  run_in_files() : scripted_run({"", "", {}, begun_before()}) {
    admit();
    for (int p = 0; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
      pass_phase(static_cast<start_phase>(p));
    stages[0].take<fbs::LoadCheckpoint>().answer<fbs::Loaded>();
    CHECK(committer.idle());
    stages[1].take<fbs::LoadCheckpoint>().answer<fbs::Loaded>(
        [](auto& l) { l.takes_files = true; });
  }
};

}  // namespace

TEST_CASE("JOB-22: run: no rank begins a step before the checkpoint in its files is given up") {
  run_in_files f;
  const auto asked = f.committer.take<fbs::GiveUpCheckpoint>();
  CHECK(asked->directory()->str() == folder_of(2));
  for (const auto& stage : f.stages) CHECK(stage.take_all<fbs::RunStep>().empty());
  asked.answer<fbs::Ack>();
  for (size_t i = 0; i < 2; ++i) {
    const auto begun = f.stages[i].take<fbs::RunStep>();
    CHECK(begun->step() == 3);
    f.end_step(begun, i);
  }
  for (const auto& stage : f.stages) CHECK(stage.take<fbs::RunStep>()->step() == 4);
  CHECK(f.committer.take_all<fbs::GiveUpCheckpoint>().empty());
}

TEST_CASE("JOB-22: run: a checkpoint that is not given up ends it before any step") {
  run_in_files f;
  f.committer.take<fbs::GiveUpCheckpoint>().refuse(
      io::checkpoint::not_given_up(folder_of(2), "alice holds it"));
  CHECK(is_error(error_of(f.ended()), io::checkpoint::not_given_up, "alice"));
  for (const auto& stage : f.stages) CHECK(stage.take_all<fbs::RunStep>().empty());
}

TEST_CASE("JOB-22: run: where one rank cannot load it a checkpoint in another's files stays") {
  scripted_run f({"", "", {}, begun_before()});
  f.admit();
  for (int p = 0; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
    f.pass_phase(static_cast<start_phase>(p));
  f.stages[0].take<fbs::LoadCheckpoint>().answer<fbs::Loaded>(
      [](auto& l) { l.takes_files = true; });
  f.stages[1].take<fbs::LoadCheckpoint>().refuse({errc::bad_data, "a shard is damaged"});
  f.pass(10min);
  CHECK(f.committer.take_all<fbs::GiveUpCheckpoint>().empty());
  for (const auto& stage : f.stages) CHECK(stage.take_all<fbs::RunStep>().empty());
}

TEST_CASE("JOB-22: run: who reads the checkpoint in its files is waited for before any step") {
  run_in_files f;
  for (uint64_t i = 0; i < 3; ++i) {
    CHECK(f.status().state == "giving a checkpoint up");  // no step, which would be stuck
    const auto asked = f.committer.take<fbs::GiveUpCheckpoint>();
    CHECK(asked->left_ms() == 600'000 - i * 5'000);
    asked.refuse(io::checkpoint::not_given_up_yet(folder_of(2), "somebody reads it"));
    f.pass(4s);
    caf::anon_send(f.run, caf::tick_atom_v);  // of another wait
    f.pass(1s - 1ms);
    CHECK(f.committer.idle());
    f.pass(1ms);
  }
  CHECK(f.coordinator.idle());
  f.committer.take<fbs::GiveUpCheckpoint>().answer<fbs::Ack>();
  CHECK(f.status().state == "training");
  for (const auto& stage : f.stages) CHECK(stage.take<fbs::RunStep>()->step() == 3);
}

TEST_CASE("RUN-2: JOB-22: a committer that says nothing of it ends the run when its time is over") {
  run_in_files f;
  const auto asked = f.committer.take<fbs::GiveUpCheckpoint>();
  f.pass(10min - 1ms);
  CHECK(f.coordinator.idle());
  f.pass(1ms);
  CHECK(f.ended().code == static_cast<uint8_t>(errc::timeout));
  asked.answer<fbs::Ack>();
  for (const auto& stage : f.stages) CHECK(stage.take_all<fbs::RunStep>().empty());
}

TEST_CASE("run: a crew that does not fit the plan ends it") {
  const auto refused = [](const char* words, auto spoil) {
    scripted_run f;
    auto ready = f.crew();
    auto handles = f.crew_handles();
    spoil(ready, handles);
    f.admit(ready, handles);
    const auto end = f.ended();
    CHECK(end.code == static_cast<uint8_t>(errc::bug));
    CHECK(end.message.find(words) != std::string::npos);
    CHECK(f.committer.idle());
  };
  refused("a crew of 3", [](auto&, auto& handles) { handles.pop_back(); });
  refused("a crew of 5", [](auto&, auto& handles) { handles.push_back(handles[0]); });
  refused("a crew of 4", [](auto& ready, auto&) { ready.devices.pop_back(); });
  refused("a crew of 4", [](auto& ready, auto&) { ready.nodes[1]->loader_ranks.clear(); });
  refused("rank 1 is on a node that is not there", [](auto& ready, auto& handles) {
    ready.nodes.pop_back();
    handles.pop_back();
  });
  refused("a loader of a rank that is not there",
          [](auto& ready, auto&) { ready.nodes[1]->loader_ranks = {2}; });
}

TEST_CASE("run: a refusal in any phase of the start ends it with whose and what it was") {
  for (const auto& at : phases_of_start) {
    run_in_phase f(at, config::launch_mode::local);
    CAPTURE(at.words);
    CHECK(f.coordinator.idle());
    f.refuse(at.phase, {errc::io, "no such disk", "buy one"});
    const auto end = f.ended();
    CHECK(end.code == static_cast<uint8_t>(errc::io));
    CHECK(end.message == at.words + std::string("no such disk"));
    CHECK(end.hint == "buy one");
    CHECK(f.status().state == "ended");
  }
}

TEST_CASE("RUN-2: silence in any phase of the start ends it when its time is over, not before") {
  for (const auto& at : phases_of_start) {
    run_in_phase f(at, config::launch_mode::local);
    CAPTURE(at.words);
    f.pass(at.patience - 1ms);
    CHECK(f.coordinator.idle());
    f.pass(1ms);
    const auto end = f.ended();
    CHECK(end.code == static_cast<uint8_t>(errc::timeout));
    CHECK(end.message.find(at.words) == 0);
    f.refuse(at.phase, {errc::io, "too late"});
    CHECK(f.coordinator.idle());
  }
}

TEST_CASE(
    "JOB-10: a partner that dies in any phase of the start ends it, with a word of its node") {
  for (const auto& at : phases_of_start)
    for (const auto launch : {config::launch_mode::external, config::launch_mode::local}) {
      CAPTURE(at.words);
      run_in_phase explained(at, launch);
      explained.asked.die();
      explained.pass(1s);
      CHECK(explained.coordinator.idle());
      explained.lose("b");
      CHECK(explained.ended().message == "node b is gone");
      explained.pass(1h);
      CHECK(explained.coordinator.idle());
      run_in_phase unexplained(at, launch);
      unexplained.asked.die();
      unexplained.pass(2s - 1ms);
      CHECK(unexplained.coordinator.idle());
      unexplained.pass(1ms);
      const auto end = unexplained.ended();
      CHECK(end.code == static_cast<uint8_t>(errc::unavailable));
      CHECK(end.message.find(at.words) == 0);
    }
}

TEST_CASE("run: offers that do not fit together end it") {
  scripted_run f;
  f.admit();
  for (int p = 0; p < static_cast<int>(start_phase::open_data_plane); ++p)
    f.pass_phase(static_cast<start_phase>(p));
  for (const auto& stage : f.stages)
    stage.take<fbs::OpenDataPlane>().answer<fbs::DataPlaneOffer>([&](auto& o) { f.offer(o, 0); });
  const auto end = f.ended();
  CHECK(is_error(error_of(end), train::rank_taken_twice, "pipe/0"));
  CHECK(f.stages[0].idle());
}

TEST_CASE("run: a job without a start ends as the coordinator says") {
  scripted_run f;
  const error why(errc::timeout, "b did not join", "look at its log", "nodes_missing");
  const auto fail = [&](uint32_t epoch) {
    f.coordinator.tell(f.run, make_msg<fbs::AdmissionFailed>(f.context_of(epoch),
                                                             [&](auto& a) { put_error(why, a); }));
  };
  fail(run_epoch - 1);
  CHECK(f.coordinator.idle());
  fail(run_epoch);
  const auto end = f.ended();
  CHECK(error_of(end) == why);
  CHECK(end.step == 0);
  f.admit();
  CHECK(f.committer.idle());
}

TEST_CASE("run: a lost node and a stop end the start at once") {
  scripted_run lost;
  lost.admit();
  lost.lose("b", run_epoch - 1);
  CHECK(lost.coordinator.idle());
  lost.lose("b");
  const auto end = lost.ended();
  CHECK(end.code == static_cast<uint8_t>(errc::unavailable));
  CHECK(end.message == "node b is gone");
  scripted_run stopped;
  stopped.admit();
  stopped.stop(true, run_epoch - 1);
  CHECK(stopped.coordinator.idle());
  stopped.stop(true, 0);  // a person's, who lives in no epoch
  CHECK(stopped.ended().code == static_cast<uint8_t>(errc::cancelled));
  stopped.pass_phase(start_phase::open_folder);  // an answer that comes late
  CHECK(stopped.loaders[0].idle());
}

TEST_CASE("run: a crew of another epoch is none") {
  scripted_run f;
  f.admit(f.crew(), f.crew_handles(), run_epoch - 1);
  CHECK(f.committer.idle());
  CHECK(f.coordinator.idle());
  f.admit();
  CHECK_FALSE(f.committer.idle());
}
