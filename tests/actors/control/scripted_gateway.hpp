// A gateway between a scripted coordinator, observers, persons and viewers.
#pragma once

#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/base/trust.hpp"
#include "actors/control/gateway.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::test {

inline constexpr uint32_t gateway_epoch = 3;
inline constexpr uint64_t view_id = 77;

/// A process elsewhere, whose holder is known.
struct far_person {
  caf::node_id process;
  far_person(const actor_fixture& f, uint32_t number, const std::string& name, tls::role as)
      : process(*caf::make_node_id(number, std::string(40, 'd'))) {
    REQUIRE(f.runtime().peers.bind(process, {name, as}, 0));
  }
};

template <class T>
told<T> only(const partner& p) {
  auto all = p.take_all<T>();
  REQUIRE(all.size() == 1);
  return std::move(all.front());
}

struct scripted_gateway : actor_fixture {
  scratch folder;
  std::string audit = folder / "audit.jsonl";
  std::shared_ptr<std::function<void()>> at_line = std::make_shared<std::function<void()>>();
  partner coordinator = make_partner("coordinator"), head = make_partner("head"),
          a = make_partner("a"), b = make_partner("b"), person = make_partner("person"),
          viewer = make_partner("viewer");
  std::shared_ptr<std::vector<trace::setting_taken>> settings =
      std::make_shared<std::vector<trace::setting_taken>>();
  gateway_actor target;

  /// `path`: of the audit log, where it is to lie elsewhere.
  explicit scripted_gateway(const std::optional<std::string>& path = {})
      : actor_fixture(gateway_epoch) {
    auto wall_time = [at = at_line] {
      if (*at) (*at)();
      return std::string("now");
    };
    target = spawn(trace::gateway,
                   trace::gateway_options{"job", gateway_epoch, path.value_or(audit), wall_time,
                                          [all = settings](const auto& s) { all->push_back(s); }});
  }

  void meet(uint32_t number, const std::string& node, const partner& observer,
            const std::string& ranks = "") {
    coordinator.tell(target, make<fbs::Observe>([&](auto& o) {
                       o.node = node;
                       o.host = "host of " + node;
                       o.pid = 1000 + number;
                       o.process = number;
                       o.ranks = ranks;
                     }),
                     observer.self());
  }
  /// Observers say what they have: an actor of their name, and a dead one.
  void answer_looks(const std::vector<partner>& whom) {
    for (const auto& p : whom)
      for (const auto& look : p.take_all<fbs::ListActors>()) answer_list(look);
  }
  static void answer_list(const told<fbs::ListActors>& look, size_t error_bytes = 0) {
    look.answer<fbs::ActorList>([&](fbs::ActorListT& l) {
      for (const std::string path : {"stage/0", "worker/0", "worker/1"}) {
        auto one = std::make_unique<fbs::ActorInfoT>();
        one->path = path;
        one->uptime_ns = one->state_for_ns = 5;
        if (path == "worker/0") one->handling = "RunOp";
        one->handling_for_ns = path == "worker/0" ? 2 : 0;
        one->last_error.assign(error_bytes, 'x');
        if (path == "worker/1") one->ended = "killed";
        one->waits.push_back(std::make_unique<fbs::ActorWaitT>());
        one->waits.back()->for_ns = 3;
        if (path != "worker/1" || look->dead()) l.actors.push_back(std::move(one));
      }
    });
  }
  /// The head, then b and a, all of whom have been looked at.
  void meet_all() {
    meet(1, "head", head);
    meet(3, "b", b);
    meet(2, "a", a);
    answer_looks({head, a, b});
    pass(std::chrono::seconds(1));
    answer_looks({head, a, b});
  }

  msg<fbs::ListActors> view_of(const std::string& node = "", const std::string& actor = "",
                               bool dead = false) const {
    return make<fbs::ListActors>([&](auto& l) {
      l.node = node;
      l.actor = actor;
      l.dead = dead;
    });
  }
  template <class T>
  msg<fbs::CallActor> carrying(const msg<T>& m, const std::string& node = "",
                               uint32_t timeout_ms = 0) const {
    return make<fbs::CallActor>([&](auto& c) {
      c.node = node;
      c.actor = "run";
      c.message = encode(m);
      c.timeout_ms = timeout_ms;
      c.who = "alice";
    });
  }
  msg<fbs::TraceStart> start(const std::string& node = "", uint64_t id = view_id) const {
    return make<fbs::TraceStart>([&](auto& t) {
      t.subscription = id;
      t.node = node;
      t.max_records = 10;
    });
  }
  msg<fbs::TraceStop> stop(uint64_t id = view_id) const {
    return make<fbs::TraceStop>([&](auto& s) { s.subscription = id; });
  }
  msg<fbs::TraceMore> more(uint32_t process, uint64_t id = view_id) const {
    return make<fbs::TraceMore>([&](auto& m) {
      m.subscription = id;
      m.process = process;
      m.credits = 1;
    });
  }
  msg<fbs::TraceBatch> batch(uint32_t process, const std::string& over = "",
                             uint64_t id = view_id) const {
    return make<fbs::TraceBatch>([&](auto& t) {
      t.subscription = id;
      t.process = process;
      t.over = over;
    });
  }
  /// A view of the head alone, under way.
  void look_at_head(uint64_t id = view_id) {
    const auto asked = person.ask(target, start("head", id), viewer.self());
    only<fbs::TraceStart>(head).answer<fbs::TraceStarted>([](auto& s) { s.nodes = {"head"}; });
    REQUIRE(person.answer_of<fbs::TraceStarted>(asked));
  }

  std::vector<nlohmann::json> lines() const {
    std::ifstream file(audit);
    std::vector<nlohmann::json> out;
    for (std::string line; std::getline(file, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
  fbs::StatusT status() {
    const auto asked = person.ask(target, make<fbs::StatusRequest>([](auto&) {}));
    const auto answer = person.answer_of<fbs::Status>(asked);
    REQUIRE(answer);
    return answer->unpack();
  }
  /// What it says of itself.
  fbs::GatewayStatusT values() { return *status().values->gateway; }
  template <class R>
  errc refused(uint64_t asked) const {
    const auto answer = person.answer_of<R>(asked);
    return answer ? errc::none : answer.error().code;
  }
};

}  // namespace troupe::test
