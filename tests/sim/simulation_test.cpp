// Whole clusters on virtual time: that a run succeeds, repeats itself, and survives what befalls
// it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/sim/fuzz.hpp"
#include "messages/message_list.hpp"
#include "messages/step_parts.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr int64_t millisecond = 1'000'000;

simulation_outcome run(const simulation_options& o) {
  auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  return std::move(*done);
}

/// A small cluster with one fault.
simulation_outcome run_with(fault_kind kind, int64_t at_ms, int64_t lasts_ms, uint64_t random) {
  simulation_options o;
  o.seed = 7;
  o.nodes = 4;
  o.pipeline = 2;
  o.launches = 2;
  o.faults = {{kind, at_ms * millisecond, lasts_ms * millisecond, random}};
  return run(o);
}

}  // namespace

TEST_CASE("simulation: a run without faults does every step") {
  simulation_options o;
  o.nodes = 4;
  o.workers = 2;
  o.pipeline = 4;
  o.validate_every = 3;
  const auto done = run(o);
  CHECK_MESSAGE(!done.violation, done.violation.value_or(""));
  CHECK(done.steps == 10);
  CHECK(done.launches == 1);
  CHECK(done.ends == std::vector<std::string>{"success"});
}

TEST_CASE("simulation: messages between nodes are on the way, those within are not") {
  simulation_options o;
  o.nodes = 2;
  o.pipeline = 2;
  o.steps = 3;
  record_reader reader(o.in->records, true);
  reader.read(1);
  run(o);
  size_t between = 0, within = 0;
  for (const auto& r : reader.read(1'000'000)) {
    if (r.kind != record_kind::handled || r.sent_ns == 0) continue;
    const auto way_s = r.waiting_s() - static_cast<double>(r.mailbox_s);
    if (r.type == message_traits<fbs::RunStep>::id) {  // from the head to a node
      ++between;
      CHECK(way_s >= 0.9e-9 * static_cast<double>(o.links.least_delay_ns));
    } else if (r.type == message_traits<fbs::RunOp>::id) {  // from a stage to its worker
      ++within;
      CHECK(std::abs(way_s) < 1e-9);
    }
  }
  CHECK(between == 6);
  CHECK(within > 6);
}

TEST_CASE("simulation: each step leaves its loss, norm and speed in the flight recorder") {
  simulation_options o;
  o.steps = 4;
  record_reader reader(o.in->records, true);
  reader.read(1);
  run(o);
  std::map<std::string, std::vector<double>> measures;
  for (const auto& r : reader.read(1'000'000))
    if (r.kind == record_kind::counter)
      measures[work_names()[r.type - 1]].push_back(std::bit_cast<double>(r.sender));
  for (const auto* name : {"loss", "gradient norm", "tokens/s"}) {
    REQUIRE(measures[name].size() == 4);
    CHECK(measures[name].front() > 0);
  }
}

TEST_CASE("simulation: a slow replica is busy for longer, and the others wait for it (STM-3)") {
  simulation_options o;
  o.nodes = 4;
  o.steps = 5;
  o.checkpoint_every = 0;
  o.times.jitter = 0;
  constexpr uint32_t slow = 2;
  constexpr uint64_t four_times = 2;
  o.faults = {{fault_kind::slow_device, millisecond, 60'000 * millisecond, four_times,
               std::to_string(slow)}};
  std::vector<std::vector<train::step_part>> ranks(4);  // of the last step
  o.sees = [&](const any_msg& m, int64_t) {
    if (m.type() != message_traits<fbs::StepDone>::id) return;
    const auto& done = *flatbuffers::GetRoot<fbs::StepDone>(m.payload().data());
    if (done.step() > 0 && done.rank() < ranks.size())
      ranks[done.rank()] = train::parts_of(done.parts());
  };
  CHECK(run(o).ends == std::vector<std::string>{"success"});
  train::settle_transfers({4, 1, 1}, ranks);
  const auto part = [&](uint32_t rank, train::pipeline_op kind) {
    for (const auto& p : ranks[rank])
      if (p.kind == kind) return p;
    return train::step_part{};
  };
  using op = train::pipeline_op;
  for (const auto rank : {0u, 1u, 3u}) {
    CAPTURE(rank);
    for (const auto kind : {op::forward, op::backward, op::update}) {
      const auto own = part(rank, kind);
      CHECK(own.busy_ms > 0);
      CHECK(own.work > 0);
      CHECK(part(slow, kind).busy_ms == doctest::Approx(4 * own.busy_ms));
      CHECK(part(slow, kind).work == own.work);
    }
    CHECK(part(rank, op::update).waited_ms > part(slow, op::update).waited_ms + 1);
    CHECK(part(rank, op::all_gather).work > 0);
    CHECK(part(rank, op::all_gather).waited_ms > 1);
    CHECK(part(rank, op::all_gather).busy_ms ==
          doctest::Approx(part(slow, op::all_gather).busy_ms));
  }
  CHECK(part(slow, op::all_gather).waited_ms == 0);
}

