// What a worker's stats say while its device works.
#include "actors/train/probe.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::train;

namespace {

struct probed {
  actor_registry registry;
  std::shared_ptr<actor_stats> stats = registry.add(0);
  recorder records;
  stats_probe probe{*stats, records, grid_rank{{2, 1, 1}, 0}};

  uint64_t begin(pipeline_op kind, int number = 0) { return probe.begin(of(kind, number)); }
  void end(pipeline_op kind, uint64_t token = 0) { probe.end(of(kind, 0), token, 1, 2); }
  std::string state() const { return stats->view().state; }
  int64_t since() const { return stats->view().since_ns; }

 private:
  static engine_probe::operation of(pipeline_op kind, int number) { return {kind, number}; }
};

}  // namespace

TEST_CASE("PRB-1: a checkpoint's copies that end hide nothing of what the device computes") {
  probed p;
  p.begin(pipeline_op::capture);
  CHECK(p.state() == "capture");
  p.begin(pipeline_op::forward, 3);
  CHECK(p.state() == "forward");
  const auto since = p.since();
  p.end(pipeline_op::capture);
  CHECK(p.state() == "forward");
  CHECK(p.since() == since);
  CHECK(p.stats->view().values.worker->number == 3);
  p.begin(pipeline_op::capture, 7);
  CHECK(p.state() == "forward");
  CHECK(p.stats->view().values.worker->number == 3);
  p.end(pipeline_op::capture);
  p.end(pipeline_op::forward);
  CHECK(p.state() == "ready");
  CHECK(p.stats->view().values.worker->operations == 3);
}

TEST_CASE("PRB-1: copies that begin beside a computation are not shown behind it") {
  probed p;
  p.begin(pipeline_op::backward);
  p.begin(pipeline_op::capture);
  CHECK(p.state() == "backward");
  p.end(pipeline_op::backward);
  CHECK(p.state() == "ready");
  p.end(pipeline_op::capture);
  CHECK(p.state() == "ready");
}

TEST_CASE("probe: whom a transfer waits for is told beside what the device computes") {
  probed p;
  p.begin(pipeline_op::backward);
  const auto token = p.begin(pipeline_op::reduce_scatter, 2);
  CHECK(p.state() == "backward");
  const auto waits = p.stats->view().waits;
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].whom == "worker/1");
  CHECK(waits[0].what == "reduce_scatter 2");
  p.end(pipeline_op::reduce_scatter, token);
  CHECK(p.stats->view().waits.empty());
  CHECK(p.state() == "backward");
}
