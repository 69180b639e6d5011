// Processes of heads: they stand by, act, fall, die and come back.
#include "actors/sim/heads.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <caf/send.hpp>

#include "actors/cluster/coordinator.hpp"
#include "actors/sim/blame_watch.hpp"
#include "actors/sim/folder_watch.hpp"
#include "actors/sim/heads_watch.hpp"
#include "actors/sim/invariants.hpp"
#include "actors/sim/node_processes.hpp"
#include "actors/train/succession.hpp"
#include "io/base/counted.hpp"
#include "io/config/heads.hpp"
#include "io/disk/storage.hpp"
#include "messages/errors.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t each_ms = 1'000'000;
constexpr int64_t each_second = 1'000 * each_ms;
/// What a process of a head takes to end and to begin anew as another.
constexpr int64_t turn_ns = 20 * each_ms;
/// Standbys have heard of the head that acts by then: before that none takes a job over (TKO-1).
constexpr int64_t heard_ns = 1'500 * each_ms;
/// Before a fault: the job makes its first step in that.
constexpr int64_t first_step_ns = 20 * each_second;
/// After the last fault the job is over by then (SIM-20), and all processes a while later.
constexpr int64_t end_within_ns = 600 * each_second;
constexpr int64_t gone_within_ns = 300 * each_second;

enum class doing : uint8_t { away, stands_by, prepares, acts, is_over };

/// A head that acted, or does.
struct term {
  int place = 0;  ///< of heads
  uint32_t epoch = 0;
  uint64_t resumed_step = 0;
  std::shared_ptr<told> heard = std::make_shared<told>();
  bool over = false;  ///< its process went, or it acted no more
  size_t steps_seen = 0;
};

/// A place where a head's process runs.
struct head_place {
  int at = 0;  ///< in the world
  std::string address;
  doing what = doing::away;
  int process = 0;  ///< its number
  elector_actor elector;
  coordinator_actor coordinator;
  std::optional<heads::won_epoch> won;
  std::optional<train::lost_head> lost;  ///< whom it goes on for
  std::shared_ptr<term> acting;
  bool is_cut_off = false;  ///< nothing told it that the job is over, nor can tell it any more
};

class heads_simulation {
 public:
  heads_simulation(const simulation_options& options, heads_means means);
  ~heads_simulation() { world_.end(); }
  simulation_outcome run();

 private:
  using ways = std::vector<std::pair<int, int>>;

  static world_options world_options_of(const simulation_options& o) {
    auto w = world_of(o);
    w.nodes = o.nodes + o.spares + o.heads + 1;  // place 0 is the server of the files
    return w;
  }
  heads_watch::rules watch_rules() const {
    const int64_t takeover_ns = means_.plan.job.recovery.head_takeover_s * each_second;
    return {config::voters_of(means_.plan.job.cluster).size(), 2 * takeover_ns + 20 * each_second};
  }

  void log(const std::string& text) {
    if (options_.log)
      std::fputs(
          fmt::format("{:10.3f} s  {}\n", static_cast<double>(world_.now_ns()) / 1e9, text).c_str(),
          stderr);
  }
  void later(int64_t delay_ns, std::function<void()> then) {
    world_.clock().call_at(world_.now_ns() + delay_ns, std::move(then));
  }
  const config::job& job() const { return means_.plan.job; }
  std::filesystem::path output() const { return job().job.output; }
  bool is_present(const head_place& h, int process) const { return h.process == process; }

  // -- processes
  void end_process(int place);
  int begin_process(head_place& h, doing what);
  void start_node(int n);
  void node_ended(int n);
  void check_votes(const std::string& voter, int place);
  // -- heads
  void listen(const head_place& h, const caf::strong_actor_ptr& who);
  std::function<caf::actor(caf::actor_system&)> connector_of(const head_place& h);
  void stand_by(head_place& h, heads::takeover_policy::rules how);
  void act(head_place& h);
  void conclude(head_place& h, int process);
  void end_head(head_place& h);
  bool is_gone(const head_place& h) const;
  std::optional<std::string> end_by_votes();
  void look();
  // -- faults
  bool is_lasting() const { return last_heals_ns_ > world_.now_ns(); }
  head_place* victim_of(const fault& f);
  void come(size_t which);
  void befall(const fault& f);
  void crash_head(const fault& f);
  void freeze(const fault& f, int place, const std::string& name);
  void cut_head(const fault& f);
  void person(const fault& f);
  void did(const fault& f, const std::string& what);
  ways all_ways_of(int place) const;
  void watch_links(const ways& of);
  std::vector<caf::strong_actor_ptr> ends_of(int place) const;
  // -- judging
  bool over();
  void judge();
  size_t voters_there() const;

