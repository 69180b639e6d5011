// An observer beside actors of its process that do what a test wants, with a viewer and a person.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/base/context.hpp"
#include "actors/control/observer.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/io/scratch.hpp"
#include "trace/batch.hpp"

namespace troupe::test {

inline constexpr uint32_t observed_epoch = 4;

/// What an observer looks at.
using subject_actor = component_actor::extend<
    // Answered by its path and the reason.
    ask<fbs::Pause, fbs::Ack>,
    // Never answered.
    ask<fbs::Resume, fbs::Ack>,
    // Answered by a text of as many bytes as the value says.
    ask<fbs::SetValue, fbs::Ack>,
    // Refused.
    ask<fbs::CheckpointNow, fbs::Ack>,
    // It dies of an error.
    tell<fbs::StopTraining>,
    // Answered with a handle beside the message.
    caf::replies_to<msg<fbs::FindGateway>>::with<msg<fbs::GatewayFound>, caf::strong_actor_ptr>>;

struct subject_state {
  static inline const char* name = "subject";
  std::vector<caf::typed_response_promise<msg<fbs::Ack>>> kept;
};

inline subject_actor::behavior_type subject(traced_pointer<subject_actor, subject_state> self,
                                            const std::string& path) {
  guard_mailbox(self);
  introduce(self, path);
  publish(self, "ready", [](fbs::NodeStatusT& s) { s.stages = 3; });
  return {status_handler(self),
          [self, path](const msg<fbs::Pause>& m) {
            return make_msg<fbs::Ack>(context_of(*self, m.header()), [&](auto& a) {
              a.text = path + (m->reason() ? " " + m->reason()->str() : "");
            });
          },
          [self](const msg<fbs::Resume>&) {
            self->state.kept.push_back(self->make_response_promise<msg<fbs::Ack>>());
            return self->state.kept.back();
          },
          [self](const msg<fbs::SetValue>& m) {
            const auto bytes = std::stoul(m->value()->str());
            return make_msg<fbs::Ack>(context_of(*self, m.header()),
                                      [&](auto& a) { a.text = std::string(bytes, 'x'); });
          },
          [](const msg<fbs::CheckpointNow>&) -> caf::result<msg<fbs::Ack>> {
            return to_caf({errc::training, "no", "later"});
          },
          [self](const msg<fbs::StopTraining>&) {
            self->quit(to_caf({errc::bug, "too much"}));
          },
          [self](const msg<fbs::FindGateway>& m)
              -> caf::result<msg<fbs::GatewayFound>, caf::strong_actor_ptr> {
            return {make_msg<fbs::GatewayFound>(context_of(*self, m.header())),
                    caf::actor_cast<caf::strong_actor_ptr>(self)};
          }};
}

struct scripted_observer : actor_fixture {
  scratch folder;
  partner person = make_partner("person"), viewer = make_partner("viewer");
  observer_actor target;

  /// `boxes`: where black boxes are written; "here": in the test's folder.
  explicit scripted_observer(const std::string& boxes = "here") : actor_fixture(observed_epoch) {
    const auto dir = boxes == "here" ? folder.path.string() : boxes;
    target = spawn(trace::observer, trace::observer_options{"n1", "host1", dir});
  }

  template <class T>
  msg<fbs::CallActor> carrying(const msg<T>& m, const std::string& whom,
                               uint32_t timeout_ms = 0) const {
    return make<fbs::CallActor>([&](auto& c) {
      c.actor = whom;
      c.message = encode(m);
      c.timeout_ms = timeout_ms;
    });
  }
  msg<fbs::Pause> pause() const {
    return make<fbs::Pause>([](auto& p) { p.reason = "please"; });
  }
  /// What it says to a call, at once.
  fbs::CallAnswersT called(const msg<fbs::CallActor>& m) {
    const auto answer = person.answer_of<fbs::CallAnswers>(person.ask(target, m));
    REQUIRE(answer);
    return answer->unpack();
  }
  template <class R, class T>
  error refusal_of(const msg<T>& m) {
    const auto answer = person.answer_of<R>(person.ask(target, m));
    return answer ? error{errc::none, ""} : answer.error();
  }
  fbs::ActorListT list(const std::string& pattern, bool dead = false) {
    const auto asked = person.ask(target, make<fbs::ListActors>([&](auto& l) {
                                    l.actor = pattern;
                                    l.dead = dead;
                                  }));
    const auto answer = person.answer_of<fbs::ActorList>(asked);
    REQUIRE(answer);
    return answer->unpack();
  }
  std::vector<std::string> boxes() const {
    std::vector<std::string> out;
    for (const auto& f : std::filesystem::directory_iterator(folder.path))
      out.push_back(f.path().filename());
    return out;
  }

  // -- views --------------------------------------------------------------------------------------

  fbs::TraceStartT rule(uint64_t id = 1) const {
    fbs::TraceStartT s;
    s.subscription = id;
    s.actor = "subject/*";
    s.max_records = 1'000'000;
    s.lease_ms = 60'000;
    return s;
  }
  errc begin(const fbs::TraceStartT& s) { return begin(s, viewer.self()); }
  errc begin(const fbs::TraceStartT& s, const caf::strong_actor_ptr& whom) {
    const auto asked = person.ask(target, make_msg<fbs::TraceStart>(context(), s), whom);
    const auto answer = person.answer_of<fbs::TraceStarted>(asked);
    if (!answer) return answer.error().code;
    CHECK((*answer)->subscription() == s.subscription);
    CHECK(answer->unpack().nodes == std::vector<std::string>{"n1"});
    return errc::none;
  }
  void more(uint32_t credits, uint64_t id = 1) {
    person.tell(target, make<fbs::TraceMore>([&](auto& m) {
                  m.subscription = id;
                  m.credits = credits;
                }));
  }
  void stop(uint64_t id = 1) {
    person.tell(target, make<fbs::TraceStop>([&](auto& s) { s.subscription = id; }));
  }
  /// What the viewer was sent since the last time.
  std::vector<fbs::TraceBatchT> batches() const {
    std::vector<fbs::TraceBatchT> out;
    for (const auto& b : viewer.take_all<fbs::TraceBatch>()) out.push_back(b.m.unpack());
    return out;
  }
  static size_t records_in(const std::vector<fbs::TraceBatchT>& all) {
    size_t out = 0;
    for (const auto& b : all) out += b.records.size() / sizeof(trace_record);
    return out;
  }
  /// Why the view is over, where it is.
  static std::string over(const std::vector<fbs::TraceBatchT>& all) {
    return all.empty() ? "" : all.back().over;
  }
  /// As if an actor had handled so many messages.
  void record(const std::string& path, size_t count) const {
    const auto stats = runtime().registry.find(path);
    REQUIRE(stats);
    trace_record r;
    r.actor = stats->number();
    r.type = message_traits<fbs::Pause>::id;
    for (size_t i = 0; i < count; ++i) runtime().records.here().push(r);
  }
};

}  // namespace troupe::test
