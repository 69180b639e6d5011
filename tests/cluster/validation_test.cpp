// Validation measures the same held-out tokens every time, in every layout, however far one stage
// runs ahead of another: a learning rate that changes nothing must leave its loss as it is.
#include <csignal>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

/// Of the steps that have one.
std::vector<double> validations(const job_files& job, const std::vector<std::string>& sets) {
  program p(job.up(sets));
  const int code = p.wait();
  INFO(p.err());
  REQUIRE(code == 0);
  std::vector<double> out;
  for (const auto& step : p.objects("step"))
    if (step.contains("validation_loss")) out.push_back(step["validation_loss"].get<double>());
  CHECK(p.objects("step").back().contains("validation_loss"));  // JOB-21
  CHECK(p.objects("summary").at(0)["validation_loss"] == out.back());
  return out;
}

}  // namespace

TEST_CASE("validation: the same loss every time and in every layout while nothing is learned") {
  job_files job;
  const std::vector<std::string> still{"checkpoint.resume=never",      "train.lr=1e-30",
                                       "train.warmup_steps=0",         "train.steps=6",
                                       "train.validate_every=1",       "train.validate_batches=7",
                                       "data.validation_fraction=0.3", "train.micro_batch=1"};
  const auto alone = validations(job, with(still, {"train.validate_every=4"}));
  REQUIRE(alone.size() == 2);  // of step 4, and of the last one
  for (auto [data, pipeline] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    CAPTURE(data);
    CAPTURE(pipeline);
    const auto losses = validations(job, with(still, layout(data, pipeline)));
    REQUIRE(losses.size() == 6);
    for (double loss : losses) CHECK(loss == losses.front());
    CHECK(losses.front() == doctest::Approx(alone.front()).epsilon(1e-9));
  }
}

TEST_CASE(
    "validation: a stopped run's checkpoint has the loss of its state, whichever came first") {
  job_files job;
  program up(job.up(with(endless, {"train.validate_every=1000000", "train.validate_batches=7",
                                   "data.validation_fraction=0.3"})));
  REQUIRE(up.until_step(3));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
  INFO(up.err());
  // Behind the line of its step, which was told before it was known (JOB-21).
  const auto told = up.objects("validation");
  REQUIRE(told.size() == 1);
  const auto last = told.back();
  CHECK(last["step"] == up.objects("step").back()["step"]);
  const auto saved = job.checkpoint(last["step"]).string();
  const auto shown = run({"ckpt", "show", saved, "--json"});
  REQUIRE(shown.code == 0);
  const auto loss = nlohmann::json::parse(shown.out)["validation_loss"];
  REQUIRE(loss.is_number());
  CHECK(loss.get<double>() == doctest::Approx(last["validation_loss"].get<double>()).epsilon(1e-4));
  CHECK(run({"ckpt", "verify", saved}).code == 0);
}
