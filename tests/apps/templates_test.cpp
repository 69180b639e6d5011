// The templates for schedulers (configs/): every host that a node advertises is in the certificate
// that the others check (LNK-4); what ends is started again exactly where docs/exit-codes.md says
// so; and what they give to the program, it takes.
#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/apps/ended.hpp"
#include "tests/apps/fake_program.hpp"
#include "tests/io/scratch.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

const fs::path templates = fs::path(TROUPE_SOURCE_DIR) / "configs";
/// Beside which `up` is started again only when a person has looked (docs/exit-codes.md).
const std::set<int> for_a_person = {1, 64, 65, 66, 70, 77, 78};

std::string template_text(const char* name) {
  return content(templates / name);
}

std::vector<std::string> all_matches(const std::string& text, const char* pattern) {
  const std::regex wanted(pattern);
  std::vector<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), wanted), end; at != end; ++at)
    out.push_back((*at)[1]);
  return out;
}

std::set<int> numbers_in(const std::string& text) {
  std::set<int> out;
  for (const auto& one : all_matches(text, "(\\d+)")) out.insert(std::stoi(one));
  return out;
}

/// Runs the template of Slurm on three hosts. `up` is the body of what stands in for `troupe up`;
/// the calls of the programs that it stands for are in dir/calls.
ended under_slurm(const scratch& dir, const std::string& up, const std::string& more = "") {
  put_fake(dir / "bin/scontrol",
           "case $1 in show) printf 'n1\\nn2\\nn3\\n' ;; *) echo \"scontrol $*\" >>\"$CALLS\" ;; "
           "esac\n");
  put_fake(dir / "bin/sleep", "");  // the script waits for Slurm to end it
  put_fake(dir / "bin/srun",
           "[ \"$1\" = --cpu-bind=none ] && shift\n"
           "for n in 1 2 3; do SLURMD_NODENAME=n$n SLURM_PROCID=$n \"$@\"; done\n");
  put_fake(dir / "bin/up", up);
  // What it is called with, a line each; certificates appear as they would.
  put_fake(dir / "bin/troupe",
           "echo \"$*\" >>\"$CALLS\"\n"
           "case $1 in\n"
           "  certs) mkdir \"$2\"; touch \"$2/node.pem\" ;;\n"
           "  up) exec up ;;\n"
           "esac\n");
  return run_in(dir.path, fmt::format("PATH=\"{0}/bin:$PATH\" CALLS={0}/calls SLURM_JOB_ID=7 "
                                      "SLURM_NTASKS=3 SLURM_JOB_NODELIST=n[1-3] {2} "
                                      "bash {1}/slurm/troupe.sbatch run.toml",
                                      dir.path.string(), templates.string(), more));
}

bool was_queued_again(const scratch& dir) {
  return content(dir / "calls").find("scontrol requeue 7\n") != std::string::npos;
}

/// What the template of Kubernetes gives to bash, and its environment as assignments of the shell.
std::string pod_script(const std::string& yaml) {
  const std::string begin = "            - |\n";
  std::istringstream lines(yaml.substr(yaml.find(begin) + begin.size()));
  std::string out;
  for (std::string line; std::getline(lines, line);)
    out += (line.size() > 14 ? line.substr(14) : "") + "\n";
  return out;
}

std::string pod_environment(const std::string& yaml) {
  std::string out;
  const std::regex entry("\\{name: (TROUPE_\\w+), value: \"?([^\"}]*)\"?\\}");
  for (std::sregex_iterator at(yaml.begin(), yaml.end(), entry), end; at != end; ++at)
    out += fmt::format("{}='{}' ", (*at)[1].str(), (*at)[2].str());
  return out;
}

/// Without its head: what stands before the first document.
std::string manifest(const char* name) {
  const auto text = template_text(name);
  return text.substr(text.find("apiVersion:"));
}

/// Runs what pod `index` runs; `node` and `up` are the bodies of what stands in for those verbs.
ended as_pod(const scratch& dir, int index, const std::string& node, const std::string& up) {
  put_fake(dir / "bin/node", node);
  put_fake(dir / "bin/up", up);
  put_fake(dir / "bin/sleep", "");
  put_fake(dir / "bin/hostname", fmt::format("echo troupe-{}\n", index));
  put_fake(dir / "bin/troupe", "echo \"$*\" >>\"$CALLS\"\nexec \"$1\"\n");
  put_file(dir / "pod.sh", pod_script(template_text("kubernetes/troupe.yaml")));
  return run_in(dir.path, fmt::format("PATH=\"{0}/bin:$PATH\" CALLS={0}/calls "
                                      "JOB_COMPLETION_INDEX={1} bash pod.sh",
                                      dir.path.string(), index));
}

}  // namespace

