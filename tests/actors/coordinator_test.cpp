// The coordinator between scripted nodes and a scripted run: who is let in, what the run is told,
// and how all of it goes down.
#include "actors/cluster/coordinator.hpp"

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/base/hardware.hpp"
#include "actors/train/device_policy.hpp"
#include "messages/status_rows.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/scripted_cluster.hpp"
#include "tests/actors/turned_away.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace std::chrono_literals;
using troupe::test::partner;
using namespace troupe::cluster::test;

// -- joining --------------------------------------------------------------------------------------

TEST_CASE("coordinator: a node is welcomed with its place and the rules of living together") {
  scripted_cluster f;
  const auto w = f.join(1);
  REQUIRE(w);
  CHECK((*w)->epoch() == cluster_epoch);
  CHECK((*w)->node_index() == 1);
  CHECK((*w)->config_toml()->str().find("heartbeat_interval_ms = 1000") != std::string::npos);
  CHECK((*w)->config_toml()->str().find("steps = 4") != std::string::npos);
  CHECK(f.said("node b joined from address1"));
  const auto s = f.status();
  CHECK(s.state == "gathering");
  CHECK(s.values->coordinator->members == 1);
  CHECK(s.values->coordinator->refused == 0);
  CHECK(f.run.idle());
}

TEST_CASE("CRD-4: who does not belong here is refused, told of, and not observed") {
  scripted_cluster f;
  REQUIRE(f.join(0));
  f.gateway.take_all<fbs::Observe>();
  const auto refused = [&](const error& why, auto spoil) {
    auto h = f.hello(1);
    spoil(h);
    const auto w = f.join(1, h);
    REQUIRE_FALSE(w);
    CHECK(w.error() == why);
    CHECK(f.said(why.message));
    CHECK(f.gateway.idle());
  };
  const auto own = f.hello(1);
  const auto build = [&](const std::string& version, uint64_t hash) {
    return other_build("b", version, hash, own.program_version, own.schema_hash);
  };
  refused(build(own.program_version, own.schema_hash + 1), [](auto& h) { ++h.schema_hash; });
  refused(build("0.0.0", own.schema_hash), [](auto& h) { h.program_version = "0.0.0"; });
  refused(from_newer_epoch("b", 4, cluster_epoch), [](auto& h) { h.epoch = 4; });
  refused(node_not_named("c", "a, b"), [](auto& h) { h.node = "c"; });
  refused(node_here_already("a"), [](auto& h) { h.node = "a"; });
  refused(process_here_already("a"), [](auto& h) { h.hardware->instance_id = "i0"; });
  const auto shown = std::move(f.status().values->coordinator);
  CHECK(shown->members == 1);
  CHECK(shown->refused == 6);
  CHECK(f.join(1));
}

TEST_CASE("coordinator: two machines of one name are told of, with what to do") {
  const auto told_of = [](const std::string& boot_of_b, const std::string& host_of_b) {
    scripted_cluster f;
    f.boots[1] = boot_of_b;
    REQUIRE(f.join(0));
    auto h = f.hello(1);
    h.host = host_of_b;
    REQUIRE(f.join(1, h));
    return f.said(
        "nodes a and b are on two machines that are both called address0, or on one that was "
        "started again: of two, other nodes reach one alone; start each node with --advertise and "
        "an address of its own");
  };
  CHECK(told_of("boot1", "address0"));
  CHECK_FALSE(told_of("boot0", "address0"));  // one machine
  CHECK_FALSE(told_of("boot1", "address1"));
  CHECK_FALSE(told_of("", "address0"));  // not known
}

TEST_CASE("coordinator: a node that asks twice has the place it has") {
  scripted_cluster f;
  REQUIRE(f.join(0));
  const auto again = f.join(0);
  REQUIRE(again);
  CHECK((*again)->node_index() == 0);
  const auto shown = std::move(f.status().values->coordinator);
  CHECK(shown->members == 1);
  CHECK(shown->nodes.size() == 1);
}

