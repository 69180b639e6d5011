// From event to event: a step ends, a fault is seen, a phase of a recovery is over.
#include "actors/sim/days/day_model.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "actors/health/recovery_policy.hpp"
#include "actors/sim/days/assumptions.hpp"
#include "actors/sim/days/symptoms.hpp"

namespace troupe::sim {

const symptom_rule& rule_of(std::string_view finding) {
  return *std::find_if(symptom_rules.begin(), symptom_rules.end(),
                       [&](const auto& r) { return r.finding == finding; });
}

namespace {

constexpr int64_t hour_ns = 3'600'000'000'000;
constexpr size_t saves_kept = 4096;

/// A fault, by when it begins to be noticed: wrong bits are for a while not.
struct day_event {
  int64_t seen_ns = 0;
  timed_fault fault;
  const fault_cause* cause = nullptr;
  const symptom_rule* rule = nullptr;
  size_t incident = 0;
};

/// A state that can be returned to.
struct kept_state {
  uint64_t step = 0;
  int64_t made_ns = 0, safe_ns = 0;  ///< when it is committed, or held elsewhere
};

class day_cluster {
 public:
  day_cluster(const day_options& o, const day_times& t, const std::vector<timed_fault>& schedule)
      : options_(o),
        times_(t),
        end_ns_(ns_of(o.days * 86'400)),
        policy_(o.recovery),
        spares_(o.spares) {
    for (const auto& f : schedule) {
      const auto& cause = options_.mix.causes[f.cause];
      day_event e{f.at_ns, f, &cause, &rule_of(cause.symptom), out_.incidents.size()};
      e.seen_ns += unseen_ns(e);
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
    bool noticed = false, replaced = false;
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

  // -- ours ---------------------------------------------------------------------------------------

  void train() {
    now_ns_ = std::min(end_ns_, times_.process_start_ns + times_.groups_ns);
    out_.ledger.step_began(1, epoch_, now_ns_);
    policy_.has_begun();
    step_began_ns_ = now_ns_;
    while (now_ns_ < end_ns_) {
      const auto step_end_ns = step_began_ns_ + times_.step_ns;
      if (const auto* e = take_event(std::min(step_end_ns, end_ns_)))
        befall(*e);
      else if (step_end_ns > end_ns_)
        now_ns_ = end_ns_;
      else
        end_step(step_end_ns);
    }
  }

  void end_step(int64_t at_ns) {
    now_ns_ = at_ns;
    out_.ledger.step_ended(++step_, epoch_, now_ns_);
    policy_.has_progressed();
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
    const auto until_ns = std::min(end_ns_, now_ns_ + stall_ns);
    out_.ledger.save_blocked(now_ns_, until_ns);
    now_ns_ = step_began_ns_ = until_ns;
  }

  void keep(std::deque<kept_state>& in, int64_t takes_ns) {
    in.push_back({step_, now_ns_, now_ns_ + takes_ns});
    if (in.size() > saves_kept) in.pop_front();
  }

  /// The next fault that is seen before then.
  const day_event* take_event(int64_t before_ns) {
    if (next_ == events_.size() || events_[next_].seen_ns >= before_ns) return nullptr;
    return &events_[next_++];
  }

  day_incident& note(const day_event& e) {
    counts_[e.incident] = true;
    return out_.incidents[e.incident];
  }

  void befall(const day_event& e) {
    if (e.rule->harm == harm_done::none) return look_after(e);
    now_ns_ = std::max(now_ns_, e.seen_ns);
    recover(e);
  }

  /// Steps go on. Whose disk is full saves nothing until a person came.
  void look_after(const day_event& e) {
    const auto name = e.rule->finding;
    auto& i = note(e);
    i.unaided = name != "disk_full" && name != "disk_slow" && name != "straggler" &&
                name != "step_regression";
    if (name == "disk_full") saves_from_ns_ = std::max(now_ns_, e.seen_ns) + times_.person_ns;
  }

  // -- a recovery ---------------------------------------------------------------------------------

  /// A rule that holds or ends the job needs a person.
  bool takes_a_recovery() {
    const auto decided = policy_.take(health::finding_name::dead_process,
                                      std::to_string(open_.back().event.fault.node), now_ns_);
    return decided && decided->action == config::recovery_action::restart;
  }

  void recover(const day_event& first) {
    open_.clear();
    open(first);
    for (bool again = false;;) {
      const auto since_ns = again ? now_ns_ : open_.back().event.seen_ns;
      if (!notice()) return;
      out_.ledger.noticed(since_ns, now_ns_);
      const bool goes_on =
          !ends_job() && policy_.can_mend({errc::unavailable, "a fault"}) && takes_a_recovery();
      switch (goes_on ? attempt() : tried::ended) {
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

  void open(const day_event& e) {
    note(e).stops = true;
    open_.push_back({e});
  }

  /// Time passes; a further fault that stops steps joins those that are open.
  passed pass_until(int64_t at_ns) {
    while (const auto* e = take_event(std::min(at_ns, end_ns_))) {
      if (e->rule->harm == harm_done::none) {
        look_after(*e);
        continue;
      }
      const bool is_out = std::any_of(open_.begin(), open_.end(), [&](const auto& o) {
        return o.event.fault.node == e->fault.node;
      });
      if (is_out) continue;
      now_ns_ = std::max(now_ns_, e->seen_ns);
      open(*e);
      return passed::interrupted;
    }
    now_ns_ = std::max(now_ns_, std::min(at_ns, end_ns_));
    return now_ns_ >= end_ns_ ? passed::over : passed::whole;
  }
  passed pass(int64_t for_ns) { return pass_until(now_ns_ + for_ns); }

  bool notice() {
    for (auto how = passed::interrupted; how == passed::interrupted;) {
      int64_t at_ns = now_ns_;
      for (const auto& o : open_)
        if (!o.noticed) at_ns = std::max(at_ns, o.event.seen_ns + notice_ns(o.event));
      how = pass_until(at_ns);
      if (how == passed::over) return false;
    }
    for (auto& o : open_) {
      if (o.noticed) continue;
      o.noticed = true;
      auto& i = out_.incidents[o.event.incident];
      i.noticed_ns = now_ns_ - i.at_ns;
    }
    return true;
  }

  bool ends_job() const {
    return std::any_of(open_.begin(), open_.end(), [&](const auto& o) {
      const auto& e = o.event;
      const bool is_head =
          e.rule->finding == "head_lost" || (e.fault.node == 0 && e.rule->harm == harm_done::host);
      return is_head || e.rule->harm == harm_done::loss ||
             (e.rule->harm == harm_done::bits && !options_.findings);
    });
  }

  tried attempt() {
    if (const auto how = pass(naming_ns()); how != passed::whole) return as_tried(how);
    name_those_known();
    out_.ledger.named(now_ns_);
    if (options_.restart_s) {
      if (const auto how = pass(ns_of(*options_.restart_s)); how != passed::whole)
        return as_tried(how);
      out_.ledger.connected(now_ns_);
      return train_again();
    }
    if (const auto how = pass(times_.protocol.quiet_ns); how != passed::whole) return as_tried(how);
    if (const auto how = find_members(); how != tried::trains) return how;
    if (still_sick()) {
      const auto how = pass(times_.protocol.connect_ns);
      return how == passed::whole ? tried::failed : as_tried(how);
    }
    if (const auto how = pass(times_.protocol.connect_ns + times_.groups_ns); how != passed::whole)
      return as_tried(how);
    out_.ledger.connected(now_ns_);
    const auto read_ns = has_copies() ? times_.read_copy_ns : times_.read_disk_ns;
    if (const auto how = pass(times_.protocol.restore_ns + read_ns); how != passed::whole)
      return as_tried(how);
    return train_again();
  }

  static tried as_tried(passed how) {
    return how == passed::over ? tried::over : tried::interrupted;
  }

  tried train_again() {
    go_on_after(return_point());
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

  // -- who takes whose place ----------------------------------------------------------------------

  /// Hosts that are gone or evicted are replaced, processes started.
  tried find_members() {
    bool holds = false;
    int64_t start_ns = 0;
    for (auto& o : open_) {
      if (std::exchange(o.replaced, true)) continue;
      const auto& e = o.event;
      const bool is_job = e.cause->scope == fault_scope::job;
      if (needs_host(e)) {
        const auto hosts = e.cause->scope == fault_scope::at_switch
                               ? static_cast<int>(assumed::switch_nodes.value)
                               : 1;
        for (int i = 0; i < hosts; ++i) holds |= !take_spare(ns_of(assumed::spare_returns_s.value));
      } else if (e.rule->harm == harm_done::process) {
        if (is_job || !take_spare(times_.process_start_ns))
          start_ns = std::max(start_ns, times_.process_start_ns);
      } else if (e.rule->harm == harm_done::device && options_.findings && !is_job) {
        if (!take_spare(times_.localize_ns)) start_ns = std::max(start_ns, times_.localize_ns);
      }
    }
    if (holds) {
      out_.ledger.hold(now_ns_);
      const auto wait_ns = options_.recovery.wait_s * 1'000'000'000;
      const auto how = pass(std::min(wait_ns, times_.reschedule_ns));
      if (how != passed::whole) return as_tried(how);
      if (times_.reschedule_ns > wait_ns) return tried::ended;
      out_.ledger.members_there(now_ns_);
    }
    const auto how = pass(start_ns + times_.protocol.members_ns);
    return how == passed::whole ? tried::trains : as_tried(how);
  }

  /// Also one that is healthy but failed twice within an hour.
  bool needs_host(const day_event& e) {
    if (e.rule->harm == harm_done::host || e.cause->scope == fault_scope::at_switch) return true;
    if (!options_.findings || e.cause->scope == fault_scope::job) return false;
    if (e.rule->harm == harm_done::bits) return true;
    if (e.rule->harm != harm_done::device) return false;
    if (stays(e)) return true;
    const auto [it, first] = failed_at_ns_.emplace(e.fault.node, now_ns_);
    const bool twice = !first && now_ns_ - it->second < hour_ns;
    it->second = now_ns_;
    out_.false_evictions += twice;
    return twice;
  }

  /// A spare, in whose place there is another one after a while.
  bool take_spare(int64_t returns_after_ns) {
    while (!returns_ns_.empty() && *returns_ns_.begin() <= now_ns_) {
      returns_ns_.erase(returns_ns_.begin());
      ++spares_;
    }
    if (spares_ == 0) return false;
    --spares_;
    ++out_.spares_used;
    returns_ns_.insert(now_ns_ + returns_after_ns);
    return true;
  }

  /// A device that is broken for good, or a program that is.
  bool stays(const day_event& e) const {
    const double share =
        e.cause->scope == fault_scope::job ? options_.mix.person_share : assumed::stays_share.value;
    return e.fault.stays < share;
  }

  bool still_sick() const {
    return std::any_of(open_.begin(), open_.end(), [&](const auto& o) {
      const auto& e = o.event;
      if (e.cause->scope == fault_scope::job) return stays(e);
      return e.rule->harm == harm_done::device && !options_.findings && stays(e);
    });
  }

  // -- where it goes on ---------------------------------------------------------------------------

  /// Copies go with all processes at once, with those behind a switch, and are no older than bits
  /// that went wrong.
  bool has_copies() const {
    return options_.copies > 0 && std::none_of(open_.begin(), open_.end(), [](const auto& o) {
             const auto& e = o.event;
             return e.cause->scope == fault_scope::at_switch || e.rule->harm == harm_done::bits ||
                    (e.cause->scope == fault_scope::job && e.rule->harm == harm_done::process);
           });
  }

  uint64_t return_point() const {
    if (options_.steps_lost) return step_ - std::min(step_, *options_.steps_lost);
    int64_t fell_ns = now_ns_, clean_ns = now_ns_;
    for (const auto& o : open_) {
      fell_ns = std::min(fell_ns, o.event.seen_ns);
      if (o.event.rule->harm == harm_done::bits) clean_ns = std::min(clean_ns, o.event.fault.at_ns);
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
      head |= o.event.rule->finding == "head_lost" ||
              (o.event.fault.node == 0 && o.event.rule->harm == harm_done::host);
    }
    const auto since_ns = now_ns_;
    now_ns_ = std::min(end_ns_, now_ns_ + times_.person_ns);
    if (head) out_.ledger.head_was_away(since_ns, now_ns_);
    name(true);
    out_.ledger.named(now_ns_);
    now_ns_ = std::min(end_ns_, now_ns_ + times_.requeue_ns + times_.groups_ns);
    out_.ledger.connected(now_ns_);
    now_ns_ = std::min(end_ns_, now_ns_ + times_.read_disk_ns);
    while (take_event(now_ns_) != nullptr) continue;
    copies_.clear();
    (void)train_again();
    policy_ = health::recovery_policy(options_.recovery);
    policy_.has_begun();
  }

  // -- how long it takes --------------------------------------------------------------------------

  notice_by noticed_by(const symptom_rule& r) const {
    return options_.findings ? r.planned : r.today;
  }

  /// How long steps go on and are wrong.
  int64_t unseen_ns(const day_event& e) const {
    if (e.rule->harm != harm_done::bits || options_.as != "ours") return 0;
    if (!options_.findings) return times_.wrong_bits_person_ns;
    return static_cast<int64_t>(static_cast<double>(times_.digest_ns) * e.fault.when);
  }

  int64_t notice_ns(const day_event& e) const {
    if (e.rule->harm == harm_done::bits) return 0;
    if (options_.detect_s) return ns_of(*options_.detect_s);
    switch (noticed_by(*e.rule)) {
      case notice_by::closed:
        return times_.protocol.notice_closed_ns;
      case notice_by::silence:
        return times_.protocol.notice_silent_ns;
      case notice_by::failure:
        return times_.protocol.notice_error_ns;
      case notice_by::group_limit:
        return times_.group_limit_ns;
      case notice_by::step_limit:
        return times_.step_limit_ns;
      case notice_by::stuck:
        return times_.stuck_ns;
      case notice_by::nic:
        return times_.nic_ns;
      default:
        return 0;
    }
  }

  int64_t naming_ns() const {
    const bool tests = std::any_of(open_.begin(), open_.end(), [&](const auto& o) {
      return o.event.rule->needs_pair_test && out_.incidents[o.event.incident].named_ns < 0;
    });
    return tests && options_.findings && !options_.detect_s ? times_.localize_ns : 0;
  }

  /// A time limit names nobody.
  void name_those_known() { name(false); }
  void name(bool all) {
    for (const auto& o : open_) {
      auto& i = out_.incidents[o.event.incident];
      const auto by = noticed_by(*o.event.rule);
      const bool known = by != notice_by::group_limit && by != notice_by::step_limit;
      if (i.named_ns < 0 && (all || known)) i.named_ns = now_ns_ - i.at_ns;
    }
  }

  const day_options& options_;
  const day_times& times_;
  const int64_t end_ns_;
  day_outcome out_;
  health::recovery_policy policy_;
  std::vector<day_event> events_;
  std::vector<bool> counts_;  ///< by incident: it befell the job
  size_t next_ = 0;
  int64_t now_ns_ = 0;
  int64_t step_began_ns_ = 0;
  int64_t saves_from_ns_ = 0;
  uint64_t step_ = 0;
  uint32_t epoch_ = 1;
  int spares_;
  std::multiset<int64_t> returns_ns_;
  std::map<int, int64_t> failed_at_ns_;  ///< by node
  std::deque<kept_state> saves_, copies_;
  std::vector<open_fault> open_;
  std::vector<size_t> await_step_;
};

}  // namespace

day_outcome simulate_days(const day_options& options, const day_times& times,
                          const std::vector<timed_fault>& schedule) {
  return day_cluster(options, times, schedule).run();
}

}  // namespace troupe::sim