  simulation_options options_;
  heads_means means_;
  world world_;
  environment room_;
  node_processes nodes_;
  folder_watch folders_;
  heads_watch watch_;
  std::vector<head_place> heads_;
  std::vector<std::shared_ptr<term>> terms_;
  std::optional<int64_t> over_ns_;  ///< since when the job is
  int64_t last_heals_ns_ = 0;
  int processes_ = 0;
  uint64_t launches_ = 0;
  fault_record record_;
  std::vector<std::string> ends_;
};

heads_simulation::heads_simulation(const simulation_options& options, heads_means means)
    : options_(options),
      means_(std::move(means)),
      world_(world_options_of(options)),
      room_(world_, options.times, options.swap),
      nodes_(world_, room_, options_, means_.plan, options.nodes + options.spares),
      folders_(world_, room_, options_),
      watch_(world_, watch_rules()),
      record_(options_.faults) {
  room_.plans = means_.shares;
  room_.ring = means_.ring;
  room_.reconnects = true;
  if (auto made = io::make_folders(room_.files.timeless(), output()); !made)
    world_.violation(render(made.error()));
  nodes_.log = [this](const std::string& text) { log(text); };
  nodes_.end_process = [this](int n) { node_ended(n); };
  for (size_t i = 0; i < job().cluster.heads.size(); ++i) {
    auto& h = heads_.emplace_back();
    h.at = nodes_.count() + 1 + static_cast<int>(i);
    h.address = job().cluster.heads[i];
    watch_.is_at(h.at, h.address);
  }
  world_.observe = [this](const any_msg& m, const actor_stats& receiver) {
    if (options_.sees) options_.sees(m, world_.now_ns());
    watch_.saw(m, receiver);
  };
}

// -- processes ------------------------------------------------------------------------------------

void heads_simulation::end_process(int place) {
  room_.files.end_process(place);
  world_.crash(place, false);
}

/// In the place of the one that is there, if any is.
int heads_simulation::begin_process(head_place& h, doing what) {
  if (h.process > 0 && world_.alive(h.at)) end_process(h.at);
  world_.restart(h.at);
  h.what = what;
  h.elector = elector_actor{};
  h.coordinator = coordinator_actor{};
  check_votes(h.address, h.at);
  return h.process = ++processes_;
}

/// SIM-17: by what lies on the disk of a voter that begins.
void heads_simulation::check_votes(const std::string& voter, int place) {
  auto& files = room_.files.timeless();
  if (!files.open_source(output() / heads::votes_folder / voter, io::pages::keep)) return;
  const auto votes = heads::vote_store::open(files, output(), voter);
  if (!votes) return world_.violation(render(votes.error()));
  watch_.voter_finds(place, votes->promises().epoch());
}

void heads_simulation::start_node(int n) {
  if (over_ns_ || (nodes_.process(n) > 0 && world_.alive(n))) return;
  world_.restart(n);
  check_votes(nodes_.name_of(n), n);
  nodes_.start(n, job().cluster.heads);
}

void heads_simulation::node_ended(int n) {
  end_process(n);
  later(options_.launch_ns, [this, n] { start_node(n); });
}

// -- heads ----------------------------------------------------------------------------------------

void heads_simulation::listen(const head_place& h, const caf::strong_actor_ptr& who) {
  const auto place = config::head_place_of(h.address);
  room_.addresses[{place->host, place->port}] = {who, h.at};
}

std::function<caf::actor(caf::actor_system&)> heads_simulation::connector_of(const head_place& h) {
  const auto made = caf::actor_cast<caf::actor>(world_.spawn(h.at, sim::connector, &room_, h.at));
  return [made](caf::actor_system&) { return made; };
}

/// As apps/up/standby.cpp has it: one that acts, or is about to, holds the folder of the job.
std::optional<std::string> heads_simulation::end_by_votes() {
  const bool held = std::any_of(heads_.begin(), heads_.end(),
                                [](const head_place& h) { return h.what == doing::acts; });
  if (held) return std::nullopt;
  const auto end = heads::end_of_job(room_.files.timeless(), output());
  return end ? std::optional(end->reason) : std::nullopt;
}

