// Recorded actors are replayed: actors of simulated clusters, with and without faults, do the same
// when they are given the same; what was altered is found where it is; what is damaged is refused.
#include "actors/replay/replay.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/predict/kept_times.hpp"
#include "actors/predict/predictor.hpp"
#include "actors/replay/factories.hpp"
#include "actors/replay/message_parts.hpp"
#include "actors/replay/recording.hpp"
#include "actors/sim/simulation.hpp"
#include "gpu/predict/speed_prior.hpp"
#include "io/perf/part_times.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/predict/fitted_prior.hpp"
#include "tests/io/scratch.hpp"
#include "tests/sim/quiet.hpp"
#include "tests/sim/recorded.hpp"
#include "trace/trace_file.hpp"

using namespace troupe;
using namespace troupe::replay;
using namespace troupe::replay::test;

namespace {

bool is_castable(const logged_actor& s) {
  return s.kind == "stage" || s.kind == "run" || s.kind == "coordinator";
}

}  // namespace

TEST_CASE("replay: coordinator, run and stages do the same again") {
  recorded r("*");
  size_t replayed = 0;
  for (const auto& s : r.read().actors) {
    if (!is_castable(s)) continue;
    const auto o = again(s);
    CHECK_MESSAGE(o.differences.empty(), text_of(o));
    CHECK(o.given == s.given());
    CHECK(o.given > 10);
    CHECK(o.recorded > 5);
    CHECK(o.recorded == o.replayed);
    ++replayed;
  }
  CHECK(replayed == 4);
}

TEST_CASE("replay: logs with faults in them are replayed, too") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    recorded r("*", sim::fuzzed(seed, sim::all_faults()));
    for (const auto& s : r.read().actors) {
      if (!is_castable(s)) continue;
      const auto o = again(s);
      CHECK_MESSAGE(o.differences.empty(), text_of(o));
    }
  }
}

