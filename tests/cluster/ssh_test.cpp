// Nodes that are started through ssh: a real sshd of this test's own, without a port (ssh talks to
// it through a pipe), so that any user can run it.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "io/tls/keyring.hpp"
#include "tests/apps/ended.hpp"
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

bool has_ssh() {
  return access("/usr/sbin/sshd", X_OK) == 0 && access("/usr/bin/ssh", X_OK) == 0 &&
         access("/usr/bin/ssh-keygen", X_OK) == 0 &&
         (geteuid() != 0 || fs::exists("/run/sshd"));  // which root's sshd wants
}

/// A job of two nodes behind ssh.
struct ssh_job : job_files {
  ssh_job() {
    const auto dir = folder.path.string();
    for (const char* key : {"host", "user"})
      REQUIRE(std::system(
                  fmt::format("ssh-keygen -q -t ed25519 -N '' -f {}/{}", dir, key).c_str()) == 0);
    fs::copy_file(folder / "user.pub", folder / "authorized");
    std::ofstream(folder / "sshd.conf") << fmt::format(
        "HostKey {0}/host\nAuthorizedKeysFile {0}/authorized\nStrictModes no\nPidFile none\n", dir);
    std::ofstream(folder / "server")
        << fmt::format("#!/bin/sh\nexec /usr/sbin/sshd -i -f {0}/sshd.conf -E {0}/sshd.log\n", dir);
    fs::permissions(folder / "server", fs::perms::owner_all);
  }

  std::vector<std::string> settings() const {
    const auto dir = folder.path.string();
    std::vector<std::string> out{
        "cluster.launch=ssh", "cluster.listen=127.0.0.1",
        fmt::format("cluster.remote_binary={}", TROUPE_PROGRAM),
        fmt::format("cluster.ssh_command=ssh -F none -i {0}/user -o IdentitiesOnly=yes -o "
                    "BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o "
                    "LogLevel=ERROR -o ProxyCommand={0}/server",
                    dir)};
    return out;
  }

  /// The configuration with nodes on the hosts of this name.
  void write_nodes(const std::string& host) const {
    std::ofstream more(folder / "job.toml", std::ios::app);
    for (const char* name : {"one", "two"})
      more << fmt::format("[[cluster.node]]\nname = \"{}\"\nhost = \"{}\"\n", name, host);
  }
};

const std::vector<std::string> two{"parallel.data=2"};

/// The child that speaks to the host of a node; -1: none.
pid_t ssh_of(pid_t launcher, const std::string& node) {
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", launcher));
  for (pid_t pid = 0; children >> pid;) {
    std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
    const std::string line(std::istreambuf_iterator<char>(file), {});
    if (line.starts_with("ssh") && line.find(fmt::format("'--name' '{}'", node)) != line.npos)
      return pid;
  }
  return -1;
}

}  // namespace

TEST_CASE("ssh: nodes are started through ssh, train and end with the run") {
  if (!has_ssh()) {
    MESSAGE("SKIPPED: no sshd, ssh and ssh-keygen here (Debian: openssh-server)");
    return;
  }
  ssh_job job;
  job.write_nodes("localhost");
  const auto through_ssh = job.losses(with(job.settings(), two));
  CHECK(through_ssh.size() == 20);
  CHECK(through_ssh.back() < through_ssh.front());
}

TEST_CASE("ssh: nodes end when their launcher was killed with -9") {
  if (!has_ssh()) {
    MESSAGE("SKIPPED: no sshd, ssh and ssh-keygen here (Debian: openssh-server)");
    return;
  }
  ssh_job job;
  job.write_nodes("localhost");
  program up(
      job.up(with(job.settings(), with(two, {"train.steps=1000000", "train.schedule=constant"}))));
  REQUIRE(up.until_step(2));
  const traces left(up);
  CHECK(left.processes.size() >= 3);
  up.signal(SIGKILL);
  CHECK(up.wait() == 137);
  CHECK(left.gone());
}

TEST_CASE(
    "recovery: a node behind ssh whose ssh is killed gets another process, the old one ends") {
  if (!has_ssh()) {
    MESSAGE("SKIPPED: no sshd, ssh and ssh-keygen here (Debian: openssh-server)");
    return;
  }
  ssh_job job;
  job.write_nodes("localhost");
  const auto sets = with(job.settings(), with(two, with(endless, {"checkpoint.every=3"})));
  // Nobody is found dead by silence here.
  program up(job.up(with(sets, {"recovery.enabled=true", "cluster.suspect_after_ms=500000",
                                "cluster.dead_after_ms=1000000"})));
  REQUIRE(until_saved(up, 3));
  const watched old(node_named(up.port(), "one")), ssh(ssh_of(up.pid(), "one"));
  REQUIRE(old.pid() > 0);
  REQUIRE(ssh.pid() > 0);
  ssh.signal(SIGKILL);
  CHECK(old.gone());
  REQUIRE(up.until_error_has("recovered in"));
  const int steps = end_soon(up, job / "run/log.jsonl");
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find("recovery 1 begins (epoch 1 -> 2)") != std::string::npos);
  const auto truth = job.losses(with(sets, {fmt::format("train.steps={}", steps),
                                            "job.output=" + (job / "undisturbed").string()}));
  size_t last = 0;
  for (const auto& step : up.objects("step")) {
    last = step["step"];
    REQUIRE(last <= truth.size());
    CHECK(step["loss"].get<double>() == truth[last - 1]);
  }
  CHECK(last == truth.size());
}

