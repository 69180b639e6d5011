// [predict] in a configuration: each key as it is written and read again, and what is none.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/config/load.hpp"
#include "tests/errors.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;

namespace {

const std::string predicted_job_text =
    "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";

}  // namespace

TEST_CASE("predict: what no file says is learned, kept with the job, and suspects a tenth") {
  const auto p = job_of_text(predicted_job_text, {}).predict;
  CHECK(p.enabled);
  CHECK(p.store.empty());
  CHECK(p.prior.empty());
  CHECK(p.suspect_percent == 10);
  CHECK(p.quiet_steps == 32);
  CHECK(p.probe == config::probe_depth::quick);
  CHECK(p.memory == 512);
}

TEST_CASE("predict: each key is its member, from a file and from a command line, and read again") {
  const auto by_file = job_of_text(
      predicted_job_text +
          "[predict]\nenabled = false\nstore = \"times.jsonl\"\n"
          "prior = \"fleet.tpm\"\nsuspect_percent = 25\nquiet_steps = 8\nprobe = \"full\"\n"
          "memory = 64\n",
      {});
  const auto by_sets = job_of_text(
      predicted_job_text, {"predict.enabled=false", "predict.store=times.jsonl",
                           "predict.prior=fleet.tpm", "predict.suspect_percent=25",
                           "predict.quiet_steps=8", "predict.probe=full", "predict.memory=64"});
  const config::predict_section said{
      false, "times.jsonl", "fleet.tpm", 25, 8, config::probe_depth::full, 64};
  CHECK((by_file.predict == said));
  CHECK((by_sets.predict == said));
  const auto again = config::parse(config::to_toml(by_file), "text");
  REQUIRE_MESSAGE(again, (again ? "" : render(again.error())));
  CHECK(*again == by_file);
  for (const auto* set : {"predict.suspect_percent=0", "predict.suspect_percent=1000",
                          "predict.quiet_steps=1000", "predict.store=", "predict.probe=off"}) {
    const auto job = job_of_text(predicted_job_text, {set});
    const auto same = config::parse(config::to_toml(job), "text");
    REQUIRE(same);
    CHECK(*same == job);
  }
}

TEST_CASE("predict: what is no value of a key, or no key, is refused with its place") {
  struct row {
    std::string set, key;
  };
  const row rows[] = {
      {"predict.enabled=perhaps", "predict.enabled"},
      {"predict.enabled=1", "predict.enabled"},
      {"predict.suspect_percent=-1", "predict.suspect_percent"},
      {"predict.suspect_percent=1001", "predict.suspect_percent"},
      {"predict.suspect_percent=2.5", "predict.suspect_percent"},
      {"predict.quiet_steps=7", "predict.quiet_steps"},
      {"predict.quiet_steps=1001", "predict.quiet_steps"},
      {"predict.quiet_steps=many", "predict.quiet_steps"},
      {"predict.suspects=3", "predict.suspects"},
      {"predict.probe=slow", "predict.probe"},
      {"predict.memory=15", "predict.memory"},
      {"predict.memory=513", "predict.memory"},
  };
  const scratch folder;
  std::ofstream(folder / "job.toml") << predicted_job_text;
  for (const auto& r : rows) {
    CAPTURE(r.set);
    const auto problems = config::read({(folder / "job.toml").string(), {}, {r.set}}).problems;
    REQUIRE_FALSE(problems.empty());
    CHECK(problems[0].key == r.key);
    CHECK(problems[0].code == errc::bad_config);
  }
  const auto number = config::parse(predicted_job_text + "[predict]\nstore = 7\n", "text");
  REQUIRE_FALSE(number);
  CHECK(number.error().code == errc::bad_config);
}
