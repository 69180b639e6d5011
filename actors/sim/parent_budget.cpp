// Lives of a budget, its neighbour, and faults.
#include "actors/sim/parent_budget.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include "actors/base/ask.hpp"
#include "actors/base/defaults.hpp"
#include "actors/sim/simulation.hpp"
#include "messages/message_list.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t ns_of_ms = 1'000'000;
constexpr int64_t ns_of_second = 1'000 * ns_of_ms;
constexpr const char* parent_host = "power";
constexpr uint16_t parent_port = 2;
constexpr const char* parent_name = "row0";
constexpr const char* job_child = "simulation";
constexpr const char* neighbour_child = "neighbour";
constexpr uint64_t neighbour_life = 1;

/// Of the budget, of the neighbour: what it needs, what it has by itself, and what it can draw.
constexpr double neighbour_floor = 0.1, neighbour_static = 0.2, neighbour_ceiling = 0.6;
/// Of its reports behind which it wishes for something else.
constexpr double wishes_change = 0.05;
/// As long as a budget that is served takes its rungs to act.
constexpr int64_t rungs_act_ns = 2'000 * ns_of_ms;
/// A write of the record takes so long, and a half more by chance.
constexpr int64_t record_write_ns = 200 * ns_of_ms;

int64_t mw_of(double w) {
  return std::llround(w * 1000);
}

int64_t static_shares_mw(const power::budget_options& o) {
  int64_t out = 0;
  for (const auto& c : o.children) out += c.terms.static_share_mw;
  return out;
}

/// The actor behind a handle, whose state is looked at between the turns of all.
template <class Pointer, class Handle>
Pointer look_into(const Handle& handle) {
  auto* actor = caf::actor_cast<caf::strong_actor_ptr>(handle)->get();
  return &dynamic_cast<std::remove_pointer_t<Pointer>&>(*actor);
}

/// POLCA's rungs, of clocks that a pace stands for.
void promise_more(power::budget_rules& rules) {
  rules.mode = power::budget_mode::thresholds;
  rules.clock_exponent = 1;
  rules.row =
      power::rules_of(power::row_rule::polca, rules.thresholds, rungs_act_ns, rules.tick_ns);
}

// -- the neighbour --------------------------------------------------------------------------------

struct neighbour_state {
  static inline const char* name = "neighbour";
  std::shared_ptr<power_neighbour> it;
  std::function<budget_actor()> find;
};
using neighbour_pointer = caf::stateful_actor<neighbour_state, traced<caf::event_based_actor>>*;

/// Its actuator follows at once, unless it is late; what is read back is what it holds.
void command(neighbour_pointer self) {
  auto& it = *self->state.it;
  const auto cap_mw = it.lease.tick(now_ns(*self));
  it.braked &= it.lease.is_leased(now_ns(*self));
  if (it.lates == 0) it.held_mw = cap_mw;
  it.lease.read_back(it.held_mw);
}

void report_neighbour(neighbour_pointer self) {
  auto& it = *self->state.it;
  command(self);
  if (it.chance.chance(wishes_change)) it.wish_mw = it.chance.between(0, it.ceiling_mw);
  const auto to = self->state.find();
  if (!to) return;
  auto said = power::message_of(it.lease.report(now_ns(*self), it.drawn_mw(), it.wish_mw));
  said.source = fbs::PowerSource::measured;
  said.pace_of_1024 = it.braked ? 0 : 1024;
  said.brake_armed = true;
  request(self, to, make_msg<fbs::PowerReport>(context_of(*self, 0), said))
      .then(
          [self](const msg<fbs::PowerGrant>& g) {
            const auto answer = power::answer_in(*g);
            self->state.it->lease.hear(answer.grant, now_ns(*self));
            self->state.it->braked = answer.brake;
            command(self);
          },
          [](const caf::error&) {});  // the next report is soon
}

caf::behavior neighbour(neighbour_pointer self, std::shared_ptr<power_neighbour> it,
                        std::function<budget_actor()> find) {
  guard_mailbox(self);
  introduce(self, "neighbour");
  self->state.it = std::move(it);
  self->state.find = std::move(find);
  self->delayed_send(self, defaults::power_report_period, caf::tick_atom_v);
  return {
      [self](caf::tick_atom) {
        report_neighbour(self);
        self->delayed_send(self, defaults::power_report_period, caf::tick_atom_v);
      },
  };
}

}  // namespace

