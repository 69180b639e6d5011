// A person's tools on a running cluster of real processes: they see every actor, change what may be
// changed, record what is said, and name a frozen node while it is frozen.
#include <termios.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/cluster/bad_outputs.hpp"
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

/// A run that does not end by itself within any test's patience.
/// Long silence is allowed: what is frozen here is meant to be looked at.
const std::vector<std::string> patient{"cluster.suspect_after_ms=60000",
                                       "cluster.dead_after_ms=120000"};

struct running {
  job_files job;
  program up;

  explicit running(const std::vector<std::string>& sets = layout(2, 1))
      : up(job.up(with(with(endless, patient), sets))) {
    REQUIRE(up.until_step(2));
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(up.port()); }

  finished tool(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--connect", address()});
    return run(arguments);
  }

  /// Which may take as long to answer as a busy machine does.
  finished say(const std::string& line) const {
    return tool({"console", "--timeout-ms", "60000", "-c", line});
  }

  json status() const {
    const auto s = tool({"status", "--json"});
    INFO(s.err);
    REQUIRE((s.code == 0 || s.code == 1));
    return json::parse(s.out);
  }
};

/// A person at a terminal.
struct conversation {
  terminal screen;
  program console;
  std::string shown;  ///< since the last line was typed

  explicit conversation(const std::string& address)
      : console({"console", "--connect", address}, 0, {.terminal = screen.path}) {
    REQUIRE(shows("help lists"));
    REQUIRE(shows("> "));
  }
  bool shows(const std::string& text) {
    const auto there = [&] { return (shown += screen.shown()).find(text) != shown.npos; };
    return console.until(there, screen.master.get());
  }
  /// Until Ctrl-C is a signal: what it shows of a line's end it shows while it is a key of the
  /// editor's.
  bool hands_over() const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (termios now{}; std::chrono::steady_clock::now() < limit; std::this_thread::yield())
      if (tcgetattr(screen.master.get(), &now) == 0 && (now.c_lflag & ISIG) != 0) return true;
    return false;
  }
  void types(const std::string& line) { presses(line + '\n'); }
  void presses(const std::string& keys) {
    shown.clear();
    REQUIRE(write(screen.master.get(), keys.data(), keys.size()) ==
            static_cast<ssize_t>(keys.size()));
  }
};

const json* find(const json& view, const std::string& path) {
  for (const auto& n : view["nodes"])
    for (const auto& a : n["actors"])
      if (a["path"] == path) return &a;
  return nullptr;
}

/// Asked whether the run may be killed, a person presses such keys, none of which is yes: it makes
/// steps still. Then he says yes.
void asks_until_yes(const std::vector<std::string>& answers) {
  running r(with(layout(2, 1), {"checkpoint.every=0"}));
  conversation c(r.address());
  for (const auto& keys : answers) {
    CAPTURE(keys);
    c.types("kill run");
    REQUIRE(c.shows("Do it? [y/N] "));
    c.presses(keys);
    REQUIRE(c.shows("not done"));
    REQUIRE(c.shows("> "));
  }
  const auto sofar = static_cast<int64_t>(r.up.objects("step").size());
  CHECK(r.up.until_step(sofar + 3));
  c.types("kill run");
  REQUIRE(c.shows("Do it? [y/N] "));
  c.types("y");
  CHECK(r.up.wait() == 70);
}

}  // namespace

