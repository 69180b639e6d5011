// The launcher's children: started, replaced, ended.
#include "apps/up/child_processes.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps;

namespace {

packet start(const std::string& node, const std::string& log,
             const std::vector<std::string>& command, const std::string& input = "x",
             const std::string& tie = "free", const std::string& mode = "new") {
  packet out{"start", node, log, mode, input, tie};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

/// Until a child has ended, which is left to who reaps it.
void await_end() {
  siginfo_t info;
  REQUIRE(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0);
}

std::vector<packet> news_of(child_processes& children) {
  if (auto news = children.look(); !news.empty()) return news;  // nothing was started
  await_end();
  return children.look();
}

pid_t pid_of(const child_processes& children, const std::string& node) {
  for (const auto& p : children.known())
    if (p[1] == node) return std::stoi(p[2]);
  return 0;
}

}  // namespace

TEST_CASE("children: one reads its input, writes its log, and its end is told with code and pid") {
  scratch dir;
  child_processes children;
  const auto log = (dir / "a.log").string();
  REQUIRE(children.take(start("a", log, {"/bin/sh", "-c", "cat; exit 3"}, "the key")));
  const auto news = news_of(children);
  REQUIRE(news.size() == 1);
  const auto pid = std::stoi(news[0][2]);
  CHECK(pid > 0);
  CHECK(news[0] == packet{"ended", "a", std::to_string(pid), "3", "exited with 3"});
  CHECK(*io::read_file(log, 100) == "the key");
  CHECK(children.known() == std::vector<packet>{{"node", "a", "0", "1"}});
  REQUIRE(children.take(start("a", log, {"/bin/echo", "again"}, "x", "free", "same")));
  CHECK(news_of(children)[0][3] == "0");
  CHECK(*io::read_file(log, 100) == "the keyagain\n");
}

TEST_CASE("PRC-4 PRC-5: one process at a time, and the end of one that was replaced is no news") {
  scratch dir;
  child_processes children;
  const auto forever = start("a", (dir / "a.log").string(), {"/bin/sleep", "1000"});
  REQUIRE(children.take(forever));
  children.look();
  const auto first = pid_of(children, "a");
  REQUIRE(children.take(forever));
  await_end();
  CHECK(children.look().empty());
  CHECK_FALSE(children.waits());
  const auto second = pid_of(children, "a");
  CHECK(second != first);
  CHECK(kill(first, 0) != 0);  // reaped before the next began
  REQUIRE(children.take({"stop", "a"}));
  await_end();
  CHECK(children.look().empty());
  CHECK(kill(second, 0) != 0);
  CHECK(pid_of(children, "a") == 0);
}

TEST_CASE("PRC-4: standard input stays open where it ties, and ends where it does not") {
  scratch dir;
  child_processes children;
  const std::vector<std::string> reader{"/bin/cat"};
  REQUIRE(children.take(start("tied", (dir / "a.log").string(), reader, "x", "tied")));
  children.look();
  REQUIRE(children.take(start("free", (dir / "b.log").string(), reader)));
  const auto news = news_of(children);
  REQUIRE(news.size() == 1);
  CHECK(news[0][1] == "free");
  CHECK(kill(pid_of(children, "tied"), 0) == 0);
}

TEST_CASE("children: what cannot be started is told, what is no order is none") {
  scratch dir;
  child_processes children;
  REQUIRE(children.take(start("a", (dir / "a.log").string(), {"/no/such/program"})));
  const auto news = news_of(children);
  REQUIRE(news.size() == 1);
  CHECK(news[0][0] == "failed");
  CHECK(news[0][2].find("/no/such/program") != std::string::npos);
  for (const packet& p : {packet{"start"}, packet{"start", "a", "log", "new", "x", "free"},
                          packet{"stop"}, packet{"hello", "a"}})
    CHECK_FALSE(children.take(p));
  CHECK_FALSE(children.waits());
}

TEST_CASE("PRC-1: none is left behind") {
  scratch dir;
  pid_t pid = 0;
  {
    child_processes children;
    REQUIRE(children.take(start("a", (dir / "a.log").string(), {"/bin/sleep", "1000"})));
    children.look();
    pid = pid_of(children, "a");
    REQUIRE(kill(pid, 0) == 0);
  }
  CHECK(kill(pid, 0) != 0);
}
