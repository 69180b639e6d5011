// The coordinator of two nodes between scripted ones and a scripted run, for tests.
#pragma once

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/base/hardware.hpp"
#include "actors/cluster/coordinator.hpp"
#include "messages/registry.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/job_harness.hpp"
#include "tests/errors.hpp"

namespace troupe::cluster::test {

using namespace std::chrono_literals;
using troupe::test::partner;

inline constexpr uint32_t cluster_epoch = 3;
inline constexpr uint64_t own_launch = 41;
constexpr const char* by_request = "as asked";

struct scripted_cluster_options {
  config::launch_mode launch = config::launch_mode::local;
  config::device_kind device = config::device_kind::host;
  bool gateway = true, second_tier = false, real_run = false, launcher = false;
  bool recovers = false, spare = false;  ///< node c
  bool second_spare = false;             ///< node d, beside it
  bool two_replicas = false;             ///< rather than two stages of one
  bool fewer_replicas = true;
  int64_t swap_bytes = 0;  ///< swap.host_bytes; 0: the job does not swap
  bool measured = false;   ///< parallel.placement
  bool may_change_places = false;  ///< the nodes, by that
  bool journal = false, monitor = false, pacer = false, predictor = false;
  std::string power_parent = {};                   ///< in place of a budget of its own
  bool goes_on = false;                            ///< for a coordinator that was lost
  std::optional<fbs::ClusterMemoryT> memory = {};  ///< what that has left
  uint64_t first_launch = 0;                       ///< of a head before
  std::vector<io::perf::past_pace> paces = {};     ///< of earlier runs
};

/// Two nodes with a worker each, one stage behind the other.
inline train::job_plan plan_of_cluster(const scripted_cluster_options& o) {
  auto plan = train::test::planned_job(o.second_tier ? "second.dir = \"/second\"\n" : "");
  auto& cluster = plan.job.cluster;
  cluster.nodes = 2;
  cluster.node = {{"a", "hosta", 1}, {"b", "hostb", 1}};
  if (o.spare) cluster.node.push_back({"c", "hostc", 1, true});
  if (o.second_spare) cluster.node.push_back({"d", "hostd", 1, true});
  cluster.spares = std::ssize(cluster.node) - cluster.nodes;
  plan.job.recovery.enabled = o.recovers;
  plan.job.power.budget_w = o.pacer && o.power_parent.empty() ? 80 : 0;
  plan.job.power.parent = o.power_parent;
  plan.job.recovery.fewer_replicas = o.fewer_replicas;
  cluster.launch = o.launch;
  cluster.device = o.device;
  plan.job.parallel = {1, 2, config::pipeline_schedule::one_f_one_b, ""};
  const auto grid = plan.job.grid();
  plan.ranks = {{{grid, 0}, 0, {0, 3}}, {{grid, 1}, 1, {3, 5}}};
  if (o.swap_bytes > 0) {
    plan.job.swap.dir = {"/swap"};
    plan.job.swap.host_bytes = o.swap_bytes;
  }
  if (o.measured) plan.job.parallel.placement = config::stage_placement::measured;
  if (o.measured && !o.may_change_places) plan.job.parallel.nodes = "a,b";
  if (o.measured || o.swap_bytes > 0) {
    plan.model.layers = 5;
    plan.model.hidden = plan.model.ffn = 64;
    plan.model.heads = plan.model.kv_heads = 4;
    plan.model.head_width = 16;
    plan.model.vocab = 300;
    plan.model.max_positions = plan.job.train.seq_len;
  }
  if (!o.two_replicas) return plan;
  plan.job.parallel = {2, 1, config::pipeline_schedule::one_f_one_b, ""};
  plan.job.train.micro_batch = 1;
  const auto replicas = plan.job.grid();
  plan.ranks = {{{replicas, 0}, 0, {0, 5}}, {{replicas, 1}, 1, {0, 5}}};
  return plan;
}

struct scripted_cluster : troupe::test::actor_fixture {
  partner run = make_partner("run"), committer = make_partner("committer"),
          replicator = make_partner("replicator"), reporter = make_partner("reporter"),
          gateway = make_partner("gateway"), launcher = make_partner("launcher"),
          observer = make_partner("observer"), person = make_partner("person"),
          journal = make_partner("journal"), monitor = make_partner("monitor"),
          pacer = make_partner("pacer"), predictor = make_partner("predictor");
  std::vector<partner> nodes{make_partner("a"), make_partner("b"), make_partner("c"),
                             make_partner("d")};
  std::vector<partner> stages{make_partner("stage/0"), make_partner("stage/1")};
  std::vector<partner> loaders{make_partner("loader/a"), make_partner("loader/b")};
  std::vector<std::string> instances{"i0", "i1", "i2", "i3"};
  std::vector<std::string> boots{"boot0", "boot1", "boot2", "boot3"};
  std::vector<uint32_t> cores{8, 9, 10, 11};
  std::vector<uint64_t> memory{0, 0, 0, 0};  ///< bytes; 0: it does not say
  uint32_t pid_of_b = 1001;
  coordinator_actor target;

