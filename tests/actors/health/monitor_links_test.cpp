// The monitor where ranks wait for each other: whom it has tested, and whom it names then.
#include <functional>

#include <doctest/doctest.h>

#include "actors/health/medic.hpp"
#include "messages/any_msg.hpp"
#include "tests/actors/health/watched_cluster.hpp"

using namespace troupe;
using namespace troupe::health;
using namespace std::chrono_literals;

namespace {

using strings = std::vector<std::string>;
using medic_call = troupe::test::told<fbs::CallActor>;

/// Four nodes that train, a rank on each, whose links are tested.
struct tested_links : health::test::watched_cluster {
  tested_links() : watched_cluster(0, 4) { train(); }

  /// The tests that medics are asked for and have not answered, as "n0,n1".
  std::map<std::string, medic_call> tests() {
    std::map<std::string, medic_call> out;
    for (const auto& call : gateway.take_all<fbs::CallActor>()) {
      CHECK(call->actor()->str() == "medic/*");
      const auto m = decode({call->message()->data(), call->message()->size()});
      REQUIRE(m);
      REQUIRE(m->type() == message_traits<fbs::TestPair>::id);
      out.emplace(call->node()->str() + "," + text_of(cast<fbs::TestPair>(*m)->peer()), call);
    }
    return out;
  }
  template <class R>
  static void answer_with(const medic_call& call, const typename R::NativeTableType& report) {
    call.answer<fbs::CallAnswers>([&](auto& all) {
      auto& a = *all.answers.emplace_back(std::make_unique<fbs::CallAnswerT>());
      a.actor = "medic/one";
      a.message = encode(make_msg<R>({}, report));
    });
  }
  static void fail_with(const medic_call& call, const error& why) {
    call.answer<fbs::CallAnswers>([&](auto& all) {
      auto& a = *all.answers.emplace_back(std::make_unique<fbs::CallAnswerT>());
      a.actor = "medic/one";
      a.failure = std::make_unique<fbs::FailureT>();
      a.failure->code = static_cast<uint8_t>(why.code);
      a.failure->kind = why.kind;
      a.failure->message = why.message;
    });
  }
  /// Messages come through; a group comes to its end, or meets nobody.
  void answer(const medic_call& call, bool well) {
    answer_with<fbs::PairReport>(call, {});
    const auto group = gateway.take<fbs::CallActor>();
    const auto m = decode({group->message()->data(), group->message()->size()});
    REQUIRE(m);
    REQUIRE(m->type() == message_traits<fbs::TestGroup>::id);
    CHECK(text_of(cast<fbs::TestGroup>(*m)->nodes()).starts_with(call->node()->str() + ","));
    fbs::GroupReportT r;
    for (const char* node : {"one", "other"}) {
      auto& member = *r.members.emplace_back(std::make_unique<fbs::GroupMemberT>());
      member.node = node;
      if (well)
        member.seen = std::make_unique<fbs::TestGroupSeenT>();
      else
        member.failure = "nobody came";
    }
    answer_with<fbs::GroupReport>(group, r);
  }
  /// The monitor hears whom the rank of each node waits for, and for what; n0 has a loader, too.
  void answer_waits(const std::function<fbs::ActorWaitT(int)>& of) {
    gateway.take<fbs::ListActors>().answer<fbs::ClusterView>([&](fbs::ClusterViewT& v) {
      for (int i = 0; i < 4; ++i) {
        auto& n = *v.nodes.emplace_back(std::make_unique<fbs::ActorListT>());
        n.node = fmt::format("n{}", i);
        auto& worker = *n.actors.emplace_back(std::make_unique<fbs::ActorInfoT>());
        worker.path = fmt::format("worker/{}", i);
        worker.waits.push_back(std::make_unique<fbs::ActorWaitT>(of(i)));
      }
      v.nodes.front()->actors.emplace_back(std::make_unique<fbs::ActorInfoT>())->path = "loader/n0";
    });
  }
  static fbs::ActorWaitT wait_for(std::string whom, std::string what, int64_t seconds) {
    fbs::ActorWaitT out;
    out.whom = std::move(whom);
    out.what = std::move(what);
    out.for_ns = seconds * 1'000'000'000;
    return out;
  }
  /// What the coordinator is told of.
  strings lost() {
    strings out;
    for (const auto& l : coordinator.take_all<fbs::Leave>())
      out.push_back(fmt::format("{} {}: {}", text_of(l->node()), text_of(l->finding()),
                                text_of(l->reason())));
    return out;
  }
};

/// All wait for the rank of n1, and that for the loader of n0, which waits for nobody.
struct lost_request : tested_links {
  lost_request() {
    pass_with(4, everybody, false);
    answer_waits([](int rank) {
      return rank == 1 ? wait_for("loader/n0", "batch 7", 5)
                       : wait_for("worker/1", "all_reduce 1", 5);
    });
  }
};

/// The ranks of n0 and n1 wait for each other.
struct circle_of_two : tested_links {
  circle_of_two() {
    pass_with(4, everybody, false);
    answer_circle();
  }

