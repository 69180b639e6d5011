// Certificates while a cluster runs: renewed, half renewed, gone, and for another host.
#include <csignal>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

/// A cluster with mutual TLS, and an operator whose certificate nobody touches.
struct certified {
  job_files job;
  std::string pki = (job / "pki").string();

  /// `hosts`: of the coordinator, whose certificate the launcher shows.
  explicit certified(const std::string& hosts) {
    REQUIRE(run({"certs", pki, "--node", "node0=localhost,127.0.0.1", "--node",
                 "coordinator=" + hosts, "--operator", "alice"})
                .code == 0);
  }

  std::vector<std::string> up(const std::vector<std::string>& more) const {
    return job.up(with(more, {"cluster.tls.ca=" + pki + "/ca.pem",
                              "cluster.tls.certificate=" + pki + "/{node}.pem",
                              "cluster.tls.key=" + pki + "/{node}.key"}));
  }

  /// Whether the operator gets an answer.
  bool answers(const program& up) const {
    const auto s =
        run({"ps", "--json", "--connect", "127.0.0.1:" + std::to_string(up.port()), "--ca",
             pki + "/ca.pem", "--certificate", pki + "/alice.pem", "--key", pki + "/alice.key"});
    INFO(s.err);
    return s.code == 0;
  }
};

}  // namespace

TEST_CASE(
    "certificates: a renewal that is not atomic ends nothing, and is taken when whole (CRT-2)") {
  certified c("localhost,127.0.0.1");
  program up(c.up(endless));
  REQUIRE(up.until_step(1));
  const auto certificate = c.pki + "/coordinator.pem", key = c.pki + "/coordinator.key";
  fs::rename(certificate, certificate + ".old");
  CHECK(up.until_error_has("is not renewed, the old one stays"));
  CHECK(c.answers(up));
  std::ofstream(certificate) << "-----BEGIN CERTIFICATE-----\n";
  CHECK(c.answers(up));
  fs::remove(certificate);
  fs::remove(key);
  REQUIRE(run({"certs", c.pki, "--node", "coordinator=localhost,127.0.0.1"}).code == 0);
  CHECK(up.until_error_has("coordinator.pem is renewed"));
  CHECK(c.answers(up));
  const auto sofar = static_cast<int64_t>(up.objects("step").size());
  CHECK(up.until_step(sofar + 5));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("certificates: nobody links to a host that its certificate is not for (LNK-4)") {
  const std::string why =
      "the certificate of coordinator is for coordinator, elsewhere.example, not for 127.0.0.1";
  certified c("elsewhere.example");
  program up(c.up({"cluster.launch=external", free_port(), "cluster.join_timeout_ms=600000"}));
  REQUIRE(up.until([&] { return up.port() != 0; }));
  const auto address = fmt::format("127.0.0.1:{}", up.port());
  const auto means = [&](const std::string& who) -> std::vector<std::string> {
    return {"--ca",  c.pki + "/ca.pem",         "--certificate", c.pki + "/" + who + ".pem",
            "--key", c.pki + "/" + who + ".key"};
  };
  const auto tool = run(with({"ps", "--connect", address}, means("alice")));
  CHECK(tool.code == 69);
  CHECK(tool.err.find(why) != std::string::npos);
  // The node tries again every 200 ms, and says once why, and at the end.
  const std::vector<std::string> join{
      "node", "--join", address, "--name", "node0", "--join-timeout-ms", "10000"};
  const auto node = run(with(join, means("node0")));
  INFO(node.err);
  CHECK(node.code == 69);
  const auto first = node.err.find(why + ": no link is made to it");
  REQUIRE(first != std::string::npos);
  CHECK(node.err.find(why + ": no link is made to it", first + 1) == std::string::npos);
  CHECK(node.err.find(fmt::format("no coordinator at {}: {}", address, why)) != std::string::npos);
  up.signal(SIGKILL);
  up.wait();
}
