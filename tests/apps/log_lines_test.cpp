// The lines of log.jsonl that are no steps', which log is known as ours, and who gets the lines.
#include "apps/report/log_lines.hpp"

#include <unistd.h>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/report/report.hpp"
#include "apps/up/log_end.hpp"
#include "apps/up/log_start.hpp"
#include "apps/up/run_log.hpp"
#include "apps/up/start_warnings.hpp"
#include "io/config/load.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe::report;
using nlohmann::json;

namespace {

/// As it was written before there were times, tokens and lines of other types.
constexpr auto old_line =
    R"({"type":"step","step":1,"steps":300,"loss":5.54,"grad_norm":1.2,"lr":0.0003,)"
    R"("step_ms":212.3,"peak_ratio":null,"tokens_per_s":9650.2,"eta_s":38.2,)"
    R"("checkpoint_wait_ms":0.0,"saved_step":0,"epoch":1})";

std::vector<json> lines_of_log(const std::string& path) {
  std::vector<json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
  return out;
}

}  // namespace

TEST_CASE("log: a line of a start says what was started, where, and from which step on") {
  run_start s;
  s.unix_s = 1764370000.1239;
  s.job = "quick\xff";
  s.version = "0.1.0";
  s.epoch = 2;
  s.step = 20;
  s.steps = 300;
  s.nodes = s.workers = 2;
  s.data = 2;
  s.pipeline = 1;
  s.hosts = {"a", "b"};
  s.machine = {"a", "a processor", 8, 1 << 30};
  s.versions = {{"program", "0.1.0"}, {"caf", "0.17.6"}};
  s.previous_ended = false;
  s.configuration = R"({"train.lr":0.001})";
  const auto text = start_json(s);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.starts_with(R"({"type":"start","unix_s":1764370000.124,"job":)"));
  const auto j = json::parse(text);
  CHECK(j["step"] == 20);
  CHECK(j["layout"] == json{{"nodes", 2}, {"workers", 2}, {"data", 2}, {"pipeline", 1}});
  CHECK(j["hosts"] == json{"a", "b"});
  CHECK(j["machine"]["cores"] == 8);
  CHECK(j["versions"] == json{{"program", "0.1.0"}, {"caf", "0.17.6"}});
  CHECK(j["previous_ended"] == false);
  CHECK(j["configuration"]["train.lr"] == 0.001);
  CHECK(begins_log(text));
  CHECK(begins_log(text.substr(0, text.find("configuration"))));  // a long one, cut
}

TEST_CASE("log: resumes, settings, warnings and late validations have lines of their own") {
  const run_resumed start{1.5, 20, 2, "runs/q/checkpoints/step-00000020"};
  CHECK(resume_json(start) == R"({"type":"resume","unix_s":1.5,"step":20,"epoch":2,)"
                              R"("checkpoint":"runs/q/checkpoints/step-00000020"})");
  const run_resumed recovered{1.5, 20, 3, "", "node1 was started again, from step-00000020"};
  CHECK(json::parse(resume_json(recovered))["why"] ==
        "node1 was started again, from step-00000020");
  const run_setting set{1.5, "train.lr", "1e-3", "anna", 51};
  CHECK(set_json(set) ==
        R"({"type":"set","unix_s":1.5,"key":"train.lr","value":"1e-3","who":"anna","step":51})");
  CHECK(set_text(set) == "train.lr = 1e-3 from step 51 on (anna)");
  const run_setting at_once{1.5, "power.budget_w", "90", "anna"};
  CHECK_FALSE(json::parse(set_json(at_once)).contains("step"));
  CHECK(set_text(at_once) == "power.budget_w = 90 (anna)");
  CHECK(warning_json(1.5, 7, "the drive\nis slow") ==
        R"({"type":"warning","unix_s":1.5,"step":7,"text":"the drive\nis slow"})");
  CHECK(layers_json(1.5, "7,5", "as measured") ==
        R"({"type":"layers","unix_s":1.5,"layers":"7,5","text":"as measured"})");
  CHECK(validation_json(1.5, 7, 1, 0.1 + 0.2) ==
        R"({"type":"validation","unix_s":1.5,"step":7,"epoch":1,)"
        R"("validation_loss":0.30000000000000004})");
  CHECK(validation_line(7, 2.9514) == "step 7 | validation 2.951");
}