TEST_CASE("coordinator: a node is welcomed before it is given ranks") {
  scripted_cluster f;
  REQUIRE(f.join(0));
  const auto number = f.knock(1, f.hello(1));
  CHECK(f.nodes[1].answer_of<fbs::Welcome>(number));
  for (const auto& node : f.nodes) CHECK(node.idle());
  f.pass(0ns);
  for (size_t i = 0; i < 2; ++i) {
    const auto assign = f.nodes[i].take<fbs::Assign>();
    const auto a = assign.m.unpack();
    CHECK(assign.m.epoch() == cluster_epoch);
    CHECK(a.loader);
    REQUIRE(a.ranks.size() == 1);
    CHECK(a.ranks[0]->rank == i);
    REQUIRE(a.peers.size() == 1);  // the other stage's
    CHECK(a.peers[0]->node == (i == 0 ? "b" : "a"));
    CHECK(a.peers[0]->host == fmt::format("address{}", 1 - i));
    CHECK(a.peers[0]->port == 101 - i);
  }
  f.pass_with(2s, {0, 1});  // ranks are given once
  CHECK(f.nodes[0].idle());
}

TEST_CASE("CRD-1: the run begins once all nodes have their ranks, with the handles in order") {
  scripted_cluster f;
  f.join_all();
  f.take_ranks(1);
  CHECK(f.run.idle());
  CHECK(f.status().state == "gathering");
  f.take_ranks(0);
  const auto ready = f.run.take<fbs::ClusterReady>();
  CHECK(ready.m.epoch() == cluster_epoch);
  CHECK(ready.handles() == std::vector{f.stages[0].self(), f.stages[1].self(), f.loaders[0].self(),
                                       f.loaders[1].self()});
  const auto r = ready.m.unpack();
  CHECK(r.devices == std::vector<std::string>{"host", "host"});
  CHECK_FALSE(r.shared_devices);
  REQUIRE(r.nodes.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(r.nodes[i]->host == fmt::format("address{}", i));
    CHECK(r.nodes[i]->threads == 8 + i);
    CHECK(r.nodes[i]->loader_ranks == std::vector{static_cast<uint32_t>(i)});
  }
  CHECK(f.status().state == "running");
  f.pass_with(100s, {0, 1});
  CHECK(f.run.idle());
}

TEST_CASE("GTH-1: while a node has not taken its ranks the coordinator's waits name it") {
  scripted_cluster f;
  f.join_all();
  const auto stats = f.runtime().registry.find("coordinator");
  CHECK(stats->view().waits.size() == 2);
  f.take_ranks(1);
  const auto waits = stats->view().waits;
  REQUIRE(waits.size() == 1);
  CHECK(waits.front().whom == "node/a");
  CHECK(waits.front().what == "its ranks' actors");
  f.take_ranks(0);
  CHECK(stats->view().waits.empty());
}

TEST_CASE("coordinator: nodes on one machine share its cores and a loader") {
  scripted_cluster f;
  f.boots = {"boot", "boot"};
  f.join_all();
  f.take_ranks(0);
  const auto second = f.nodes[1].take<fbs::Assign>();
  CHECK_FALSE(second->loader());
  second.answer<fbs::Assigned>([](auto& a) { a.ranks = {1}; },
                               std::vector{caf::strong_actor_ptr(), f.stages[1].self()});
  for (const auto& n : f.run.take<fbs::ClusterReady>().m.unpack().nodes) CHECK(n->threads == 4);
}

TEST_CASE("coordinator: a machine's one loader serves the ranks of its nodes") {
  scripted_cluster f;
  f.boots = {"boot", "boot"};
  f.join_all();
  f.take_ranks(0);
  f.nodes[1].take<fbs::Assign>().answer<fbs::Assigned>(
      [](auto& a) { a.ranks = {1}; },
      std::vector<caf::strong_actor_ptr>{nullptr, f.stages[1].self()});
  const auto ready = f.run.take<fbs::ClusterReady>();
  CHECK(ready.handles() ==
        std::vector{f.stages[0].self(), f.stages[1].self(), f.loaders[0].self()});
  CHECK(ready.m.unpack().nodes[0]->loader_ranks == std::vector<uint32_t>{0, 1});
  CHECK(ready.m.unpack().nodes[1]->loader_ranks.empty());
}

TEST_CASE(
    "coordinator: the gateway is told of each process that joins, and again once it has ranks") {
  scripted_cluster f;
  CHECK(f.gateway.take<fbs::Observe>()->node()->str() == "head");
  REQUIRE(f.join(1));
  const auto joined = f.gateway.take<fbs::Observe>();
  CHECK(joined->node()->str() == "b");
  CHECK(joined->host()->str() == "address1");
  CHECK(joined->pid() == 1001);
  CHECK(joined->process() == 51);
  CHECK(joined.handle(1) == f.observer.self());
  REQUIRE(f.join(0));
  f.gateway.take<fbs::Observe>();
  f.pass(0ns);
  f.take_ranks(1);
  const auto ranked = f.gateway.take<fbs::Observe>();
  CHECK(ranked->node()->str() == "b");
  CHECK(ranked->ranks()->str() == "1");
}

