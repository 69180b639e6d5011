// Batches to events to scenes.
#include "actors/replay/lives.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <caf/message_id.hpp>

#include "actors/trace/trace_file.hpp"

namespace troupe::replay {

namespace {

using life_kind = fbs::LifeKind;
using part = fbs::LifePartKind;

error bad(std::string what) {
  return {errc::bad_data, std::move(what)};
}

bool in_bounds(int64_t ns) {
  return ns > -trace::time_bound_ns && ns < trace::time_bound_ns;
}

status check_part(const fbs::LifePartT& p) {  // LVS-2
  switch (p.kind) {
    case part::message:
      if (auto m = decode(p.message); !m) return m.error();
      return {};
    case part::actor:
    case part::down:
    case part::exit:
      if (p.actors.size() != 1) return bad("a handle that is not one");
      return {};
    case part::actors:
    case part::atom:
    case part::other:
      return {};
    case part::failure:
      if (!p.failure || p.failure->code == 0) return bad("an error that is none");
      return {};
  }
  return bad("a part of no known kind");
}

/// Only plain messages, requests and responses are recorded; CAF's streams have other numbers.
status check_number(uint64_t request) {
  const caf::message_id id(request);
  if (id.is_stream_message() || id.is_answered()) return bad("a number that no message has");
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
    if (b.life() == nullptr) return {};
    fbs::TraceBatchT all;
    b.UnPackTo(&all);
    for (auto& e : all.life) {
      if (++events_ > most_)
        return error{errc::no_memory, fmt::format("more than {} events", most_)};
      const auto number = e->number;
      TROUPE_CHECK(within(event(all, std::move(e)), number));
    }
    return {};
  }

  lives take() {
    lives out;
    for (auto& s : stories_) out.stories.push_back(std::move(s));
    out.midway.assign(midway_.begin(), midway_.end());
    return out;
  }

 private:
  static status within(status s, uint64_t number) {
    if (s) return s;
    return s.error().within(fmt::format("event {} of a life", number));
  }

  status event(const fbs::TraceBatchT& b, std::unique_ptr<fbs::LifeEventT> e) {
    if (e->kind > life_kind::ended || !in_bounds(e->at_ns)) return bad("is none");
    if (!std::all_of(e->readings.begin(), e->readings.end(), in_bounds))
      return bad("a time out of bounds");
    for (const auto& p : e->parts) TROUPE_CHECK(check_part(*p));
    if (e->kind == life_kind::got) TROUPE_CHECK(check_number(e->request));
    if (e->kind == life_kind::born) return birth(b, std::move(e));
    const auto at = place_.find({b.process, e->actor});
    if (at == place_.end()) return bad("the actor was not born");
    if (e->number != ++at->second.last) return bad("events are missing before it");  // LVS-1
    return follow(stories_[at->second.story], std::move(e));
  }

  status birth(const fbs::TraceBatchT& b, std::unique_ptr<fbs::LifeEventT> e) {
    if (!e->birth || e->number != 1) return bad("a birth that is none");
    if (e->birth->form != life_form)
      return error{errc::version_mismatch,
                   fmt::format("the life of {} is written in form {}, this program reads {}",
                               e->path, e->birth->form, life_form),
                   "replay it with the version of troupe that recorded it"};
    if (!place_.emplace(std::pair(b.process, e->actor), place{stories_.size(), 1}).second)
      return bad("an actor is born twice");
    auto& s = stories_.emplace_back();
    s.path = e->path;
    s.kind = names_[{b.process, e->actor}].second;
    s.node = b.node;
    s.host = b.host;
    s.process = b.process;
    s.pid = b.pid;
    s.number = e->actor;
    s.scenes.emplace_back();
    s.scenes.back().at_ns = e->at_ns;
    s.birth = std::move(e->birth);
    return {};
  }

  status follow(story& s, std::unique_ptr<fbs::LifeEventT> e) {
    auto& now = s.scenes.back();
    if (now.ended) return bad("something after the end");
    switch (e->kind) {
      case life_kind::got: {
        if (!now.handled) return bad("given while it handled something else");
        auto& next = s.scenes.emplace_back();
        next.at_ns = e->at_ns;
        next.given = std::move(e);
        return {};
      }
      case life_kind::handled:
        if (now.handled) return bad("handled what it was not given");
        now.handled = true;
        now.readings = std::move(e->readings);
        return {};
      case life_kind::ended:
        now.ended = std::move(e);
        return {};
      default:
        now.said.push_back(std::move(e));
        return {};
    }
  }

  struct place {
    size_t story = 0;
    uint64_t last = 0;
  };
  std::map<std::pair<uint32_t, uint32_t>, std::pair<std::string, std::string>> names_;
  std::map<std::pair<uint32_t, uint32_t>, place> place_;
  std::vector<story> stories_;
  std::set<std::string> midway_;
  uint64_t events_ = 0, most_;
};

result<lives> read_all(trace::trace_reader from, const std::string& name, uint64_t most) {
  reader all(most);
  while (true) {
    TROUPE_TRY(batch, from.next());  // LVS-3
    if (!batch) return all.take();
    if (const auto s = all.batch(**batch); !s)
      return s.error().within(fmt::format("{}: entry {}", name, from.batches()));
  }
}

}  // namespace

result<lives> read_lives(const std::filesystem::path& file, uint64_t most) {
  TROUPE_TRY(from, trace::trace_reader::open(file));
  return read_all(std::move(from), file.string(), most);
}

result<lives> read_lives(std::span<const uint8_t> bytes, const std::string& name) {
  TROUPE_TRY(from, trace::trace_reader::over(bytes, name));
  return read_all(std::move(from), name, event_limit);
}

result<story> choose(lives&& all, const std::string& path) {
  std::set<std::string> names;
  for (const auto& s : all.stories) names.insert(s.path);
  const auto wanted = path.empty() && names.size() == 1 ? *names.begin() : path;
  for (auto it = all.stories.rbegin(); it != all.stories.rend(); ++it)
    if (it->path == wanted) return std::move(*it);
  const bool midway =
      path.empty() ? names.empty() && !all.midway.empty()
                   : std::find(all.midway.begin(), all.midway.end(), path) != all.midway.end();
  if (midway)
    return error{errc::bad_data,
                 fmt::format("{} was recorded from the middle of its life: what it was told before "
                             "is not in the file",
                             path.empty() ? "the actor" : path),
                 "record it from its birth: troupe up CONFIG --record-actor ACTOR"};
  if (names.empty())
    return error{errc::bad_data, "the file holds the life of no actor",
                 "record one: troupe up CONFIG --record-actor ACTOR"};
  if (path.empty())
    return error{errc::usage, "the file holds the lives of several actors",
                 fmt::format("choose one with --actor: {}", fmt::join(names, ", "))};
  return error{errc::not_found, fmt::format("the file does not hold the life of {}", path),
               fmt::format("it holds: {}", fmt::join(names, ", "))};
}

}  // namespace troupe::replay