void heads_simulation::stand_by(head_place& h, heads::takeover_policy::rules how) {
  const int process = begin_process(h, doing::stands_by);
  heads::elector_options o;
  o.name = h.address;
  o.cluster = job().cluster;
  o.output = output();
  o.takeover = train::takeover_rules(how, job(), h.address);
  o.files = &room_.files.of(h.at).files();
  o.connector = connector_of(h);
  o.tell = [this, &h](const std::string& text) { log(h.address + ": " + text); };
  o.has_ended = [this] { return end_by_votes(); };
  o.over = [this, &h, process](const std::string&) {
    later(turn_ns, [this, &h, process] {
      if (is_present(h, process)) end_head(h);
    });
  };
  o.decided = [this, &h, process](const heads::won_epoch& won) {
    if (!is_present(h, process)) return;
    log(fmt::format("the head at {} won epoch {} with {}", h.address, won.epoch,
                    counted(won.voters, "vote")));
    watch_.won(h.at, won);
    h.what = doing::prepares;
    h.won = won;
    if (!h.lost) h.lost = train::lost_head_of(won);
    later(turn_ns + room_.about(options_.prepare_ns), [this, &h, process] {
      if (is_present(h, process) && world_.alive(h.at) && h.what == doing::prepares) act(h);
    });
  };
  h.elector = world_.spawn(h.at, heads::elector, std::move(o));
  listen(h, caf::actor_cast<caf::strong_actor_ptr>(h.elector));
}

/// As apps/up/head.cpp has it, from the journal to the coordinator.
void heads_simulation::act(head_place& h) {
  if (world_.frozen(h.at)) return later(each_second, [this, &h, process = h.process] {
    if (is_present(h, process) && h.what == doing::prepares) act(h);
  });
  const int process = begin_process(h, doing::acts);
  auto& storage = room_.files.of(h.at);
  auto from = train::succeed(storage.files(), job(), 1, {h.lost, false, h.won});
  if (from.not_kept) return world_.violation(render(*from.not_kept));
  const auto mine = std::make_shared<term>(term{static_cast<int>(&h - heads_.data())});
  train::spawn_record record{mine->epoch = from.epoch};
  record.plan = means_.plan;
  record.resume = folders_.begin(++launches_);
  record.launch = room_.launch.launch;
  record.first_launch = from.first_launch;
  if (record.resume) mine->resumed_step = record.resume->step;
  log(fmt::format("the head at {} acts in epoch {} from step {}", h.address, from.epoch,
                  mine->resumed_step));
  watch_.begins(h.at, h.won ? h.won->epoch : from.epoch, mine->resumed_step);
  record.reporter = world_.spawn(h.at, sim::reporter, mine->heard);
  auto elector = train::acting_elector(job(), h.address, from);
  elector.files = &storage.files();
  elector.connector = connector_of(h);
  record.elector = h.elector = world_.spawn(h.at, heads::elector, std::move(elector));
  from.journal->elector = h.elector;
  record.journal = world_.spawn(h.at, train::journal, from.journal);
  record.memory = from.memory;
  record.cluster = from.cluster;
  h.acting = mine;
  terms_.push_back(mine);
  h.coordinator = world_.spawn(h.at, cluster::coordinator, std::move(record), &storage);
  const auto handle = caf::actor_cast<caf::strong_actor_ptr>(h.coordinator);
  listen(h, handle);
  handle->get()->attach_functor([this, &h, process] {
    later(turn_ns, [this, &h, process] { conclude(h, process); });
  });
}

/// CRD-18: one that acts no more stands by; any other end is that of the job.
void heads_simulation::conclude(head_place& h, int process) {
  if (!is_present(h, process) || !world_.alive(h.at)) return;
  if (world_.frozen(h.at)) return later(each_second, [this, &h, process] { conclude(h, process); });
  look();
  auto& heard = *h.acting->heard;
  h.acting->over = true;
  if (heard.ends.empty())
    return world_.violation(fmt::format("the head at {} ended without a word", h.address));
  const auto& e = heard.ends.front();
  const error why{static_cast<errc>(e.code), e.message, e.hint, e.kind};
  log(fmt::format("the head at {} ends: {}", h.address, why.message));
  if (train::acts_no_more(why)) {
    const auto last = heard.steps.empty() ? 0 : heard.steps.back();
    if (last > 0) h.lost = train::fallen_head(why, last, world_.now_ns());
    return stand_by(h, train::rules_after_fall(last));
  }
  for (auto& other : heads_)
    other.is_cut_off |= !world_.passes(h.at, other.at) || !world_.passes(other.at, h.at) ||
                        world_.broken(h.at, other.at);
  end_head(h);
}

