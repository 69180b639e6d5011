// Actor logs into a file.
#include "actors/replay/recording.hpp"

#include <unistd.h>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/hardware.hpp"
#include "actors/base/traced.hpp"
#include "actors/capture/identities.hpp"
#include "actors/replay/actor_logs.hpp"
#include "actors/replay/message_parts.hpp"
#include "io/base/text.hpp"
#include "trace/trace_file.hpp"

namespace troupe::replay {

using events = std::vector<std::unique_ptr<fbs::ActorLogEventT>>;

/// The file; shared by all logs, which may end after the recording does.
class recording::book {
 public:
  explicit book(recording_options options) : options_(std::move(options)) {}

  const recording_options& options() const { return options_; }

  /// Appends events of one actor, in order; `who` where it is new. False: no more is written.
  bool append(events what, std::unique_ptr<fbs::TracedActorT> who) {
    std::lock_guard lock(mutex_);
    if (over_) return false;
    const auto done = write(std::move(what), std::move(who));
    if (!done) stop(done.error());
    return done.has_value();
  }

  void close() {
    std::lock_guard lock(mutex_);
    over_ = true;
    if (!file_) return;
    if (const auto done = file_->finish(); !done)
      spdlog::warn("recording of actors: {}", done.error().message);
  }

 private:
  status write(events what, std::unique_ptr<fbs::TracedActorT> who) {
    if (!file_) {
      TROUPE_TRY(made, trace::trace_writer::create(options_.file));
      file_.emplace(std::move(made));
    }
    if (file_->size() > options_.limit_bytes)  // REC-L3
      return error{errc::no_memory,
                   fmt::format("{} has reached {} bytes", options_.file.string(), file_->size())};
    fbs::TraceBatchT b;
    b.process = process_tag();
    b.node = options_.node;
    b.host = options_.host;
    b.pid = static_cast<uint32_t>(getpid());
    b.bound_ns = -1;
    b.sequence = ++sequence_;
    if (who) b.actors.push_back(std::move(who));
    b.log = std::move(what);
    TROUPE_TRY(m, try_make_msg<fbs::TraceBatch>({}, b));
    return file_->append(m);
  }

  /// REC-L1.
  void stop(const error& why) {
    over_ = true;
    spdlog::warn("the recording of actors ends here: {}", why.message);
  }

  recording_options options_;
  std::mutex mutex_;
  std::optional<trace::trace_writer> file_;
  uint64_t sequence_ = 0;
  bool over_ = false;
};

/// One log. All calls are on the actor's thread (ACL-1).
class recording::entry : public actor_log {
 public:
  entry(std::shared_ptr<book> into, const actor_stats& stats)
      : book_(std::move(into)), number_(stats.number()), path_(stats.path()) {
    const auto view = stats.view();
    who_ = std::make_unique<fbs::TracedActorT>();
    who_->number = number_;
    who_->path = view.path;
    who_->kind = view.kind;
    who_->parent = view.parent;
    record_.form = actor_log_form;
    record_.program_version = cluster::own_version();
    record_.schema_hash = cluster::own_schema_hash();
  }

  void begun(fbs::SpawnRecordT record) override {
    record.form = record_.form;
    record.program_version = record_.program_version;
    record.schema_hash = record_.schema_hash;
    record_ = std::move(record);
  }

  void got(const caf::mailbox_element& element, int64_t now_ns) override {
    auto& e = add(fbs::ActorLogKind::got, now_ns);
    e.peer = handle_name(element.sender);
    e.path = path_of(element.sender);
    e.request = element.mid.integer_value();
    e.parts = parts_of(element.copy_content_to_message());
    flush();  // REC-L2
  }

  void said(output s) override {
    auto& e = add(s.kind, 0);
    e.peer = handle_name(s.to);
    e.path = path_of(s.to);
    e.request = s.request;
    e.parts = parts_of(s.content);
    e.text = std::move(s.role);
    for (const auto& part : e.parts) held_bytes_ += part->message.size() + part_bytes;
    if (held_bytes_ > batch_bytes) flush();
  }

  void handled(int64_t now_ns) override {
    auto& e = add(fbs::ActorLogKind::handled, now_ns);
    e.readings = std::exchange(readings_, {});
    flush();
  }

  void ended(const std::string& why, int64_t now_ns) override {
    add(fbs::ActorLogKind::ended, now_ns).text = why;
    flush();
  }

  int64_t read_clock(int64_t ns) override {
    readings_.push_back(ns);
    return ns;
  }

 private:
  /// What is held beyond this goes into a batch of its own: one has room for max_message_bytes.
  static constexpr size_t batch_bytes = max_message_bytes / 4;
  static constexpr size_t part_bytes = 256;

  fbs::ActorLogEventT& add(fbs::ActorLogKind kind, int64_t at_ns) {
    if (last_ == 0 && kind != fbs::ActorLogKind::begun) {
      auto& first = add(fbs::ActorLogKind::begun, at_ns);
      first.path = path_;
      first.spawn_record = std::make_unique<fbs::SpawnRecordT>(std::move(record_));
    }
    auto& e = *held_.emplace_back(std::make_unique<fbs::ActorLogEventT>());
    e.actor = number_;
    e.number = ++last_;
    e.kind = kind;
    e.at_ns = at_ns;
    return e;
  }

  void flush() {
    if (!broken_) broken_ = !book_->append(std::exchange(held_, {}), std::move(who_));
    held_.clear();
    held_bytes_ = 0;
  }

  static std::string path_of(const caf::strong_actor_ptr& who) {
    if (!who) return {};
    auto* known = dynamic_cast<traced_actor*>(who->get());
    return known != nullptr ? known->stats().path() : std::string();
  }

  std::shared_ptr<book> book_;
  uint32_t number_;
  std::string path_;
  std::unique_ptr<fbs::TracedActorT> who_;
  fbs::SpawnRecordT record_;
  events held_;
  size_t held_bytes_ = 0;
  std::vector<int64_t> readings_;
  uint64_t last_ = 0;
  bool broken_ = false;
};

recording::recording(std::shared_ptr<runtime> in, recording_options options)
    : in_(std::move(in)), book_(std::make_shared<book>(std::move(options))) {
  in_->logs.set_maker([into = book_](const actor_stats& stats) -> std::shared_ptr<actor_log> {
    if (!glob_match(into->options().actors, stats.path())) return nullptr;
    return std::make_shared<entry>(into, stats);
  });
}

recording::~recording() {
  in_->logs.set_maker({});
  book_->close();
}

std::filesystem::path recording_path(const std::filesystem::path& folder, const std::string& node,
                                     int process) {
  return folder / (process == 1 ? fmt::format("actors-{}.trace", node)
                                : fmt::format("actors-{}.{}.trace", node, process));
}

}  // namespace troupe::replay
