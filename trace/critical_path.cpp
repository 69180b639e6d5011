// The walk back from the end of a step: see the header.
#include "trace/critical_path.hpp"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "messages/message_list.hpp"
#include "messages/operations.hpp"
#include "messages/power_holds.hpp"
#include "trace/power_words.hpp"

namespace troupe::trace {

std::string_view to_string(segment_kind kind) noexcept {
  constexpr std::string_view names[] = {"handling", "way",  "mailbox", "device",
                                        "transfer", "file", "idle",    "power"};
  return names[static_cast<size_t>(kind)];
}

segment_kind kind_of_work(std::string_view name) noexcept {
  if (power::is_power_hold(name)) return segment_kind::power;
  const auto* facts = train::operation_named(name);
  if (facts == nullptr || facts->resource == train::op_resource::device)
    return segment_kind::device;
  return facts->resource == train::op_resource::file ? segment_kind::file : segment_kind::transfer;
}

namespace {

/// The end of a queue on a device is told apart from chance only when it comes this much later than
/// all that is known to be needed.
constexpr int64_t chance_ns = 50'000;

/// Something that released another, and when.
struct release {
  uint32_t event = nothing;
  int64_t at_ns = 0;
};

class walker {
 public:
  walker(const timeline& t, const timeline_step& step) : t_(t), step_(step), power_(t) {
    const auto& root = t.event(step.event);
    out_.step = step.number;
    out_.begin_ns = root.begin_ns;
    out_.end_ns = std::max(root.begin_ns, root.end_ns);
    run_ = root.actor;
    for (const auto i : t.of_trace(step.span)) {
      const auto& e = t.event(i);
      // Whoever sends RunOp to an actor is the stage of that worker.
      if (!e.is_work() && e.record.type == message_traits<fbs::RunOp>::id && e.sender != nothing)
        worker_of_[e.sender] = e.actor;
    }
  }

  critical_path walk() {
    at_ns_ = out_.end_ns;
    auto now = last_handling();
    // Each turn goes back in time or to another record; a trace that lies may go in circles.
    const auto limit = 8 * t_.events().size() + 64;
    for (size_t turn = 0; now != nothing && at_ns_ > out_.begin_ns && turn < limit; ++turn)
      now = t_.event(now).is_work() ? before_work(now) : before_handling(now);
    if (at_ns_ > out_.begin_ns)
      add(segment_kind::idle, out_.begin_ns, run_, nothing, "what nothing recorded explains");
    std::reverse(out_.segments.begin(), out_.segments.end());
    tell_waits();
    return std::move(out_);
  }

 private:
  /// From `from_ns` to where the walk stands; nothing where that is no time (CP-1).
  void add(segment_kind kind, int64_t from_ns, uint32_t actor, uint32_t event, std::string what,
           int64_t number = -1, std::string blame = {}) {
    from_ns = std::max(from_ns, out_.begin_ns);
    if (from_ns >= at_ns_) return;
    out_.segments.push_back(
        {kind, from_ns, at_ns_, actor, event, std::move(what), number, std::move(blame)});
    at_ns_ = from_ns;
  }

