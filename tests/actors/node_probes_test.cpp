// A node whose machine is probed before it takes ranks, and what it costs where that goes wrong.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "actors/base/ask.hpp"
#include "actors/base/defaults.hpp"
#include "actors/capture/recorder.hpp"
#include "tests/actors/scripted_node.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;

namespace {

struct probed_machine : scripted_machine {
  struct asked_probe {
    machine_probe what;
    std::stop_token stop;
    std::function<void(const result<io::perf::hw_profile>&)> told;
  };
  std::vector<asked_probe> probes;  ///< under way, for the test to end

  void probe(const machine_probe& what, std::stop_token stop,
             std::function<void(const result<io::perf::hw_profile>&)> told) override {
    probes.push_back({what, std::move(stop), std::move(told)});
  }
};

struct node_with_probes : scripted_node {
  std::shared_ptr<probed_machine> here = std::make_shared<probed_machine>();
  uint64_t asked = 0;

  node_with_probes() {
    machine = here;
    options.host = here;
    options.probes = true;
  }
  ~node_with_probes() { options = {}; }
  /// It has joined, and is given a rank.
  void take_rank() {
    auto w = welcome();
    auto job = train::test::planned_job().job;
    job.cluster.heartbeat_interval_ms = 250;
    job.cluster.suspect_after_ms = 500;
    job.cluster.dead_after_ms = 1000;
    job.health.checkup_at_join = false;
    job.predict.probe = depth;
    job.predict.prior = prior;
    job.cluster.device = device;
    if (!swap_dir.empty()) job.swap.dir = {swap_dir};
    job.power.budget_w = budget_w;
    w.config_toml = config::to_toml(job);
    join(w);
    asked = assign(ranks_of({4}));
  }
  /// Its answer, if it has its rank.
  std::optional<fbs::AssignedT> taken() {
    const auto answer = coordinator.answer_of<fbs::Assigned>(asked);
    if (!answer) return std::nullopt;
    return answer->unpack();
  }
  config::probe_depth depth = config::probe_depth::quick;
  config::device_kind device = config::device_kind::host;
  std::string swap_dir, prior;
  double budget_w = 0;
};

io::perf::hw_profile quick_machine() {
  io::perf::hw_profile out;
  out.gemm_gflop_s = 40;
  return out;
}

}  // namespace

TEST_CASE("NOD-12: a node takes its ranks once its machine is probed, and tells its head of it") {
  node_with_probes f;
  f.depth = config::probe_depth::full;
  f.take_rank();
  CHECK_FALSE(f.taken());
  REQUIRE(f.here->probes.size() == 1);
  CHECK(f.here->probes[0].what.depth == config::probe_depth::full);
  CHECK(f.here->probes[0].what.folder == train::test::planned_job().job.job.output);
  f.here->probes[0].told(quick_machine());
  f.settle();
  const auto answer = f.taken();
  REQUIRE(answer);
  REQUIRE(answer->profile);
  REQUIRE(answer->profile->fields.size() == 1);
  CHECK(answer->profile->fields[0]->name == "gemm_gflop_s");
  CHECK(answer->profile->fields[0]->number == 40);
}

TEST_CASE("NOD-12: what ranks waited for probes is a span in traces, and a node's status has it") {
  node_with_probes f;
  record_reader records(f.runtime().records, false);
  f.take_rank();
  f.pass_answered(150ms);
  REQUIRE(f.here->probes.size() == 1);
  f.here->probes[0].told(quick_machine());
  f.settle();
  REQUIRE(f.taken());
  const auto names = work_names();
  std::vector<double> took_s;
  for (const auto& r : records.read(100'000))
    if (r.kind == record_kind::work && r.type > 0 && names.at(r.type - 1) == "probe")
      took_s.push_back(static_cast<double>(r.handling_s));
  REQUIRE(took_s.size() == 1);
  CHECK(took_s[0] > 0.149);
  const auto said = f.status();
  REQUIRE(said.values);
  REQUIRE(said.values->node);
  CHECK(said.values->node->probe_s == doctest::Approx(took_s[0]));

  node_with_probes off;
  off.depth = config::probe_depth::off;
  off.take_rank();
  CHECK(off.status().values->node->probe_s == 0);
}

TEST_CASE("NOD-12: probes that fail or hang cost the profile alone, and a finite time") {
  node_with_probes failing;
  failing.take_rank();
  REQUIRE(failing.here->probes.size() == 1);
  failing.here->probes[0].told(error{errc::no_memory, "there is none"});
  failing.settle();
  auto answer = failing.taken();
  REQUIRE(answer);
  CHECK_FALSE(answer->profile);

  node_with_probes hanging;
  hanging.take_rank();
  hanging.pass_answered(defaults::probe_patience - 50ms);
  CHECK_FALSE(hanging.taken());
  CHECK_FALSE(hanging.here->probes[0].stop.stop_requested());
  hanging.pass_answered(50ms);
  answer = hanging.taken();
  REQUIRE(answer);
  CHECK_FALSE(answer->profile);
  CHECK(hanging.here->probes[0].stop.stop_requested());  // nothing is measured beside steps
  hanging.here->probes[0].told(quick_machine());         // too late
  hanging.settle();
  CHECK(hanging.goes_on());
  CHECK((defaults::probe_patience + defaults::join_checkup_patience).count() <
        contract_of<node_actor, fbs::Assign>().timeout_ms);
}

TEST_CASE("NOD-12: nothing is probed where no job wants it, or GPUs compute") {
  const auto is_probed = [](auto change) {
    node_with_probes f;
    change(f);
    f.take_rank();
    CHECK(bool(f.taken()) == f.here->probes.empty());
    return !f.here->probes.empty();
  };
  CHECK(is_probed([](auto&) {}));
  CHECK_FALSE(is_probed([](auto& f) { f.depth = config::probe_depth::off; }));
  const auto with_prior = [](auto& f) {  // it tells what it is, and measures nothing
    f.depth = config::probe_depth::off;
    f.prior = "fleet.tpm";
  };
  CHECK(is_probed(with_prior));
  CHECK_FALSE(is_probed([](auto& f) { f.options.probes = false; }));
  CHECK_FALSE(is_probed([](auto& f) { f.swap_dir = "/drive"; }));
  CHECK_FALSE(is_probed([](auto& f) { f.budget_w = 100; }));
  CHECK_FALSE(is_probed([](auto& f) { f.device = config::device_kind::cuda; }));
  const auto with_gpu = [](auto& f) {
    f.device = config::device_kind::automatic;
    f.options.accelerators = {"one"};
  };
  CHECK_FALSE(is_probed(with_gpu));
  CHECK(is_probed([](auto& f) { f.device = config::device_kind::automatic; }));
}