// -- the record -----------------------------------------------------------------------------------

/// What is written is on the disk a while later.
class parent_budget::disk_record final : public power::record_keeper {
 public:
  disk_record(world& where, rng chance, std::shared_ptr<std::string> disk)
      : where_(where), chance_(chance), disk_(std::move(disk)) {}

  void keep(uint64_t number, std::string text) override {
    const auto more_ns = chance_.between(0, record_write_ns / 2);
    under_way_ = {number, std::move(text), where_.now_ns() + record_write_ns + more_ns};
  }
  std::optional<outcome> ended() override {
    if (!under_way_ || where_.now_ns() < under_way_->done_ns) return std::nullopt;
    *disk_ = std::move(under_way_->text);
    return outcome{std::exchange(under_way_, std::nullopt)->number};
  }
  /// Its process dies; what is under way may be on the disk, or not.
  void die(bool lands) {
    if (under_way_ && lands) *disk_ = std::move(under_way_->text);
    under_way_.reset();
  }

 private:
  struct write {
    uint64_t number = 0;
    std::string text;
    int64_t done_ns = 0;
  };
  world& where_;
  rng chance_;
  std::shared_ptr<std::string> disk_;
  std::optional<write> under_way_;
};

// -- lives ----------------------------------------------------------------------------------------

int parent_budget::places_of(const simulation_options& options) {
  return options.power_parent_w > 0 ? 2 : 0;
}

result<power::budget_options> parent_budget::terms_of(const simulation_options& o) {
  power::budget_options out;
  if (o.power_parent_w <= 0) return out;
  const double least_w = least_budget_w(o);
  const double fits_w = least_w / (1 - neighbour_static);
  // Not `<`: what is no number is refused, too.
  if (!(o.power_parent_w >= fits_w))
    return error{errc::bad_config,
                 fmt::format("a power budget of {:.6g} W above a job that needs {:.6g} W for its "
                             "slowest steps, and a neighbour that has {:.0f} % of it",
                             o.power_parent_w, least_w, 100 * neighbour_static),
                 fmt::format("expected {:.6g} W or more", std::ceil(fits_w))};
  const auto devices = devices_of(o);
  const power_model_options draw;
  const bool job_first = o.seed % 2 == 0;
  const auto of = [&](double share) { return mw_of(share * o.power_parent_w); };
  using enum power::power_class;
  out.name = parent_name;
  out.budget_mw = mw_of(o.power_parent_w);
  out.rules.row = power::rules_of(power::row_rule::none, {}, 0, out.rules.tick_ns);
  out.rules.pulls_brake = o.power_pulls;
  if (o.power_thresholds) promise_more(out.rules);
  out.rules.noise_mw = of(neighbour_floor) / 100;
  out.children = {
      {job_child,
       {job_first ? high : low, mw_of(least_w), mw_of(least_w),
        mw_of(std::max(least_w, devices * draw.limit_w)),
        mw_of(devices * draw.idle_w * (1 + draw.noise))}},
      {neighbour_child,
       {job_first ? low : high, of(neighbour_floor), of(neighbour_static), of(neighbour_ceiling)}}};
  std::vector<power::budget_child> children;
  for (const auto& c : out.children) children.push_back(c.terms);
  TROUPE_CHECK(power::check(out.rules, children, out.budget_mw));
  return out;
}

parent_budget::parent_budget(world& where, environment& room, power::budget_options first,
                             int place, std::function<void(const std::string&)> log)
    : where_(where),
      room_(room),
      log_(std::move(log)),
      first_(std::move(first)),
      place_(place),
      watch_(first_.rules.ttl_ns + first_.rules.tick_ns + first_.rules.actuation_ns),
      cap_mw_(first_.budget_mw) {
  if (!any()) return;
  where_.detains = [this](int from, int to, const any_msg& m) { return detain(from, to, m); };
  begin();
  const auto& terms = first_.children[1].terms;
  neighbour_ = std::make_shared<power_neighbour>(power_neighbour{
      power::lease_policy(terms.static_share_mw, neighbour_life, terms.static_share_mw),
      where_.chance().split(5), terms.ceiling_mw, terms.ceiling_mw, terms.static_share_mw});
  where_.spawn(place_ + 1, neighbour, neighbour_,
               [this] { return runs() ? actor_ : budget_actor{}; });
}

