// Signals, /proc for whether they have arrived, and the tree before and after.
#include "tests/cluster/rivals.hpp"

#include <csignal>
#include <string_view>

#include "tests/io/tree.hpp"

namespace troupe::cluster_test {

namespace {

/// What /proc says a thread does: 'T' for stopped, 'Z' for ended; 'X' for one that is gone.
char state_in(const fs::path& stat) {
  std::ifstream in(stat);
  std::string text;
  std::getline(in, text);
  const auto name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? 'X' : text[name_end + 2];
}

bool is_stopped(pid_t pid) {
  std::error_code gone;
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", pid), gone))
    if (std::string_view("TtZX").find(state_in(task.path() / "stat")) == std::string_view::npos)
      return false;
  return true;
}

bool has_ended(pid_t pid) {
  return std::string_view("ZX").find(state_in(fmt::format("/proc/{}/stat", pid))) !=
         std::string_view::npos;
}

void check_refused(const finished& second, pid_t first) {
  INFO(second.err);
  CHECK(second.code == 75);
  CHECK(second.err.find(fmt::format("process {} ", first)) != std::string::npos);
  CHECK(second.out.empty());
}

std::map<std::string, std::string> at_rest(const fs::path& folder) {
  auto out = tree_of(folder);
  std::erase_if(out, [](const auto& e) { return e.first.find(".partial/") != std::string::npos; });
  return out;
}

void check_same(const std::map<std::string, std::string>& before,
                const std::map<std::string, std::string>& after) {
  for (const auto& [name, what] : before) {
    const auto now = after.find(name);
    CHECK_MESSAGE((now != after.end() && now->second == what), name, " is not what it was");
  }
  for (const auto& [name, what] : after)
    CHECK_MESSAGE(before.contains(name), name, " was not there before");
}

}  // namespace

void challenge_frozen(const program& first, const std::vector<watched>& nodes,
                      const std::vector<std::string>& arguments,
                      const std::vector<fs::path>& folders) {
  const pid_t head = head_of(first.pid());
  std::vector<pid_t> all{first.pid()};
  if (head > 0) all.push_back(head);
  for (const auto& node : nodes) all.push_back(node.pid());
  for (pid_t pid : all) kill(pid, SIGSTOP);
  for (pid_t pid : all) REQUIRE(eventually([pid] { return is_stopped(pid); }));
  const bool lives = head > 0 && !has_ended(head);
  std::vector<std::map<std::string, std::string>> before;
  for (const auto& folder : folders) before.push_back(at_rest(folder));
  if (lives) check_refused(run(arguments), first.pid());
  for (size_t i = 0; i < folders.size(); ++i) check_same(before[i], at_rest(folders[i]));
  for (pid_t pid : all) kill(pid, SIGCONT);
}

bool challenge_running(const program& first, const std::vector<std::string>& arguments) {
  const pid_t head = head_of(first.pid());
  const auto second = run(arguments);
  if (head < 0 || has_ended(head)) return false;
  check_refused(second, first.pid());
  return true;
}

}  // namespace troupe::cluster_test
