// What a head orders of its launcher, and what it makes of what that says.
#include "apps/up/node_processes.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "apps/up/log_tail.hpp"
#include "io/config/load.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps;

namespace {

struct head_and_launcher {
  std::shared_ptr<launcher_line> head;
  launcher_line launcher;

  head_and_launcher() : head_and_launcher(*launcher_line::make()) {}
  explicit head_and_launcher(std::pair<launcher_line, io::unique_fd> ends)
      : head(std::make_shared<launcher_line>(std::move(ends.second))),
        launcher(std::move(ends.first)) {}

  /// Word and node of what was ordered.
  std::vector<std::string> ordered() {
    std::vector<std::string> out;
    while (const auto p = launcher.receive()) out.push_back((*p)[0] + " " + (*p)[1]);
    return out;
  }
};

config::job three_nodes() {
  auto job = config::parse(
      "[job]\noutput = \"out\"\n[model]\nlayers = 1\nheads = 1\nhidden = 8\nvocab = 300\n[data]\n"
      "path = \"x\"\n[train]\nbatch = 3\n[cluster]\nnodes = 3\n",
      "job");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  return *job;
}

node_start at_port(uint16_t port, bool keeps_running = false) {
  node_start out;
  out.address = "127.0.0.1";
  out.port = port;
  out.key = "a key";
  out.launcher = 77;
  out.folder = "/home/ann's";
  out.keeps_running = keeps_running;
  return out;
}

}  // namespace

TEST_CASE("node processes: the first head orders all, with command, key and a new log") {
  head_and_launcher f;
  node_processes nodes(f.head);
  REQUIRE(nodes.start(three_nodes(), at_port(4711)));
  CHECK(nodes.running() == 3);
  const auto first = f.launcher.receive();
  REQUIRE(first);
  REQUIRE(first->size() > 8);
  const packet head_of_it(first->begin(), first->begin() + 8);
  CHECK(head_of_it == packet{"start", "node0", "out/node0.log", "new", "a key", "free",
                             "/proc/self/exe", "node"});
  CHECK(std::find(first->begin(), first->end(), "127.0.0.1:4711") != first->end());
  CHECK(std::find(first->begin(), first->end(), "77") != first->end());
  CHECK(std::find(first->begin() + 6, first->end(), "a key") == first->end());  // PRC-3
  CHECK(f.ordered() == std::vector<std::string>{"start node1", "start node2"});
}

TEST_CASE("NPR-1: the next head orders those alone that are not there, also who ended meanwhile") {
  head_and_launcher f;
  for (const char* node : {"node0", "node1"}) REQUIRE(f.launcher.send({"node", node, "10", "1"}));
  REQUIRE(f.launcher.send({"node", "node2", "0", "2"}));
  REQUIRE(f.launcher.send({"ended", "node1", "10", "-1", "was killed by signal 9 (Killed)"}));
  node_processes nodes(f.head);
  REQUIRE(nodes.start(three_nodes(), at_port(4711, true)));
  CHECK(f.ordered() == std::vector<std::string>{"start node1", "start node2"});
  CHECK(nodes.running() == 3);
}

TEST_CASE("NPR-1: who was evicted is not started, and where nobody finds the head all are anew") {
  for (const bool keeps : {true, false}) {
    head_and_launcher f;
    for (const char* node : {"node0", "node1"})
      REQUIRE(f.launcher.send({"node", node, "10", "1"}));
    node_processes nodes(f.head);
    auto how = at_port(4711, keeps);
    how.evicted = {"node2"};
    REQUIRE(nodes.start(three_nodes(), how));
    using orders = std::vector<std::string>;
    CHECK(f.ordered() == (keeps ? orders{} : orders{"start node0", "start node1"}));
  }
}

TEST_CASE("node processes: ends are heard in words, what is no word of ours is left out") {
  head_and_launcher f;
  {
    node_processes nodes(f.head);
    REQUIRE(nodes.start(three_nodes(), at_port(4711)));
    f.ordered();
    REQUIRE(f.launcher.send({"ended", "node0", "10", "-1", "was killed by signal 9 (Killed)"}));
    REQUIRE(f.launcher.send({"ended", "node1"}));
    REQUIRE(f.launcher.send({"what"}));
    REQUIRE(f.launcher.send({"failed", "node2", "no such file"}));
    const auto ends = nodes.heard();
    REQUIRE(ends.size() == 2);
    CHECK(ends[0].node == "node0");
    CHECK(ends[0].pid == 10);
    CHECK(ends[0].code == -1);
    CHECK(ends[0].failed);
    CHECK(ends[0].black_box.find("node0") != std::string::npos);
    CHECK(ends[1].how == "could not be started: no such file");
    CHECK(nodes.running() == 1);
    REQUIRE(nodes.restart("node0"));
    CHECK(f.ordered() == std::vector<std::string>{"start node0"});
    const auto unknown = nodes.restart("node9");
    REQUIRE_FALSE(unknown);
    CHECK(unknown.error().is(not_started_here));
  }
  CHECK(f.ordered() == std::vector<std::string>{"stop node0", "stop node1"});  // NPR-2
}