/// PBG-1
void parent_budget::begin() {
  auto o = first_;
  o.epoch = ++lives_;
  if (const auto left = power::parse_budget_record(*disk_); left && !disk_->empty()) {
    for (auto& c : o.children)
      if (const auto it = left->children_mw.find(c.name); it != left->children_mw.end())
        c.terms.remembered_mw = it->second;
    o.set = left->set;
    o.brake = left->brake;
    o.pulled = left->pulled;
    if (o.set) o.budget_mw = o.set->budget_mw;
  }
  record_ = std::make_shared<disk_record>(where_, where_.chance().split(6), disk_);
  o.keeper = record_;
  o.who = [this](const caf::strong_actor_ptr& who) { return speaker(who); };
  actor_ = where_.spawn(place_, power::budget, o);
  budget_ = look_into<power::budget_pointer>(actor_);
  const auto handle = caf::actor_cast<caf::strong_actor_ptr>(actor_);
  room_.addresses[{parent_host, parent_port}] = {handle, place_};
  if (o.brake && brakes_ == 0)  // the word that lets go was not on the disk
    where_.clock().call_at(where_.now_ns() + ns_of_second, [this] { hold_work(false); });
  handle->get()->attach_functor([this, life = lives_] {
    if (life == lives_) budget_ = nullptr;
  });
}

/// BGA-2: who it is says the machine, as a key does elsewhere.
std::optional<std::string> parent_budget::speaker(const caf::strong_actor_ptr& who) const {
  auto* it = who ? dynamic_cast<traced_actor*>(who->get()) : nullptr;
  if (it == nullptr) return std::nullopt;
  const int node = where_.node_of(it->stats());
  if (node == 0) return job_child;
  return node == place_ + 1 ? std::optional<std::string>(neighbour_child) : std::nullopt;
}

pacer_actor parent_budget::spawn_pacer(power::pacer_options options, train::spawn_record made_of) {
  made_of.incarnation = any() ? ++heads_ : 0;
  options.recorded = [made_of] { train::note_spawn_record(made_of); };
  if (!any()) return where_.spawn(0, power::pacer, std::move(options));
  power::finder_options finder;
  finder.find = [] { return power::budget_parent{parent_name, parent_host, parent_port, {}}; };
  finder.connector = [made = where_.spawn(0, sim::connector, &room_, 0)](caf::actor_system&) {
    return made;
  };
  auto& p = options.parent.emplace();
  p.named = "auto";
  p.incarnation = made_of.incarnation;
  p.finder = [made = where_.spawn(0, power::budget_finder, std::move(finder))](caf::actor_system&) {
    return made;
  };
  p.reporter = made_of.reporter;
  watch_.begin();
  holds_.begin();
  const auto out = where_.spawn(0, power::pacer, std::move(options));
  pacer_ = look_into<power::pacer_pointer>(out);
  job_mw_ = 0;
  caf::actor_cast<caf::strong_actor_ptr>(out)->get()->attach_functor([this, head = heads_] {
    if (head == heads_) pacer_ = nullptr;
  });
  return out;
}

// -- looking --------------------------------------------------------------------------------------

/// What the nodes of a head do whose pacer has gone they go on with.
int64_t parent_budget::job_in_force_mw() {
  if (pacer_ != nullptr && pacer_->state.parent)
    job_mw_ = pacer_->state.parent->lease.report(where_.now_ns(), {}, 0).in_force_mw;
  return job_mw_;
}

