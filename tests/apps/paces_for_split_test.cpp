// What a head knows of its nodes' earlier runs before it starts them: the store's, where the layers
// are to be split, and nothing of a file that is damaged or somebody else's.
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/job/plan.hpp"
#include "apps/up/probed_nodes.hpp"
#include "io/perf/part_times.hpp"
#include "tests/actors/predict/kept_paces.hpp"
#include "tests/apps/plan_of_text.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;

namespace {

/// A job of two stages whose output has what two nodes took in four runs.
struct job_with_store {
  scratch folder;
  std::filesystem::path store = folder / "part-times.jsonl";

  job_with_store() {
    const auto plan = plan_with({});
    const auto machine = io::perf::print_of({"Xeon", 8, uint64_t{1} << 30});
    std::vector<predict::test::kept_rank> ranks;
    for (uint64_t run = 1; run <= 4; ++run) {
      ranks.push_back({"node0", machine, 2e9, 4, false, 1, run});
      ranks.push_back({"node1", machine, 1e9, 4, true, 1, run});
    }
    REQUIRE(io::perf::add_part_times(store, predict::test::kept_of(ranks, plan.job, plan.model)));
  }
  train::job_plan plan_with(std::vector<std::string> sets) const {
    sets.push_back("job.output=" + folder.path.string());
    return plan_of_text(
        "[cluster]\nnodes = 2\nthreads = 1\n[model]\nlayers = 8\nheads = 4\nhidden = 64\n"
        "vocab = 256\n[data]\npath = \"x.txt\"\n[parallel]\npipeline = 2\n"
        "placement = \"measured\"\n"
        "[train]\nsteps = 100\nbatch = 8\nmicro_batch = 2\nseq_len = 32\n",
        sets);
  }
  std::vector<io::perf::past_pace> paces(const std::vector<std::string>& sets = {}) const {
    return apps::paces_for_split(plan_with(sets));
  }
  std::string text() const {
    std::ifstream in(store);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& text) const { std::ofstream(store, std::ios::trunc) << text; }
};

}  // namespace

TEST_CASE("paces for the split: a head knows how quick nodes were in earlier runs") {
  const job_with_store job;
  const auto paces = job.paces();
  REQUIRE(paces.size() == 2);
  for (const auto& p : paces) {
    CHECK(p.flops_s == doctest::Approx(p.node == "node0" ? 2e9 : 1e9));
    CHECK(p.runs == 4);
    CHECK(p.steps == 256);
  }
}

TEST_CASE("paces for the split: it reads nothing where layers are settled or nobody predicts") {
  const job_with_store job;
  CHECK(job.paces({"parallel.placement=even"}).empty());
  CHECK(job.paces({"parallel.placement=even", "parallel.layers=5,3"}).empty());
  CHECK(job.paces({"predict.enabled=false"}).empty());
  CHECK(job.paces({"model.hidden=128"}).empty());  // other work
}

TEST_CASE("paces for the split: a damaged line is left out, and a file of others is no store") {
  const job_with_store job;
  const auto text = job.text();
  auto damaged = text;
  for (size_t at = damaged.find("\"seconds\""); at != std::string::npos;
       at = damaged.find("\"seconds\"", at + 1))
    damaged[at + 2] = 'X';
  REQUIRE(damaged != text);
  job.put(damaged);
  CHECK(job.paces().empty());
  job.put("what somebody else wrote\n");
  CHECK(job.paces().empty());
  job.put(text.substr(0, text.size() / 2));  // cut off in the middle
  CHECK(job.paces().size() == 2);
  std::filesystem::remove(job.store);
  CHECK(job.paces().empty());
}
