// The medic in groups: it leads a test, takes part in one, and accuses nobody who had no time.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "actors/cluster/coordinator.hpp"
#include "actors/health/medic.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::health;
using troupe::test::partner;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t group_epoch = 3;

/// A group whose other members give what they should.
class known_group final : public gpu::communicator {
 public:
  explicit known_group(const gpu::group_options& o) : rank_(o.rank), size_(o.size) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  void all_reduce_sum(gpu::stream&, float* data, int64_t count) override {
    std::vector<float> part(static_cast<size_t>(count));
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      numbers_.part_of(static_cast<size_t>(other), part);
      for (size_t i = 0; i < part.size(); ++i) data[i] += part[i];
    }
  }
  void all_reduce_sum(gpu::stream&, double*, int64_t) override {}
  void reduce_scatter_sum(gpu::stream&, float*, int64_t) override {}
  void all_gather(gpu::stream& s, void* data, size_t bytes) override {
    s.host_task([this, data, bytes] {
      for (int other = 0; other < size_; ++other)
        numbers_.part_of(static_cast<size_t>(other),
                         {static_cast<float*>(data) + static_cast<size_t>(other) * bytes / 4,
                          bytes / 4});
      return status();
    });
  }
  void send(gpu::stream&, const void*, size_t, int, uint64_t) override {}
  void receive(gpu::stream&, void*, size_t, int, uint64_t) override {}
  void abort() noexcept override {}

 private:
  known_sum numbers_;
  int rank_, size_;
};

/// Notes what it is to connect to.
class known_end final : public gpu::pending_group {
 public:
  known_end(const gpu::group_options& o, std::vector<std::string>* offered, error* fails)
      : options_(o), offered_(offered), fails_(fails), addresses_(static_cast<size_t>(o.size)) {
    for (size_t i = 0; i < addresses_.size(); ++i)
      if (static_cast<int>(i) != o.rank) addresses_[i] = fmt::format("end of {}", o.rank);
  }
  const std::vector<std::string>& addresses() const noexcept override { return addresses_; }
  result<std::unique_ptr<gpu::communicator>> connect(
      const std::vector<std::string>& offered) override {
    *offered_ = offered;
    if (fails_->code != errc::none) return *fails_;
    return std::unique_ptr<gpu::communicator>(std::make_unique<known_group>(options_));
  }

 private:
  gpu::group_options options_;
  std::vector<std::string>* offered_;
  error* fails_;
  std::vector<std::string> addresses_;
};

struct medic_in_groups : troupe::test::actor_fixture {
  partner coordinator = make_partner("coordinator"), b = make_partner("node/b"),
          c = make_partner("node/c"), person = make_partner("person");
  std::vector<std::string> offered;
  error fails{errc::none, ""};
  medic_actor target;

  medic_in_groups() : actor_fixture(group_epoch) {
    medic_options o;
    o.node = "a";
    o.epoch = group_epoch;
    o.coordinator = coordinator.as<coordinator_actor>();
    o.examine = [](const fbs::RunCheckupT&, std::stop_token) { return fbs::CheckupReportT(); };
    o.open_group = [this](const gpu::group_options& options) {
      return result<std::unique_ptr<gpu::pending_group>>(
          std::make_unique<known_end>(options, &offered, &fails));
    };
    target = spawn(medic, o);
  }
  uint64_t lead(const std::string& nodes, uint32_t rounds = 2) {
    return person.ask(target, make_msg<fbs::TestGroup>({}, [&](auto& t) {
                        t.nodes = nodes;
                        t.rounds = rounds;
                      }));
  }
  void find(const partner& node) {
    coordinator.take<fbs::FindNode>().answer<fbs::Ack>([](auto&) {}, node.self());
  }
  /// The node opens an end; the group's name.
  static std::string open(const partner& node, uint32_t rank) {
    const auto m = node.take<fbs::OpenTestGroup>();
    CHECK(m->rank() == rank);
    m.answer<fbs::TestGroupEnd>(
        [&](auto& e) { e.address = {'e', static_cast<uint8_t>('0' + rank)}; });
    return m->group()->str();
  }
  static void join(const partner& node, uint64_t wrong = 0) {
    const auto m = node.take<fbs::JoinTestGroup>();
    CHECK(m->rounds() == 2);
    m.answer<fbs::TestGroupSeen>([&](auto& s) {
      s.start_ms = 5;
      s.wrong_sums = wrong;
    });
  }
  result<fbs::GroupReportT> report_of(uint64_t number) {
    const auto r = person.answer_of<fbs::GroupReport>(number);
    if (!r) return r.error();
    return r->unpack();
  }
  uint64_t open_here(const std::string& group, uint32_t rank = 1, uint32_t size = 2) {
    return person.ask(target, make_msg<fbs::OpenTestGroup>({}, [&](auto& o) {
                        o.group = group;
                        o.rank = rank;
                        o.size = size;
                      }));
  }
  result<msg<fbs::TestGroupSeen>> join_here(const std::string& group) {
    return person.answer_of<fbs::TestGroupSeen>(
        person.ask(target, make_msg<fbs::JoinTestGroup>({}, [&](auto& j) {
                     j.group = group;
                     for (const char* end : {"first", "second"}) {
                       j.ends.push_back(std::make_unique<fbs::TestGroupEndT>());
                       j.ends.back()->address.assign(end, end + std::string(end).size());
                     }
                     j.rounds = 1;
                   })));
  }
};

}  // namespace