namespace {

/// A file that others add to: it has lines of a node that were not there when it was read.
struct times_of_others final : predict::kept_times {
  static constexpr size_t lines = 5;
  std::string name() const override { return "others"; }
  result<io::perf::part_times> read() override { return io::perf::part_times{}; }
  status add(std::span<const io::perf::part_time>) override { return {}; }
  result<size_t> forget(std::string_view) override { return size_t{lines}; }
  result<std::filesystem::path> put_aside() override { return error{errc::not_found, ""}; }
};

/// An operator who has a node forgotten.
struct forgetter_state {
  static inline const char* name = "forgetter";
};
using forgetter_pointer = caf::stateful_actor<forgetter_state, traced<caf::event_based_actor>>*;

caf::behavior forgetter(forgetter_pointer self, const predictor_actor& predictor) {
  self->request(predictor, std::chrono::seconds(2),
                make_msg<fbs::ForgetNode>({}, [](auto& m) { m.node = "node9"; }))
      .then([](const msg<fbs::Ack>&) {}, [](const caf::error&) {});
  return {[](caf::tick_atom) {}};
}

/// By which a thread is the slower the more its machine has.
std::shared_ptr<gpu::predict::speed_prior> prior_of_threads() {
  using enum io::perf::feature_kind;
  io::perf::perf_table t{"fleet", {{"cpus", "cpu", "1", log_number}}, {"tokens_per_s"}, {}};
  for (int i = 0; i < 60; ++i) {
    io::perf::perf_row r;
    r.id = fmt::format("r{}", i);
    r.numbers = {2.0 + i % 30};
    r.words = {""};
    r.labels = {std::sqrt(r.numbers[0])};
    t.rows.push_back(std::move(r));
  }
  return std::make_shared<gpu::predict::speed_prior>(gpu::predict::testing::fitted_prior(t));
}

/// The first node was probed, the second only says what it is.
msg<fbs::HwProfile> profile_with(uint32_t rank, double cpus) {
  return make_msg<fbs::HwProfile>({}, [&](auto& m) {
    m.node = fmt::format("node{}", rank);
    m.place = rank;
    m.places = 2;
    const auto add = [&](const char* name, double number) {
      auto& f = *m.fields.emplace_back(std::make_unique<fbs::HwFieldT>());
      f.name = name;
      f.number = number;
    };
    add("cpus", cpus);
    if (rank == 0)
      for (const auto* name : {"probe_threads", "gemm_gflop_s", "gemm_bf16_gflop_s"}) add(name, 8);
    auto& r = *m.ranks.emplace_back(std::make_unique<fbs::RankTimesT>());
    r.rank = rank;
    r.layers = r.threads = 1;
    if (rank > 0) return;
    auto& p = *r.parts.emplace_back(std::make_unique<fbs::StepPartT>());
    p.kind = "forward";
    p.busy_ms = 2;
    p.work = 16;
  });
}

/// What the coordinator tells of machines, and a person's question about one that is not probed.
caf::behavior prior_asker(forgetter_pointer self, const predictor_actor& predictor) {
  self->delayed_send(self, std::chrono::milliseconds(1), caf::tick_atom_v);
  return {[self, predictor](caf::tick_atom) {
    const auto coordinator = self->runtime().registry.find("coordinator");
    if (!coordinator) return;
    for (uint32_t rank = 0; rank < 2; ++rank)
      caf::actor_cast<caf::strong_actor_ptr>(predictor)->get()->enqueue(
          coordinator->handle(), caf::make_message_id(),
          caf::make_message(profile_with(rank, rank == 0 ? 4 : 16)), nullptr);
    self->request(predictor, std::chrono::seconds(2),
                  make_msg<fbs::Predict>({}, [](auto& m) { m.rank = 1; }))
        .then([](const msg<fbs::Prediction>&) {}, [](const caf::error&) {});
  }};
}

/// A simulated cluster with a predictor that began with some times, recorded. `forgets`: a node,
/// of whom others have told its file. `prior`: one that is asked.
recorded predicted(std::vector<std::string> times = {}, bool forgets = false,
                   std::shared_ptr<gpu::predict::speed_prior> prior = {}) {
  auto o = small();
  o.steps = 40;
  o.validate_every = 0;
  o.checkpoint_every = 0;
  o.beside = [times, forgets, prior](sim::world& w, train::spawn_record& record) {
    train::spawn_record made_of{record.epoch};
    made_of.plan = record.plan;
    if (prior) made_of.plan.job.predict.prior = "fleet.tpm";
    predict::predictor_options options{made_of.plan.job, record.epoch};
    options.prior = prior;
    io::perf::part_times began;
    for (const auto& line : times) began.times.push_back(*io::perf::parse_part_time(line));
    options.kept = predict::times_in_memory(began);
    if (forgets) options.kept = std::make_shared<times_of_others>();
    options.recorded = [made_of](auto lines) {
      train::note_spawn_record(made_of, std::move(lines));
    };
    record.predictor = w.spawn(0, predict::predictor, std::move(options));
    if (forgets) w.spawn(0, forgetter, record.predictor);
    if (prior) w.spawn(0, prior_asker, record.predictor);
  };
  return recorded("predictor", o);
}

/// A node's time of a part, which a step takes some milliseconds of.
std::string kept_time(const std::string& node, size_t features) {
  return io::perf::part_time_line({"forward", node, std::vector<double>(features, 2), 0.004, 3});
}

}  // namespace

TEST_CASE("replay: a predictor learns the same again, of what it began with, too") {
  const auto features = [] {
    size_t n = 0;
    while (!predict::feature_name(n).empty()) ++n;
    return n;
  }();
  for (const auto& times :
       {std::vector<std::string>{}, std::vector<std::string>{kept_time("node0", features)}}) {
    const auto r = predicted(times);
    auto log = choose(r.read(), "predictor");
    REQUIRE_MESSAGE(log, (log ? "" : render(log.error())));
    CHECK(log->record->times == times);
    CHECK(log->record->began_with_times == times.size());
    const auto same = again(*log);
    CHECK_MESSAGE(same.differences.empty(), text_of(same));
    CHECK(same.given == log->given());
    CHECK(same.given >= 40);
    CHECK(same.recorded >= 40);
    CHECK(same.recorded == same.replayed);
  }
}

