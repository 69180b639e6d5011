// The stage, the stubs, and the turns one after the other.
#include "actors/replay/replay.hpp"

#include <deque>
#include <map>

#include <fmt/format.h>
#include <caf/make_actor.hpp>
#include <caf/monitorable_actor.hpp>

#include "actors/base/hardware.hpp"
#include "actors/capture/recorder.hpp"
#include "actors/replay/factories.hpp"
#include "actors/replay/message_parts.hpp"
#include "messages/registry.hpp"
#include "messages/type_ids.hpp"

namespace troupe::replay {

namespace {

/// Whom the actor speaks with. What it would say is in the recording.
class stub : public caf::monitorable_actor {
 public:
  explicit stub(caf::actor_config& config) : monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr, caf::execution_unit*) override {}
};

/// A world in which nothing reaches an actor unless it is handed over (RPL-1).
class world_of_one : public sim::world {
 public:
  explicit world_of_one(uint32_t process) : world(alone(process)) {}

  bool intercept(traced_actor&, const caf::strong_actor_ptr&,
                 caf::mailbox_element_ptr& message) override {
    message.reset();
    return true;
  }

  void advance_to(int64_t ns) {
    if (ns > now_ns()) clock().call_at(ns, [] {});
    while (now_ns() < ns) clock().advance();
  }

  /// Lets the actor handle everything it has.
  void settle() {
    while (!idle()) turn();
  }

 private:
  static sim::world_options alone(uint32_t process) {
    sim::world_options o;
    o.process = process;
    o.shuffle = false;
    o.check_requests = false;
    return o;
  }
};

/// Names of handles, recorded and here.
class stubs {
 public:
  stubs(caf::actor_system& system, const logged_actor& log) : system_(system), log_(log) {
    for (const auto& s : log.turns)
      for (const auto& e : s.said) {
        if (e->kind == fbs::ActorLogKind::spawned) spawned_[e->text].push_back(e->peer);
        if (!e->path.empty()) paths_[e->peer] = e->path;
      }
  }

  caf::strong_actor_ptr of(const std::string& name) {
    auto& p = by_name_[name];
    if (!p) {
      caf::actor_config config;
      p = caf::make_actor<stub, caf::strong_actor_ptr>(system_.next_actor_id(), system_.node(),
                                                       &system_, config);
      recorded_name_[handle_name(p)] = name;
    }
    return p;
  }

  caf::strong_actor_ptr spawned(const std::string& role) {
    auto& names = spawned_[role];
    if (names.empty()) return of(fmt::format("one more {}", role));
    const auto name = names.front();
    names.pop_front();
    return of(name);
  }

  /// The recorded name of a handle that is named so here.
  std::string recorded(const std::string& here) const {
    const auto it = recorded_name_.find(here);
    return it == recorded_name_.end() ? here : it->second;
  }

  void is_myself(const std::string& here) { recorded_name_[here] = "self"; }

  /// One's own handle has a name that nobody can know at the record.
  void rename(fbs::ActorLogEventT& e, bool of_recording) const {
    if (of_recording) {
      if (e.path == log_.path) e.peer = "self";
      return;
    }
    e.peer = recorded(e.peer);
    if (const auto it = paths_.find(e.peer); it != paths_.end()) e.path = it->second;
    for (auto& p : e.parts)
      for (auto& a : p->actors) a = recorded(a);
  }

 private:
  caf::actor_system& system_;
  const logged_actor& log_;
  std::map<std::string, caf::strong_actor_ptr> by_name_;
  std::map<std::string, std::string> recorded_name_;
  std::map<std::string, std::string> paths_;  ///< by recorded name
  std::map<std::string, std::deque<std::string>> spawned_;
};

/// Hears the fresh actor, and shows it the recorded times.
class listener : public actor_log {
 public:
  explicit listener(const replay_options& options) : options_(options) {}

  void begun(fbs::SpawnRecordT) override {}
  void got(const caf::mailbox_element&, int64_t) override {
    if (options_.before) options_.before(number_);
  }
  void said(output s) override {
    auto& e = *heard_.emplace_back(std::make_unique<fbs::ActorLogEventT>());
    e.kind = s.kind;
    e.peer = handle_name(s.to);
    e.request = s.request;
    e.parts = parts_of(s.content);
    e.text = std::move(s.role);
  }
  void handled(int64_t) override {}
  void ended(const std::string& why, int64_t) override { end_ = why; }
  int64_t read_clock(int64_t ns) override {
    if (next_ < readings_.size()) last_ns_ = readings_[next_++];
    return last_ns_ != 0 ? last_ns_ : ns;
  }

