// A training goes on whoever listens: outputs that are closed, full or not read, a log without
// room, a terminal that was closed.
#include <csignal>

#include "tests/cluster/bad_outputs.hpp"
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

/// Twenty steps, whatever becomes of what it says: all logged after the start, saved, 0.
void trains_to_its_end(const streams& to) {
  job_files job;
  program up(job.up(layout(2, 1)), 0, to);
  CHECK(up.wait() == 0);
  const auto log = job / "run/log.jsonl";
  const auto start = nlohmann::json::parse(lines_of(log).at(0));
  CHECK(start["type"] == "start");
  CHECK(start["versions"]["caf"].is_string());
  const auto nodes = logged(log, "node");
  REQUIRE(nodes.size() == 2);
  for (const auto& node : nodes) {
    CHECK(node["host"] == start["machine"]["host"]);
    CHECK(node["cores"] == start["machine"]["cores"]);
    CHECK(node["memory_bytes"] > 0);
    CHECK(node["epoch"] == start["epoch"]);
  }
  CHECK(nodes[0]["node"] != nodes[1]["node"]);
  CHECK(logged_steps(log).size() == 20);
  CHECK(only_end_in(log, "done", 0)["step"] == 20);
  CHECK(fs::exists(job.checkpoint(20)));
}

}  // namespace

TEST_CASE("talk: a training does not wait for a stderr that nobody reads") {
  opened_pipe p;
  p.fill();
  trains_to_its_end({.err = p.in.get()});
}

TEST_CASE("talk: a training does not wait for a stdout that nobody reads") {
  opened_pipe p;
  p.fill();
  trains_to_its_end({.out = p.in.get()});
}

TEST_CASE("talk: a training goes on where stdout and stderr are on a full disk") {
  const auto full = dev_full();
  trains_to_its_end({.out = full.get(), .err = full.get()});
}

TEST_CASE("talk: a training goes on when the reader of both outputs goes") {
  opened_pipe p;
  p.out.reset();
  trains_to_its_end({.out = p.in.get(), .err = p.in.get()});
}

TEST_CASE("talk: what stdout did not take is told on stderr") {
  job_files job;
  const auto full = dev_full();
  program up(job.up(), 0, {.out = full.get()});
  CHECK(up.wait() == 0);
  const auto log = lines_of(job / "run/log.jsonl");  // which a busy machine may add warnings to
  CHECK(log.size() >= 23);
  // The summary is on stdout alone.
  CHECK(up.err().find(fmt::format("warning: {} lines of stdout could not be written: No space left",
                                  log.size() + 1)) != std::string::npos);
}

TEST_CASE("talk: what is warned of before the log is there is in it, behind the start") {
  job_files job;
  program up(job.up({"data.document_end=3"}));
  CHECK(up.wait() == 0);
  const auto lines = objects_in(job / "run/log.jsonl");
  REQUIRE(lines.size() > 2);
  CHECK(lines[0]["type"] == "start");
  CHECK(lines[1]["type"] == "warning");
  CHECK(lines[1]["step"] == 0);
  CHECK(lines[1]["text"].get<std::string>().starts_with("data.document_end = 3 has no effect"));
}

TEST_CASE("talk: a log that cannot be written is a warning, and the training goes on") {
  job_files job;
  fs::create_directories(job / "run");
  fs::create_symlink("/dev/full", job / "run/log.jsonl");
  program up(job.up());
  CHECK(up.wait() == 0);
  CHECK(up.err().find("log.jsonl: No space left on device; steps go on") != std::string::npos);
  CHECK(up.objects("step").size() == 20);
  CHECK(fs::exists(job.checkpoint(20)));
}

TEST_CASE("talk: a log that cannot be written is a state, until it can be written again") {
  job_files job;
  fs::create_directories(job / "run");
  fs::create_symlink("/dev/full", job / "run/log.jsonl");
  program up(job.up(endless));
  REQUIRE(up.until_step(2));
  const auto where = fmt::format("127.0.0.1:{}", up.port());
  const auto state = [&] { return run({"status", "reporter", "--connect", where}).out; };
  CHECK(state().find("reporting, without a log") != std::string::npos);
  std::ofstream(job / "run/log.new");
  fs::rename(job / "run/log.new", job / "run/log.jsonl");  // there is room again
  REQUIRE(up.until_error_has("log.jsonl is written again; "));
  CHECK(state().find("without") == std::string::npos);
  up.signal(SIGTERM);
  CHECK(up.wait() == 143);
}

TEST_CASE("talk: a terminal that is closed saves and stops the training with 129") {
  job_files job;
  std::optional<terminal> screen(std::in_place);
  program up(job.up(with(with(endless, layout(2, 1)), {"log.format=auto"})), 0,
             {.terminal = screen->path});
  const auto log = job / "run/log.jsonl";
  REQUIRE(eventually([&] { return logged_steps(log).size() >= 3; }));
  std::string seen;
  REQUIRE(eventually([&] {
    seen += screen->shown();
    return seen.find("\r\x1b[Kstep ") != std::string::npos;  // one line, written over
  }));
  CHECK(seen.find("u001b") == std::string::npos);
  screen.reset();
  CHECK(up.wait() == 129);
  const int last = logged_steps(log).back()["step"];
  CHECK(fs::exists(job.checkpoint(last)));
}
