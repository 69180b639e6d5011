// The node between a scripted connector, host and coordinator, for tests.
#pragma once

#include "actors/cluster/node.hpp"

#include <unistd.h>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <caf/error.hpp>
#include <caf/event_based_actor.hpp>

#include "actors/base/context.hpp"
#include "actors/base/hardware.hpp"
#include "actors/train/received_job.hpp"
#include "io/config/load.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/job_harness.hpp"
#include "tests/errors.hpp"

namespace troupe::cluster::test {

using namespace std::chrono_literals;
using troupe::test::partner;

constexpr uint32_t node_epoch = 5;
constexpr uint16_t head_port = 4711, own_port = 4800;

using far_end = std::pair<std::string, uint16_t>;

/// What a connector was asked, and what it answers.
struct wiring {
  struct publication {
    caf::actor_addr who;
    std::set<std::string> messages;
    uint16_t port = 0;
    std::string address;
    bool reuse = false;
  };
  std::vector<publication> published;
  std::vector<far_end> tried;
  std::optional<error> no_port;
  bool silent = false;                             ///< connections are neither made nor refused
  std::optional<caf::error> refusal;               ///< of all connections
  std::map<far_end, caf::strong_actor_ptr> there;  ///< nullptr: a process that publishes nothing
};

/// What CAF's middleman is to a node.
inline caf::behavior scripted_connector(caf::event_based_actor* self, std::shared_ptr<wiring> w) {
  return {
      [w](caf::publish_atom, uint16_t port, const caf::strong_actor_ptr& who,
          const std::set<std::string>& messages, const std::string& address,
          bool reuse) -> caf::result<uint16_t> {
        w->published.push_back(
            {caf::actor_cast<caf::actor_addr>(who), messages, port, address, reuse});
        if (w->no_port) return to_caf(*w->no_port);
        return own_port;
      },
      [self, w](caf::connect_atom, const std::string& host, uint16_t port) {
        auto rp = self->make_response_promise();
        w->tried.emplace_back(host, port);
        if (w->silent) return rp;
        if (w->refusal) {
          rp.deliver(*w->refusal);
          return rp;
        }
        const auto it = w->there.find({host, port});
        if (it == w->there.end())
          rp.deliver(caf::make_error(caf::sec::cannot_connect_to_node));
        else
          rp.deliver(caf::make_message(caf::node_id{}, it->second, std::set<std::string>{}));
        return rp;
      },
  };
}

/// A machine that is always the same; nobody may ask it for an engine here.
struct scripted_machine : cluster::host {
  process_usage used{12'345, 1.5};
  int meters_opened = 0;
  std::optional<error> lost;
  health::machine_sampler sampler;  ///< none: it has nothing to sample
  std::string sampled_folder;
  health::examiner examine;  ///< none: there is nothing to examine
  std::string examined_folder;
  struct measurement {
    layers_to_measure of;
    std::function<void(const result<double>&)> told;
  };
  std::vector<measurement> measured;  ///< under way, for the test to end

  fbs::HardwareFactsT facts() override {
    fbs::HardwareFactsT f;
    f.hostname = "machine";
    f.instance_id = "i7";
    f.cores = 3;
    f.gpus = {"all of them"};
    return f;
  }
  process_usage usage() override { return used; }
  void measure_layers(const layers_to_measure& what,
                      std::function<void(const result<double>&)> told) override {
    measured.push_back({what, std::move(told)});
  }
  std::optional<error> lost_device() override { return lost; }
  std::vector<std::unique_ptr<gpu::meter_reader>> open_meters(const gpu::power_model&) override {
    ++meters_opened;
    return {};
  }
  std::function<health::machine_sampler()> vitals_of(const config::job& job) override {
    if (!sampler) return {};
    sampled_folder = job.job.output;
    return [this] { return sampler; };
  }
  health::examiner examiner_of(std::string folder) override {
    examined_folder = std::move(folder);
    return examine;
  }
  result<std::unique_ptr<train::engine>> make_engine(const train::engine_options&) override {
    FAIL("no stage is built here");
    return error{errc::bug, "no engines"};
  }
};

/// A job with a heartbeat each 250 ms, given up after 1000 ms.
inline std::string job_with_meters(int64_t interval_ms, bool checkup_at_join = true) {
  auto job = train::test::planned_job().job;
  job.cluster.heartbeat_interval_ms = 250;
  job.cluster.suspect_after_ms = 500;
  job.cluster.dead_after_ms = 1000;
  job.power.meter_interval_ms = interval_ms;
  job.health.checkup_at_join = checkup_at_join;
  return config::to_toml(job);
}

struct scripted_node : troupe::test::actor_fixture {
  partner coordinator = make_partner("coordinator", *caf::make_node_id(1, std::string(40, 'c'))),
          observer = make_partner("observer"), person = make_partner("person");
  std::shared_ptr<wiring> wires = std::make_shared<wiring>();
  std::shared_ptr<scripted_machine> machine = std::make_shared<scripted_machine>();
  /// Outlives the node, which tells its end when the fixture kills it.
  std::shared_ptr<std::vector<error>> ends = std::make_shared<std::vector<error>>();
  node_options options;
  node_actor target;

  scripted_node() : actor_fixture(node_epoch) {
    options.name = "m";
    options.coordinator_host = "head";
    options.coordinator_port = head_port;
    options.advertise = "here";
    options.join_timeout_ms = 1000;
    options.observer = caf::actor_cast<caf::weak_actor_ptr>(observer.self());
    options.ended = [all = ends](const error& why) { all->push_back(why); };
    options.host = machine;
    options.connector = spawn(scripted_connector, wires);
  }
  ~scripted_node() { options = {}; }

