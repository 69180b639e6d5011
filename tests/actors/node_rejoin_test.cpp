// How a node outlives its coordinator (NOD-7).
#include "actors/cluster/coordinator.hpp"
#include "tests/actors/scripted_node.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;

namespace {

/// A node of a job that recovers, with two ranks, whose coordinator has died.
struct bereft : scripted_node {
  partner next = make_partner("next", *caf::make_node_id(2, std::string(40, 'd')));

  explicit bereft(int64_t grace_s = 5, bool recovers = true) {
    join(welcome_of(node_epoch, grace_s, recovers));
    REQUIRE(assigned(ranks_of({0, 1})));
    pass_answered(1s);
    wires->there.clear();
    wires->tried.clear();
    coordinator.die();
  }
  static fbs::WelcomeT welcome_of(uint32_t epoch, int64_t grace_s = 5, bool recovers = true) {
    auto job = config::parse(job_with_meters(0), "job");
    REQUIRE(job);
    job->recovery.enabled = recovers;
    job->recovery.head_grace_s = grace_s;
    auto w = welcome();
    w.epoch = epoch;
    w.config_toml = config::to_toml(*job);
    return w;
  }
  void put_up_next() { wires->there[{"head", head_port}] = next.self(); }
  bool has_ranks() const { return living("stage/0") && living("worker/1") && living("loader/m"); }
};

}  // namespace

TEST_CASE("NOD-7: node: it keeps its ranks while it looks for another coordinator") {
  bereft f;
  f.pass(2s);
  CHECK(f.ends->empty());
  CHECK(f.has_ranks());
  CHECK(f.wires->tried.size() >= 5);
  for (const auto& where : f.wires->tried) CHECK(where == far_end{"head", head_port});
}

TEST_CASE("NOD-7: node: before it greets the next one nothing of its ranks is left") {
  bereft f;
  f.pass(1s);
  f.put_up_next();
  f.pass(400ms);
  CHECK_FALSE(f.living("stage/0"));
  CHECK_FALSE(f.living("worker/1"));
  CHECK_FALSE(f.living("loader/m"));
  const auto hello = f.next.take<fbs::Hello>();
  CHECK(hello->epoch() == node_epoch);
  CHECK(hello->pid() == static_cast<uint32_t>(getpid()));
  hello.answer<fbs::Welcome>([](auto& w) { w = bereft::welcome_of(node_epoch + 2); });
  CHECK(f.ends->empty());
  // It lives in that epoch, beats there, and takes ranks of it alone.
  f.pass(300ms);
  CHECK(f.next.take_all<fbs::Heartbeat>().size() == 1);
  const auto assign = [&](uint32_t epoch) {
    return f.next.answer_of<fbs::Assigned>(
        f.next.ask(f.target, make_msg<fbs::Assign>(f.context_of(epoch), bereft::ranks_of({1}))));
  };
  CHECK_FALSE(assign(node_epoch));
  REQUIRE(assign(node_epoch + 2));
  CHECK(f.living("stage/1"));
}

TEST_CASE("NOD-7: node: after the grace it ends, as without one, or without recovery") {
  {
    bereft f;
    f.pass(4900ms);
    CHECK(f.ends->empty());
    f.pass(700ms);
    CHECK(is_error(f.ended(), coordinator_lost));
  }
  CHECK(is_error(bereft(0).ended(), coordinator_lost));
  CHECK(is_error(bereft(5, false).ended(), coordinator_lost));
}

TEST_CASE("NOD-7: node: who is refused ends") {
  bereft f;
  f.put_up_next();
  f.pass(400ms);
  f.next.take<fbs::Hello>().refuse(left_the_cluster("m"));
  CHECK(is_error(f.ended(), left_the_cluster));
}

TEST_CASE("NOD-7: node: the next one may be lost as well, also before it has answered") {
  bereft f;
  f.put_up_next();
  f.pass(400ms);
  const auto hello = f.next.take<fbs::Hello>();
  f.wires->there.clear();
  f.next.die();
  hello.refuse(error{errc::unavailable, "the actor ended"});  // as CAF does
  f.pass(600ms);
  CHECK(f.ends->empty());
  auto third = f.make_partner("third", *caf::make_node_id(3, std::string(40, 'e')));
  f.wires->there[{"head", head_port}] = third.self();
  f.pass(400ms);
  third.take<fbs::Hello>().answer<fbs::Welcome>(
      [](auto& w) { w = bereft::welcome_of(node_epoch + 3); });
  f.pass(600ms);
  CHECK(third.take_all<fbs::Heartbeat>().size() == 2);  // one clock, not two
  CHECK(f.ends->empty());
}

TEST_CASE("NOD-4 NOD-7: node: a process that has lost its device does not go to the next one") {
  bereft f;
  f.machine->lost = error{errc::unavailable, "cudaErrorECCUncorrectable"};
  f.put_up_next();
  f.pass(400ms);
  CHECK(is_error(f.ended(), cluster::device_lost));
  CHECK(f.next.idle());
}
