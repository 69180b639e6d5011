// What a silent node's host answers, and what the monitor makes of it.
#include <chrono>
#include <deque>

#include "actors/health/host_reach.hpp"
#include "tests/actors/health/seconds.hpp"
#include "tests/actors/health/watched_cluster.hpp"
#include "tests/loopback.hpp"

using namespace troupe;
using namespace troupe::health;
using troupe::health::test::s;
using namespace std::chrono_literals;

namespace {

using strings = std::vector<std::string>;

/// Hosts whose answers a test gives.
struct scripted_hosts {
  std::map<std::string, std::shared_ptr<std::optional<bool>>> asked = {};  ///< by address and port
  int questions = 0;

  host_asker asker() {
    struct question final : host_question {
      std::shared_ptr<std::optional<bool>> said;
      explicit question(std::shared_ptr<std::optional<bool>> answer) : said(std::move(answer)) {}
      std::optional<bool> answered() override { return *said; }
    };
    return [this](const std::string& address, uint16_t port) -> std::unique_ptr<host_question> {
      if (address == "a name") return nullptr;
      ++questions;
      auto& said = asked[fmt::format("{}:{}", address, port)];
      said = std::make_shared<std::optional<bool>>();
      return std::make_unique<question>(said);
    };
  }
};

std::vector<stuck_policy::silence> silent(std::initializer_list<const char*> nodes) {
  std::vector<stuck_policy::silence> out;
  for (const auto* n : nodes) out.push_back({n, 4 * s});
  return out;
}

/// The name of what is found of a node; empty: nothing yet.
std::string found(const silent_hosts& hosts, const char* node) {
  const auto f = hosts.finding_of({node, 4 * s}, 3 * s);
  return f ? std::string(facts_of(f->who.name).name) : "";
}

constexpr int64_t patience_ns = 2 * s;

}  // namespace

TEST_CASE("RCH-1 RCH-2: a host is asked once in a silence, and has so long to answer") {
  scripted_hosts script;
  silent_hosts hosts(script.asker(), patience_ns);
  for (const char* node : {"a", "b", "c"}) hosts.lives_at(node, "10.0.0.1", 7);
  hosts.lives_at("a", "10.0.0.2", 8);
  CHECK(script.questions == 0);
  CHECK(hosts.silent_now(silent({"a", "b"}), 10 * s).empty());
  CHECK(script.questions == 2);
  CHECK(found(hosts, "a").empty());
  CHECK(hosts.judges("a"));
  *script.asked.at("10.0.0.1:7") = true;
  CHECK(hosts.silent_now(silent({"a", "b"}), 11 * s).empty());
  CHECK(found(hosts, "b") == "frozen_process");
  CHECK_FALSE(hosts.judges("b"));
  CHECK(found(hosts, "a").empty());
  CHECK(hosts.silent_now(silent({"a", "b"}), 12 * s) == std::set<std::string>{"a"});
  CHECK(found(hosts, "a") == "lost_host");
  CHECK(hosts.judges("a"));
  CHECK(hosts.silent_now(silent({"a"}), 13 * s).empty());  // it was told
  CHECK(script.questions == 2);
  hosts.silent_now({}, 14 * s);
  hosts.silent_now(silent({"a"}), 15 * s);
  CHECK(script.questions == 3);
  *script.asked.at("10.0.0.2:8") = false;
  CHECK(hosts.silent_now(silent({"a"}), 15 * s) == std::set<std::string>{"a"});
}

TEST_CASE("RCH-3: where a host cannot be asked its node is a frozen process") {
  scripted_hosts script;
  silent_hosts hosts(script.asker(), patience_ns), of_nobody;
  hosts.lives_at("a", "a name", 7);
  hosts.silent_now(silent({"a", "stranger"}), 10 * s);
  of_nobody.silent_now(silent({"a"}), 10 * s);
  CHECK(found(hosts, "a") == "frozen_process");
  CHECK(found(hosts, "stranger") == "frozen_process");
  CHECK(found(of_nobody, "a") == "frozen_process");
}

TEST_CASE("a host answers over TCP by its kernel alone, a name is not looked up") {
  const auto wait_for = [](host_question& q) {
    for (int i = 0; i < 100'000; ++i)
      if (const auto said = q.answered()) return said;
    return std::optional<bool>();
  };
  const auto listener = loopback_listener();  // nobody accepts
  for (const bool listens : {true, false}) {
    const auto bound = loopback_bound();  // and does not listen: it is refused
    auto q = ask_host_by_tcp("127.0.0.1", port_of(listens ? listener : bound));
    REQUIRE(q);
    CHECK(wait_for(*q) == std::optional(true));
  }
  CHECK_FALSE(ask_host_by_tcp("localhost", 7));
  CHECK_FALSE(ask_host_by_tcp("", 7));
}

TEST_CASE("MON-8: a silent node is a frozen process or a lost host, once its host has its word") {
  for (const bool answers : {true, false}) {
    scripted_hosts script;
    health::test::watched_cluster f(0, 2, config::default_log_rules(), {}, script.asker());
    for (const char* node : {"a", "b"})
      f.coordinator.tell(f.target, make_msg<fbs::Hello>(f.context_of(0), [&](auto& h) {
                           h.node = node;
                           h.host = fmt::format("host-{}", node);
                           h.port = 9;
                         }));
    f.train();
    f.pass_with(3, {0}, true);
    CHECK(f.names().empty());
    CHECK(script.questions == 1);
    if (answers) *script.asked.at("host-b:9") = true;
    f.pass_with(2, {0}, true);
    CHECK(f.names() == strings{answers ? "frozen_process b" : "lost_host b"});
    const auto told = f.coordinator.take_all<fbs::FindingTold>();
    REQUIRE(told.size() == (answers ? 0 : 1));
    if (!answers) CHECK(told[0]->finding()->name()->str() == "lost_host");
    f.pass_with(2, {0, 1}, true);
    CHECK(f.names().empty());
  }
}
