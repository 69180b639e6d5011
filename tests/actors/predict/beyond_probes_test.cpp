// What a node's own probes rule out is found by the monitor, of a pair of nodes as of one (MON-11).
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

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