// -- a start that does not come -------------------------------------------------------------------

TEST_CASE("coordinator: nodes that do not join in time are named to the run") {
  scripted_cluster f;
  REQUIRE(f.join(0));
  f.pass_with(60s, {0});
  CHECK(f.run.idle());
  f.pass_with(1s, {0});
  const auto failed = f.given_up();
  CHECK(error_of(failed) == nodes_missing(60, "b", "cluster.join_timeout_ms"));
  f.end_run();
  f.run.take_all<fbs::AdmissionFailed>();
  f.pass(1s);
  CHECK(f.run.idle());
}

TEST_CASE("coordinator: no devices, no start") {
  scripted_cluster f({.device = config::device_kind::cuda});
  f.join_all();
  const auto failed = f.given_up();
  CHECK(error_of(failed) == train::no_gpu("a"));
  CHECK(f.nodes[0].idle());
}

TEST_CASE("coordinator: a node that takes its ranks wrongly, not at all, or in silence") {
  const auto failed = [](auto answer) {
    scripted_cluster f;
    f.join_all();
    f.take_ranks(0);
    answer(f);
    CHECK(f.run.take_all<fbs::ClusterReady>().empty());
    return f.given_up();
  };
  const auto fewer = failed([](auto& f) {
    f.nodes[1].template take<fbs::Assign>().template answer<fbs::Assigned>(
        [](auto& a) { a.ranks = {1}; }, std::vector{f.stages[1].self()});
  });
  CHECK(error_of(fewer) == handles_missing("b", 1, 1));
  const auto others = failed([](auto& f) {
    f.nodes[1].template take<fbs::Assign>().template answer<fbs::Assigned>(
        [](auto& a) { a.ranks = {0}; }, std::vector{f.loaders[1].self(), f.stages[1].self()});
  });
  CHECK(error_of(others) == other_ranks("b", "0", "1"));
  const auto refused = failed([](auto& f) {
    f.nodes[1].template take<fbs::Assign>().refuse({errc::io, "it is full", {}, "no_room"});
  });
  CHECK(is_error(error_of(refused), "no_room", "b"));
  const auto silent = failed([](auto& f) {
    f.pass_with(29s, {0, 1});
    CHECK(f.run.idle());
    f.pass_with(1s, {0, 1});
  });
  CHECK(is_error(error_of(silent), no_answer, "b"));
}

// -- nodes that go --------------------------------------------------------------------------------

TEST_CASE("CRD-8: a broken connection waits a second for the launcher's word") {
  scripted_cluster f;
  f.begin();
  f.nodes[1].die();
  f.pass(1s - 1ms);
  CHECK(f.run.idle());
  f.pass(1ms);
  const auto lost = f.lost();
  CHECK(lost.node == "b");
  CHECK(lost.how == "is lost: its connection broke");
  f.pass_with(30s, {0});
  CHECK(f.run.idle());
}

TEST_CASE("CRD-8: the launcher's word of a death comes first") {
  scripted_cluster f;
  f.begin();
  f.nodes[1].die();
  f.leave("b", "ended with exit code 9", 0);
  const auto lost = f.lost();
  CHECK(lost.node == "b");
  CHECK(lost.how == "ended with exit code 9");
}

TEST_CASE("CRD-8: without a launcher a broken connection is all there will be") {
  scripted_cluster f({.launch = config::launch_mode::external});
  f.begin();
  f.nodes[1].die();
  CHECK(f.lost().how == "is lost: its connection broke");
}

TEST_CASE("coordinator: a node that dies before all have joined is told of as well") {
  scripted_cluster f({.launch = config::launch_mode::external});
  REQUIRE(f.join(0));
  f.nodes[0].die();
  CHECK(f.lost().node == "a");
  CHECK(f.join(1));
  f.pass(0ns);
  CHECK(f.nodes[1].idle());  // not all are here
}

