// Who may join: the named nodes, with certificates where there are any; everybody else is refused
// and the cluster goes on.
#include <unistd.h>

#include <csignal>

#include "tests/cluster/job_files.hpp"
#include "tests/cluster/strangers.hpp"

using namespace troupe::cluster_test;

namespace {

std::vector<std::string> node(uint16_t port, const std::string& name,
                              const std::vector<std::string>& more = {}) {
  return with({"node", "--join", fmt::format("127.0.0.1:{}", port), "--name", name}, more);
}

/// Settings of a cluster whose two nodes the test starts, called a and b.
std::vector<std::string> external(job_files& job) {
  std::ofstream(job / "job.toml", std::ios::app)
      << "[[cluster.node]]\nname = \"a\"\n[[cluster.node]]\nname = \"b\"\n";
  return {"cluster.launch=external", "parallel.data=2", free_port()};
}

}  // namespace

TEST_CASE("peers: an external launch waits for its nodes and trains on them") {
  job_files job;
  const auto sets = external(job);
  program up(job.up(sets));
  REQUIRE(up.until([&] { return up.port() != 0; }));
  program a(node(up.port(), "a")), b(node(up.port(), "b"));
  INFO(up.err());
  CHECK(up.wait() == 0);
  CHECK(a.wait() == 0);
  CHECK(b.wait() == 0);
  CHECK(up.losses().size() == 20);
}

TEST_CASE("peers: an unknown name and a name twice are refused, the cluster goes on") {
  job_files job;
  const auto sets = external(job);
  program up(job.up(sets));
  REQUIRE(up.until([&] { return up.port() != 0; }));
  program a(node(up.port(), "a"));
  REQUIRE(up.until_error_has("node a joined"));
  program again(node(up.port(), "a"));
  CHECK(again.wait() == 69);
  CHECK(again.err().find("here already") != std::string::npos);
  REQUIRE(up.until_error_has("refused a node: node a"));
  program b(node(up.port(), "b"));
  CHECK(up.wait() == 0);
  CHECK(a.wait() == 0);
  CHECK(b.wait() == 0);
}

TEST_CASE("peers: names no configuration knows") {
  job_files job;
  program up(job.up({"train.steps=1000000"}));
  REQUIRE(up.until_step(1));
  program stranger(node(up.port(), "stranger"));
  const int code = stranger.wait();
  CHECK((code == 66 || code == 69));
  CHECK(stranger.err().find("stranger") != std::string::npos);
  CHECK(up.until_error_has("refused a node"));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("peers: a node that finds no coordinator gives up with 69") {
  program lonely(node(1, "a", {"--join-timeout-ms", "300"}));
  CHECK(lonely.wait() == 69);
  CHECK(lonely.err().find("no coordinator at") != std::string::npos);
}

TEST_CASE("peers: who finds no coordinator is asked for his key or his certificates") {
  const job_files job;
  const auto pki = (job / "pki").string();
  REQUIRE(run({"certs", pki, "--node", "a"}).code == 0);
  const auto lonely = run(node(1, "a", {"--join-timeout-ms", "300", "--ca", pki + "/ca.pem",
                                        "--certificate", pki + "/a.pem", "--key", pki + "/a.key"}));
  INFO(lonely.err);
  CHECK(lonely.code == 69);
  CHECK(lonely.err.find("with the same key or certificates?") != std::string::npos);
}

TEST_CASE("peers: garbage on the ports of a plain cluster") {
  job_files job;
  program up(job.up(with(layout(2, 1), {"train.steps=1000000"})));
  REQUIRE(up.until_step(2));
  std::vector<uint16_t> ports{up.port()};
  for (const auto& bytes : garbage)
    for (auto port : ports) CHECK(send_garbage(port, bytes));
  const auto sofar = static_cast<int64_t>(up.objects("step").size());
  CHECK(up.until_step(sofar + 20));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("peers: mutual TLS trains, peers without certificates are refused") {
  job_files job;
  const auto pki = (job / "pki").string();
  const auto made = run({"certs", pki, "--node", "node0=localhost,127.0.0.1", "--node",
                         "node1=localhost,127.0.0.1", "--node", "node2=localhost,127.0.0.1",
                         "--node", "node3=localhost,127.0.0.1"});
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto sets =
      with(layout(2, 2),
           {"cluster.tls.ca=" + pki + "/ca.pem", "cluster.tls.certificate=" + pki + "/{node}.pem",
            "cluster.tls.key=" + pki + "/{node}.key", "checkpoint.resume=never"});
  CHECK(job.losses(sets) == job.losses(with(layout(2, 2), {"checkpoint.resume=never"})));
  program up(job.up(with(sets, {"train.steps=1000000"})));
  REQUIRE(up.until_step(2));
  for (const auto& bytes : garbage) CHECK(send_garbage(up.port(), bytes));
  program naked(node(up.port(), "node1", {"--join-timeout-ms", "1000"}));
  CHECK(naked.wait() == 69);
  const auto other = (job / "other").string();
  REQUIRE(run({"certs", other, "--node", "node1=localhost,127.0.0.1"}).code == 0);
  program forged(node(up.port(), "node1",
                      {"--join-timeout-ms", "1000", "--ca", other + "/ca.pem", "--certificate",
                       other + "/node1.pem", "--key", other + "/node1.key"}));
  CHECK(forged.wait() == 69);
  const auto sofar = static_cast<int64_t>(up.objects("step").size());
  CHECK(up.until_step(sofar + 20));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("peers: certificates that do not belong together are a bad configuration") {
  job_files job;
  const auto pki = (job / "pki").string();
  REQUIRE(run({"certs", pki, "--node", "node0"}).code == 0);
  const auto f = run(
      job.up({"cluster.tls.ca=" + pki + "/ca.pem", "cluster.tls.certificate=" + pki + "/node0.pem",
              "cluster.tls.key=" + pki + "/coordinator.key"}));
  CHECK(f.code == 78);
}
