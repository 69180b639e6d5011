// Records on their way to a viewer or a file.
#include "actors/control/views.hpp"

#include <unistd.h>
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "messages/registry.hpp"
#include "trace/batch.hpp"
#include "trace/trace_file.hpp"

namespace troupe::trace {

namespace {

constexpr size_t records_a_look = 16'384;
constexpr uint32_t least_lease_ms = 1'000, most_lease_ms = 60'000;

std::string path_of_actor(const actor_registry& registry, uint32_t number) {
  for (const auto& v : registry.view(true))
    if (static_cast<uint32_t>(v.key) == number) return v.path;
  return {};
}

std::string name_of_type(record_kind kind, uint16_t type) {
  if (kind != record_kind::handled) {
    const auto names = work_names();
    return type >= 1 && type <= names.size() ? names[type - 1] : "";
  }
  const auto* m = find_message(type);
  return m != nullptr ? std::string(m->name) : "system";
}

/// The tap serves all views with payloads at once.
void set_tap(observer_pointer self) {
  const auto& st = self->state;
  show(self);
  const bool wanted = std::any_of(st.views.begin(), st.views.end(),
                                  [](const auto& v) { return v.second.payloads; });
  if (wanted == st.in->messages.is_open()) return;
  // Runs on the traced: what a view wants of it is decided on this side (take_messages).
  st.in->messages.open(wanted ? [](uint32_t, uint16_t) { return true; } : tap::filter{});
}

/// The actors these records and messages speak of and the viewer does not know yet.
std::vector<std::unique_ptr<fbs::TracedActorT>> new_actors(
    const actor_registry& registry, std::unordered_set<uint32_t>& named,
    const std::unordered_set<uint32_t>& seen) {
  std::vector<std::unique_ptr<fbs::TracedActorT>> out;
  for (const auto& v : registry.view(true)) {
    const auto number = static_cast<uint32_t>(v.key);
    if (!seen.contains(number) || !named.insert(number).second) continue;
    auto a = std::make_unique<fbs::TracedActorT>();
    a->number = number;
    a->path = v.path;
    a->kind = v.kind;
    a->parent = v.parent;
    out.push_back(std::move(a));
  }
  return out;
}

batch_head head_of(const observer_state& st) {
  const auto clock = st.in->clock();
  batch_head h;
  h.process = process_tag();
  h.node = st.options.node;
  h.host = st.options.host;
  h.pid = static_cast<uint32_t>(getpid());
  h.offset_ns = clock.offset_ns;
  h.bound_ns = st.options.node == "head" ? 0 : clock.bound_ns;
  h.unix_ns = unix_minus_steady_ns();
  return h;
}

/// The viewer cannot take it: the next batch says how much it was, and who its actors are.
void leave_out(subscription& v, const fbs::TraceBatchT& b) {
  v.dropped += b.records.size() / sizeof(trace_record) + b.messages.size();
  for (const auto& a : b.actors) v.named.erase(a->number);
}

void send_batches(observer_pointer self, uint64_t id, subscription& v, batch_content content,
                  std::string over) {
  std::unordered_set<uint32_t> seen;
  for (const auto& r : content.records) seen.insert(r.actor);
  for (const auto& m : content.messages) seen.insert(m->actor);
  content.actors = new_actors(self->runtime().registry, v.named, seen);
  content.works = work_names();
  auto head = head_of(self->state);
  head.subscription = id;
  head.lost = v.reader.lost();
  head.dropped = v.dropped + v.filter.over_rate() + self->runtime().messages.dropped();
  auto batches = make_batches(head, std::move(content));
  v.said_ns = now_ns(*self);
  batches.back().over = std::move(over);
  for (auto& b : batches) {
    if (v.credits == 0 && b.over.empty()) {  // OBS-2; why it is over is told in any case
      leave_out(v, b);
      continue;
    }
    b.sequence = ++v.sequence;
    if (v.credits > 0) --v.credits;
    auto to = caf::actor_cast<gateway_actor>(v.viewer);
    self->send(to, make_msg<fbs::TraceBatch>(context_of(*self, 0), b));
  }
}

/// Whether somebody has a view.
bool looks(const observer_state& st, const caf::strong_actor_ptr& viewer) {
  return std::any_of(st.views.begin(), st.views.end(),
                     [&](const auto& v) { return v.second.viewer == viewer; });
}

void keep_ticking(observer_pointer self) {
  auto& st = self->state;
  if (st.ticking || st.views.empty()) return;
  st.ticking = true;
  self->delayed_send(self, defaults::view_period, caf::tick_atom_v);
}

/// Messages the tap took that this view wants.
std::vector<std::unique_ptr<fbs::TracedMessageT>> take_messages(subscription& v,
                                                                const std::vector<tapped>& all) {
  std::vector<std::unique_ptr<fbs::TracedMessageT>> out;
  for (const auto& t : all) {
    if (!v.filter.fits(t.actor, record_kind::handled, t.message.type())) continue;
    auto m = std::make_unique<fbs::TracedMessageT>();
    m->actor = t.actor;
    m->begin_ns = t.begin_ns;
    m->flags = t.flags;
    m->message = encode(t.message);
    out.push_back(std::move(m));
  }
  return out;
}

}  // namespace

void show(observer_pointer self) {
  publish(self, "watching", [&](fbs::ObserverStatusT& s) {
    s.views = static_cast<uint32_t>(self->state.views.size());
    s.black_boxes = self->state.black_boxes;
  });
}

caf::result<msg<fbs::TraceStarted>> begin_view(observer_pointer self, const msg<fbs::TraceStart>& m,
                                               const caf::strong_actor_ptr& viewer) {
  auto& st = self->state;
  if (!viewer) return to_caf({errc::usage, "a view needs somebody to look"});
  if (m->max_records() == 0)
    return to_caf({errc::usage, "a view needs a limit", "say how many records at most"});
  if (st.views.contains(m->subscription()))
    return to_caf({errc::usage, "there is a view of this number already"});
  if (st.views.size() >= observer_state::subscription_limit)  // OBS-2
    return to_caf({errc::unavailable, fmt::format("{} views are open already", st.views.size()),
                   "close one of them"});
  filter_rule rule{m->actor() ? m->actor()->str() : "", m->message() ? m->message()->str() : "",
                   m->slower_than_ns(), m->max_records(), m->rate_per_s()};
  const auto lease = std::clamp(m->lease_ms(), least_lease_ms, most_lease_ms) * ns_per_ms;
  const auto name_of_actor = [&registry = st.in->registry](uint32_t number) {
    return path_of_actor(registry, number);
  };
  subscription view(viewer, filter_policy(std::move(rule), name_of_actor, name_of_type),
                    record_reader(st.in->records, !m->past()));
  view.payloads = m->payloads();
  view.lease_ns = lease;
  view.said_ns = now_ns(*self);
  view.until_ns = view.said_ns + lease;
  if (!m->past()) view.reader.read(1);  // from here on
  if (!looks(st, viewer)) self->monitor(caf::actor_cast<caf::actor>(viewer));
  st.views.emplace(m->subscription(), std::move(view));
  set_tap(self);
  keep_ticking(self);
  return make_msg<fbs::TraceStarted>(context_of(*self, m.header()), [&](auto& s) {
    s.subscription = m->subscription();
    s.nodes.push_back(st.options.node);
  });
}

void grant(observer_pointer self, const msg<fbs::TraceMore>& m) {
  const auto it = self->state.views.find(m->subscription());
  if (it == self->state.views.end()) return;
  auto& v = it->second;
  v.credits = static_cast<uint32_t>(std::min<uint64_t>(uint64_t{v.credits} + m->credits(), 64));
  v.until_ns = now_ns(*self) + v.lease_ns;
}

void end_view(observer_pointer self, uint64_t id, const std::string& why) {
  auto& st = self->state;
  const auto it = st.views.find(id);
  if (it == st.views.end()) return;
  if (!why.empty()) send_batches(self, id, it->second, {}, why);
  const auto viewer = it->second.viewer;
  st.views.erase(it);
  if (!looks(st, viewer)) self->demonitor(viewer->address());
  set_tap(self);
}

void viewer_gone(observer_pointer self, const caf::actor_addr& who) {
  auto& st = self->state;
  std::erase_if(st.views, [&](const auto& v) { return v.second.viewer->address() == who; });
  set_tap(self);
}

void look(observer_pointer self) {
  auto& st = self->state;
  st.ticking = false;
  const auto now = now_ns(*self);
  const auto messages = st.in->messages.drain();
  std::vector<std::pair<uint64_t, std::string>> over;
  for (auto& [id, v] : st.views) {
    batch_content content;
    for (const auto& r : v.reader.read(records_a_look))
      if (v.filter.passes(r, now)) content.records.push_back(r);
    if (v.payloads) content.messages = take_messages(v, messages);
    if (!content.records.empty() || !content.messages.empty() ||
        now - v.said_ns >= v.lease_ns / 2) {  // OBS-1: else he has nothing to answer
      send_batches(self, id, v, std::move(content), "");
    }
    if (v.filter.exhausted())  // OBS-1
      over.emplace_back(id, fmt::format("the limit of {} records is reached", v.filter.passed()));
    else if (now > v.until_ns)
      over.emplace_back(id, "the viewer has not asked for more");
  }
  for (const auto& [id, why] : over) end_view(self, id, why);
  keep_ticking(self);
}

// -- black box ------------------------------------------------------------------------------------

namespace {

/// A file name's worth of a sentence.
std::string word_of(std::string_view reason) {
  std::string out;
  for (const char c : reason.substr(0, 40))
    out += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return out.empty() ? "asked" : out;
}

}  // namespace

result<std::string> write_black_box(observer_pointer self, const std::string& reason) {
  auto& st = self->state;
  const auto& dir = st.options.black_box_dir;
  if (dir.empty()) return error{errc::usage, "this process has no folder for black boxes"};
  batch_content content;
  record_reader all(st.in->records, false);
  for (auto more = all.read(SIZE_MAX); !more.empty(); more = all.read(SIZE_MAX))
    content.records.insert(content.records.end(), more.begin(), more.end());
  std::unordered_set<uint32_t> seen, named;
  for (const auto& r : content.records) seen.insert(r.actor);
  content.actors = new_actors(st.in->registry, named, seen);
  content.works = work_names();
  auto head = head_of(st);
  head.lost = all.lost();
  const auto path =
      std::filesystem::path(dir) / fmt::format("blackbox-{}-{}-{}-{}.trace", st.options.node,
                                               getpid(), ++st.black_boxes, word_of(reason));
  TROUPE_TRY(file, trace_writer::create(path));
  for (const auto& b : make_batches(head, std::move(content)))
    TROUPE_CHECK(file.append(make_msg<fbs::TraceBatch>(context_of(*self, 0), b)));
  TROUPE_CHECK(file.finish());
  show(self);
  return std::filesystem::absolute(path).string();
}

caf::result<msg<fbs::Ack>> dump_black_box(observer_pointer self, const msg<fbs::DumpBlackBox>& m) {
  auto& st = self->state;
  const auto reason = m->reason() ? m->reason()->str() : "";
  const bool death = self->current_sender() == nullptr;
  const auto now = now_ns(*self);
  if (death) {  // OBS-4
    const bool soon =
        st.last_box_ns != 0 && now - st.last_box_ns < ns_of(defaults::black_box_pause);
    if (soon || st.black_boxes >= observer_state::box_limit || st.options.black_box_dir.empty())
      return to_caf({errc::unavailable, "too many black boxes"});
    st.last_box_ns = now;
  }
  auto path = write_black_box(self, reason);
  if (!path) return to_caf(path.error());
  spdlog::log(death ? spdlog::level::warn : spdlog::level::info, "black box: {} ({})", *path,
              reason);
  return make_msg<fbs::Ack>(context_of(*self, m.header()), [&](auto& a) { a.text = *path; });
}

void watch_deaths(observer_pointer self) {
  // Runs on the dying actor's thread: a message to ourselves is all that is done there.
  auto me = caf::actor_cast<caf::weak_actor_ptr>(self);
  self->state.in = &self->runtime();
  self->state.in->registry.set_death_handler([me](const std::string& path, const std::string& why) {
    auto owner = me.lock();
    if (!owner) return;
    caf::anon_send(caf::actor_cast<observer_actor>(owner),
                   make_msg<fbs::DumpBlackBox>(
                       {}, [&](auto& d) { d.reason = fmt::format("{} died: {}", path, why); }));
  });
}

}  // namespace troupe::trace