TEST_CASE("coordinator: silence makes a node suspect, then dead") {
  scripted_cluster f;
  f.begin();
  f.pass_with(3s, {0});
  CHECK(f.said("node b has been silent for 3."));
  CHECK(f.run.idle());
  f.pass_with(6s, {0});
  CHECK(f.run.idle());
  f.pass_with(2s, {0});
  const auto lost = f.lost();
  CHECK(lost.node == "b");
  CHECK(lost.how.find("has been silent for 10.") == 0);
  f.pass_with(20s, {0});
  CHECK(f.run.idle());
  f.end_run();
  CHECK(f.was_shut_down(0));
  CHECK_FALSE(f.was_shut_down(1));  // it is gone
}

TEST_CASE(
    "coordinator: heartbeats go on to the pacer, whose death ends the run: nothing is unmeasured") {
  for (const char* parent : {"", "auto"}) {
    scripted_cluster f({.pacer = true, .power_parent = parent});
    f.begin();
    REQUIRE(f.beat(1));
    const auto passed = f.pacer.take_all<fbs::Heartbeat>();
    REQUIRE(passed.size() == 1);
    CHECK(passed[0]->node_index() == 1);
    f.pacer.die();
    CHECK(f.run.was_told_to_exit());
    CHECK(f.reporter.take_all<fbs::RunEnded>().empty());  // it may have something to say yet
    f.run.die();
    CHECK(f.told_end().code != static_cast<uint8_t>(errc::none));
  }
}

TEST_CASE("CRD-20: who is given up for silence is a lost host where the monitor has said so") {
  for (const bool heard_since : {false, true}) {
    scripted_cluster f({.monitor = true});
    f.begin();
    const auto joined = f.monitor.take_all<fbs::Hello>();
    REQUIRE(joined.size() == 2);
    CHECK(joined[1]->host()->str() == "address1");
    f.pass_with(4s, {0});
    f.monitor.tell(f.target, make_msg<fbs::FindingTold>(f.context_of(0), [](auto& t) {
                     t.finding = std::make_unique<fbs::FindingT>();
                     t.finding->name = "lost_host";
                     t.finding->node = "b";
                   }));
    if (heard_since) CHECK(f.beat(1));
    f.pass_with(11s, {0});
    const auto lost = f.lost();
    CHECK(lost.node == "b");
    CHECK(lost.finding == (heard_since ? "frozen_process" : "lost_host"));
  }
}

TEST_CASE("coordinator: who joins is told with what his machine is, for the log") {
  scripted_cluster f;
  auto hello = f.hello(1);
  hello.hardware->cpu_model = "a processor";
  hello.hardware->gpus = {"a GPU"};
  hello.hardware->gpu_driver = "550.54.15";
  REQUIRE(f.join(1, hello));
  std::vector<fbs::JoinedNodeT> joined;
  for (const auto& told : f.reporter.take_all<fbs::Notice>())
    if (told->joined() != nullptr) told->joined()->UnPackTo(&joined.emplace_back());
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].node == "b");
  CHECK_FALSE(joined[0].is_spare);
  CHECK(joined[0].host == "machine");
  CHECK(joined[0].processor == "a processor");
  CHECK(joined[0].cores == hello.hardware->cores);
  CHECK(joined[0].memory_bytes == hello.hardware->memory_bytes);
  CHECK(joined[0].gpus == std::vector<std::string>{"a GPU"});
  CHECK(joined[0].gpu_driver == "550.54.15");
}