  void answer_circle() {
    answer_waits([](int rank) {
      return rank == 0 ? wait_for("worker/1", "reduce_scatter 1", 5)
                       : wait_for("worker/0", "reduce_scatter 1", 4);
    });
  }
};

}  // namespace

TEST_CASE("MON-7: of two that wait for each other the one that fails with a third node is lost") {
  circle_of_two f;
  auto first = f.tests();
  REQUIRE(first.size() == 2);
  f.answer(first.at("n2,n3"), true);
  CHECK(f.tests().empty());  // each waits for the whole round
  f.answer(first.at("n0,n1"), false);
  auto second = f.tests();
  REQUIRE(second.size() == 2);
  f.answer(second.at("n0,n2"), true);
  f.answer(second.at("n1,n3"), false);
  f.pass_with(1, f.everybody, false);
  CHECK(f.names() == strings{"half_open_link n1", "stuck_collective n0 0"});
  CHECK(f.lost().empty());
  f.pass_with(31, f.everybody, false);
  const auto lost = f.lost();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].starts_with("n1 half_open_link: holds up all others for 30 s"));
  CHECK(lost[0].find("n0, or n3") != std::string::npos);
  f.pass_with(2, f.everybody, true);
  CHECK(f.names().empty());
}

TEST_CASE("MON-7: who waits for nobody is not lost where what it was asked did not come to it") {
  lost_request f;
  auto first = f.tests();
  REQUIRE(first.size() == 2);
  f.answer(first.at("n2,n3"), true);
  f.answer(first.at("n1,n0"), false);
  auto second = f.tests();
  REQUIRE(second.size() == 2);
  f.answer(second.at("n0,n3"), true);
  f.answer(second.at("n1,n2"), false);
  f.pass_with(31, f.everybody, false);
  CHECK(f.names() == strings{"half_open_link n1", "stuck_collective n0"});
  const auto lost = f.lost();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].starts_with("n1 half_open_link: holds up all others for "));
}

TEST_CASE("MON-7: messages that do not come through are a failure, a medic that is busy is none") {
  for (const bool busy : {false, true}) {
    circle_of_two f;
    auto first = f.tests();
    f.answer(first.at("n2,n3"), true);
    const auto silent = nothing_came_back("n1", 4'000);
    f.fail_with(first.at("n0,n1"), busy ? exchange_under_way("n1") : error(silent));
    auto second = f.tests();
    CHECK(second.size() == (busy ? 0 : 2));
    for (const auto& [nodes, test] : second)
      nodes == "n0,n2" ? f.fail_with(test, silent) : f.answer(test, true);
    f.pass_with(1, f.everybody, false);
    const strings found{"half_open_link n0", "stuck_collective n0 0"}, stuck{found[1]};
    CHECK(f.names() == (busy ? stuck : found));
  }
}

TEST_CASE("MON-7: two that do well with others are a cut pair, and one of them is lost") {
  circle_of_two f;
  auto first = f.tests();
  f.answer(first.at("n0,n1"), false);
  f.answer(first.at("n2,n3"), true);
  for (const auto& [nodes, test] : f.tests()) f.answer(test, true);
  f.pass_with(1, f.everybody, false);
  CHECK(f.names() == strings{"cut_pair n0", "stuck_collective n0 0"});
  f.pass_with(31, f.everybody, false);
  const auto lost = f.lost();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].starts_with("n0 cut_pair: holds up"));
}

