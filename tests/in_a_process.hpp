// A part of a test in a process of its own: what a process holds (keys, certificates) it holds to
// its end.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

namespace troupe {

/// What `what` returned, called in a new process with an empty folder.
inline int in_a_process(int (*what)(const std::string&)) {
  const scratch dir;
  const pid_t child = fork();
  if (child == 0) _exit(what(dir.path.string()));
  int how = 0;
  REQUIRE(waitpid(child, &how, 0) == child);
  REQUIRE(WIFEXITED(how));
  return WEXITSTATUS(how);
}

}  // namespace troupe
