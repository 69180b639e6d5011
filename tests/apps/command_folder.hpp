// A folder of a person's files, and command lines in it by the built program.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include "tests/apps/ended.hpp"

namespace troupe::commands_test {

namespace fs = std::filesystem;

struct folder {
  fs::path path;
  folder() {
    std::string name = (fs::temp_directory_path() / "troupe-apps-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~folder() { fs::remove_all(path); }
  folder(const folder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

/// Runs a shell command line in a folder; "troupe" in it is the built program.
inline ended sh(const folder& in, const std::string& command) {
  const auto line = "troupe() { '" TROUPE_PROGRAM "' \"$@\"; }; { " + command + "; }";
  std::string escaped;
  for (char c : line) escaped += c == '\'' ? "'\\''" : std::string(1, c);
  return run_in(in.path, "bash -c '" + escaped + "'");
}

inline const std::string job =
    "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n[cluster]\nnodes = 2\n";

}  // namespace troupe::commands_test
