// Counting votes a second time.
#include "actors/sim/heads_watch.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "messages/registry.hpp"
#include "messages/text.hpp"

namespace troupe::sim {

namespace {

template <class T>
bool holds(const any_msg& m) {
  return m.type() == message_traits<T>::id;
}

double seconds(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

}  // namespace

void heads_watch::saw(const any_msg& m, const actor_stats& receiver) {
  const int at = where_.node_of(receiver);
  if (holds<fbs::Promised>(m)) return granted(m, at);
  if (holds<fbs::Elect>(m)) {
    if (const auto epoch = cast<fbs::Elect>(m)->epoch(); epoch > 0)
      asked_[m.header().span] = epoch;
    else
      heads_[at].asked_to_commit_ns = where_.now_ns();
    return;
  }
  if (holds<fbs::Elected>(m)) return elected(m, receiver, at);
  if (holds<fbs::JobMemory>(m) || holds<fbs::ClusterMemory>(m)) {
    if (receiver.path() == "journal") said(m, at);
    return;
  }
  if (holds<fbs::Ack>(m)) {
    const auto path = receiver.path();
    if (path == "run" || path == "coordinator") acknowledged(m.header().parent);
    return;
  }
  if (holds<fbs::Suspend>(m) || holds<fbs::Assign>(m) || holds<fbs::RunStep>(m)) return ordered(m);
  if (holds<fbs::CommitCheckpoint>(m)) return commits(at);
  if (holds<fbs::StepReport>(m)) return stepped(at);
}

/// SIM-17. Who has said so is a voter, whoever passed it on.
void heads_watch::granted(const any_msg& m, int to) {
  const auto vote = cast<fbs::Promised>(m);
  if (!vote || !vote->granted()) return;
  const int voter = where_.node_of_sender(m.header().sender);
  const auto elected = text_of(vote->head());
  auto& whom = promised_[{voter, vote->epoch()}];
  if (!whom.empty() && whom != elected)
    where_.violation(fmt::format("epoch {} is promised to the heads at {} and {} by one voter",
                                 vote->epoch(), whom, elected));
  whom = elected;
  latest_[voter] = std::max(latest_[voter], vote->epoch());
  const auto known = address_.find(to);
  if (known != address_.end() && known->second == elected)
    grants_[{vote->epoch(), elected}].insert(voter);
}

/// SIM-17. Its own vote comes by no message.
void heads_watch::check_majority(uint32_t epoch, int place) {
  auto& voters = grants_[{epoch, address_[place]}];
  voters.insert(place);
  if (2 * voters.size() <= rules_.voters)
    where_.violation(fmt::format("the head at {} acts in epoch {} by {} of {} votes",
                                 address_[place], epoch, voters.size(), rules_.voters));
  const auto [it, fresh] = elected_.emplace(epoch, place);
  if (!fresh && it->second != place)
    where_.violation(fmt::format("the heads at {} and {} are elected in epoch {}",
                                 address_[it->second], address_[place], epoch));
}

void heads_watch::elected(const any_msg& m, const actor_stats& receiver, int to) {
  heads_[to].elected_ns = where_.now_ns();
  const auto asked = asked_.find(m.header().parent);
  if (asked != asked_.end() && receiver.path() == "coordinator") check_majority(asked->second, to);
}

void heads_watch::voter_finds(int place, uint32_t promised) {
  if (promised < latest_[place])
    where_.violation(fmt::format("a voter promised epoch {}, and its next process knows of {}",
                                 latest_[place], promised));
}

// -- what is decided ------------------------------------------------------------------------------

void heads_watch::said(const any_msg& m, int at) {
  const auto bytes = encode(m);
  records_[m.header().span] = {{heads_[at].won, ++said_},
                               m.type(),
                               at,
                               where_.now_ns(),
                               {bytes.begin(), bytes.end()}};
}

/// SIM-18: with a head that was elected since.
void heads_watch::check_found(const victory& later, uint32_t epoch, const record& what) {
  if (what.said_ns > later.at_ns)
    return where_.violation(fmt::format("{} was acknowledged to the head at {}, which said so "
                                        "{:.3f} s after another was elected in epoch {}",
                                        find_message(what.kind)->name, address_[what.place],
                                        seconds(what.said_ns - later.at_ns), epoch));
  const auto held = later.held.find(what.kind);
  if (held == later.held.end() || held->second < what.at)
    where_.violation(fmt::format("{} was acknowledged to the head at {}, and the one that is "
                                 "elected in epoch {} does not know it",
                                 find_message(what.kind)->name, address_[what.place], epoch));
}

void heads_watch::acknowledged(uint64_t parent) {
  const auto found = records_.find(parent);
  if (found == records_.end()) return;
  const auto& what = found->second;
  auto& newest = acknowledged_[what.kind];
  if (newest.at < what.at) newest = what;
  for (const auto& [epoch, one] : victories_)
    if (epoch > what.at.first) check_found(one, epoch, what);
}

void heads_watch::won(int place, const heads::won_epoch& what) {
  check_majority(what.epoch, place);
  if (over_)
    where_.violation(fmt::format("the job is over, and the head at {} acts", address_[place]));
  ++takeovers_;
  victory mine{place, where_.now_ns(), {}};
  for (const auto& [kind, held] : what.held)
    for (const auto& [span, said] : records_)
      if (said.kind == kind && said.content == held.content)
        mine.held[kind] = std::max(mine.held[kind], said.at);
  for (const auto& [kind, acknowledged] : acknowledged_)
    if (acknowledged.at.first < what.epoch) check_found(mine, what.epoch, acknowledged);
  victories_[what.epoch] = std::move(mine);
}

void heads_watch::begins(int place, uint32_t won_epoch, uint64_t resumed_step) {
  heads_[place] = {won_epoch, where_.now_ns(), -1};
  if (resumed_step < saved_)  // SIM-19
    where_.violation(fmt::format("step {} was said to be saved, and the next head begins from {}",
                                 saved_, resumed_step));
}

void heads_watch::told_saved(int place, uint64_t step) {
  (void)place;
  saved_ = std::max(saved_, step);
}

void heads_watch::over(int) {
  over_ = true;
}

// -- what is done ---------------------------------------------------------------------------------

/// SIM-17, SIM-22.
void heads_watch::ordered(const any_msg& m) {
  if (m.header().sender == 0) return;
  const int by = where_.node_of_sender(m.header().sender);
  const auto it = elected_.find(m.epoch());
  if (it == elected_.end() || it->second != by)
    where_.violation(fmt::format("the head at {} orders in epoch {}, which no majority gave it",
                                 address_[by], m.epoch()));
}

/// SIM-19: only where a majority was asked before another had won.
void heads_watch::commits(int at) {
  const auto asked_ns = std::exchange(heads_[at].asked_to_commit_ns, -1);
  for (const auto& [epoch, one] : victories_)
    if (epoch > heads_[at].won && one.place != at && where_.now_ns() > one.at_ns &&
        (asked_ns < 0 || asked_ns > one.at_ns))
      where_.violation(fmt::format("the head at {} commits a checkpoint after another was elected "
                                   "in epoch {}",
                                   address_[at], epoch));
}

/// SIM-22.
void heads_watch::stepped(int at) {
  const auto since_ns = std::max(heads_[at].elected_ns, woke_ns_[at]);
  if (where_.now_ns() - since_ns > rules_.without_majority_ns)
    where_.violation(fmt::format("the head at {} has a step made {:.1f} s after its last majority",
                                 address_[at], seconds(where_.now_ns() - since_ns)));
}

}  // namespace troupe::sim
