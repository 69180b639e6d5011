// What holds of a served budget while something is stopped or cut off: `serve`, the launcher and
// the head of a job, one of its nodes, the link between, or the budget itself; with a watcher
// outside of all of it, which counts the processor time that jobs take.
//
// Where the machine gives a job less than it is to be held to, whoever holds it or not, there is
// nothing to see: such a test says so, and is left out.
//
// A lease lasts 5 s. What is held against a budget is processor time alone, from when a lease and
// a tick are over: that a process comes late on a busy machine takes none. Each bound is one that
// the same jobs were seen to go beyond before.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cluster/busy_watch.hpp"
#include "tests/cluster/constant_watts.hpp"
#include "tests/cluster/relay.hpp"
#include "tests/cluster/served_row.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

/// A lease (budget_file()), and a tick of a job: a report.
constexpr auto lease_and_tick = std::chrono::milliseconds(5000 + 1500);
constexpr auto watched_for = std::chrono::seconds(4);

/// Seconds, once: the step that was under way, and who comes late to what holds it on a machine
/// whose load is many times its processors. A job that nothing holds is twice as far beyond either
/// bound once it was watched, where no sanitizer slows it.
constexpr double late_s = 1.2 * slowness;

/// What a job of so many nodes takes that makes no steps, for heartbeats, meters and reports: less
/// than a rank at work in any build.
constexpr busy_bound none_works(int nodes = 1) {
  return {std::min(0.5, (0.08 + 0.06 * nodes) * slowness), late_s};
}

/// Of 50 W, whatever it does; heartbeats and meters take little.
std::vector<std::string> of_name(const std::string& job, const std::string& parent = "auto") {
  return with(constant_watts, {"power.meter_interval_ms=500", "cluster.heartbeat_interval_ms=500",
                               "job.name=" + job, "power.parent=" + parent});
}

/// Steps of some tens of ms, of a thread.
const std::vector<std::string> larger{"model.layers=4", "model.hidden=128", "train.seq_len=128",
                                      "train.batch=8", "checkpoint.every=0"};

/// Who is stopped for longer than a node is waited for by itself is no node that is lost.
const std::vector<std::string> waited_for{"cluster.dead_after_ms=120000"};

/// A machine that draws by its busy processors: a budget is one of these.
constexpr double core_w = 10;
const std::vector<std::string> by_processors{"power.model_idle_w=0",
                                             fmt::format("power.model_core_w={}", core_w)};
double all_processors_w() {
  return core_w * static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

/// More than its processors can draw, whoever works there beside: a cap that does not bind.
double ample_w() {
  return 2 * all_processors_w();
}

/// What a job of one thread comes to be held to, by a pace that is judged by what it drew before.
constexpr double little_w = 3;
constexpr busy_bound little{1.3 * little_w / core_w, late_s};

/// A budget that no other test sees.
struct own_row : own_signs, served_row {
  own_row(double budget_w, const std::string& children)
      : served_row(budget_file(folder, "row0", budget_w, children)) {
    REQUIRE(until_row_knows());
  }
};

/// Of one job, to which it gives a cap that does not bind, and little where it is not heard.
struct ample_row : own_row {
  ample_row()
      : own_row(ample_w(), child_of_budget("gpt-a", "high", little_w, little_w, ample_w())) {}
};

/// A process that is stopped until it is told to go on, or the test ends.
class halted {
 public:
  explicit halted(pid_t pid) : process_(pid) {
    REQUIRE(pid > 0);
    process_.signal(SIGSTOP);
  }
  halted(const halted&) = delete;
  halted& operator=(const halted&) = delete;
  ~halted() { go_on(); }
  void go_on() const { process_.signal(SIGCONT); }

 private:
  const watched process_;
};

int64_t last_step(program& up) {
  up.listen();
  const auto at = up.out().rfind(R"("type":"step","step":)");
  return at == std::string::npos ? 0 : std::atoll(up.out().c_str() + at + 21);
}
/// Whether it makes steps from now on.
bool goes_on(program& up) {
  return up.until_step(last_step(up) + 3);
}

void end_job(program& up) {
  up.signal(SIGINT);
  CHECK(up.wait() == 128 + SIGINT);
}

/// Whether a job at work is seen to take more than that; else it goes on all the same, and the test
/// is to end.
bool works_beyond(program& up, busy_watch& seen, const busy_bound& bound) {
  constexpr std::chrono::seconds watched_for_most = patience / 5;  // of an idle processor, 3 s
  if (seen.until_beyond(bound, watched_for_most)) return true;
  REQUIRE(goes_on(up));
  MESSAGE("SKIPPED: this machine gives a job no more than what it is to be held to");
  return false;
}

/// Until a lease and a tick after `since` are over and some seconds more: the bound held there.
void check_kept(busy_watch& seen, busy_clock::time_point since, const busy_bound& bound) {
  const auto from = since + lease_and_tick;
  seen.watch_until(from + watched_for);
  const double beyond_s = seen.most_beyond_s(from, bound.processors);
  MESSAGE("beyond: " << beyond_s << " s, of " << bound.once_s);
  CHECK(beyond_s <= bound.once_s);
}

}  // namespace

