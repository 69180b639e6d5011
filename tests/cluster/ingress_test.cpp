// Connections that come to nothing are counted by their reason, exactly, and the cluster goes on.
#include <csignal>

#include "tests/cluster/job_files.hpp"
#include "tests/cluster/strangers.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

/// What the coordinator says of its ingress, asked as the user of this machine.
json ingress_of(const program& up, const std::vector<std::string>& how = {}) {
  const auto s = run(with(
      {"ps", "coordinator", "--json", "--connect", "127.0.0.1:" + std::to_string(up.port())}, how));
  INFO(s.err);
  REQUIRE(s.code == 0);
  const auto view = json::parse(s.out);
  for (const auto& n : view["nodes"])
    for (const auto& a : n["actors"])
      if (a["path"] == "coordinator") return a["detail"]["turned_away"];
  FAIL("no coordinator");
  return {};
}

}  // namespace

TEST_CASE("ingress: strangers at a cluster without certificates are counted, each once") {
  job_files job;
  program up(job.up({"train.steps=1000000"}));
  REQUIRE(up.until_step(1));
  CHECK(ingress_of(up)["all"] == 0);
  CHECK(send_garbage(up.port(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n and some more words"));
  CHECK(send_garbage(up.port(), std::string(100'000, '\xff')));
  CHECK(send_garbage(up.port(), std::string(64, '\0')));
  CHECK(send_garbage(up.port(), frame(1, "")));  // CAF's own greeting
  CHECK(send_garbage(up.port(), frame(3, std::string(64, 'x'), 1, 1)));
  CHECK(send_garbage(up.port(), "sh"));
  CHECK(send_garbage(up.port(), ""));
  CHECK(openssl_client(up.port(), {}) == false);
  CHECK(openssl_client(up.port(), {"-psk_identity", "operator/root", "-psk",
                                   std::string(64, '0')}) == false);
  CHECK(openssl_client(up.port(), {"-psk_identity", "nonsense", "-psk", std::string(64, '0')}) ==
        false);
  json seen;
  REQUIRE(eventually([&] { return (seen = ingress_of(up))["all"] == 10; }));
  CAPTURE(seen.dump());
  CHECK(seen["not_tls"] == 6);
  CHECK(seen["hung_up"] == 1);
  CHECK(seen["no_key"] == 3);
  CHECK(up.until_error_has("turned away a connection from 127.0.0.1: no TLS"));
  const auto sofar = static_cast<int64_t>(up.objects("step").size());
  CHECK(up.until_step(sofar + 5));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("ingress: failed handshakes of TLS are counted by their reason") {
  job_files job;
  const auto pki = (job / "pki").string(), other = (job / "other").string();
  REQUIRE(run({"certs", pki, "--node", "node0=localhost,127.0.0.1"}).code == 0);
  REQUIRE(run({"certs", other, "--node", "node0=localhost,127.0.0.1"}).code == 0);
  program up(job.up({"train.steps=1000000", "cluster.tls.ca=" + pki + "/ca.pem",
                     "cluster.tls.certificate=" + pki + "/{node}.pem",
                     "cluster.tls.key=" + pki + "/{node}.key"}));
  REQUIRE(up.until_step(1));
  const std::vector<std::string> own{
      "--ca", pki + "/ca.pem", "--certificate", pki + "/node0.pem", "--key", pki + "/node0.key"};
  CHECK(ingress_of(up, own)["all"] == 0);
  for (const auto& bytes : garbage) CHECK(send_garbage(up.port(), bytes));
  CHECK(openssl_client(up.port(), {}) == false);
  CHECK(openssl_client(up.port(), {"-cert", other + "/node0.pem", "-key", other + "/node0.key"}) ==
        false);
  CHECK(openssl_client(up.port(), {"-cert", other + "/node0.pem", "-key", other + "/node0.key"}) ==
        false);
  json seen;
  REQUIRE(eventually([&] { return (seen = ingress_of(up, own))["all"] == 7; }));
  CHECK(seen["not_tls"] == 3);
  CHECK(seen["hung_up"] == 1);  // the beginning of a handshake, and no more
  CHECK(seen["no_certificate"] == 1);
  CHECK(seen["unknown_authority"] == 2);
  CHECK(up.until_error_has("its certificate is of another authority"));
  CHECK(up.err().find("BEGIN") == std::string::npos);
  const auto sofar = static_cast<int64_t>(up.objects("step").size());
  CHECK(up.until_step(sofar + 5));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}