  /// What the one who drives the steps handled when the step ended.
  uint32_t last_handling() {
    const auto at = t_.handling_at(run_, at_ns_, 1'000);
    if (at != nothing) return at;
    auto best = nothing;
    for (const auto i : t_.of_trace(step_.span))
      if (!t_.event(i).is_work() && t_.event(i).end_ns <= at_ns_ && i != step_.event &&
          (best == nothing || t_.event(i).end_ns > t_.event(best).end_ns))
        best = i;
    if (best != nothing)
      add(segment_kind::idle, t_.event(best).end_ns, run_, best, "the end of the step");
    return best;
  }

  // -- handlings ----------------------------------------------------------------------------------

  uint32_t before_handling(uint32_t index) {
    const auto& h = t_.event(index);
    const auto sent_from = std::exchange(message_, nothing);
    add(segment_kind::handling, h.begin_ns, h.actor, index, t_.name(h));
    if (at_ns_ <= out_.begin_ns) return nothing;
    if (const auto hold = hold_ended_in(index, sent_from); hold != nothing)
      return before_hold(hold);
    if (h.record.span == 0) return before_wakeup(index, sent_from);
    message_ = index;
    const auto sent = std::min(h.sent_ns, at_ns_);
    const auto sender = t_.sent_in(h);
    if (sender != nothing && sender != index) {
      lie_in_mailbox(index, sent);
      return sender;
    }
    return to_parent(index, sent);
  }

  /// What a power budget had held back until then, where the message that led the walk here is of
  /// an operation: the stage sent that once it might.
  uint32_t hold_ended_in(uint32_t index, uint32_t sent_from) const {
    if (sent_from == nothing) return nothing;
    const auto type = t_.event(sent_from).record.type;
    const bool is_operation =
        type == message_traits<fbs::RunOp>::id || type == message_traits<fbs::FinishStep>::id;
    if (!is_operation) return nothing;
    const auto& h = t_.event(index);
    auto out = nothing;
    earlier_work(h.actor, h.end_ns, [&](uint32_t i, const timeline_event& w) {
      const auto around = timeline::slack_ns + w.took_ns() / (1 << 22);  // as floats are rounded
      const bool ended_here = w.end_ns + around >= h.begin_ns && w.end_ns <= h.end_ns + around;
      if (out == nothing && ended_here && power::is_power_hold(t_.name(w))) out = i;
    });
    return out;
  }

  /// On to the handling from which on it was held back.
  uint32_t before_hold(uint32_t index) {
    const auto& p = t_.event(index);
    add(segment_kind::power, p.begin_ns, p.actor, index, power_.of(t_, p));
    return t_.handling_at(p.actor, at_ns_, timeline::slack_ns);
  }

  /// A message was sent where no record is: on to what is said to have caused it.
  uint32_t to_parent(uint32_t index, int64_t sent) {
    const auto& h = t_.event(index);
    lie_in_mailbox(index, sent);
    release best;
    for (const auto i : t_.with_span(h.record.parent)) {
      const auto& p = t_.event(i);
      if (i == index || i == step_.event || p.begin_ns > sent) continue;
      consider(best, i, std::min(p.end_ns, sent));
    }
    if (best.event == nothing) return nothing;
    add(segment_kind::idle, best.at_ns, h.sender, index,
        fmt::format("the sending of {} after {}", t_.name(h), t_.name(t_.event(best.event))));
    return best.event;
  }

  void lie_in_mailbox(uint32_t index, int64_t sent) {
    const auto& h = t_.event(index);
    const auto came = std::clamp(h.received_ns, sent, std::max(sent, at_ns_));
    add(segment_kind::mailbox, came, h.actor, index, t_.name(h), -1,
        blame_of(h.actor, came, at_ns_));
    add(segment_kind::way, sent, h.actor, index, t_.name(h));
  }

  /// What an actor was busy with, in words; empty where it was free for more than half of the time.
  std::string blame_of(uint32_t actor, int64_t from, int64_t until) const {
    const auto& own = t_.handled_by(actor);
    const auto first = std::lower_bound(own.begin(), own.end(), until, [&](uint32_t i, int64_t x) {
      return t_.event(i).begin_ns < x;
    });
    int64_t busy = 0, longest = 0;
    auto what = nothing;
    for (auto it = first; it != own.begin();) {
      const auto& e = t_.event(*--it);
      if (e.end_ns <= from) break;
      const auto part = std::min(e.end_ns, until) - std::max(e.begin_ns, from);
      busy += part;
      if (part > longest) {
        longest = part;
        what = *it;
      }
    }
    if (what == nothing || 2 * busy < until - from) return {};
    return fmt::format("{} was busy with {}", t_.path(actor), t_.name(t_.event(what)));
  }

  /// A handling without a message of ours: an actor took note of something finished elsewhere, and
  /// the message that led the walk here says of what (its cause).
  uint32_t before_wakeup(uint32_t index, uint32_t sent_from) {
    if (sent_from == nothing) return nothing;
    const auto& h = t_.event(index);
    const auto cause = t_.event(sent_from).record.parent;
    release work, handled;
    for (const auto i : t_.caused_by(cause)) {
      const auto& w = t_.event(i);
      if (w.is_work() && w.actor == h.actor && i != step_.event && w.end_ns <= at_ns_ + 1'000)
        consider(work, i, std::min(w.end_ns, at_ns_));
    }
    if (work.event != nothing) {
      const auto& w = t_.event(work.event);
      add(segment_kind::mailbox, work.at_ns, h.actor, index,
          fmt::format("the end of {}", t_.name(w)), number_of(w),
          blame_of(h.actor, work.at_ns, at_ns_));
      return work.event;
    }
    for (const auto i : t_.with_span(cause)) {
      const auto& p = t_.event(i);
      if (!p.is_work() && p.actor == h.actor && p.begin_ns < at_ns_)
        consider(handled, i, std::min(p.end_ns, at_ns_));
    }
    if (handled.event == nothing) return nothing;
    add(segment_kind::idle, handled.at_ns, h.actor, index,
        fmt::format("the answer to {}, for which no work was recorded",
                    t_.name(t_.event(handled.event))));
    return handled.event;
  }

  // -- work ---------------------------------------------------------------------------------------

  static int64_t number_of(const timeline_event& w) {
    return static_cast<int64_t>(w.record.sender);
  }

  static void consider(release& best, uint32_t event, int64_t at_ns) {
    if (best.event == nothing || at_ns > best.at_ns) best = {event, at_ns};
  }

  uint32_t before_work(uint32_t index) {
    const auto& w = t_.event(index);
    message_ = nothing;
    auto best = needed_by(index);
    consider_queue(index, best);
    const auto kind = kind_of_work(t_.name(w));
    if (best.event == nothing) {
      add(kind, w.begin_ns, w.actor, index, t_.name(w), number_of(w));
      return nothing;
    }
    best.at_ns = std::min(best.at_ns, at_ns_);
    // The end of the one before is rounded as floats are: no gap of a few nanoseconds for that.
    const auto rounding = 2 + t_.event(best.event).took_ns() / (1 << 22);
    const bool at_once = best.at_ns + rounding >= w.begin_ns;
    add(kind, at_once ? best.at_ns : w.begin_ns, w.actor, index, t_.name(w), number_of(w));
    add(segment_kind::idle, best.at_ns, w.actor, index, fmt::format("the begin of {}", t_.name(w)),
        number_of(w));
    return best.event;
  }

  /// The last to come of all that the work is known to need.
  release needed_by(uint32_t index) const {
    const auto& w = t_.event(index);
    release best;
    for (const auto i : t_.with_span(w.record.parent))  // the message that asked for it
      if (const auto& h = t_.event(i);
          !h.is_work() && h.actor == w.actor && h.begin_ns <= w.begin_ns)
        consider(best, i, std::min(h.end_ns, w.begin_ns));
    const auto* facts = train::operation_named(t_.name(w));
    if (facts == nullptr) return best;
    for (const auto& n : facts->needs)
      if (n.what != train::pipeline_op::count) consider_own(index, n, best);
    if (facts->other_end != train::pipeline_op::count)
      consider_other_end(index, train::facts_of(facts->other_end).name, best);
    if (train::is_group(facts->with)) consider_members(index, best);
    return best;
  }

  /// Work of the same actor in this step, begun before `at`, the latest first.
  template <class F>
  void earlier_work(uint32_t actor, int64_t at, F f) const {
    const auto& own = t_.work_of(actor);
    auto it = std::upper_bound(own.begin(), own.end(), at,
                               [&](int64_t x, uint32_t i) { return x < t_.event(i).begin_ns; });
    while (it != own.begin()) {
      const auto i = *--it;
      if (t_.event(i).begin_ns < out_.begin_ns) return;
      if (i != step_.event) f(i, t_.event(i));
    }
  }

  void consider_own(uint32_t index, const train::op_need& n, release& best) const {
    const auto& w = t_.event(index);
    earlier_work(w.actor, at_ns_, [&](uint32_t i, const timeline_event& p) {
      if (i == index || t_.name(p) != train::facts_of(n.what).name) return;
      if (n.same_number && p.record.sender != w.record.sender) return;
      if (n.in_parts)
        consider(best, i, std::min(p.end_ns, w.begin_ns));
      else if (p.end_ns <= at_ns_)
        consider(best, i, p.end_ns);
    });
  }

  /// The sending of what is received: the one of a neighbour (somebody whose announcement came to
  /// this worker's stage), of the same micro-batch.
  void consider_other_end(uint32_t index, std::string_view send, release& best) const {
    const auto& w = t_.event(index);
    for (const auto i : t_.of_trace(step_.span)) {
      const auto& s = t_.event(i);
      if (!s.is_work() || s.actor == w.actor || s.record.sender != w.record.sender ||
          s.begin_ns > at_ns_ || s.end_ns < w.begin_ns || t_.name(s) != send ||
          !neighbours(s.actor, w.actor))
        continue;
      if (s.begin_ns > w.begin_ns) consider(best, i, s.begin_ns);
    }
  }

  bool neighbours(uint32_t worker, uint32_t other) const {
    for (const auto& [stage, its] : worker_of_) {
      if (its != other) continue;
      for (const auto i : t_.handled_by(stage)) {
        const auto& a = t_.event(i);
        if (a.record.type != message_traits<fbs::ActivationReady>::id || a.is_work() ||
            a.record.trace != step_.span || a.sender == nothing)
          continue;
        const auto from = worker_of_.find(a.sender);
        if (from != worker_of_.end() && from->second == worker) return true;
      }
    }
    return false;
  }

  /// A collective begins to move when its last member has come.
  void consider_members(uint32_t index, release& best) const {
    const auto& w = t_.event(index);
    for (const auto i : t_.of_trace(step_.span)) {
      const auto& m = t_.event(i);
      if (!m.is_work() || m.actor == w.actor || m.name != w.name ||
          m.record.sender != w.record.sender || m.record.bytes != w.record.bytes)
        continue;
      if (m.begin_ns > w.begin_ns && m.begin_ns <= at_ns_ && m.end_ns > w.begin_ns)
        consider(best, i, m.begin_ns);
    }
  }

  /// The device was busy with other work: what ended last before this began. Work of the same kind
  /// stands in one queue; of another kind it counts where nothing known explains the time.
  void consider_queue(uint32_t index, release& best) const {
    const auto& w = t_.event(index);
    const auto kind = kind_of_work(t_.name(w));
    release other;
    earlier_work(w.actor, w.begin_ns, [&](uint32_t i, const timeline_event& p) {
      if (i == index || p.end_ns > w.begin_ns) return;
      const bool same =
          kind == segment_kind::device ? kind_of_work(t_.name(p)) == kind : p.name == w.name;
      if (same)
        consider(best, i, p.end_ns);
      else
        consider(other, i, p.end_ns);
    });
    if (other.event != nothing && (best.event == nothing || other.at_ns > best.at_ns + chance_ns))
      best = other;
  }

  // -- waits of stages ----------------------------------------------------------------------------

  /// For each announcement on the path: since when the receiving stage's worker had nothing to do,
  /// and what the path spent that time with.
  void tell_waits() {
    const auto& segments = out_.segments;
    for (size_t i = 0; i < segments.size(); ++i) {
      const auto event = segments[i].event;
      if (segments[i].kind != segment_kind::handling || event == nothing) continue;
      const auto& a = t_.event(event);
      const auto worker = worker_of_.find(a.actor);
      if (a.record.type != message_traits<fbs::ActivationReady>::id || worker == worker_of_.end())
        continue;
      path_wait w;
      w.stage = a.actor;
      w.whom = a.sender;
      w.from_ns = out_.begin_ns;
      w.until_ns = a.begin_ns;
      earlier_work(worker->second, a.begin_ns, [&](uint32_t, const timeline_event& done) {
        if (kind_of_work(t_.name(done)) == segment_kind::device)
          w.from_ns = std::max(w.from_ns, std::min(done.end_ns, a.begin_ns));
      });
      for (size_t j = i; j < segments.size() && w.micro_batch < 0; ++j) {
        if (segments[j].actor != worker->second || segments[j].number < 0 ||
            segments[j].event == nothing || !t_.event(segments[j].event).is_work())
          continue;
        w.micro_batch = segments[j].number;
        const auto* facts = train::operation_named(segments[j].what);
        w.gradient = facts != nullptr && (facts->kind == train::pipeline_op::backward ||
                                          facts->kind == train::pipeline_op::receive_gradient);
      }
      if (w.until_ns <= w.from_ns) continue;
      blame(w);
      out_.waits.push_back(std::move(w));
    }
  }

  void blame(path_wait& w) const {
    for (const auto& s : out_.segments) {
      const auto part = std::min(s.end_ns, w.until_ns) - std::max(s.begin_ns, w.from_ns);
      if (part <= w.doing_ns) continue;
      w.doing_ns = part;
      w.doer = s.actor;
      switch (s.kind) {
        case segment_kind::way:
          w.doing = fmt::format("{} was on its way to {}", s.what, t_.path(s.actor));
          break;
        case segment_kind::mailbox:
          w.doing = fmt::format("{} lay in the mailbox of {}", s.what, t_.path(s.actor));
          break;
        case segment_kind::idle:
          w.doing = fmt::format("{} waited for {}", t_.path(s.actor), s.what);
          break;
        case segment_kind::power:
          w.doing = fmt::format("{} was held back by {}", t_.path(s.actor), s.what);
          break;
        default:
          w.doing = fmt::format("{} was busy with {}", t_.path(s.actor), s.what);
      }
    }
  }

  const timeline& t_;
  const timeline_step step_;
  const power_words power_;
  critical_path out_;
  uint32_t run_ = nothing;
  int64_t at_ns_ = 0;           ///< how far back the walk has come
  uint32_t message_ = nothing;  ///< the message whose sending led to the present handling
  std::unordered_map<uint32_t, uint32_t> worker_of_;  ///< by stage
};

}  // namespace

result<critical_path> critical_path_of(const timeline& t, uint64_t step) {
  for (const auto& s : t.steps())
    if (s.number == step) return walker(t, s).walk();
  if (t.steps().empty())
    return error{errc::not_found, "the trace holds no whole step",
                 "record for longer than a step takes"};
  return error{errc::not_found, fmt::format("the trace does not hold step {}", step),
               fmt::format("it holds {} to {}", t.steps().front().number, t.steps().back().number)};
}

result<uint64_t> slowest_step(const timeline& t) {
  const timeline_step* slowest = nullptr;
  for (const auto& s : t.steps())
    if (slowest == nullptr || t.event(s.event).took_ns() > t.event(slowest->event).took_ns())
      slowest = &s;
  if (slowest == nullptr)
    return error{errc::not_found, "the trace holds no whole step",
                 "record for longer than a step takes"};
  return slowest->number;
}

}  // namespace troupe::trace