TEST_CASE("medic: it leads a group: all listen, all join, and each says what it saw") {
  medic_in_groups f;
  const auto n = f.lead("a,b,c");
  f.find(f.b);
  f.find(f.c);
  CHECK(f.open(f.b, 1) == f.open(f.c, 2));
  CHECK(f.offered == std::vector<std::string>{"", "e1", "e2"});
  f.join(f.b, 3);
  CHECK(f.report_of(n).error().code == errc::timeout);  // c has not said anything
  f.join(f.c);
  const auto r = f.report_of(n);
  REQUIRE(r);
  REQUIRE(r->members.size() == 3);
  CHECK(r->members[0]->node == "a");
  REQUIRE(r->members[0]->seen);
  CHECK(r->members[0]->seen->wrong_sums == 0);
  CHECK(r->members[0]->seen->wrong_gathered == 0);
  REQUIRE(r->members[1]->seen);
  CHECK(r->members[1]->seen->wrong_sums == 3);
  CHECK(r->members[2]->seen);
}

TEST_CASE("MED-7: who cannot listen accuses nobody, and nobody joins") {
  medic_in_groups f;
  auto n = f.lead("a,b");
  f.find(f.b);
  f.b.take<fbs::OpenTestGroup>().refuse(exchange_under_way("c"));
  CHECK(is_error(f.report_of(n).error(), member_absent, "b"));
  CHECK(f.b.idle());
  n = f.lead("a,b");
  f.coordinator.take<fbs::FindNode>().refuse(cluster::node_not_here("b"));
  CHECK(is_error(f.report_of(n).error(), member_absent, "b"));
  n = f.lead("a,b");
  f.find(f.b);
  f.b.take_all<fbs::OpenTestGroup>();
  f.pass(2s);  // as its contract says
  CHECK(is_error(f.report_of(n).error(), member_absent, "b"));
  CHECK(f.offered.empty());
}

TEST_CASE("MED-7: an end that was closed meanwhile accuses nobody, another failure is told") {
  medic_in_groups f;
  auto n = f.lead("a,b");
  f.find(f.b);
  f.open(f.b, 1);
  f.b.take<fbs::JoinTestGroup>().refuse(no_such_end("g"));
  CHECK(is_error(f.report_of(n).error(), member_absent, "b"));
  f.fails = {errc::timeout, "nobody came"};
  n = f.lead("a,b");
  f.find(f.b);
  f.open(f.b, 1);
  f.b.take<fbs::JoinTestGroup>().refuse({errc::unavailable, "the network is down"});
  const auto r = f.report_of(n);
  REQUIRE(r);
  CHECK_FALSE(r->members[0]->seen);
  CHECK(r->members[0]->failure == "nobody came");
  CHECK(r->members[1]->failure == "the network is down");
}

TEST_CASE("MED-6: members are 2 to 64 nodes, each once, first who is asked") {
  medic_in_groups f;
  std::string many = "a";
  for (size_t i = 1; i < known_sum::most_members; ++i) many += fmt::format(",n{}", i);
  for (const std::string& nodes : {std::string("a"), std::string("b,a"), std::string("a,a"),
                                   std::string("a,b,b"), std::string(), many + ",one-more"}) {
    CAPTURE(nodes);
    CHECK(is_error(f.report_of(f.lead(nodes)).error(), invalid_group));
    CHECK(f.coordinator.idle());
  }
  f.lead(many);
  CHECK(f.coordinator.take_all<fbs::FindNode>().size() == known_sum::most_members - 1);
}

