// What this program was built from and by: for a bug report, and for whoever compares runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::apps {

/// The compiler and its version, e.g. "gcc 12.2.0".
std::string compiler_text();

/// As CMake names it, e.g. "Release".
std::string build_type();

/// Names and versions of what numbers and messages depend on: "program", "build", "compiler",
/// "caf", "flatbuffers", "onednn" and, where this build has it, "cuda" (the toolkit).
std::vector<std::pair<std::string, std::string>> versions();

}  // namespace troupe::apps
