// From batches to one order of events: names, clocks, indices.
#include "trace/timeline.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "messages/registry.hpp"

namespace troupe::trace {

// -- clocks ---------------------------------------------------------------------------------------

void clock_line::add(int64_t at_ns, int64_t offset_ns, int64_t bound_ns) {
  anchors_.push_back({at_ns, at_ns + offset_ns, bound_ns});
}

void clock_line::suppose(int64_t offset_ns, int64_t bound_ns) {
  if (!supposed_ || bound_ns >= 0) supposed_ = {0, offset_ns, bound_ns};
}

void clock_line::finish() {
  if (anchors_.empty() && supposed_) anchors_.push_back(*supposed_);
  const auto known = [](const anchor& a) { return a.bound_ns >= 0; };
  if (std::any_of(anchors_.begin(), anchors_.end(), known))
    anchors_.erase(std::remove_if(anchors_.begin(), anchors_.end(), std::not_fn(known)),
                   anchors_.end());
  std::stable_sort(anchors_.begin(), anchors_.end(),
                   [](const anchor& a, const anchor& b) { return a.at_ns < b.at_ns; });
  // An anchor that would turn time back against the one before it is of no use (TL-1).
  std::vector<anchor> rising;
  for (const auto& a : anchors_)
    if (rising.empty() || (a.at_ns > rising.back().at_ns && a.mapped_ns > rising.back().mapped_ns))
      rising.push_back(a);
  anchors_ = std::move(rising);
  for (const auto& a : anchors_) bound_ns_ = std::max(bound_ns_, a.bound_ns);
}

int64_t clock_line::map(int64_t at_ns) const {
  if (anchors_.empty()) return at_ns;
  const auto after = std::upper_bound(anchors_.begin(), anchors_.end(), at_ns,
                                      [](int64_t t, const anchor& a) { return t < a.at_ns; });
  if (after == anchors_.begin() || after == anchors_.end()) {
    const auto& end = after == anchors_.begin() ? anchors_.front() : anchors_.back();
    return at_ns + (end.mapped_ns - end.at_ns);
  }
  const auto& a = *std::prev(after);
  const double share =
      static_cast<double>(at_ns - a.at_ns) / static_cast<double>(after->at_ns - a.at_ns);
  const auto turn = (after->mapped_ns - after->at_ns) - (a.mapped_ns - a.at_ns);
  return at_ns + (a.mapped_ns - a.at_ns) +
         static_cast<int64_t>(std::floor(share * static_cast<double>(turn)));
}

// -- building -------------------------------------------------------------------------------------

namespace {

int64_t to_ns(float seconds) {
  return std::llround(static_cast<double>(seconds) * 1e9);
}

}  // namespace

/// The steps from batches to a timeline, in the order of build().
class timeline_builder {
 public:
  explicit timeline_builder(trace_contents contents) : in_(std::move(contents)) {}

  timeline build() {
    for (const auto& b : in_.batches) add_process(b);
    for (auto& c : clocks_) c.finish();
    for (size_t i = 0; i < clocks_.size(); ++i) out_.processes_[i].bound_ns = clocks_[i].bound_ns();
    for (const auto& b : in_.batches) name_actors(b);
    out_.events_.reserve(in_.records);
    for (auto& b : in_.batches) add_events(b);
    in_.batches.clear();
    order();
    drop_duplicates();
    index();
    straighten();
    count();
    return std::move(out_);
  }

 private:
  uint32_t process_index(uint32_t number) const {
    const auto it = process_of_.find(number);
    return it != process_of_.end() ? it->second : nothing;
  }