TEST_CASE("console: the epoch that is shown is the cluster's, which grows with each start") {
  job_files job;
  job.losses({"train.steps=3"});  // an epoch of its own, the first
  program up(job.up(endless));
  REQUIRE(up.until_step(4));
  const auto s = run({"ps", "--json", "--connect", "127.0.0.1:" + std::to_string(up.port())});
  INFO(s.err);
  REQUIRE(s.code == 0);
  CHECK(json::parse(s.out)["epoch"] > 1);
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("console: every actor of every process is listed, with its state") {
  running r;
  const auto view = r.status();
  CHECK(view["healthy"] == true);
  CHECK(view["nodes"].size() == 3);
  for (const char* path : {"coordinator", "run", "gateway", "reporter", "committer", "stage/0",
                           "stage/1", "worker/0", "worker/1"}) {
    CAPTURE(path);
    CHECK(find(view, path) != nullptr);
  }
  for (const auto& n : view["nodes"])
    for (const auto& a : n["actors"]) {  // STA-1: every actor says something of itself
      CAPTURE(a.dump());
      CHECK(a["detail"].is_object());
      CHECK_FALSE(a["detail"].empty());
    }
  CHECK((*find(view, "run"))["state"] == "training");
  CHECK((*find(view, "worker/1"))["handled"].get<int>() > 0);
  const auto ps = r.tool({"ps", "stage/*"});
  CHECK(ps.code == 0);
  CHECK(ps.out.find("stage/1") != std::string::npos);
  CHECK(ps.out.find("worker/1") == std::string::npos);
}

TEST_CASE("console: pause holds the run, a setting changes it, resume lets it go on") {
  running r;
  CHECK(r.say("pause to look").code == 0);
  REQUIRE(r.up.until_error_has("paused after step"));
  const auto view = r.status();
  CHECK((*find(view, "run"))["state"] == "paused");
  CHECK(r.say("pause").code == 1);  // already: refused by its owner
  CHECK(r.say("set train.lr 0.5e-3").code == 0);
  CHECK(r.say("set model.layers 3").code == 1);
  CHECK(r.say("set train.lr nonsense").code == 1);
  const auto saved = r.say("checkpoint now");
  CHECK(saved.out.find("saved") != std::string::npos);
  const auto paused = r.status();  // no step shows its numbers anew
  const auto& shown = (*find(paused, "run"))["detail"];
  CHECK(shown["saved_step"] == shown["step"]);
  CHECK(shown["saving"].empty());
  CHECK(r.say("resume").code == 0);
  const int step = r.up.objects("step").back()["step"];
  REQUIRE(r.up.until_step(step + 2));
  CHECK(r.up.objects("step").back()["lr"] == doctest::Approx(0.5e-3));
  CHECK(r.say("stop").code == 0);
  CHECK(r.up.wait() == 75);  // before its last step: started again it goes on
  const auto lines = objects_in(r.job / "run/audit.jsonl");
  const auto set = r.up.objects("set");
  REQUIRE(set.size() == 1);
  CHECK(set[0]["key"] == "train.lr");
  CHECK(set[0]["step"] == shown["step"].get<int>() + 1);
  CHECK(set[0]["who"] == lines.at(0)["who"]);
  REQUIRE(lines.size() == 8);
  CHECK(lines[0]["command"] == "Pause");
  CHECK(lines[0]["result"] == "done");
  CHECK(lines[0]["who"] != "");
  CHECK(lines[1]["result"].get<std::string>().find("paused already") != std::string::npos);
  CHECK(lines[7]["command"] == "StopTraining");
}

TEST_CASE("console: a setting is used first by the step that its answer names") {
  running r(layout(1, 1));
  const std::vector<std::string> alone{"console", "-c", "set train.lr 0.5e-3"};
  const std::vector<std::string> paused{"console", "-c",    "pause", "-c", "set train.lr 0.25e-3",
                                        "-c",      "resume"};
  for (const auto& [words, rate] : {std::pair(alone, 0.5e-3), std::pair(paused, 0.25e-3)}) {
    const auto said = r.tool(words);
    CAPTURE(said.out);
    CHECK(said.code == 0);
    const auto at = said.out.find("from step ");
    REQUIRE(at != std::string::npos);
    const int first = std::stoi(said.out.substr(at + 10));
    REQUIRE(r.up.until_step(first));
    for (const auto& step : r.up.objects("step")) {
      if (step["step"] == first) CHECK(step["lr"] == doctest::Approx(rate));
      if (step["step"] == first - 1) CHECK(step["lr"] != doctest::Approx(rate));
    }
    CHECK(r.up.until_error_has(fmt::format("from step {} on", first)));
  }
  CHECK(r.up.err().find("paused after step") != std::string::npos);
  CHECK(r.up.err().find("continues with step") != std::string::npos);
}

TEST_CASE("console: what is wrong is answered by what would be right") {
  running r(layout(1, 1));
  const auto word = r.say("pauze");
  CHECK(word.code == 1);
  CHECK(word.err.find("did you mean pause") != std::string::npos);
  const auto actor = r.tool({"send", "stage/7", "StatusRequest"});
  CHECK(actor.code != 0);
  CHECK(actor.err.find("did you mean stage/0") != std::string::npos);
  const auto message = r.tool({"send", "run", "Pauze"});
  CHECK(message.err.find("Pause") != std::string::npos);
  const auto field = r.tool({"send", "run", "Pause", R"({"raeson":"x"})"});
  CHECK(field.code != 0);
  CHECK(field.err.find("reason") != std::string::npos);
  const auto wrong = r.tool({"send", "worker/0", "Resume"});
  CHECK(wrong.code == 1);
  CHECK(wrong.err.find("worker/0 of node0: no handler") != std::string::npos);
  const auto many = r.tool({"send", "*", "StatusRequest"});
  CHECK(many.out.find("stage/0 of node0 answers Status:\n") != std::string::npos);
  // A person's errors are said as such, and are none of the actor's.
  for (const auto& [line, right] : {std::pair("set train.rl 1e-4", "did you mean train.lr?"),
                                    {"set train.lr fast", "train.lr"},
                                    {"pause 'to look", "the line ends within single quotes"},
                                    {"help Pauze", "did you mean"}}) {
    CAPTURE(line);
    const auto said = r.say(line);
    CHECK(said.code == 1);
    CHECK(said.out.empty());
    CHECK(said.err.find(right) != std::string::npos);
  }
  CHECK((*find(r.status(), "run"))["errors"] == 0);
  std::vector<std::string> words{"console", "--json"};
  for (const char* line : {"nodes", "help pause", "spares", "findings", "incidents", "swap",
                           "power", "expect", "send run Pause '{\"reason\": \"a  look\"}'"}) {
    words.emplace_back("-c");
    words.emplace_back(line);
  }
  const auto scripts = r.tool(words);
  std::istringstream lines(scripts.out);
  size_t all = 0;
  for (std::string text; std::getline(lines, text); ++all) {
    CAPTURE(text);
    CHECK(json::parse(text, nullptr, false).is_object());
  }
  CHECK(all == 9);
  CHECK(r.up.until_error_has("a  look"));
}

TEST_CASE("console: an order that would lose steps is refused where nobody says --yes") {
  running r(with(layout(2, 1), {"checkpoint.every=0"}));
  for (const char* order : {"evict node1", "replace node1", "rewind 1", "kill run"}) {
    CAPTURE(order);
    const auto said = r.say(order);
    CHECK(said.code == 64);
    CHECK(said.err.find("--yes") != std::string::npos);
    CHECK(said.out.empty());
  }
  CHECK(r.say("kill head-of-nobody").code == 1);
  const auto two = r.tool({"console", "-c", "kill run", "-c", "help"});
  CHECK(two.code == 64);
  CHECK(two.out.find("rewind") != std::string::npos);  // the next line is executed
  CHECK(r.up.until_step(10));  // nothing was done
  r.tool({"console", "--yes", "-c", "kill run"});
  CHECK(r.up.wait() == 70);
}

TEST_CASE("console: at a terminal a person is asked, and what is not yes loses nothing (LOS-1)") {
  asks_until_yes({"n\n", "\n", "no\n", "Y?\n", "yes please\n"});
}

TEST_CASE("console: at the question the end of the input is no, and one is asked again (LOS-1)") {
  asks_until_yes({"\x04", "\x04", "y\x04\x04", "\x04"});  // Ctrl-D
}

TEST_CASE("console: Ctrl-C ends a line, a question, an answer or a watch, and Ctrl-D the console") {
  running r(with(layout(2, 1), {"checkpoint.every=0"}));
  conversation c(r.address());
  c.presses("kill run\x03");
  REQUIRE(c.shows("^C"));
  REQUIRE(c.shows("> "));
  c.types("");  // nothing is left of the line
  REQUIRE(c.shows("> "));
  c.types("kill run");
  REQUIRE(c.shows("Do it? [y/N] "));
  c.presses("\x03");
  REQUIRE(c.shows("not done"));
  REQUIRE(c.shows("> "));
  c.types("watch status");
  REQUIRE(c.shows("healthy"));
  c.presses("\x03");
  REQUIRE(c.shows("> "));
  const auto frozen = node_named(r.up.port(), "node1");
  REQUIRE(frozen > 0);
  REQUIRE(::kill(frozen, SIGSTOP) == 0);
  c.types("call 600000 worker/1 StatusRequest");
  REQUIRE(c.shows("StatusRequest\r\n"));
  REQUIRE(c.hands_over());
  c.presses("\x03");
  REQUIRE(c.shows("interrupted"));
  REQUIRE(c.shows("> "));
  ::kill(frozen, SIGCONT);
  c.types("status 'run'");  // what is late disturbs nobody
  REQUIRE(c.shows("run on head"));
  REQUIRE(c.shows("> "));
  c.presses("\x04");
  CHECK(c.console.wait() == 0);
  const auto sofar = static_cast<int64_t>(r.up.objects("step").size());
  CHECK(r.up.until_step(sofar + 3));
}

TEST_CASE("send: what was given is what is sent, whatever characters are in it") {
  running r(layout(1, 1));
  const json odd{{"reason", "a  b\t\"c\" 'd'; e\n-f \\ {g [h"}};
  REQUIRE(r.tool({"send", "run", "Pause", odd.dump(2)}).code == 0);
  const std::string sent = only_object_in(r.job / "run/audit.jsonl")["message"];
  CHECK(json::parse(sent) == odd);
  const auto nobody = run({"send", "--connect", r.address(), "--", "-no \"such; actor", "Resume"});
  CHECK(nobody.code == 66);
  CHECK(nobody.err.find("no actor fits -no \"such; actor") != std::string::npos);
  CHECK(r.tool({"send", "run", "Resume {}"}).err.find("Resume {}") != std::string::npos);
  CHECK(r.tool({"send", "", "Resume"}).code == 64);  // no pattern is not every actor
  for (const std::vector<std::string>& asked :
       std::vector<std::vector<std::string>>{{"status", "no such"},
                                             {"status", "no such", "--json"},
                                             {"ps", "no such"},
                                             {"ps", "no such", "--dead", "--json"}}) {
    const auto none = r.tool(asked);
    CHECK(none.code == 66);
    CHECK(none.out.empty());
    CHECK(none.err.find("no actor fits no such") != std::string::npos);
  }
  CHECK(r.tool({"send", "run", "Resume"}).code == 0);
}

TEST_CASE("status: no cluster is 69, a wrong address is a usage error") {
  CHECK(run({"status", "--connect", "127.0.0.1:1", "--timeout-ms", "2000"}).code == 69);
  CHECK(run({"status", "--connect", "nowhere"}).code == 64);
}

TEST_CASE("trace: live shows decoded messages up to its limit, record makes a file") {
  running r;
  const auto live =
      r.tool({"trace", "live", "--message", "RunStep", "--max", "4", "--payloads", "--json"});
  INFO(live.err);
  CHECK(live.code == 0);
  CHECK(live.err.find("tracing is off: the limit of 4") != std::string::npos);
  size_t lines = 0;
  bool decoded = false;
  std::istringstream text(live.out);
  for (std::string line; std::getline(text, line); ++lines) {
    const auto j = json::parse(line);
    CHECK(j["name"] == "RunStep");
    CHECK(j["sender"] == "run");
    decoded = decoded || (j["message"].is_object() && j["message"].contains("step"));
  }
  CHECK(lines == 4);
  CHECK(decoded);
  const auto file = (r.job / "r.trace").string();
  const auto recorded = r.tool({"trace", "record", file, "--seconds", "1", "--past"});
  INFO(recorded.err);
  CHECK(recorded.code == 0);
  CHECK(fs::file_size(file) > 10'000);
  const auto stats = run({"trace", "stats", file, "--json"});
  CHECK(stats.code == 0);
  CHECK(stats.out.find("RunStep") != std::string::npos);
  const auto exports = [&](std::vector<std::string> more) {
    return run(with({"trace", "export", "--perfetto", file}, more));
  };
  const auto exported = exports({});  // beside the trace
  CHECK(exported.code == 0);
  CHECK(exported.out.empty());
  const auto made = (r.job / "r.perfetto.json").string();
  CHECK(exported.err.find(made + ": ") != std::string::npos);
  CHECK(exported.err.find("ui.perfetto.dev") != std::string::npos);
  CHECK(exports({}).code == 77);
  CHECK(exports({"--force"}).code == 0);
  CHECK(exports({"-o", "-"}).out.size() == fs::file_size(made));
  const auto box = r.tool({"console", "--json", "-c", "blackbox"});
  CHECK(box.code == 0);
  const auto answer = json::parse(box.out.substr(0, box.out.find('\n')));
  const std::string path = answer["answer"]["text"];
  CHECK(run({"trace", "stats", path}).code == 0);
}

TEST_CASE("trace: stragglers are looked for in a running cluster and in its trace") {
  running r(layout(2, 2));
  const auto file = (r.job / "r.trace").string();
  REQUIRE(r.tool({"trace", "record", file, "--seconds", "2"}).code == 0);
  for (const auto& found : {run({"trace", "stragglers", file, "--json"}),
                            r.tool({"trace", "stragglers", "--seconds", "2", "--json"})}) {
    INFO(found.err);
    REQUIRE(found.code == 0);
    const auto j = json::parse(found.out);
    CHECK(j["data"].get<int>() * j["pipeline"].get<int>() == 4);
    CHECK(j["cells"].size() == 4);
    CHECK(j["steps"] > 0);
    CHECK(j["t_s"] > 0);
    CHECK(j["S"] > 0.9);
    CHECK(j["cells"][0]["name"] == "rank 0");
    CHECK(j["cells"][0]["mean_s"]["forward"] > 0);
  }
}

TEST_CASE("trace: who looks is told of a node that dies under his view") {
  running r;
  const auto view = [&](std::vector<std::string> more) {
    return std::make_unique<program>(
        with({"trace", "live", "--max", "1000000", "--connect", r.address()}, more));
  };
  const auto of_all = view({}), of_one = view({"--node", "node1"});
  REQUIRE(of_all->until_error_has("tracing head, node0, node1"));
  REQUIRE(of_one->until([&] { return !of_one->out().empty(); }));
  const auto dies = node_named(r.up.port(), "node1");
  REQUIRE(dies > 0);
  REQUIRE(::kill(dies, SIGKILL) == 0);
  CHECK(of_one->wait() == 0);
  CHECK(of_one->err().find("tracing is off: node1 has left the cluster") != std::string::npos);
  CHECK(of_all->until_error_has("node1 has left the cluster\n"));
}

TEST_CASE("trace: a frozen process is the culprit while others wait for it") {
  running r;
  const auto frozen = node_named(r.up.port(), "node1");
  REQUIRE(frozen > 0);
  REQUIRE(::kill(frozen, SIGSTOP) == 0);
  bool named = eventually([&] {
    const auto s = r.tool({"status", "--json"});
    // Null: not known yet.
    return s.code == 1 && json::parse(s.out)["why"].dump().find("node1") != std::string::npos;
  });
  CHECK(named);
  const auto view = r.status();
  bool waits = false;
  for (const auto& w : (*find(view, "run"))["waits"]) waits = waits || w["whom"] == "stage/1";
  CHECK(waits);
  CHECK(find(view, "worker/1") != nullptr);  // what it said last is still told
  ::kill(frozen, SIGCONT);
  const int step = r.up.objects("step").back()["step"];
  CHECK(r.up.until_step(step + 2));
}
