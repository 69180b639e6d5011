// What a certificate's role lets its holder do to a running cluster, by its own tools and by force.
#include <csignal>

#include "tests/cluster/bad_outputs.hpp"
#include "tests/cluster/job_files.hpp"
#include "tests/cluster/strangers.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

/// A cluster with mutual TLS that does not end by itself; alice may command it, bob may look.
struct trusted {
  job_files job;
  std::string pki = (job / "pki").string();
  std::unique_ptr<program> up;

  trusted() {
    REQUIRE(run({"certs", pki, "--node", "node0=localhost,127.0.0.1", "--node",
                 "node1=localhost,127.0.0.1", "--operator", "alice", "--viewer", "bob"})
                .code == 0);
    up = std::make_unique<program>(
        job.up(with(layout(2, 1), {"train.steps=1000000", "train.schedule=constant",
                                   "cluster.tls.ca=" + pki + "/ca.pem",
                                   "cluster.tls.certificate=" + pki + "/{node}.pem",
                                   "cluster.tls.key=" + pki + "/{node}.key"})));
    REQUIRE(up->until_step(1));
  }

  std::vector<std::string> signed_by(const std::string& who,
                                     std::vector<std::string> arguments) const {
    return with(std::move(arguments),
                {"--connect", "127.0.0.1:" + std::to_string(up->port()), "--ca", pki + "/ca.pem",
                 "--certificate", pki + "/" + who + ".pem", "--key", pki + "/" + who + ".key"});
  }
  finished as(const std::string& who, std::vector<std::string> arguments) const {
    return run(signed_by(who, std::move(arguments)));
  }

  /// Says bytes over TLS with somebody's certificate, until the cluster hangs up.
  bool say_raw(const std::string& who, const std::string& bytes) const {
    const auto file = (job / "said").string();
    std::ofstream(file, std::ios::binary) << bytes;
    return openssl_client(
        up->port(), {"-cert", pki + "/" + who + ".pem", "-key", pki + "/" + who + ".key"}, file);
  }

  json view() const {
    const auto s = as("alice", {"ps", "--json"});
    INFO(s.err);
    REQUIRE(s.code == 0);
    return json::parse(s.out);
  }

  json turned_away() const {
    const auto v = view();
    for (const auto& n : v["nodes"])
      for (const auto& a : n["actors"])
        if (a["path"] == "coordinator") return a["detail"]["turned_away"];
    return {};
  }

  uint64_t rejected() const {
    const auto v = view();
    for (const auto& n : v["nodes"])
      if (n["node"] == "head") return n.at("refused");
    return 0;
  }

  std::vector<json> audit() const { return objects_in(job / "run/audit.jsonl"); }

  void goes_on() {
    const auto sofar = static_cast<int64_t>(up->objects("step").size());
    CHECK(up->until_step(sofar + 3));
  }
};

}  // namespace

TEST_CASE("roles: a console tells whom it greets whether he may only look") {
  trusted t;
  for (const auto& [who, only_looks] : {std::pair("bob", true), {"alice", false}}) {
    const terminal screen;
    program console(t.signed_by(who, {"console"}), 0, {.terminal = screen.path});
    std::string shown;
    REQUIRE(
        console.until([&] { return (shown += screen.shown()).find("help lists") != shown.npos; },
                      screen.master.get()));
    CAPTURE(shown);
    CHECK((shown.find("read-only: its role is reader") != shown.npos) == only_looks);
    REQUIRE(write(screen.master.get(), "quit\n", 5) == 5);
    CHECK(console.wait() == 0);
  }
  t.goes_on();
}

TEST_CASE(
    "roles: a viewer looks, and is refused all else by name, an operator's orders are carried "
    "out") {
  trusted t;
  CHECK(t.as("bob", {"ps"}).code == 0);
  CHECK(t.as("bob", {"status"}).code == 0);
  CHECK(t.as("bob", {"send", "worker/*", "StatusRequest"}).code == 0);
  const auto health = t.as("bob", {"health", "--json"});
  INFO(health.err);
  CHECK((health.code == 0 || health.code == 1));  // as this machine's disk is
  CHECK(json::parse(health.out).contains("findings"));
  CHECK(t.as("bob", {"console", "-c", "spares"}).code == 0);
  const auto live = t.as("bob", {"trace", "live", "--message", "RunStep", "--max", "3", "--json"});
  INFO(live.err);
  CHECK(live.code == 0);
  CHECK(live.out.find("RunStep") != std::string::npos);
  CHECK(t.audit().empty());

  const auto pause = t.as("bob", {"console", "-c", "pause to look"});
  CHECK(pause.code == 77);
  CHECK(pause.err.find("bob may only look") != std::string::npos);
  CHECK(t.as("bob", {"send", "run", "Pause"}).code == 77);
  CHECK(t.as("bob", {"console", "-c", "kill worker/1"}).code == 77);
  CHECK(t.as("bob", {"console", "-c", "log debug"}).code == 77);
  CHECK(t.as("bob", {"console", "-c", "drain node1"}).code == 77);
  CHECK(t.as("bob", {"console", "-c", "blackbox"}).code == 77);
  CHECK(t.as("bob", {"console", "-c", "stop"}).code == 77);
  CHECK(t.as("bob", {"send", "stage/0", "RunStep"}).code == 77);
  const auto lines = t.audit();
  REQUIRE(lines.size() == 8);
  const std::vector<std::string> commands{"Pause",        "Pause",     "KillActor",
                                          "SetLogLevel",  "DrainNode", "DumpBlackBox",
                                          "StopTraining", "RunStep"};
  for (size_t i = 0; i < lines.size(); ++i) {
    CAPTURE(lines[i].dump());
    CHECK(lines[i]["who"] == "bob");
    CHECK(lines[i]["role"] == "reader");
    CHECK(lines[i]["from"] == "127.0.0.1");
    CHECK(lines[i]["command"] == commands[i]);
    CHECK(lines[i]["result"].get<std::string>().starts_with("refused: bob may"));
  }
  CHECK(lines[0]["target"] == "run");
  CHECK(lines[2]["target"] == "worker/1");
  t.goes_on();  // nothing of it was done

  CHECK(t.as("alice", {"console", "-c", "pause"}).code == 0);
  CHECK(t.up->until_error_has("paused after step"));
  CHECK(t.as("alice", {"console", "-c", "resume"}).code == 0);
  const auto after = t.audit();
  REQUIRE(after.size() == 10);
  CHECK(after[8]["who"] == "alice");
  CHECK(after[8]["role"] == "operator");
  CHECK(after[8]["result"] == "done");
  t.up->signal(SIGINT);
  CHECK(t.up->wait() == 130);
}