TEST_CASE("PWR-2: while power serve is stopped its jobs fall to their shares, by /proc") {
  if (is_metered_here()) return;
  own_row row(
      130, child_of_budget("gpt-a", "high", 0, 0, 60) + child_of_budget("gpt-b", "low", 0, 0, 60));
  const job_files a, b;
  program first(a.up(with(of_name("gpt-a"), endless))),
      second(b.up(with(of_name("gpt-b"), endless)));
  busy_watch one({first.pid()}), other({second.pid()});
  REQUIRE(first.until_step(3));
  REQUIRE(second.until_step(3));
  if (!works_beyond(first, one, none_works()) || !works_beyond(second, other, none_works())) {
    end_job(second);
    return end_job(first);
  }
  const halted budget(row.up.pid());
  const auto stopped = busy_clock::now();
  check_kept(one, stopped, none_works());
  check_kept(other, stopped, none_works());
  budget.go_on();
  CHECK(goes_on(first));
  CHECK(goes_on(second));
  end_job(second);
  end_job(first);
  row.end();
}

TEST_CASE("PWR-2: a job whose link to its budget is cut works at its share, by /proc") {
  if (is_metered_here()) return;
  ample_row row;
  const job_files job;
  const auto key = (row.folder / "gpt-a.key").string();
  REQUIRE(
      run({"key", "--role", "power", "--name", "gpt-a", "--budget", "row0", "--out", key}).code ==
      0);
  relay link(static_cast<uint16_t>(std::stoi(row.address.substr(row.address.rfind(':') + 1))));
  program up(job.up(with(with(with(of_name("gpt-a", link.address()), by_processors), larger),
                         with(endless, {"power.parent_key=" + key}))));
  busy_watch seen({up.pid()});
  REQUIRE(up.until_step(3));
  CHECK(link.accepted() > 0);
  if (!works_beyond(up, seen, little)) return end_job(up);
  link.cut();
  check_kept(seen, busy_clock::now(), little);
  REQUIRE(up.until_error_has("has lapsed"));
  link.mend();
  CHECK(goes_on(up));
  REQUIRE(up.until_error_has("grants again"));
  end_job(up);
  row.end();
}

TEST_CASE("PWR-1: what a stopped launcher and head have is nobody else's, by /proc") {
  if (is_metered_here()) return;
  own_row row(
      55, child_of_budget("gpt-a", "high", 55, 55, 55) + child_of_budget("gpt-b", "low", 0, 0, 60));
  const job_files a, b;
  program first(a.up(with(with(of_name("gpt-a"), next_to_none), with(endless, waited_for))));
  REQUIRE(first.until_step(3));
  program second(b.up(with(with(of_name("gpt-b"), next_to_none), with(endless, waited_for))));
  REQUIRE(second.until_error_has("waits for power"));
  busy_watch one({first.pid()}), other({second.pid()});
  if (!works_beyond(first, one, none_works())) {
    end_job(second);
    return end_job(first);
  }
  first.signal(SIGSTOP);
  const auto stopped = busy_clock::now();
  check_kept(one, stopped, none_works());  // its node ends with the step under way
  check_kept(other, stopped, none_works());
  REQUIRE(until_child("gpt-a", [](const json& c) { return c["silent"] == true; }));
  CHECK(child_in(row_tree(), "gpt-a")["counted_w"] == 55);
  CHECK(child_in(row_tree(), "gpt-b")["granted_w"] == 0);
  first.signal(SIGCONT);
  CHECK(goes_on(first));
  second.listen();
  CHECK(second.objects("step").empty());
  end_job(first);
  end_job(second);
  row.end();
}

TEST_CASE("PWR-2: a node that was stopped works at no older cap once it goes on, by /proc") {
  if (is_metered_here()) return;
  own_row row(60, child_of_budget("gpt-a", "high", 10, 10, 60));
  const job_files job;
  program up(job.up(with(with(of_name("gpt-a"), layout(2, 1)), with(endless, waited_for))));
  busy_watch seen({up.pid()});
  REQUIRE(up.until_step(3));
  if (!works_beyond(up, seen, none_works(2))) return end_job(up);
  const halted node(node_named(up.port(), "node1")), budget(row.up.pid());
  const auto stopped = busy_clock::now();
  seen.watch_until(stopped + lease_and_tick);
  node.go_on();
  check_kept(seen, stopped, none_works(2));
  budget.go_on();
  CHECK(goes_on(up));
  end_job(up);
  row.end();
}

TEST_CASE("PWR-1: a budget that is cut binds a job whose launcher is stopped, by /proc") {
  if (is_metered_here()) return;
  ample_row row;
  const job_files job;
  program up(job.up(with(with(of_name("gpt-a"), by_processors), with(larger, endless))));
  busy_watch seen({up.pid()});
  REQUIRE(up.until_step(3));
  if (!works_beyond(up, seen, little)) return end_job(up);
  const halted launcher(up.pid());  // its head goes on
  REQUIRE(run({"power", "budget", fmt::format("{}", little_w)}).code == 0);
  check_kept(seen, busy_clock::now(), little);
  CHECK(child_in(row_tree(), "gpt-a")["granted_w"] <= little_w);
  launcher.go_on();
  REQUIRE(run({"power", "budget", fmt::format("{}", ample_w())}).code == 0);
  CHECK(goes_on(up));
  end_job(up);
  row.end();
}
