// Numbers of replicas that a batch can be shared by, and the plans of them, by table.
#include "actors/job/replicas_policy.hpp"

#include <doctest/doctest.h>

#include "io/config/load.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

job_plan plan_for_replicas(const std::string& rest) {
  auto job = config::parse(
      "[model]\nlayers = 4\nheads = 4\nhidden = 64\nvocab = 300\n[data]\npath = \"x.txt\"\n" + rest,
      "test");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  auto plan = make_plan(*job);
  REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
  return *plan;
}

using counts = std::vector<int64_t>;

}  // namespace

TEST_CASE("FEW-1: replicas: those numbers that divide the batch into the same micro-batches") {
  struct row {
    const char* what;
    int64_t data, batch, micro_batch;
    counts then;
  };
  const row rows[] = {
      {"one has nothing below it", 1, 8, 8, {1}},
      {"two", 2, 8, 4, {2, 1}},
      {"three", 3, 12, 4, {3, 1}},
      {"three, smaller micro-batches", 3, 12, 1, {3, 2, 1}},
      {"eight", 8, 48, 2, {8, 6, 4, 3, 2, 1}},
      {"five rows each", 6, 30, 5, {6, 3, 2, 1}},
      {"the batch is of no other number", 7, 7, 1, {7, 1}},
  };
  for (const auto& r : rows) {
    CAPTURE(r.what);
    config::job job;
    job.parallel.data = r.data;
    job.train.batch = r.batch;
    job.train.micro_batch = r.micro_batch;
    CHECK(replica_counts(job) == r.then);
  }
}

TEST_CASE("FEW-2: replicas: places are used from the first on, the last one maybe in part") {
  struct row {
    const char* what;
    std::vector<int64_t> workers;
    int64_t pipeline, replicas;
    size_t places;
  };
  const row rows[] = {
      {"a worker each", {1, 1, 1, 1}, 1, 3, 3},
      {"two stages", {1, 1, 1, 1}, 2, 1, 2},
      {"two workers each", {2, 2, 2}, 1, 3, 2},
      {"a stage on each of two workers", {2, 2, 2}, 2, 2, 2},
      {"all", {2, 2, 2}, 1, 6, 3},
      {"unequal ones", {4, 1, 1}, 1, 5, 2},
  };
  for (const auto& r : rows) {
    CAPTURE(r.what);
    config::job job;
    for (const auto n : r.workers) job.cluster.node.push_back({"", "", n});
    job.cluster.node.push_back({"", "", 9, true});  // a spare has no place
    job.parallel.pipeline = r.pipeline;
    CHECK(places_for(job, r.replicas) == r.places);
  }
}

TEST_CASE("FEW-1: replicas: a smaller plan is a whole job of its own, with the same steps") {
  const auto whole = plan_for_replicas(
      "[cluster]\nnodes = 3\nspares = 1\nworkers_per_node = 2\n[parallel]\ndata = 3\npipeline = 2\n"
      "[train]\nbatch = 24\nmicro_batch = 2\n[[inject]]\nwho = \"node2\"\nwhat = \"fail\"\n"
      "from_step = 3\n");
  for (const int64_t n : {1, 2}) {
    CAPTURE(n);
    const auto less = with_replicas(whole, n);
    REQUIRE(less);
    const auto& job = less->job;
    CHECK(job.grid() == rank_grid(static_cast<int>(n), 1, 2));
    CHECK(job.tokens_per_step() == whole.job.tokens_per_step());
    CHECK(job.train.micro_batch == whole.job.train.micro_batch);
    CHECK(less->micro_batches == 24 / n / 2);
    CHECK(std::ssize(less->ranks) == 2 * n);
    CHECK(job.workers() == 2 * n);
    for (const auto& r : less->ranks) {
      CHECK(r.at.grid == job.grid());
      CHECK(r.node == r.at.rank / 2);
      const auto stage = static_cast<size_t>(r.at.place().pipeline) * 3;
      CHECK(r.layers == whole.ranks[stage].layers);
    }
    // As every process reads it.
    const auto sent = config::parse(config::to_toml(job), "sent");
    REQUIRE_MESSAGE(sent, (sent ? "" : render(sent.error())));
    CHECK(*sent == job);
  }
}

TEST_CASE("FEW-2: replicas: a place that is used in part gives its other workers no ranks") {
  const auto whole = plan_for_replicas(
      "[cluster]\nnodes = 2\nworkers_per_node = 2\n[train]\nbatch = 12\nmicro_batch = 1\n");
  const auto less = with_replicas(whole, 3);
  REQUIRE(less);
  CHECK(less->job.workers() == 3);
  CHECK(less->ranks[2].node == 1);
  CHECK(config::parse(config::to_toml(less->job), "sent"));
}

TEST_CASE("FEW-3: replicas: with all of them it is the job that it was, drills and spares too") {
  const auto whole = plan_for_replicas(
      "[cluster]\nnodes = 2\nspares = 1\n[train]\nbatch = 4\n[[inject]]\nwho = \"rank 1\"\n"
      "what = \"fail\"\nfrom_step = 3\n");
  const auto same = with_replicas(whole, 2);
  REQUIRE(same);
  CHECK(same->job == whole.job);
  CHECK(same->ranks.size() == 2);
}
