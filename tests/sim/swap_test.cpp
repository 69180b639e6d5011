// Clusters whose ranks swap, on virtual time: their drives, what befalls those, and what holds all
// the same.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/sim/environment.hpp"
#include "actors/sim/fuzz.hpp"
#include "messages/message_list.hpp"
#include "messages/step_parts.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr int64_t of_ms = 1'000'000;

simulation_options swapped() {
  simulation_options o;
  o.swap.layers = 8;
  return o;
}

simulation_outcome run_swapped(const simulation_options& o) {
  auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
  return std::move(*done);
}

void succeeds(const simulation_outcome& done) {
  CHECK(done.ends == std::vector<std::string>{"success"});
  CHECK(done.launches == 1);
}

/// What the random numbers of a fault choose: node0, and whether a write or a read of its drive.
constexpr uint64_t of_write = 16, of_read = 0;

/// A drive that steps wait for.
simulation_options spilling() {
  auto o = swapped();
  o.swap.spill_layers = 4;
  o.swap.read_bytes_per_s = o.swap.write_bytes_per_s = 2e6;
  return o;
}

/// Runs with an error of the drive, a little later each time, until one is as it is to be.
template <class F>
simulation_outcome with_error(simulation_options o, uint64_t of_what, F is_it) {
  for (int64_t at_ms = 5'000; at_ms < 10'000; at_ms += 37) {
    o.faults = {{fault_kind::disk_error, at_ms * of_ms, 0, of_what}};
    auto done = run_swapped(o);
    if (is_it(done)) return done;
  }
  FAIL("no error does that");
  return {};
}

/// With a write of what is counted there that fails; from then on the drive has no room, for so
/// long.
simulation_options with_unwritten(simulation_options o, uint64_t swap_counts::*moved,
                                  int64_t full_ms) {
  for (int64_t at_ms = 5'000; at_ms < 10'000; at_ms += 37) {
    o.faults.clear();
    if (full_ms > 0) o.faults.push_back({fault_kind::full_disk, at_ms * of_ms, full_ms * of_ms, 0});
    o.faults.push_back({fault_kind::disk_error, at_ms * of_ms, 0, of_write});
    if (run_swapped(o).swaps.*moved > 0) return o;
  }
  FAIL("no such write fails");
  return o;
}

bool ends_with(const simulation_outcome& done, const char* text) {
  return done.ends.size() == 1 && done.ends.front().find(text) != std::string::npos;
}

/// A write of what is counted there fails: it goes into another file, and no launch ends.
void costs_nothing(simulation_options o, uint64_t swap_counts::*moved) {
  o.steps = 20;
  const auto failed = run_swapped(with_unwritten(o, moved, 0));
  succeeds(failed);
  CHECK(failed.steps == 20);
  CHECK(failed.recoveries.empty());
  CHECK(failed.swaps.*moved == 1);
  CHECK(failed.swaps.moved == 0);
  CHECK(failed.swaps.waited == 0);
  o.faults.clear();
  CHECK(failed.losses == run_swapped(o).losses);
}

