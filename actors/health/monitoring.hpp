// What the monitor's files share: what is heard and found (monitor.cpp), and the links that medics
// test for it (monitor_links.cpp). For these alone; its invariants stand in monitor.hpp.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/health/monitor.hpp"
#include "io/base/error_kind.hpp"

namespace troupe::health::monitoring {

/// It was not heard what a medic would say.
inline constexpr error_kind<std::string_view> not_heard{"not_heard", errc::unavailable, "{}"};

/// What the medic of the node came to, or why it did not.
template <class R>
result<typename R::NativeTableType> report_in(const msg<fbs::CallAnswers>& all) {
  const auto said = all.unpack();
  if (said.answers.empty()) return not_heard("it has no medic");
  const auto& a = *said.answers.front();
  if (a.failure && a.actor.empty()) return not_heard(a.failure->message);
  if (a.failure)
    return error{static_cast<errc>(a.failure->code), a.failure->message, "", a.failure->kind};
  TROUPE_TRY(m, decode(a.message, message_traits<R>::id));
  return cast<R>(m).unpack();
}

/// As `troupe doctor` asks it, so it stands in the audit log.
template <class R, class T>
void ask_medic(monitor_pointer self, const std::string& node, const msg<T>& question,
               const std::string& what, std::chrono::milliseconds patience,
               std::function<void(const result<typename R::NativeTableType>&)> then) {
  auto call = make_msg<fbs::CallActor>(context_of(*self, self->epoch()), [&](auto& c) {
    c.node = node;
    c.actor = "medic/*";
    c.message = encode(question);
    c.timeout_ms = static_cast<uint32_t>(patience.count());
    c.who = "monitor";
  });
  ask_either<fbs::CallAnswers>(self, self->state.options.gateway, std::tuple(call),
                               {"gateway", what, patience + defaults::tool_slack},
                               [then](const result<msg<fbs::CallAnswers>>& all) {
                                 then(all ? report_in<R>(*all) : not_heard(all.error().message));
                               });
}

std::vector<std::string> evicted_nodes(monitor_pointer self);

/// The coordinator hears of a finding that it acts on.
void tell_coordinator(monitor_pointer self, const finding& f);

/// MON-7: a link between two of these nodes may be what holds up all.
void test_circle(monitor_pointer self, const std::vector<std::string>& circle);
/// Whom a finding of the wait graph means.
std::vector<std::string> meant_by(const monitor_state& st, const finding& f);
/// What shows that it is this node: a test of its links, else the wait graph.
finding shown_of(const monitor_state& st, const finding& f, const std::string& node);

/// By rank; empty where no heartbeat of the epoch has told.
std::vector<std::string> nodes_of_ranks(const monitor_state& st, uint32_t epoch);
/// What else is wrong with the node that could make it slow, as " (cpu_starved)"; or nothing.
std::string why_slow(const findings_policy& findings, const std::string& node);
/// "812", "0.412"
std::string digits_of_ms(double ms);

/// The ranks of an epoch are held against what they were in it.
void watch_parts(monitor_state& st);
/// What kind of machine a node is.
void note_machine(monitor_state& st, const fbs::Hello& said);
/// MON-10.
void hear_parts(monitor_pointer self, const msg<fbs::StepDone>& m);
/// MON-11.
void hear_doubt(monitor_pointer self, const msg<fbs::Suspect>& m);
/// What each part of a step takes, and what it should.
void put_parts(const monitor_state& st, fbs::FindingsT& out);

/// MON-9: a node that has come back after its link was found to be sick.
void look_at_returned(monitor_pointer self);

}  // namespace troupe::health::monitoring
