// L-5: a warmup that the steps of a stronger layer leave no room for.
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/config/load.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::config;

namespace {

struct written_job {
  scratch here;

  explicit written_job(const std::string& train) {
    std::ofstream(here / "job.toml")
        << "[model]\nlayers = 1\nheads = 1\nhidden = 8\nvocab = 300\n[data]\npath = \"x\"\n"
        << "[train]\nbatch = 2\nseq_len = 8\n"
        << train;
  }
  read_result with(const std::vector<std::string>& sets,
                   const std::vector<std::string>& environment = {}) const {
    return read({(here / "job.toml").string(), environment, sets});
  }
};

constexpr auto short_of_it = "steps = 300\nwarmup_steps = 20\n";

}  // namespace

TEST_CASE("L-5: a file's warmup is shortened to the steps of --set, which is said once") {
  const written_job job(short_of_it);
  const auto got = job.with({"train.steps=5"});
  REQUIRE(got.problems.empty());
  CHECK(got.config.value.train.steps == 5);
  CHECK(got.config.value.train.warmup_steps == 5);
  REQUIRE(got.config.warnings.size() == 1);
  CHECK(got.config.warnings[0].find("train.warmup_steps = 20") != std::string::npos);
  CHECK(got.config.warnings[0].find("shortened to 5") != std::string::npos);
  CHECK(got.config.origins.find("train.warmup_steps")->second.kind == source_kind::flag);
  const auto by_variable = job.with({}, {"TROUPE_TRAIN__STEPS=7"});
  CHECK(by_variable.problems.empty());
  CHECK(by_variable.config.value.train.warmup_steps == 7);
  // What fits stays, without a word.
  for (const std::string steps : {"train.steps=20", "train.steps=400"}) {
    const auto fits = job.with({steps});
    CHECK(fits.problems.empty());
    CHECK(fits.config.value.train.warmup_steps == 20);
    CHECK(fits.config.warnings.empty());
  }
}

TEST_CASE("L-5: a warmup that stands where the steps stand is a problem, not shortened") {
  const auto in_file = written_job("steps = 5\nwarmup_steps = 20\n").with({});
  REQUIRE(in_file.problems.size() == 1);
  CHECK(in_file.problems[0].key == "train.warmup_steps");
  CHECK_FALSE(in_file.problems[0].hint.empty());
  const written_job job(short_of_it);
  const auto by_flags = job.with({"train.steps=5", "train.warmup_steps=9"});
  CHECK(by_flags.problems.size() == 1);
  CHECK(by_flags.config.warnings.empty());
  CHECK(job.with({"train.warmup_steps=301"}).problems.size() == 1);
}

TEST_CASE("L-5: with wsd the decay of a shortened job has its room, too") {
  const written_job job(std::string(short_of_it) + "schedule = \"wsd\"\n");
  const auto derived = job.with({"train.steps=15"});
  REQUIRE(derived.problems.empty());
  CHECK(derived.config.value.train.decay_steps == 1);
  CHECK(derived.config.value.train.warmup_steps == 14);
  const auto too_long = job.with({"train.steps=15", "train.decay_steps=16"});
  CHECK(too_long.problems.size() > 0);
}

TEST_CASE("L-5: a running job whose steps are changed keeps its warmup, or is not changed") {
  const written_job job(short_of_it);
  const auto loaded = load({(job.here / "job.toml").string(), {}, {"train.steps=5"}});
  REQUIRE(loaded);
  CHECK(*settle(loaded->value) == loaded->value);
  const auto whole = load({(job.here / "job.toml").string(), {}, {}});
  REQUIRE(whole);
  CHECK_FALSE(amend(whole->value, "train.steps=5"));
  CHECK(amend(whole->value, "train.steps=25")->train.warmup_steps == 20);
}
