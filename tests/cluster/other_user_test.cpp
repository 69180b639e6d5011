// Another user of the same machine, who has what every user has: the program, the coordinator's
// port, and whatever `ps` and /tmp show. TROUPE_TEST_OTHER_USER: how many tries (40).
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include <fmt/ranges.h>

#include "tests/cluster/job_files.hpp"
#include "tests/cluster/strangers.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

constexpr auto nobody = 65534;

/// Only root can be somebody else.
bool can_be_nobody() {
  if (geteuid() == 0 && std::system("setpriv --reuid 65534 --regid 65534 --clear-groups true") == 0)
    return true;
  MESSAGE("SKIPPED: only root can try as another user (run it with sudo)");
  return false;
}

int tries() {
  const char* wanted = std::getenv("TROUPE_TEST_OTHER_USER");
  return wanted != nullptr ? std::atoi(wanted) : 40;
}

/// A program and a folder that another user can reach.
struct elsewhere {
  troupe::scratch folder;
  std::string copy = (folder / "troupe").string();

  elsewhere() {
    fs::copy_file(TROUPE_PROGRAM, folder / "troupe");
    fs::permissions(folder.path, fs::perms::owner_all | fs::perms::group_exec |
                                     fs::perms::others_exec | fs::perms::others_read);
    fs::permissions(folder / "troupe", fs::perms::others_read | fs::perms::others_exec,
                    fs::perm_options::add);
  }

  /// A file of the other user's.
  std::string his_file(const std::string& name, const std::string& text) const {
    const auto path = folder / name;
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms::owner_read);
    REQUIRE(chown(path.c_str(), nobody, nobody) == 0);
    return path.string();
  }

  /// What the program ends with where the other user runs it; `through`: by way of another one.
  finished run(const std::vector<std::string>& arguments, const std::string& through = "") const {
    auto command = fmt::format(
        "cd / && env -i PATH=/usr/bin:/bin HOME=/ setpriv --reuid 65534 --regid 65534 "
        "--clear-groups {} timeout 60 {}",
        through, copy);
    for (const auto& a : arguments) command += fmt::format(" '{}'", a);
    FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
    REQUIRE(pipe != nullptr);
    finished out{0, "", ""};
    char bytes[4096];
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), pipe)) > 0;) out.err.append(bytes, n);
    const int how = pclose(pipe);
    out.code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    return out;
  }
};

/// What persons were answered; the cluster itself may examine a machine that others load.
std::vector<json> audit_of(const job_files& job) {
  auto lines = objects_in(job / "run/audit.jsonl");
  std::erase_if(lines, [](const json& l) { return l["who"] == "the cluster"; });
  return lines;
}

/// What another user may try, by the tools and by the wire.
struct attempts {
  const elsewhere& him;
  uint16_t port;
  std::string kept;
  std::string at = "127.0.0.1:" + std::to_string(port);
  std::string zeros = std::string(64, '0');
  std::string made_up = him.his_file("secret", "troupe-key 1 secret " + zeros + "\n");
  std::string of_nodes = him.his_file("node", "troupe-key 1 node " + zeros + "\n");

  std::vector<std::vector<std::string>> by_tools() const {
    const std::vector<std::string> connect{"--connect", at}, by_key{"--key", made_up};
    const auto paths = json{{"checkpoint", kept}, {"directory", kept}}.dump();
    std::vector<std::vector<std::string>> out;
    for (const auto& how : {connect, with(connect, by_key)}) {
      for (const char* said : {"pause", "set train.lr 99", "stop", "kill worker/0", "drain node0"})
        out.push_back(with({"console", "-c", said}, how));
      out.push_back(with({"send", "run", "Pause"}, how));
      out.push_back(with({"send", "committer", "ExportModel", paths}, how));
      out.push_back(with({"ps"}, how));
      out.push_back(with({"trace", "live", "--max", "1"}, how));
    }
    for (const char* name : {"node0", "node1", "root"})
      for (const auto& how : {std::vector<std::string>{}, {"--key", of_nodes}, by_key})
        out.push_back(
            with({"node", "--join", at, "--name", name, "--join-timeout-ms", "3000"}, how));
    return out;
  }

  /// True: it came to nothing.
  bool refused(int number) const {
    const auto tools = by_tools();
    const auto which = static_cast<size_t>(number) % (tools.size() + 4);
    if (which < tools.size()) {
      const auto f = him.run(tools[which]);
      INFO(f.err);
      CAPTURE(fmt::format("{}", fmt::join(tools[which], " ")));
      CHECK(f.code != 0);
      CHECK(f.code < 124);  // it ran, and was ended neither by its net nor by a signal
      return f.code > 0 && f.code < 124;
    }
    const std::vector<std::vector<std::string>> by_openssl{
        {},
        {"-psk_identity", "operator/root", "-psk", zeros},
        {"-tls1_2", "-cipher", "AECDH-AES256-SHA@SECLEVEL=0"}};
    if (which < tools.size() + by_openssl.size())
      return !openssl_client(port, by_openssl[which - tools.size()]);
    return send_garbage(port, frame(1, process_name(7)) + frame(2, content("@exit"), 0, 1));
  }
};

}  // namespace

