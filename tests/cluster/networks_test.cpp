// A network that loses what is sent and says nothing, between machines with certificates: what is
// found is named, the node behind it is replaced, and no loss is another by a bit.
#include <csignal>
#include <functional>
#include <set>

#include "tests/cluster/job_files.hpp"
#include "tests/cluster/networks.hpp"

using namespace troupe::cluster_test;

namespace {

/// The first machine is the head's; node N is on machine N + 1, the last one a spare.
constexpr int replicas = 4, spare = replicas, machines = replicas + 2;
constexpr int head = 0;
constexpr int machine_of(int node) {
  return node + 1;
}

constexpr int compared = 60;  ///< steps

std::vector<std::string> training(int steps) {
  return {fmt::format("train.steps={}", steps), "train.schedule=constant", "train.batch=16",
          "parallel.data=4", "cluster.nodes=4"};
}

struct machines_apart {
  job_files job;
  network net{machines};
  std::string pki = (job / "pki").string();
  std::vector<std::unique_ptr<program>> nodes;
  std::unique_ptr<program> up;

  std::string address = network::address_of(head);

  explicit machines_apart(int steps = compared) {
    std::vector<std::string> certs{"certs", pki, "--node", "coordinator=" + address};
    for (int n = 0; n <= spare; ++n)
      certs.insert(certs.end(),
                   {"--node", fmt::format("node{}={}", n, network::address_of(machine_of(n)))});
    REQUIRE(run(certs).code == 0);
    const auto sets =
        with(training(steps),
             {"cluster.spares=1", "cluster.launch=external", "cluster.listen=" + address,
              "cluster.clear_text_tensors=true", "cluster.port=7077",
              "cluster.heartbeat_interval_ms=100", "cluster.suspect_after_ms=1000",
              "cluster.dead_after_ms=10000", "checkpoint.every=3", "recovery.stuck_after_s=14",
              "cluster.tls.ca=" + pki + "/ca.pem", "cluster.tls.certificate=" + pki + "/{node}.pem",
              "cluster.tls.key=" + pki + "/{node}.key"});
    {
      const network::visit there(net, head);
      up = std::make_unique<program>(job.up(sets));
    }
    for (int n = 0; n <= spare; ++n) start(n);
    const bool joined = up->until_error_has("spare node4 joined");
    INFO(up->err());
    REQUIRE(joined);
    REQUIRE(up->until_step(7));
  }

  void start(int n) {
    const network::visit there(net, machine_of(n));
    const auto own = fmt::format("{}/node{}", pki, n);
    nodes.push_back(std::make_unique<program>(std::vector<std::string>{
        "node", "--join", address + ":7077", "--name", fmt::format("node{}", n), "--advertise",
        network::address_of(machine_of(n)), "--ca", pki + "/ca.pem", "--certificate", own + ".pem",
        "--key", own + ".key", "--heartbeat-ms", "100", "--dead-after-ms", "10000"}));
  }

  /// It ends with all steps and the losses of a run that nobody disturbed, after one recovery.
  nlohmann::json only_incident(int code = 0) {
    const int ended = up->wait();
    INFO(up->err());
    REQUIRE(ended == code);
    const auto expected =
        job.losses(with(training(compared), {"job.output=" + (job / "undisturbed").string()}));
    std::set<int> made;
    for (const auto& step : up->objects("step")) {
      const int number = step["step"];
      if (number > compared) break;
      CHECK(step["loss"].get<double>() == expected.at(static_cast<size_t>(number) - 1));
      made.insert(number);
    }
    CHECK(made.size() == expected.size());
    CHECK(up->err().find("spare node4 for ") != std::string::npos);
    return only_object_in(job / "run/incidents.jsonl");
  }
};

/// Whether they are tried.
bool can_be_tried() {
  const auto why = why_no_networks();
  if (why) MESSAGE("SKIPPED: " << *why);
  return !why;
}

/// Beside much other work tests of links may say nothing: tried again, a few times.
void until_said(const std::function<bool()>& said) {
  constexpr int tries = 4;
  for (int i = 0; i < tries; ++i)
    if (said()) return;
  FAIL("tests of links have named nobody in ", tries, " jobs");
}

}  // namespace

TEST_CASE("networks: a machine that nobody hears any more is replaced") {
  if (!can_be_tried()) return;
  machines_apart all;
  for (int other = 0; other < machines; ++other)
    if (other != machine_of(1)) all.net.cut(machine_of(1), other);
  const auto found = all.only_incident();
  CHECK(found["node"] == "node1");
  CHECK(found["finding"] == "lost_host");
}

TEST_CASE("networks: a machine that its head alone does not hear is replaced") {
  if (!can_be_tried()) return;
  machines_apart all;
  all.net.cut(machine_of(2), head);
  const auto found = all.only_incident();
  CHECK(found["node"] == "node2");
  CHECK(found["finding"] == "lost_host");
}

TEST_CASE(
    "networks: a machine that hears all and that no other node hears is named, and no spare") {
  if (!can_be_tried()) return;
  until_said([] {
    machines_apart all(1'000'000);
    for (int n = 0; n <= spare; ++n)
      if (n != 1) all.net.lose(machine_of(1), machine_of(n));
    const bool begun = all.up->until_error_has("begins (epoch 1 -> 2)");
    INFO(all.up->err());
    REQUIRE(begun);
    if (all.up->err().find("half_open_link node1") == std::string::npos) return false;
    REQUIRE(all.up->until_error_has("recovered in"));
    all.start(1);  // as a scheduler does
    CHECK(all.up->until_error_has("node1 is evicted (no test between it and "));
    CHECK(all.up->until_step(compared));
    all.up->signal(SIGINT);
    const auto found = all.only_incident(130);
    CHECK(found["node"] == "node1");
    CHECK(found["finding"] == "half_open_link");
    return true;
  });
}

TEST_CASE("networks: two machines that do not hear each other are named, and one is replaced") {
  if (!can_be_tried()) return;
  until_said([] {
    machines_apart all;
    all.net.cut(machine_of(0), machine_of(1));
    const auto found = all.only_incident();
    if (all.up->err().find("cut_pair") == std::string::npos) return false;
    CHECK(found["finding"] == "cut_pair");
    CHECK((found["node"] == "node0" || found["node"] == "node1"));
    return true;
  });
}
