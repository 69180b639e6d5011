// A machine without a job under a power budget, with real processes: `troupe power serve`, and
// `troupe power agent` on a made tree of the kernel's devices. What the machine draws is a model's
// word, the same whatever its clock, so that the clock follows from the budget alone: it is the one
// that was found, or the least.
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "gpu/controls/agent_actuator.hpp"
#include "io/folder/lock.hpp"
#include "tests/cluster/constant_watts.hpp"
#include "tests/cluster/served_row.hpp"
#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;

namespace {

constexpr int found_khz = 3'000'000, least_khz = 1'000'000;

/// The devices of the machine, as processes see them that are started meanwhile.
struct made_machine {
  troupe::scratch folder;
  fs::path policy = folder / "devices/system/cpu/cpufreq/policy0";

  explicit made_machine(bool has_clock = true) {
    ::setenv("TROUPE_DEVICES", folder.path.c_str(), 1);
    if (!has_clock) return;
    fs::create_directories(policy);
    put("scaling_max_freq", found_khz);
    put("scaling_min_freq", least_khz);
    put("cpuinfo_min_freq", least_khz);
    put("cpuinfo_max_freq", 3'400'000);
  }
  ~made_machine() { ::unsetenv("TROUPE_DEVICES"); }
  made_machine(const made_machine&) = delete;
  made_machine& operator=(const made_machine&) = delete;

