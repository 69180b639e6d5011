// Who sets a budget or its brake, as the audit log is told it, and the way to the gateway.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/base/hardware.hpp"
#include "io/base/text.hpp"
#include "tests/actors/power/scripted_budget.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

/// In the order in which it was told.
struct told_orders final : order_keeper {
  struct line {
    uint64_t number = 0;
    order_said said = {};
    std::optional<std::string> result = {};
  };
  std::vector<line> lines;

  void begins(uint64_t number, order_said said) override {
    lines.push_back({number, std::move(said), std::nullopt});
  }
  void ends(uint64_t number, const std::string& result) override {
    lines.push_back({number, {}, result});
  }
};

/// A budget whose persons are elsewhere, and known.
struct audited_budget : scripted_budget {
  std::shared_ptr<told_orders> orders = std::make_shared<told_orders>();
  caf::node_id process = *caf::make_node_id(1, std::string(40, 'd'));

  /// `on_disk`: what is set is to be in a record before it is answered.
  explicit audited_budget(bool on_disk = false) {
    REQUIRE(runtime().peers.bind(process, {"alice", tls::role::operator_}, 0, "10.0.0.7"));
    if (on_disk) keeper = std::make_shared<scripted_keeper>();
    auto o = options(2, 70'000);
    o.orders = orders;
    target = spawn(budget, o);
    person = make_partner("alice", process);
  }
};

}  // namespace

TEST_CASE("BGA-10: budget: who sets it is told before it is done, and what came of it after") {
  audited_budget f;
  REQUIRE(f.set(60'000, 7'200'000));
  REQUIRE(f.orders->lines.size() == 2);
  const auto& begun = f.orders->lines[0];
  CHECK(begun.number == 1);
  CHECK(begun.said.who == "alice");
  CHECK(begun.said.role == "operator");
  CHECK(begun.said.from == "10.0.0.7");
  CHECK(begun.said.command == "SetPowerBudget");
  CHECK(begun.said.message.find("60000") != std::string::npos);
  CHECK(f.orders->lines[1].number == 1);
  CHECK(f.orders->lines[1].result->find("60 W") != std::string::npos);

  CHECK(!f.set(59'000));  // static shares are 60 W together
  REQUIRE(f.orders->lines.size() == 4);
  CHECK(f.orders->lines[2].number == 2);
  CHECK(f.orders->lines[3].result->find("59 W") != std::string::npos);

  CHECK(f.brake(true));
  CHECK(f.orders->lines[4].said.command == "SetPowerBrake");
  CHECK(f.orders->lines.size() == 6);
  CHECK(!f.brake(true, "row1"));
  CHECK(f.orders->lines.size() == 8);
  CHECK(f.tree().cap_mw == 60'000);
  CHECK(f.orders->lines.size() == 8);  // who only asks changes nothing
}

TEST_CASE("BGA-10: budget: an order that waits for the disk has its result once it is answered") {
  audited_budget f(true);
  f.seconds(2);
  f.keeper->answers = false;
  const auto asked = f.ask_brake(true);
  REQUIRE(f.orders->lines.size() == 1);
  f.keeper->answers = true;
  f.pass(2s);
  REQUIRE(f.person.answer_of<fbs::Ack>(asked));
  REQUIRE(f.orders->lines.size() == 2);
  CHECK(f.orders->lines[1].number == 1);
  CHECK(f.orders->lines[1].result->find("holds all work") != std::string::npos);
}

TEST_CASE("BGA-10: budget: what its own gateway passes on is kept by that, and not twice") {
  audited_budget f;
  f.person = f.make_partner("observer");
  CHECK(f.brake(true));
  CHECK(f.orders->lines.empty());
}

TEST_CASE("budget: a person's tool is led to its gateway, as who it is known and what it may") {
  audited_budget f;
  const auto find = [&](const partner& from, uint64_t hash) {
    return from.ask(f.target, f.make<fbs::FindGateway>([&](auto& m) { m.schema_hash = hash; }));
  };
  const auto own = cluster::own_schema_hash();
  const auto none = f.person.answer_of<fbs::GatewayFound>(find(f.person, own));
  REQUIRE(!none);
  CHECK(none.error().code == errc::unavailable);

  auto o = f.options(3, 70'000);
  const auto gateway = f.make_partner("gateway");
  o.gateway = gateway.as<gateway_actor>();
  f.target = f.spawn(budget, o);
  const auto other = f.person.answer_of<fbs::GatewayFound>(find(f.person, own + 1));
  REQUIRE(!other);
  CHECK(other.error().code == errc::version_mismatch);

  const auto reader = *caf::make_node_id(2, std::string(40, 'd'));
  REQUIRE(f.runtime().peers.bind(reader, {"bob", tls::role::reader}, 0));
  for (const auto& [who, may] :
       {std::pair(f.person, true), {f.make_partner("bob", reader), false}}) {
    const auto found = who.answer_of<fbs::GatewayFound>(find(who, own));
    REQUIRE_MESSAGE(found, (found ? "" : render(found.error())));
    CHECK((*found)->job()->str() == "row0");
    CHECK((*found)->power_budget());
    CHECK((*found)->may_change() == may);
    CHECK((*found)->who()->str() == (may ? "alice" : "bob"));
  }
}