/// And waits for room for longer than a step may take, but not for longer than it is told to.
void waits_for_room(simulation_options o, uint64_t swap_counts::*moved) {
  o.swap.step_s = 20;
  o.steps = 20;
  o = with_unwritten(o, moved, 60'000);
  const auto waits = run_swapped(o);
  succeeds(waits);
  CHECK(waits.swaps.waited == 1);
  CHECK(waits.swaps.*moved == 1);
  CHECK(waits.virtual_ns > 60'000 * of_ms);
  o.swap.patience_s = 30;  // what waits for longer ends, as nobody has promised otherwise
  const auto done = simulate(o);
  REQUIRE(done);
  REQUIRE(done->violation);
  CHECK(done->violation->find("No space left on device") != std::string::npos);
  CHECK(done->swaps.*moved == 0);
}

world_options two_hosts() {
  world_options o;
  o.nodes = 2;
  return o;
}

train::swap_request request_of(int rank) {
  train::swap_request out;
  out.dirs = {"/swap"};
  out.rank = rank;
  return out;
}

}  // namespace

TEST_CASE("SIM-26: swap: a run does every step, and its checkpoints take files where they can") {
  for (const bool links : {true, false}) {
    auto o = swapped();
    o.swap.links = links;
    o.validate_every = 3;
    const auto done = run_swapped(o);
    succeeds(done);
    CHECK(done.steps == 10);
    CHECK(done.swaps.operations > 200);
    CHECK((done.swaps.kept > 0) == links);
    CHECK(run_swapped(o).fingerprint == done.fingerprint);  // WLD-1
  }
}

TEST_CASE("SIM-26: swap: every way to clip, by layer and not, in stages and replicas") {
  using config::clip_way;
  for (const auto clip :
       {clip_way::automatic, clip_way::hold, clip_way::twice, clip_way::speculate})
    for (const bool by_layer : {false, true}) {
      auto o = swapped();
      o.nodes = 1;
      o.steps = 20;
      o.swap.clip = clip;
      o.swap.by_layer = by_layer;
      const auto done = run_swapped(o);
      succeeds(done);
      const bool may_be_dropped = clip == clip_way::automatic || clip == clip_way::speculate;
      CHECK((done.swaps.redone > 0) == (by_layer && may_be_dropped));
    }
  for (const auto clip : {clip_way::automatic, clip_way::hold, clip_way::twice})
    for (const bool by_layer : {false, true})
      for (const double norm : {0.0, 1.0})
        for (const double memory : {0.0, 0.7}) {
          auto o = swapped();
          o.nodes = 4;
          o.validate_every = 4;
          o.swap.clip = clip;
          o.swap.clip_norm = norm;
          o.swap.by_layer = by_layer;
          o.swap.memory = memory;
          succeeds(run_swapped(o));
        }
  for (const auto clip : {clip_way::automatic, clip_way::speculate})
    for (const bool lamb : {false, true}) {
      auto o = swapped();
      o.nodes = 4;
      o.steps = 60;  // in some of which two draws of chance make one again
      o.validate_every = 4;
      o.swap.clip = clip;
      o.swap.by_layer = true;
      o.swap.memory = 0;
      o.swap.lamb = lamb;
      const auto done = run_swapped(o);
      succeeds(done);
      CAPTURE(static_cast<int>(clip));
      CAPTURE(lamb);
      CHECK(done.swaps.redone > 0);
      CHECK(done.swaps.redone % 4 == 0);  // a step is made again by all or by none
      CHECK(run_swapped(o).fingerprint == done.fingerprint);  // WLD-1
    }
  for (const int pipeline : {1, 2, 4})
    for (const bool lamb : {false, true}) {  // with it replicas share norms
      auto o = swapped();
      o.nodes = 4;
      o.pipeline = pipeline;
      o.swap.memory = 0.5;
      o.swap.lamb = lamb;
      succeeds(run_swapped(o));
    }
}

TEST_CASE("SIM-26: swap: a token table's rows of the next pass come before the rest of it") {
  using config::clip_way;
  auto o = swapped();
  o.nodes = 1;
  o.steps = 30;
  o.validate_every = 4;
  o.swap.by_layer = true;
  for (const auto clip : {clip_way::twice, clip_way::automatic}) {
    o.swap.clip = clip;
    const auto done = run_swapped(o);
    succeeds(done);
    CHECK(done.swaps.rows_first > 0);
    CHECK(done.swaps.rows_first < 30);  // not behind the last step, nor where they have no room
    CHECK(run_swapped(o).fingerprint == done.fingerprint);  // WLD-1
  }
  o.swap.clip = clip_way::twice;
  const auto none = [](const simulation_options& other) {
    const auto done = run_swapped(other);
    succeeds(done);
    CHECK(done.swaps.rows_first == 0);
  };
  auto held = o, measured = o, shared = o;
  held.swap.clip = clip_way::hold;
  none(held);
  measured.swap.lamb = true;
  none(measured);
  shared.nodes = 2;
  none(shared);  // the others' updates are needed as soon
}

TEST_CASE("SIM-26: swap: of several drives a checkpoint takes one's files and copies the others'") {
  auto o = swapped();
  o.swap.drives = 3;
  o.checkpoint_every = 2;
  const auto done = run_swapped(o);
  succeeds(done);
  CHECK(done.swaps.kept > 0);
}

TEST_CASE("SIM-26: swap: activations that layers spill come back, whatever a step does") {
  using config::clip_way;
  for (const auto clip : {clip_way::hold, clip_way::twice, clip_way::speculate})
    for (const bool by_layer : {false, true}) {
      auto o = spilling();
      o.nodes = 1;
      o.validate_every = 3;
      o.swap.clip = clip;
      o.swap.by_layer = by_layer;
      const auto done = run_swapped(o);
      succeeds(done);
      CHECK(done.swaps.spilled > 0);
      CHECK(done.swaps.activations_moved == 0);
      CHECK(run_swapped(o).fingerprint == done.fingerprint);  // WLD-1
    }
  for (const int pipeline : {1, 2, 4}) {
    auto o = spilling();
    o.nodes = 4;
    o.pipeline = pipeline;
    const auto done = run_swapped(o);
    succeeds(done);
    CHECK(done.swaps.spilled > 0);
    o.swap.spill_layers = 0;
    CHECK(run_swapped(o).swaps.spilled == 0);
  }
}

TEST_CASE("swap: what activations take of a step is told as its parts (STM-1)") {
  auto o = spilling();
  o.nodes = 1;
  o.checkpoint_every = 0;
  std::vector<train::step_part> last;
  o.sees = [&](const any_msg& m, int64_t) {
    if (m.type() != message_traits<fbs::StepDone>::id) return;
    const auto& done = *flatbuffers::GetRoot<fbs::StepDone>(m.payload().data());
    if (done.step() > 0) last = train::parts_of(done.parts());
  };
  succeeds(run_swapped(o));
  const auto part = [&](train::pipeline_op kind) {
    for (const auto& p : last)
      if (p.kind == kind) return p;
    return train::step_part{};
  };
  const auto written = part(train::pipeline_op::write_activation);
  const auto read = part(train::pipeline_op::read_activation);
  CHECK(written.busy_ms > 0);
  CHECK(read.busy_ms > 0);
  CHECK(read.work > 0);
  CHECK(2 * read.work == written.work);  // two of four layers are in their frames still
  CHECK(part(train::pipeline_op::await_activations).busy_ms > 0);
}

TEST_CASE("SIM-27: swap: a full drive has room for activations, one that reads none ends a rank") {
  auto o = spilling();
  o.swap.spill_layers = 8;
  o.steps = 20;
  o.faults = {{fault_kind::full_disk, 300 * of_ms, 5'000 * of_ms, 0}};
  const auto full = run_swapped(o);
  succeeds(full);
  CHECK(full.swaps.spilled > 0);
  CHECK(full.swaps.activations_moved == 0);
  const auto unread = with_error(
      o, of_read, [](const auto& done) { return ends_with(done, "read the activations"); });
  CHECK(unread.swaps.unread == 1);
}

TEST_CASE("SIM-27 SPR-3: swap: activations that a drive fails to write cost no launch") {
  auto o = spilling();
  o.swap.spill_layers = 8;
  costs_nothing(o, &swap_counts::activations_moved);
}

TEST_CASE("SIM-27 SPR-3: swap: activations wait for room for longer than a step may take") {
  auto o = spilling();
  o.swap.spill_layers = 8;
  waits_for_room(o, &swap_counts::activations_moved);
}

TEST_CASE("SIM-27 GRF-3: swap: a gradient that a drive fails to write costs no launch") {
  auto o = spilling();
  o.swap.spill_layers = 0;
  costs_nothing(o, &swap_counts::gradients_moved);
}

TEST_CASE("SIM-27 GRF-3: swap: a gradient waits for room for longer than a step may take") {
  auto o = spilling();
  o.swap.spill_layers = 0;
  waits_for_room(o, &swap_counts::gradients_moved);
}

TEST_CASE("SIM-33: swap: where a drive keeps less replicas compute again alike what they spilled") {
  for (const int nodes : {1, 2, 3}) {
    CAPTURE(nodes);
    auto o = spilling();
    o.nodes = nodes;
    o.steps = 40;
    o.checkpoint_every = 0;
    o.swap.spill_layers = 8;
    o.swap.read_bytes_per_s = o.swap.write_bytes_per_s = 4e6;
    o.swap.replans = true;
    const auto undisturbed = run_swapped(o);
    succeeds(undisturbed);
    CHECK(undisturbed.swaps.replanned == 0);
    o.faults = {{fault_kind::slow_disk, 5'000 * of_ms, 120'000 * of_ms, 0}};
    const auto slow = run_swapped(o);
    succeeds(slow);
    CHECK(slow.swaps.replanned > 0);
    CHECK(slow.swaps.replanned % static_cast<uint64_t>(nodes) == 0);
    CHECK(slow.swaps.spilled < undisturbed.swaps.spilled);
    CHECK(slow.steps == 40);  // none was made again
    CHECK(slow.recoveries.empty());
    CHECK(slow.losses == undisturbed.losses);
    CHECK(run_swapped(o).fingerprint == slow.fingerprint);  // WLD-1
  }
}

TEST_CASE("SIM-33: swap: replicas that spill other layers in one step are seen") {
  world w(two_hosts());
  environment room(w, {}, swapped().swap);
  room.note_spilling(2, 7, 0, 3);
  room.note_spilling(2, 7, 0, 3);
  room.note_spilling(2, 7, 1, 0);
  room.note_spilling(2, 8, 0, 0);
  CHECK_FALSE(w.violated());
  room.note_spilling(2, 8, 0, 3);
  REQUIRE(w.violated());
  CHECK(w.violated()->find("spill from layers 0 and 3 on in step 8") != std::string::npos);
  w.end();
}

TEST_CASE("SIM-27: swap: a slow drive, a full one and writes that fail cost no launch") {
  auto o = swapped();
  o.steps = 20;
  o.faults = {{fault_kind::slow_disk, 100 * of_ms, 60'000 * of_ms, 0}};
  const auto slow = run_swapped(o);
  succeeds(slow);
  auto undisturbed = o;
  undisturbed.faults.clear();
  CHECK(slow.virtual_ns > run_swapped(undisturbed).virtual_ns);
  o.faults = {{fault_kind::full_disk, 200 * of_ms, 60'000 * of_ms, 0}};
  const auto full = run_swapped(o);
  succeeds(full);
  CHECK(full.swaps.unkept > 0);
  CHECK(full.swaps.waited == 0);
  o.faults = {{fault_kind::disk_error, 200 * of_ms, 0, of_write}};
  const auto failed = run_swapped(o);
  succeeds(failed);
  CHECK(failed.swaps.moved == 1);
  CHECK(failed.swaps.waited == 0);
}

TEST_CASE("SIM-27: swap: a write waits for room for longer than a step may take") {
  auto o = swapped();
  o.steps = 20;
  o.swap.step_s = 20;
  o.faults = {{fault_kind::full_disk, 200 * of_ms, 60'000 * of_ms, 0},
              {fault_kind::disk_error, 210 * of_ms, 0, of_write}};
  const auto waits = run_swapped(o);
  succeeds(waits);
  CHECK(waits.swaps.waited == 1);
  CHECK(waits.swaps.moved == 1);
  CHECK(waits.virtual_ns > 60'000 * of_ms);
  o.swap.patience_s = 30;  // what waits for longer ends, as nobody has promised otherwise
  const auto done = simulate(o);
  REQUIRE(done);
  REQUIRE(done->violation);
  CHECK(done->violation->find("No space left on device") != std::string::npos);
  CHECK(done->swaps.moved == 0);
}

TEST_CASE("swap: a read that fails ends its rank, and the job recovers") {
  auto o = swapped();
  o.steps = 20;
  o.faults = {{fault_kind::disk_error, 300 * of_ms, 0, of_read}};
  const auto ended = run_swapped(o);
  CHECK(ended.swaps.unread == 1);
  REQUIRE(ended.ends.size() == 1);
  CHECK(ended.ends.front().find("read chunk") != std::string::npos);
  o.recovers = true;
  const auto recovered = run_swapped(o);
  CHECK(recovered.swaps.unread == 1);
  succeeds(recovered);
  CHECK(recovered.steps > 20);
}

TEST_CASE("swap: what a killed process leaves on its drive is found by the next one there") {
  auto o = swapped();
  o.steps = 20;
  o.recovers = true;
  o.faults = {{fault_kind::crash_node, 300 * of_ms, 0, 0}};
  const auto done = run_swapped(o);
  succeeds(done);
  CHECK(done.swaps.leftovers == 1);
}

TEST_CASE("SIM-25: swap folders: one process, one engine, and not removed before it") {
  const auto wrong_of = [](const auto& use) {
    world w(two_hosts());
    drives d(w, swapped().swap);
    use(d);
    w.end();
    const auto wrong = w.violated().value_or("");
    return wrong.empty() ? wrong : wrong.substr(wrong.find(": ") + 2);
  };
  CHECK(wrong_of([](drives& d) {
          auto home = d.open(1, request_of(0));
          auto other = d.open(1, request_of(1));
          auto there = d.open(0, request_of(0));
          auto engine = d.use(1, 0);
          engine.reset();
          home->reset();
          auto again = d.open(1, request_of(0));
          auto killed = d.use(1, 0);
          d.end_process(1);
          auto next = d.open(1, request_of(0));
        }) == "");
  CHECK(wrong_of([](drives& d) {
          auto home = d.open(1, request_of(0));
          auto rival = d.open(1, request_of(0));
        }) == "the swap folder of rank 0 on node0 is opened twice");
  CHECK(wrong_of([](drives& d) { d.use(1, 0); }) ==
        "rank 0 on node0 has files in a folder that nobody has opened");
  CHECK(wrong_of([](drives& d) {
          auto home = d.open(1, request_of(0));
          auto one = d.use(1, 0), two = d.use(1, 0);
          two.reset();
          one.reset();
        }) == "two engines of rank 0 on node0 have files in one folder");
  const auto early = [](bool killed) {
    return [killed](drives& d) {
      auto home = d.open(1, request_of(0));
      auto engine = d.use(1, 0);
      if (killed) d.forsake(1, 0);
      home->reset();
    };
  };
  CHECK(wrong_of(early(false)) ==
        "the swap folder of rank 0 on node0 is removed before its engine");
  CHECK(wrong_of(early(true)) == "");
}

TEST_CASE("swap: random clusters that swap and faults violate nothing") {
  constexpr uint64_t seeds = 1000;
  const fuzz_options o{.first = 1, .seeds = seeds, .kinds = all_swap_faults(), .swap = true};
  const auto done = fuzz(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  if (done->failure) {
    MESSAGE(replay_command(o, done->failure->seed));
    FAIL_CHECK(done->failure->what.message);
  }
  const auto& s = done->swaps;
  for (const auto count :
       {s.operations, s.kept, s.unkept, s.moved, s.waited, s.unread, s.spilled, s.gradients_moved,
        s.activations_moved, s.redone, s.rows_first, s.replanned, s.leftovers})
    CHECK(count > 0);
}