TEST_CASE("templates: under Slurm the certificate names all hosts, and each node its own") {
  const scratch dir;
  const auto done = under_slurm(dir, "exit 0\n");
  INFO(done.talk);
  CHECK(done.code == 0);
  const auto calls = content(dir / "calls");
  INFO(calls);
  CHECK(calls.find("certs-7-0 --node node=n1,n1,n2,n3\n") != std::string::npos);
  for (int n = 1; n <= 3; ++n)
    CHECK(calls.find(fmt::format("node --join n1:29400 --name n{0}-{0} --advertise n{0}\n", n)) !=
          std::string::npos);
  CHECK(!was_queued_again(dir));
  CHECK(!fs::exists(dir / "certs-7-0"));
}

TEST_CASE("templates: Slurm is told of GPUs, time, restarts and the signal before the end") {
  const auto text = template_text("slurm/troupe.sbatch");
  const auto told = all_matches(text, "\n#SBATCH (\\S+)(?=\n)");
  for (const char* wanted : {"--gres=gpu:1", "--time=24:00:00", "--requeue", "--open-mode=append",
                             "--signal=B:USR1@120", "--ntasks-per-node=1"})
    CHECK_MESSAGE(std::ranges::count(told, wanted) == 1, wanted);
  // Slurm reads no further than the first command.
  CHECK(text.rfind("\n#SBATCH ") < text.find("\nset -euo"));
}

TEST_CASE("templates: under Slurm a job is queued again where a start goes on, and only there") {
  struct row {
    int code;
    const char* more;
    bool again;
  };
  for (const row& r :
       {row{0, "", false}, row{69, "", true}, row{137, "", true}, row{130, "", false},
        row{75, "", false}, row{78, "", false}, row{1, "", false},
        row{69, "SLURM_RESTART_COUNT=19", true}, row{69, "SLURM_RESTART_COUNT=20", false},
        row{69, "SLURM_RESTART_COUNT=1 TROUPE_RESTARTS=1", false}}) {
    const scratch dir;
    const auto done = under_slurm(dir, fmt::format("exit {}\n", r.code), r.more);
    INFO(r.code << " " << r.more << "\n" << done.out << done.talk);
    CHECK(done.code == r.code);
    CHECK(was_queued_again(dir) == r.again);
  }
}

TEST_CASE("templates: under Slurm a signal lets the run save, and says whether it goes on") {
  struct row {
    const char* signal;
    const char* as;  ///< what `up` gets of it
    int code;
    bool again;
  };
  // Whom the script starts in the background bash would have ignore SIGINT: Perl's handlers do not.
  for (const row& r : {row{"USR1", "INT", 130, true}, row{"INT", "INT", 130, false},
                       row{"TERM", "TERM", 143, false}}) {
    const scratch dir;
    const auto done = under_slurm(dir, fmt::format("#!/usr/bin/perl\n$SIG{{{1}}} = sub {{ exit {2} "
                                                   "}};\nkill '{0}', getppid;\nsleep 100;\n",
                                                   r.signal, r.as, r.code));
    INFO(r.signal << "\n" << done.out << done.talk);
    CHECK(done.code == r.code);
    CHECK(was_queued_again(dir) == r.again);
  }
}

TEST_CASE("templates: a restart under Slurm has another certificate, for its own hosts") {
  const scratch dir;
  put_file(dir / "certs-7-0/node.pem", "of a start that was killed, on other hosts");
  CHECK(under_slurm(dir, "exit 0\n", "SLURM_RESTART_COUNT=1").code == 0);
  CHECK(content(dir / "calls").find("certs-7-1 --node node=n1,n1,n2,n3\n") != std::string::npos);
}

TEST_CASE("templates: on Kubernetes the certificate names all pods, and each node its own") {
  const auto text = template_text("kubernetes/troupe.yaml");
  std::smatch found;
  REQUIRE(std::regex_search(text, found, std::regex("\n  completions: (\\d+)\n")));
  const auto pods = found[1].str();
  CHECK(text.find("\n  parallelism: " + pods + "\n") != std::string::npos);
  CHECK(text.find("{name: TROUPE_CLUSTER__NODES, value: \"" + pods + "\"}") != std::string::npos);
  std::string names;
  for (int n = 0; n < std::stoi(pods); ++n)
    names += fmt::format("{}troupe-{}.troupe", n == 0 ? "" : ",", n);
  CHECK(text.find(fmt::format("troupe certs certs --node node={}\n", names)) != std::string::npos);
  CHECK(text.find("--advertise \"$(hostname).troupe\"") != std::string::npos);
}