void heads_simulation::end_head(head_place& h) {
  h.what = doing::is_over;
  end_process(h.at);
}

/// It ended, or waits for a person: with a vote on a disk of its own, it can hear no more that the
/// job is over.
bool heads_simulation::is_gone(const head_place& h) const {
  if (h.what == doing::away || h.what == doing::is_over) return true;
  return h.what == doing::stands_by && h.is_cut_off;
}

/// What reporters were told since.
void heads_simulation::look() {
  if (terms_.empty()) return;
  for (const auto& t : terms_) {
    if (t->heard->saved_step > 0) watch_.told_saved(heads_[static_cast<size_t>(t->place)].at,
                                                    t->heard->saved_step);
    if (over_ns_ || t->heard->ends.empty()) continue;
    const auto& e = t->heard->ends.front();
    const error why{static_cast<errc>(e.code), e.message, e.hint, e.kind};
    if (train::acts_no_more(why)) continue;
    over_ns_ = world_.now_ns();
    ends_.push_back(e.code == 0 ? "success" : e.message);
    watch_.over(t->place);
    if (e.code != 0) world_.violation(fmt::format("the job ends: {}", render(why)));  // SIM-20
  }
  folders_.look(*terms_.back()->heard);
}

// -- faults ---------------------------------------------------------------------------------------

void heads_simulation::did(const fault& f, const std::string& what) {
  log(record_.did(f, what, world_.now_ns()));
}

/// Mostly the newest that acts.
head_place* heads_simulation::victim_of(const fault& f) {
  if (f.random % 4 != 0)
    for (auto t = terms_.rbegin(); t != terms_.rend(); ++t)
      if (auto& h = heads_[static_cast<size_t>((*t)->place)]; h.acting == *t && !(*t)->over)
        return &h;
  auto& h = heads_[(f.random >> 3) % heads_.size()];
  return h.what == doing::away || h.what == doing::is_over ? nullptr : &h;
}

void heads_simulation::come(size_t which) {
  const auto& f = options_.faults[which];
  record_.come(which);
  if (!over_ns_) befall(f);
  record_.settle(f, over_ns_ ? "the job was over by then" : "");
}

void heads_simulation::befall(const fault& f) {
  switch (f.kind) {
    case fault_kind::crash_head:
      return crash_head(f);
    case fault_kind::freeze_head:
      if (auto* h = victim_of(f)) freeze(f, h->at, h->address);
      return;
    case fault_kind::head_cut:
      return cut_head(f);
    case fault_kind::freeze_node: {
      const int n = 1 + static_cast<int>(f.random % static_cast<uint64_t>(nodes_.count()));
      if (nodes_.lives(n)) freeze(f, n, nodes_.name_of(n));
      return;
    }
    case fault_kind::crash_node: {
      const int n = 1 + static_cast<int>(f.random % static_cast<uint64_t>(nodes_.count()));
      if (nodes_.process(n) == 0 || !world_.alive(n)) return;
      did(f, nodes_.name_of(n));
      room_.files.lose(n);
      return node_ended(n);
    }
    case fault_kind::save_now:
    case fault_kind::set_value:
      return person(f);
    default:
      return record_.missed(f, "it is not simulated with several heads", "leave --heads out");
  }
}

/// Its launcher starts it again at once, or somebody does after a while.
void heads_simulation::crash_head(const fault& f) {
  auto* victim = victim_of(f);
  if (victim == nullptr) return;
  auto& h = *victim;
  const bool acted = h.what == doing::acts;
  const bool by_launcher = (f.random >> 8) % 2 == 0;
  const auto away_ns = by_launcher ? options_.launch_ns : std::max(options_.launch_ns, f.lasts_ns);
  did(f, fmt::format("at {}, for {} ms", h.address, away_ns / each_ms));
  look();
  room_.files.lose(h.at);
  world_.crash(h.at, false);
  h.what = doing::away;
  h.process = ++processes_;
  h.won.reset();
  h.lost.reset();
  if (acted) {
    h.acting->over = true;
    const auto& steps = h.acting->heard->steps;
    if (by_launcher && !steps.empty())
      h.lost = {"was killed by signal 9", steps.back(), steps.back(), world_.now_ns()};
  }
  later(away_ns, [this, &h, process = h.process] {
    if (!is_present(h, process)) return;
    log(fmt::format("the head at {} is started again", h.address));
    stand_by(h, {.at_once = h.lost.has_value()});
  });
}