// Also where nothing else tells it: no coordinator has answered it yet.
TEST_CASE("PRC-4: a node that is tied to its standard input ends with that") {
  job_files job;
  const auto key = troupe::tls::job_key::make();
  REQUIRE(key);
  const auto all = key->text();
  const auto line = fmt::format(
      "exec {} node --join 127.0.0.1:1 --name one --key - --tied-to-input --join-timeout-ms {} "
      ">{}/node.log 2>&1",
      TROUPE_PROGRAM, std::chrono::milliseconds(patience).count(), job.folder.path.string());
  FILE* node = popen(line.c_str(), "w");
  REQUIRE(node != nullptr);
  REQUIRE(fwrite(all.data(), 1, all.size(), node) == all.size());
  const int how = pclose(node);
  REQUIRE(WIFSIGNALED(how));
  CHECK(WTERMSIG(how) == SIGKILL);
}

TEST_CASE("ssh: paths that are relative begin where the launch did, certificates and cache too") {
  const job_files job;
  const auto elsewhere = job / "elsewhere";  // where the hosts' shells begin, and their homes
  for (const char* made : {"bin", "elsewhere"}) fs::create_directory(job / made);
  // No sshd: what counts is that a shell of another place is given the command.
  std::ofstream(job / "bin/ssh") << "#!/bin/sh\nfor command; do :; done\ncd '" << elsewhere.string()
                                 << "' && HOME=\"$PWD\" exec sh -c \"$command\"\n";
  fs::permissions(job / "bin/ssh", fs::perms::owner_all);
  std::ofstream(job / "here.toml")
      << "[job]\nname = \"t\"\noutput = \"run\"\n[log]\nformat = \"json\"\n"
         "[model]\nlayers = 2\nhidden = 64\nheads = 4\n"
         "[data]\npath = \"data.txt\"\ncache = \"tokens/of/data\"\n"
         "[train]\nsteps = 4\nbatch = 4\nseq_len = 32\nlr = 3e-3\nwarmup_steps = 1\n"
         "[parallel]\ndata = 2\n[cluster]\nthreads = 1\njoin_timeout_ms = 60000\n"
         "launch = \"ssh\"\nremote_binary = \"" TROUPE_PROGRAM
         "\"\n"
         "[cluster.tls]\nca = \"pki/ca.pem\"\ncertificate = \"pki/{node}.pem\"\n"
         "key = \"pki/{node}.key\"\n"
         "[[cluster.node]]\nname = \"one\"\nhost = \"localhost\"\n"
         "[[cluster.node]]\nname = \"two\"\nhost = \"localhost\"\n";
  const std::string ours = "PATH=\"$PWD/bin:$PATH\" '" TROUPE_PROGRAM "' ";
  const auto certified = troupe::run_in(
      job.folder.path, ours +
                           "certs pki --node one=localhost,127.0.0.1 --node "
                           "two=localhost,127.0.0.1 --node coordinator=localhost,127.0.0.1");
  REQUIRE_MESSAGE(certified.code == 0, certified.talk);
  const auto ran = troupe::run_in(job.folder.path, ours + "up here.toml");
  REQUIRE_MESSAGE(ran.code == 0, ran.talk);
  CHECK(fs::exists(job / "run/checkpoints/step-00000004/MANIFEST"));
  CHECK_FALSE(names_with(job / "tokens/of/data", ".bin").empty());
  CHECK(fs::is_empty(elsewhere));
  CHECK(logged_steps(job / "run/log.jsonl").size() == 4);
}

TEST_CASE("ssh: a host that refuses is named") {
  if (!has_ssh()) {
    MESSAGE("SKIPPED: no sshd, ssh and ssh-keygen here (Debian: openssh-server)");
    return;
  }
  ssh_job job;
  job.write_nodes("localhost");
  std::ofstream(job / "authorized") << "";
  program up(job.up(with(job.settings(), two)));
  CHECK(up.wait() == 69);
  INFO(up.err());
  const bool one = up.err().find("node one exited with 255") != std::string::npos;
  const bool two_first = up.err().find("node two exited with 255") != std::string::npos;
  CHECK((one || two_first));  // whoever is refused first
}
