// What the predictor doubts stands in what the monitor finds, which is the same without (MON-11).
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <caf/send.hpp>

#include "messages/rejection.hpp"
#include "tests/actors/health/predicted_replicas.hpp"

using namespace troupe;
using health::test::predicted_replicas;

namespace {

enum class with { nobody, predictor, killed_predictor };

/// Two replicas, and who predicts of them.
struct doubted_replicas : predicted_replicas {
  explicit doubted_replicas(with whom) {
    if (whom == with::nobody) return;
    begin_predictor();
    if (whom == with::killed_predictor) kill();
  }
  void kill() {
    caf::anon_send_exit(predictor, caf::exit_reason::kill);
    settle();
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