TEST_CASE("MED-6: no more than 64 sums, whoever asks") {
  medic_in_groups f;
  for (const auto& [asked, made] : {std::pair{1'000'000u, 64u}, {0u, 1u}}) {
    const auto n = f.lead("a,b", asked);
    f.find(f.b);
    f.open(f.b, 1);
    const auto m = f.b.take<fbs::JoinTestGroup>();
    CHECK(m->rounds() == made);
    m.answer<fbs::TestGroupSeen>([](auto&) {});
    CHECK(f.report_of(n));
  }
}

TEST_CASE("MED-6: an end is joined under its name, once, and closed when nobody comes") {
  medic_in_groups f;
  const auto end = f.person.answer_of<fbs::TestGroupEnd>(f.open_here("g"));
  REQUIRE(end);
  CHECK(end->unpack().address.size() == std::string("end of 1").size());
  CHECK(is_error(f.join_here("h").error(), no_such_end));
  const auto seen = f.join_here("g");
  REQUIRE(seen);
  CHECK(f.offered == std::vector<std::string>{"first", ""});
  CHECK(seen->unpack().wrong_sums == 0);
  CHECK(is_error(f.join_here("g").error(), no_such_end));
  REQUIRE(f.person.answer_of<fbs::TestGroupEnd>(f.open_here("g")));
  f.pass(defaults::group_patience);
  CHECK(is_error(f.join_here("g").error(), no_such_end));
}

TEST_CASE("MED-6: the newest end counts, and the time of the one before does not end it") {
  medic_in_groups f;
  f.open_here("g");
  f.pass(defaults::group_patience - 1s);
  f.open_here("h");
  f.pass(2s);
  CHECK(is_error(f.join_here("g").error(), no_such_end));
  CHECK(f.join_here("h"));
}

TEST_CASE("MED-6: an end that could be none's is refused") {
  medic_in_groups f;
  for (const auto& [rank, size] : {std::pair{1u, 1u}, {2u, 2u}, {0u, 65u}}) {
    CAPTURE(size);
    const auto n = f.open_here("g", rank, size);
    CHECK(is_error(f.person.answer_of<fbs::TestGroupEnd>(n).error(), invalid_group));
  }
}

TEST_CASE("MED-4: while it leads a group it leads no other, and takes part in none") {
  medic_in_groups f;
  const auto n = f.lead("a,b");
  CHECK(is_error(f.report_of(f.lead("a,c")).error(), exchange_under_way, "b"));
  CHECK(is_error(f.person.answer_of<fbs::TestGroupEnd>(f.open_here("g")).error(),
                 exchange_under_way, "b"));
  f.find(f.b);
  f.open(f.b, 1);
  f.join(f.b);
  CHECK(f.report_of(n));
  CHECK(f.person.answer_of<fbs::TestGroupEnd>(f.open_here("g")));
}

TEST_CASE("MED-7: an examination that falls into a test ends it, and accuses nobody") {
  medic_in_groups f;
  const auto n = f.lead("a,b");
  f.find(f.b);
  f.person.ask(f.target, make_msg<fbs::RunCheckup>());
  CHECK(is_error(f.report_of(n).error(), exchange_interrupted, "a"));
  f.open(f.b, 1);
  CHECK(f.b.idle());  // nobody is to join it
  f.open_here("g");
  f.person.ask(f.target, make_msg<fbs::RunCheckup>());
  CHECK(is_error(f.join_here("g").error(), no_such_end));
}

TEST_CASE("MED-5: a test of a group that waited longer than its asker is not done") {
  medic_in_groups f;
  f.pass(200s);
  message_context before;
  before.now_ns = f.now_ns() - std::chrono::nanoseconds(9s).count();
  const auto n = f.person.ask(f.target, make_msg<fbs::OpenTestGroup>(before, [](auto& o) {
                                o.group = "g";
                                o.rank = 1;
                                o.size = 2;
                              }));
  CHECK(is_error(f.person.answer_of<fbs::TestGroupEnd>(n).error(), nobody_waits));
  const auto m = f.person.ask(
      f.target, make_msg<fbs::JoinTestGroup>(before, [](auto& j) { j.group = "g"; }));
  CHECK(is_error(f.person.answer_of<fbs::TestGroupSeen>(m).error(), nobody_waits));
}
