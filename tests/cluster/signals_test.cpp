// Every phase of a launch, ended in every way: by signals, by a terminal that is closed, with a
// stderr that nobody reads and with one on a full disk. It ends, with the code that
// docs/exit-codes.md states, and has saved where there was something to save.
#include <poll.h>

#include <chrono>
#include <csignal>
#include <fstream>

#include "tests/cluster/bad_outputs.hpp"
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

struct way {
  std::string name;
  int signal;
  bool twice = false;
  bool hangs_up = false;   ///< its terminal is closed
  bool unread = false;     ///< nobody reads its stderr
  bool disk_full = false;  ///< stdout and stderr are on a full disk
};

const way nobody_reads{"full stderr", SIGTERM, false, false, true};
const way ways[] = {{"INT", SIGINT},
                    {"INT INT", SIGINT, true},
                    {"TERM", SIGTERM},
                    {"HUP", SIGHUP},
                    {"closed terminal", SIGHUP, false, true},
                    nobody_reads,
                    {"full disk", SIGTERM, false, false, false, true}};

/// A launch in one phase of its launch.
struct in_phase {
  std::string name;
  std::function<std::vector<std::string>(const job_files&)> arguments;
  std::function<bool(const job_files&, const program&)> there;
  std::function<void(const job_files&, const way&, int code)> judge;
};

void end_in(const in_phase& phase, const way& how) {
  INFO("phase ", phase.name, ", ended by ", how.name);
  job_files job;
  opened_pipe unread;
  unread.fill();
  const auto full = dev_full();
  std::optional<terminal> screen;
  streams to;
  if (how.hangs_up) to.terminal = screen.emplace().path;
  if (how.unread) to.err = unread.in.get();
  if (how.disk_full) to.out = to.err = full.get();
  program up(phase.arguments(job), 0, to);
  REQUIRE(eventually([&] { return phase.there(job, up); }));
  const pid_t head = head_of(up.pid());
  REQUIRE(head > 0);
  const auto asked = std::chrono::steady_clock::now();
  if (how.hangs_up)
    screen.reset();
  else
    up.signal(how.signal);
  if (how.twice) {
    poll(nullptr, 0, 1100);  // a second one within a second would be the same
    kill(up.pid(), how.signal);
  }
  const int code = up.wait();
  const auto took = std::chrono::steady_clock::now() - asked;
  MESSAGE(phase.name, " | ", how.name, " | ", code, " | ",
          std::chrono::duration_cast<std::chrono::milliseconds>(took).count(), " ms");
  INFO(up.err());
  phase.judge(job, how, code);
  CHECK(eventually([&] { return nodes_started_by(head).empty(); }));
}

void end_in_all_ways(const in_phase& phase) {
  for (const auto& how : ways) end_in(phase, how);
}

void nothing_saved(const job_files& job, const way& how, int code) {
  CHECK(code == 128 + how.signal);
  CHECK(names_with(job / "run/checkpoints", "step-").empty());
}

}  // namespace

TEST_CASE("signals: while a start reads its data") {
  const in_phase starting{
      "starting", [](const job_files& job) { return job.up(with(endless, many_tokens(job))); },
      [](const job_files&, const program& up) { return hears_signals(head_of(up.pid())); },
      nothing_saved};
  end_in_all_ways(starting);
  // As early as it is heard at all: a last word written straight to a full pipe hung one in twenty.
  for (int again = 0; again < 20; ++again) end_in(starting, nobody_reads);
}

TEST_CASE("signals: while nodes are awaited") {
  end_in_all_ways(
      {"gathering",
       [](const job_files& job) {
         return job.up(with(endless, {"cluster.launch=external", free_port()}));
       },
       [](const job_files&, const program& up) {
         return !listening_ports(head_of(up.pid())).empty();
       },
       nothing_saved});
}

TEST_CASE("signals: while text is tokenised") {
  end_in_all_ways({"tokenising", [](const job_files& job) { return job.up(much_text(job)); },
                   [](const job_files& job, const program&) {
                     return !names_with(job / "cache", ".bin").empty();
                   },
                   [](const job_files& job, const way& how, int code) {
                     nothing_saved(job, how, code);
                     if (!how.twice) CHECK(names_with(job / "cache", ".bin").empty());
                   }});
}

TEST_CASE("signals: while steps are made") {
  end_in_all_ways({"training",
                   [](const job_files& job) { return job.up(with(endless, layout(2, 1))); },
                   [](const job_files& job, const program&) {
                     return logged_steps(job / "run/log.jsonl").size() >= 3;
                   },
                   [](const job_files& job, const way& how, int code) {
                     CHECK(code == 128 + how.signal);
                     if (how.twice) return;  // whether the first was done with is chance
                     const auto logged = logged_steps(job / "run/log.jsonl");
                     CHECK(fs::exists(job.checkpoint(logged.back()["step"].get<int>())));
                   }});
}

TEST_CASE("signals: while the sample is made, after the last step") {
  end_in_all_ways(
      {"sampling", [](const job_files& job) { return job.up({"train.sample_tokens=1000000"}); },
       [](const job_files& job, const program& up) {
         return logged_steps(job / "run/log.jsonl").size() == 20 &&
                fs::exists(job.checkpoint(20)) && nodes_started_by(head_of(up.pid())).empty();
       },
       [](const job_files& job, const way& how, int code) {
         CHECK((code == 0 || (how.twice && code == 128 + how.signal)));
         CHECK(fs::exists(job.checkpoint(20)));
       }});
}
