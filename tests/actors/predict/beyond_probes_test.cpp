// What the own probes of a node, and its own earlier runs, rule out is found by the monitor, of a
// pair of nodes as of one (MON-11).
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include "actors/predict/kept_times.hpp"
#include "messages/text.hpp"
#include "tests/actors/health/predicted_replicas.hpp"

using namespace troupe;
using health::test::predicted_replicas;

namespace {

/// Two replicas whose machines were probed: by that their backward takes 30 ms.
struct probed_replicas : predicted_replicas {
  probed_replicas() {
    known_coordinator->started(caf::actor_cast<caf::weak_actor_ptr>(coordinator.self()), 1);
    begin_predictor([](config::job& job) {
      job.train.batch = 4;
      job.train.micro_batch = 2;
      job.model.hidden = 512;
    });
    for (const char* node : {"a", "b"}) tell_profile(node);
  }
  void tell_profile(const std::string& node) {
    coordinator.tell(predictor, make_msg<fbs::HwProfile>(context_of(epoch), [&](auto& m) {
                       m.node = node;
                       m.places = 2;
                       m.host = "host of " + node;
                       auto& f = *m.fields.emplace_back(std::make_unique<fbs::HwFieldT>());
                       f.name = "probe_threads";
                       f.number = 1;
                       auto& r = *m.ranks.emplace_back(std::make_unique<fbs::RankTimesT>());
                       r.rank = node == "a" ? 0 : 1;
                       r.layers = r.threads = 1;
                       auto& p = *r.parts.emplace_back(std::make_unique<fbs::StepPartT>());
                       p.kind = "backward";
                       p.busy_ms = 30;
                       p.work = 64;
                     }));
  }
};

}  // namespace

TEST_CASE("MON-11: what takes far longer than the node's own probes allow is found, of all nodes") {
  probed_replicas f;
  f.train_at(40, 400, 400);
  CHECK(f.names().empty());
  f.train_at(15, 400, 400);  // nothing has changed: neither peers nor steps before tell
  REQUIRE(f.names() == std::vector<std::string>{"slow_part a 0", "slow_part b 1"});
  for (const auto& found : f.findings().findings) {
    CHECK(found->text.starts_with(
        "misconfigured: backward takes 400 ms a step, at most 120 by what its node was probed to "
        "do"));
    CHECK(found->seen == doctest::Approx(400));
    CHECK(found->wanted == doctest::Approx(120));
    CHECK(found->unit == "ms");
  }
  const auto all = f.findings(true);
  const auto shown = std::ranges::count_if(
      all.parts, [](const auto& p) { return p->suspected == "misconfigured"; });
  CHECK(shown == 2);
  f.train_at(75, 100, 100);
  CHECK(f.names().empty());
}

TEST_CASE("MON-11: what is beyond the probes is let go once the predictor has died") {
  probed_replicas f;
  f.train_at(55, 400, 400);
  REQUIRE(f.names().size() == 2);
  caf::anon_send_exit(f.predictor, caf::exit_reason::kill);
  f.settle();
  f.train_at(75, 400, 400);
  CHECK(f.names().empty());
}

TEST_CASE("MON-11: what is as its node's probes allow is none, though a roofline is less") {
  probed_replicas f;
  f.train_at(60, 100, 100);
  CHECK(f.names().empty());
}

TEST_CASE("MON-11: threads that share processors are told of a node that is wrong as all others") {
  probed_replicas f;
  f.rank_threads = {8, 2};
  f.first_machine = f.second_machine = [](auto& m) { m.cpus = 2; };
  f.train_at(55, 400, 400);
  REQUIRE(f.names() == std::vector<std::string>{"slow_part a 0", "slow_part b 1"});
  const auto found = f.findings().findings;
  CHECK(found[0]->text.ends_with("; its rank has 8 threads on 2 processors"));
  CHECK(found[1]->text.find("processors") == std::string::npos);
  const auto all = f.findings(true);
  for (const auto& p : all.parts)
    if (p->rank == 0 && !p->suspected.empty())
      CHECK(p->differs == "its rank has 8 threads on 2 processors");
}