TEST_CASE("node processes: where others start the nodes it is said how, or that they come again") {
  auto job = three_nodes();
  job.cluster.launch = config::launch_mode::external;
  auto how = at_port(4711);
  const auto anew = waits_for_nodes(job, how);
  CHECK(anew.find("start each with: troupe node --join 127.0.0.1:4711") != std::string::npos);
  how.outlived = true;
  job.cluster.heads = {"127.0.0.1:4711", "127.0.0.1:4712"};
  const auto again = waits_for_nodes(job, how);
  CHECK(again.find("start each") == std::string::npos);
  CHECK(again.find("come by themselves") != std::string::npos);
  CHECK(again.find("--join 127.0.0.1:4711,127.0.0.1:4712 ") != std::string::npos);
}

TEST_CASE("NPR-4: behind ssh a node works in the launcher's folder") {
  auto job = three_nodes();
  job.cluster.launch = config::launch_mode::ssh;
  job.cluster.ssh_command = "ssh -q";
  job.cluster.remote_binary = "bin/troupe";
  head_and_launcher f;
  node_processes nodes(f.head);
  REQUIRE(nodes.start(job, at_port(4711)));
  const auto first = f.launcher.receive();
  REQUIRE(first);
  REQUIRE(first->size() == 10);
  CHECK((*first)[6] == "ssh");
  CHECK((*first)[7] == "-q");
  CHECK((*first)[9].starts_with("cd '/home/ann'\\''s' && exec 'bin/troupe' 'node' '--join' "));
}

TEST_CASE("NPR-3: an error of a process is told with the last words of its log") {
  const troupe::scratch dir;
  const auto log = dir / "node1.log";
  std::ofstream(log) << "error: of another process\n";
  auto job = three_nodes();
  job.job.output = dir.path.string();
  job.cluster.launch = config::launch_mode::ssh;
  head_and_launcher f;
  REQUIRE(f.launcher.send({"node", "node1", "0", "1"}));
  node_processes nodes(f.head);
  REQUIRE(nodes.start(job, at_port(4711)));
  std::ofstream(log, std::ios::app) << "joined\nerror: no GPU\x1b[1m is there\nhint: look\n";
  const auto how_of = [&](const char* node, const char* code, const char* how) {
    REQUIRE(f.launcher.send({"ended", node, "10", code, how}));
    const auto ends = nodes.heard();
    REQUIRE(ends.size() == 1);
    return ends[0].how;
  };
  CHECK(how_of("node1", "69", "exited with 69") ==
        "exited with 69: no GPU\\u001b[1m is there");
  CHECK(how_of("node0", "69", "exited with 69") == "exited with 69");  // it has no log
  REQUIRE(nodes.restart("node1"));
  CHECK(how_of("node1", "255", "exited with 255") == "exited with 255");  // of this process alone
  REQUIRE(nodes.restart("node1"));
  std::ofstream(log, std::ios::app) << "ssh: connect to host b: refused\n\n";
  CHECK(how_of("node1", "0", "exited with 0") == "exited with 0");
  CHECK(how_of("node1", "255", "exited with 255") ==
        "exited with 255: ssh: connect to host b: refused");
}

TEST_CASE("log tail: of a long log the end is looked at, of a long line the beginning is told") {
  const troupe::scratch dir;
  const auto log = (dir / "node.log").string();
  CHECK(last_words(log, 0).empty());
  CHECK(bytes_of_log(log) == 0);
  std::ofstream(log) << "error: at the beginning\n" << std::string(40 << 10, 'x') << "\nlast\n";
  CHECK(last_words(log, 0) == "last");
  CHECK(last_words(log, uint64_t{1} << 40) == "last");  // it was truncated since
  std::ofstream(log, std::ios::app) << "error: " << std::string(1000, 'y') << "\n";
  CHECK(last_words(log, 0).size() < 300);
  CHECK(last_words(log, bytes_of_log(log)).empty());
}
