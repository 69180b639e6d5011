// The arguments of every verb that takes a configuration: FILE and --set.
#pragma once

#include <string>
#include <vector>

#include "apps/command_line.hpp"
#include "io/config/load.hpp"

namespace troupe::apps {

/// What was given on the command line.
struct job_arguments {
  std::string file;
  std::vector<std::string> sets;

  /// With the process's environment, ready for config::load().
  config::sources sources() const;
  /// config::load() of them, which says what it warns of.
  result<config::loaded> load() const;
};

/// Adds FILE (required) and --set to a verb; `into` must live as long as the verb.
void add_job_arguments(command* verb, job_arguments& into);

/// The same where a verb does without a file, too.
struct optional_job {
  argument* file = nullptr;
  argument* set = nullptr;
};
optional_job add_optional_job(command* verb, job_arguments& into);

}  // namespace troupe::apps