void heads_simulation::freeze(const fault& f, int place, const std::string& name) {
  if (!world_.alive(place) || world_.frozen(place)) return;
  did(f, fmt::format("{} for {} ms", name, f.lasts_ns / each_ms));
  world_.freeze(place);
  watch_links(all_ways_of(place));
  later(f.lasts_ns, [this, place] {
    world_.thaw(place);
    watch_.woke(place);
  });
}

heads_simulation::ways heads_simulation::all_ways_of(int place) const {
  ways out;
  const int all = nodes_.count() + static_cast<int>(heads_.size());
  for (int other = 1; other <= all; ++other)
    if (other != place) out.insert(out.end(), {{place, other}, {other, place}});
  return out;
}

/// From all, from the other heads, or from the nodes; both ways, or one.
void heads_simulation::cut_head(const fault& f) {
  auto* h = victim_of(f);
  if (h == nullptr) return;
  const auto whom = (f.random >> 8) % 3, which = (f.random >> 16) % 4;
  auto cut = all_ways_of(h->at);
  std::erase_if(cut, [&](const auto& way) {
    const int other = way.first == h->at ? way.second : way.first;
    const bool is_node = other <= nodes_.count();
    const bool outward = way.first == h->at;
    return (whom == 1 && is_node) || (whom == 2 && !is_node) || (which == 2 && !outward) ||
           (which == 3 && outward);
  });
  constexpr const char* from_whom[] = {"all", "the heads", "the nodes"};
  constexpr const char* ways_cut[] = {"both ways", "both ways", "outward", "inward"};
  did(f, fmt::format("{} from {}, {}, for {} ms", h->address, from_whom[whom], ways_cut[which],
                     f.lasts_ns / each_ms));
  world_.cut_ways(cut);
  watch_links(cut);
  later(f.lasts_ns, [this, cut] { world_.mend_ways(cut); });
}

/// Who at a place knows, or is known to, others.
std::vector<caf::strong_actor_ptr> heads_simulation::ends_of(int place) const {
  std::vector<caf::strong_actor_ptr> out;
  if (!world_.alive(place)) return out;
  if (place <= nodes_.count()) {
    if (nodes_.lives(place)) out.push_back(nodes_.actor(place));
    return out;
  }
  const auto& h = heads_[static_cast<size_t>(place - nodes_.count() - 1)];
  if (h.elector) out.push_back(caf::actor_cast<caf::strong_actor_ptr>(h.elector));
  if (h.coordinator) out.push_back(caf::actor_cast<caf::strong_actor_ptr>(h.coordinator));
  return out;
}

/// CAF gives a connection up that has been silent for twice the dead time (network.cpp), and both
/// ends hear of it.
void heads_simulation::watch_links(const ways& of) {
  later(2 * options_.dead_after_ms * each_ms, [this, of] {
    for (const auto& [a, b] : of) {
      const bool stands = world_.reachable(a, b) && world_.reachable(b, a);
      if (stands || !world_.alive(a) || !world_.alive(b) || world_.broken(a, b)) continue;
      log(fmt::format("the connection of {} and {} breaks", a, b));
      world_.break_link(a, b);
      for (const auto& one : ends_of(a))
        for (const auto& other : ends_of(b)) {
          tell_down(one, other);
          tell_down(other, one);
        }
    }
  });
}

void heads_simulation::person(const fault& f) {
  auto* h = victim_of(f);
  if (h == nullptr || h->what != doing::acts) return;
  const auto all = world_.actors_of(h->at);
  const auto found = std::find_if(all.begin(), all.end(),
                                  [](const auto& stats) { return stats->path() == "run"; });
  if (found == all.end()) return;
  const auto run = caf::actor_cast<run_actor>((*found)->handle());
  did(f, "");
  if (f.kind == fault_kind::save_now) return caf::anon_send(run, make_msg<fbs::CheckpointNow>());
  if (f.kind == fault_kind::set_value)
    return caf::anon_send(run, make_msg<fbs::SetValue>({}, [](auto& s) {
                            s.key = "train.lr";
                            s.value = "0.001";
                          }));
}

// -- judging --------------------------------------------------------------------------------------