  void add_process(const checked_batch& b) {
    auto [it, fresh] =
        process_of_.try_emplace(b.process, static_cast<uint32_t>(out_.processes_.size()));
    if (fresh) {
      out_.processes_.push_back({b.process, b.node, b.host, b.pid, -1, 0, 0});
      clocks_.emplace_back();
    }
    auto& p = out_.processes_[it->second];
    p.lost = std::max(p.lost, b.lost);  // both count since the beginning
    p.dropped = std::max(p.dropped, b.dropped);
    out_.counts_.bad_messages += b.bad_messages;
    auto& clock = clocks_[it->second];
    if (b.records.empty())
      clock.suppose(b.offset_ns, b.bound_ns);
    else
      clock.add(b.records.back().begin_ns, b.offset_ns, b.bound_ns);
    const auto unix_ns = b.unix_ns - b.offset_ns;
    if (b.unix_ns != 0 && b.bound_ns >= 0 && (unix_bound_ < 0 || b.bound_ns < unix_bound_)) {
      out_.unix_offset_ns_ = unix_ns;
      unix_bound_ = b.bound_ns;
    } else if (b.unix_ns != 0 && !out_.unix_offset_ns_) {
      out_.unix_offset_ns_ = unix_ns;
    }
  }

  uint32_t actor_index(uint64_t key) {
    const auto [it, fresh] = actor_of_.try_emplace(key, static_cast<uint32_t>(out_.actors_.size()));
    if (fresh) {
      auto& a = out_.actors_.emplace_back();
      a.key = key;
      a.process = process_index(static_cast<uint32_t>(key >> 32));
      const auto node =
          a.process != nothing ? out_.processes_[a.process].node : fmt::format("{:08x}", key >> 32);
      a.path = fmt::format("{}/#{}", node, static_cast<uint32_t>(key));
    }
    return it->second;
  }

  void name_actors(const checked_batch& b) {
    for (const auto& known : b.actors) {
      auto& a = out_.actors_[actor_index(known.key)];
      a.parent = known.parent;
      if (!known.kind.empty()) a.kind = known.kind;
      if (known.path.empty()) continue;
      a.path = known.path;
      a.named = true;
    }
  }

  uint32_t name_index(std::string name) {
    const auto [it, fresh] =
        name_of_.try_emplace(std::move(name), static_cast<uint32_t>(out_.names_.size()));
    if (fresh) out_.names_.push_back(it->first);
    return it->second;
  }

  uint32_t name_of(const trace_record& r, uint32_t process) {
    const bool work = r.kind != record_kind::handled;  // counters have their names
    const bool own = (r.flags & record_flag::system) != 0;
    const auto key = (work  ? uint64_t{process} << 32
                      : own ? uint64_t{2} << 24
                            : uint64_t{1} << 24) |
                     r.type | (work ? uint64_t{1} << 63 : 0);
    const auto it = name_cache_.find(key);
    if (it != name_cache_.end()) return it->second;
    std::string name = "system";
    if (work) {
      const auto& works = in_.works[process];
      name = r.type > 0 && r.type <= works.size() ? works[r.type - 1] : "work";
    } else if (const auto* m = find_message(r.type)) {
      name = std::string(m->name);
    } else if (!own) {
      name = fmt::format("0x{:04x}", r.type);
    }
    return name_cache_[key] = name_index(std::move(name));
  }

  void add_events(checked_batch& b) {
    const auto process = process_index(b.process);
    const auto& clock = clocks_[process];
    for (const auto& r : b.records) {
      if (r.kind == record_kind::counter) {
        out_.counters_.push_back({clock.map(r.begin_ns),
                                  actor_index(uint64_t{b.process} << 32 | r.actor),
                                  name_of(r, b.process), std::bit_cast<double>(r.sender)});
        continue;
      }
      auto& e = out_.events_.emplace_back();
      e.record = r;
      e.process = process;
      e.begin_ns = e.sent_ns = clock.map(r.begin_ns);
      e.end_ns = e.begin_ns + to_ns(r.handling_s);
      e.actor = actor_index(uint64_t{b.process} << 32 | r.actor);
      e.name = name_of(r, b.process);
      e.received_ns = clock.map(r.begin_ns - to_ns(r.mailbox_s));
      if (r.kind == record_kind::work) continue;
      if (r.sender != 0) e.sender = actor_index(r.sender);
      const auto from = process_index(static_cast<uint32_t>(r.sender >> 32));
      if (r.sent_ns == 0)
        e.sent_ns = e.received_ns;
      else
        e.sent_ns = from != nothing ? clocks_[from].map(r.sent_ns) : clock.map(r.sent_ns);
      // Of what was sent within the process only a float's rounding lies between the two.
      const auto rounding = 2 + (e.begin_ns - e.received_ns) / (1 << 23);
      if (std::abs(e.received_ns - e.sent_ns) <= rounding) e.received_ns = e.sent_ns;
    }
  }