namespace {

/// What runs of the same work have kept, in each of which its backward took 400 ms.
std::shared_ptr<predict::kept_times> kept_of_runs(predicted_replicas& f, int runs) {
  const std::shared_ptr<predict::kept_times> kept = predict::times_in_memory({});
  for (int run = 0; run < runs; ++run) {
    f.begin_predictor({}, kept);
    f.train_at(20, 400, 400);
    caf::anon_send_exit(f.predictor, caf::exit_reason::user_shutdown);
    f.settle();
  }
  ++f.epoch;  // what was normal until now is not known
  return kept;
}

/// Whose parts are told of; what else is found of replicas that are so unlike is not looked at.
std::vector<std::string> slow_parts(predicted_replicas& f) {
  auto names = f.names();
  std::erase_if(names, [](const auto& name) { return !name.starts_with("slow_part"); });
  return names;
}

std::string slow_part_text(const fbs::FindingsT& all) {
  const auto found = std::ranges::find_if(
      all.findings, [](const auto& finding) { return finding->name == "slow_part"; });
  return found != all.findings.end() ? (*found)->text : "";
}

}  // namespace

TEST_CASE("MON-11: what takes longer than in all earlier runs is found, of a node without peers") {
  predicted_replicas f;
  const auto kept = kept_of_runs(f, 3);
  f.begin_predictor({}, kept);
  f.train_at(40, 400, 800);
  CHECK(slow_parts(f).empty());
  f.train_at(15, 400, 800);
  CHECK(slow_parts(f) == std::vector<std::string>{"slow_part b 1"});
  const auto found = f.findings(true);
  const auto text = slow_part_text(found);
  CHECK_MESSAGE(
      text.starts_with("slow: backward takes 800 ms a step, at most 592 by 3 earlier runs "
                       "of the same work there"),
      text);
  const auto shown = std::ranges::count_if(
      found.parts, [](const auto& p) { return p->rank == 1 && p->suspected == "slow"; });
  CHECK(shown == 1);
  f.train_at(75, 400, 400);
  CHECK(std::ranges::count(slow_parts(f), "slow_part b 1") == 0);
}

TEST_CASE("OPP-1: earlier runs of another model, or of no known one, are no past of this one") {
  for (const bool is_known : {false, true}) {
    CAPTURE(is_known);
    predicted_replicas f;
    auto kept = kept_of_runs(f, 3);
    auto times = kept->read();
    REQUIRE(times);
    for (auto& t : times->times) {
      REQUIRE((t.part == "step" || t.work_sum > 0));
      t.work_sum = is_known ? t.work_sum + 4 : 0;
    }
    f.begin_predictor({}, predict::times_in_memory(std::move(*times)));
    f.train_at(60, 400, 800);
    CHECK(slow_parts(f).empty());
  }
}

TEST_CASE("PRD-6: a run has a number that a line holds, however long its machine has been up") {
  constexpr int64_t day_ns = int64_t{86'400} * 1'000'000'000;
  io::perf::part_time t{"backward", "a", {1}, 1, 1};
  for (const int64_t days : {1, 105, 4'000}) {
    t.run = predict::number_of_run(days * day_ns);
    CHECK(t.run > 0);
    CHECK(io::perf::parse_part_time(io::perf::part_time_line(t))->run == t.run);
  }
  CHECK(predict::number_of_run(day_ns) != predict::number_of_run(day_ns + 1'000'000));
  CHECK(predict::number_of_run(0) > 0);
}

TEST_CASE("MON-11: where all take longer than in all earlier runs it is the job, and nobody's") {
  predicted_replicas f;
  const auto kept = kept_of_runs(f, 3);
  f.begin_predictor({}, kept);
  f.train_at(60, 800, 800);
  CHECK(slow_parts(f) == std::vector<std::string>{"slow_part "});
  const auto found = f.findings(true);
  const auto text = slow_part_text(found);
  CHECK_MESSAGE(text.starts_with("job: backward takes 800 ms a step on rank 0 as on most, at most "
                                 "592 by 3 earlier runs"),
                text);
  CHECK(std::ranges::count_if(found.parts, [](const auto& p) { return p->suspected == "job"; }) ==
        2);
}

TEST_CASE("MON-11: by two earlier runs nobody knows how much runs differ, and nobody is named") {
  predicted_replicas f;
  const auto kept = kept_of_runs(f, 2);
  f.begin_predictor({}, kept);
  f.train_at(60, 400, 800);
  CHECK(slow_parts(f).empty());
}