TEST_CASE("MON-7: nobody is lost while links are tested, and a refused test accuses nobody") {
  circle_of_two f;
  auto first = f.tests();
  f.pass_with(40, f.everybody, false);  // longer than recovery.stuck_after_s
  CHECK(f.tests().empty());
  CHECK(f.lost().size() == 1);  // the gateway kept silent: that is the end of the tests
  circle_of_two g;
  for (const auto& [nodes, test] : g.tests()) test.refuse({errc::unavailable, "it is at another"});
  CHECK(g.tests().empty());
  g.pass_with(31, g.everybody, false);
  CHECK(g.names() == strings{"stuck_collective n0 0"});
  const auto lost = g.lost();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].starts_with("n0 stuck_collective"));
}

TEST_CASE("MON-7: what tests show once the job moves again counts for nothing") {
  circle_of_two f;
  auto first = f.tests();
  f.pass_with(2, f.everybody, true);
  f.answer(first.at("n0,n1"), false);
  f.answer(first.at("n2,n3"), true);
  CHECK(f.tests().empty());
  CHECK(f.names().empty());
  CHECK(f.lost().empty());
}

TEST_CASE("MON-7: who waits is not asked while medics wait for each other") {
  circle_of_two f;
  const auto first = f.tests();
  f.pass_with(3, f.everybody, false);
  for (const auto& [nodes, test] : first) f.answer_with<fbs::PairReport>(test, {});
  f.pass_with(6, f.everybody, false);  // longer than between two questions
  CHECK(f.gateway.take_all<fbs::ListActors>().empty());
  for (const auto& sums : f.gateway.take_all<fbs::CallActor>())
    f.fail_with(sums, exchange_under_way("n1"));
  f.pass_with(2, f.everybody, false);
  f.answer_circle();
  CHECK(f.tests().empty());  // once in this time
}

TEST_CASE("MON-9: the links of a node that was lost over one are tested when it comes back") {
  for (const bool sick : {true, false}) {
    tested_links f;
    f.decide("n1", "half_open_link");
    f.pass_with(2, f.everybody, true);
    auto first = f.tests();
    REQUIRE(first.size() == 2);
    for (const auto& [nodes, test] : first) f.answer(test, !sick || nodes.find("n1") == nodes.npos);
    const auto second = f.tests();
    CHECK(second.empty() != sick);
    for (const auto& [nodes, test] : second) f.answer(test, nodes.find("n1") == nodes.npos);
    f.pass_with(1, f.everybody, true);
    const auto told = f.coordinator.take_all<fbs::FindingTold>();
    REQUIRE(told.size() == (sick ? 1 : 0));
    if (sick) CHECK(told[0]->finding()->node()->str() == "n1");
    const auto said = f.notices();
    REQUIRE(said.size() == (sick ? 1 : 0));
    if (sick) CHECK(said[0].starts_with("half_open_link n1: no test between it and "));
    f.pass_with(5, f.everybody, true);
    CHECK(f.tests().empty());  // once
  }
}

TEST_CASE("MON-9: they are where the next epoch has another number of replicas, too") {
  tested_links f;
  f.decide("n1", "half_open_link");
  f.run->publish([](fbs::StatusValuesT& v) { values_of<fbs::RunStatusT>(v).replicas = 2; });
  f.person.tell(f.target, make_msg<fbs::StepDone>(f.context_of(health::test::monitor_epoch + 1),
                                                  [&](auto& d) { d.step = f.step; }));
  f.pass_with(2, f.everybody, true);
  CHECK(f.tests().size() == 2);
}

TEST_CASE(
    "RTN-1: tests of a node that came back are made again where they say nothing, then told") {
  for (const bool well_at_last : {true, false}) {
    tested_links f;
    f.decide("n1", "half_open_link");
    for (int i = 1; i <= returned_policy::most_tests; ++i) {
      f.pass_with(2, f.everybody, true);
      const auto first = f.tests();
      REQUIRE(first.size() == 2);
      const bool last = i == returned_policy::most_tests;
      for (const auto& [nodes, test] : first)
        if (last && well_at_last)
          f.answer(test, true);
        else
          f.fail_with(test, exchange_under_way("n1"));
      CHECK(f.tests().empty());
      CHECK(f.notices().size() == (last && !well_at_last ? 1 : 0));
      f.pass_with(returned_policy::usual_pause_s - 4, f.everybody, true);
      CHECK(f.tests().empty());
      f.pass_with(5, f.everybody, true);
    }
    CHECK(f.tests().empty());
    CHECK(f.coordinator.take_all<fbs::FindingTold>().empty());
  }
}