  void begin(uint64_t number, const turn& now) {
    number_ = number;
    readings_ = now.readings;
    next_ = 0;
    last_ns_ = now.at_ns;
    heard_.clear();
  }
  outputs take() { return std::exchange(heard_, {}); }
  const std::optional<std::string>& end() const { return end_; }

 private:
  const replay_options& options_;
  uint64_t number_ = 0;
  std::vector<int64_t> readings_;
  size_t next_ = 0;
  int64_t last_ns_ = 0;
  outputs heard_;
  std::optional<std::string> end_;
};

/// Logs are kept for the fresh actor alone, as long as this lives.
struct log_listening {
  log_listening(actor_log_factory& logs, std::shared_ptr<listener> who, const std::string& path)
      : logs_(logs) {
    logs.set_maker([who, path](const actor_stats& stats) -> std::shared_ptr<actor_log> {
      return stats.path() == path ? who : nullptr;
    });
  }
  ~log_listening() { logs_.set_maker({}); }

 private:
  actor_log_factory& logs_;
};

/// What an actor that nobody refers to any more ends with: nothing that it was given.
bool is_forgotten(const std::string& why) {
  return why.find("unreachable") != std::string::npos;
}

message_context context_like(const message_header& h) {
  message_context c;
  c.trace_high = h.trace_high;
  c.trace_low = h.trace_low;
  c.span = h.span;
  c.parent = h.parent;
  c.sender = h.sender;
  c.now_ns = h.sent_ns;
  c.epoch = h.epoch;
  c.trace_flags = h.trace_flags;
  return c;
}

class replayer {
 public:
  replayer(const logged_actor& of, const replay_options& options)
      : log_(of),
        world_(of.process),
        stubs_(world_.system(), of),
        listener_(std::make_shared<listener>(options)),
        listening_(world_.runtime().logs, listener_, of.path) {
    out_.actor = of.path;
  }

  result<replay_result> run() {
    for (uint64_t n = 0; n < log_.turns.size() && !listener_->end(); ++n) {
      const auto& now = log_.turns[n];
      world_.advance_to(now.at_ns);
      listener_->begin(n, now);
      TROUPE_TRY(on, n == 0 ? begin() : give(n, *now.given));
      if (!on) continue;
      world_.settle();
      judge(n, now);
    }
    const auto& last = log_.turns.back();
    if (!last.ended && last.handled)
      out_.remarks.push_back("the recording ends before the actor did");
    const bool all = out_.given == log_.given();
    if (!all && listener_->end())
      out_.remarks.push_back(fmt::format("{} of {} messages were not given to it: it had ended",
                                         log_.given() - out_.given, log_.given()));
    for (const auto& name : left_out_) out_.not_compared.push_back(name);
    return std::move(out_);
  }

 private:
  result<bool> begin() {
    if (log_.record->schema_hash != cluster::own_schema_hash())
      out_.remarks.push_back("the recording is of a program with other message schemas");
    TROUPE_TRY(record, train::record_of(*log_.record,
                                        [this](const auto& name) { return stubs_.of(name); }));
    if (log_.kind == "coordinator") {  // whom it spawned is here already
      record.committer = caf::actor_cast<committer_actor>(stubs_.spawned("committer"));
      record.replicator = caf::actor_cast<replicator_actor>(stubs_.spawned("replicator"));
      record.run = caf::actor_cast<run_actor>(stubs_.spawned("run"));
    }
    if (record.incarnation != 0)  // as are those whom a pacer spawned
      for (size_t n = 0; n < std::max<size_t>(1, record.plan.job.power.racks.size()); ++n)
        record.finders.push_back(caf::actor_cast<finder_actor>(stubs_.spawned("finder")));
    TROUPE_TRY(who, make_actor(log_, std::move(record), world_));
    actor_ = std::move(who);
    stubs_.is_myself(handle_name(actor_));
    return true;
  }

