// Knocking, asking, counting.
#include "actors/heads/elector.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "io/config/heads.hpp"
#include "messages/text.hpp"

namespace troupe::heads {

namespace {

using elector_pointer = traced_pointer<elector_actor, elector_state>;
using round_pointer = std::shared_ptr<vote_round>;

other_head* head_named(elector_state& st, std::string_view name) {
  const auto it = std::find_if(st.heads.begin(), st.heads.end(),
                               [&](const other_head& h) { return h.name == name; });
  return it == st.heads.end() ? nullptr : &*it;
}

void tell(elector_pointer self, std::string text) {
  if (self->state.options.tell) self->state.options.tell(std::move(text));
}

/// Voters that can be asked, itself among them.
size_t reachable(const elector_state& st) {
  return 1 + st.nodes.size() +
         static_cast<size_t>(std::count_if(st.heads.begin(), st.heads.end(),
                                           [](const other_head& h) { return bool(h.handle); }));
}

void show(elector_pointer self, size_t granted) {
  const auto& st = self->state;
  publish(self, st.acting > 0 ? "acting" : "standing by", [&](fbs::ElectorStatusT& s) {
    s.epoch = st.acting;
    s.promised = st.votes ? st.votes->promises().epoch() : 0;
    s.voters = static_cast<uint32_t>(st.voters.size());
    s.reachable = static_cast<uint32_t>(reachable(st));
    s.granted = static_cast<uint32_t>(granted);
  });
}

// -- rounds ---------------------------------------------------------------------------------------

void finish(elector_pointer self, const round_pointer& round, const status& how) {
  std::erase(self->state.rounds, round);
  show(self, round->votes.grants());
  if (const auto done = std::exchange(round->done, {})) done(how);
}

void ask_own(elector_pointer self, const round_pointer& round);

/// ELC-5.
bool own_comes_last(const elector_state& st, const vote_round& round) {
  return st.acting == 0 && !round.record && round.votes.grants() + 1 < round.votes.needed();
}

void judge(elector_pointer self, const round_pointer& round) {
  if (!round->done) return;
  if (!own_comes_last(self->state, *round)) ask_own(self, round);
  const auto& v = round->votes;
  switch (v.judge()) {
    case majority_policy::verdict::won:
      return finish(self, round, {});
    case majority_policy::verdict::lost:
      return finish(self, round, outvoted(v.other_epoch(), v.other_head()));
    case majority_policy::verdict::open:
      break;
  }
  if (now_ns(*self) >= round->until_ns)
    finish(self, round, no_majority(v.grants(), v.voters(), v.needed()));
}

void count(elector_pointer self, const round_pointer& round, const std::string& voter,
           const fbs::PromisedT& vote) {
  self->state.takeover->heard_of(vote.epoch);
  const auto held = records_in(vote);
  // A head whose own vote was not kept may ask for the same epoch again: no number is used twice.
  for (const auto& [kind, record] : held)
    self->state.records = std::max(self->state.records, record.number);
  if (vote.granted)
    round->votes.granted(voter, held);
  else
    round->votes.refused(voter, vote.epoch, vote.head);
}

fbs::HoldRecordT order_of(const elector_state& st, const vote_round& round) {
  fbs::HoldRecordT out;
  out.head = st.options.name;
  out.record = std::make_unique<fbs::HeldRecordT>(to_message(*round.record));
  return out;
}

template <class T>
void ask_voter(elector_pointer self, const round_pointer& round, const std::string& name,
               const voter_actor& voter, const msg<T>& m) {
  round->asked.insert(name);
  ask_either<fbs::Promised>(self, voter, std::tuple(m),
                            {name, fmt::format("its vote about epoch {}", round->epoch)},
                            [self, round, name](const result<msg<fbs::Promised>>& answer) {
                              round->asked.erase(name);  // asked again where it did not answer
                              if (answer) count(self, round, name, answer->unpack());
                              judge(self, round);
                            });
}

void ask_voter(elector_pointer self, const round_pointer& round, const std::string& name,
               const voter_actor& voter) {
  if (!voter || round->asked.contains(name) || round->votes.has_answered(name)) return;
  const auto& st = self->state;
  const auto context = context_of(*self, round->epoch);
  if (round->record)
    return ask_voter(self, round, name, voter,
                     make_msg<fbs::HoldRecord>(context, order_of(st, *round)));
  ask_voter(self, round, name, voter, make_msg<fbs::PromiseEpoch>(context, [&](auto& p) {
              p.epoch = round->epoch;
              p.head = st.options.name;
            }));
}

/// ELC-4.
void ask_own(elector_pointer self, const round_pointer& round) {
  auto& st = self->state;
  const auto& own = st.options.name;
  if (!st.votes || round->asked.contains(own) || round->votes.has_answered(own)) return;
  const auto vote = round->record ? st.votes->hold(order_of(st, *round))
                                  : st.votes->promise(round->epoch, own);
  if (vote) return count(self, round, own, *vote);
  round->asked.insert(own);  // it is said once
  spdlog::warn("this head has no vote: {}", render(vote.error()));
}

void ask_all(elector_pointer self, const round_pointer& round) {
  auto& st = self->state;
  for (const auto& h : st.heads)
    ask_voter(self, round, h.name, caf::actor_cast<voter_actor>(h.handle));
  for (const auto& [name, voter] : st.nodes) ask_voter(self, round, name, voter);
  judge(self, round);
}

void begin_round(elector_pointer self, uint32_t epoch, std::optional<held_record> record,
                 std::function<void(const round_pointer&, const status&)> done) {
  auto& st = self->state;
  const auto round = std::make_shared<vote_round>(vote_round{
      epoch, std::move(record), majority_policy(st.voters), {},
      now_ns(*self) + ns_of(defaults::round_patience), {}});
  round->done = [weak = std::weak_ptr(round), done = std::move(done)](const status& how) {
    if (const auto strong = weak.lock()) done(strong, how);
  };
  st.rounds.push_back(round);
  ask_all(self, round);
}

// -- what the head of this process wants ----------------------------------------------------------

/// ELC-2, one record after the other.
void hold_what_it_begins_with(elector_pointer self, std::function<void(const status&)> then) {
  auto& st = self->state;
  if (st.to_hold.empty()) return then({});
  const auto kind = st.to_hold.begin()->first;
  // Older than whatever this head has said meanwhile.
  const uint64_t number = st.options.begins_with.size() - st.to_hold.size() + 1;
  held_record record{st.acting, number, st.to_hold.begin()->second.content};
  begin_round(self, st.acting, std::move(record),
              [self, kind, then = std::move(then)](const round_pointer&, const status& how) {
                if (!how) return then(how);
                self->state.to_hold.erase(kind);
                hold_what_it_begins_with(self, then);
              });
}

caf::result<msg<fbs::Elected>> elect(elector_pointer self, const msg<fbs::Elect>& m) {
  auto& st = self->state;
  auto rp = self->make_response_promise<msg<fbs::Elected>>();
  st.wanted = std::max({st.wanted, st.acting, m->epoch()});
  auto answer = [self, rp, cause = m.header()](uint32_t voters, const status& how) mutable {
    if (!how) return static_cast<void>(rp.deliver(to_caf(how.error())));
    rp.deliver(make_msg<fbs::Elected>(context_of(*self, cause),
                                      [&](auto& e) { e.voters = voters; }));
  };
  begin_round(self, st.wanted, std::nullopt,
              [self, answer](const round_pointer& round, const status& how) mutable {
                if (!how) return answer(0, how);
                self->state.acting = std::max(self->state.acting, round->epoch);
                const auto voters = static_cast<uint32_t>(round->votes.grants());
                hold_what_it_begins_with(self, [answer, voters](const status& held) mutable {
                  answer(voters, held);
                });
              });
  return rp;
}

caf::result<msg<fbs::Ack>> share(elector_pointer self, const msg<fbs::ShareRecord>& m) {
  auto& st = self->state;
  auto rp = self->make_response_promise<msg<fbs::Ack>>();
  const auto what = m.unpack();
  const auto epoch = std::max(st.wanted, st.acting);
  held_record record{epoch, ++st.records, {what.content.begin(), what.content.end()}};
  begin_round(self, epoch, std::move(record),
              [self, rp, cause = m.header()](const round_pointer&, const status& how) mutable {
                if (!how) return static_cast<void>(rp.deliver(to_caf(how.error())));
                rp.deliver(make_msg<fbs::Ack>(context_of(*self, cause), [](auto&) {}));
              });
  return rp;
}

// -- what others want -----------------------------------------------------------------------------

/// ELC-4.
bool is_taken(elector_pointer self, const std::string& head) {
  const auto& st = self->state;
  if (st.acting > 0) return true;
  return st.takeover->hears_acting(now_ns(*self)) && head != st.last_acting;
}

caf::result<msg<fbs::Promised>> vote(elector_pointer self, const message_header& cause,
                                     const std::string& head, uint32_t epoch,
                                     const std::function<result<fbs::PromisedT>()>& give) {
  auto& st = self->state;
  if (!st.votes) return to_caf({errc::unavailable, "this head has no vote"});
  const auto given = is_taken(self, head) ? result<fbs::PromisedT>(st.votes->refusal()) : give();
  if (!given) return to_caf(given.error());
  if (given->granted && head == st.last_acting)
    st.takeover->heard_acting(epoch, now_ns(*self));
  else if (given->granted)
    st.takeover->promised_to_other(epoch, now_ns(*self));
  return make_msg<fbs::Promised>(context_of(*self, cause), *given);
}

caf::result<msg<fbs::Promised>> promise(elector_pointer self, const msg<fbs::PromiseEpoch>& m) {
  const auto head = text_of(m->head());
  return vote(self, m.header(), head, m->epoch(), [&] {
    return self->state.votes->promise(m->epoch(), head);
  });
}

caf::result<msg<fbs::Promised>> hold(elector_pointer self, const msg<fbs::HoldRecord>& m) {
  const auto what = m.unpack();
  return vote(self, m.header(), what.head, what.record ? what.record->epoch : 0, [&] {
    return self->state.votes->hold(what);
  });
}

/// A head says how it is.
void heard(elector_pointer self, other_head& h, uint32_t epoch) {
  auto& st = self->state;
  const auto now = now_ns(*self);
  h.heard_ns = now;
  if (epoch == 0) return;
  st.waiting->heard(now);
  if (epoch < st.takeover->latest()) return st.takeover->heard_acting(epoch, now);
  if (st.acting == 0 && (st.last_acting != h.name || h.epoch == 0))
    tell(self, fmt::format("the head at {} acts in epoch {}", h.name, epoch));
  h.epoch = epoch;
  st.takeover->heard_acting(epoch, now);
  st.last_acting = h.name;
  st.last_heard_ns = now;
  st.last_ahead_ns = h.ahead_ns;
  st.lost_how.clear();
}

void meet(elector_pointer self, other_head& h, const caf::strong_actor_ptr& peer) {
  const auto handle = caf::actor_cast<elector_actor>(peer);
  if (h.handle == handle) return;
  if (h.handle) self->demonitor(h.handle.address());
  h.handle = handle;
  self->monitor(h.handle);
}

/// A node that has no head, or follows this one.
void meet_node(elector_pointer self, const std::string& name, const caf::strong_actor_ptr& peer) {
  auto& st = self->state;
  if (std::find(st.voters.begin(), st.voters.end(), name) == st.voters.end()) return;
  const auto handle = caf::actor_cast<voter_actor>(peer);
  auto& there = st.nodes[name];
  if (there == handle) return;
  if (there) self->demonitor(there.address());
  there = handle;
  self->monitor(there);
}

/// Says that the job is over to heads within reach; `then` once each has heard it, or cannot.
void pass_end_on(elector_pointer self, const std::vector<elector_actor>& to,
                 const msg<fbs::HeadEnds>& m, std::function<void()> then = {}) {
  const auto open = std::make_shared<size_t>(to.size());
  for (const auto& head : to)
    ask_either<fbs::Ack>(self, head, std::tuple(m),
                         {"elector", "another head that hears that the job is over"},
                         [open, then](const result<msg<fbs::Ack>>&) {
                           if (--*open == 0 && then) then();
                         });
  if (to.empty() && then) then();
}

msg<fbs::HeadFound> seek(elector_pointer self, const msg<fbs::FindHead>& m,
                         const caf::strong_actor_ptr& asker) {
  auto& st = self->state;
  const auto name = text_of(m->name());
  if (auto* h = head_named(st, name)) {
    if (asker) meet(self, *h, asker);
    heard(self, *h, m->epoch());
    if (st.over && h->handle) pass_end_on(self, {h->handle}, *st.over);
  } else if (asker) {
    meet_node(self, name, asker);
    st.step = std::max(st.step, m->step());
  }
  for (const auto& round : std::vector(st.rounds)) ask_all(self, round);
  return make_msg<fbs::HeadFound>(context_of(*self, m.header()), [&](auto& f) {
    f.name = st.options.name;
    f.epoch = st.acting;
    f.open = st.open;
    f.now_ns = now_ns(*self);
    f.job = st.options.settings.digest();
    if (m->job() != 0 && m->job() != f.job) f.settings = st.options.settings.lines();
  });
}

/// For those that come back when nobody is there any more (ELC-7).
void keep_end(elector_pointer self, const std::string& reason) {
  auto& st = self->state;
  if (!st.votes) return;
  const auto kept = st.votes->end_job(std::max(st.acting, st.takeover->latest()), reason);
  if (!kept) spdlog::warn("that the job is over is not kept: {}", render(kept.error()));
}

caf::result<msg<fbs::Ack>> end_job(elector_pointer self, const msg<fbs::HeadEnds>& m) {
  auto& st = self->state;
  const auto ack = [self, cause = m.header()] {
    return make_msg<fbs::Ack>(context_of(*self, cause), [](auto&) {});
  };
  // One that was outvoted and does not know it yet is open, too: the two would tell each other.
  if (st.open && st.over) return ack();
  if (st.open) {
    st.over = m;
    keep_end(self, text_of(m->reason()));
    std::vector<elector_actor> others;
    for (const auto& h : st.heads)
      if (h.handle) others.push_back(h.handle);
    auto rp = self->make_response_promise<msg<fbs::Ack>>();
    pass_end_on(self, others, m, [rp, ack]() mutable { rp.deliver(ack()); });
    return rp;
  }
  if (std::exchange(st.decided, true)) return ack();
  keep_end(self, text_of(m->reason()));
  if (st.options.over) st.options.over(text_of(m->reason()));
  return ack();
}

/// ELC-6.
void compare(elector_pointer self, const msg<fbs::HeadFound>& acting) {
  auto& st = self->state;
  const auto& own = st.options.settings;
  if (st.acting > 0 || acting->epoch() == 0 || acting->job() == 0 || own.digest() == 0) return;
  if (acting->job() == own.digest() || std::exchange(st.decided, true)) return;
  if (st.options.refused)
    st.options.refused(own.differ_from(acting.unpack().settings, text_of(acting->name())));
}

// -- other heads ----------------------------------------------------------------------------------

void knock(elector_pointer self, other_head& h) {
  const auto place = config::head_place_of(h.name);
  if (!place) return;
  h.asked = true;
  const auto& o = self->state.options;
  if (o.expect) o.expect(place->host, place->port);
  const auto over = [self, name = h.name](const caf::strong_actor_ptr& peer) {
    auto* there = head_named(self->state, name);
    there->asked = false;
    there->knock_ns = now_ns(*self) + ns_of(defaults::head_knock_pause);
    if (peer) meet(self, *there, peer);
  };
  self->request(o.connector(self->system()), defaults::connect_timeout, caf::connect_atom_v,
                place->host, place->port)
      .then([over](const caf::node_id&, const caf::strong_actor_ptr& peer,
                   const std::set<std::string>&) { over(peer); },
            [over](const caf::error&) { over({}); });
}

void ask_how_it_is(elector_pointer self, other_head& h) {
  const auto& st = self->state;
  h.asked = true;
  const auto sent_ns = now_ns(*self);
  auto m = make_msg<fbs::FindHead>(context_of(*self, 0), [&](auto& f) {
    f.name = st.options.name;
    f.epoch = st.acting;
    f.job = st.options.settings.digest();
  });
  request(self, h.handle, m, caf::actor_cast<caf::strong_actor_ptr>(self))
      .then(
          [self, name = h.name, sent_ns](const msg<fbs::HeadFound>& found) {
            auto& there = *head_named(self->state, name);
            there.asked = false;
            there.ahead_ns = (sent_ns + now_ns(*self)) / 2 - found->now_ns();
            heard(self, there, found->epoch());
            compare(self, found);
          },
          [self, name = h.name](const caf::error&) {
            head_named(self->state, name)->asked = false;
          });
}

void look_after_heads(elector_pointer self) {
  for (auto& h : self->state.heads) {
    if (h.asked) continue;
    if (h.handle)
      ask_how_it_is(self, h);
    else if (!h.knocks && now_ns(*self) >= h.knock_ns)
      knock(self, h);
  }
}

void down(elector_pointer self, const caf::down_msg& m) {
  auto& st = self->state;
  std::erase_if(st.nodes, [&](const auto& n) { return n.second.address() == m.source; });
  for (auto& h : st.heads) {
    if (!h.handle || h.handle.address() != m.source) continue;
    h.handle = elector_actor{};
    h.epoch = 0;
    if (h.name != st.last_acting || st.acting > 0) continue;
    st.takeover->lost_acting();
    st.lost_how = "is lost: its connection broke";
    tell(self, fmt::format("warning: the head at {} {}", h.name, st.lost_how));
  }
}

// -- standing by ----------------------------------------------------------------------------------

void won(elector_pointer self, const vote_round& round) {
  auto& st = self->state;
  if (std::exchange(st.decided, true)) return;
  st.acting = round.epoch;
  won_epoch out{round.epoch, round.votes.newest(), st.last_acting, st.lost_how,
                st.last_heard_ns, st.last_ahead_ns, st.step, round.votes.grants()};
  if (out.how.empty())
    out.how = st.last_acting.empty()
                  ? "is not found"
                  : fmt::format("has not been heard of for {:.1f} s",
                                static_cast<double>(now_ns(*self) - st.last_heard_ns) / 1e9);
  if (st.options.decided) st.options.decided(out);
}

void stand_by(elector_pointer self) {
  auto& st = self->state;
  if (st.decided || st.acting > 0 || !st.rounds.empty()) return;
  const auto needed = majority_policy::majority_of(st.voters.size());
  const auto epoch = st.takeover->due(now_ns(*self), reachable(st), needed);
  if (!epoch) return;
  begin_round(self, *epoch, std::nullopt,
              [self](const round_pointer& round, const status& how) {
                auto& state = self->state;
                if (how) return won(self, *round);
                spdlog::debug("no majority for epoch {}: {}", round->epoch, how.error().message);
                state.takeover->lost_round(round->votes.other_epoch(), now_ns(*self));
              });
}

/// ELC-7.
void say_that_it_waits(elector_pointer self) {
  auto& st = self->state;
  if (st.decided || st.acting > 0) return;
  const auto silent_ns = st.waiting->due(now_ns(*self));
  if (!silent_ns) return;
  if (const auto how = st.options.has_ended ? st.options.has_ended() : std::nullopt) {
    st.decided = true;
    if (st.options.over) st.options.over(*how);
    return;
  }
  const auto whom = st.last_acting.empty()
                        ? fmt::format("no head of the job has been found that acts for {} s",
                                      *silent_ns / 1'000'000'000)
                        : fmt::format("the head at {} has not been heard of for {} s",
                                      st.last_acting, *silent_ns / 1'000'000'000);
  tell(self, fmt::format("waiting: {}; {} of {} heads and nodes are within reach, {} are needed to "
                         "act{}",
                         whom, reachable(st), st.voters.size(),
                         majority_policy::majority_of(st.voters.size()),
                         st.takeover->job_runs() ? "" : ", once `troupe up` has begun the job"));
}

void tick(elector_pointer self) {
  auto& st = self->state;
  look_after_heads(self);
  for (const auto& round : std::vector(st.rounds)) ask_all(self, round);
  stand_by(self);
  say_that_it_waits(self);
  show(self, 0);
  self->delayed_send(self, defaults::heads_period, caf::tick_atom_v);
}

void open_votes(elector_pointer self) {
  auto& st = self->state;
  auto votes = vote_store::open(*st.options.files, st.options.output, st.options.name);
  if (!votes) {
    spdlog::warn("this head has no vote: {}", render(votes.error()));
    return;
  }
  st.votes = std::move(*votes);
  st.takeover->heard_of(st.votes->promises().epoch());
}

}  // namespace

elector_actor::behavior_type elector(elector_pointer self, elector_options options) {
  guard_mailbox(self);
  introduce(self, "elector");
  auto& st = self->state;
  st.options = std::move(options);
  const auto& o = st.options;
  st.voters = config::voters_of(o.cluster);
  st.acting = o.acting;
  st.open = o.acting > 0;
  st.to_hold = o.begins_with;
  st.records = st.to_hold.size();  // these are the first
  st.takeover.emplace(o.takeover, now_ns(*self));
  st.waiting.emplace(2 * o.takeover.patience_ns, now_ns(*self));
  bool later = false;
  for (const auto& name : o.cluster.heads) {
    if (name == o.name)
      later = true;
    else
      st.heads.push_back({.name = name, .knocks = later});
  }
  open_votes(self);
  self->set_down_handler([self](const caf::down_msg& m) { down(self, m); });
  self->delayed_send(self, std::chrono::milliseconds(0), caf::tick_atom_v);
  return {
      status_handler(self),
      [self](const msg<fbs::PromiseEpoch>& m) { return promise(self, m); },
      [self](const msg<fbs::HoldRecord>& m) { return hold(self, m); },
      [self](const msg<fbs::FindHead>& m, const caf::strong_actor_ptr& asker) {
        return seek(self, m, asker);
      },
      [self](const msg<fbs::Elect>& m) { return elect(self, m); },
      [self](const msg<fbs::ShareRecord>& m) { return share(self, m); },
      [self](const msg<fbs::HeadEnds>& m) { return end_job(self, m); },
      [self](caf::tick_atom) { tick(self); },
  };
}

}  // namespace troupe::heads