  // -- joining --

  void start() { target = spawn(node, options); }
  void put_up_coordinator() { wires->there[{"head", head_port}] = coordinator.self(); }
  static fbs::WelcomeT welcome() {
    fbs::WelcomeT w;
    w.epoch = node_epoch;
    w.node_index = 3;
    w.config_toml = job_with_meters(0);
    return w;
  }
  /// It stands before a coordinator, which has its Hello.
  void knock() {
    put_up_coordinator();
    start();
  }
  void join(const fbs::WelcomeT& w = welcome()) {
    join_as_it_may(w);
    REQUIRE(ends->empty());
  }
  /// The same, where it may end by it.
  void join_as_it_may(const fbs::WelcomeT& w = welcome()) {
    knock();
    coordinator.take<fbs::Hello>().answer<fbs::Welcome>([&](auto& out) { out = w; });
  }

  /// On a machine that has something to read, to sample and to examine.
  void join_with_companions() {
    machine->sampler = [](int64_t) { return fbs::MachineVitalsT(); };
    machine->examine = [](const fbs::RunCheckupT&, std::stop_token) {
      return fbs::CheckupReportT();
    };
    auto w = welcome();
    w.config_toml = job_with_meters(100);
    join(w);
  }

  // -- life --

  /// Time in which the coordinator answers; returns how many heartbeats there were.
  size_t pass_answered(std::chrono::milliseconds time) {
    size_t beats = 0;
    for (; time > 0ms; time -= 50ms) {
      pass(50ms);
      for (const auto& beat : coordinator.take_all<fbs::Heartbeat>()) {
        answer(beat);
        ++beats;
      }
    }
    return beats;
  }
  static void answer(const troupe::test::told<fbs::Heartbeat>& beat, int64_t ahead_ns = 0) {
    beat.answer<fbs::HeartbeatAck>([&](auto& a) {
      a.sequence = beat->sequence();
      a.sent_ns = beat->sent_ns();
      a.coordinator_ns = beat->sent_ns() + ahead_ns;
    });
  }
  static fbs::AssignT ranks_of(std::vector<uint32_t> ranks, bool with_loader = true) {
    fbs::AssignT a;
    a.loader = with_loader;
    for (const auto rank : ranks) {
      a.ranks.push_back(std::make_unique<fbs::RankAssignmentT>());
      a.ranks.back()->rank = rank;
    }
    return a;
  }
  static void add_peer(fbs::AssignT& a, const char* node, const char* host, uint16_t port) {
    auto p = std::make_unique<fbs::PeerT>();
    p->node = node;
    p->host = host;
    p->port = port;
    a.peers.push_back(std::move(p));
  }
  uint64_t assign(const fbs::AssignT& a, uint32_t epoch = node_epoch) {
    return coordinator.ask(target, make_msg<fbs::Assign>(context_of(epoch), a));
  }
  result<msg<fbs::Assigned>> assigned(const fbs::AssignT& a, uint32_t epoch = node_epoch) {
    return coordinator.answer_of<fbs::Assigned>(assign(a, epoch));
  }
  void shut_down(uint32_t epoch = node_epoch) {
    coordinator.tell(target, make_msg<fbs::Shutdown>(context_of(epoch), [](auto& s) {
                       s.reason = "the job is done";
                       s.graceful = true;
                     }));
  }
  void kill() {
    caf::anon_send_exit(target, caf::exit_reason::kill);
    settle();
  }
  /// Somebody's end, with a reason of ours.
  void end(const caf::strong_actor_ptr& whom, const error& why) {
    deliver(nullptr, whom, caf::make_message_id(), caf::exit_msg{caf::actor_addr{}, to_caf(why)});
  }
  caf::strong_actor_ptr living(const std::string& path) const {
    const auto stats = runtime().registry.find(path);
    return stats ? stats->handle() : nullptr;
  }
  fbs::StatusT status() {
    const auto number = person.ask(target, make_msg<fbs::StatusRequest>());
    const auto answer = person.answer_of<fbs::Status>(number);
    REQUIRE(answer);
    return answer->unpack();
  }
  /// What its loader looks at while it tokenises.
  std::stop_token going() const {
    using actor_of_node = std::remove_pointer_t<node_pointer>;
    return static_cast<actor_of_node*>(caf::actor_cast<caf::abstract_actor*>(target))
        ->state.going.get_token();
  }
  /// It is over, and that was told once.
  error ended() {
    CHECK_FALSE(lives(target));
    REQUIRE(ends->size() == 1);
    return (*ends)[0];
  }
  bool goes_on() const { return lives(target) && ends->empty(); }
};

/// All that a node can spawn is there, and then, for a reason of the test's, none of it.
template <class End>
error spawned_all_end(End how) {
  scripted_node f;
  f.join_with_companions();
  const auto number = f.assign(scripted_node::ranks_of({4, 6}));
  REQUIRE(f.coordinator.answer_of<fbs::Assigned>(number));
  std::vector<caf::actor> spawned;
  for (const auto* path : {"stage/4", "stage/6", "worker/4", "worker/6", "loader/m", "meter/m",
                           "vitals/m", "medic/m"}) {
    CAPTURE(path);
    spawned.push_back(caf::actor_cast<caf::actor>(f.living(path)));
    REQUIRE(spawned.back());
    CHECK(f.lives(spawned.back()));
  }
  const auto going = f.going();
  CHECK_FALSE(going.stop_requested());
  how(f);
  for (const auto& a : spawned) CHECK_FALSE(f.lives(a));
  CHECK(going.stop_requested());
  f.pass(5s);
  return f.ended();
}

}  // namespace troupe::cluster::test
