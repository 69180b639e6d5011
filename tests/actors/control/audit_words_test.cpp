// What persons and messages say, in the audit log.
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/control/audit.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;

TEST_CASE("audit: what others said stands on its line, printable and cut (ADT-4)") {
  scratch folder;
  const auto path = (folder / "audit.jsonl").string();
  trace::audit_log log(path, [] { return std::string("now"); });
  log.note({{"eve\x1b[2J", "", std::string(10'000, 'c')},
            "Pause",
            "run\n{}",
            "\xe2\x80\xae\x7f",
            "done"});
  CHECK(log.failures() == 0);
  std::ifstream file(path);
  std::string line, more;
  REQUIRE(std::getline(file, line));
  CHECK_FALSE(std::getline(file, more));
  const auto said = nlohmann::json::parse(line);
  CHECK(said["who"] == "eve\\u001b[2J");
  CHECK(said["claims"].get<std::string>().size() == 256);
  CHECK(said["target"] == "run\\n{}");
  CHECK(said["message"] == "\\u202e\\u007f");
}
