// A run over several [[data.source]] that is stopped goes on where it was in each of them, whatever
// layout it goes on in (LDR-1): the losses are those of a run that nobody stopped.
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

constexpr int all_steps = 12, stopped_after = 5;

/// A text, and records of words that it does not have; three windows of the one for each of the
/// other.
struct mixed_job {
  job_files files;
  std::vector<std::string> sets;
  std::string text, records;

  mixed_job() {
    std::ofstream out(files / "code.jsonl");
    for (int i = 0; i < 300; ++i)
      out << nlohmann::json{{"body", fmt::format("IF {} THEN GOTO {};\n", i * 37 % 101, i % 7)}}
          << "\n";
    text = fmt::format(R"({{path="{}",weight=3}})", (files / "data.txt").string());
    records = fmt::format(R"({{path="{}",name="code",text_field="body"}})",
                          (files / "code.jsonl").string());
    sets = {"train.schedule=constant", "data.source=[" + text + "," + records + "]"};
  }
  std::vector<double> losses(const std::string& run, const std::vector<std::string>& more) const {
    return files.losses(with(with(sets, {"job.output=" + (files / run).string()}), more));
  }
};

std::string to_step(int step) {
  return fmt::format("train.steps={}", step);
}

}  // namespace

TEST_CASE("mixing: a stopped run of two sources goes on where it was, in any layout") {
  const mixed_job job;
  const auto whole = job.losses("whole", with(layout(2, 1), {to_step(all_steps)}));
  REQUIRE(whole.size() == all_steps);
  // Both sources are trained on.
  int sources = 0;
  for (const auto& one : {job.text, job.records}) {
    const auto alone =
        job.losses(fmt::format("alone-{}", ++sources),
                   with(layout(2, 1), {"data.source=[" + one + "]", to_step(all_steps)}));
    CHECK(difference(alone, whole) > 1e-3);
  }
  const auto before = job.losses("cut", with(layout(2, 1), {to_step(stopped_after)}));
  CHECK(before == std::vector<double>(whole.begin(), whole.begin() + stopped_after));
  const std::vector<double> rest(whole.begin() + stopped_after, whole.end());
  const auto from = "checkpoint.resume=" + job.files.checkpoint(stopped_after, "cut").string();
  CHECK(job.losses("same", with(layout(2, 1), {to_step(all_steps), from})) == rest);
  for (const auto& [data, pipeline] : {std::pair{1, 1}, {1, 2}, {2, 2}, {4, 1}}) {
    CAPTURE(data);
    CAPTURE(pipeline);
    const auto name = fmt::format("other-{}-{}", data, pipeline);
    const auto other = job.losses(name, with(layout(data, pipeline), {to_step(all_steps), from}));
    REQUIRE(other.size() == rest.size());
    CHECK(difference(other, rest) < 1e-5);
  }
}