std::optional<std::string> parent_budget::look() {
  if (!any()) return {};
  if (budget_ != nullptr && budget_->state.policy) cap_mw_ = promised_mw();
  // What its actuator holds, and not its word alone: that could be less.
  const auto neighbour_mw = std::max(neighbour_->lease.in_force_mw(), neighbour_->held_mw);
  const auto now_ns = where_.now_ns();
  const auto too_much = watch_.in_force(job_in_force_mw() + neighbour_mw, cap_mw_, now_ns);
  if (too_much) return too_much;
  const auto stands = holds_.look(now_ns);
  return stands ? stands : holds_.draws(neighbour_->drawn_mw(), neighbour_counts_mw(), now_ns);
}

/// In thresholds all may draw their ceilings while those stand: that is what they are for.
int64_t parent_budget::promised_mw() const {
  const auto& st = budget_->state;
  if (!st.thresholds_stand) return st.cap_mw;
  int64_t out = 0;
  for (const auto& c : first_.children) out += c.terms.ceiling_mw;
  return std::max(st.cap_mw, out);
}

/// With what is no difference to it. SIM-35
std::optional<int64_t> parent_budget::neighbour_counts_mw() const {
  if (budget_ == nullptr || !budget_->state.policy || where_.frozen(place_)) return std::nullopt;
  const auto counts_mw = budget_->state.policy->counted_mw(1);
  return counts_mw + std::max(first_.rules.noise_mw, counts_mw / 100);
}

std::optional<std::string> parent_budget::see(const any_msg& m, const actor_stats& receiver) {
  if (!any() || where_.node_of(receiver) != 0) return {};
  if (const auto wrong = holds_.see(m, where_.now_ns())) return wrong;
  const bool begun = pacer_ != nullptr && pacer_->state.parent;
  return watch_.see(m, begun ? pacer_->state.parent->lease.cap_mw() : 0, where_.now_ns());
}

// -- faults ---------------------------------------------------------------------------------------

bool parent_budget::runs() const {
  return where_.alive(place_);
}

std::optional<std::string> parent_budget::befall(const fault& f) {
  switch (f.kind) {
    case fault_kind::lose_governor:
      return lose(f);
    case fault_kind::freeze_governor:
      return freeze(f);
    case fault_kind::lose_grant:
    case fault_kind::late_grant:
      return doom(f);
    case fault_kind::actuator_lies:
      return lie(f);
    case fault_kind::actuator_late:
      return delay(f);
    case fault_kind::power_brake:
      return brake(f);
    default:
      return cut(f);
  }
}

std::optional<std::string> parent_budget::lose(const fault& f) {
  if (!runs()) return std::nullopt;
  const bool silent = f.random % 2 == 0, lands = f.random / 2 % 2 == 0;
  record_->die(lands);
  where_.crash(place_, silent);
  const auto away_ns = std::max(f.lasts_ns, ns_of_ms);
  where_.clock().call_at(where_.now_ns() + away_ns, [this] {
    where_.restart(place_);
    begin();
    log_(fmt::format("the power budget begins its life {}", lives_));
  });
  return fmt::format("for {} ms{}", away_ns / ns_of_ms, silent ? ", and nobody is told" : "");
}

std::optional<std::string> parent_budget::freeze(const fault& f) {
  if (!runs() || where_.frozen(place_)) return std::nullopt;
  where_.freeze(place_);
  where_.clock().call_at(where_.now_ns() + f.lasts_ns, [this, life = lives_] {
    if (life == lives_ && runs()) where_.thaw(place_);
  });
  return fmt::format("for {} ms", f.lasts_ns / ns_of_ms);
}

/// Of the next answer to one of its children.
std::optional<std::string> parent_budget::doom(const fault& f) {
  const bool to_job = f.random % 2 == 0;
  auto& answer = to_job ? to_job_ : to_neighbour_;
  if (!runs() || answer.how != loss::none) return std::nullopt;
  const bool is_late = f.kind == fault_kind::late_grant;
  answer = {is_late ? loss::late : loss::lost, f.lasts_ns};
  return fmt::format("to {}{}", to_job ? "the job" : neighbour_child,
                     is_late ? fmt::format(", {} ms late", f.lasts_ns / ns_of_ms) : "");
}

int64_t parent_budget::detain(int from, int to, const any_msg& m) {
  if (from != place_ || m.type() != message_traits<fbs::PowerGrant>::id) return 0;
  const auto answer = std::exchange(to == 0 ? to_job_ : to_neighbour_, {});
  return answer.how == loss::none ? 0 : answer.how == loss::lost ? -1 : answer.late_ns;
}