TEST_CASE("log: a node that joins is a line with its machine, an end one with its reason") {
  run_node node{1.5, 2, "node1"};
  CHECK(node_json(node) == R"({"type":"node","unix_s":1.5,"epoch":2,"node":"node1"})");
  node.is_spare = true;
  node.host = "b\xff";
  node.processor = "a processor";
  node.cores = 8;
  node.memory_bytes = 1024;
  node.gpus = {"a GPU", "a GPU"};
  node.gpu_driver = "550.54.15";
  CHECK(node_json(node).ends_with(
      R"("processor":"a processor","cores":8,"memory_bytes":1024,"gpus":["a GPU","a GPU"],)"
      R"("gpu_driver":"550.54.15"})"));
  const auto j = json::parse(node_json(node));
  CHECK(j["spare"] == true);
  CHECK(j["gpus"].size() == 2);
  CHECK(j["gpu_driver"] == "550.54.15");
  run_over end{1.5, 2, 20, 3.25};
  CHECK(end_json(end) ==
        R"({"type":"end","unix_s":1.5,"epoch":2,"step":20,"seconds":3.25,"reason":"done"})");
  end.reason = end_reason::error;
  end.code = 69;
  end.text = "node node1 ended";
  CHECK(end_json(end).ends_with(R"("reason":"error","code":69,"text":"node node1 ended"})"));
}

