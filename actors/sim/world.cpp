// Who is where, what passes between, what is counted.
#include "actors/sim/world.hpp"

#include <malloc.h>
#include <algorithm>

#include <fmt/format.h>
#include <caf/send.hpp>
#include <caf/system_messages.hpp>

#include "actors/capture/identities.hpp"
#include "messages/registry.hpp"

namespace troupe::sim {

namespace {

/// What a node's kernel tells after a crash: links of its process are gone.
bool is_news_of_end(const caf::mailbox_element& m) {
  return m.content().match_elements<caf::down_msg>() || m.content().match_elements<caf::exit_msg>();
}

/// Where an actor stands in tables by number.
size_t index_of(const actor_stats& stats) {
  return stats.number() - 1;
}

/// They hold a path under /proc/PID, which is longer in one process than in another.
bool names_memory(uint16_t type) {
  return type == message_traits<fbs::LoaderReady>::id ||
         type == message_traits<fbs::AttachLoader>::id;
}

}  // namespace

void keep_memory_of_worlds() {
  constexpr int kept_bytes = 256 << 20, apart_bytes = 32 << 20;
  ::mallopt(M_TRIM_THRESHOLD, kept_bytes);
  ::mallopt(M_MMAP_THRESHOLD, apart_bytes);
}

world::world(const world_options& options)
    : options_(options),
      chance_(options.seed),
      links_(options.links, static_cast<size_t>(options.nodes), chance_.split(1)),
      nodes_(static_cast<size_t>(options.nodes)) {
  fix_identities(options.process);
  config_ = std::make_unique<runtime_config>(options.in);
  config_->own->network = this;
  config_->add_message_type<std::vector<caf::strong_actor_ptr>>("handles");
  config_->load<virtual_scheduler>();
  system_ = std::make_unique<caf::actor_system>(*config_);
  system_->await_actors_before_shutdown(false);
  scheduler_ = &virtual_scheduler::of(*system_);
  scheduler_->set_burst(options.burst);
  if (options.shuffle) scheduler_->shuffle(chance_.split(2));
}

world::~world() {
  end();
}

void world::end() {
  if (config_->own->network != this) return;
  observe = nullptr;
  blocks_ns = nullptr;
  detains = nullptr;
  options_.check_requests = false;
  for (auto& n : nodes_) {
    n = place{};
    n.alive = false;
    n.silent = true;
  }
  held_.clear();
  for (const auto& stats : runtime().registry.living()) kill(*stats);
  clock().cancel_all();
  while (scheduler_->run_one()) continue;
  config_->own->network = nullptr;
}

/// Ahead of all else in the mailbox: a process that has gone handles nothing any more.
void world::kill(actor_stats& stats) {
  const auto actor = stats.handle();
  if (!actor) return;
  dynamic_cast<traced_actor*>(actor->get())
      ->deliver(caf::make_mailbox_element(nullptr,
                                          caf::make_message_id(caf::message_priority::high), {},
                                          caf::exit_msg{actor->address(), caf::exit_reason::kill}));
}

// -- who is where ---------------------------------------------------------------------------------

void world::adopt(int node, const caf::strong_actor_ptr& actor) {
  auto* traced = dynamic_cast<traced_actor*>(actor->get());
  if (traced == nullptr) return;
  const size_t at = index_of(traced->stats());
  if (at >= node_of_.size()) node_of_.resize(at + 1, -2);
  node_of_[at] = node;
}

int world::node_of(const actor_stats& stats) {
  const size_t at = index_of(stats);
  if (at >= node_of_.size()) node_of_.resize(at + 1, -2);
  if (node_of_[at] == -2) {
    const auto parent = static_cast<uint32_t>(stats.parent());
    const bool known = parent >= 1 && parent <= node_of_.size() && node_of_[parent - 1] != -2;
    node_of_[at] = known ? node_of_[parent - 1] : 0;
  }
  return node_of_[at];
}

int world::node_of_sender(uint64_t key) const {
  const size_t at = static_cast<uint32_t>(key) - 1;
  return at < node_of_.size() ? node_of_[at] : -2;
}

std::vector<std::shared_ptr<actor_stats>> world::actors_of(int node) const {
  std::vector<std::shared_ptr<actor_stats>> out;
  auto* me = const_cast<world*>(this);  // node_of() fills its table as it goes
  for (auto& stats : runtime().registry.living())
    if (me->node_of(*stats) == node) out.push_back(std::move(stats));
  return out;
}

std::shared_ptr<actor_stats> world::actor_at(const std::string& path, int last) const {
  for (int n = 0; n <= last; ++n)
    for (auto& stats : actors_of(n))
      if (stats->path() == path) return stats;
  return nullptr;
}

bool world::reachable(int a, int b) const {
  return a == b ||
         (alive(a) && alive(b) && !frozen(b) && !links_.cut(a, b) && !links_.broken(a, b));
}

// -- what passes ----------------------------------------------------------------------------------

bool world::intercept(traced_actor& receiver, const caf::strong_actor_ptr& self,
                      caf::mailbox_element_ptr& message) {
  const int to = node_of(receiver.stats());
  const auto* stats = current_stats();
  const int from = stats != nullptr ? node_of(*stats) : running_node_ >= 0 ? running_node_ : to;
  if (options_.check_requests && message->mid.is_request() && message->sender &&
      (from != to || !nodes_[static_cast<size_t>(to)].frozen))
    new_requests_.emplace_back(message->sender->id(), message->mid.response_id());
  if (const int64_t at_ns = busy_until(stats); at_ns > now_ns()) {
    leave_at(at_ns, {self, &receiver, std::move(message), from, to});
    return true;
  }
  if (from == to) {
    if (!nodes_[static_cast<size_t>(to)].frozen) {
      if (const int64_t at_ns = heard_at(receiver.stats(), *message); at_ns > now_ns()) {
        later(at_ns, {self, &receiver, std::move(message), from, to});
        return true;
      }
      note(receiver, self->id(), *message);
      return false;
    }
    deliver({self, &receiver, std::move(message), from, to});
    return true;
  }
  travel({self, &receiver, std::move(message), from, to});
  return true;
}

bool world::together(const caf::strong_actor_ptr& a, const caf::strong_actor_ptr& b) {
  auto* one = dynamic_cast<traced_actor*>(a->get());
  auto* other = dynamic_cast<traced_actor*>(b->get());
  return one != nullptr && other != nullptr && node_of(one->stats()) == node_of(other->stats());
}

void world::travel(parcel&& p) {
  const auto& origin = nodes_[static_cast<size_t>(p.from)];
  if (!origin.alive && (origin.silent || !is_news_of_end(*p.message))) {  // WLD-2
    ++counts_.lost;
    return;
  }
  const auto* m = detains ? detail::message_in(*p.message) : nullptr;
  const int64_t late_ns = m != nullptr ? detains(p.from, p.to, *m) : 0;
  if (late_ns == 0) return leave(std::move(p));
  if (late_ns < 0) {
    ++counts_.lost;
    return;
  }
  auto box = std::make_shared<parcel>(std::move(p));
  clock().call_at(now_ns() + late_ns, [this, box] { leave(std::move(*box)); });
}

void world::leave(parcel&& p) {
  const auto answer = links_.send(p.from, p.to, now_ns());
  switch (answer.what) {
    case link_model::fate::lost:
      ++counts_.lost;
      return;
    case link_model::fate::waits:
      held_.push_back(std::move(p));
      return;
    case link_model::fate::arrives:
      break;
  }
  ++counts_.crossed;
  auto box = std::make_shared<parcel>(std::move(p));
  clock().call_at(answer.at_ns, [this, box] {
    if (links_.cut(box->from, box->to))
      held_.push_back(std::move(*box));
    else if (!links_.broken(box->from, box->to))
      arrive(std::move(*box));
  });
}

int64_t world::busy_until(const actor_stats* stats) const {
  if (stats == nullptr) return 0;
  const size_t at = index_of(*stats);
  return at < busy_until_ns_.size() ? busy_until_ns_[at] : 0;
}

int64_t world::own_time_ns() const {
  return std::max(now_ns(), busy_until(current_stats()));
}

void world::block_until(int64_t at_ns) {
  const auto* stats = current_stats();
  if (stats == nullptr || at_ns <= busy_until(stats)) return;
  const size_t at = index_of(*stats);
  if (at >= busy_until_ns_.size()) busy_until_ns_.resize(at + 1, 0);
  busy_until_ns_[at] = at_ns;
}

int64_t world::blocked_until(int node) const {
  int64_t out = 0;
  for (const auto& stats : actors_of(node)) out = std::max(out, busy_until(stats.get()));
  return out;
}

/// A process that goes meanwhile has not said it.
void world::leave_at(int64_t at_ns, parcel&& p) {
  auto box = std::make_shared<parcel>(std::move(p));
  const auto& process = nodes_[static_cast<size_t>(box->from)].process;
  after(at_ns - now_ns(), box->from, process, [this, box] {
    if (box->from == box->to)
      arrive(std::move(*box));
    else
      travel(std::move(*box));
  });
}

/// When a receiver gets to a message that comes now.
int64_t world::heard_at(const actor_stats& receiver, const caf::mailbox_element& message) {
  const int64_t free_ns = std::max(busy_until(&receiver), now_ns());
  const auto* m = blocks_ns ? detail::message_in(message) : nullptr;
  const int64_t takes_ns = m == nullptr ? 0 : blocks_ns(*m);
  if (takes_ns == 0) return free_ns;
  const size_t at = index_of(receiver);
  if (at >= busy_until_ns_.size()) busy_until_ns_.resize(at + 1, 0);
  return busy_until_ns_[at] = free_ns + takes_ns;
}

void world::later(int64_t at_ns, parcel&& p) {
  auto box = std::make_shared<parcel>(std::move(p));
  clock().call_at(at_ns, [this, box] { deliver(std::move(*box)); });
}

void world::arrive(parcel&& p) {
  const int64_t at_ns = heard_at(p.receiver->stats(), *p.message);
  if (at_ns > now_ns())
    later(at_ns, std::move(p));
  else
    deliver(std::move(p));
}

void world::deliver(parcel&& p) {
  auto& there = nodes_[static_cast<size_t>(p.to)];
  if (there.frozen) {
    there.waiting.push_back(std::move(p));
    return;
  }
  if (!there.alive) {  // what is sent to a process that has gone is answered by nobody
    ++counts_.lost;
    return;
  }
  note(*p.receiver, p.self->id(), *p.message);
  const int before = std::exchange(running_node_, p.to);
  p.receiver->deliver(std::move(p.message));
  running_node_ = before;
}

uint64_t world::path_hash(const actor_stats& stats) {
  const size_t at = index_of(stats);
  if (at >= path_hash_.size()) path_hash_.resize(at + 1, 0);
  auto& known = path_hash_[at];
  if (known == 0) {
    const auto path = stats.path();
    if (path.empty()) return at + 1;
    for (const char c : path) known = mix(known * 31 + static_cast<unsigned char>(c));
    known |= 1;
  }
  return known;
}

void world::note(traced_actor& receiver, caf::actor_id to, const caf::mailbox_element& message) {
  ++counts_.events;
  auto& stats = receiver.stats();
  auto add = [this](uint64_t word) { fingerprint_ = mix(fingerprint_ ^ word) + word; };
  add(static_cast<uint64_t>(now_ns()));
  add(path_hash(stats));
  if (const auto* m = detail::message_in(message)) {
    const auto& h = m->header();
    add(uint64_t{h.type} << 32 | (names_memory(h.type) ? 0 : h.length));  // WLD-1
    add(h.span ^ h.parent << 1);
    add((h.sender & UINT32_MAX) << 32 | h.epoch);
    if (observe) observe(*m, stats);
  } else {
    add(message.mid.is_response() ? 2 : 1);
  }
  if (message.mid.is_response()) clock().cancel_request(to, message.mid);
  if (message.mid.is_request()) ++counts_.requests;
  const auto depth = stats.depth();
  if (depth > counts_.deepest && stats.view().ended_ns == 0) {  // the dead one's keeps nothing
    counts_.deepest = depth;
    if (depth > options_.mailbox_limit)
      violation(fmt::format("{} messages in the mailbox of {}", depth, stats.path()));
  }
}

// -- running --------------------------------------------------------------------------------------

void world::turn() {
  if (scheduler_->run_one()) check_new_requests();
}

bool world::run(int64_t until_ns, const std::function<bool()>& over) {
  while (!over()) {
    if (violation_) return true;
    if (!idle()) {
      turn();
      continue;
    }
    const auto next = clock().next_time();
    if (!next || *next > until_ns) return false;
    clock().advance();
  }
  return true;
}

/// Every request has a finite timeout: what was asked in the turn that has just ended is timed now,
/// or was answered already.
void world::check_new_requests() {
  for (const auto& [actor, id] : new_requests_)
    if (!clock().timed(actor, id))
      violation(fmt::format("a request without a timeout, by actor {}", actor));
  new_requests_.clear();
}

void world::after(int64_t delay_ns, int node, std::weak_ptr<int> alive,
                  std::function<void()> then) {
  auto call = [alive = std::move(alive), then = std::move(then)] {
    if (!alive.expired()) then();
  };
  clock().call_at(now_ns() + delay_ns, [this, node, call = std::move(call)] {
    auto& n = nodes_[static_cast<size_t>(node)];
    if (n.frozen)
      n.calls.push_back(call);
    else
      call();
  });
}

void world::after(int64_t delay_ns, actor_stats& stats, std::weak_ptr<int> alive,
                  std::function<void()> then) {
  after(delay_ns, node_of(stats), std::move(alive), [&stats, then = std::move(then)] {
    const stats_scope scope(&stats);  // it lives as long as its actor
    then();
  });
}

// -- faults ---------------------------------------------------------------------------------------

void world::crash(int number, bool silent) {
  auto& n = nodes_[static_cast<size_t>(number)];
  n.alive = false;
  n.silent = silent;
  n.process = nullptr;
  n.frozen = false;
  n.waiting.clear();
  n.calls.clear();
  for (const auto& stats : actors_of(number)) kill(*stats);
}

void world::restart(int number) {
  nodes_[static_cast<size_t>(number)] = place{};
  links_.renew(number);
}

void world::freeze(int number) {
  nodes_[static_cast<size_t>(number)].frozen = true;
}

void world::thaw(int number) {
  auto& n = nodes_[static_cast<size_t>(number)];
  if (!n.frozen) return;
  n.frozen = false;
  for (auto& p : std::exchange(n.waiting, {})) deliver(std::move(p));
  for (auto& call : std::exchange(n.calls, {})) call();
}

void world::partition(std::vector<int> group_of_node) {
  links_.partition(std::move(group_of_node));
}

void world::heal() {
  links_.heal();
  for (auto& p : std::exchange(held_, {})) travel(std::move(p));
}

void world::cut_ways(const std::vector<std::pair<int, int>>& ways) {
  for (const auto& [from, to] : ways) links_.cut_way(from, to);
}

void world::mend_ways(const std::vector<std::pair<int, int>>& ways) {
  for (const auto& [from, to] : ways) links_.mend_way(from, to);
  for (auto& p : std::exchange(held_, {})) travel(std::move(p));
}

void world::break_link(int a, int b) {
  links_.break_link(a, b);
  const auto between = [&](const parcel& p) {
    return (p.from == a && p.to == b) || (p.from == b && p.to == a);
  };
  counts_.lost += std::erase_if(held_, between);
  // Who stands still hears first that the connection is gone, and then from nobody by way of it.
  for (const int end : {a, b})
    counts_.lost += std::erase_if(nodes_[static_cast<size_t>(end)].waiting, between);
}

void world::violation(std::string what) {
  if (!violation_)
    violation_ = fmt::format("at {:.3f} s: {}", static_cast<double>(now_ns()) / 1e9, what);
}

}  // namespace troupe::sim
