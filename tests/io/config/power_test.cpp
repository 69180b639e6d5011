// [power]: what is refused together.
#include <fstream>

#include <doctest/doctest.h>

#include "io/config/load.hpp"
#include "tests/errors.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;

TEST_CASE("config: a power budget needs meters that are read") {
  const scratch folder;
  const auto path = (folder / "job.toml").string();
  std::ofstream(path) << "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";
  const auto problems = [&](std::vector<std::string> sets) {
    return config::read({path, {}, std::move(sets)}).problems;
  };
  CHECK(problems({"power.budget_w=40"}).empty());
  CHECK(problems({"power.meter_interval_ms=0"}).empty());
  const auto both = problems({"power.budget_w=40", "power.meter_interval_ms=0"});
  REQUIRE(both.size() == 1);
  CHECK(config::render(both[0]).find("power.meter_interval_ms") != std::string::npos);
}
