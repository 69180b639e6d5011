// What a person sees of the data being read: a long tokenising tells how far it is, once.
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

TEST_CASE("data: a long tokenising tells of its progress, the next start finds it done") {
  job_files job;
  fs::create_directories(job / "corpus");
  const std::string line = "all work and no play makes a long text of which nobody reads a word\n";
  std::string text;
  while (text.size() < 1 << 20) text += line;
  for (int i = 0; i < 24; ++i) std::ofstream(job / fmt::format("corpus/{:02}.txt", i)) << text;
  const auto sets = with(layout(2, 1), {"data.path=" + (job / "corpus").string(), "train.steps=2",
                                        "checkpoint.resume=never"});
  const auto first = run(job.up(sets));
  INFO(first.err);
  CHECK(first.code == 0);
  CHECK(first.err.find("tokenising: ") != std::string::npos);
  CHECK(first.err.find(" % of 24.0 MiB") != std::string::npos);
  CHECK(first.out.find("tokenising") == std::string::npos);
  const auto second = run(job.up(sets));
  CHECK(second.code == 0);
  CHECK(second.err.find("tokenising: ") == std::string::npos);
}
