// What a program says before a rule that it broke stops it.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace troupe::gpu::testing {

/// What a child process that runs `body` says before it is killed by abort; empty if it is not.
template <class Body>
std::string last_words(const Body& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[256];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool stopped = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  CHECK((stopped || (WIFEXITED(status) && WEXITSTATUS(status) == 0)));
  return stopped ? said : std::string{};
}

}  // namespace troupe::gpu::testing