TEST_CASE("roles: what only nodes say is refused to operators and to the launcher as well") {
  trusted t;
  const auto kept = t.job / "kept";
  std::filesystem::create_directories(kept);
  std::ofstream(kept / "thesis.txt") << "years";
  const auto names_it = json{{"checkpoint", kept.string()}, {"directory", kept.string()}}.dump();
  for (const std::string who : {"alice", "coordinator"}) {
    const auto refused = t.as(who, {"send", "committer", "ExportModel", names_it});
    CHECK(refused.code == 77);
    INFO(refused.err);
    CHECK(refused.err.find("ExportModel") != std::string::npos);
    CHECK(t.as(who, {"send", "*", "AbandonCheckpoint",
                     json{{"step", 1}, {"directory", kept.string()}}.dump()})
              .code == 77);
  }
  const auto lines = t.audit();
  REQUIRE(lines.size() == 4);
  for (const auto& l : lines) {
    CAPTURE(l.dump());
    CHECK(l["result"].get<std::string>().starts_with("refused: "));
  }
  CHECK(lines[0]["command"] == "ExportModel");
  CHECK(lines[0]["target"] == "committer");
  CHECK(lines[2]["who"] == "coordinator");
  CHECK(std::filesystem::exists(kept / "thesis.txt"));
  t.goes_on();
}

TEST_CASE("roles: what a message claims of its sender is not believed") {
  trusted t;
  const auto nested = R"({"actor":"worker/9","who":"mallory"})";
  t.as("alice", {"send", "gateway", "KillActor", nested});
  const auto lines = t.audit();
  REQUIRE(lines.size() == 2);
  for (const auto& l : lines) CHECK(l["who"] != "mallory");
  CHECK(lines.front()["who"] == "alice");
  CHECK(lines.back()["who"] == "the cluster");
  CHECK(t.as("bob", {"send", "gateway", "KillActor", nested}).code == 77);
  CHECK(t.audit().back()["who"] == "bob");
  // The launcher's own tools hold the coordinator's certificate: it is known by its name.
  CHECK(t.as("coordinator", {"console", "-c", "resume"}).code == 1);
  CHECK(t.audit().back()["who"] == "coordinator");
  CHECK(t.audit().back()["role"] == "node");
}

TEST_CASE("roles: neither a viewer nor an operator can join as a node") {
  trusted t;
  for (const std::string who : {"bob", "alice"}) {
    program n({"node", "--join", "127.0.0.1:" + std::to_string(t.up->port()), "--name", "node1",
               "--join-timeout-ms", "2000", "--ca", t.pki + "/ca.pem", "--certificate",
               t.pki + "/" + who + ".pem", "--key", t.pki + "/" + who + ".key"});
    CHECK(n.wait() != 0);
    CHECK(n.err().find("only nodes may") != std::string::npos);
  }
  CHECK(t.audit().size() == 2);
  t.goes_on();
}

TEST_CASE("roles: a viewer that speaks the wire by hand gains nothing") {
  trusted t;
  const auto greeting = frame(1, process_name(7));
  // Whether they hear our greeting before we hang up is chance; the ingress counts them all.
  // For another process, whoever that is; without a sender; as a server; by another's name.
  t.say_raw("bob",
            greeting + frame(3, process_name(8) + process_name(9) + content("@exit"), 1, 1));
  t.say_raw("bob", greeting + frame(2, content("@exit"), 0, 1));
  t.say_raw("bob", frame(0, process_name(7)));
  t.say_raw("bob", greeting + frame(1, process_name(8)));
  t.say_raw("bob", greeting + frame(4, process_name(8) + process_name(9), 0, 1));
  // A certificate's holder is remembered with the process it named: nobody else bears that name.
  t.say_raw("alice", greeting + frame(2, content("@exit"), 0, 1));
  json seen;
  REQUIRE(eventually([&] { return (seen = t.turned_away())["all"] == 6; }));
  CHECK(seen["impostor"] == 5);
  CHECK(seen["not_ours"] == 1);
  // CAF's own commands, in a message that is otherwise right: left out, and the link stays.
  const auto before = t.rejected();
  std::string exits;
  for (uint64_t actor = 1; actor <= 40; ++actor) exits += frame(2, content("@exit"), 1, actor);
  t.say_raw("bob", greeting + exits + frame(6, "", 1, 1));  // a wrong heartbeat ends it
  CHECK(t.rejected() == before + 40);
  t.goes_on();
}
