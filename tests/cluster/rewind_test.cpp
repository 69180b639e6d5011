// A run that a person, or its loss, has go back: the data that is passed over is as if it had never
// been there, bit by bit.
#include <signal.h>

#include <fstream>
#include <iterator>

#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;

namespace {

/// Four rows of 32 bytes a step, in the order of the text.
constexpr size_t rewind_step_bytes = 128;

const std::vector<std::string> rewinds{"recovery.enabled=true",   "checkpoint.every=4",
                                       "train.schedule=constant", "train.warmup_steps=0",
                                       "data.shuffle=false",      "data.validation_fraction=0"};

std::string text_of_job(const job_files& job) {
  std::ifstream in(job / "data.txt");
  return {std::istreambuf_iterator<char>(in), {}};
}

void put_text(const job_files& job, const std::string& text) {
  std::ofstream(job / "data.txt", std::ios::trunc) << text;
}

std::string say_to(const program& up, const std::string& line) {
  const auto to = fmt::format("127.0.0.1:{}", up.port());
  const auto said = run({"console", "--yes", "--connect", to, "-c", line});
  INFO(said.err);
  CHECK(said.code == 0);
  return said.out;
}

void rewinds_and_skips(const std::vector<std::string>& ranks) {
  job_files job, without;
  auto text = text_of_job(job);
  const size_t first = 4 * rewind_step_bytes, end = 6 * rewind_step_bytes;
  text[end] = text[first];  // the last target of step 4 is the same in both
  put_text(job, text);
  put_text(without, text.substr(0, first) + text.substr(end));
  const auto sets = with(rewinds, ranks);
  const auto truth = without.losses(with(sets, {"train.steps=40"}));
  REQUIRE(truth.size() == 40);

  program up(job.up(with(sets, {"train.steps=1000000"})));
  REQUIRE(up.until_step(7));
  REQUIRE(until_saved(up, 4));  // which may take longer than the steps behind it
  const auto answer = say_to(up, "rewind 4 skip 2");
  CHECK(answer.find("to the newest checkpoint of step 4 or before") != std::string::npos);
  REQUIRE(up.until([&] {
    const auto steps = up.objects("step");
    return !steps.empty() && steps.back()["epoch"] == 2 && steps.back()["step"] >= 40;
  }));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  int again = 0;
  for (const auto& step : up.objects("step")) {
    const size_t number = step["step"];
    if (number > 40 || (step["epoch"] == 1 && number > 4)) continue;
    CHECK(step["loss"].get<double>() == truth[number - 1]);
    again += step["epoch"] == 2 ? 1 : 0;
  }
  CHECK(again == 36);
  const auto incident = only_object_in(job / "run/incidents.jsonl");
  CHECK(incident["finding"] == "rewound");
  CHECK(incident["resumed_after_step"] == 4);
}

}  // namespace

TEST_CASE("rewind: replicas go back, and what is passed over might never have been in the data") {
  rewinds_and_skips(layout(2, 1));
}

TEST_CASE("rewind: so does a pipeline") {
  rewinds_and_skips(layout(1, 2));
}

TEST_CASE("rewind: a loss that is no number has the run go back, until the budget is used up") {
  job_files job;
  program up(job.up(with(with(rewinds, layout(2, 1)),
                         {"train.steps=1000000", "recovery.on_spike=rewind_skip",
                          "recovery.spike_steps_back=0", "recovery.most_per_hour=1",
                          "checkpoint.every=1", "train.clip_norm=0", "train.beta2=0"})));
  CHECK(up.wait() == 1);
  INFO(up.err());
  CHECK(up.err().find("passing over the data of") != std::string::npos);
  CHECK(up.err().find("does not go back again") != std::string::npos);
  CHECK(up.err().find("recovered in") != std::string::npos);
}
