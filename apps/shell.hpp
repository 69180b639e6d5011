// What every verb of the program shares: how it is registered, how it ends. How it talks: talk.hpp.
//
// SH-2 A verb ends with 0, with a sysexits(3) value made from its error, or with a number it chose.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/command_line.hpp"
#include "apps/talk.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// The command line of the program and how the chosen verb ended.
struct shell {
  command app{"troupe"};
  std::vector<std::string> words = {};  ///< as typed, the program first
  int exit_code = 0;
};

/// Says what a verb does when it was chosen: the number it returns is the process's exit code; an
/// error is printed (say) and becomes its exit code.
void on_run(shell& sh, command* verb, std::function<result<int>()> run);

/// Parses and runs; the process's exit code. A wrong command line ends in 64 and the nearest word.
int run(shell& sh, int argc, const char* const* argv);

}  // namespace troupe::apps
