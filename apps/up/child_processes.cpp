// posix_spawn, logs and reaping.
#include "apps/up/child_processes.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "apps/up/child_end.hpp"

extern char** environ;

namespace troupe::apps {

namespace {

/// The words of "start" before the command.
constexpr size_t start_words = 6;

/// What a child reads from its standard input.
struct child_input {
  io::unique_fd reading, writing;
};

/// A pipe with the text in it, which is far below what a pipe takes at once.
result<child_input> input_of(const std::string& text) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return error::system("make a pipe", errno);
  child_input out{io::unique_fd(ends[0]), io::unique_fd(ends[1])};
  TROUPE_CHECK(io::write_all(out.writing.get(), std::as_bytes(std::span(text)), "a node's key"));
  return out;
}

}  // namespace

status child_processes::spawn(const order& what) {
  TROUPE_TRY(input, input_of(what.input));
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, input.reading.get(), STDIN_FILENO);
  // Whoever adds a line to the log, or truncates it, must find no hole and lose none of ours.
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, what.log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND | (what.new_log ? O_TRUNC : 0),
                                   0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);  // PRC-2
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> argv;
  for (const auto& word : what.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0)
    return error::system(fmt::format("run {}", what.command[0]), failed);
  ++processes_[what.node];
  children_.push_back({what.node, pid});
  if (what.tied) children_.back().tie = std::move(input.writing);  // PRC-4
  return {};
}

bool child_processes::has_process(const std::string& node) const {
  return std::any_of(children_.begin(), children_.end(),
                     [&](const child& c) { return c.node == node; });
}

void child_processes::end_process_of(const std::string& node) {
  for (auto& c : children_)
    if (c.node == node && !std::exchange(c.told, true)) kill(c.pid, SIGKILL);
}

bool child_processes::take(const packet& words) {
  if (words.size() < 2) return false;
  const auto& node = words[1];
  const bool starts = words[0] == "start" && words.size() > start_words;
  if (!starts && words[0] != "stop") return false;
  std::erase_if(orders_, [&](const order& o) { return o.node == node; });
  end_process_of(node);
  if (!starts) return true;
  orders_.push_back({node,
                     words[2],
                     words[3] == "new",
                     words[4],
                     words[5] == "tied",
                     {words.begin() + start_words, words.end()},
                     clock::now()});
  return true;
}

void child_processes::start_what_can(std::vector<packet>& news) {
  std::erase_if(orders_, [&](const order& o) {
    const bool there = has_process(o.node);
    if (there && clock::now() - o.since < defaults::child_patience) return false;
    const auto started = there ? status(process_stays(o.node)) : spawn(o);
    if (!started) news.push_back({"failed", o.node, started.error().message});
    return true;
  });
}

std::vector<packet> child_processes::look() {
  std::vector<packet> news;
  const auto now = oom_count::clock::now();
  oom_.look(now);
  std::erase_if(children_, [&](const child& c) {
    int how = 0;
    if (waitpid(c.pid, &how, WNOHANG) != c.pid) return false;
    const int code = WIFSIGNALED(how) ? -1 : WEXITSTATUS(how);
    if (!c.told)
      news.push_back({"ended", c.node, std::to_string(c.pid), std::to_string(code),
                      child_end_text(how, oom_.look(now))});
    return true;
  });
  start_what_can(news);
  return news;
}

std::vector<packet> child_processes::known() const {
  std::vector<packet> out;
  for (const auto& [node, started] : processes_) {
    pid_t pid = 0;
    for (const auto& c : children_)
      if (c.node == node && !c.told) pid = c.pid;
    out.push_back({"node", node, std::to_string(pid), std::to_string(started)});
  }
  return out;
}

child_processes::~child_processes() {
  for (const auto& c : children_) kill(c.pid, SIGKILL);
  for (const auto& c : children_) waitpid(c.pid, nullptr, 0);
}

}  // namespace troupe::apps
