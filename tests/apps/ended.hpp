// A command that ran to its end, and what it left behind.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

namespace troupe {

struct ended {
  int code;               ///< its exit status
  std::string out, talk;  ///< its stdout and stderr
};

/// The bytes of a file; none if it cannot be read.
inline std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Runs a command of the shell in a folder.
inline ended run_in(const std::filesystem::path& in, const std::string& command) {
  const auto line = "cd '" + in.string() + "' && " + command + " >.out 2>.talk </dev/null";
  const int status = std::system(line.c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), content(in / ".out"), content(in / ".talk")};
}

}  // namespace troupe
