// A job from TOML text and settings over it, derived and checked at once as the program does.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "io/config/load.hpp"
#include "tests/io/scratch.hpp"

namespace troupe {

/// E.g. job_of_text("[model]...", {"train.batch=16"}); the test fails where it is no job.
inline config::job job_of_text(const std::string& toml, const std::vector<std::string>& sets) {
  const scratch folder;
  std::ofstream(folder / "job.toml") << toml;
  auto loaded = config::load({(folder / "job.toml").string(), {}, sets});
  REQUIRE_MESSAGE(loaded, (loaded ? "" : render(loaded.error())));
  return loaded->value;
}

}  // namespace troupe