TEST_CASE("simulation: meters follow what their devices do, and repeat themselves") {
  const auto meters_of = [](uint64_t seed) {
    simulation_options o;
    o.seed = seed;
    o.nodes = 2;
    o.workers = 2;
    o.steps = 60;
    o.checkpoint_every = 0;
    o.meter_ms = 100;
    record_reader reader(o.in->records, true);
    reader.read(1);
    run(o);
    std::vector<std::pair<std::string, double>> out;
    for (const auto& r : reader.read(1'000'000))
      if (r.kind == record_kind::counter)
        out.emplace_back(work_names()[r.type - 1], std::bit_cast<double>(r.sender));
    return out;
  };
  const auto first = meters_of(1);
  double least = 1e9, most = 0, warmest = 0;
  size_t devices = 0, nodes = 0;
  for (const auto& [name, value] : first) {
    devices += name == "gpu0 W" || name == "gpu1 W";
    nodes += name == "W";
    if (name.ends_with(" W")) least = std::min(least, value);
    if (name.ends_with(" W")) most = std::max(most, value);
    if (name.ends_with(" C")) warmest = std::max(warmest, value);
  }
  CHECK(devices == 2 * nodes);
  CHECK(nodes >= 10);
  CHECK(least < 100);  // before the first step
  CHECK(most > 300);
  CHECK(most < 700);
  CHECK(warmest > 30);
  CHECK(first == meters_of(1));
  CHECK(first != meters_of(2));
}

TEST_CASE(
    "simulation: a disk slower than the checkpoints: training waits, leaves out, or stretches") {
  simulation_options o;
  o.nodes = 2;
  o.steps = 12;
  o.checkpoint_every = 1;
  o.times.save_ns = 300 * millisecond;  // several steps long
  o.when_busy = config::when_busy::block;
  const auto blocks = run(o);
  CHECK_MESSAGE(!blocks.violation, blocks.violation.value_or(""));
  CHECK(blocks.checkpoints == 12);
  CHECK(blocks.skipped_checkpoints == 0);
  CHECK(blocks.checkpoint_wait_ms > 300);
  o.when_busy = config::when_busy::skip;
  const auto skips = run(o);
  CHECK(!skips.violation);
  CHECK(skips.skipped_checkpoints > 0);
  CHECK(skips.checkpoints + skips.skipped_checkpoints >= 12);  // the last one always comes
  CHECK(skips.checkpoint_wait_ms == 0);
  CHECK(skips.virtual_ns < blocks.virtual_ns);
  o.when_busy = config::when_busy::stretch;
  const auto stretches = run(o);
  CHECK(!stretches.violation);
  CHECK(stretches.skipped_checkpoints == 0);
  CHECK(stretches.checkpoints < 12);
  CHECK(stretches.checkpoints > 1);
  CHECK(stretches.checkpoint_wait_ms == 0);
  o.times.save_ns = 1;  // and where the disk is quick, none of it matters
  o.times.files = {1, 1};
  CHECK(run(o).checkpoints == 12);
}

TEST_CASE("simulation: steps go on while a checkpoint is written") {
  simulation_options o;
  o.nodes = 2;
  o.steps = 12;
  o.checkpoint_every = 0;
  const auto none = run(o);
  o.checkpoint_every = 6;
  o.times.save_ns = 40 * millisecond;
  const auto one_beside = run(o);
  CHECK(one_beside.checkpoints == none.checkpoints + 1);
  CHECK(one_beside.checkpoint_wait_ms == 0);
  // The same virtual time but for the last save: the one of step 6 cost nothing.
  CHECK(one_beside.virtual_ns - none.virtual_ns < 40 * millisecond);
}

TEST_CASE("simulation: the same seed gives the same events, another seed others") {
  simulation_options o;
  o.nodes = 4;
  o.pipeline = 2;
  rng random(3);
  o.faults = draw_faults(random, all_faults(), 4, 600 * millisecond);
  o.launches = 3;
  const auto first = run(o), again = run(o);
  CHECK(first.fingerprint == again.fingerprint);
  CHECK(first.counts.events == again.counts.events);
  CHECK(first.virtual_ns == again.virtual_ns);
  o.seed = 2;
  CHECK(run(o).fingerprint != first.fingerprint);
}

