// The node between a scripted connector, host and coordinator: how it joins, beats, takes ranks,
// and how all that it spawned goes with it.
#include "tests/actors/scripted_node.hpp"

#include "actors/base/ask.hpp"
#include "actors/base/defaults.hpp"
#include "actors/health/medic.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;

// -- joining --------------------------------------------------------------------------------------

TEST_CASE("node: it is published at a port of its own choice before it knocks") {
  scripted_node f;
  f.start();
  REQUIRE(f.wires->published.size() == 1);
  const auto& p = f.wires->published[0];
  CHECK(p.who == f.target.address());
  CHECK(p.port == 0);
  CHECK(p.address == "here");
  CHECK(p.reuse);
  CHECK(p.messages == f.target->message_types());
  CHECK(f.wires->tried == std::vector<far_end>{{"head", head_port}});
  CHECK(f.status().state == "joining");
  CHECK(f.status().actor == "node/m");
}

TEST_CASE("node: where it cannot listen it ends, and knocks nowhere") {
  scripted_node f;
  f.wires->no_port = error{errc::io, "all are taken", {}, "ports_taken"};
  f.start();
  CHECK(f.wires->tried.empty());
  const auto why = f.ended();
  CHECK(is_error(why, "ports_taken", "here"));
}

TEST_CASE("node: its Hello says who it is, where it is reached, and what it runs on") {
  scripted_node f;
  f.knock();
  const auto hello = f.coordinator.take<fbs::Hello>();
  CHECK(hello.is_request());
  CHECK_FALSE(hello.is_urgent());
  CHECK(hello.m.epoch() == 0);
  CHECK(hello.handle(1) == caf::actor_cast<caf::strong_actor_ptr>(f.target));
  CHECK(hello.handle(2) == f.observer.self());
  const auto h = hello.m.unpack();
  CHECK(h.node == "m");
  CHECK(h.schema_hash == own_schema_hash());
  CHECK(h.program_version == own_version());
  CHECK(h.pid == static_cast<uint32_t>(getpid()));
  CHECK(h.process == process_tag());
  CHECK(h.host == "here");
  CHECK(h.port == own_port);
  CHECK(h.epoch == 0);
  REQUIRE(h.hardware);
  CHECK(h.hardware->hostname == "machine");
  CHECK(h.hardware->instance_id == "i7");
  CHECK(h.hardware->cores == 3);
  CHECK(h.hardware->gpus == std::vector<std::string>{"all of them"});
}

TEST_CASE("node: of a machine's accelerators it names those that its process may use") {
  scripted_node f;
  f.options.accelerators = {"the second one"};
  f.knock();
  const auto h = f.coordinator.take<fbs::Hello>().m.unpack();
  CHECK(h.hardware->gpus == std::vector<std::string>{"the second one"});
}

TEST_CASE("node: while nobody is there it knocks five times a second, and joins who comes") {
  scripted_node f;
  f.start();
  f.pass(199ms);
  CHECK(f.wires->tried.size() == 1);
  f.pass(1ms);
  CHECK(f.wires->tried.size() == 2);
  f.wires->there[{"head", head_port}] = nullptr;  // a process, but nothing is published
  f.pass(200ms);
  CHECK(f.wires->tried.size() == 3);
  CHECK(f.coordinator.idle());
  f.put_up_coordinator();
  f.pass(200ms);
  f.coordinator.take<fbs::Hello>().answer<fbs::Welcome>(
      [](auto& w) { w = scripted_node::welcome(); });
  CHECK(f.pass_answered(2s) == 8);  // it beats, and knocks no more
  CHECK(f.wires->tried.size() == 4);
  CHECK(f.wires->published.size() == 1);
  CHECK(f.goes_on());
}

TEST_CASE("node: a knock that nobody answers is given up after five seconds, and tried again") {
  scripted_node f;
  f.options.join_timeout_ms = 30'000;
  f.wires->silent = true;
  f.start();
  f.pass(5s);
  CHECK(f.wires->tried.size() == 1);
  f.wires->silent = false;
  f.put_up_coordinator();
  f.pass(200ms);
  CHECK(f.wires->tried.size() == 2);
  f.coordinator.take<fbs::Hello>();
}