TEST_CASE("replay: a coordinator shares the layers out by the same earlier runs again") {
  auto o = small();
  o.times.slowness = {1, 1};
  o.beside = [](sim::world&, train::spawn_record& head) {
    const auto machine = io::perf::print_of({"simulated", 8, 1 << 30});
    const auto& cluster = head.plan.job.cluster;
    for (size_t n = 0; n < 2; ++n)
      head.paces.push_back({cluster.node[n].name, machine, static_cast<uint32_t>(cluster.threads),
                            false, n == 0 ? 3e9 : 1e9, 0.03, 1240, 9});
  };
  const recorded r("coordinator", o);
  auto log = choose(r.read(), "coordinator");
  REQUIRE_MESSAGE(log, (log ? "" : render(log.error())));
  CHECK(log->record->paces.size() == 2);
  const auto same = again(*log);
  CHECK_MESSAGE(same.differences.empty(), text_of(same));
  CHECK(same.recorded == same.replayed);
  log->record->paces.clear();
  CHECK_FALSE(again(*log).differences.empty());
}

TEST_CASE("replay: a predictor that took steps of another than the run takes none of its again") {
  const auto r = predicted();
  auto log = choose(r.read(), "predictor");
  REQUIRE(log);
  for (auto& turn : log->turns)
    if (turn.given && !turn.readings.empty()) turn.readings.front() = 0;
  CHECK_FALSE(again(*log).differences.empty());
}

TEST_CASE("PRD-10: replay: a predictor has forgotten as many lines as its file had then") {
  const auto r = predicted({}, true);
  auto log = choose(r.read(), "predictor");
  REQUIRE(log);
  const auto asked = std::ranges::count_if(log->turns, [](const auto& turn) {
    return turn.given && cast<fbs::ForgetNode>(message_in(turn.given->parts));
  });
  CHECK(asked == 1);
  const auto same = again(*log);
  CHECK_MESSAGE(same.differences.empty(), text_of(same));
  CHECK(same.recorded == same.replayed);
}

TEST_CASE("PRD-10: replay: a predictor hears of its prior what that said then, and has none") {
  const auto r = predicted({}, false, prior_of_threads());
  auto log = choose(r.read(), "predictor");
  REQUIRE_MESSAGE(log, (log ? "" : render(log.error())));
  const auto is_asked_about = [](const auto& turn) {
    if (!turn.given) return false;
    const auto m = cast<fbs::HwProfile>(message_in(turn.given->parts));
    return m && m->fields() != nullptr && m->fields()->size() > 0;
  };
  CHECK(std::ranges::count_if(log->turns, is_asked_about) == 2);
  const auto same = again(*log);
  CHECK_MESSAGE(same.differences.empty(), text_of(same));
  CHECK(same.recorded == same.replayed);
  // Another prior's word makes another answer: what is read is what was told.
  for (auto& turn : log->turns)
    if (is_asked_about(turn))
      for (auto& reading : turn.readings) reading = 1;
  CHECK_FALSE(again(*log).differences.empty());
}

TEST_CASE("replay: a predictor whose recording lacks what it began with is refused") {
  const auto r = predicted();
  auto log = choose(r.read(), "predictor");
  REQUIRE(log);
  log->record->began_with_times = 1;
  CHECK(replay::replay(*log).error().code == errc::unavailable);
  log->record->began_with_times = 0;
  log->record->config_toml.clear();
  CHECK(replay::replay(*log).error().code == errc::unavailable);
}