TEST_CASE("coordinator: a heartbeat is answered with both clocks, by its members only") {
  scripted_cluster f;
  f.begin();
  const auto ack = f.beat(1);
  REQUIRE(ack);
  CHECK((*ack)->sequence() == 5);
  CHECK((*ack)->sent_ns() == 17);
  const auto before = (*ack)->coordinator_ns();
  f.pass(1s);
  CHECK((*f.beat(1))->coordinator_ns() - before == 1'000'000'000);
  CHECK(f.beat(0, cluster_epoch - 1).error().code == errc::version_mismatch);
  scripted_cluster alone;
  REQUIRE(alone.join(0));
  CHECK(alone.beat(1).error().code == errc::not_found);
}

TEST_CASE("coordinator: a node that leaves says why") {
  scripted_cluster f;
  f.begin();
  f.leave("b", "was told to");
  const auto lost = f.lost();
  CHECK(lost.node == "b");
  CHECK(lost.how == "was told to");
}

// -- the end --------------------------------------------------------------------------------------

TEST_CASE("CRD-2 CRD-3: the end is passed on once, nodes are shut down, and all goes with them") {
  scripted_cluster f({.second_tier = true});
  f.begin();
  f.end_run();
  const auto end = f.told_end();
  CHECK(end.message == by_request);
  CHECK(end.step == 12);
  for (const size_t node : {0, 1}) CHECK(f.was_shut_down(node));
  CHECK(f.status().state == "ending");
  f.end_run();
  CHECK(f.reporter.take_all<fbs::RunEnded>().empty());
  CHECK(f.nodes[0].idle());
  f.nodes[0].die();
  CHECK(f.lives(f.target));
  CHECK_FALSE(f.committer.was_told_to_exit());
  f.nodes[1].die();
  CHECK_FALSE(f.lives(f.target));
  for (const auto* part : {&f.run, &f.committer, &f.replicator}) CHECK(part->was_told_to_exit());
  CHECK(f.run.idle());  // nodes that go after the end are not lost
}

TEST_CASE("CRD-3: nodes that do not go are not waited for beyond the grace") {
  scripted_cluster f;
  f.begin();
  f.end_run();
  f.pass(4900ms);
  CHECK(f.lives(f.target));
  f.pass(600ms);  // the pulse is half a second
  CHECK_FALSE(f.lives(f.target));
  CHECK(f.run.was_told_to_exit());
}

TEST_CASE("CRD-3: a node that is gone is not told to go, and nobody joins any more") {
  scripted_cluster f({.launch = config::launch_mode::external});
  f.begin();
  f.nodes[1].die();
  f.end_run();
  CHECK(f.was_shut_down(0));
  CHECK_FALSE(f.was_shut_down(1));
  CHECK(f.join(0).error() == cluster_ends());
}

TEST_CASE("CRD-6: a run that dies without a word is an end") {
  scripted_cluster f;
  f.begin();
  f.run.die();
  const auto end = f.told_end();
  CHECK(is_error(error_of(end), run_died));
  CHECK(f.was_shut_down(0));
}

TEST_CASE("CRD-5: a message of an epoch that has ended changes nothing") {
  scripted_cluster f;
  f.begin();
  f.leave("b", "left", cluster_epoch - 1);
  f.person.tell(f.target, make_msg<fbs::StopTraining>(f.context_of(cluster_epoch - 1)));
  f.end_run(cluster_epoch - 1);
  CHECK(f.run.idle());
  CHECK(f.reporter.take_all<fbs::RunEnded>().empty());
  CHECK(f.status().state == "running");
}

TEST_CASE("coordinator: with its own run a start that fails is the end of both") {
  scripted_cluster f({.real_run = true});
  f.join_all();
  for (const size_t node : {0, 1}) f.take_ranks(node);
  const auto order = f.committer.take<fbs::OpenFolder>();
  CHECK(order.m.header().epoch == cluster_epoch);
  order.refuse({errc::io, "it is gone", {}, "disk_gone"});
  const auto end = f.told_end();
  CHECK(error_of(end).kind == "disk_gone");
  for (const auto& node : f.nodes) node.die();
  CHECK_FALSE(f.lives(f.target));
}

// -- persons --------------------------------------------------------------------------------------

TEST_CASE("coordinator: a stop is handed to the run as it is") {
  scripted_cluster f;
  f.person.tell(f.target, make_msg<fbs::StopTraining>(f.context_of(0), [](auto& s) {
                  s.reason = "Ctrl-C";
                  s.save = true;
                }));
  const auto stop = f.run.take<fbs::StopTraining>();
  CHECK(stop->reason()->str() == "Ctrl-C");
  CHECK(stop->save());
}

TEST_CASE("coordinator: draining a node is a stop that saves, while there is a run") {
  scripted_cluster f;
  CHECK(f.drain("b").error().code == errc::unavailable);
  f.join_all();
  CHECK(f.drain("b").error().code == errc::unavailable);
  for (const size_t node : {0, 1}) f.take_ranks(node);
  f.run.take<fbs::ClusterReady>();
  const auto unknown = f.drain("c").error();
  CHECK(unknown.code == errc::not_found);
  CHECK(unknown.hint == "the nodes are a, b");
  CHECK(f.run.idle());
  const auto ack = f.drain("b");
  REQUIRE(ack);
  CHECK((*ack)->text()->str() ==
        "recovery.enabled is false: the run saves after its step and ends; start it again "
        "without b");
  const auto stop = f.run.take<fbs::StopTraining>();
  CHECK(stop->reason()->str() == "node b is drained");
  CHECK(stop->save());
  f.end_run();
  CHECK(f.drain("b").error().code == errc::unavailable);
  CHECK(f.run.idle());
}

TEST_CASE("coordinator: who looks for the gateway is led to it, or told why not") {
  const auto find = [](scripted_cluster& f, uint64_t schema_hash) {
    return f.person.ask(f.target, make_msg<fbs::FindGateway>(f.context_of(0), [&](auto& m) {
                          m.schema_hash = schema_hash;
                          m.user = "ada";
                        }));
  };
  scripted_cluster f;
  const auto number = find(f, own_schema_hash());
  const auto found = f.person.answer_of<fbs::GatewayFound>(number);
  REQUIRE(found);
  CHECK((*found)->job()->str() == "troupe");
  CHECK((*found)->epoch() == cluster_epoch);
  CHECK((*found)->may_change());
  CHECK((*found)->who()->str() == "ada");
  CHECK(f.person.handle_beside(number) == f.gateway.self());
  const auto other = f.person.answer_of<fbs::GatewayFound>(find(f, own_schema_hash() + 1));
  CHECK(other.error().code == errc::version_mismatch);
  scripted_cluster without({.gateway = false});
  const auto none = without.person.answer_of<fbs::GatewayFound>(find(without, own_schema_hash()));
  CHECK(none.error() == no_gateway());
}

TEST_CASE("CRD-7: the status counts each reason under its name") {
  scripted_cluster f;
  for (size_t i = 0; i < turned_away_count; ++i) {
    const auto reason = static_cast<turned_away>(i);
    CAPTURE(name_of(reason));
    note_turned_away(reason, "192.0.2.8", "a test");
    f.pass(500ms);
    const auto rows = status_rows(*f.status().values);
    const auto& counts =
        std::get<status_value::table>(std::find_if(rows.begin(), rows.end(), [](const auto& r) {
                                        return r.name == "turned_away";
                                      })->value.what);
    REQUIRE(counts.size() == turned_away_count + 1);
    CHECK(std::get<uint64_t>(counts[0].value.what) == ingress_seen().all());
    CHECK(counts[i + 1].name == name_of(reason));
    CHECK(std::get<uint64_t>(counts[i + 1].value.what) == ingress_seen().of(reason));
  }
}

TEST_CASE("coordinator: what heartbeats say stands in its status, a row for each node") {
  scripted_cluster f;
  REQUIRE(f.join(1));
  REQUIRE(f.join(0));
  const auto beat = [&](size_t node, uint64_t rss_bytes, double cpu_s, uint64_t step) {
    const auto number = f.nodes[node].ask(
        f.target, make_msg<fbs::Heartbeat>(f.context_of(cluster_epoch), [&](auto& h) {
          h.node_index = static_cast<uint32_t>(node);
          h.rss_bytes = rss_bytes;
          h.cpu_seconds = cpu_s;
          h.step = step;
        }));
    REQUIRE(f.nodes[node].answer_of<fbs::HeartbeatAck>(number));
  };
  beat(0, 1, 1, 1);
  beat(0, uint64_t{1} << 60, 2.5, 7);
  beat(1, 9, 0.5, 6);
  const auto shown = std::move(f.status().values->coordinator->nodes);
  REQUIRE(shown.size() == 2);
  CHECK(shown[0]->node == "b");
  CHECK(shown[0]->rss_bytes == 9);
  CHECK(shown[0]->cpu_s == 0.5);
  CHECK(shown[0]->step == 6);
  CHECK(shown[1]->node == "a");
  CHECK(shown[1]->rss_bytes == uint64_t{1} << 60);
  CHECK(shown[1]->cpu_s == 2.5);
  CHECK(shown[1]->step == 7);
}

TEST_CASE("CRD-7: connections that came to nothing are told of once for each reason") {
  scripted_cluster f;
  const auto told_of = [&](turned_away reason) {
    note_turned_away(reason, "192.0.2.7", "a test");
    f.pass(500ms);
    const auto all = f.reporter.take_all<fbs::Notice>();
    return std::count_if(all.begin(), all.end(), [&](const auto& n) {
      return n->text()->str().find(in_words(reason)) != std::string::npos;
    });
  };
  CHECK(told_of(turned_away::crowded_out) == 1);
  const auto shown = ingress_seen().of(turned_away::crowded_out);
  CHECK(f.status().values->coordinator->turned_away->crowded_out == shown);
  CHECK(told_of(turned_away::crowded_out) == 0);
  CHECK(f.status().values->coordinator->turned_away->crowded_out == shown + 1);
}