  void order() {
    std::stable_sort(out_.events_.begin(), out_.events_.end(), [](const auto& a, const auto& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns < b.end_ns;
    });
    auto& counters = out_.counters_;
    const auto key = [](const auto& c) { return std::tuple(c.at_ns, c.actor, c.name); };
    std::stable_sort(counters.begin(), counters.end(),
                     [&](const auto& a, const auto& b) { return key(a) < key(b); });
    const auto kept = std::unique(counters.begin(), counters.end(),
                                  [&](const auto& a, const auto& b) { return key(a) == key(b); });
    counters.erase(kept, counters.end());
  }

  /// The same bytes from the same process: a record that two files or two views have.
  void drop_duplicates() {
    auto& events = out_.events_;
    const auto same = [](const timeline_event& a, const timeline_event& b) {
      // What takes no time and has no span may really happen twice at one time of a virtual clock.
      return a.process == b.process && (a.record.span != 0 || a.took_ns() > 0) &&
             std::memcmp(&a.record, &b.record, sizeof(trace_record)) == 0;
    };
    size_t kept = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      bool seen = false;
      for (size_t j = kept; j-- > 0 && events[j].begin_ns == events[i].begin_ns && !seen;)
        seen = same(events[j], events[i]);
      if (seen)
        ++out_.counts_.duplicates;
      else
        events[kept++] = events[i];
    }
    events.resize(kept);
  }

  void index() {
    const auto& events = out_.events_;
    out_.handled_.resize(out_.actors_.size());
    out_.work_.resize(out_.actors_.size());
    for (uint32_t i = 0; i < events.size(); ++i) {
      const auto& e = events[i];
      const auto& r = e.record;
      (e.is_work() ? out_.work_ : out_.handled_)[e.actor].push_back(i);
      if (r.span != 0) out_.by_span_.emplace_back(r.span, i);
      if (r.parent != 0) out_.by_parent_.emplace_back(r.parent, i);
      if (r.trace != 0) out_.by_trace_.emplace_back(r.trace, i);
      out_.begin_ns_ = i == 0 ? e.begin_ns : out_.begin_ns_;
      out_.end_ns_ = i == 0 ? e.end_ns : std::max(out_.end_ns_, e.end_ns);
      if (e.is_work() && out_.name(e) == "step") out_.steps_.push_back({r.sender, r.span, i});
    }
    if (const auto& all = out_.counters_; !all.empty()) {
      out_.begin_ns_ =
          events.empty() ? all.front().at_ns : std::min(out_.begin_ns_, all.front().at_ns);
      out_.end_ns_ = events.empty() ? all.back().at_ns : std::max(out_.end_ns_, all.back().at_ns);
    }
    for (auto* keys : {&out_.by_span_, &out_.by_parent_, &out_.by_trace_})
      std::sort(keys->begin(), keys->end());
    std::stable_sort(out_.steps_.begin(), out_.steps_.end(),
                     [](const auto& a, const auto& b) { return a.number < b.number; });
  }

  /// A duration is a float: its rounding may reach into the next handling (TL-3).
  void straighten() {
    auto& events = out_.events_;
    for (const auto& own : out_.handled_) {
      for (size_t i = 1; i < own.size(); ++i) {
        auto& e = events[own[i - 1]];
        const auto next = events[own[i]].begin_ns;
        if (e.end_ns <= next) continue;
        const auto rounding = 2 + e.took_ns() / (1 << 22);
        if (e.end_ns - next <= rounding)
          e.end_ns = next;
        else
          ++out_.counts_.overlaps;
      }
    }
  }

  void count() {
    auto& c = out_.counts_;
    const auto spans = [&](uint64_t span) { return !out_.with_span(span).empty(); };
    const auto bound = out_.bound_ns();
    for (const auto& e : out_.events_) {
      if (e.record.parent != 0 && !spans(e.record.parent)) ++c.unknown_parents;
      if (e.sender != nothing && out_.actors_[e.sender].process == nothing) ++c.unknown_senders;
      const auto allowed = bound.value_or(time_bound_ns) + timeline::slack_ns;
      if (e.sent_ns - e.begin_ns > allowed) ++c.before_sent;
    }
    for (const auto& a : out_.actors_) c.unnamed_actors += !a.named;
    for (const auto& p : out_.processes_) {
      c.lost += p.lost;
      c.dropped += p.dropped;
    }
  }