TEST_CASE("replay: a swapper opens what the recording says, and nothing is made here") {
  size_t opened = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    auto o = sim::fuzzed_swap(seed, {sim::fault_kind::crash_node, sim::fault_kind::kill_actor});
    if (seed % 3 == 0) o.faults = {{sim::fault_kind::full_disk, 0, 60'000'000'000, 0}};
    recorded r("swapper/*", o);
    for (const auto& s : r.read().actors) {
      CHECK(s.kind == "swapper");
      const auto again_done = again(s);
      CHECK_MESSAGE(again_done.differences.empty(), text_of(again_done));
      CHECK(again_done.recorded == again_done.replayed);
      for (const auto& turn : s.turns)
        for (const auto& e : turn.said) ++(message_in(e->parts) ? opened : refused);
    }
  }
  CHECK(opened > 12);
  CHECK(refused > 0);
}

TEST_CASE("replay: a changed answer is named, with its message and field") {
  recorded r("stage/1");
  auto batches = r.batches();
  const auto at = alter(
      batches,
      [](fbs::ActorLogEventT& e) {
        return e.kind == fbs::ActorLogKind::answered &&
               rewrite<fbs::StepDone>(e, [](auto& d) { d.loss_sum += 1; });
      },
      [](auto&) {});
  r.write(batches);
  auto log = choose(r.read(), "stage/1");
  REQUIRE(log);
  const auto o = again(*log);
  REQUIRE(o.differences.size() == 1);
  CHECK(o.differences[0].message == at);
  CHECK(o.differences[0].given == "StepDone");
  CHECK(o.differences[0].said.find("the answer StepDone") == 0);
  CHECK(o.differences[0].field == "loss_sum");
  CHECK(o.differences[0].recorded != o.differences[0].replayed);
}

TEST_CASE("replay: what was given decides: another input makes other outputs") {
  recorded r("stage/0");
  auto batches = r.batches();
  const auto at = alter(
      batches,
      [](fbs::ActorLogEventT& e) {
        return e.kind == fbs::ActorLogKind::got &&
               rewrite<fbs::RunStep>(e, [](auto& s) { s.step += 7; });
      },
      [](auto&) {});
  r.write(batches);
  auto log = choose(r.read(), "");
  REQUIRE(log);
  const auto o = again(*log);
  REQUIRE(!o.differences.empty());
  CHECK(o.differences[0].message == at);
  CHECK(o.differences[0].field == "step");
}

TEST_CASE("replay: something said that was not recorded, and the other way round") {
  recorded r("stage/0");
  auto batches = r.batches();
  bool removed = false;
  uint64_t shift = 0;
  for (auto& b : batches) {
    std::erase_if(b.log, [&](const auto& e) {
      if (removed || e->kind != fbs::ActorLogKind::sent) return false;
      return removed = true;
    });
    for (auto& e : b.log) e->number = ++shift;
  }
  REQUIRE(removed);
  r.write(batches);
  const auto o = again(r.read().actors.front());
  REQUIRE(o.differences.size() == 1);
  CHECK(o.differences[0].recorded.empty());
  CHECK(o.differences[0].replayed == "ActivationReady");
}

TEST_CASE("replay: the handler of message N is announced before it runs") {
  recorded r("stage/0");
  const auto all = r.read();
  std::vector<uint64_t> seen;
  replay_options options;
  options.before = [&](uint64_t n) { seen.push_back(n); };
  REQUIRE(replay::replay(all.actors.front(), options));
  REQUIRE(seen.size() == all.actors.front().given());
  for (size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == i + 1);
}

TEST_CASE("replay: a process that died in a handler leaves the message that did it") {
  recorded r("stage/0");
  auto batches = r.batches();
  while (batches.back().log.back()->kind != fbs::ActorLogKind::got) batches.pop_back();
  r.write(batches);
  const auto log = r.read();
  CHECK(!log.actors.front().turns.back().handled);
  const auto o = again(log.actors.front());
  CHECK(o.differences.empty());
  REQUIRE(o.remarks.size() == 1);
  CHECK(o.remarks[0].find("the process ended there") != std::string::npos);
}

TEST_CASE("replay: cut, flipped and senseless files are refused") {
  recorded r("stage/0");
  const auto whole = r.bytes();
  auto put = [&](std::string_view bytes) {
    std::ofstream(r.file, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  // Where an entry begins there is nothing to see of a cut but the missing end of the log.
  size_t entry = trace::file_magic.size();
  while (entry < whole.size() / 2) {
    uint32_t length = 0;
    std::memcpy(&length, &whole[entry], sizeof(length));
    entry += sizeof(length) + length;
  }
  put(std::string_view(whole).substr(0, entry));
  const auto shorter = again(r.read().actors.front());
  CHECK(shorter.differences.empty());
  REQUIRE(!shorter.remarks.empty());
  CHECK(shorter.remarks.back().find("ends") != std::string::npos);
  for (const size_t cut :
       {size_t{0}, size_t{7}, size_t{18}, entry - 1, entry + 2, entry + 9, whole.size() - 1}) {
    CAPTURE(cut);
    put(std::string_view(whole).substr(0, cut));
    const auto all = read_actor_logs(r.file);
    REQUIRE(!all);
    CHECK(all.error().code == errc::bad_data);
  }
  for (size_t at = 3; at < whole.size(); at += whole.size() / 40) {
    CAPTURE(at);
    auto flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    put(flipped);
    CHECK(!read_actor_logs(r.file));
  }
}

TEST_CASE("limits: a recording of more events than are replayed is refused") {
  const recorded r("stage/0");
  uint64_t events = 0;
  for (const auto& b : r.batches()) events += b.log.size();
  REQUIRE(events > 10);
  CHECK(read_actor_logs(r.file, events));
  const auto refused = read_actor_logs(r.file, events - 1);
  REQUIRE_FALSE(refused);
  CHECK(is_error(refused, replay::too_many_events, events - 1));
}

TEST_CASE("replay: logs that cannot have been are refused") {
  recorded r("stage/0");
  using change = std::function<void(std::vector<fbs::TraceBatchT>&)>;
  auto refused = [&](const change& what, errc code = errc::bad_data) {
    auto batches = r.batches();
    const auto whole = r.batches();
    what(batches);
    r.write(batches);
    const auto all = read_actor_logs(r.file);
    r.write(whole);
    REQUIRE(!all);
    CHECK_MESSAGE(all.error().code == code, all.error().message);
  };
  refused([](auto& b) { b.erase(b.begin() + 3); });  // a gap
  refused([](auto& b) { b.erase(b.begin()); });      // no spawn
  refused([](auto& b) { std::swap(b[2], b[3]); });   // another order
  refused([](auto& b) { b.push_back(b[0]); });       // spawned twice
  refused([](auto& b) { b[2].log[0]->at_ns = INT64_MAX; });
  refused([](auto& b) { b[1].log[0]->parts[0]->message.pop_back(); });
  refused([](auto& b) { b[1].log[0]->parts[0]->kind = fbs::ActorLogPartKind::actor; });
  refused([](auto& b) { b[1].log[0]->request = uint64_t{3} << 60; });  // of a stream
  refused([](auto& b) { b[0].log[0]->spawn_record->form = 99; }, errc::version_mismatch);
}

TEST_CASE("replay: actors that cannot be replayed say why, names are checked") {
  recorded r("worker/0");
  auto all = r.read();
  const auto worker = replay::replay(all.actors.front());
  REQUIRE(!worker);
  CHECK(is_error(worker, replay::answers_from_device, "worker/0"));
  CHECK(choose(r.read(), "stage/9").error().code == errc::not_found);
  actor_logs none;
  none.midway = {"stage/0"};
  const auto midway = choose(std::move(none), "stage/0");
  REQUIRE(!midway);
  CHECK(midway.error().code == errc::bad_data);
  CHECK(midway.error().hint.find("--record-actor") != std::string::npos);
}

TEST_CASE("replay: logs with senseless content end in an answer, never in a crash") {
  recorded r("*");
  sim::rng random(5);
  size_t refused = 0, differ = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    auto all = r.read();
    for (auto& s : all.actors) {
      if (!is_castable(s)) continue;
      for (int k = 0; k < 4; ++k) {
        auto& turn = s.turns[1 + random.below(s.turns.size() - 1)];
        auto& other = s.turns[1 + random.below(s.turns.size() - 1)];
        switch (random.below(7)) {
          case 0:
            std::swap(turn.given, other.given);
            break;
          case 1:
            turn.given->parts.clear();
            break;
          case 2:
            std::swap(turn.given->parts, other.given->parts);
            break;
          case 3:
            turn.given->request = other.given->request;
            break;
          case 4:
            turn.given->peer = "nobody";
            break;
          case 5:
            for (auto& p : turn.given->parts) p->actors.assign(1, "");
            break;
          default:
            s.record->peers.resize(random.below(s.record->peers.size() + 1));
        }
      }
      const auto o = replay::replay(s);
      if (!o)
        ++refused;
      else if (!o->differences.empty())
        ++differ;
    }
  }
  CHECK(refused > 0);
  CHECK(differ > 0);
}
