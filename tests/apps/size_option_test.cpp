// Numbers of bytes on the command line: with a unit or without, whole or not, never below 0.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;

TEST_CASE("a number of bytes may be no whole number of its unit, and is never below 0") {
  scratch dir;
  std::ofstream(dir / "j.toml") << "[model]\nlayers = 4\nheads = 4\nhidden = 64\n"
                                   "[data]\npath = \"text\"\n[cluster]\nnodes = 2\n";
  const auto plan = [&](const std::string& memory) {
    return run_in(dir.path, "'" TROUPE_PROGRAM "' plan j.toml --json --memory " + memory);
  };
  const auto bytes = [&](const std::string& memory) {
    const auto done = plan(memory);
    CAPTURE(done.talk);
    REQUIRE(done.code == 0);
    return nlohmann::json::parse(done.out).at("device_bytes").get<uint64_t>();
  };
  CHECK(bytes("80GiB") == uint64_t{80} << 30);
  CHECK(bytes("1.5GiB") == uint64_t{3} << 29);
  CHECK(bytes("'2 gb'") == uint64_t{2} << 30);
  CHECK(bytes("4096m") == uint64_t{4096} << 20);
  CHECK(bytes("1073741824") == uint64_t{1} << 30);
  CHECK(bytes("1073741824b") == uint64_t{1} << 30);
  for (const auto* wrong : {"-3", "-3GiB", "16EiB", "3x", "3GiBs", "GiB", "nan", "inf"}) {
    CAPTURE(wrong);
    const auto refused = plan(wrong);
    CHECK(refused.code == 64);
    CHECK(refused.talk.find("expected a number of bytes from 0") != std::string::npos);
  }
}