TEST_CASE("other user: neither commands nor joins a cluster as it is by default") {
  if (!can_be_nobody()) return;
  const elsewhere him;
  job_files job;
  const auto kept = job / "kept";
  fs::create_directories(kept);
  std::ofstream(kept / "thesis.txt") << "years";
  program up(job.up(with(layout(2, 1), endless)));
  REQUIRE(up.until_step(1));
  const attempts a{him, up.port(), kept.string()};
  int let_in = 0;
  for (int i = 0; i < tries(); ++i)
    if (!a.refused(i)) ++let_in;
  MESSAGE(tries() << " tries of another user, " << let_in << " let in");
  CHECK(let_in == 0);
  INFO(up.err());
  CHECK(audit_of(job).empty());
  CHECK(fs::exists(kept / "thesis.txt"));
  up.listen();
  CHECK(up.err().find("refused a node") == std::string::npos);  // they did not come so far
  const auto last = up.objects("step").back();
  CHECK(last["lr"] < 1);
  CHECK(up.until_step(last["step"].get<int64_t>() + 3));
  // The owner himself, without a word about keys.
  CHECK(run({"console", "--connect", a.at, "-c", "pause"}).code == 0);
  CHECK(up.until_error_has("paused after step"));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("other user: does not join before the nodes do") {
  if (!can_be_nobody()) return;
  const elsewhere him;
  job_files job;
  std::ofstream(job / "job.toml", std::ios::app) << "[[cluster.node]]\nname = \"a\"\n";
  program up(job.up({"cluster.launch=external", free_port()}));
  REQUIRE(up.until([&] { return up.port() != 0; }));
  const auto at = "127.0.0.1:" + std::to_string(up.port());
  for (int i = 0; i < 3; ++i) {
    const auto f = him.run({"node", "--join", at, "--name", "a", "--join-timeout-ms", "3000"});
    INFO(f.err);
    CHECK(f.code == 69);
  }
  program ours({"node", "--join", at, "--name", "a"});
  INFO(up.err());
  CHECK(up.wait() == 0);
  CHECK(ours.wait() == 0);
}

TEST_CASE("other user: with a key handed to him he comes in, under the name the kernel knows") {
  if (!can_be_nobody()) return;
  const elsewhere him;
  job_files job;
  program up(job.up(endless));
  REQUIRE(up.until_step(1));
  const auto at = "127.0.0.1:" + std::to_string(up.port());
  const auto given = [&](const std::string& role) {
    const auto file = (job / (role + ".key")).string();
    const auto made = run({"key", "--role", role, "--name", "root", "--out", file, "--connect",
                           at});
    INFO(made.err);
    REQUIRE(made.code == 0);
    std::ifstream in(file);
    return him.his_file(role, {std::istreambuf_iterator<char>(in), {}});
  };
  const auto operators = given("operator"), readers = given("reader");
  CHECK(him.run({"ps", "--connect", at, "--key", readers}).code == 0);
  const auto looked = him.run({"console", "--connect", at, "--key", readers, "-c", "pause"});
  CHECK(looked.code == 77);
  CHECK(him.run({"console", "--connect", at, "--key", operators, "-c", "pause"}).code == 0);
  CHECK(up.until_error_has("paused after step"));
  // In a user namespace of his own he is root, and says so.
  if (std::system("setpriv --reuid 65534 --regid 65534 --clear-groups unshare -Ur true") == 0)
    CHECK(him.run({"console", "--connect", at, "--key", operators, "-c", "resume"}, "unshare -Ur")
              .code == 0);
  else
    MESSAGE("SKIPPED in part: user namespaces are not allowed here");
  const auto lines = audit_of(job);
  REQUIRE(lines.size() >= 2);
  for (const auto& l : lines) {
    CAPTURE(l.dump());
    CHECK(l["who"] == "nobody");
  }
  CHECK(lines[0]["role"] == "reader");
  CHECK(lines[1]["role"] == "operator");
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("secret: outlives the launcher's end, dies with the job, and is in no argument") {
  job_files job;
  const troupe::scratch mine;
  const std::string usual = std::getenv("XDG_RUNTIME_DIR");  // program.cpp sets it
  setenv("XDG_RUNTIME_DIR", mine.path.c_str(), 1);
  const auto secrets = [&] {
    std::vector<std::string> out;
    for (const auto& f : fs::directory_iterator(mine.path / "troupe"))
      if (f.path().extension() == ".secret") {
        std::ifstream in(f.path());
        out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
        CHECK((fs::status(f.path()).permissions() & fs::perms::mask) ==
              (fs::perms::owner_read | fs::perms::owner_write));
      }
    return out;
  };
  {
    program up(job.up(endless));
    REQUIRE(up.until_step(1));
    const auto node = node_named(up.port(), "node0");
    REQUIRE(node > 0);
    REQUIRE(secrets().size() == 1);
    const auto hex = secrets()[0].substr(secrets()[0].rfind(' ') + 1, 64);
    for (const auto pid : {up.pid(), head_of(up.pid()), node})
      for (const char* what : {"cmdline", "environ"}) {
        std::ifstream in(fmt::format("/proc/{}/{}", pid, what), std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(in), {}};
        CHECK(text.find("troupe-key") == std::string::npos);
        CHECK(text.find(hex) == std::string::npos);
      }
    up.signal(SIGKILL);
    CHECK(up.wait() == 137);
  }
  const auto before = secrets();
  REQUIRE(before.size() == 1);
  {
    program up(job.up(endless));
    REQUIRE(up.until_step(1));
    CHECK(secrets() == before);
    up.signal(SIGINT);
    CHECK(up.wait() == 130);
  }
  CHECK(secrets() == before);
  CHECK(run(job.up({"checkpoint.resume=never"})).code == 0);
  CHECK(secrets().empty());
  setenv("XDG_RUNTIME_DIR", usual.c_str(), 1);
}