  explicit scripted_cluster(const scripted_cluster_options& o = {}) : actor_fixture(cluster_epoch) {
    train::spawn_record options{cluster_epoch};
    options.plan = plan_of_cluster(o);
    options.launch = own_launch;
    options.first_launch = o.first_launch;
    options.reporter = reporter.as<reporter_actor>();
    options.observer = observer.as<observer_actor>();
    if (o.launcher) options.launcher = launcher.as<launcher_actor>();
    if (o.gateway) options.gateway = gateway.as<gateway_actor>();
    options.committer = committer.as<committer_actor>();
    options.replicator = replicator.as<replicator_actor>();
    if (o.monitor) options.monitor = monitor.as<monitor_actor>();
    if (o.pacer) options.pacer = pacer.as<pacer_actor>();
    if (o.predictor) options.predictor = predictor.as<predictor_actor>();
    if (o.journal) options.journal = journal.as<journal_actor>();
    if (o.goes_on) options.memory.emplace().lost = train::lost_head{"was killed", 4, 4, 0};
    options.cluster = o.memory;
    options.paces = o.paces;
    if (!o.real_run) options.run = run.as<run_actor>();
    target = spawn(coordinator, std::move(options), &io::local_storage());
  }

  // -- nodes --

  fbs::HelloT hello(size_t node) const {
    fbs::HelloT h;
    h.node = std::string(1, static_cast<char>('a' + node));
    h.schema_hash = own_schema_hash();
    h.program_version = own_version();
    h.host = fmt::format("address{}", node);
    h.port = static_cast<uint16_t>(100 + node);
    h.pid = node == 1 ? pid_of_b : static_cast<uint32_t>(1000 + node);
    h.process = static_cast<uint32_t>(50 + node);
    h.hardware = std::make_unique<fbs::HardwareFactsT>();
    h.hardware->hostname = "machine";
    h.hardware->boot_id = boots[node];
    h.hardware->cores = cores[node];
    h.hardware->memory_bytes = memory[node];
    h.hardware->instance_id = instances[node];
    return h;
  }
  uint64_t knock(size_t node, const fbs::HelloT& h) {
    return nodes[node].ask(target, make_msg<fbs::Hello>(context_of(0), h), nodes[node].self(),
                           observer.self());
  }
  result<msg<fbs::Welcome>> join(size_t node, const fbs::HelloT& h) {
    return nodes[node].answer_of<fbs::Welcome>(knock(node, h));
  }
  result<msg<fbs::Welcome>> join(size_t node) { return join(node, hello(node)); }
  void join_all() {
    REQUIRE(join(0));
    REQUIRE(join(1));
    pass(0ns);  // the welcome is on its way before the ranks are
  }
  void take_ranks(size_t node) {
    nodes[node].take<fbs::Assign>().answer<fbs::Assigned>(
        [&](auto& a) { a.ranks = {static_cast<uint32_t>(node)}; },
        std::vector{loaders[node].self(), stages[node].self()});
  }
  /// The run has its crew.
  void begin() {
    join_all();
    for (const size_t node : {1, 0}) take_ranks(node);
    REQUIRE(run.take_all<fbs::ClusterReady>().size() == 1);
  }
  result<msg<fbs::HeartbeatAck>> beat(size_t node, uint32_t epoch = cluster_epoch) {
    const auto number =
        nodes[node].ask(target, make_msg<fbs::Heartbeat>(context_of(epoch), [&](auto& h) {
                          h.node_index = static_cast<uint32_t>(node);
                          h.sequence = 5;
                          h.sent_ns = 17;
                        }));
    return nodes[node].answer_of<fbs::HeartbeatAck>(number);
  }
  /// Time in which these nodes beat.
  void pass_with(std::chrono::seconds time, std::vector<size_t> beating) {
    for (auto left = time; left > 0s; left -= 1s) {
      for (const auto node : beating) REQUIRE(beat(node));
      pass(1s);
    }
  }
  void leave(const char* node, const char* why, uint32_t epoch = cluster_epoch, uint32_t pid = 0) {
    person.tell(target, make_msg<fbs::Leave>(context_of(epoch), [&](auto& l) {
                  l.node = node;
                  l.reason = why;
                  l.pid = pid;
                }));
  }

  // -- the run --

  void end_run(uint32_t epoch = cluster_epoch) {
    run.tell(target, make_msg<fbs::RunEnded>(context_of(epoch), [](auto& e) {
               e.message = by_request;
               e.step = 12;
             }));
  }
  /// The run was told of one lost node.
  fbs::NodeLostT lost() {
    const auto all = run.take_all<fbs::NodeLost>();
    REQUIRE(all.size() == 1);
    CHECK(all[0].m.epoch() == cluster_epoch);
    return all[0].m.unpack();
  }
  fbs::AdmissionFailedT given_up() {
    const auto all = run.take_all<fbs::AdmissionFailed>();
    REQUIRE_FALSE(all.empty());
    return all[0].m.unpack();
  }
  /// Ends are told to the reporter.
  fbs::RunEndedT told_end() {
    const auto all = reporter.take_all<fbs::RunEnded>();
    REQUIRE(all.size() == 1);
    return all[0].m.unpack();
  }
  bool was_shut_down(size_t node) {
    const auto all = nodes[node].take_all<fbs::Shutdown>();
    CHECK(all.size() <= 1);
    if (!all.empty()) CHECK(all[0]->graceful());
    return !all.empty();
  }

  result<msg<fbs::Ack>> drain(const char* node) {
    const auto number = person.ask(
        target, make_msg<fbs::DrainNode>(context_of(0), [&](auto& d) { d.node = node; }));
    return person.answer_of<fbs::Ack>(number);
  }
  bool said(const std::string& what) {
    const auto all = reporter.take_all<fbs::Notice>();
    return std::any_of(all.begin(), all.end(), [&](const auto& n) {
      return n->text()->str().find(what) != std::string::npos;
    });
  }
  fbs::StatusT status() {
    const auto number = person.ask(target, make_msg<fbs::StatusRequest>());
    const auto answer = person.answer_of<fbs::Status>(number);
    REQUIRE(answer);
    return answer->unpack();
  }
};

}  // namespace troupe::cluster::test
