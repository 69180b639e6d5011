// From event to event: a step ends, a fault is seen, a phase of a recovery is over.
#include "actors/sim/days/day_model.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "actors/health/recovery_policy.hpp"
#include "actors/health/slow_evictions_policy.hpp"
#include "actors/sim/days/assumptions.hpp"
#include "actors/sim/days/day_losses.hpp"
#include "actors/sim/days/day_nodes.hpp"
#include "actors/sim/days/day_rules.hpp"

namespace troupe::sim {

double day_outcome::effective() const noexcept {
  const auto& all = ledger.whole();
  if (all.wall_ns() == 0) return 1;
  return static_cast<double>(all[health::time_use::useful] - slower_ns) /
         static_cast<double>(all.wall_ns());
}

namespace {

using health::finding_name;

constexpr int64_t s_ns = 1'000'000'000, hour_ns = 3600 * s_ns;
constexpr size_t saves_kept = 4096;

/// A state that can be returned to.
struct kept_state {
  uint64_t step = 0;
  int64_t made_ns = 0, safe_ns = 0;  ///< when it is committed, or held elsewhere
};

/// The job whose nodes these are.
config::job job_of(const day_options& o) {
  config::job job;
  const int64_t ranks = int64_t{o.nodes} * o.workers;
  const auto each = std::min(ranks, static_cast<int64_t>(assumed::ranks_a_replica.value));
  job.cluster.node.assign(static_cast<size_t>(o.nodes), {"", "", o.workers});
  job.parallel.pipeline = each;
  job.parallel.data = ranks / each;
  job.train.micro_batch = 1;
  job.train.batch = job.parallel.data * static_cast<int64_t>(assumed::rows_a_replica.value);
  return job;
}

class day_cluster {
 public:
  day_cluster(const day_options& o, const day_times& t, const std::vector<timed_fault>& schedule)
      : options_(o),
        times_(t),
        end_ns_(ns_of(o.days * 86'400)),
        rules_(o, t),
        policy_(o.recovery),
        nodes_(job_of(o), o.spares),
        losses_(o, t, rules_, nodes_),
        all_replicas_(nodes_.replicas()) {
    for (const auto& f : schedule) {
      const auto& cause = options_.mix.causes[f.cause];
      day_event e{f.at_ns, f, &cause, &rule_of(cause.symptom), out_.incidents.size()};
      e.seen_ns += rules_.unseen_ns(e);
      events_.push_back(e);
      out_.incidents.push_back({f.cause, f.at_ns});
    }
    std::stable_sort(events_.begin(), events_.end(),
                     [](const auto& a, const auto& b) { return a.seen_ns < b.seen_ns; });
    counts_.assign(out_.incidents.size(), false);
  }

  day_outcome run() {
    out_.ledger.begin(0);
    if (options_.as == "ours")
      train();
    else
      lose_published_times();
    out_.ledger.end(end_ns_);
    out_.steps = step_;
    out_.spares_used = nodes_.spares_used();
    out_.false_evictions = losses_.wrong_verdicts() + nodes_.healthy_evicted();
    tell_slowness();
    std::vector<day_incident> told;
    for (size_t i = 0; i < out_.incidents.size(); ++i)
      if (counts_[i]) told.push_back(out_.incidents[i]);
    out_.incidents = std::move(told);
    return std::move(out_);
  }

 private:
  enum class passed : uint8_t { whole, interrupted, over };
  enum class tried : uint8_t { trains, interrupted, failed, ended, over };

  /// A fault that the recovery under way is for.
  struct open_fault {
    day_event event;
    bool noticed = false, acted = false, left = false;
  };
  /// A node that computes longer, until it is repaired.
  struct slow_node {
    int node = 0;
    day_event event;
  };
  struct made_step {
    int64_t ended_ns = 0, longer_ns = 0;
  };

  // -- published times --------------------------------------------------------------------------

  /// DAY-3.
  void lose_published_times() {
    const auto& p = *std::find_if(published.begin(), published.end(),
                                  [&](const auto& x) { return x.name == options_.as; });
    const auto detect_ns = ns_of(options_.detect_s.value_or(p.detect_s));
    const auto restart_ns = ns_of(options_.restart_s.value_or(p.restart_s));
    out_.ledger.step_began(1, epoch_, 0);
    for (const auto& e : events_) {
      train_until(e.fault.at_ns);
      auto& i = note(e);
      const auto from_ns = now_ns_;
      now_ns_ = std::min(end_ns_, now_ns_ + detect_ns);
      out_.ledger.noticed(from_ns, now_ns_);
      out_.ledger.named(now_ns_);
      i.stops = true;
      i.noticed_ns = i.named_ns = now_ns_ - i.at_ns;
      now_ns_ = std::min(end_ns_, now_ns_ + restart_ns);
      out_.ledger.connected(now_ns_);
      go_on_after(step_ - std::min(step_, options_.steps_lost.value_or(0)));
      i.back_ns = now_ns_ - i.at_ns;
    }
    train_until(end_ns_);
  }

  void train_until(int64_t at_ns) {
    while (step_began_ns_ + times_.step_ns <= at_ns) {
      now_ns_ = step_began_ns_ += times_.step_ns;
      out_.ledger.step_ended(++step_, epoch_, now_ns_);
    }
    now_ns_ = std::max(now_ns_, at_ns);
  }

  // -- steps --------------------------------------------------------------------------------------

  void train() {
    now_ns_ = std::min(end_ns_, times_.process_start_ns + times_.groups_ns);
    out_.ledger.step_began(1, epoch_, now_ns_);
    policy_.has_begun();
    step_began_ns_ = epoch_began_ns_ = now_ns_;
    while (now_ns_ < end_ns_) {
      const auto step_end_ns = step_began_ns_ + step_ns();
      if (const auto* e = take_event(std::min(step_end_ns, end_ns_)))
        befall(*e);
      else if (step_end_ns > end_ns_)
        now_ns_ = end_ns_;
      else
        end_step(step_end_ns);
    }
  }

  /// FEW-1: fewer replicas share the same rows; all wait for the slowest.
  int64_t step_ns() const {
    auto s = static_cast<double>(times_.step_ns);
    if (!nodes_.has_all_replicas())
      s *= static_cast<double>(all_replicas_) / static_cast<double>(nodes_.replicas());
    const bool slow = std::any_of(slow_.begin(), slow_.end(),
                                  [&](const auto& n) { return nodes_.place_of(n.node) >= 0; });
    return static_cast<int64_t>(slow ? s * (1 + assumed::slow_share.value) : s);
  }

  void end_step(int64_t at_ns) {
    now_ns_ = at_ns;
    out_.ledger.step_ended(++step_, epoch_, now_ns_);
    policy_.has_progressed();
    if (made_.size() < step_) made_.resize(step_);
    made_[step_ - 1] = {now_ns_, std::max<int64_t>(0, at_ns - step_began_ns_ - times_.step_ns)};
    for (const auto i : await_step_) out_.incidents[i].back_ns = now_ns_ - out_.incidents[i].at_ns;
    await_step_.clear();
    int64_t stall_ns = 0;
    if (step_ % options_.checkpoint_every == 0 && now_ns_ >= saves_from_ns_) {
      keep(saves_, times_.save_ns);
      stall_ns += times_.blocking_ns;
    }
    if (options_.copies > 0 && step_ % options_.copies == 0) {
      keep(copies_, times_.copy_ns);
      stall_ns += times_.blocking_ns;
    }
    stall(stall_ns);
    if (!slow_.empty()) look_after_the_slow();
    if (!nodes_.has_all_replicas() && nodes_.may_grow(now_ns_)) recover_by_order();
  }

  void stall(int64_t for_ns) {
    const auto until_ns = std::min(end_ns_, now_ns_ + for_ns);
    out_.ledger.save_blocked(now_ns_, until_ns);
    now_ns_ = step_began_ns_ = until_ns;
  }

  void keep(std::deque<kept_state>& in, int64_t takes_ns) {
    in.push_back({step_, now_ns_, now_ns_ + takes_ns});
    if (in.size() > saves_kept) in.pop_front();
  }

  /// Of the steps that stand.
  void tell_slowness() {
    if (made_.size() > step_) made_.resize(step_);
    out_.slower_by_hour_ns.assign(out_.ledger.hours().size(), 0);
    for (const auto& s : made_) {
      out_.slower_ns += s.longer_ns;
      const auto hour = static_cast<size_t>(s.ended_ns / hour_ns);
      if (hour < out_.slower_by_hour_ns.size()) out_.slower_by_hour_ns[hour] += s.longer_ns;
    }
  }

  // -- faults -------------------------------------------------------------------------------------

  /// The next fault that is seen before then.
  const day_event* take_event(int64_t before_ns) {
    if (next_ == events_.size() || events_[next_].seen_ns >= before_ns) return nullptr;
    return &events_[next_++];
  }

  day_incident& note(const day_event& e) {
    counts_[e.incident] = true;
    return out_.incidents[e.incident];
  }

  /// A node of a place that is not used has no ranks.
  bool befalls_nobody(const day_event& e) const {
    return !e.of_job() && !e.of_switch() && e.fault.node >= nodes_.places();
  }

  void befall(const day_event& e) {
    if (befalls_nobody(e)) return;
    if (e.is_told()) return look_after(e);
    now_ns_ = std::max(now_ns_, e.seen_ns);
    begin_incident(e);
  }

  void begin_incident(const day_event& e) {
    open_.clear();
    open(e);
    recover(false);
  }

  /// Steps go on. Whose disk is full saves nothing until a person came.
  void look_after(const day_event& e) {
    auto& i = note(e);
    const auto& rules = options_.recovery;
    const bool slow = e.is(harm_done::slow);
    i.unaided = !e.rule->needs_person || (slow && rules.evict_slow);
    if (e.rule->finding == finding_name::disk_full)
      saves_from_ns_ = std::max(now_ns_, e.seen_ns) + times_.person_ns;
    if (!slow) return;
    i.noticed_ns = i.named_ns = times_.slow_ns;
    slow_.push_back({nodes_.node_in(e.fault.node), e});
    nodes_.fall_sick(slow_.back().node, sickness::slow, e.seen_ns + times_.repair_ns);
  }

  /// SEV-1, SEV-2; else a person drains it who was warned.
  void look_after_the_slow() {
    std::erase_if(slow_,
                  [&](const auto& n) { return n.event.seen_ns + times_.repair_ns <= now_ns_; });
    for (size_t i = 0; i < slow_.size(); ++i) {
      auto n = slow_[i];
      n.event.fault.node = nodes_.place_of(n.node);
      if (n.event.fault.node < 0) continue;
      const auto for_ns = now_ns_ - std::max(n.event.seen_ns, epoch_began_ns_);
      if (for_ns >= times_.slow_out_ns && may_evict_slow()) return begin_incident(n.event);
      if (now_ns_ - n.event.seen_ns < times_.warned_ns) continue;
      out_.incidents[n.event.incident].unaided = false;
      losses_.drain(n.event.fault.node, now_ns_);
      slow_.erase(slow_.begin() + static_cast<int64_t>(i));
      return recover_by_order();
    }
  }

  bool may_evict_slow() const {
    std::vector<health::past_recovery> past;
    for (const auto& [finding, at_ns] : begun_)
      past.push_back({std::string(health::facts_of(finding).name),
                      static_cast<double>(now_ns_ - at_ns) / 1e9});
    return health::slow_evictions_policy::allows(
        options_.recovery, static_cast<uint64_t>(nodes_.spares(now_ns_)), past);
  }

  // -- a recovery ---------------------------------------------------------------------------------

  /// `ordered`: nobody is lost by a fault; it saves first, and costs nothing of the budget.
  void recover(bool ordered) {
    for (bool again = false;;) {
      const auto since_ns = again || open_.empty() ? now_ns_ : open_.back().event.seen_ns;
      if (!notice()) return;
      out_.ledger.noticed(since_ns, now_ns_);
      switch (ends_job() ? tried::ended : attempt(again, ordered && !again && open_.empty())) {
        case tried::trains:
        case tried::over:
          return;
        case tried::ended:
          return call_person();
        case tried::interrupted:
          again = false;
          break;
        case tried::failed:
          again = true;
          break;
      }
    }
  }

  void recover_by_order() {
    stall(times_.blocking_ns + times_.save_ns);
    saves_.push_back({step_, now_ns_, now_ns_});
    open_.clear();
    recover(true);
  }

  void open(const day_event& e) {
    note(e).stops = true;
    open_.push_back({e});
  }

  /// Time passes; a further fault that stops steps joins those that are open.
  passed pass_until(int64_t at_ns) {
    while (const auto* e = take_event(std::min(at_ns, end_ns_))) {
      if (befalls_nobody(*e)) continue;
      if (e->is_told()) {
        look_after(*e);
        continue;
      }
      const bool is_out = std::any_of(open_.begin(), open_.end(), [&](const auto& o) {
        return o.event.fault.node == e->fault.node;
      });
      if (is_out) continue;
      now_ns_ = std::max(now_ns_, e->seen_ns);
      copies_gone_ = copies_gone_ || !open_.empty();  // a second loss before the first copy
      open(*e);
      return passed::interrupted;
    }
    now_ns_ = std::max(now_ns_, std::min(at_ns, end_ns_));
    return now_ns_ >= end_ns_ ? passed::over : passed::whole;
  }
  passed pass(int64_t for_ns) { return pass_until(now_ns_ + for_ns); }
  static tried as_tried(passed how) {
    return how == passed::over ? tried::over : tried::interrupted;
  }

  bool notice() {
    for (auto how = passed::interrupted; how == passed::interrupted;) {
      int64_t at_ns = now_ns_;
      for (const auto& o : open_)
        if (!o.noticed)
          at_ns = std::max(at_ns, o.event.seen_ns + rules_.notice_ns(o.event, takes_head(o.event)));
      how = pass_until(at_ns);
      if (how == passed::over) return false;
    }
    for (auto& o : open_) {
      if (std::exchange(o.noticed, true)) continue;
      auto& i = out_.incidents[o.event.incident];
      if (i.noticed_ns < 0) i.noticed_ns = now_ns_ - i.at_ns;
      if (rules_.is_named_at_once(o.event)) name(o.event);
    }
    return true;
  }

  void name(const day_event& e) {
    auto& i = out_.incidents[e.incident];
    if (i.named_ns < 0) i.named_ns = now_ns_ - i.at_ns;
  }

  /// Some time ago, while it was waited for the job to act.
  void name_by_tests(const day_event& e) {
    auto& i = out_.incidents[e.incident];
    const auto over_ns = std::min(now_ns_ - i.at_ns, i.noticed_ns + times_.link_tests_ns);
    if (i.named_ns < 0) i.named_ns = over_ns;
  }

  bool ends_job() const {
    return std::any_of(open_.begin(), open_.end(), [&](const auto& o) {
      const auto& e = o.event;
      return e.is(harm_done::loss) || (e.is(harm_done::bits) && !rules_.seen_bits(e)) ||
             (takes_head(e) && options_.heads < 2);
    });
  }

  tried attempt(bool again, bool ordered) {
    int64_t acts_after_ns = 0;
    for (const auto& o : open_)
      if (!o.acted) acts_after_ns = std::max(acts_after_ns, rules_.acting_ns(o.event));
    if (const auto how = pass(acts_after_ns); how != passed::whole) return as_tried(how);
    for (auto& o : open_) {
      const bool first = !std::exchange(o.acted, true);
      if (first && rules_.is_named_by_tests(o.event)) name_by_tests(o.event);
    }
    if (!ordered && !begins(again)) return tried::ended;
    out_.ledger.named(now_ns_);
    if (options_.restart_s) return restart_as_told();
    if (const auto how = pass(times_.protocol.quiet_ns); how != passed::whole) return as_tried(how);
    for (const auto& o : open_)
      if (o.event.is(harm_done::device)) name(o.event);  // NOD-4
    if (const auto how = find_members(); how != tried::trains) return how;
    if (const auto how = connect(); how != tried::trains) return how;
    out_.ledger.connected(now_ns_);
    const auto read_ns = has_copies() ? times_.read_copy_ns : times_.read_disk_ns;
    if (const auto how = pass(times_.protocol.restore_ns + read_ns); how != passed::whole)
      return as_tried(how);
    return train_again();
  }

  tried restart_as_told() {
    for (const auto& o : open_) name(o.event);
    if (const auto how = pass(ns_of(*options_.restart_s)); how != passed::whole)
      return as_tried(how);
    out_.ledger.connected(now_ns_);
    return train_again();
  }

  /// What the rules and budgets say. A rule that holds or ends the job needs a person.
  bool begins(bool again) {
    while (!begun_.empty() && now_ns_ - begun_.front().second >= hour_ns) begun_.pop_front();
    auto finding = finding_name::stuck_collective;  // of a step, or a start, that fails of nobody
    std::string node;
    if (!again && !open_.empty()) {
      const auto& e = open_.back().event;
      if (e.is(harm_done::head)) {
        policy_.take_ordered();
        return true;
      }
      if (!rules_.is_of_nobody(e)) {
        finding = day_rules::told_as(e);
        node = std::to_string(e.fault.node);
      }
    }
    begun_.emplace_back(finding, now_ns_);
    const auto decided = policy_.take(finding, node, now_ns_);
    return policy_.can_mend({errc::unavailable, "a fault"}) && decided &&
           decided->action == config::recovery_action::restart;
  }

  tried train_again() {
    go_on_after(return_point());
    if (std::exchange(laid_out_anew_, false)) copies_.clear();
    copies_gone_ = false;
    epoch_began_ns_ = now_ns_;
    for (const auto& o : open_) await_step_.push_back(o.event.incident);
    return tried::trains;
  }

  void go_on_after(uint64_t step) {
    out_.ledger.restored(step, ++epoch_, now_ns_);
    step_ = step;
    step_began_ns_ = now_ns_;
    for (auto* kept : {&saves_, &copies_})
      while (!kept->empty() && kept->back().step > step) kept->pop_back();
  }

  // -- who is lost, and who takes whose place -----------------------------------------------------

  /// Who is lost leaves, another head acts, spares come; else processes and hosts are waited for.
  tried find_members() {
    int64_t start_ns = times_.protocol.members_ns;
    for (auto& o : open_) {
      if (o.left) continue;
      const auto away_ns = head_ns(o.event);
      if (const auto how = pass(away_ns); how != passed::whole) return as_tried(how);
      if (takes_head(o.event)) head_node_ = (head_node_ + 1) % options_.heads;
      if (away_ns > 0) out_.ledger.head_was_away(o.event.seen_ns, now_ns_);
      o.left = true;
      losses_.leave(o.event, now_ns_);
      if (o.event.of_job() && o.event.is(harm_done::process))
        start_ns += times_.process_start_ns;  // all of them
    }
    if (nodes_.may_grow(now_ns_)) {
      nodes_.use_more(now_ns_ + times_.repair_ns, now_ns_);
      laid_out_anew_ = true;
    }
    if (const auto how = wait_for_nodes(); how != tried::trains) return how;
    out_.ledger.members_there(now_ns_);
    const auto how = pass(start_ns);
    return how == passed::whole ? tried::trains : as_tried(how);
  }

  /// CRD-17: with fewer replicas once recovery.return_s is over.
  tried wait_for_nodes() {
    const auto& rules = options_.recovery;
    const auto fewer_at_ns = now_ns_ + rules.return_s * s_ns;
    const auto give_up_ns = now_ns_ + rules.wait_s * s_ns;
    while (true) {
      nodes_.fill(now_ns_ + times_.repair_ns, now_ns_);
      const auto whole_ns = nodes_.whole_at_ns();
      if (whole_ns <= now_ns_) return tried::trains;
      const bool may_be_fewer = rules.fewer_replicas && now_ns_ >= fewer_at_ns;
      if (may_be_fewer &&
          nodes_.use_fewer(now_ns_ + times_.repair_ns, now_ns_ + times_.reschedule_ns, now_ns_)) {
        ++out_.fewer_replicas;
        laid_out_anew_ = true;
        continue;
      }
      if (now_ns_ >= give_up_ns) return tried::ended;
      if (whole_ns - now_ns_ >= times_.process_start_ns) out_.ledger.hold(now_ns_);
      auto until_ns = nodes_.next_join_ns(now_ns_, give_up_ns);
      if (rules.fewer_replicas && now_ns_ < fewer_at_ns) until_ns = std::min(until_ns, fewer_at_ns);
      if (const auto how = pass_until(until_ns); how != passed::whole) return as_tried(how);
    }
  }

  /// Groups connect, unless somebody is sick; who has lost a device is replaced in the next epoch.
  tried connect() {
    const auto& p = times_.protocol;
    const auto fails_after = [&](int64_t ns) {
      const auto how = pass(ns);
      return how == passed::whole ? tried::failed : as_tried(how);
    };
    if (broken_program()) return fails_after(p.connect_ns);
    if (const auto place = nodes_.place_of_sick(sickness::device, now_ns_); place >= 0) {
      const auto how = fails_after(p.connect_ns + p.notice_error_ns);
      losses_.lose_device(place, now_ns_);
      return how;
    }
    if (nodes_.place_of_sick(sickness::link, now_ns_) >= 0)
      return fails_after(times_.group_limit_ns);
    if (const auto how = pass(p.connect_ns + times_.groups_ns); how != passed::whole)
      return as_tried(how);
    if (nodes_.place_of_sick(sickness::disk, now_ns_) >= 0) return fails_after(p.notice_error_ns);
    return tried::trains;
  }

  bool broken_program() const {
    return std::any_of(open_.begin(), open_.end(),
                       [&](const auto& o) { return o.event.of_job() && rules_.stays(o.event); });
  }
  // -- the head -----------------------------------------------------------------------------------

  /// The host that it acts on.
  bool takes_head(const day_event& e) const {
    if (!e.is(harm_done::host) && !e.of_switch()) return false;
    const auto place = nodes_.place_of(head_node_);
    const auto hosts = e.of_switch() ? assumed::switch_nodes.value : 1;
    return place >= e.fault.node && place < e.fault.node + static_cast<int>(hosts);
  }

  /// Until a head acts again, beyond what it took to notice it.
  int64_t head_ns(const day_event& e) const {
    if (takes_head(e)) return times_.rejoin_ns;
    if (!e.is(harm_done::head)) return 0;
    return options_.heads > 1 ? std::min(times_.process_start_ns, times_.head_ns)
                              : times_.process_start_ns;
  }

  // -- where it goes on ---------------------------------------------------------------------------

  /// Copies go with all processes at once, with those behind a switch, with a second loss; they are
  /// no older than bits that went wrong, and of the ranks that there were.
  bool has_copies() const {
    return options_.copies > 0 && !copies_gone_ && !laid_out_anew_ &&
           std::none_of(open_.begin(), open_.end(), [](const auto& o) {
             const auto& e = o.event;
             return e.of_switch() || e.is(harm_done::bits) ||
                    (e.of_job() && e.is(harm_done::process));
           });
  }

  uint64_t return_point() const {
    if (options_.steps_lost) return step_ - std::min(step_, *options_.steps_lost);
    int64_t fell_ns = now_ns_, clean_ns = now_ns_;
    for (const auto& o : open_) {
      if (!o.event.is(harm_done::slow)) fell_ns = std::min(fell_ns, o.event.seen_ns);
      if (o.event.is(harm_done::bits)) clean_ns = std::min(clean_ns, o.event.fault.at_ns);
    }
    const auto newest = [&](const std::deque<kept_state>& kept) {
      for (auto it = kept.rbegin(); it != kept.rend(); ++it)
        if (it->safe_ns <= fell_ns && it->made_ns <= clean_ns) return it->step;
      return uint64_t{0};
    };
    const auto saved = newest(saves_);
    return has_copies() ? std::max(saved, newest(copies_)) : saved;
  }

  /// The job has ended; what befalls it meanwhile befalls nothing.
  void call_person() {
    ++out_.jobs_ended;
    bool head = false;
    for (const auto& o : open_) {
      out_.incidents[o.event.incident].unaided = false;
      head |= takes_head(o.event);
    }
    const auto since_ns = now_ns_;
    now_ns_ = std::min(end_ns_, now_ns_ + times_.person_ns);
    if (head) out_.ledger.head_was_away(since_ns, now_ns_);
    for (const auto& o : open_) name(o.event);
    out_.ledger.named(now_ns_);
    now_ns_ = std::min(end_ns_, now_ns_ + times_.requeue_ns + times_.groups_ns);
    out_.ledger.connected(now_ns_);
    now_ns_ = std::min(end_ns_, now_ns_ + times_.read_disk_ns);
    while (take_event(now_ns_) != nullptr) continue;
    copies_.clear();
    (void)train_again();
    nodes_.mend(now_ns_);
    std::erase_if(slow_, [&](const auto& n) { return nodes_.place_of(n.node) >= 0; });
    head_node_ = 0;
    policy_ = health::recovery_policy(options_.recovery);
    policy_.has_begun();
  }

  const day_options& options_;
  const day_times& times_;
  const int64_t end_ns_;
  day_outcome out_;
  const day_rules rules_;
  health::recovery_policy policy_;
  day_nodes nodes_;
  day_losses losses_;
  const int64_t all_replicas_;
  std::vector<day_event> events_;
  std::vector<bool> counts_;  ///< by incident: it befell the job
  size_t next_ = 0;
  int64_t now_ns_ = 0;
  int64_t step_began_ns_ = 0, epoch_began_ns_ = 0;
  int64_t saves_from_ns_ = 0;
  uint64_t step_ = 0;
  uint32_t epoch_ = 1;
  int head_node_ = 0;
  bool copies_gone_ = false, laid_out_anew_ = false;
  std::deque<kept_state> saves_, copies_;
  std::vector<made_step> made_;  ///< by step, from the first
  std::vector<open_fault> open_;
  std::deque<std::pair<finding_name, int64_t>> begun_;  ///< recoveries of the last hour
  std::vector<slow_node> slow_;
  std::vector<size_t> await_step_;
};

}  // namespace

day_outcome simulate_days(const day_options& options, const day_times& times,
                          const std::vector<timed_fault>& schedule) {
  return day_cluster(options, times, schedule).run();
}

}  // namespace troupe::sim