TEST_CASE("node: the time to join is bounded, and its end says where to look") {
  scripted_node f;
  f.start();
  f.pass(1s);
  CHECK(f.wires->tried.size() == 6);
  CHECK(f.goes_on());
  f.pass(200ms);
  const auto why = f.ended();
  CHECK(is_error(why, no_coordinator, "head:4711", "cannot_connect_to_node", "`troupe up`"));
  f.pass(5s);
  CHECK(f.wires->tried.size() == 7);
}

TEST_CASE("node: whom the coordinator refuses ends with its words") {
  scripted_node f;
  f.knock();
  f.coordinator.take<fbs::Hello>().refuse(
      {errc::version_mismatch, "node m runs version 0", "update it", "too_old"});
  const auto why = f.ended();
  CHECK(why.code == errc::version_mismatch);
  CHECK(is_error(why, "too_old", "m", 0));
  CHECK(why.hint == "update it");
}

TEST_CASE("node: a coordinator that goes before its welcome is the end, told once") {
  scripted_node f;
  f.knock();
  f.coordinator.die();
  CHECK(f.ended().code == errc::unavailable);
}

TEST_CASE("node: nothing that it is told counts before it has joined") {
  scripted_node f;
  f.knock();
  f.shut_down();
  CHECK(f.goes_on());
  const auto early = f.assigned(scripted_node::ranks_of({0}));
  REQUIRE_FALSE(early);
  CHECK(early.error().code == errc::version_mismatch);
  CHECK_FALSE(f.living("loader/m"));
  CHECK(f.status().state == "joining");
}

// -- beating --------------------------------------------------------------------------------------

TEST_CASE("node: a configuration that it cannot read ends it") {
  scripted_node f;
  f.knock();
  f.coordinator.take<fbs::Hello>().answer<fbs::Welcome>([](auto& w) {
    w = scripted_node::welcome();
    w.config_toml = "[cluster";
  });
  CHECK(mentions(f.ended(), train::sent_configuration));
}

TEST_CASE("node: in a job that has drills it takes no part unless it was told to") {
  for (const bool told : {false, true}) {
    scripted_node f;
    f.options.makes_drills = told;
    f.knock();
    f.coordinator.take<fbs::Hello>().answer<fbs::Welcome>([](auto& w) {
      w = scripted_node::welcome();
      w.config_toml += "[[inject]]\nwho = 'rank 0'\nwhat = 'fail'\n";
    });
    if (told)
      CHECK(f.goes_on());
    else
      CHECK(is_error(f.ended(), "makes_no_drills", "m"));
  }
}