TEST_CASE("simulation: a killed node ends the run, which resumes from its checkpoint") {
  const auto done = run_with(fault_kind::crash_node, 300, 0, 1);
  CHECK_MESSAGE(!done.violation, done.violation.value_or(""));
  REQUIRE(done.faults.size() == 1);
  REQUIRE(done.launches == 2);
  CHECK(done.ends.back() == "success");
  CHECK(done.steps >= 10);
}

TEST_CASE("HEAL-3: simulation: a run that recovers makes all its steps, whatever nodes it loses") {
  uint64_t repeated = 0, crashes = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    rng random(seed);
    simulation_options o;
    o.seed = seed;
    o.nodes = 4;
    o.pipeline = 1 << random.below(3);
    o.steps = 12;
    o.checkpoint_every = static_cast<int>(random.below(4));
    o.validate_every = static_cast<int>(random.below(3));
    o.recovers = true;
    // From where the first steps are made; some fall into the recovery from another.
    const auto count = static_cast<int>(1 + random.below(3));
    o.faults = draw_faults(random, {fault_kind::crash_node, fault_kind::lose_node}, count,
                           400 * millisecond);
    for (auto& f : o.faults) f.at_ns += 350 * millisecond;
    const auto done = run(o);
    CAPTURE(seed);
    CHECK_MESSAGE(!done.violation, done.violation.value_or(""));
    CHECK_MESSAGE(done.ends == std::vector<std::string>{"success"}, fmt::format("{}", done.faults));
    CHECK(done.steps >= 12);
    repeated += done.steps - 12;
    crashes += done.faults.size();
  }
  CHECK(crashes > 100);
  CHECK(repeated > 100);
}

TEST_CASE("SIM-16: simulation: with a spare left nobody waits for a process that stays away") {
  uint64_t crashes = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    rng random(seed);
    simulation_options o;
    o.seed = seed;
    o.nodes = 4;
    o.spares = 2;
    o.relaunches = false;
    o.pipeline = 1 << random.below(3);
    o.steps = 12;
    o.checkpoint_every = static_cast<int>(random.below(4));
    o.recovers = true;
    o.faults = draw_faults(random, {fault_kind::crash_node, fault_kind::lose_node},
                           static_cast<int>(1 + random.below(2)), 400 * millisecond);
    for (auto& f : o.faults) f.at_ns += 350 * millisecond;
    const auto done = run(o);
    CAPTURE(seed);
    CHECK_MESSAGE(!done.violation, done.violation.value_or(""));
    CHECK_MESSAGE(done.ends == std::vector<std::string>{"success"}, fmt::format("{}", done.faults));
    CHECK(done.virtual_ns < 120 * 1000 * millisecond);  // recovery.wait_s is 600
    crashes += done.faults.size();
  }
  CHECK(crashes > 100);
}

TEST_CASE("SIM-16: simulation: without a spare a job goes on with the replicas that have nodes") {
  uint64_t alone = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    rng random(seed);
    simulation_options o;
    o.seed = seed;
    o.nodes = 4;
    o.relaunches = random.chance(0.3);
    o.pipeline = 1 << random.below(2);
    o.steps = 12;
    o.checkpoint_every = static_cast<int>(random.below(4));
    o.recovers = o.fewer_replicas = true;
    o.faults = draw_faults(random, {fault_kind::crash_node, fault_kind::lose_node},
                           static_cast<int>(1 + random.below(2)), 400 * millisecond);
    for (auto& f : o.faults) f.at_ns += 350 * millisecond;
    const auto done = run(o);
    CAPTURE(seed);
    CHECK_MESSAGE(!done.violation, done.violation.value_or(""));
    CHECK_MESSAGE(done.ends == std::vector<std::string>{"success"}, fmt::format("{}", done.faults));
    CHECK(done.virtual_ns < 300 * 1000 * millisecond);  // recovery.return_s is 60, wait_s is 600
    if (!o.relaunches) alone += done.faults.size();
  }
  CHECK(alone > 50);
}

TEST_CASE("simulation: a lost head leaves no node behind") {
  const auto done = run_with(fault_kind::crash_head, 300, 0, 1);
  CHECK_MESSAGE(!done.violation, done.violation.value_or(""));
  REQUIRE(!done.ends.empty());
  CHECK(done.ends.front() == "the head was lost");
  CHECK(done.ends.back() == "success");
}

