// What a run exports is what transformers makes of it: driven by
// tests/bench/transformers_families.py where torch and transformers are installed (TROUPE_PYTHON,
// default python3).
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

TEST_CASE(
    "families: transformers has the same ids and the same likeliest text of what is exported") {
  job_files job;
  const char* python = std::getenv("TROUPE_PYTHON");
  const std::string command = std::string(python ? python : "python3") +
                              " '" TROUPE_SOURCE_DIR
                              "/tests/bench/"
                              "transformers_families.py' '" +
                              std::string(TROUPE_PROGRAM) + "' '" TROUPE_SOURCE_DIR "' '" +
                              (job / "families").string() + "' 1>&2";
  const int state = std::system(command.c_str());
  REQUIRE(WIFEXITED(state));
  if (WEXITSTATUS(state) == 77) {
    MESSAGE("SKIPPED: torch or transformers is not installed for this python");
    return;
  }
  CHECK(WEXITSTATUS(state) == 0);
}