bool heads_simulation::over() {
  look();
  if (!over_ns_) return false;
  for (const auto& h : heads_)
    if (!is_gone(h)) return false;
  for (int n = 1; n <= nodes_.count(); ++n)
    if (world_.alive(n) && nodes_.lives(n)) return false;
  return true;
}

/// Those that could promise an epoch to a standby: a node's voter is there once it has joined.
size_t heads_simulation::voters_there() const {
  size_t out = 0;
  for (const auto& h : heads_) out += h.what != doing::away && h.what != doing::is_over;
  for (int n = 1; n <= nodes_.count(); ++n)
    for (const auto& stats : world_.actors_of(n)) out += stats->path().starts_with("voter/");
  return out;
}

/// What each head told, as of a launch that may have failed.
void heads_simulation::judge() {
  blame_watch blame;  // of SIM-24; whom a fault of a link ails nobody knows
  blame.touched_all();
  for (const auto& t : terms_) {
    launch_report r;
    r.target_steps = static_cast<uint64_t>(options_.steps);
    r.resumed_step = t->resumed_step;
    r.steps = t->heard->steps;
    r.epochs = t->heard->epochs;
    r.saved_before = t->heard->saved_before;
    r.spoke_after_end = t->heard->spoke_after_end;
    r.keeps_some = true;  // by the next head's line, too
    r.head_lost = true;
    r.worst = harm::fatal;
    r.checkpoints = folders_.checkpoints();
    for (const auto& e : t->heard->ends) r.ends.push_back({e.code, e.message, e.checkpoint});
    if (const auto broken = sim::judge(r)) world_.violation(*broken);
    if (const auto broken = blame.judge(t->heard->incidents, t->heard->notices))
      world_.violation(*broken);
  }
}

simulation_outcome heads_simulation::run() {
  const auto begun = std::chrono::steady_clock::now();
  for (size_t i = 0; i < heads_.size(); ++i) {
    auto& h = heads_[i];
    if (i == 0)
      act(h);
    else
      later(world_.chance().between(0, 500 * each_ms), [this, &h] { stand_by(h, {}); });
  }
  for (int n = 1; n <= nodes_.count(); ++n)
    later(heard_ns + world_.chance().between(0, 50 * each_ms), [this, n] { start_node(n); });
  const auto first_step = [this] { return !terms_.front()->heard->steps.empty() || over(); };
  if (!world_.run(world_.now_ns() + first_step_ns, first_step))
    world_.violation("the job makes no first step");
  const auto faults_from_ns = last_heals_ns_ = world_.now_ns();
  for (size_t i = 0; i < options_.faults.size(); ++i) {
    const auto& f = options_.faults[i];
    last_heals_ns_ = std::max(last_heals_ns_, world_.now_ns() + f.at_ns + f.lasts_ns);
    later(f.at_ns, [this, i] { come(i); });
  }
  const auto stuck = [this] { return over() || over_ns_; };
  if (!world_.run(last_heals_ns_ + end_within_ns, stuck)) {
    const auto there = voters_there();
    const auto all = config::voters_of(job().cluster).size();
    ends_.push_back(fmt::format("{} of {} voters are left", there, all));
    if (2 * there > all)
      world_.violation(fmt::format("the job does not go on, though {} of {} voters are there",
                                   there, all));  // SIM-20
  } else if (!world_.run(std::max(world_.now_ns(), last_heals_ns_) + gone_within_ns,
                         [this] { return over(); })) {
    std::string who;
    for (const auto& h : heads_)
      if (!is_gone(h)) who += " " + h.address;
    world_.violation(fmt::format("the job is over, and these stay:{}", who));  // SIM-21
  }
  if (!world_.violated() && over_ns_) judge();
  simulation_outcome out;
  out.seed = options_.seed;
  out.violation = world_.violated();
  out.counts = world_.counts();
  out.fingerprint = world_.fingerprint();
  out.virtual_ns = world_.now_ns();
  out.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  for (const auto& t : terms_) add_told(*t->heard, out);
  out.launches = 1;
  out.takeovers = watch_.takeovers();
  record_.over(world_.now_ns() - faults_from_ns);
  out.missed = std::move(record_).without_effect();
  out.faults = std::move(record_).done();
  out.ends = std::move(ends_);
  return out;
}

}  // namespace

simulation_outcome simulate_heads(const simulation_options& options, heads_means means) {
  return heads_simulation(options, std::move(means)).run();
}

}  // namespace troupe::sim
