// A predictor beside a simulated head: training does not know whether there is one (PRD-1).
#include "actors/predict/predictor.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/sim/simulation.hpp"
#include "messages/message_list.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

struct layout {
  int nodes = 4, workers = 1, pipeline = 2, micro_batches = 2;
};

struct predicted_training {
  simulation_outcome done;
  std::vector<std::pair<uint16_t, std::string>> orders;  ///< what ranks were told, in some order
  size_t told = 0, taken = 0;
};

predicted_training trained(predictor_is what, const layout& of = {},
                           const std::vector<fault>& faults = {}) {
  predicted_training out;
  simulation_options o;
  o.nodes = of.nodes;
  o.workers = of.workers;
  o.pipeline = of.pipeline;
  o.micro_batches = of.micro_batches;
  o.steps = 12;
  o.validate_every = 5;
  o.predictor = what;
  o.faults = faults;
  o.sees = [&](const any_msg& m, int64_t) {
    out.told += m.type() == message_traits<fbs::StepTimes>::id;
    out.taken += m.type() == message_traits<fbs::StepTimesTaken>::id;
    if (m.type() != message_traits<fbs::RunStep>::id &&
        m.type() != message_traits<fbs::FinishStep>::id &&
        m.type() != message_traits<fbs::RunOp>::id)
      return;
    const auto bytes = m.payload();
    out.orders.emplace_back(m.type(),
                            std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  };
  auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  out.done = std::move(*done);
  std::sort(out.orders.begin(), out.orders.end());
  return out;
}

}  // namespace

TEST_CASE("PRD-1: a predictor that learns, hangs or was killed changes no message of training") {
  const std::vector<fault> slow{{fault_kind::slow_all, 300'000'000, 5'000'000'000, 3}};
  for (const auto& of :
       {layout{}, layout{1, 1, 1, 1}, layout{2, 2, 1, 3}, layout{3, 2, 2, 4}, layout{8, 1, 8, 2}})
    for (const auto& faults : {std::vector<fault>{}, slow}) {
      CAPTURE(of.nodes);
      CAPTURE(of.pipeline);
      CAPTURE(faults.size());
      const auto without = trained(predictor_is::absent, of, faults);
      CHECK(without.done.ends == std::vector<std::string>{"success"});
      CHECK(without.told == 0);
      REQUIRE_FALSE(without.orders.empty());
      const auto with = trained(predictor_is::working, of, faults);
      CHECK(with.told > 0);
      CHECK(with.taken == with.told);
      const auto hung = trained(predictor_is::hung, of, faults);
      CHECK(hung.told == 0);  // what was sent is never heard
      CHECK(hung.taken == 0);
      const auto killed = trained(predictor_is::killed, of, faults);
      CHECK(killed.taken == 0);
      CHECK(killed.told <= 1);
      for (const auto* other : {&with, &hung, &killed}) {
        CHECK_MESSAGE(!other->done.violation, other->done.violation.value_or(""));
        CHECK(other->done.ends == without.done.ends);
        CHECK(other->done.losses == without.done.losses);
        CHECK((other->orders == without.orders));
      }
    }
}