  /// False: it cannot be given.
  result<bool> give(uint64_t n, const fbs::ActorLogEventT& e) {
    caf::message_id id(e.request);
    if (id.is_response()) {
      const auto it = requests_.find(e.request);
      if (it == requests_.end()) {
        out_.differences.push_back(
            {n, summary_of(e.parts), "the request this answers", "", "asked", ""});
        return false;
      }
      id = caf::message_id(it->second);
    }
    auto content = message_of(e.parts, [this](const std::string& name) { return known(name); });
    if (!content) return content.error().within(fmt::format("message {}", n));
    auto sender = e.peer.empty() ? caf::strong_actor_ptr{} : known(e.peer);
    if (e.path == log_.path) sender = actor_;
    ++out_.given;
    dynamic_cast<traced_actor&>(*actor_->get())
        .deliver(caf::make_mailbox_element(std::move(sender), id, {}, ours(std::move(*content))));
    return true;
  }

  caf::strong_actor_ptr known(const std::string& name) { return stubs_.of(name); }

  /// The recorded program may have been another: what names its version names ours.
  caf::message ours(caf::message content) {
    const auto m = unwrap(content);
    any_msg own;
    if (auto hello = troupe::cast<fbs::Hello>(m)) {
      auto t = hello.unpack();
      if (t.program_version == log_.record->program_version)
        t.program_version = cluster::own_version();
      if (t.schema_hash == log_.record->schema_hash) t.schema_hash = cluster::own_schema_hash();
      own = make_msg<fbs::Hello>(context_like(m.header()), t);
    } else if (auto find = troupe::cast<fbs::FindGateway>(m)) {
      auto t = find.unpack();
      if (t.schema_hash == log_.record->schema_hash) t.schema_hash = cluster::own_schema_hash();
      own = make_msg<fbs::FindGateway>(context_like(m.header()), t);
    }
    return own ? wrap(own) + content.drop(1) : content;
  }

  void judge(uint64_t n, const turn& now) {
    outputs then, here = listener_->take();
    for (const auto& e : now.said) {
      then.push_back(std::make_unique<fbs::ActorLogEventT>());
      copy(*e, *then.back());
      stubs_.rename(*then.back(), true);
    }
    for (auto& e : here) stubs_.rename(*e, false);
    out_.recorded += then.size();
    out_.replayed += here.size();
    const auto given = now.given ? summary_of(now.given->parts) : "its spawn";
    if (!now.handled) {
      out_.remarks.push_back(fmt::format(
          "the recording ends while message {} ({}) was handled: the process ended there", n,
          given));
      return;
    }
    auto c = compare(then, here);
    for (const auto& [i, j] : c.same)
      if (then[i]->kind == fbs::ActorLogKind::asked) requests_[then[i]->request] = here[j]->request;
    for (auto& d : c.differences) {
      d.message = n;
      d.given = given;
      out_.differences.push_back(std::move(d));
    }
    left_out_.merge(c.left_out);
    judge_end(n, now, given);
  }

  void judge_end(uint64_t n, const turn& now, const std::string& given) {
    const auto& here = listener_->end();
    const bool then = now.ended && !is_forgotten(now.ended->text);
    if (then == here.has_value() && (!then || now.ended->text == *here)) return;
    out_.differences.push_back(
        {n, given, "its end", "", then ? now.ended->text : "", here ? *here : ""});
  }

  static void copy(const fbs::ActorLogEventT& from, fbs::ActorLogEventT& to) {
    flatbuffers::FlatBufferBuilder b;
    b.Finish(fbs::ActorLogEvent::Pack(b, &from));
    flatbuffers::GetRoot<fbs::ActorLogEvent>(b.GetBufferPointer())->UnPackTo(&to);
  }

  const logged_actor& log_;
  world_of_one world_;
  stubs stubs_;
  std::shared_ptr<listener> listener_;
  log_listening listening_;
  caf::strong_actor_ptr actor_;
  std::map<uint64_t, uint64_t> requests_;  ///< CAF's numbers, by the recorded ones
  std::set<std::string> left_out_;
  replay_result out_;
};

}  // namespace

result<replay_result> replay(const logged_actor& log, const replay_options& options) {
  TROUPE_CHECK(can_be_replayed(log));
  try {
    return replayer(log, options).run();
  } catch (const std::exception& e) {  // of what the recording makes our libraries do
    return error{errc::bad_data, fmt::format("{} cannot be replayed: {}", log.path, e.what())};
  }
}

}  // namespace troupe::replay