  void put(const char* name, int khz) const { std::ofstream(policy / name) << khz << "\n"; }
  int clock() const {
    int now = 0;
    std::ifstream(policy / "scaling_max_freq") >> now;
    return now;
  }
  bool until_clock(int khz) const {
    return eventually([&] { return clock() == khz; });
  }
};

/// 50 W, whatever the machine does.
std::vector<std::string> agent_words(const troupe::scratch& at,
                                     const std::vector<std::string>& more) {
  std::vector<std::string> out{
      "power", "agent",          "--name", "rack7",    "--model-idle-w",
      "50",    "--model-core-w", "0",      "--output", (at / "agent").string()};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

/// Row0 with 60 W, of which the machine has 20 without a lease.
fs::path row_of_rack(const troupe::scratch& at) {
  return budget_file(at, "row0", 60, child_of_budget("rack7", "low", 10, 20, 60));
}

bool is_leased_rack(const nlohmann::json& rack) {
  return rack["silent"] == false && rack["lease_left_ms"] > 0 && rack["granted_w"] == 60 &&
         rack["power_w"] == 50;
}

}  // namespace

TEST_CASE("power agent: a machine's clock follows its budget, the loss of that, and the end") {
  if (is_metered_here()) return;
  const own_signs signs;
  const made_machine machine;
  served_row row(row_of_rack(signs.folder));
  REQUIRE(until_row_knows());
  program agent(agent_words(signs.folder, {"--control", "cpufreq"}));
  REQUIRE(until_child("rack7", is_leased_rack));
  CHECK(machine.until_clock(found_khz));
  CHECK(told_power({"budget", "30"}).code == 0);
  CHECK(machine.until_clock(least_khz));
  CHECK(told_power({"budget", "60"}).code == 0);
  CHECK(machine.until_clock(found_khz));
  row.up.signal(SIGKILL);
  CHECK(row.up.wait() == 128 + SIGKILL);
  CHECK(machine.until_clock(least_khz));  // PWR-2: its static share is less than it draws
  agent.signal(SIGINT);
  CHECK(agent.wait() == 74);  // PGA-2: nobody has answered that he counts it at its ceiling
  INFO(agent.err());
  CHECK(machine.clock() == least_khz);
  CHECK(run({"power", "restore"}).code == 0);
  CHECK(machine.clock() == found_khz);
  CHECK(agent.err().find("the machine keeps to 20 W") != std::string::npos);
  CHECK(text_of(signs.folder / "agent/power.jsonl").find("\"event\":\"in_force\"") !=
        std::string::npos);
  for (const auto& entry : fs::recursive_directory_iterator(signs.folder.path))
    if (entry.path().extension() == ".secret")
      CHECK_FALSE(entry.path().filename().string().starts_with("rack7-"));  // its own stays nowhere
}

TEST_CASE("PWR-5: power agent: what a killed agent has set stays, and the next one goes on there") {
  if (is_metered_here()) return;
  const own_signs signs;
  const made_machine machine;
  served_row row(row_of_rack(signs.folder));
  REQUIRE(until_row_knows());
  {
    program agent(agent_words(signs.folder, {"--control", "cpufreq"}));
    REQUIRE(until_child("rack7", is_leased_rack));
    CHECK(told_power({"budget", "30"}).code == 0);
    REQUIRE(machine.until_clock(least_khz));
    agent.signal(SIGKILL);
    CHECK(agent.wait() == 128 + SIGKILL);
  }
  CHECK(machine.until_clock(least_khz));
  const auto left = run({"power", "restore", "--dry-run"});
  CHECK(left.out.find("rack7") != std::string::npos);
  {  // one that fails to start changes nothing of it
    const auto held =
        troupe::io::folder_lock::take(signs.folder / "agent", troupe::io::this_process("another"));
    REQUIRE(held);
    CHECK(run(agent_words(signs.folder, {"--control", "cpufreq"})).code == 75);
    CHECK(machine.clock() == least_khz);
  }
  {
    program next(agent_words(signs.folder, {"--control", "cpufreq"}));
    REQUIRE(next.until_error_has("joins the power budget"));
    CHECK(next.err().find("an agent before it has left them") != std::string::npos);
    CHECK(machine.clock() == least_khz);
    REQUIRE(until_child("rack7", [](const auto& rack) { return rack["granted_w"] == 30; }));
    CHECK(machine.clock() == least_khz);
    CHECK(told_power({"budget", "60"}).code == 0);
    CHECK(machine.until_clock(found_khz));  // as the first one found it
    CHECK(told_power({"budget", "30"}).code == 0);
    REQUIRE(machine.until_clock(least_khz));
    next.signal(SIGKILL);
    CHECK(next.wait() == 128 + SIGKILL);
  }
  program last(agent_words(signs.folder, {"--control", "cpufreq"}));
  REQUIRE(last.until_error_has("joins the power budget"));
  CHECK(machine.clock() == least_khz);
  last.signal(SIGINT);
  CHECK(last.wait() == 0);
  CHECK(machine.until_clock(found_khz));
  row.end();
}

TEST_CASE("PGA-4: power agent: at its socket a job has its pace set, and no faster than granted") {
  if (is_metered_here()) return;
  namespace controls = troupe::gpu::controls;
  const own_signs signs;
  const made_machine machine;
  served_row row(row_of_rack(signs.folder));
  REQUIRE(until_row_knows());
  const auto socket = signs.folder / "agent.sock";
  const std::vector<std::string> listening{"--control", "cpufreq", "--socket", socket.string()};
  program agent(agent_words(signs.folder, listening));
  REQUIRE(until_child("rack7", is_leased_rack));
  CHECK(machine.until_clock(found_khz));
  controls::control_place at;
  at.agent_socket = socket;
  const auto job =
      controls::agent_actuator::make(at, {controls::setting_kind::cpufreq, ""}, {"tiny", 0, 1});
  REQUIRE(job);
  REQUIRE((*job)->sets_clocks());
  REQUIRE((*job)->set_clock(2000));  // an operation's
  CHECK(machine.clock() == 2'000'000);
  REQUIRE((*job)->set_clock(controls::highest_clock_mhz));
  CHECK(machine.clock() == found_khz);
  REQUIRE((*job)->set(512));
  const int of_job = machine.clock();
  CHECK(of_job < found_khz);
  CHECK(of_job > least_khz);
  CHECK(told_power({"budget", "30"}).code == 0);
  CHECK(machine.until_clock(least_khz));
  REQUIRE((*job)->set(controls::whole_pace));
  CHECK(machine.clock() == least_khz);
  REQUIRE((*job)->set(512));
  CHECK(told_power({"budget", "60"}).code == 0);
  CHECK(machine.until_clock(of_job));
  REQUIRE((*job)->set_clock(1200));  // and goes with the socket
  CHECK(machine.clock() == 1'200'000);
  auto another = agent_words(signs.folder, listening);
  another[9] = (signs.folder / "another").string();  // its output
  CHECK(run(another).code == 75);                    // somebody listens there
  CHECK(run(agent_words(signs.folder, {"--socket", socket.string()})).code == 64);
  agent.signal(SIGINT);  // for good: of SIGTERM what the budget holds stays for the next one
  CHECK(agent.wait() == 0);
  CHECK(text_of(signs.folder / "agent/power.jsonl").find("\"event\":\"agent_set\"") !=
        std::string::npos);
  CHECK((*job)->has_gone());
  CHECK(machine.clock() == found_khz);
  CHECK_FALSE(fs::exists(socket));
  row.end();
}

TEST_CASE("PGA-2: power agent: the budget counts no less than what an agent's end leaves") {
  if (is_metered_here()) return;
  const own_signs signs;
  const made_machine machine;
  served_row row(
      budget_file(signs.folder, "row0", 60, child_of_budget("rack7", "low", 10, 20, 90)));
  REQUIRE(until_row_knows());
  const auto is_heard = [](const auto& rack) {
    return rack["silent"] == false && rack["lease_left_ms"] > 0 && rack["power_w"] == 50;
  };
  {
    program agent(agent_words(signs.folder, {"--control", "cpufreq"}));
    REQUIRE(until_child("rack7", is_heard));
    CHECK(told_power({"budget", "30"}).code == 0);
    REQUIRE(machine.until_clock(least_khz));
    agent.signal(SIGTERM);  // as of a restart: the next one is about to come
    CHECK(agent.wait() == 0);
    CHECK(agent.err().find("stays for the next one") != std::string::npos);
  }
  CHECK(machine.clock() == least_khz);
  REQUIRE(until_child("rack7", [](const auto& rack) { return rack["silent"] == true; }));
  CHECK(child_in(said_tree(), "rack7")["counted_w"] < 90);
  program next(agent_words(signs.folder, {"--control", "cpufreq"}));
  REQUIRE(until_child("rack7", is_heard));
  CHECK(machine.clock() == least_khz);
  next.signal(SIGINT);  // for good
  CHECK(next.wait() == 0);
  CHECK(machine.clock() == found_khz);
  CHECK(child_in(said_tree(), "rack7")["counted_w"] == 90);
  REQUIRE(until_child("rack7", [](const auto& rack) { return rack["silent"] == true; }));
  CHECK(child_in(said_tree(), "rack7")["counted_w"] == 90);
  row.end();
}

TEST_CASE("PGA-2: power agent: an end for good waits for the slowest budget's answer") {
  if (is_metered_here()) return;
  const own_signs signs;
  const made_machine machine;
  const auto file =
      budget_file(signs.folder, "row0", 30, child_of_budget("rack7", "low", 10, 20, 60));
  auto text = text_of(file);
  const std::string quick = "tick_ms = 100\nlease_ttl_ms = 5000";
  REQUIRE(text.find(quick) != std::string::npos);
  text.replace(text.find(quick), quick.size(), "tick_ms = 2000\nlease_ttl_ms = 8000");
  std::ofstream(file) << text;
  served_row row(file);
  REQUIRE(until_row_knows());
  program agent(agent_words(signs.folder, {"--control", "cpufreq", "--static-w", "20"}));
  REQUIRE(machine.until_clock(least_khz));
  // A tick has just answered: the report under way has its answer with the next one alone.
  REQUIRE(until_child("rack7", [](const auto& rack) {
    return rack["silent"] == false && rack["lease_left_ms"] > 0;
  }));
  agent.signal(SIGINT);
  CHECK(agent.wait() == 0);
  CHECK(machine.clock() == found_khz);
  row.end();
}

TEST_CASE("MHD-1: power agent: a static share that it is told holds before there is a budget") {
  if (is_metered_here()) return;
  const own_signs signs;
  const made_machine machine;
  program agent(agent_words(signs.folder, {"--control", "cpufreq", "--static-w", "20"}));
  CHECK(machine.until_clock(least_khz));
  agent.signal(SIGTERM);
  CHECK(agent.wait() == 0);
  CHECK(machine.clock() == least_khz);
}

TEST_CASE(
    "SGV-8: power agent: a node of a job that starts takes nothing back of what it has left") {
  if (is_metered_here()) return;
  const own_signs signs;
  const made_machine machine;
  program agent(agent_words(signs.folder, {"--control", "cpufreq", "--static-w", "20"}));
  REQUIRE(machine.until_clock(least_khz));
  agent.signal(SIGKILL);
  CHECK(agent.wait() == 128 + SIGKILL);
  const auto node = run({"node", "--name", "a", "--join", "127.0.0.1:1"});
  CHECK(node.code == 69);  // no job is there: it has looked what dead ones left before that
  CHECK(machine.clock() == least_khz);
  CHECK(run({"power", "restore"}).code == 0);
  CHECK(machine.clock() == found_khz);
}

TEST_CASE("PGA-2: power agent: one whose device does not answer any more ends all the same") {
  if (is_metered_here()) return;
  const own_signs signs;
  const made_machine machine;
  served_row row(row_of_rack(signs.folder));
  REQUIRE(until_row_knows());
  program agent(agent_words(signs.folder, {"--control", "cpufreq"}));
  REQUIRE(until_child("rack7", is_leased_rack));
  REQUIRE(machine.until_clock(found_khz));  // else it is at the least already, and sets nothing
  const auto hung = signs.folder / "hung";
  REQUIRE(::mkfifo(hung.c_str(), 0600) == 0);  // whoever opens it to write waits for a reader
  fs::rename(hung, machine.policy / "scaling_max_freq");
  CHECK(told_power({"budget", "30"}).code == 0);
  REQUIRE(until_child("rack7", [](const auto& rack) { return rack["silent"] == true; }));
  agent.signal(SIGTERM);
  CHECK(agent.wait() == 74);
  CHECK(agent.err().find("does not answer") != std::string::npos);
  row.end();
}

TEST_CASE("PWR-5: power agent: what a killed one has left a person takes back, or one without it") {
  if (is_metered_here()) return;
  for (const bool by_hand : {true, false}) {
    CAPTURE(by_hand);
    const own_signs signs;
    const made_machine machine;
    served_row row(row_of_rack(signs.folder));
    REQUIRE(until_row_knows());
    {
      program agent(agent_words(signs.folder, {"--control", "cpufreq"}));
      REQUIRE(until_child("rack7", is_leased_rack));
      CHECK(told_power({"budget", "30"}).code == 0);
      REQUIRE(machine.until_clock(least_khz));
      agent.signal(SIGKILL);
      CHECK(agent.wait() == 128 + SIGKILL);
    }
    if (by_hand) {
      CHECK(run({"power", "restore"}).code == 0);
      CHECK(machine.clock() == found_khz);
    } else {
      program next(agent_words(signs.folder, {}));
      REQUIRE(next.until_error_has("meters alone"));
      CHECK(machine.clock() == found_khz);
      next.signal(SIGINT);
      CHECK(next.wait() == 0);
    }
    row.end();
  }
}

TEST_CASE("power agent: a dry run reports and decides, and sets nothing") {
  if (is_metered_here()) return;
  const own_signs signs;
  const made_machine machine(false);
  served_row row(row_of_rack(signs.folder));
  REQUIRE(until_row_knows());
  program agent(agent_words(signs.folder, {"--control", "cpufreq", "--dry-run", "--json"}));
  REQUIRE(until_child("rack7", is_leased_rack));
  REQUIRE(agent.until([&] { return agent.out().find("\"event\":\"pace\"") != std::string::npos; }));
  agent.signal(SIGINT);
  CHECK(agent.wait() == 0);
  row.end();
}

TEST_CASE("power agent: without a setting it does not start, and says what to do") {
  const own_signs signs;
  const made_machine machine(false);
  const auto said = run(agent_words(signs.folder, {"--control", "cpufreq"}));
  CHECK(said.code == 69);
  CHECK(said.err.find("--dry-run") != std::string::npos);
  CHECK_FALSE(fs::exists(signs.folder / "agent"));
  CHECK(run(agent_words(signs.folder, {"--parent", "10.0.0.5:7070"})).code == 64);
  for (const char* wrong : {"pace", "cgroup", "rapl,cpufreq", "cpufreq,cpufreq"})
    CHECK(run(agent_words(signs.folder, {"--control", wrong, "--dry-run"})).code == 64);
  for (const char* wrong : {"-1", "nan", "1e300"})
    CHECK(run(agent_words(signs.folder, {"--static-w", wrong, "--dry-run"})).code == 64);
}

TEST_CASE("power agent: a certificate proves which child it is, and without a control it reports") {
  if (is_metered_here()) return;
  const own_signs signs;
  const auto pki = (signs.folder / "pki").string();
  REQUIRE(run({"certs", pki, "--budget", "row0=127.0.0.1", "--operator", "alice", "--node",
               "rack7=127.0.0.1"})
              .code == 0);
  const auto shown = [&](const std::string& whose) {
    return std::vector<std::string>{"--ca",          pki + "/ca.pem",
                                    "--certificate", pki + "/" + whose + ".pem",
                                    "--key",         pki + "/" + whose + ".key"};
  };
  const auto tls = fmt::format(
      "[tls]\nca = \"{0}/ca.pem\"\ncertificate = \"{0}/row0.pem\"\nkey = \"{0}/row0.key\"\n", pki);
  served_row row(
      budget_file(signs.folder, "row0", 60, child_of_budget("rack7", "low", 10, 20, 60), tls));
  program agent(agent_words(signs.folder, with(shown("rack7"), {"--parent", row.address})));
  auto look = shown("alice");
  look.insert(look.begin(), {"power", "tree", "--json", "--connect", row.address});
  CHECK(eventually([&] {
    const auto rack = child_in(object_of(look), "rack7");
    return rack.is_object() && is_leased_rack(rack);
  }));
  agent.signal(SIGTERM);
  CHECK(agent.wait() == 0);
  row.end();
}
