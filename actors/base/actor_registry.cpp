// The stats of actors and their registry.
#include "actors/base/actor_registry.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/capture/flight_memory.hpp"
#include "actors/capture/identities.hpp"
#include "messages/registry.hpp"

namespace troupe {

// -- view -----------------------------------------------------------------------------------------

std::unique_ptr<fbs::ActorInfoT> info_of(const actor_view& v, int64_t now_ns) {
  auto out = std::make_unique<fbs::ActorInfoT>();
  auto& i = *out;
  i.key = v.key;
  i.parent = v.parent;
  i.path = v.path;
  i.kind = v.kind;
  i.state = v.state;
  i.values = std::make_unique<fbs::StatusValuesT>(v.values);
  i.last_error = v.last_error;
  i.ended = v.ended;
  const auto until = v.ended_ns != 0 ? v.ended_ns : now_ns;
  i.state_for_ns = v.since_ns != 0 ? until - v.since_ns : 0;
  i.uptime_ns = until - v.started_ns;
  i.received = v.received;
  i.handled = v.handled;
  i.failed = v.failed;
  i.deepest = v.deepest;
  if (v.handling != 0) {
    if (const auto* m = find_message(v.handling)) i.handling = m->name;
    i.handling_for_ns = now_ns - v.handling_since_ns;
  }
  for (const auto& w : v.waits) {
    auto& wait = *i.waits.emplace_back(std::make_unique<fbs::ActorWaitT>());
    wait.whom = w.whom;
    wait.what = w.what;
    wait.for_ns = now_ns - w.since_ns;
  }
  return out;
}

// -- stats ---------------------------------------------------------------------------------------

actor_stats::actor_stats(uint32_t number, uint64_t parent)
    : key_(uint64_t{process_tag()} << 32 | number), parent_(parent) {}

void actor_stats::started(caf::weak_actor_ptr handle, int64_t now_ns) {
  started_ns_.store(now_ns, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  handle_ = std::move(handle);
}

void actor_stats::ended(std::string why, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  ended_ = std::move(why);
  ended_ns_ = now_ns;
  waits_.clear();
  handle_ = nullptr;
}

caf::strong_actor_ptr actor_stats::handle() const {
  std::lock_guard lock(mutex_);
  return handle_.lock();
}

void actor_stats::set_path(std::string path) {
  std::lock_guard lock(mutex_);
  path_ = std::move(path);
  detail::note_actor(number(), parent_, path_, kind_);
}

void actor_stats::set_kind(std::string kind) {
  std::lock_guard lock(mutex_);
  kind_ = std::move(kind);
  if (path_.empty()) path_ = fmt::format("{}/#{}", kind_, number());
  detail::note_actor(number(), parent_, path_, kind_);
}

std::string actor_stats::kind() const {
  std::lock_guard lock(mutex_);
  return kind_;
}

std::string actor_stats::path() const {
  std::lock_guard lock(mutex_);
  return path_;
}

void actor_stats::publish(std::string state, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  if (state != state_) since_ns_ = now_ns;
  state_ = std::move(state);
}

fbs::StatusValuesT actor_stats::values() const {
  std::lock_guard lock(mutex_);
  return values_;
}

void actor_stats::failed(std::string why) {
  failed_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  last_error_ = std::move(why);
}

void actor_stats::end_waits_of_epoch() {
  std::lock_guard lock(mutex_);
  std::erase_if(waits_, [](const auto& w) { return !w.second.spans_epochs; });
}

uint64_t actor_stats::begin_wait(std::string whom, std::string what, int64_t now_ns,
                                 bool spans_epochs) {
  std::lock_guard lock(mutex_);
  ++last_wait_;
  waits_.emplace(last_wait_, actor_wait{last_wait_, std::move(whom), std::move(what), now_ns,
                                        spans_epochs});
  return last_wait_;
}

uint64_t actor_stats::begin_waits(std::vector<std::string> whom, const std::string& what,
                                  int64_t now_ns) {
  std::lock_guard lock(mutex_);
  ++last_wait_;
  for (auto& w : whom)
    waits_.emplace(last_wait_, actor_wait{last_wait_, std::move(w), what, now_ns});
  return last_wait_;
}

void actor_stats::end_wait(uint64_t id) {
  std::lock_guard lock(mutex_);
  waits_.erase(id);
}

actor_view actor_stats::view() const {
  actor_view v;
  v.key = key_;
  v.parent = parent_;
  v.started_ns = started_ns_.load(std::memory_order_relaxed);
  v.handled = handled_.load(std::memory_order_relaxed);  // before received: depth is never negative
  v.received = received_.load(std::memory_order_relaxed);
  v.failed = failed_.load(std::memory_order_relaxed);
  v.deepest = deepest_.load(std::memory_order_relaxed);
  v.handling = handling_.load(std::memory_order_relaxed);
  v.handling_since_ns = handling_since_ns_.load(std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  v.kind = kind_;
  v.path = path_;
  v.state = state_;
  v.values = values_;
  v.last_error = last_error_;
  v.ended = ended_;
  v.since_ns = since_ns_;
  v.ended_ns = ended_ns_;
  v.waits.reserve(waits_.size());
  for (const auto& [id, wait] : waits_) v.waits.push_back(wait);
  return v;
}

// -- registry ------------------------------------------------------------------------------------

std::shared_ptr<actor_stats> actor_registry::add(uint64_t parent) {
  std::lock_guard lock(mutex_);
  living_.push_back(std::make_shared<actor_stats>(next_actor_number(), parent));
  return living_.back();
}

void actor_registry::remove(const std::shared_ptr<actor_stats>& stats) {
  std::lock_guard lock(mutex_);
  const auto it =
      std::lower_bound(living_.begin(), living_.end(), stats->number(),
                       [](const auto& c, uint32_t number) { return c->number() < number; });
  if (it == living_.end() || *it != stats) return;
  living_.erase(it);
  if (living_.empty()) emptied_.notify_all();
  if (dead_.size() == dead_limit) dead_.erase(dead_.begin());
  dead_.push_back(stats);
}

void actor_registry::await_empty() {
  std::unique_lock lock(mutex_);
  emptied_.wait(lock, [this] { return living_.empty(); });
}

void actor_registry::set_death_handler(death_handler told) {
  std::lock_guard lock(death_mutex_);
  on_death_ = std::move(told);
}

void actor_registry::report_death(const actor_stats& stats, const std::string& why) {
  std::lock_guard lock(death_mutex_);
  if (on_death_) on_death_(stats.path(), why);
}

std::vector<actor_view> actor_registry::view(bool dead) const {
  std::vector<std::shared_ptr<actor_stats>> all_stats;
  {
    std::lock_guard lock(mutex_);
    all_stats = living_;
    if (dead) all_stats.insert(all_stats.end(), dead_.begin(), dead_.end());
  }
  std::vector<actor_view> out;
  out.reserve(all_stats.size());
  for (const auto& c : all_stats) out.push_back(c->view());
  return out;
}

std::vector<std::shared_ptr<actor_stats>> actor_registry::living() const {
  std::lock_guard lock(mutex_);
  return living_;
}

std::shared_ptr<actor_stats> actor_registry::find(const std::string& path) const {
  std::lock_guard lock(mutex_);
  for (auto it = living_.rbegin(); it != living_.rend(); ++it)
    if ((*it)->path() == path) return *it;
  return nullptr;
}

// -- the thread -----------------------------------------------------------------------------------

namespace {

thread_local actor_stats* running = nullptr;
thread_local uint64_t made = 0;

}  // namespace

actor_stats* current_stats() noexcept {
  return running;
}

stats_scope::stats_scope(actor_stats* stats) noexcept : before_(running) {
  running = stats;
}

stats_scope::~stats_scope() {
  running = before_;
}

uint64_t messages_made() noexcept {
  return made;
}

void count_message_made() noexcept {
  ++made;
}

}  // namespace troupe
