// Layers by what nodes measure (parallel.placement), whatever that is on the machine of the test:
// the same bits as with these layers by hand, and the run that goes on keeps them.
#include <regex>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

/// The layers that a start tells of, "2,2"; empty: none were measured.
std::string settled_layers(const std::string& said) {
  std::smatch found;
  const std::regex line("the stages have ([0-9,]+) layers as (measured|planned)");
  return std::regex_search(said, found, line) ? found[1].str() : std::string();
}

}  // namespace

TEST_CASE("measured layers: a run is that of the same layers by hand, and going on keeps them") {
  const auto stages = with({"model.layers=4", "train.schedule=constant"}, layout(1, 2));
  const auto measured = with(stages, {"parallel.placement=measured"});
  job_files job, by_hand;
  program first(job.up(with(measured, {"train.steps=4"})));
  CHECK(first.wait() == 0);
  INFO(first.err());
  const auto layers = settled_layers(first.err());
  REQUIRE_FALSE(layers.empty());
  std::vector<std::string> logged;
  for (const auto& line : objects_in(job / "run/log.jsonl"))
    if (line["type"] == "layers") logged.push_back(line["layers"].get<std::string>());
  CHECK(logged == std::vector{layers});
  const auto all = by_hand.losses(with(stages, {"parallel.layers=" + layers, "train.steps=6"}));
  REQUIRE(all.size() == 6);
  CHECK(first.losses() == std::vector<double>(all.begin(), all.begin() + 4));
  program next(job.up(with(measured, {"train.steps=6"})));
  CHECK(next.wait() == 0);
  INFO(next.err());
  CHECK(settled_layers(next.err()).empty());
  CHECK(next.losses() == std::vector<double>(all.begin() + 4, all.end()));
}

TEST_CASE("measured layers: a run goes by what steps of an earlier one took, and nobody measures") {
  const auto stages = with({"model.layers=4", "train.schedule=constant"}, layout(1, 2));
  job_files job;
  program first(
      job.up(with(stages, {"parallel.layers=2,2", "train.steps=60", "checkpoint.every=0"})));
  CHECK(first.wait() == 0);
  program next(job.up(with(stages, {"parallel.placement=measured", "train.steps=2",
                                    "predict.store=" + (job / "run/part-times.jsonl").string(),
                                    "job.output=" + (job / "second").string()})));
  CHECK(next.wait() == 0);
  INFO(next.err());
  CHECK_FALSE(settled_layers(next.err()).empty());
  CHECK(next.err().find("steps of 1 run on these nodes") != std::string::npos);
  CHECK(next.err().find("measures a layer") == std::string::npos);
}

TEST_CASE("measured layers: of one stage there is nothing to measure, and that is said") {
  job_files job;
  const auto f = run(job.up({"parallel.placement=measured", "train.steps=2"}));
  INFO(f.err);
  CHECK(f.code == 0);
  CHECK(f.err.find("there is one stage, which has all layers") != std::string::npos);
  CHECK(settled_layers(f.err).empty());
}

TEST_CASE("parallel.nodes: a run that goes on has its nodes in the same order, and equal bits") {
  const auto stages = with({"model.layers=4", "train.schedule=constant"}, layout(1, 2));
  const auto ordered = with(stages, {"parallel.layers=3,1", "parallel.nodes=node1,node0"});
  job_files job, whole;
  const auto all = whole.losses(with(stages, {"parallel.layers=3,1", "train.steps=6"}));
  REQUIRE(all.size() == 6);
  CHECK(job.losses(with(ordered, {"train.steps=4"})) ==
        std::vector<double>(all.begin(), all.begin() + 4));
  program next(job.up(with(stages, {"parallel.placement=measured", "train.steps=6"})));
  CHECK(next.wait() == 0);
  INFO(next.err());
  CHECK(next.err().find("nodes keep the order that they had in step 4") != std::string::npos);
  CHECK(settled_layers(next.err()).empty());
  CHECK(next.losses() == std::vector<double>(all.begin() + 4, all.end()));
}