  trace_contents in_;
  timeline out_;
  std::vector<clock_line> clocks_;  // by process
  std::unordered_map<uint32_t, uint32_t> process_of_;
  std::unordered_map<uint64_t, uint32_t> actor_of_, name_cache_;
  std::unordered_map<std::string, uint32_t> name_of_;
  int64_t unix_bound_ = -1;
};

timeline timeline::build(trace_contents contents) {
  return timeline_builder(std::move(contents)).build();
}

// -- ways -----------------------------------------------------------------------------------------

std::optional<int64_t> timeline::bound_ns() const {
  int64_t largest = 0, second = 0;
  for (const auto& p : processes_) {
    if (p.bound_ns < 0) return std::nullopt;
    second = std::max(second, std::min(largest, p.bound_ns));
    largest = std::max(largest, p.bound_ns);
  }
  return largest + second;
}

const std::string& timeline::path(uint32_t actor) const {
  static const std::string outside = "outside";
  return actor != nothing ? actors_[actor].path : outside;
}

std::vector<uint32_t> timeline::look_up(const key_index& index, uint64_t key) {
  std::vector<uint32_t> out;
  if (key == 0) return out;
  for (auto it = std::lower_bound(index.begin(), index.end(), std::pair(key, uint32_t{0}));
       it != index.end() && it->first == key; ++it)
    out.push_back(it->second);
  return out;
}

std::vector<uint32_t> timeline::with_span(uint64_t span) const {
  return look_up(by_span_, span);
}

std::vector<uint32_t> timeline::caused_by(uint64_t span) const {
  return look_up(by_parent_, span);
}

std::vector<uint32_t> timeline::of_trace(uint64_t trace) const {
  return look_up(by_trace_, trace);
}

uint32_t timeline::handling_at(uint32_t actor, int64_t at_ns, int64_t within_ns) const {
  if (actor == nothing) return nothing;
  const auto& own = handled_[actor];
  // The last one that began before; where it ended too early, the next may begin within the slack.
  const auto after = std::upper_bound(own.begin(), own.end(), at_ns, [&](int64_t t, uint32_t i) {
    return t < events_[i].begin_ns;
  });
  if (after != own.begin() && events_[*std::prev(after)].end_ns + within_ns >= at_ns)
    return *std::prev(after);
  if (after != own.end() && events_[*after].begin_ns - within_ns <= at_ns) return *after;
  return nothing;
}

uint32_t timeline::sent_in(const timeline_event& e) const {
  if (e.is_work()) return nothing;
  return handling_at(e.sender, e.sent_ns, slack_ns);
}

// -- remarks --------------------------------------------------------------------------------------

std::vector<std::string> remarks(const timeline& t) {
  std::vector<std::string> out;
  const auto& c = t.counts();
  if (const auto bound = t.bound_ns(); t.processes().size() > 1)
    out.push_back(bound ? fmt::format("times of different processes agree to within {:.3f} ms",
                                      static_cast<double>(*bound) / 1e6)
                        : std::string("how far the clocks of the processes differ is unknown"));
  const auto remark = [&](uint64_t n, std::string_view what) {
    if (n > 0) out.push_back(fmt::format("{} {}", n, what));
  };
  remark(c.lost, "records were overwritten before they could be collected");
  remark(c.dropped, "records were left out since the collector could not follow");
  remark(c.duplicates, "duplicate records count once");
  remark(c.unnamed_actors, "actors are known by number only");
  remark(c.unknown_senders, "messages came from processes that are not in the trace");
  remark(c.unknown_parents, "records have a cause that is not in the trace");
  remark(c.before_sent, "messages were handled before they were sent: some clock is wrong");
  remark(c.overlaps, "handlings overlap with another of the same actor");
  remark(c.bad_messages, "recorded messages did not decode");
  return out;
}

}  // namespace troupe::trace