TEST_CASE("simulation: a device that hangs is given up by a timeout") {
  const auto done = run_with(fault_kind::hang_device, 300, 0, 1);
  CHECK_MESSAGE(!done.violation, done.violation.value_or(""));
  CHECK(done.launches == 2);
  CHECK(done.virtual_ns > 600'000 * millisecond);
}

TEST_CASE("simulation: random clusters and faults violate nothing") {
  constexpr uint64_t seeds = 1000;
  fuzz_options o{1, seeds, all_faults(), false, 0, {}};
#ifdef __SANITIZE_ADDRESS__
  o.jobs = 1;  // leaks are looked for where this process ends
#endif
  const auto done = fuzz(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  REQUIRE(done->signal == 0);
  if (const auto& f = done->failure) {
    INFO("replay with: ", replay_command(o, f->seed));
    INFO("faults: ", fmt::format("{}", fmt::join(f->faults, "; ")));
    FAIL(f->what.message);
  }
  CHECK(done->faults > seeds / 2);
  MESSAGE(done->folders.text());
  for (const auto n : done->folders.each()) CHECK(n > 0);  // all of it was tried
}

TEST_CASE("SIM-12: starts from nothing and from older ones lose nothing that was acknowledged") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    simulation_options o;
    o.seed = seed;
    o.steps = 6;
    o.checkpoint_every = 1;
    o.launches = 6;
    o.returns = 0.7;
    o.keep = static_cast<int>(seed % 3);
    if (seed % 2 == 0) o.faults = {{fault_kind::crash_head, 400 * millisecond, 0, seed}};
    const auto done = run(o);
    CHECK_MESSAGE(!done.violation, (done.violation ? *done.violation : ""));
    CHECK(done.launches == 6);
  }
}

TEST_CASE("SIM-13: a start takes the second tier's where the first one is taken away") {
  uint64_t second_starts = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    simulation_options o;
    o.seed = seed;
    o.checkpoint_every = 1;
    o.launches = 4;
    o.second = true;
    o.wipes = 1;
    o.faults = {{fault_kind::crash_head, 300 * millisecond, 0, seed}};
    const auto done = run(o);
    CHECK_MESSAGE(!done.violation, (done.violation ? *done.violation : ""));
    second_starts += done.folders.second_starts;
  }
  CHECK(second_starts > 0);
}

TEST_CASE("simulation: a run whose first tier is full saves its last in the second one") {
  for (const uint64_t how : {0, 2}) {  // full, gone
    simulation_options o;
    o.steps = 6;
    o.second = true;
    o.real_folders = true;
    o.faults = {{fault_kind::tier_out, 200 * millisecond, 60'000 * millisecond, how}};
    const auto done = run(o);
    CHECK_MESSAGE(!done.violation, (done.violation ? *done.violation : ""));
    CHECK(done.folders.second_falls == 1);
    CHECK(done.ends == std::vector<std::string>{"success"});
    CHECK(done.virtual_ns < 60'000 * millisecond);
    o.second = false;  // then it waits for room
    const auto waits = run(o);
    CHECK_MESSAGE(!waits.violation, (waits.violation ? *waits.violation : ""));
    CHECK(waits.ends == std::vector<std::string>{"success"});
    CHECK(waits.virtual_ns > 60'000 * millisecond);
  }
}

TEST_CASE("simulation: a killed export is made by the next start, beside what is a person's") {
  uint64_t cut = 0;
  for (const bool foreign : {false, true})
    for (int64_t at = 0; at < 160; at += 4) {
      CAPTURE(at);
      simulation_options o;
      o.steps = 4;
      o.launches = 3;
      o.real_folders = true;
      o.times.files.name_ns = 20 * millisecond;
      o.times.export_ns = 40 * millisecond;
      o.faults = {{fault_kind::second_launcher, 100 * millisecond, 0, 1}};
      if (foreign) o.faults.push_back({fault_kind::foreign_folder, 150 * millisecond, 0, 8});
      o.faults.push_back({fault_kind::crash_head, (340 + at) * millisecond, 0, 0});
      const auto done = run(o);
      CHECK_MESSAGE(!done.violation, (done.violation ? *done.violation : ""));
      CHECK(done.folders.exports >= 1);
      cut += done.folders.cut_exports;
      CHECK(done.folders.refused == 1);
      CHECK((done.folders.beside > 0) == foreign);
    }
  CHECK(cut > 9);
}
