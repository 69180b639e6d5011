// Lists, calls and black boxes of one process; views are in views.cpp.
#include "actors/control/observer.hpp"

#include <unistd.h>
#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/ask.hpp"
#include "actors/control/views.hpp"
#include "io/base/text.hpp"
#include "messages/contract.hpp"
#include "messages/errors.hpp"
#include "messages/registry.hpp"
#include "messages/rejection.hpp"
#include "messages/type_ids.hpp"

namespace troupe::trace {

namespace {

constexpr int64_t rate_window_ns = 500'000'000;

// -- lists ----------------------------------------------------------------------------------------

double rate_of(observer_state& st, const actor_view& v, int64_t now) {
  auto& r = st.rates[v.key];
  if (r.at_ns == 0) {
    r = {v.handled, now, 0};
    const auto age = now - v.started_ns;
    r.per_s = age > 0 ? static_cast<double>(v.handled) * 1e9 / static_cast<double>(age) : 0;
  } else if (now - r.at_ns >= rate_window_ns) {
    const double past = static_cast<double>(now - r.at_ns) * 1e-9;
    r = {v.handled, now, static_cast<double>(v.handled - r.handled) / past};
  }
  return r.per_s;
}

/// Of those that have ended.
void forget_rates(observer_state& st) {
  std::unordered_set<uint64_t> living;
  for (const auto& stats : st.in->registry.living()) living.insert(stats->key());
  std::erase_if(st.rates, [&](const auto& r) { return !living.contains(r.first); });
}

caf::result<msg<fbs::ActorList>> list(observer_pointer self, const msg<fbs::ListActors>& m) {
  auto& st = self->state;
  const auto pattern = m->actor() ? m->actor()->str() : "";
  const auto now = now_ns(*self);
  fbs::ActorListT l;
  l.node = st.options.node;
  l.host = st.options.host;
  l.pid = static_cast<uint32_t>(getpid());
  l.process = process_tag();
  const auto clock = st.in->clock();
  l.offset_ns = clock.offset_ns;
  l.bound_ns = clock.bound_ns;
  l.rejected = counts().all_rejected();
  for (const auto& v : st.in->registry.view(m->dead()))
    if (glob_match(pattern, v.path)) {
      l.actors.push_back(info_of(v, now));
      if (v.ended_ns == 0) l.actors.back()->handled_per_s = rate_of(st, v, now);
    }
  forget_rates(st);
  if (auto made = try_make_msg<fbs::ActorList>(context_of(*self, m.header()), l)) return *made;
  return to_caf({errc::bad_data,
                 fmt::format("the actors of {} are too many for one answer", l.node),
                 "ask for fewer actors by a pattern"});
}

// -- calls ----------------------------------------------------------------------------------------

/// The answers to one CallActor, complete when none is missing (OBS-3).
struct call_under_way {
  caf::typed_response_promise<msg<fbs::CallAnswers>> answer;
  message_header cause;
  fbs::CallAnswersT answers;
  size_t missing = 0;
};

void deliver(observer_pointer self, call_under_way& c) {
  if (auto made = try_make_msg<fbs::CallAnswers>(context_of(*self, c.cause), c.answers))
    c.answer.deliver(*made);
  else
    c.answer.deliver(to_caf({errc::bad_data, "the answers are too large for one message",
                             "ask fewer actors by a pattern"}));
}

std::unique_ptr<fbs::FailureT> failure_of(const error& e) {
  auto f = std::make_unique<fbs::FailureT>();
  put_error(e, *f);
  return f;
}

/// A behaviour that takes any message of the language as an answer, or none at all.
template <class Answered>
caf::behavior any_answer(Answered answered, std::function<void(caf::error&)> failed) {
  caf::message_handler handlers{[answered](caf::unit_t) { answered(any_msg{}); },
                                [answered] { answered(any_msg{}); }};
#define TROUPE_HANDLER(domain, table, number) \
  handlers = handlers.or_else([answered](const msg<fbs::table>& m) { answered(m); });
  TROUPE_MESSAGES(TROUPE_HANDLER)
#undef TROUPE_HANDLER
  // The one answer to a person that has a handle beside it.
  handlers = handlers.or_else(
      [answered](const msg<fbs::GatewayFound>& m, const caf::strong_actor_ptr&) { answered(m); });
  return handlers.or_else([failed](caf::error& e) { failed(e); });
}

/// One actor's part of a call. CAF's request() wants to know the answer's type; a person's message
/// may have any, so this does what request() does with a behaviour for all of them.
void ask_one(observer_pointer self, const std::shared_ptr<call_under_way>& c,
             const actor_stats& stats, const caf::strong_actor_ptr& handle, const any_msg& m,
             std::chrono::milliseconds timeout) {
  const auto index = c->answers.answers.size();
  c->answers.answers.push_back(std::make_unique<fbs::CallAnswerT>());
  c->answers.answers.back()->actor = stats.path();
  c->answers.answers.back()->node = self->state.options.node;
  ++c->missing;
  auto done = [self, c, index](auto&& fill) {
    fill(*c->answers.answers[index]);
    if (--c->missing == 0) deliver(self, *c);
  };
  auto answered = [done](const any_msg& reply) {
    done([&](fbs::CallAnswerT& a) {
      if (reply) a.message = encode(reply);
    });
  };
  auto failed = [done](caf::error& e) {
    done([&](fbs::CallAnswerT& a) { a.failure = failure_of(from_caf(e)); });
  };
  const auto* call = find_call_of(stats.kind(), m.type());
  const auto id =
      self->new_request_id(call != nullptr && call->high_priority ? caf::message_priority::high
                                                                  : caf::message_priority::normal);
  self->request_response_timeout(caf::duration(timeout), id);
  self->add_multiplexed_response_handler(id.response_id(), any_answer(answered, failed));
  handle->enqueue(caf::actor_cast<caf::strong_actor_ptr>(self), id, wrap(m), self->context());
}

caf::result<msg<fbs::CallAnswers>> pass_call(observer_pointer self, const msg<fbs::CallActor>& m) {
  const auto bytes = m->message();
  auto decoded = bytes ? decode({bytes->data(), bytes->size()})
                       : result<any_msg>(error{errc::bad_data, "no message to pass on"});
  if (!decoded) return to_caf(decoded.error());
  if (auto allowed = may_be_carried(*decoded); !allowed) return to_caf(allowed.error());  // OBS-5
  const auto pattern = m->actor() ? m->actor()->str() : "";
  auto c = std::make_shared<call_under_way>();
  c->cause = m.header();
  c->answer = self->make_response_promise<msg<fbs::CallAnswers>>();
  const auto stamped = readdress(*decoded, context_of(*self, m.header()));
  const auto timeout = m->timeout_ms() > 0
                           ? std::chrono::milliseconds(m->timeout_ms())
                           : self->timeouts().of(contract_of<observer_actor, fbs::CallActor>());
  ++c->missing;  // held until all are asked
  for (const auto& stats : self->runtime().registry.living()) {  // several may bear one path
    const auto path = stats->path();
    if (pattern.empty() || !glob_match(pattern, path) || stats->key() == self->stats().key())
      continue;
    if (const auto handle = stats->handle()) ask_one(self, c, *stats, handle, stamped, timeout);
  }
  if (--c->missing == 0) deliver(self, *c);
  return c->answer;
}

caf::result<msg<fbs::Ack>> kill(observer_pointer self, const msg<fbs::KillActor>& m) {
  const auto path = m->actor() ? m->actor()->str() : "";
  auto stats = self->runtime().registry.find(path);
  auto handle = stats ? stats->handle() : nullptr;
  if (!handle) return to_caf({errc::not_found, fmt::format("actor not found: {}", path)});
  // Before the end: what led to it is what one wants to look at afterwards.
  const auto box = write_black_box(self, fmt::format("{} killed", path));
  self->send_exit(caf::actor_cast<caf::actor>(handle), caf::exit_reason::kill);
  return make_msg<fbs::Ack>(context_of(*self, m.header()), [&](auto& a) {
    a.text = fmt::format("{} of {} is told to end; {}", path, self->state.options.node,
                         box ? "the last seconds are in " + *box : box.error().message);
  });
}

caf::result<msg<fbs::Ack>> set_log(observer_pointer self, const msg<fbs::SetLogLevel>& m) {
  const auto level = m->level() ? m->level()->str() : "";
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off")  // what spdlog makes of an unknown word
    return to_caf({errc::usage, fmt::format("invalid log level: {}", level),
                   "one of trace, debug, info, warn, error, off"});
  spdlog::set_level(parsed);
  return make_msg<fbs::Ack>(context_of(*self, m.header()), [&](auto& a) {
    a.text = fmt::format("{} logs at level {}", self->state.options.node, level);
  });
}

}  // namespace

observer_state::~observer_state() {
  if (in != nullptr) in->registry.set_death_handler({});
}

observer_actor::behavior_type observer(observer_pointer self, observer_options options) {
  guard_mailbox(self);
  introduce(self, fmt::format("observer/{}", options.node));
  self->state.options = std::move(options);
  self->set_down_handler([self](const caf::down_msg& m) { viewer_gone(self, m.source); });
  show(self);
  watch_deaths(self);
  return {
      status_handler(self),
      [self](const msg<fbs::ListActors>& m) { return list(self, m); },
      [self](const msg<fbs::CallActor>& m) { return pass_call(self, m); },
      [self](const msg<fbs::KillActor>& m) { return kill(self, m); },
      [self](const msg<fbs::SetLogLevel>& m) { return set_log(self, m); },
      [self](const msg<fbs::DumpBlackBox>& m) { return dump_black_box(self, m); },
      [self](const msg<fbs::TraceStart>& m, const caf::strong_actor_ptr& viewer) {
        return begin_view(self, m, viewer);
      },
      [self](const msg<fbs::TraceMore>& m) { grant(self, m); },
      [self](const msg<fbs::TraceStop>& m) { end_view(self, m->subscription(), ""); },
      [self](caf::tick_atom) { look(self); },
  };
}

}  // namespace troupe::trace