TEST_CASE("templates: the pods with GPUs are those without, but for the GPUs") {
  auto gpu = manifest("kubernetes/troupe-gpu.yaml");
  for (const std::string only :
       {", nvidia.com/gpu: \"8\"",
        "            - {name: TROUPE_CLUSTER__DEVICE, value: cuda}  # auto "
        "would go on with the host\n"}) {
    const auto at = gpu.find(only);
    REQUIRE_MESSAGE(at != std::string::npos, only);
    gpu.erase(at, only.size());
  }
  CHECK(gpu == manifest("kubernetes/troupe.yaml"));
}

TEST_CASE("templates: on Kubernetes pod 0 ends as the run does, others join again until refused") {
  const scratch dir;
  CHECK(as_pod(dir, 0, "exit 0\n", "exit 69\n").code == 69);
  CHECK(as_pod(dir, 0, "exec tail -f /dev/null\n", "exit 0\n").code == 0);
  CHECK(content(dir / "calls").find("up /job/run.toml\n") != std::string::npos);
  const scratch other;  // lost, stopped, told to end, then of a wrong certificate
  const auto done =
      as_pod(other, 1,
             "n=$(wc -l <\"$CALLS\")\n"
             "case $n in 1) exit 69 ;; 2) exit 137 ;; 3) exit 0 ;; *) exit 77 ;; esac\n",
             "exit 0\n");
  INFO(done.talk);
  CHECK(done.code == 77);
  std::string four;
  for (int n = 0; n < 4; ++n)
    four += "node --join troupe-0.troupe:29400 --name troupe-1 --advertise troupe-1.troupe\n";
  CHECK(content(other / "calls") == four);
}

TEST_CASE("templates: what schedulers set in the environment are keys of the configuration") {
  const scratch dir;
  for (const char* name : {"kubernetes/troupe.yaml", "kubernetes/troupe-gpu.yaml"}) {
    const auto check = [&](const std::string& environment) {
      return run_in(dir.path, environment + " " + TROUPE_PROGRAM + " config check --no-files " +
                                  (templates / "quickstart.toml").string());
    };
    const auto environment = pod_environment(template_text(name));
    REQUIRE(environment.find("TROUPE_RECOVERY__ENABLED='true'") != std::string::npos);
    const auto done = check(environment);
    INFO(environment << "\n" << done.talk);
    CHECK(done.code == 0);
    CHECK(check(environment + "TROUPE_CLUSTER__NODESS=2").code == 78);
  }
}

TEST_CASE("templates: the same exit codes end a job everywhere, and the page has them") {
  const auto kubernetes =
      all_matches(template_text("kubernetes/troupe.yaml"), "values: \\[(.*)\\]");
  REQUIRE(kubernetes.size() == 1);
  CHECK(numbers_in(kubernetes[0]) == for_a_person);
  const auto unit =
      all_matches(template_text("systemd/troupe@.service"), "RestartPreventExitStatus=(.*)");
  REQUIRE(unit.size() == 1);
  CHECK(numbers_in(unit[0]) == for_a_person);
  const auto page = content(fs::path(TROUPE_SOURCE_DIR) / "docs/exit-codes.md");
  for (const int code : for_a_person)
    CHECK_MESSAGE(page.find(fmt::format("\n| {} |", code)) != std::string::npos, code);
}

TEST_CASE("templates: systemd takes the units, and the program their command lines") {
  const scratch dir;
  const bool verifies = std::system("systemd-analyze --version >/dev/null 2>&1") == 0;
  if (!verifies) MESSAGE("SKIPPED: systemd-analyze not found: only the command lines are checked");
  for (const std::string name : {"troupe@", "troupe-node@"}) {
    auto text = template_text(("systemd/" + name + ".service").c_str());
    const auto lines = all_matches(text, "\nExecStart=(troupe .*)");
    REQUIRE(lines.size() == 1);
    text.replace(text.find("ExecStart=troupe"), 16, "ExecStart=" TROUPE_PROGRAM);
    put_file(dir / (name + ".service"), text);
    if (verifies) {
      const auto done = run_in(dir.path, "systemd-analyze verify --man=no ./" + name + ".service");
      INFO(done.talk);
      CHECK(done.code == 0);
      CHECK(done.talk == "");
    }
    // Wrong words are exit code 64; there is neither such a job nor such a coordinator.
    auto run = std::regex_replace(lines[0], std::regex("%i"), "no-such-name");
    run.replace(0, 6, TROUPE_PROGRAM);
    const auto tried =
        run_in(dir.path, "TROUPE_JOIN=127.0.0.1:1 TROUPE_ADVERTISE=127.0.0.1 sh -c '" + run + "'");
    INFO(run << "\n" << tried.talk);
    CHECK(tried.code == (name == "troupe@" ? 66 : 69));
    CHECK(run_in(dir.path, run + " --no-such-option").code == 64);
  }
}

}  // namespace troupe