TEST_CASE("log: whether the launch before has its end is seen in the log's last lines") {
  const std::string start = R"({"type":"start","unix_s":1})", step = R"({"type":"step","step":1})",
                    end = R"({"type":"end","unix_s":2})", late = R"({"type":"warning","step":1})";
  const auto log_of = [](const std::vector<std::string>& lines) {
    std::string out;
    for (const auto& line : lines) out += line + "\n";
    return out;
  };
  CHECK_FALSE(has_end(""));
  CHECK_FALSE(has_end(log_of({late})));
  CHECK(has_end(log_of({start})) == false);
  CHECK(has_end(log_of({start, step})) == false);
  CHECK(has_end(log_of({start, step, end})) == true);
  CHECK(has_end(log_of({start, step, end, late})) == true);
  CHECK(has_end(log_of({start, step, end, start, late})) == false);
  CHECK(has_end(log_of({R"(cut off","type":"end"})", step}) + R"({"type":"en)") == false);
  // Nor has a launch the late end of the head that it replaced.
  const std::string second = R"({"type":"start","unix_s":1,"step":9,"epoch":2})";
  const std::string of_first = R"({"type":"end","unix_s":1,"epoch":1,"step":9})";
  const std::string of_second = R"({"type":"end","unix_s":1,"epoch":2,"step":9})";
  CHECK(has_end(log_of({second, of_first})) == false);
  CHECK(has_end(log_of({second, of_second})) == true);
  // A text that speaks of an end is none.
  CHECK(has_end(log_of({step, R"({"type":"warning","text":"{\"type\":\"end\""})"})) == false);
}

TEST_CASE("LGE-1: log: a launch has one end, the first that is known, with its last step") {
  using namespace troupe::apps;
  const troupe::scratch folder;
  const auto log = std::make_shared<run_log>((folder / "log.jsonl").string(), false);
  const auto outcome = std::make_shared<run_outcome>();
  log_end first(log, outcome, 2, 20);
  first.process_ends(troupe::error{troupe::errc::unavailable, "node1 is gone"}, 0);
  first.aborted(2);
  outcome->summary.losses.push_back({21, 1.0});
  log_end(log, outcome, 2, 20).aborted(15);
  outcome->last_step = 22;
  outcome->why = {troupe::errc::cancelled, "drained"};
  log_end(log, outcome, 2, 20).process_ends(75, 0);
  log_end(log, outcome, 2, 20).goes_on(end_reason::replaced);
  log_end(log, outcome, 2, 20).process_ends(0, 15);
  const auto lines = lines_of_log(log->path());
  REQUIRE(lines.size() == 5);
  const auto is = [](const json& line, const char* reason, int step) {
    return line["type"] == "end" && line["reason"] == reason && line["step"] == step;
  };
  CHECK(is(lines[0], "error", 20));
  CHECK(lines[0]["code"] == 69);
  CHECK(lines[0]["text"] == "node1 is gone");
  CHECK(is(lines[1], "signal", 21));
  CHECK(lines[1]["code"] == 143);
  CHECK(is(lines[2], "stopped", 22));
  CHECK(lines[2]["text"] == "drained");
  CHECK(is(lines[3], "replaced", 22));
  CHECK_FALSE(lines[3].contains("code"));
  CHECK(is(lines[4], "done", 22));
}

TEST_CASE("log: a step's line has its time and the tokens so far") {
  step_report r;
  r.unix_s = 1764370000.1239;
  r.tokens = 4096;
  CHECK(step_json(r).ends_with(R"("epoch":0,"unix_s":1764370000.124,"tokens":4096})"));
}

TEST_CASE("log: a log of today and one of before is known as ours, and no other") {
  CHECK(begins_log(old_line));
  for (const char* other :
       {"", "my own", "[1]", R"({"type":"step","step":1})", R"({"type":"start","step":1})",
        R"({"loss":1,"step":1})", R"({"type":7,"step":1,"loss":1})"})
    CHECK_FALSE(begins_log(other));
}

TEST_CASE("log: a launch begins with its configuration, and says what it goes on from") {
  const troupe::scratch folder;
  auto job = troupe::config::parse(
      "[job]\nname = \"q\"\n[model]\nlayers = 1\nheads = 1\nhidden = 8\nvocab = 300\n"
      "[data]\npath = \"x\"\n[train]\nsteps = 40\nbatch = 2\nseq_len = 8\nlr = 0.25\n",
      "job");
  REQUIRE(job);
  troupe::apps::run_log log((folder / "log.jsonl").string(), false);
  troupe::apps::run_outcome outcome;
  troupe::apps::begin_log(log, outcome, *job, 1, {});
  CHECK(outcome.summary.resumed.empty());
  troupe::checkpoint::resume_point from;
  from.path = "step-00000020";
  from.step = 20;
  troupe::apps::begin_log(log, outcome, *job, 2, from);
  troupe::apps::log_setting(log, outcome, {"train.lr", "1e-3", "anna", 21});
  const auto lines = lines_of_log(log.path());
  REQUIRE(lines.size() == 4);
  CHECK(lines[0]["type"] == "start");
  CHECK(lines[0]["job"] == "q");
  CHECK(lines[0]["step"] == 0);
  CHECK(lines[0]["configuration"]["train.lr"] == 0.25);
  CHECK(lines[0]["configuration"]["cluster.node"].is_array());
  CHECK(lines[0]["configuration"]["data.source"].is_array());
  CHECK(lines[0]["unix_s"] > 1.6e9);
  for (const char* name : {"program", "build", "compiler", "caf", "flatbuffers", "onednn"})
    CHECK_FALSE(lines[0]["versions"][name].get<std::string>().empty());
  CHECK_FALSE(lines[0].contains("previous_ended"));
  CHECK(lines[1]["previous_ended"] == false);
  CHECK(lines[1]["step"] == 20);
  CHECK(lines[2]["type"] == "resume");
  CHECK(lines[2]["checkpoint"] == "step-00000020");
  CHECK(lines[3]["type"] == "set");
  CHECK(outcome.summary.resumed == "after step 20, from step-00000020");
  CHECK(outcome.summary.settings ==
        std::deque<std::string>{"train.lr = 1e-3 from step 21 on (anna)"});
}

TEST_CASE("STW-1: log: what a start warned of before there was a log is written behind its line") {
  const troupe::scratch folder;
  const auto log_at = [&](const char* name) {
    return std::make_shared<troupe::apps::run_log>((folder / name).string(), false);
  };
  const auto warnings_in = [&](const char* name) {
    std::vector<std::string> out;
    for (const auto& line : lines_of_log((folder / name).string())) {
      CHECK(line["type"] == "warning");
      out.push_back(
          fmt::format("{}: {}", line["step"].get<int>(), line["text"].get<std::string>()));
    }
    return out;
  };
  using strings = std::vector<std::string>;
  troupe::apps::start_warnings warnings;
  warnings.warn("no room");
  warnings.remark("warning: it lies elsewhere");
  warnings.remark("lr stays as it was");
  warnings.keep("taken over");
  warnings.log_to(log_at("first"), 20);
  const strings before{"20: no room", "20: it lies elsewhere", "20: taken over"};
  CHECK(warnings_in("first") == before);
  warnings.warn("late");
  CHECK(warnings_in("first").back() == "20: late");
  warnings.hold();
  for (int i = 0; i < 103; ++i) warnings.keep("of the next start");
  CHECK(warnings_in("first").size() == 4);
  warnings.log_to(log_at("second"), 0);
  CHECK(warnings_in("second").size() == 101);
  CHECK(warnings_in("second").back() == "0: 3 further warnings of the start are not in this log");
}

TEST_CASE("RLG-3: log: that steps are missing, and that they are written again, is told once") {
  const troupe::scratch folder;
  const auto file = (folder / "log.jsonl").string();
  REQUIRE(::symlink("/dev/full", file.c_str()) == 0);
  troupe::apps::run_log log(file, false);
  CHECK_FALSE(log.news());
  log.append(R"({"type":"start","step":0})");
  auto news = log.news();
  REQUIRE(news);
  REQUIRE(news->why);
  CHECK(news->why->code == troupe::errc::io);
  log.append(old_line);
  CHECK_FALSE(log.news());
  CHECK(log.state().missing == 2);
  CHECK(log.state().why);
  REQUIRE(::unlink(file.c_str()) == 0);
  log.append(old_line);
  news = log.news();
  REQUIRE(news);
  CHECK_FALSE(news->why);
  CHECK(news->missing == 2);
  CHECK_FALSE(log.news());
  CHECK(log.state().missing == 0);
  // Lost and written again before anybody asked.
  REQUIRE(::unlink(file.c_str()) == 0);
  REQUIRE(::symlink("/dev/full", file.c_str()) == 0);
  log.append(R"({"type":"set"})");
  REQUIRE(::unlink(file.c_str()) == 0);
  log.append(old_line);
  news = log.news();
  REQUIRE(news);
  CHECK_FALSE(news->why);
  CHECK(news->missing == 1);
  CHECK_FALSE(log.news());
}
