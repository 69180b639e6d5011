// What jobs and nodes may be called, and what is said of other names.
#include <string>

#include <doctest/doctest.h>

#include "io/config/load.hpp"

using namespace troupe;

namespace {

/// What is said of a job and a node of these names.
std::string said_of(const std::string& job, const std::string& node) {
  const auto made = config::parse("[job]\nname = \"" + job +
                                      "\"\n[model]\nlayers = 1\nheads = 1\nhidden = 8\n"
                                      "[data]\npath = \"x\"\n[[cluster.node]]\nname = \"" +
                                      node + "\"\n",
                                  "job");
  return made ? "" : made.error().message;
}

}  // namespace

TEST_CASE("config: a name that is too long is said to be that, and how long one may be") {
  const std::string longest(128, 'x'), longer(129, 'x');
  CHECK(said_of(longest, longest).empty());
  for (const auto& said : {said_of(longer, "a"), said_of("a", longer)}) {
    CAPTURE(said);
    CHECK(said.find("name: expected at most 128 letters, got 129") != std::string::npos);
    CHECK(said.find(longer) == std::string::npos);
  }
  CHECK(said_of("a b", "a").find("job.name: expected letters, digits") != std::string::npos);
}