TEST_CASE("node: it beats at the interval that it was welcomed with, numbered, with its usage") {
  scripted_node f;
  f.join();
  f.pass(249ms);
  CHECK(f.coordinator.idle());
  f.pass(1ms);
  const auto first = f.coordinator.take<fbs::Heartbeat>();
  CHECK(first.is_request());
  CHECK_FALSE(first.is_urgent());  // ASK-3: its answer would be lost
  CHECK(first.m.epoch() == node_epoch);
  CHECK(first->node_index() == 3);
  CHECK(first->sequence() == 1);
  CHECK(first->rss_bytes() == 12'345);
  CHECK(first->cpu_seconds() == 1.5);
  CHECK(first->state() == fbs::NodeState::idle);
  CHECK(first->step() == 0);
  CHECK(first->vitals()->machine() == nullptr);  // there is nothing to sample
  scripted_node::answer(first);
  f.machine->used = {777, 2.5};
  REQUIRE(f.assigned(scripted_node::ranks_of({0, 1})));
  const auto finish_step = [&f](const char* stage, uint64_t step) {
    f.runtime().registry.find(stage)->publish(
        [&](auto& values) { values_of<fbs::StageStatusT>(values).step = step; });
  };
  finish_step("stage/0", 8);
  finish_step("stage/1", 7);
  f.pass(250ms);
  const auto second = f.coordinator.take<fbs::Heartbeat>();
  CHECK(second->step() == 7);  // all of its ranks have finished it
  CHECK(second->sequence() == 2);
  CHECK(second->sent_ns() - first->sent_ns() == 250'000'000);
  CHECK(second->rss_bytes() == 777);
  CHECK(second->cpu_seconds() == 2.5);
  CHECK(second->state() == fbs::NodeState::training);
}

TEST_CASE("node: its heartbeat says how its ranks and its machine are, as they published it") {
  scripted_node f;
  fbs::MachineVitalsT said;
  said.steal_percent = 12.5;
  f.machine->sampler = [said](int64_t) { return said; };
  f.join();
  f.pass(250ms);
  const auto first = f.coordinator.take<fbs::Heartbeat>();
  scripted_node::answer(first);
  CHECK(first->vitals()->ranks() == nullptr);  // none yet
  CHECK(first->vitals()->machine()->steal_percent() == 12.5);
  CHECK(f.machine->sampled_folder == train::test::planned_job().job.job.output);
  REQUIRE(f.assigned(scripted_node::ranks_of({4, 7})));
  f.runtime().registry.find("worker/7")->publish([](auto& values) {
    values_of<fbs::WorkerStatusT>(values).operations = 99;
    values_of<fbs::WorkerStatusT>(values).threads = 6;
  });
  f.runtime().registry.find("worker/7")->publish("backward", 1);
  f.pass(250ms);
  const auto second = f.coordinator.take<fbs::Heartbeat>();
  REQUIRE(second->vitals()->ranks()->size() == 2);
  const auto& ranks = *second->vitals()->ranks();
  CHECK(ranks[0]->rank() == 4);
  CHECK(ranks[0]->state() == fbs::RankState::starting);
  CHECK(ranks[1]->state() == fbs::RankState::computing);
  CHECK(ranks[1]->finished() == 99);
  CHECK(second->vitals()->rank_threads() == 6);
}

TEST_CASE("node: an answered heartbeat says how far the coordinator's clock is") {
  scripted_node f;
  f.join();
  f.pass(250ms);
  scripted_node::answer(f.coordinator.take<fbs::Heartbeat>(), 70'000);
  const auto learned = f.runtime().clock();
  CHECK(learned.offset_ns == 70'000);
  CHECK(learned.bound_ns == 0);  // it was answered at once
}

TEST_CASE("NOD-1: node: without its coordinator it ends") {
  scripted_node f;
  f.join();
  REQUIRE(f.assigned(scripted_node::ranks_of({0})));
  f.pass_answered(1s);
  f.coordinator.die();
  CHECK(f.ended() == coordinator_lost());
}

TEST_CASE("NOD-1: node: a coordinator that is silent for longer than the dead time is gone") {
  scripted_node f;
  f.join();
  CHECK(f.pass_answered(3s) == 12);
  f.pass(1200ms);
  CHECK(f.goes_on());
  f.pass(50ms);
  CHECK(f.ended() == coordinator_silent(1250));
}

TEST_CASE("NOD-1: node: heartbeats that are refused are not answered") {
  scripted_node f;
  f.join();
  for (int i = 0; i < 4; ++i) {
    f.pass(250ms);
    f.coordinator.take<fbs::Heartbeat>().refuse({errc::not_found, "who is that?"});
    CHECK(f.goes_on());
  }
  f.pass(250ms);
  CHECK(f.ended() == coordinator_silent(1250));
  CHECK(f.coordinator.idle());
}

// -- ranks ----------------------------------------------------------------------------------------

TEST_CASE("node: given ranks it answers with its loader and a stage for each, in their order") {
  scripted_node f;
  f.join();
  const auto number = f.assign(scripted_node::ranks_of({6, 4}));
  const auto answer = f.coordinator.answer_of<fbs::Assigned>(number);
  REQUIRE(answer);
  CHECK(answer->epoch() == node_epoch);
  CHECK(answer->unpack().ranks == std::vector<uint32_t>{6, 4});
  CHECK(f.coordinator.handles_beside(number) ==
        std::vector{f.living("loader/m"), f.living("stage/6"), f.living("stage/4")});
  const auto s = f.status();
  CHECK(s.state == "training");
  CHECK(s.values->node->stages == 2);
}

TEST_CASE("node: without a loader to run, none is made") {
  scripted_node f;
  f.join();
  const auto number = f.assign(scripted_node::ranks_of({0}, false));
  REQUIRE(f.coordinator.answer_of<fbs::Assigned>(number));
  const auto handles = f.coordinator.handles_beside(number);
  REQUIRE(handles.size() == 2);
  CHECK_FALSE(handles[0]);
  CHECK(handles[1]);
  CHECK_FALSE(f.living("loader/m"));
}

TEST_CASE("NOD-2: node: it takes ranks once") {
  scripted_node f;
  f.join();
  const auto old = f.assigned(scripted_node::ranks_of({0}), node_epoch - 1);
  REQUIRE_FALSE(old);
  CHECK(old.error().code == errc::version_mismatch);
  CHECK_FALSE(f.living("stage/0"));
  REQUIRE(f.assigned(scripted_node::ranks_of({0})));
  const auto loader = f.living("loader/m");
  for (const uint32_t rank : {0, 1}) {
    const auto again = f.assigned(scripted_node::ranks_of({rank}));
    REQUIRE_FALSE(again);
    CHECK(again.error() == has_ranks("m"));
  }
  CHECK_FALSE(f.living("stage/1"));
  CHECK(f.living("loader/m") == loader);
  CHECK(f.goes_on());
}

TEST_CASE("node: of two nodes the one with the later name connects, once a place") {
  scripted_node f;
  f.join();
  f.wires->tried.clear();
  f.wires->there[{"hosta", 1}] = f.person.self();
  auto a = scripted_node::ranks_of({2});
  scripted_node::add_peer(a, "a", "hosta", 1);
  scripted_node::add_peer(a, "a", "hosta", 1);  // another rank of it
  scripted_node::add_peer(a, "b", "hosta", 2);  // refuses
  scripted_node::add_peer(a, "m", "here", own_port);
  scripted_node::add_peer(a, "z", "hostz", 1);
  REQUIRE(f.assigned(a));
  CHECK(f.wires->tried == std::vector<far_end>{{"hosta", 1}, {"hosta", 2}});
  f.pass_answered(10s);
  CHECK(f.goes_on());  // without a link messages go by the coordinator
  CHECK(f.wires->tried.size() == 2);
}

TEST_CASE("node: it reads meters where an interval is given") {
  scripted_node f;
  f.join();
  CHECK_FALSE(f.living("meter/m"));
  CHECK(f.machine->meters_opened == 0);
  scripted_node metered;
  auto w = scripted_node::welcome();
  w.config_toml = job_with_meters(100);
  metered.join(w);
  CHECK(metered.living("meter/m"));
  CHECK(metered.machine->meters_opened == 1);
}

// -- ends -----------------------------------------------------------------------------------------

TEST_CASE("node: a Shutdown of its epoch is an orderly end, one of the past is none") {
  scripted_node f;
  f.join();
  f.shut_down(node_epoch - 1);
  CHECK(f.goes_on());
  CHECK(f.pass_answered(1s) == 4);
  f.shut_down();
  CHECK(f.ended().code == errc::none);
  const auto last = f.runtime().registry.view(true).back();
  CHECK(last.path == "node/m");
  CHECK(last.state == "leaving");
  f.pass(1s);
  CHECK(f.coordinator.idle());
}

TEST_CASE("node: a stage that dies takes the node along, with its reason") {
  const auto why = spawned_all_end([](auto& f) {
    f.end(f.living("stage/6"), {errc::io, "it is gone", {}, "disk_gone"});
  });
  CHECK(why.code == errc::io);
  CHECK(is_error(why, "disk_gone", "stage"));
}

TEST_CASE("node: a worker that dies takes the node along by its stage") {
  const auto why = spawned_all_end([](auto& f) {
    f.end(f.living("worker/4"), {errc::io, "it is gone", {}, "device_gone"});
  });
  CHECK(is_error(why, "device_gone", "stage"));
}

TEST_CASE("node: a loader that dies takes the node along: its contract says so") {
  const auto why = spawned_all_end([](auto& f) {
    f.end(f.living("loader/m"), {errc::io, "it is gone", {}, "data_gone"});
  });
  CHECK(is_error(why, "data_gone", "loader"));
}

TEST_CASE("node: without a companion that died it goes on: its contract says so") {
  for (const std::string kind : {"meter", "vitals", "medic"}) {
    CAPTURE(kind);
    scripted_node f;
    f.join_with_companions();
    f.end(f.living(kind + "/m"), {errc::io, "the sensor is gone"});
    CHECK_FALSE(f.living(kind + "/m"));
    CHECK(f.goes_on());
    CHECK(f.pass_answered(1s) == 4);
  }
}

TEST_CASE("NOD-3: node: with an orderly end all that it spawned ends, and its end is told once") {
  CHECK(spawned_all_end([](auto& f) { f.shut_down(); }).code == errc::none);
}

TEST_CASE("NOD-3: node: with a coordinator's death all that it spawned ends, told once") {
  CHECK(spawned_all_end([](auto& f) { f.coordinator.die(); }) == coordinator_lost());
}

TEST_CASE("NOD-3: node: killed, it takes along all that it spawned, and its end is told once") {
  CHECK(spawned_all_end([](auto& f) { f.kill(); }) == node_killed());
}

TEST_CASE("NOD-3: node: killed while it joins it tells its end as well") {
  scripted_node f;
  f.start();
  f.kill();
  CHECK(f.ended().code == errc::cancelled);
  f.pass(2s);
  CHECK(f.wires->tried.size() == 1);
}

// -- the check at join ----------------------------------------------------------------------------

namespace {

/// Of a machine on which a check has this verdict.
health::examiner saying(fbs::CheckVerdict verdict, fbs::RunCheckupT* asked = nullptr) {
  return [verdict, asked](const fbs::RunCheckupT& what, std::stop_token) {
    if (asked != nullptr) *asked = what;
    fbs::CheckupReportT r;
    r.checks.push_back(std::make_unique<fbs::CheckResultT>());
    r.checks.back()->check = "cpu_product";
    r.checks.back()->part = "cpu1";
    r.checks.back()->verdict = verdict;
    return r;
  };
}

}  // namespace

TEST_CASE("NOD-6: a node whose machine computes wrong bits takes no ranks and ends") {
  scripted_node f;
  fbs::RunCheckupT asked;
  f.machine->examine = saying(fbs::CheckVerdict::bad, &asked);
  f.join_as_it_may();
  const auto why = f.ended();
  CHECK(is_error(why, wrong_bits, "m", "cpu_product cpu1"));
  CHECK(asked.bits_only);
  CHECK_FALSE(asked.deep);
  CHECK(f.machine->examined_folder == train::test::planned_job().job.job.output);
}

TEST_CASE("NOD-6: a node whose machine is well, or says nothing, takes its ranks") {
  for (const auto verdict : {fbs::CheckVerdict::ok, fbs::CheckVerdict::unknown}) {
    scripted_node f;
    f.machine->examine = saying(verdict);
    f.join();
    CHECK(f.assigned(scripted_node::ranks_of({4})));
    CHECK(f.goes_on());
  }
}

TEST_CASE("NOD-6: a check at join that is slow does not hold up the start") {
  scripted_node f;
  uint64_t asked = 0;
  const auto takes_ranks = [&] {
    return static_cast<bool>(f.coordinator.answer_of<fbs::Assigned>(asked));
  };
  f.machine->examine = [&](const fbs::RunCheckupT&, std::stop_token) {
    asked = f.assign(scripted_node::ranks_of({4}));
    f.pass_answered(defaults::join_checkup_patience - 50ms);
    CHECK_FALSE(takes_ranks());
    f.pass_answered(50ms);
    CHECK(takes_ranks());
    return fbs::CheckupReportT();
  };
  f.join();
  CHECK(takes_ranks());
  CHECK(f.goes_on());
  CHECK(2 * defaults::join_checkup_patience.count() <
        contract_of<node_actor, fbs::Assign>().timeout_ms);
}

TEST_CASE("NOD-6: health.checkup_at_join = false lets it in, and its medic is there") {
  scripted_node f;
  f.machine->examine = saying(fbs::CheckVerdict::bad);
  auto w = scripted_node::welcome();
  w.config_toml = job_with_meters(0, false);
  f.join(w);
  CHECK(f.living("medic/m"));
  CHECK(f.assigned(scripted_node::ranks_of({4})));
}

TEST_CASE("NOD-11: its host measures a layer, once for all who ask meanwhile") {
  scripted_node f;
  f.join();
  const auto ask = [&] {
    return f.coordinator.ask(f.target,
                             make_msg<fbs::MeasureLayers>(f.context_of(node_epoch), [](auto& l) {
                               l.threads = 3;
                               l.workers = 2;
                               l.device = "host";
                             }));
  };
  const auto first = ask(), second = ask();
  REQUIRE(f.machine->measured.size() == 1);
  const auto& of = f.machine->measured[0].of;
  CHECK(of.threads == 3);
  CHECK(of.workers == 2);
  CHECK(of.device == "host");
  REQUIRE(of.job);
  CHECK(of.job->train.steps == 4);
  f.machine->measured[0].told(2e9);
  f.settle();
  for (const auto number : {first, second}) {
    const auto told = f.coordinator.answer_of<fbs::LayersMeasured>(number);
    REQUIRE(told);
    CHECK((*told)->flops_s() == 2e9);
  }
  const auto third = ask();  // another one
  REQUIRE(f.machine->measured.size() == 2);
  f.machine->measured[1].told(error{errc::no_memory, "it has no room for a layer"});
  f.settle();
  const auto failed = f.coordinator.answer_of<fbs::LayersMeasured>(third);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == errc::no_memory);
}

TEST_CASE("NOD-11: another question is not answered by what is being measured, but behind it") {
  scripted_node f;
  f.join();
  const auto ask = [&](uint32_t threads) {
    return f.coordinator.ask(f.target,
                             make_msg<fbs::MeasureLayers>(f.context_of(node_epoch), [&](auto& l) {
                               l.threads = threads;
                               l.workers = 1;
                               l.device = "host";
                             }));
  };
  const auto two = ask(2), four = ask(4), two_again = ask(2), four_again = ask(4);
  REQUIRE(f.machine->measured.size() == 1);
  const auto told_first = f.machine->measured[0].told;  // a second question moves it
  told_first(2e9);
  f.settle();
  for (const auto number : {two, two_again})
    CHECK((*f.coordinator.answer_of<fbs::LayersMeasured>(number))->flops_s() == 2e9);
  REQUIRE(f.machine->measured.size() == 2);
  CHECK(f.machine->measured[1].of.threads == 4);
  const auto told_second = f.machine->measured[1].told;
  told_second(4e9);
  f.settle();
  for (const auto number : {four, four_again})
    CHECK((*f.coordinator.answer_of<fbs::LayersMeasured>(number))->flops_s() == 4e9);
  CHECK(f.machine->measured.size() == 2);
}

TEST_CASE("NOD-11: what is measured for a node that has gone is heard by nobody") {
  scripted_node f;
  f.join();
  f.coordinator.ask(f.target, make_msg<fbs::MeasureLayers>(f.context_of(node_epoch)));
  REQUIRE(f.machine->measured.size() == 1);
  f.kill();
  f.machine->measured[0].told(1e9);
  f.settle();
  CHECK_FALSE(f.lives(f.target));
}

TEST_CASE("NOD-5: what a test of pairs sends comes back, at most 256 KiB of it") {
  scripted_node f;
  f.join();
  for (const size_t count : {size_t{0}, size_t{1}, health::pair_bytes, health::pair_bytes + 1}) {
    const auto n = f.person.ask(f.target, make_msg<fbs::PairProbe>({}, [&](auto& p) {
                                  p.bytes.assign(count, 7);
                                }));
    const auto echo = f.person.answer_of<fbs::PairEcho>(n);
    REQUIRE(echo);
    CHECK(echo->unpack().bytes == std::vector<uint8_t>(std::min(count, health::pair_bytes), 7));
  }
}

TEST_CASE("NOD-5: the group of a test is its medic's, and a node without one says so") {
  scripted_node f;
  f.join();
  const auto open = [&] {
    return f.person.ask(f.target, make_msg<fbs::OpenTestGroup>({}, [](auto& o) {
                          o.group = "g";
                          o.rank = 1;
                          o.size = 2;
                        }));
  };
  CHECK(is_error(f.person.answer_of<fbs::TestGroupEnd>(open()).error(), no_medic, "m"));
  scripted_node g;
  g.machine->examine = saying(fbs::CheckVerdict::ok);
  g.join();
  const auto n = g.person.ask(g.target, make_msg<fbs::JoinTestGroup>({}, [](auto& j) {
                                j.group = "g";
                              }));
  const auto r = g.person.answer_of<fbs::TestGroupSeen>(n);
  CHECK(is_error(r.error(), health::no_such_end, "g"));
}