/// Whether it is the actuator of a device of the job: of a rank that is named, or by chance.
bool parent_budget::is_of_job(const fault& f) {
  return !f.whom.empty() || f.random % 2 == 1;
}

/// It does not follow what a pace says: it draws what it drew when it began to, or all it can.
std::optional<std::string> parent_budget::stick(const fault& f) {
  auto& devices = room_.draws;
  if (devices.empty()) return std::nullopt;
  const auto at = f.random / 2 % devices.size();
  const auto named = f.whom.empty() ? 0 : static_cast<uint32_t>(std::stoul(f.whom));
  const auto it = f.whom.empty() ? std::next(devices.begin(), static_cast<std::ptrdiff_t>(at))
                                 : devices.find(named);
  if (it == devices.end()) return std::nullopt;
  auto& device = *it;
  const bool lies = f.kind == fault_kind::actuator_lies;
  const double watts = lies ? room_.draw.limit_w : device.second.last_w();
  device.second.sticks(watts);
  where_.clock().call_at(where_.now_ns() + f.lasts_ns,
                         [model = &device.second, watts] { model->follows_again(watts); });
  return fmt::format("of rank {}, which draws {:.0f} W, for {} ms", device.first, watts,
                     f.lasts_ns / ns_of_ms);
}

std::optional<std::string> parent_budget::lie(const fault& f) {
  if (is_of_job(f)) return stick(f);
  ++neighbour_->lies;
  neighbour_->wish_mw = neighbour_->ceiling_mw;
  where_.clock().call_at(where_.now_ns() + f.lasts_ns, [it = neighbour_] { --it->lies; });
  return fmt::format("of {} for {} ms", neighbour_child, f.lasts_ns / ns_of_ms);
}

std::optional<std::string> parent_budget::delay(const fault& f) {
  if (is_of_job(f)) return stick(f);
  ++neighbour_->lates;
  where_.clock().call_at(where_.now_ns() + f.lasts_ns, [it = neighbour_] { --it->lates; });
  return fmt::format("of {} for {} ms", neighbour_child, f.lasts_ns / ns_of_ms);
}

/// A person lets go whoever the budget is by then; while none runs he tries again.
std::optional<std::string> parent_budget::brake(const fault& f) {
  if (!runs() || where_.frozen(place_)) return std::nullopt;
  ++brakes_;
  hold_work(true);
  where_.clock().call_at(where_.now_ns() + f.lasts_ns, [this] {
    --brakes_;
    hold_work(false);
  });
  return fmt::format("for {} ms", f.lasts_ns / ns_of_ms);
}

void parent_budget::hold_work(bool on) {
  if (!on && brakes_ > 0) return;
  if (!runs()) {
    where_.clock().call_at(where_.now_ns() + ns_of_second, [this, on] { hold_work(on); });
    return;
  }
  caf::anon_send(actor_, make_msg<fbs::SetPowerBrake>({}, [&](auto& s) {
                   s.budget = parent_name;
                   s.on = on;
                 }));
}

/// No less than what children have by themselves: less is refused. For a while, or for good.
std::optional<std::string> parent_budget::cut(const fault& f) {
  const auto least_mw = static_shares_mw(first_);
  if (!runs() || where_.frozen(place_) || least_mw >= first_.budget_mw) return std::nullopt;
  const auto cap_mw = least_mw + static_cast<int64_t>(
                                     f.random % static_cast<uint64_t>(first_.budget_mw - least_mw));
  const int64_t for_ms = f.random / 2 % 2 == 0 ? f.lasts_ns / ns_of_ms : 0;
  caf::anon_send(actor_, make_msg<fbs::SetPowerBudget>({}, [&](auto& s) {
                   s.budget = parent_name;
                   s.cap_mw = cap_mw;
                   s.for_ms = static_cast<uint64_t>(for_ms);
                 }));
  return fmt::format("of {} to {:.1f} W{}", parent_name, static_cast<double>(cap_mw) / 1000,
                     for_ms > 0 ? fmt::format(" for {} ms", for_ms) : "");
}

}  // namespace troupe::sim
