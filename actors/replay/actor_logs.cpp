// Batches to events to turns.
#include "actors/replay/actor_logs.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <caf/message_id.hpp>

#include "actors/job/spawn_record.hpp"
#include "trace/trace_file.hpp"

namespace troupe::replay {

namespace {

using log_kind = fbs::ActorLogKind;
using part = fbs::ActorLogPartKind;

error bad(std::string what) {
  return {errc::bad_data, std::move(what)};
}

bool in_bounds(int64_t ns) {
  return ns > -trace::time_bound_ns && ns < trace::time_bound_ns;
}

status check_part(const fbs::ActorLogPartT& p) {  // ALG-2
  switch (p.kind) {
    case part::message:
      if (auto m = decode(p.message); !m) return m.error();
      return {};
    case part::actor:
    case part::down:
    case part::exit:
      if (p.actors.size() != 1) return bad("a handle is missing");
      return {};
    case part::actors:
    case part::atom:
    case part::other:
      return {};
    case part::failure:
      if (!p.failure || p.failure->code == 0) return bad("an error without a code");
      return {};
  }
  return bad("an unsupported kind of part");
}

/// Only plain messages, requests and responses are recorded; CAF's streams have other numbers.
status check_number(uint64_t request) {
  const caf::message_id id(request);
  if (id.is_stream_message() || id.is_answered()) return bad("an invalid message number");
  return {};
}

/// Puts the events of a file in their places.
class reader {
 public:
  explicit reader(uint64_t most) : most_(most) {}

  status batch(const fbs::TraceBatch& b) {
    if (b.actors() != nullptr)
      for (const auto* a : *b.actors())
        names_[{b.process(), a->number()}] = {a->path() ? a->path()->str() : "",
                                              a->kind() ? a->kind()->str() : ""};
    if (b.messages() != nullptr)
      for (const auto* m : *b.messages()) midway_.insert(names_[{b.process(), m->actor()}].first);
    if (b.log() == nullptr) return {};
    fbs::TraceBatchT all;
    b.UnPackTo(&all);
    for (auto& e : all.log) {
      if (++events_ > most_) return too_many_events(most_);
      const auto number = e->number;
      TROUPE_CHECK(within(event(all, std::move(e)), number));
    }
    return {};
  }

  actor_logs take() {
    actor_logs out;
    for (auto& s : actors_) out.actors.push_back(std::move(s));
    out.midway.assign(midway_.begin(), midway_.end());
    return out;
  }

 private:
  static status within(status s, uint64_t number) {
    if (s) return s;
    return s.error().within(fmt::format("event {} of an actor log", number));
  }

  status event(const fbs::TraceBatchT& b, std::unique_ptr<fbs::ActorLogEventT> e) {
    if (e->kind > log_kind::ended || !in_bounds(e->at_ns)) return bad("an invalid kind or time");
    if (!std::all_of(e->readings.begin(), e->readings.end(), in_bounds))
      return bad("a time out of bounds");
    for (const auto& p : e->parts) TROUPE_CHECK(check_part(*p));
    if (e->kind == log_kind::got) TROUPE_CHECK(check_number(e->request));
    if (e->kind == log_kind::begun) return spawned(b, std::move(e));
    const auto at = place_.find({b.process, e->actor});
    if (at == place_.end()) return bad("an event of an actor without a spawn event");
    if (e->number != ++at->second.last) return bad("events are missing before it");  // ALG-1
    return follow(actors_[at->second.logged_actor], std::move(e));
  }

  status spawned(const fbs::TraceBatchT& b, std::unique_ptr<fbs::ActorLogEventT> e) {
    if (!e->spawn_record || e->number != 1) return bad("a spawn record is missing");
    if (e->spawn_record->form != actor_log_form)
      return error{errc::version_mismatch,
                   fmt::format("unsupported actor log of {}: form {}, expected {}", e->path,
                               e->spawn_record->form, actor_log_form),
                   "replay it with the version of troupe that recorded it"};
    if (!place_.emplace(std::pair(b.process, e->actor), place{actors_.size(), 1}).second)
      return bad("a duplicate spawn event");
    auto& s = actors_.emplace_back();
    s.path = e->path;
    s.kind = names_[{b.process, e->actor}].second;
    s.node = b.node;
    s.host = b.host;
    s.process = b.process;
    s.pid = b.pid;
    s.number = e->actor;
    s.turns.emplace_back();
    s.turns.back().at_ns = e->at_ns;
    s.record = std::move(e->spawn_record);
    return {};
  }

  status follow(logged_actor& s, std::unique_ptr<fbs::ActorLogEventT> e) {
    auto& now = s.turns.back();
    if (now.ended) return bad("something after the end");
    switch (e->kind) {
      case log_kind::got: {
        if (!now.handled) return bad("given while it handled something else");
        auto& next = s.turns.emplace_back();
        next.at_ns = e->at_ns;
        next.given = std::move(e);
        return {};
      }
      case log_kind::handled:
        if (now.handled) return bad("handled what it was not given");
        now.handled = true;
        now.readings = std::move(e->readings);
        return {};
      case log_kind::ended:
        now.ended = std::move(e);
        return {};
      case log_kind::spawned:
        e->text = train::present_role(e->text);
        [[fallthrough]];
      default:
        now.said.push_back(std::move(e));
        return {};
    }
  }

  struct place {
    size_t logged_actor = 0;
    uint64_t last = 0;
  };
  std::map<std::pair<uint32_t, uint32_t>, std::pair<std::string, std::string>> names_;
  std::map<std::pair<uint32_t, uint32_t>, place> place_;
  std::vector<logged_actor> actors_;
  std::set<std::string> midway_;
  uint64_t events_ = 0, most_;
};

}  // namespace

result<actor_logs> read_actor_logs(const std::filesystem::path& file, uint64_t most) {
  TROUPE_TRY(from, trace::trace_reader::open(file));
  reader all(most);
  while (true) {
    TROUPE_TRY(batch, from.next());  // ALG-3
    if (!batch) return all.take();
    if (const auto s = all.batch(**batch); !s)
      return s.error().within(fmt::format("{}: entry {}", file.string(), from.batches()));
  }
}

result<logged_actor> choose(actor_logs&& all, const std::string& path) {
  std::set<std::string> names;
  for (const auto& s : all.actors) names.insert(s.path);
  const auto wanted = path.empty() && names.size() == 1 ? *names.begin() : path;
  for (auto it = all.actors.rbegin(); it != all.actors.rend(); ++it)
    if (it->path == wanted) return std::move(*it);
  const bool midway =
      path.empty() ? names.empty() && !all.midway.empty()
                   : std::find(all.midway.begin(), all.midway.end(), path) != all.midway.end();
  if (midway)
    return error{errc::bad_data,
                 fmt::format("{} was recorded from the middle of its run: what it was told before "
                             "is not in the file",
                             path.empty() ? "the actor" : path),
                 "record it from its start: troupe up CONFIG --record-actor ACTOR"};
  if (names.empty())
    return error{errc::bad_data, "the file holds no actor log",
                 "record one: troupe up CONFIG --record-actor ACTOR"};
  if (path.empty())
    return error{errc::usage, "the file holds the logs of several actors",
                 fmt::format("choose one with --actor: {}", fmt::join(names, ", "))};
  return error{errc::not_found, fmt::format("no log of {} in the file", path),
               fmt::format("it holds: {}", fmt::join(names, ", "))};
}

}  // namespace troupe::replay
