// A predictor beside a simulated head: training does not know whether there is one (PRD-1).
#include "actors/predict/predictor.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <caf/send.hpp>

#include "actors/sim/simulation.hpp"
#include "messages/message_list.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

enum class beside { nobody, predictor, killed_predictor };

struct predicted_training {
  simulation_outcome done;
  std::vector<std::pair<uint16_t, std::string>> orders;  ///< what ranks were told, in some order
  size_t told = 0, taken = 0;
};

predicted_training trained(beside what) {
  predicted_training out;
  simulation_options o;
  o.nodes = 4;
  o.pipeline = 2;
  o.steps = 12;
  o.validate_every = 5;
  o.beside = [&](world& w, train::spawn_record& record) {
    if (what == beside::nobody) return;
    record.predictor =
        w.spawn(0, predict::predictor, predict::predictor_options{record.plan.job, record.epoch});
    if (what == beside::killed_predictor)
      caf::anon_send_exit(record.predictor, caf::exit_reason::kill);
  };
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

TEST_CASE("PRD-1: a predictor that learns, or was killed, changes no message of training") {
  const auto without = trained(beside::nobody);
  CHECK(without.done.ends == std::vector<std::string>{"success"});
  CHECK(without.told == 0);
  REQUIRE_FALSE(without.orders.empty());
  const auto with = trained(beside::predictor);
  CHECK(with.told > 0);
  CHECK(with.taken == with.told);
  const auto killed = trained(beside::killed_predictor);
  CHECK(killed.taken == 0);
  CHECK(killed.told <= 1);
  for (const auto* other : {&with, &killed}) {
    CHECK_MESSAGE(!other->done.violation, other->done.violation.value_or(""));
    CHECK(other->done.ends == without.done.ends);
    CHECK(other->done.losses == without.done.losses);
    CHECK((other->orders == without.orders));
  }
}
