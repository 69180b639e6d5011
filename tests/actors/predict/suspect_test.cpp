// What the predictor doubts stands in what the monitor finds, which is the same without (MON-11).
#include <algorithm>
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <caf/send.hpp>

#include "actors/predict/predictor.hpp"
#include "messages/rejection.hpp"
#include "tests/actors/health/training_replicas.hpp"

using namespace troupe;
using health::test::monitor_epoch;
using health::test::training_replicas;

namespace {

enum class with { nobody, predictor, killed_predictor };

/// Two replicas under the eyes of a monitor and of a predictor.
struct doubted_replicas : training_replicas {
  predictor_actor predictor;
  uint64_t told = 0;

  explicit doubted_replicas(with whom) : training_replicas(false, 10) {
    run->started(caf::actor_cast<caf::weak_actor_ptr>(person.self()), 1);
    if (whom == with::nobody) return;
    auto job = train::test::planned_job().job;
    job.parallel.data = 2;
    predict::predictor_options o{job, monitor_epoch};
    o.monitor = target;
    predictor = spawn(predict::predictor, o);
    if (whom == with::killed_predictor) kill();
  }
  void kill() {
    caf::anon_send_exit(predictor, caf::exit_reason::kill);
    settle();
  }
  void tell_times(double first_ms, double second_ms) {
    if (!predictor || !lives(predictor)) return;
    person.tell(predictor, make_msg<fbs::StepTimes>(context_of(epoch), [&](auto& t) {
                  t.step = ++told;
                  t.took_ms = std::max(first_ms, second_ms) + 10;
                  t.replicas = 2;
                  for (uint32_t rank = 0; rank < 2; ++rank) {
                    auto& r = *t.ranks.emplace_back(std::make_unique<fbs::RankTimesT>());
                    r.rank = rank;
                    r.node = rank == 0 ? "a" : "b";
                    r.layers = r.threads = 1;
                    auto& p = *r.parts.emplace_back(std::make_unique<fbs::StepPartT>());
                    p.kind = "backward";
                    p.busy_ms = rank == 0 ? first_ms : second_ms;
                    p.work = 64;
                  }
                }));
  }
  void train_at(int seconds, double first_ms, double second_ms) {
    for (int i = 0; i < seconds; ++i) {
      make_steps(1, first_ms, second_ms);
      for (int step = 0; step < 2; ++step) tell_times(first_ms, second_ms);
    }
  }
  std::string slow_part() {
    const auto all = findings().findings;
    REQUIRE(all.size() == 1);
    CHECK(all[0]->name == "slow_part");
    CHECK(all[0]->node == "b");
    CHECK(all[0]->rank == 1);
    return all[0]->text;
  }
  uint32_t suspects() const { return stats_of(predictor)->values().predictor->suspects; }
  /// As the predictor would, if it were one.
  void doubt(const troupe::test::partner& by) const {
    by.tell(target, make_msg<fbs::Suspect>(context_of(epoch), [](auto& s) {
              s.rank = 1;
              s.node = "b";
              s.expected = std::make_unique<fbs::ExpectedTimeT>();
              s.expected->part = "backward";
              s.expected->mean_ms = 7;
            }));
  }
};

/// What a rank's backward that got slow is found to be.
std::string found_with(with whom) {
  doubted_replicas f(whom);
  f.train_at(25, 400, 400);
  CHECK(f.names().empty());
  f.train_at(12, 400, 600);
  return f.slow_part();
}

}  // namespace

TEST_CASE("MON-11: what was expected of a slow part stands in its finding, and without, the rest") {
  const auto without = found_with(with::nobody);
  CHECK(without.starts_with("slow: backward takes 600 ms a step, 400 +- 0 until step "));
  CHECK(found_with(with::killed_predictor) == without);
  const auto doubted = found_with(with::predictor);
  REQUIRE(doubted.starts_with(without));
  CHECK(doubted.substr(without.size()).starts_with("; 400 ms were expected, "));
}

TEST_CASE("MON-11: a part that the predictor doubts and the monitor does not is no finding") {
  doubted_replicas f(with::predictor);
  f.train_at(25, 400, 400);
  f.train_at(10, 560, 560);  // the job is slower, and nobody
  CHECK(f.suspects() == 2);
  CHECK(f.names().empty());
  f.train_at(12, 400, 400);
  CHECK(f.suspects() == 0);
}

TEST_CASE("MON-11: what another than the predictor of its process doubts is not believed") {
  doubted_replicas f(with::predictor);
  f.train_at(25, 400, 400);
  f.kill();
  const auto stranger = f.make_partner("node");
  const auto before = counts().of(reject::forbidden);
  f.doubt(stranger);
  CHECK(counts().of(reject::forbidden) == before + 1);
  f.train_at(12, 400, 600);
  CHECK(f.slow_part().find("expected") == std::string::npos);
}
