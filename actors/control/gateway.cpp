// Asking all observers, answering within patience, and the audit log.
#include "actors/control/gateway.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "actors/base/gather.hpp"
#include "io/base/text.hpp"
#include "messages/contract.hpp"
#include "messages/errors.hpp"
#include "messages/registry.hpp"
#include "messages/text.hpp"

namespace troupe::trace {

namespace {

using gateway_pointer = traced_pointer<gateway_actor, gateway_state>;

// -- audit ----------------------------------------------------------------------------------------

void show(gateway_pointer self) {
  const auto& st = self->state;
  const auto trouble = st.audit->trouble();
  publish(self, trouble.empty() ? "open" : "refusing", [&](fbs::GatewayStatusT& s) {
    s.processes = static_cast<uint32_t>(st.processes.size());
    s.views = static_cast<uint32_t>(st.views.size());
    s.audit_failures = st.audit->failures();
    s.audit_log = trouble;
  });
}

void note(gateway_pointer self, const audit_line& line) {
  self->state.audit->note(line);
  show(self);
}

/// A command and where its line is.
struct recorded {
  audit_line line;
  audit_place place;
};

/// GTW-2: before a command is passed on. GTW-6: not done where this fails, but for `in_any_case`.
result<recorded> begin(gateway_pointer self, audit_line line, bool in_any_case) {
  auto place = self->state.audit->begin(line, in_any_case);
  show(self);
  if (place || in_any_case)
    return recorded{std::move(line), place ? *place : audit_place{}};
  auto why = audit_unwritten(place.error().message);
  why.code = place.error().code;
  return why;
}

/// GTW-2: before its answer goes out.
void finish(gateway_pointer self, recorded r, std::string outcome) {
  r.line.result = std::move(outcome);
  self->state.audit->finish(r.place, std::move(r.line));
  show(self);
}

/// What nobody may be kept from by a full disk (GTW-6).
bool in_any_case(uint16_t type) {
  return type == message_traits<fbs::Pause>::id || type == message_traits<fbs::StopTraining>::id;
}

/// Who sent the message under our hands; to be asked before a promise takes the sender over.
principal who_says(gateway_pointer self, const flatbuffers::String* claim) {
  return principal_of(self->runtime().peers, self->current_sender(), text_of(claim));
}

/// The answers of many may be more than one message holds.
void deliver_all(gateway_pointer self, caf::typed_response_promise<msg<fbs::CallAnswers>> to,
                 const message_header& cause, const fbs::CallAnswersT& answers) {
  if (auto made = try_make_msg<fbs::CallAnswers>(context_of(*self, cause), answers))
    to.deliver(*made);
  else
    to.deliver(to_caf(made.error()));
}

std::string outcome_of(const fbs::CallAnswersT& all) {
  for (const auto& a : all.answers)
    if (a->failure)  // of no actor: its whole process does not answer, and the message says which
      return a->actor.empty() ? a->failure->message
                              : fmt::format("{}: {}", a->actor, a->failure->message);
  return all.answers.empty() ? "no such actor" : "done";
}

// -- asking many ----------------------------------------------------------------------------------

std::vector<uint32_t> fitting(const gateway_state& st, const std::string& node) {
  std::vector<uint32_t> out;
  for (const auto& [number, p] : st.processes)
    if (glob_match(node, p.facts.node)) out.push_back(number);
  return out;
}

/// Who was asked; it may have gone by the time of its answer.
struct asked_process {
  uint32_t number = 0;
  std::string node;
};

/// The order in which people are shown nodes.
bool stands_before(const std::string& a, const std::string& b) {
  return std::pair(a != "head", a) < std::pair(b != "head", b);
}

/// How long an observer is waited for, where not as its contract says: one that asks others has
/// time beyond theirs.
template <class T>
std::optional<std::chrono::milliseconds> patience_for(gateway_pointer self, const msg<T>& m) {
  if constexpr (std::is_same_v<T, fbs::CallActor>)
    return (m->timeout_ms() > 0 ? std::chrono::milliseconds(m->timeout_ms())
                                : self->timeouts().of(contract_of<observer_actor, T>())) +
           defaults::gateway_slack;
  return {};
}

/// Asks the observers of `whom`; `each(who, reply or error)`, then `all()` once.
template <class R, class T, class Each, class All, class... Beside>
void ask_observers(gateway_pointer self, const std::vector<uint32_t>& whom, const msg<T>& m,
                   Each each, All all, const Beside&... beside) {
  std::vector<asked_process> asked;
  std::vector<observer_actor> handles;
  for (const auto number : whom) {
    const auto& p = self->state.processes.at(number);
    asked.push_back({number, p.facts.node});
    handles.push_back(p.handle);
  }
  gather_each<R>(
      self, handles,
      [&](size_t i) {
        return awaited{"observer/" + asked[i].node,
                       fmt::format("the answer to {}", find_message(m.type())->name),
                       patience_for(self, m)};
      },
      [&](size_t) { return std::tuple(m, beside...); },
      [asked, each](size_t i, const result<msg<R>>& r) mutable { each(asked[i], r); }, all);
}

/// What a process said last, aged; for one that has not answered.
std::unique_ptr<fbs::ActorListT> remembered(gateway_pointer self, const observed& p) {
  auto out = std::make_unique<fbs::ActorListT>(p.last);
  const auto silent = now_ns(*self) - p.heard_ns;
  out->node = p.facts.node;
  out->host = p.facts.host;
  out->pid = p.facts.pid;
  out->process = p.facts.process;
  out->silent_ns = std::max<int64_t>(1, silent);
  for (auto& a : out->actors) {
    if (!a->ended.empty()) continue;  // what has ended grows no older
    a->state_for_ns += silent;
    a->uptime_ns += silent;
    if (!a->handling.empty()) a->handling_for_ns += silent;
    for (auto& w : a->waits) w->for_ns += silent;
  }
  return out;
}

/// The whole of a process's list is kept; what a person asked for is cut from it.
void keep_fitting(fbs::ActorListT& list, const std::string& pattern, bool dead) {
  std::erase_if(list.actors, [&](const auto& a) {
    return !glob_match(pattern, a->path) || (!dead && !a->ended.empty());
  });
}

void heard(gateway_pointer self, uint32_t number, const msg<fbs::ActorList>& list) {
  const auto it = self->state.processes.find(number);
  if (it == self->state.processes.end()) return;  // it has gone since
  it->second.heard_ns = now_ns(*self);
  it->second.last = list.unpack();
}

using lists_of_processes = std::map<uint32_t, std::unique_ptr<fbs::ActorListT>>;

/// As people are shown it.
fbs::ClusterViewT view_of(const gateway_options& o, lists_of_processes& lists) {
  fbs::ClusterViewT out;
  out.job = o.job;
  out.epoch = o.epoch;
  for (auto& [number, list] : lists) out.nodes.push_back(std::move(list));
  std::stable_sort(out.nodes.begin(), out.nodes.end(),
                   [](const auto& a, const auto& b) { return stands_before(a->node, b->node); });
  return out;
}

caf::result<msg<fbs::ClusterView>> view(gateway_pointer self, const msg<fbs::ListActors>& m) {
  auto& st = self->state;
  auto lists = std::make_shared<lists_of_processes>();
  auto rp = self->make_response_promise<msg<fbs::ClusterView>>();
  const auto whom = fitting(st, text_of(m->node()));
  auto each = [self, lists, m](const asked_process& who, const result<msg<fbs::ActorList>>& r) {
    const auto it = self->state.processes.find(who.number);
    const bool gone = !r && r.error().code == errc::unavailable;  // before the news of it, perhaps
    if (gone || it == self->state.processes.end()) return;
    if (r) heard(self, who.number, *r);
    auto list =
        r ? std::make_unique<fbs::ActorListT>(it->second.last) : remembered(self, it->second);
    list->ranks = it->second.facts.ranks;
    keep_fitting(*list, text_of(m->actor()), m->dead());
    lists->emplace(who.number, std::move(list));
  };
  auto all = [self, lists, rp, m]() mutable {
    auto made = try_make_msg<fbs::ClusterView>(context_of(*self, m.header()),
                                               view_of(self->state.options, *lists));
    if (made)
      rp.deliver(*made);
    else
      rp.deliver(to_caf({errc::bad_data, "the cluster is too large for one answer",
                         "ask for fewer nodes or actors by a pattern"}));
  };
  auto question = make_msg<fbs::ListActors>(context_of(*self, m.header()),
                                            [&](auto& l) { l.dead = m->dead(); });
  ask_observers<fbs::ActorList>(self, whom, question, each, all);
  return rp;
}

// -- output ---------------------------------------------------------------------------------------

/// ADT-1: by the cluster, whose actors alone may say it.
void note_decision(gateway_pointer self, const msg<fbs::IncidentReport>& m) {
  const auto* fault = m->incident();
  if (fault == nullptr) return;
  note(self, {{"the cluster", "", ""},
              "Recover",
              text_of(fault->node()),
              to_json(m),
              fmt::format("{}: {} ({})", text_of(fault->finding()), text_of(fault->action()),
                          fault->rule() == 0 ? "no rule has budget left"
                                             : fmt::format("rule {}", fault->rule()))});
}

std::string name_of(const any_msg& m) {
  return std::string(find_message(m.type())->name);
}

/// GTW-8.
void note_setting(gateway_pointer self, const std::string& who, const any_msg& order,
                  const fbs::CallAnswersT& all) {
  const auto& keep = self->state.options.set;
  const auto set = cast<fbs::SetValue>(order);
  if (!keep || !set) return;
  for (const auto& a : all.answers) {
    if (a->failure) continue;
    const auto answer = decode(a->message);
    if (const auto taken = answer ? cast<fbs::Ack>(*answer) : msg<fbs::Ack>())
      keep({text_of(set->key()), text_of(set->value()), who, taken->first_step()});
  }
}

caf::result<msg<fbs::CallAnswers>> call(gateway_pointer self, const msg<fbs::CallActor>& m) {
  const auto by = who_says(self, m->who());
  const auto* bytes = m->message();
  auto decoded = bytes ? decode({bytes->data(), bytes->size()})
                       : result<any_msg>(error{errc::bad_data, "no message to pass on"});
  if (!decoded) return to_caf(decoded.error());
  if (auto allowed = may_be_carried(*decoded); !allowed) {  // GTW-5
    note(self, {by, name_of(*decoded), text_of(m->actor()), to_json(*decoded),
                "refused: " + allowed.error().message});
    return to_caf(allowed.error());
  }
  std::optional<recorded> record;
  if (!is_question(decoded->type())) {  // it changes nothing and is not audited
    auto begun = begin(self, {by, name_of(*decoded), text_of(m->actor()), to_json(*decoded), ""},
                       in_any_case(decoded->type()));
    if (!begun) return to_caf(begun.error());
    record = std::move(*begun);
  }
  auto rp = self->make_response_promise<msg<fbs::CallAnswers>>();
  auto answers = std::make_shared<fbs::CallAnswersT>();
  auto each = [answers](const asked_process& who, const result<msg<fbs::CallAnswers>>& r) {
    if (r) {
      for (auto& a : r->unpack().answers) answers->answers.push_back(std::move(a));
      return;
    }
    auto a = std::make_unique<fbs::CallAnswerT>();
    a->node = who.node;
    a->failure = std::make_unique<fbs::FailureT>();
    put_error(r.error().within(fmt::format("node {} does not answer", a->node)), *a->failure);
    answers->answers.push_back(std::move(a));
  };
  auto all = [self, answers, rp, m, record, order = *decoded, who = by.who]() mutable {
    if (record) finish(self, *record, outcome_of(*answers));
    note_setting(self, who, order, *answers);
    deliver_all(self, rp, m.header(), *answers);
  };
  ask_observers<fbs::CallAnswers>(self, fitting(self->state, text_of(m->node())), m, each, all);
  return rp;
}

/// GTW-7.
void tell_who_ended_it(gateway_pointer self, const asked_process& who, const std::string& path,
                       const std::string& by) {
  const auto& st = self->state;
  const auto* service = find_service(path.substr(0, path.find('/')));
  const auto process = st.processes.find(who.number);
  if (service == nullptr || service->on_death != death::node_lost || !st.coordinator ||
      process == st.processes.end())
    return;
  self->send(st.coordinator,
             make_msg<fbs::Leave>(context_of(*self, st.options.epoch), [&](auto& l) {
               l.node = who.node;
               l.reason = fmt::format("ends: {} was killed by {} at the console", path, by);
               l.pid = process->second.facts.pid;
               l.finding = "dead_process";
             }));
}

/// KillActor, SetLogLevel and DumpBlackBox: to every process that fits, answered by an Ack each.
template <class T>
caf::result<msg<fbs::CallAnswers>> order(gateway_pointer self, const msg<T>& m, std::string command,
                                         std::string target) {
  auto record = begin(self, {who_says(self, m->who()), command, target, to_json(m), ""}, false);
  if (!record) return to_caf(record.error());
  auto rp = self->make_response_promise<msg<fbs::CallAnswers>>();
  auto answers = std::make_shared<fbs::CallAnswersT>();
  auto each = [self, answers, target, by = record->line.by.who](const asked_process& who,
                                                                const result<msg<fbs::Ack>>& r) {
    // A pattern reaches processes that do not have the actor: not their failure.
    if (!r && r.error().code == errc::not_found) return;
    auto a = std::make_unique<fbs::CallAnswerT>();
    a->node = who.node;
    a->actor = fmt::format("observer/{}", a->node);
    if (r) {
      a->message = encode(*r);
      if (std::is_same_v<T, fbs::KillActor>) tell_who_ended_it(self, who, target, by);
    } else {
      a->failure = std::make_unique<fbs::FailureT>();
      put_error(r.error(), *a->failure);
    }
    answers->answers.push_back(std::move(a));
  };
  auto all = [self, answers, rp, m, record = *record]() mutable {
    finish(self, record, outcome_of(*answers));
    deliver_all(self, rp, m.header(), *answers);
  };
  ask_observers<fbs::Ack>(self, fitting(self->state, text_of(m->node())), m, each, all);
  return rp;
}

caf::result<msg<fbs::Ack>> drain(gateway_pointer self, const msg<fbs::DrainNode>& m) {
  auto& st = self->state;
  if (!st.coordinator) return to_caf({errc::unavailable, "no coordinator yet"});
  auto record = begin(
      self, {who_says(self, m->who()), "DrainNode", text_of(m->node()), to_json(m), ""}, true);
  if (!record) return to_caf(record.error());
  auto rp = self->make_response_promise<msg<fbs::Ack>>();
  ask_either<fbs::Ack>(self, st.coordinator, std::tuple(m),
                       {"coordinator", "the answer to DrainNode"},
                       [self, rp, record = *record](const result<msg<fbs::Ack>>& a) mutable {
                         finish(self, record, a ? text_of((*a)->text()) : a.error().message);
                         if (a)
                           rp.deliver(*a);
                         else
                           rp.deliver(to_caf(a.error()));
                       });
  return rp;
}

// -- views ----------------------------------------------------------------------------------------

msg<fbs::TraceStop> stop_of(gateway_pointer self, uint64_t id) {
  return make_msg<fbs::TraceStop>(context_of(*self, self->state.options.epoch),
                                  [&](auto& s) { s.subscription = id; });
}

/// False: there is none.
bool forget_view(gateway_pointer self, uint64_t id) {
  auto& st = self->state;
  const auto it = st.views.find(id);
  if (it == st.views.end()) return false;
  const auto viewer = it->second.viewer;
  st.views.erase(it);
  if (std::none_of(st.views.begin(), st.views.end(),
                   [&](const auto& v) { return v.second.viewer == viewer; }))
    self->demonitor(viewer.address());
  show(self);
  return true;
}

void stop_view(gateway_pointer self, uint64_t id) {
  if (!forget_view(self, id)) return;
  const auto stop = stop_of(self, id);
  for (const auto& [number, p] : self->state.processes) self->send(p.handle, stop);
}

/// The view is over at a process, or never was there.
void view_over(gateway_pointer self, uint64_t id, uint32_t process) {
  const auto it = self->state.views.find(id);
  if (it == self->state.views.end()) return;
  it->second.senders.erase(process);
  if (it->second.senders.empty()) forget_view(self, id);
}

/// GTW-3: the process cannot say itself that it has gone. The batch is none of its own (sequence
/// 0), and knows nothing of its clock.
void sender_gone(gateway_pointer self, uint64_t id, uint32_t process, const std::string& node) {
  const auto it = self->state.views.find(id);
  if (it == self->state.views.end()) return;
  const auto sender = it->second.senders.find(process);
  if (sender != it->second.senders.end() && sender->second)
    self->send(it->second.viewer, make_msg<fbs::TraceBatch>(
                                      context_of(*self, self->state.options.epoch), [&](auto& b) {
                                        b.process = process;
                                        b.node = node;
                                        b.subscription = id;
                                        b.bound_ns = -1;
                                        b.over = node + " has left the cluster";
                                      }));
  view_over(self, id, process);
}

/// Its viewer is told of those that have begun: should it begin later, it is to end.
void not_begun(gateway_pointer self, uint64_t id, uint32_t process) {
  const auto it = self->state.processes.find(process);
  if (it != self->state.processes.end()) self->send(it->second.handle, stop_of(self, id));
  view_over(self, id, process);
}

void enter_view(gateway_pointer self, uint64_t id, const std::vector<uint32_t>& whom,
                const caf::strong_actor_ptr& viewer) {
  auto& st = self->state;
  const auto to = caf::actor_cast<viewer_actor>(viewer);
  if (std::none_of(st.views.begin(), st.views.end(),
                   [&](const auto& v) { return v.second.viewer == to; }))
    self->monitor(to);
  auto& senders = st.views.emplace(id, open_view{to, {}}).first->second.senders;
  for (const auto number : whom) senders.emplace(number, false);
  show(self);
}

caf::result<msg<fbs::TraceStarted>> start_view(gateway_pointer self, const msg<fbs::TraceStart>& m,
                                               const caf::strong_actor_ptr& viewer) {
  auto& st = self->state;
  if (!viewer) return to_caf({errc::usage, "a view needs somebody to look"});
  if (const auto who = self->runtime().peers.find(self->current_sender());
      who && who->guest() && viewer->node() != self->current_sender()->node())
    return to_caf(
        {errc::permission, "invalid viewer: only the connection that asks for a view gets it"});
  if (st.views.contains(m->subscription()))
    return to_caf({errc::usage, "there is a view of this number already"});
  const auto whom = fitting(st, text_of(m->node()));
  if (whom.empty())
    return to_caf({errc::not_found, fmt::format("no node fits {}", text_of(m->node()))});
  auto rp = self->make_response_promise<msg<fbs::TraceStarted>>();
  enter_view(self, m->subscription(), whom, viewer);
  struct progress {
    fbs::TraceStartedT started;
    std::optional<error> why;
  };
  auto p = std::make_shared<progress>();
  p->started.subscription = m->subscription();
  auto each = [self, p](const asked_process& who, const result<msg<fbs::TraceStarted>>& r) {
    if (r) {
      if (const auto it = self->state.views.find(p->started.subscription);
          it != self->state.views.end())
        if (auto& senders = it->second.senders; senders.contains(who.number))
          senders[who.number] = true;
      for (auto& n : r->unpack().nodes) p->started.nodes.push_back(n);
      return;
    }
    not_begun(self, p->started.subscription, who.number);
    p->why = r.error();
  };
  auto all = [self, p, rp, m]() mutable {
    std::sort(p->started.nodes.begin(), p->started.nodes.end(), stands_before);
    if (!p->started.nodes.empty())
      rp.deliver(make_msg<fbs::TraceStarted>(context_of(*self, m.header()), p->started));
    else
      rp.deliver(to_caf(*p->why));
  };
  ask_observers<fbs::TraceStarted>(self, whom, m, each, all,
                                   caf::actor_cast<caf::strong_actor_ptr>(self));
  return rp;
}

/// GTW-3: only the viewer's process speaks of his view, so that nobody has an observer say it for
/// him. A view that is none is nobody's: whoever speaks of it changes nothing.
bool owns_view(gateway_pointer self, uint64_t id) {
  const auto& views = self->state.views;
  const auto it = views.find(id);
  const auto& who = self->current_sender();
  return it == views.end() || (who && it->second.viewer.node() == who->node());
}

void pass_batch(gateway_pointer self, const msg<fbs::TraceBatch>& m) {
  const auto it = self->state.views.find(m->subscription());
  if (it == self->state.views.end()) return;
  self->send(it->second.viewer, m);
  if (!text_of(m->over()).empty()) view_over(self, m->subscription(), m->process());
}

// -- processes ------------------------------------------------------------------------------------

template <class All>
void look_at(gateway_pointer self, const std::vector<uint32_t>& whom, All all) {
  auto each = [self](const asked_process& who, const result<msg<fbs::ActorList>>& r) {
    if (r) heard(self, who.number, *r);  // silence is told by heard_ns
  };
  const auto question = make_msg<fbs::ListActors>(context_of(*self, self->state.options.epoch));
  ask_observers<fbs::ActorList>(self, whom, question, each, all);
}

/// GTW-9
void show_cluster(gateway_pointer self) {
  auto& st = self->state;
  const auto now = now_ns(*self);
  if (!st.options.shown) return;
  if (st.shown_ns && now - *st.shown_ns < gateway_options::shown_each_ns) return;
  st.shown_ns = now;
  lists_of_processes lists;
  for (const auto& [number, p] : st.processes) {
    auto list = remembered(self, p);
    list->ranks = p.facts.ranks;
    lists.emplace(number, std::move(list));
  }
  st.options.shown(view_of(st.options, lists));
}

void look_around(gateway_pointer self) {
  look_at(self, fitting(self->state, ""), [self] {
    show_cluster(self);
    self->delayed_send(self, defaults::gateway_period, caf::tick_atom_v);
  });
}

void meet(gateway_pointer self, const msg<fbs::Observe>& m, const caf::strong_actor_ptr& handle) {
  auto& st = self->state;
  if (!handle) return;
  st.options.epoch = std::max(st.options.epoch, m.epoch());
  auto& p = st.processes[m->process()];
  p.facts = m.unpack();
  p.heard_ns = now_ns(*self);
  if (p.handle) {  // told again: it has ranks now, and may fall silent before the next look
    look_at(self, {m->process()}, [] {});
    return;
  }
  p.handle = caf::actor_cast<observer_actor>(handle);
  self->monitor(p.handle);
  if (const auto& who = self->current_sender(); who && p.facts.node == "head")
    st.coordinator = caf::actor_cast<coordinator_actor>(who);
  show(self);
  if (!std::exchange(st.ticking, true)) self->send(self, caf::tick_atom_v);
}

void down(gateway_pointer self, const caf::down_msg& m) {
  auto& st = self->state;
  std::set<uint32_t> gone;
  for (const auto& [number, p] : st.processes)
    if (p.handle.address() == m.source) gone.insert(number);
  std::vector<uint64_t> views;
  for (const auto& [id, v] : st.views) views.push_back(id);
  for (const auto number : gone) {
    const auto node = st.processes.extract(number).mapped().facts.node;
    for (const auto id : views) sender_gone(self, id, number, node);
  }
  for (const auto id : views) {
    const auto it = st.views.find(id);
    if (it != st.views.end() && it->second.viewer.address() == m.source)
      stop_view(self, id);  // GTW-3
  }
  show(self);
}

}  // namespace

gateway_state::~gateway_state() {
  if (peers != nullptr) peers->set_refusal_listener({});
}

gateway_actor::behavior_type gateway(gateway_pointer self, gateway_options options) {
  guard_mailbox(self);
  introduce(self, "gateway");
  auto& st = self->state;
  st.options = std::move(options);
  const bool is_shared = st.options.audit != nullptr;
  st.audit = is_shared ? st.options.audit
                       : std::make_shared<audit_log>(st.options.audit_path, st.options.wall_time);
  if (!is_shared && !st.options.audit_path.empty()) {
    st.peers = &self->runtime().peers;
    st.peers->set_refusal_listener([log = st.audit](const refusal& r) {  // GTW-4
      log->note_refusal(
          r, std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
    });
  }
  show(self);
  self->set_down_handler([self](const caf::down_msg& m) { down(self, m); });
  return {
      status_handler(self),
      [self](const msg<fbs::Observe>& m, const caf::strong_actor_ptr& h) { meet(self, m, h); },
      [self](const msg<fbs::ListActors>& m) { return view(self, m); },
      [self](const msg<fbs::CallActor>& m) { return call(self, m); },
      [self](const msg<fbs::KillActor>& m) {
        return order(self, m, "KillActor", text_of(m->actor()));
      },
      [self](const msg<fbs::SetLogLevel>& m) {
        return order(self, m, "SetLogLevel", text_of(m->level()));
      },
      [self](const msg<fbs::DumpBlackBox>& m) {
        return order(self, m, "DumpBlackBox", text_of(m->node()));
      },
      [self](const msg<fbs::DrainNode>& m) { return drain(self, m); },
      [self](const msg<fbs::TraceStart>& m, const caf::strong_actor_ptr& viewer) {
        return start_view(self, m, viewer);
      },
      [self](const msg<fbs::IncidentReport>& m) { note_decision(self, m); },
      [self](const msg<fbs::TraceMore>& m) {
        const auto it = self->state.processes.find(m->process());
        if (it != self->state.processes.end() && owns_view(self, m->subscription()))
          self->send(it->second.handle, m);
      },
      [self](const msg<fbs::TraceStop>& m) {
        if (owns_view(self, m->subscription())) stop_view(self, m->subscription());
      },
      [self](const msg<fbs::TraceBatch>& m) { pass_batch(self, m); },
      [self](caf::tick_atom) { look_around(self); },
  };
}

}  // namespace troupe::trace
