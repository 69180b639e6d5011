// What a worker's stats say while its device works.
#include "actors/train/probe.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <map>
#include <set>
#include <string>
#include <vector>

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

TEST_CASE(
    "probe: a sum over stages waits for all of the replica, one of a tied table for the other "
    "end") {
  actor_registry registry;
  const auto stats = registry.add(0);
  recorder records;
  stats_probe p{*stats, records, grid_rank{{2, 1, 3}, 4}};  // the last stage of the first replica
  const auto peers_in = [&](pipeline_op kind) {
    const auto token = p.begin({kind, 1});
    std::set<std::string> out;
    for (const auto& wait : stats->view().waits) out.insert(wait.whom);
    p.end({kind, 1}, token, 1, 2);
    return out;
  };
  CHECK(peers_in(pipeline_op::all_reduce_stages) == std::set<std::string>{"worker/0", "worker/2"});
  CHECK(peers_in(pipeline_op::all_reduce_tied) == std::set<std::string>{"worker/0"});
  CHECK(peers_in(pipeline_op::all_reduce) == std::set<std::string>{"worker/5"});
}

TEST_CASE("PRB-2: what moves to and from a drive is the swapper's, and so is a wait for it") {
  actor_registry registry;
  const auto stats = registry.add(0), swapper = registry.add(0);
  swapper->set_path("swapper/0");
  recorder records;
  stats_probe p{*stats, records, grid_rank{{1, 1, 1}, 0}, swapper};
  const auto swap = [&] { return *swapper->view().values.swapper; };
  const engine_probe::operation read{pipeline_op::read_state, 17, 300};
  const engine_probe::operation written{pipeline_op::write_chunk, 18, 500};
  const engine_probe::operation weights{pipeline_op::read_weights, 4, 40};

  p.begin({pipeline_op::backward, 2});
  const auto token = p.begin(read);
  CHECK(stats->view().state == "backward");
  CHECK(swapper->view().state == "read");
  CHECK(swap().read_chunk == 17);
  const auto other = p.begin(written);
  CHECK(swapper->view().state == "write");
  CHECK(swap().write_chunk == 18);
  p.end(written, other, 1, 2);
  CHECK(swapper->view().state == "read");
  CHECK(swap().write_chunk == -1);
  CHECK(swap().written_bytes == 500);
  p.end(read, token, 1, 2);
  CHECK(swapper->view().state == "ready");
  CHECK(swap().read_bytes == 300);
  CHECK(stats->view().state == "backward");

  const auto what_waits = [&](int64_t chunk) {
    p.waits(pipeline_op::await_weights, chunk, 64);
    CHECK(stats->view().state == "await_weights");
    const auto waits = stats->view().waits;
    REQUIRE(waits.size() == 1);
    CHECK(waits[0].whom == "swapper/0");
    p.goes_on();
    CHECK(stats->view().waits.empty());
    CHECK(stats->view().state == "backward");
    return waits[0].what;
  };
  CHECK(what_waits(4) == "chunk 4 (not begun, 64 operations under way)");
  p.begin(weights);
  CHECK(what_waits(4) == "chunk 4 (read, 64 operations under way)");
  p.begin({pipeline_op::write_chunk, 4, 500});
  CHECK(what_waits(4) == "chunk 4 (write, 64 operations under way)");  // its read is behind that
  p.waits(pipeline_op::await_copies);
  CHECK(stats->view().waits.empty());
}

TEST_CASE(
    "PRB-2: activations on their way are shown by their layer's chunk, apart from its state") {
  actor_registry registry;
  const auto stats = registry.add(0), swapper = registry.add(0);
  swapper->set_path("swapper/0");
  recorder records;
  stats_probe p{*stats, records, grid_rank{{1, 1, 1}, 0}, swapper};
  const auto swap = [&] { return *swapper->view().values.swapper; };
  p.begin({pipeline_op::write_chunk, 4, 500});
  const engine_probe::operation spilt{pipeline_op::write_activation, 5, 70};
  const engine_probe::operation fetched{pipeline_op::read_activation, 6, 70};
  const auto before = swap();
  const auto out = p.begin(spilt), in = p.begin(fetched);
  CHECK(swap().spill_chunk == 5);
  CHECK(swap().fetch_chunk == 6);
  const auto waits_for = [&](pipeline_op what, int64_t chunk) {
    p.waits(what, chunk, 3);
    const auto waits = stats->view().waits;
    REQUIRE(waits.size() == 1);
    p.goes_on();
    return waits[0].what;
  };
  CHECK(waits_for(pipeline_op::await_activations, 5) ==
        "the activations of chunk 5 (write, 3 operations under way)");
  CHECK(waits_for(pipeline_op::await_activations, 6) ==
        "the activations of chunk 6 (read, 3 operations under way)");
  CHECK(waits_for(pipeline_op::await_activations, 4) ==  // whose state is written still
        "the activations of chunk 4 (not begun, 3 operations under way)");
  CHECK(waits_for(pipeline_op::await_weights, 6) == "chunk 6 (not begun, 3 operations under way)");
  p.end(spilt, out, 1, 2);
  p.end(fetched, in, 1, 2);
  CHECK(swap().spill_chunk == -1);
  CHECK(swap().written_bytes == before.written_bytes + 70);
  CHECK(swap().read_bytes == before.read_bytes + 70);
}

TEST_CASE("PRB-3: bytes so far, and what is at them, are counters of the swapper") {
  actor_registry registry;
  const auto stats = registry.add(0), swapper = registry.add(0);
  recorder records;
  record_reader reader(records, true);
  reader.read(1);
  stats_probe p{*stats, records, grid_rank{{1, 1, 1}, 0}, swapper};
  const engine_probe::operation read{pipeline_op::read_state, 17, 3'000'000};
  const engine_probe::operation update{pipeline_op::update_chunk, 17};
  const engine_probe::operation written{pipeline_op::write_chunk, 18, 5'000'000};
  const engine_probe::operation weights{pipeline_op::read_weights, 4, 1'000'000};
  for (const auto& op : {read, update, written, weights}) p.begin(op);
  p.end(weights, 0, 1, 2);
  p.end(written, 0, 1, 2);
  p.end(read, 0, 1, 2);
  p.begin(read);
  p.end(read, 0, 2, 3);
  p.end(update, 0, 1, 3);
  p.end({pipeline_op::write_activation, 4, 500'000}, p.begin({pipeline_op::write_activation, 4}), 1,
        2);
  std::map<std::string, std::vector<double>> counted;
  const auto names = work_names();
  for (const auto& r : reader.read(100'000))
    if (r.kind == record_kind::counter) {
      counted[names.at(r.type - 1)].push_back(std::bit_cast<double>(r.sender));
      CHECK(r.actor == swapper->number());
    }
  using values = std::vector<double>;
  CHECK(counted["read MB"] == values{1, 4, 7});
  CHECK(counted["written MB"] == values{5, 5.5});
  CHECK(counted["frames being filled"] == values{1, 0});
  CHECK(counted["slots at work"] == values{1, 2, 3, 2, 1, 2, 1, 0});
}
